"""Options of a training run: from the command line, from a file, and invalid ones."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest

from tests.helpers import refusals
from training import train_expert, train_value
from training.config import Launch, from_dict, parse, read_file, to_dict
from training.policy.config import PolicyConfig
from training.updates import Optimizer
from training.value.config import ValueConfig
from training.value.learning import Loss
from training.value.selfplay import SelfPlay
from unojax import value
from unojax.belief.opponents import parse_opponent
from unojax.belief.updaters import ParticleFilter
from unojax.rules import Rules
from unojax.value import NetworkConfig, load_pretrained

PROGRAMS = 80  # networks begin outside `jit`
PLAIN = str(Path(value.__file__).parent / "value.safetensors")
DEFAULT = ValueConfig()
FILE = """
seed = 7
run = "runs/from-file"
init = "pretrained"
[network]
width = 24
[play]
opponents = ["self", "uniform"]
belief = "unseen"
[optimizer]
learning_rate = 1
"""


@pytest.fixture
def parse_text(tmp_path: Path):
    """Parse a file with this text, and options before or after it."""

    def parsed(text: str, *options: str, default: ValueConfig = DEFAULT) -> ValueConfig:
        (tmp_path / "some.toml").write_text(text)
        return parse(["--config", str(tmp_path / "some.toml"), *options], default)[0]

    return parsed


def test_options_of_the_command_line():
    assert parse([], DEFAULT) == (DEFAULT, Launch())
    config, launch = parse(
        "--games 512 --run some/where --network.width 16 --network.policy-head --play.opponents self linear --loss.trace 0.9"
        " --loss.policy-weight 0.5 --init pretrained --resume --devices 3 --evaluation.opponents uniform".split(),
        DEFAULT,
    )
    assert (config.games, config.run, config.init) == (512, Path("some/where"), "pretrained")
    assert config.network == NetworkConfig(width=16, matches=True, policy_head=True, types=True)
    assert config.play == SelfPlay(opponents=("self", "linear"))
    assert config.loss == dataclasses.replace(DEFAULT.loss, trace=0.9, policy_weight=0.5)
    assert config.evaluation.opponents == ("uniform",) and launch == Launch(resume=True, devices=3)


def test_parsing_initializes_no_devices():
    script = """
from training.config import parse
from training.value.config import ValueConfig
options = ["--play.opponents", "self", "pretrained", "--init", "pretrained", "--evaluation.opponents", "uniform", "value"]
config, _ = parse(options, ValueConfig())
assert config.play.opponents == ("self", "pretrained")
import jax
jax.config.update("jax_num_cpu_devices", 2)
assert len(jax.devices("cpu")) == 2
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


def test_a_file_changes_what_it_names_and_options_precede_it(parse_text, tmp_path: Path):
    config = parse_text(FILE)
    assert config == dataclasses.replace(
        DEFAULT,
        seed=7,
        run=Path("runs/from-file"),
        init="pretrained",
        network=dataclasses.replace(DEFAULT.network, width=24),
        play=SelfPlay(opponents=("self", "uniform"), belief="unseen"),
        optimizer=dataclasses.replace(DEFAULT.optimizer, learning_rate=1.0),
    )
    assert isinstance(config.optimizer.learning_rate, float)
    assert parse_text(FILE, "--seed", "8") == dataclasses.replace(config, seed=8)
    before = parse(["--seed", "8", f"--config={tmp_path / 'some.toml'}"], DEFAULT)[0]
    assert before == dataclasses.replace(config, seed=8)
    other = parse_text(FILE, "--network.width", "12", "--play.opponents", "self")
    assert other.network.width == 12 and other.play.opponents == ("self",) and other.play.belief == "unseen"
    # The configuration and the script have other defaults than the parts.
    assert DEFAULT.loss != Loss()
    assert parse_text("[loss]\ntrace = 0.5").loss == dataclasses.replace(DEFAULT.loss, trace=0.5)
    expert = train_expert.DEFAULT
    play = dataclasses.replace(expert.play, explore=0.2)
    changed = parse_text("seed = 3\n[play]\nexplore = 0.2", default=expert)
    assert changed == dataclasses.replace(expert, seed=3, play=play) and parse([], expert)[0] == expert
    # Checks are of file and options together.
    assert parse_text("[network]\npolicy_head = true", "--loss.policy-weight", "0.5").loss.policy_weight == 0.5


def test_files_and_options_are_refused(parse_text, capsys: pytest.CaptureFixture, tmp_path: Path):
    texts = {
        "sede": "sede = 3",
        "opponent": "[play]\nopponent = 'self'",
        "plays": "[plays]\nexplore = 0.1",
        "play": "play = 3",
        "seed (text)": "seed = 'x'",
        "seed (fraction)": "seed = 1.5",
        "seed (bool)": "seed = true",
        "run": "run = 3",
        "init": "init = 3",
        "policy_head": "[network]\npolicy_head = 1",
        "trace (text)": "[loss]\ntrace = 'one'",
        "loss.trace (range)": "[loss]\ntrace = 1.5",
        "opponents (text)": "[play]\nopponents = 'self'",
        "opponents (number)": "[play]\nopponents = [1]",
        "belief": "[play]\nbelief = 'exact'",
        "some.toml": "seed = ",
    }
    calls: dict[str, Any] = {key: lambda text=text: parse_text(text) for key, text in texts.items()}
    refusals(calls | {"none.toml": lambda: read_file(tmp_path / "none.toml")})
    for args in (["--sede", "3"], ["--play.opponent", "self"], ["--seed", "x"], ["--play.belief", "exact"]):
        with pytest.raises(SystemExit) as stop:
            parse(args, DEFAULT)
        assert stop.value.code == 2
        assert args[0].lstrip("-") in capsys.readouterr().err.replace("_", "-")


def changed(**parts: Any) -> ValueConfig:
    """Return the defaults with changed fields of nested configurations: play={"explore": 2}."""
    for name, part in parts.items():
        parts[name] = dataclasses.replace(getattr(DEFAULT, name), **part) if isinstance(part, dict) else part
    return dataclasses.replace(DEFAULT, **parts)


INVALID: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("iterations", "updates", "epochs", "checkpoint_every"), (0,)),
    **dict.fromkeys(("evaluation.every", "evaluation.final_games", "play.particles", "play.max_steps"), (0,)),
    "games": (0, 1000),
    "seed": (-1, 2**32),
    "init": ("heuristic",),
    "evaluation.opponents": ((),),
    "loss.trace": (-0.1,),
    "loss.shown": (2,),
    "loss.policy_weight": (math.inf, 1.0),
    "loss.belief_weight": (1.0,),
    "loss.advantage_weight": (-1.0,),
    "play.explore": (1.5, math.nan),
    "play.opponents": ((), ("self", "nobody")),
    "play.search": (-1,),
    "play.search_weight": (-1.0, 1.0),
    "play.temperature": (-0.5, math.nan),
    "optimizer.learning_rate": (0.0, -0.1, math.nan, math.inf),
    "optimizer.warmup": (5.0, 1.0),
    "optimizer.final": (1.5,),
    "optimizer.weight_decay": (-1.0, math.inf),
    "optimizer.clip": (0.0, math.nan),
    "optimizer.average": (1.0,),
}


def test_invalid_configurations_are_refused():
    calls: dict[str, Any] = {}
    for path, values in INVALID.items():
        part, _, name = path.rpartition(".")
        for wrong in values:
            options = {part: {name: wrong}} if part else {name: wrong}
            calls[f"{path} ({wrong!r})"] = lambda options=options: changed(**options)
    refusals(
        calls
        | {
            "'best'": lambda: changed(play={"model": "best"}),
            "loss.advantage_weight (no search)": lambda: changed(play={"search": 0}),
            "play.follow_search (no search)": lambda: changed(play={"search": 0, "follow_search": True}),
            "follow_search (no belief)": lambda: changed(play={"follow_search": True, "belief": "unseen"}),
            "play.search_weight (infinite)": lambda: changed(play={"follow_search": True, "search_weight": math.inf}),
            "--network.policy-head": lambda: changed(loss={"policy_weight": 1.0}),
            "--network.belief-head": lambda: changed(loss={"belief_weight": 1.0}),
            "devices": lambda: Launch(devices=-1),
            "rules": lambda: SelfPlay(rules="mine"),
            # Options that would have no effect, hours later.
            "network.policy_head": lambda: changed(network={"policy_head": True}).check(),
            "network.belief_head": lambda: changed(network={"belief_head": True}).check(),
            "play.search": lambda: changed(loss={"advantage_weight": 0.0}).check(),
            "may_draw=True": lambda: changed(play={"rules": "official", "opponents": ("self", PLAIN)}).check(),
            "'nobody'": lambda: changed(evaluation={"opponents": ("nobody",)}).check(),
        }
    )
    for config in (DEFAULT, train_expert.DEFAULT, PolicyConfig()):
        config.check()


def test_the_rules_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    official = Rules.official(points=False)
    config, _ = parse(["--play.rules", "official", "--run", str(tmp_path)], DEFAULT)
    assert config.play.game_rules == official
    assert config.plan().network == dataclasses.replace(DEFAULT.network, rules=("official",))
    other, _ = parse(["--play.rules", "official,hand_size=5,points=true", "--run", str(tmp_path)], DEFAULT)
    assert other.play.game_rules == dataclasses.replace(official, hand_size=5) and other.plan().network.turns
    assert SelfPlay().game_rules == Rules() and not DEFAULT.plan().network.turns
    assert not changed(play={"rules": "rlcard"}).plan().network.turns
    (tmp_path / "config.json").write_text(json.dumps(to_dict(config)))
    assert parse(["--run", str(tmp_path), "--resume"], DEFAULT)[0] == config
    # The devices of this process exist already.
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    for options, named in (
        (["--play.rules", "official", "--network.policy-head"], "play.rules 'official'"),
        (["--network.rules", "house"], "network.rules"),
        (["--play.rules", "official", "--evaluation.opponents", f"value:network={PLAIN}"], "default and rlcard rules"),
    ):
        assert train_value.main([*options, "--run", str(tmp_path)]) == 2
        assert named in " ".join(capsys.readouterr().err.split())


def test_the_learning_rate_is_highest_after_the_warm_up():
    """Before the last update, however few there are. With a gradient of 1 Adam's step is the rate."""
    for num_updates, warmup in ((1, 0.02), (2, 0.9), (10, 0.5)):
        optimizer = Optimizer(learning_rate=0.5, warmup=warmup, final=0.1, weight_decay=0.0).make(num_updates)
        update, steps = jax.jit(optimizer.update), []
        state = jax.jit(optimizer.init)(np.zeros(1, np.float32))
        for _ in range(num_updates):
            step, state = update(np.ones(1, np.float32), state, np.zeros(1, np.float32))
            steps.append(-np.asarray(step).item())
        assert max(steps) == pytest.approx(0.5, rel=1e-4)
        assert np.argmax(steps) == min(max(1, round(warmup * num_updates)), num_updates - 1)


def test_configurations_round_trip_and_resume(tmp_path: Path):
    config = ValueConfig(seed=3, init="pretrained", network=NetworkConfig(width=7), play=SelfPlay(opponents=("linear",)))
    assert from_dict(ValueConfig, json.loads(json.dumps(to_dict(config))), "text") == config
    assert "init" not in to_dict(DEFAULT) and from_dict(ValueConfig, to_dict(DEFAULT), "text") == DEFAULT
    plan = changed(play={"opponents": ("self", "linear")}).plan()
    for name in ("network", "play", "loss", "optimizer", "games", "updates", "epochs", "iterations"):
        assert getattr(plan, name) == getattr(changed(play={"opponents": ("self", "linear")}), name), name
    # A resumed run has the options that it began with, also if the script has other defaults. Given options precede them.
    began = ValueConfig(run=Path("elsewhere"), seed=3, network=NetworkConfig(width=12), init="pretrained")
    (tmp_path / "config.json").write_text(json.dumps(to_dict(began)))
    resumed, launch = parse(["--run", str(tmp_path), "--resume"], DEFAULT)
    assert launch.resume and resumed == dataclasses.replace(began, run=tmp_path)
    resumed, _ = parse(["--resume", f"--run={tmp_path}", "--seed", "4"], train_expert.DEFAULT)
    assert to_dict(resumed) == to_dict(dataclasses.replace(began, run=tmp_path, seed=4))
    assert parse(["--run", str(tmp_path)], DEFAULT)[0] == ValueConfig(run=tmp_path)
    for damaged in (b"", b'{"seed": 3', b"[1]", b"\xff\x00\x01"):
        (tmp_path / "config.json").write_bytes(damaged)
        refusals(
            {f"can't read the configuration {tmp_path}/config.json": lambda: parse(["--run", str(tmp_path), "--resume"], DEFAULT)}
        )


def test_experts_begin_with_the_shipped_network():
    shipped, began = load_pretrained(), train_expert.DEFAULT.start()
    assert set(began.params) - set(shipped.params) == {"policy"}
    chex.assert_trees_all_equal({name: began.params[name] for name in shipped.params}, shipped.params)


def test_the_filter_of_a_belief():
    filter = SelfPlay(particles=32).filter
    assert isinstance(filter, ParticleFilter) and (filter.num_particles, filter.prior) == (32, "deal")
    assert filter.opponent == parse_opponent("family")
    assert SelfPlay(model="uniform|linear").filter.opponent == parse_opponent("uniform|linear")
    assert SelfPlay(belief="unseen").filter is None


def test_processes_and_devices(monkeypatch: pytest.MonkeyPatch):
    launch = Launch(distributed="node1:4321,2,1")
    assert launch.process() == {"coordinator_address": "node1:4321", "num_processes": 2, "process_id": 1}
    assert Launch(distributed="auto").process() == {}
    wrong = ("", "node1:4321", "node1:4321,2", "node1:4321,2,2", "node1:4321,two,0", "a,b,c,d")
    refusals({f"distributed ({text})": lambda text=text: Launch(distributed=text).process() for text in wrong})
    share = ValueConfig(games=96, updates=2, play=SelfPlay(opponents=("self",))).share
    assert Launch(devices=3).num_cpu_devices(share) == 3
    # The 48 games of an update: 5 or 7 devices could not share them.
    for cores, devices in ((1, 1), (4, 4), (5, 4), (7, 6), (100, 48)):
        monkeypatch.setattr("training.config.available_cores", lambda cores=cores: cores)
        assert Launch().num_cpu_devices(share) == devices
    # Two processes with as many each.
    assert Launch(distributed="here:1,2,0").num_cpu_devices(share) == 24
    assert Launch(distributed="here:1,5,0").num_cpu_devices(share) == 1
    monkeypatch.setattr("training.config.available_cores", lambda: 8)
    assert Launch().num_cpu_devices(PolicyConfig(lanes=96, updates=8).share) == 6
