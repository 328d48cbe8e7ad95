"""Options of a training run: from the command line, from a file, and wrong ones."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import chex
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from tests.value.positions import observe_all, random_network, random_states, says
from training import train_expert
from training.checkpoints import Checkpoints
from training.config import Launch, from_dict, parse, read_file, to_dict, with_plain_key
from training.policy.config import PolicyConfig
from training.updates import Optimizer
from training.value.config import ValueConfig
from training.value.learning import Loss
from training.value.selfplay import SelfPlay
from unojax import value
from unojax.belief.opponents import parse_opponent
from unojax.belief.updaters import ParticleFilter
from unojax.value import NetworkConfig, features, load_pretrained, outlook_of_unseen, save_network
from unojax.view import view_of

PLAIN = str(Path(value.__file__).parent / "value.safetensors")


def write(folder: Path, text: str) -> str:
    (folder / "some.toml").write_text(text)
    return str(folder / "some.toml")


def test_defaults():
    assert parse([], ValueConfig()) == (ValueConfig(), Launch())


def test_options_leave_the_devices_to_be_set_up():
    """No computation has chosen them yet."""
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


def test_the_command_line():
    config, launch = parse(
        "--games 512 --run some/where --network.width 16 --network.policy-head --play.opponents self linear --loss.trace 0.9"
        " --loss.policy-weight 0.5 --init pretrained --resume --devices 3 --evaluation.opponents uniform".split(),
        ValueConfig(),
    )
    assert (config.games, config.run, config.init) == (512, Path("some/where"), "pretrained")
    assert config.network == NetworkConfig(width=16, matches=True, policy_head=True, types=True)
    assert config.play == SelfPlay(opponents=("self", "linear"))
    assert config.loss == dataclasses.replace(ValueConfig().loss, trace=0.9, policy_weight=0.5)
    assert config.evaluation.opponents == ("uniform",)
    assert launch == Launch(resume=True, devices=3)


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


def test_a_file_and_what_goes_before_it(tmp_path: Path):
    path = write(tmp_path, FILE)
    config, _ = parse(["--config", path], ValueConfig())
    assert (config.seed, config.run, config.init) == (7, Path("runs/from-file"), "pretrained")
    assert config.network == NetworkConfig(width=24, matches=True, types=True)
    assert config.play == SelfPlay(opponents=("self", "uniform"), belief="unseen")
    assert config.optimizer.learning_rate == 1.0 and isinstance(config.optimizer.learning_rate, float)
    assert config.evaluation == ValueConfig().evaluation

    for args in (["--config", path, "--seed", "8"], ["--seed", "8", f"--config={path}"]):
        other, _ = parse(args, ValueConfig())
        assert other == dataclasses.replace(config, seed=8)
    other, _ = parse(["--config", path, "--network.width", "12", "--play.opponents", "self"], ValueConfig())
    assert other.network.width == 12 and other.play.opponents == ("self",) and other.play.belief == "unseen"


def test_a_table_of_a_file_changes_only_what_it_names(tmp_path: Path):
    assert ValueConfig().loss != Loss(), "a default of its own"
    config, _ = parse(["--config", write(tmp_path, "[loss]\ntrace = 0.5")], ValueConfig())
    assert config.loss == dataclasses.replace(ValueConfig().loss, trace=0.5)


def test_a_file_changes_the_defaults_of_the_script(tmp_path: Path):
    default = train_expert.DEFAULT
    config, _ = parse(["--config", write(tmp_path, "seed = 3\n[play]\nexplore = 0.2")], default)
    assert config == dataclasses.replace(default, seed=3, play=dataclasses.replace(default.play, explore=0.2))
    assert parse([], default)[0] == default


def test_experts_begin_with_the_shipped_network():
    shipped, began = load_pretrained(), train_expert.DEFAULT.start()
    assert set(began.params) - set(shipped.params) == {"policy"}
    for name, layer in shipped.params.items():
        chex.assert_trees_all_equal(began.params[name], layer)


def test_an_option_that_makes_sense_only_with_the_file(tmp_path: Path):
    config, _ = parse(
        ["--config", write(tmp_path, "[network]\npolicy_head = true"), "--loss.policy-weight", "0.5"], ValueConfig()
    )
    assert config.loss.policy_weight == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sede = 3", r"some.toml: unknown key sede; there are run, seed"),
        ("[play]\nopponent = 'self'", r"some.toml, play: unknown key opponent; there are rules, opponents"),
        ("[plays]\nexplore = 0.1", "unknown key plays"),
        ("play = 3", "some.toml: play must be a table, got 3"),
        ("seed = 'x'", "some.toml: seed must be of type int, got 'x'"),
        ("seed = 1.5", "some.toml: seed must be of type int, got 1.5"),
        ("seed = true", "some.toml: seed must be of type int, got True"),
        ("run = 3", "some.toml: run must be of type Path, got 3"),
        ("init = 3", "some.toml: init must be of type str, got 3"),
        ("[network]\npolicy_head = 1", "network: policy_head must be of type bool, got 1"),
        ("[loss]\ntrace = 'one'", "loss: trace must be of type float, got 'one'"),
        ("[play]\nopponents = 'self'", "play: opponents must be a list, got 'self'"),
        ("[play]\nopponents = [1]", "play: opponents must be of type str, got 1"),
        ("[play]\nbelief = 'exact'", "play: belief must be one of particles, unseen, got 'exact'"),
        ("[loss]\ntrace = 1.5", r"loss.trace must be in \[0, 1\], got 1.5"),
        ("seed = ", "can't read the configuration .*some.toml"),
    ],
)
def test_a_file_with_something_wrong_is_a_value_error(tmp_path: Path, text: str, message: str):
    with pytest.raises(ValueError, match=message):
        parse(["--config", write(tmp_path, text)], ValueConfig())


def test_no_file_is_a_value_error(tmp_path: Path):
    with pytest.raises(ValueError, match="can't read the configuration"):
        read_file(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "args", [["--sede", "3"], ["--play.opponent", "self"], ["--seed", "x"], ["--play.belief", "exact"]], ids=str
)
def test_an_unknown_option_ends_the_program(args: list[str], capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit) as stop:
        parse(args, ValueConfig())
    assert stop.value.code == 2
    assert args[0].lstrip("-") in capsys.readouterr().err.replace("_", "-")


def changed(**parts) -> dict:
    """Keyword arguments with some fields of nested configurations changed: play={"explore": 2}."""
    default = ValueConfig()
    return {
        name: dataclasses.replace(getattr(default, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"games": 0}, "games must be at least 1"),
        ({"updates": 0}, "updates must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
        ({"games": 1000}, r"games \(1000\) must be a multiple of updates \(16\)"),
        ({"loss": {"trace": -0.1}}, r"loss.trace must be in \[0, 1\], got -0.1"),
        ({"loss": {"shown": 2}}, r"loss.shown must be in \[0, 1\], got 2"),
        ({"play": {"explore": 1.5}}, r"play.explore must be in \[0, 1\], got 1.5"),
        ({"play": {"opponents": ()}}, "play.opponents must name at least one"),
        (
            {"play": {"opponents": ("self", "nobody")}},
            "play.opponents must be 'self' or one of .*uniform.*'pretrained', 'heuristic' or a network's file, got 'nobody'",
        ),
        ({"init": "heuristic"}, "init: 'heuristic' has no parameters of a network; take 'pretrained' or a network's file"),
        ({"network": {"discount": 1.5}}, r"discount must be in \(0, 1\], got 1\.5"),
        ({"play": {"search": -1}}, "can't be negative, got -1"),
        ({"play": {"search_weight": -1.0}}, "play.search_weight can't be negative"),
        ({"play": {"search": 0}}, "loss.advantage_weight needs a search"),
        ({"play": {"search": 0, "follow_search": True}}, "play.follow_search needs a search"),
        ({"play": {"particles": 0}}, "play.particles must be at least 1, got 0"),
        ({"play": {"model": "best"}}, "best"),
        ({"play": {"search_weight": 1.0}}, "search_weight needs a search that is followed"),
        ({"play": {"follow_search": True, "belief": "unseen"}}, "follow_search needs beliefs"),
        ({"play": {"temperature": -0.5}}, "temperature can't be negative, got -0.5"),
        ({"play": {"max_steps": 0}}, "max_steps must be at least 1"),
        ({"play": {"temperature": math.nan}}, "play.temperature must be a finite number, got nan"),
        ({"play": {"explore": math.nan}}, "play.explore must be a finite number, got nan"),
        ({"play": {"follow_search": True, "search_weight": math.inf}}, "play.search_weight must be a finite number, got inf"),
        ({"optimizer": {"learning_rate": 0.0}}, "optimizer.learning_rate must be greater than 0, got 0.0"),
        ({"optimizer": {"learning_rate": -0.1}}, "optimizer.learning_rate must be greater than 0, got -0.1"),
        ({"optimizer": {"learning_rate": math.nan}}, "optimizer.learning_rate must be a finite number, got nan"),
        ({"optimizer": {"learning_rate": math.inf}}, "optimizer.learning_rate must be a finite number, got inf"),
        ({"optimizer": {"warmup": 5.0}}, r"optimizer.warmup must be in \[0, 1\), got 5.0"),
        ({"optimizer": {"warmup": 1.0}}, r"optimizer.warmup must be in \[0, 1\), got 1.0"),
        ({"optimizer": {"final": 1.5}}, r"optimizer.final must be in \[0, 1\], got 1.5"),
        ({"optimizer": {"weight_decay": -1.0}}, "optimizer.weight_decay can't be negative, got -1.0"),
        ({"optimizer": {"weight_decay": math.inf}}, "optimizer.weight_decay must be a finite number, got inf"),
        ({"optimizer": {"clip": 0.0}}, "optimizer.clip must be greater than 0, got 0.0"),
        ({"optimizer": {"clip": math.nan}}, "optimizer.clip must be a finite number, got nan"),
        ({"optimizer": {"average": 1.0}}, r"average must be in \[0, 1\), got 1.0"),
        ({"loss": {"policy_weight": math.inf}}, "loss.policy_weight must be a finite number, got inf"),
        ({"loss": {"advantage_weight": -1.0}}, "advantage_weight can't be negative"),
        ({"evaluation": {"every": 0}}, "evaluation.every must be at least 1, got 0"),
        ({"evaluation": {"final_games": 0}}, "evaluation.final_games must be at least 1"),
        ({"evaluation": {"opponents": ()}}, "evaluation.opponents must name at least one"),
        ({"loss": {"policy_weight": 1.0}}, "needs a network with a policy head: --network.policy-head"),
        ({"loss": {"belief_weight": 1.0}}, "needs a network with a belief head: --network.belief-head"),
        ({"seed": -1}, r"seed must be in \[0, 4294967295\], got -1"),
        ({"seed": 2**32}, r"seed must be in \[0, 4294967295\], got 4294967296"),
    ],
    ids=str,
)
def test_a_configuration_that_makes_no_sense_is_a_value_error(wrong: dict, message: str):
    with pytest.raises(ValueError, match=message):
        ValueConfig(**changed(**wrong))


@pytest.mark.parametrize(("num_updates", "warmup"), [(1, 0.02), (2, 0.9), (10, 0.5)])
def test_the_learning_rate_is_at_its_highest_after_the_warm_up(num_updates: int, warmup: float):
    """However few updates there are, before the last one. With a gradient of 1 Adam's step is as large as the rate."""
    optimizer = Optimizer(learning_rate=0.5, warmup=warmup, final=0.1, weight_decay=0.0).make(num_updates)
    state, steps = optimizer.init(np.zeros(1, np.float32)), []
    for _ in range(num_updates):
        step, state = optimizer.update(np.ones(1, np.float32), state, np.zeros(1, np.float32))
        steps.append(-np.asarray(step).item())
    assert max(steps) == pytest.approx(0.5, rel=1e-4)
    assert np.argmax(steps) == min(max(1, round(warmup * num_updates)), num_updates - 1)


def test_a_network_to_start_from_may_be_taught_types(tmp_path: Path):
    parts = {"width": 8, "matches": True}
    network = random_network(config=NetworkConfig(**parts))
    save_network(tmp_path / "old.safetensors", network)
    config = ValueConfig(init=str(tmp_path / "old.safetensors"), network=NetworkConfig(**parts, types=True))
    taught = config.network_of(config.start())
    states = random_states(1, 8)
    view = view_of(observe_all(states, states.current_player))
    made = features(view, outlook_of_unseen(view))
    told = made._replace(types=np.eye(6, dtype=np.float32)[np.arange(8) % 6])
    np.testing.assert_array_equal(says(taught, told).value, says(network, made).value)
    # A run that is resumed needs the file no more.
    (tmp_path / "checkpoints").mkdir()
    with closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(config.start(), config, -1.0)
        (tmp_path / "old.safetensors").unlink()
        assert_trees_equal(with_plain_key(checkpoints.load(config).state).params, taught.params)
    # The other way what it knows of types would be lost.
    save_network(tmp_path / "taught.safetensors", taught)
    config = ValueConfig(init=str(tmp_path / "taught.safetensors"), network=NetworkConfig(**parts))
    with pytest.raises(ValueError, match=r"take --network\.types$"):
        config.start()


def test_the_networks_that_a_resumed_run_plays_against_are_those_it_began_with(tmp_path: Path):
    file = tmp_path / "frozen.safetensors"
    save_network(file, random_network(config=NetworkConfig(width=8)))
    config = ValueConfig(network=NetworkConfig(width=8), play=SelfPlay(opponents=("self", "linear", str(file))))
    (tmp_path / "checkpoints").mkdir()
    began = config.digest_networks()
    with closing(Checkpoints(tmp_path, began)) as checkpoints:
        checkpoints.save(config.start(), config, -1.0)
    save_network(file, random_network(config=NetworkConfig(width=8), seed=1))
    with closing(Checkpoints(tmp_path, began)) as checkpoints:
        assert checkpoints.load(config).best == -1.0
    with (
        closing(Checkpoints(tmp_path, config.digest_networks())) as checkpoints,
        pytest.raises(ValueError, match=f"network in {file} is another"),
    ):
        checkpoints.load(config)


def test_a_score_against_others_is_no_measure_for_a_resumed_run(tmp_path: Path):
    config = ValueConfig(network=NetworkConfig(width=8))
    (tmp_path / "checkpoints").mkdir()
    with closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(config.start(), config, 0.75)
        for changes, best in (
            ({"every": 3}, 0.75),
            ({"opponents": ("linear",)}, -1.0),
            ({"games": 8}, -1.0),
            ({"particles": 8}, -1.0),
        ):
            evaluation = dataclasses.replace(config.evaluation, **changes)
            assert checkpoints.load(dataclasses.replace(config, evaluation=evaluation)).best == best, changes


@pytest.mark.parametrize(
    ("useless", "message"),
    [
        ({"network": {"policy_head": True}}, "network.policy_head learns nothing without a weight"),
        ({"network": {"belief_head": True}}, "network.belief_head learns nothing without a weight"),
        ({"loss": {"advantage_weight": 0.0}}, "play.search is neither followed nor learned from"),
        (
            {"play": {"rules": "official", "opponents": ("self", PLAIN)}},
            "was trained for default and rlcard rules and can't play with may_draw=True",
        ),
        ({"evaluation": {"opponents": ("nobody",)}}, "no agent is called 'nobody'"),
    ],
    ids=str,
)
def test_what_would_be_for_nothing_ends_no_run_hours_later(useless: dict, message: str):
    config = ValueConfig(**changed(**useless))
    with pytest.raises(ValueError, match=message):
        config.check()


def test_the_shipped_defaults_make_sense():
    for config in (ValueConfig(), train_expert.DEFAULT, PolicyConfig()):
        config.check()


def test_a_configuration_goes_through_json_and_back():
    config = ValueConfig(seed=3, init="pretrained", network=NetworkConfig(width=7), play=SelfPlay(opponents=("linear",)))
    assert from_dict(ValueConfig, json.loads(json.dumps(to_dict(config))), "text") == config
    assert "init" not in to_dict(ValueConfig()), "nothing stands for None"
    assert from_dict(ValueConfig, to_dict(ValueConfig()), "text") == ValueConfig()


def test_the_plan_has_what_the_configuration_says():
    config = ValueConfig(**changed(play={"opponents": ("self", "linear")}))
    plan = config.plan()
    for name in ("network", "play", "loss", "optimizer", "games", "updates", "epochs", "iterations"):
        assert getattr(plan, name) == getattr(config, name), name


def test_the_filter_of_a_belief():
    filter = SelfPlay(particles=32).filter
    assert isinstance(filter, ParticleFilter) and (filter.num_particles, filter.prior) == (32, "deal")
    assert filter.opponent == parse_opponent("family")
    assert SelfPlay(model="uniform|linear").filter.opponent == parse_opponent("uniform|linear")
    assert SelfPlay(belief="unseen").filter is None


def test_processes():
    launch = Launch(distributed="node1:4321,2,1")
    assert launch.process() == {"coordinator_address": "node1:4321", "num_processes": 2, "process_id": 1}
    assert Launch(distributed="auto").process() == {}


@pytest.mark.parametrize("text", ["", "node1:4321", "node1:4321,2", "node1:4321,2,2", "node1:4321,two,0", "a,b,c,d"])
def test_processes_that_are_none_are_a_value_error(text: str):
    with pytest.raises(ValueError, match=r"distributed must be \"auto\" or \"HOST:PORT,PROCESSES,NUMBER\""):
        Launch(distributed=text).process()


def test_devices(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="devices must be 0 or a number of devices, got -1"):
        Launch(devices=-1)
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


def test_a_resumed_run_has_the_options_that_it_began_with(tmp_path: Path):
    began = ValueConfig(run=Path("elsewhere"), seed=3, network=NetworkConfig(width=12), init="pretrained")
    (tmp_path / "config.json").write_text(json.dumps(to_dict(began)))
    config, launch = parse(["--run", str(tmp_path), "--resume"], ValueConfig())
    assert launch.resume and config == dataclasses.replace(began, run=tmp_path)
    # Also if the script has other defaults. What is asked for in so many words still goes first, and is refused later on.
    config, _ = parse(["--resume", f"--run={tmp_path}", "--seed", "4"], train_expert.DEFAULT)
    assert to_dict(config) == to_dict(dataclasses.replace(began, run=tmp_path, seed=4))
    assert parse(["--run", str(tmp_path)], ValueConfig())[0] == ValueConfig(run=tmp_path)


@pytest.mark.parametrize("item", ["about", "state"])
def test_the_checkpoint_before_a_damaged_one_is_resumed(tmp_path: Path, item: str):
    config = ValueConfig(network=NetworkConfig(width=8))
    (tmp_path / "checkpoints").mkdir()
    first = config.start()
    later = first._replace(iteration=first.iteration + 5)
    with closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(first, config, 0.25)
        checkpoints.save(later, config, 0.75)
    for path in (tmp_path / "checkpoints" / str(int(later.iteration)) / item).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with closing(Checkpoints(tmp_path)) as checkpoints:
        resumed = checkpoints.load(config)
        assert (int(resumed.state.iteration), resumed.best) == (int(first.iteration), 0.25)
        assert len(resumed.damaged) == 1 and resumed.damaged[0].startswith(f"iteration {int(later.iteration)}: ")
        # Its iteration can be written again.
        checkpoints.save(later, config, 0.5)
    with closing(Checkpoints(tmp_path)) as checkpoints:
        assert (checkpoints.load(config).best, checkpoints.load(config).damaged) == (0.5, ())


def test_damaged_checkpoints_alone_are_named(tmp_path: Path):
    config = ValueConfig(network=NetworkConfig(width=8))
    (tmp_path / "checkpoints").mkdir()
    with closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(config.start(), config, 0.25)
    for path in (tmp_path / "checkpoints" / "0" / "about").rglob("*"):
        if path.is_file():
            path.write_text("{")
    with closing(Checkpoints(tmp_path)) as checkpoints, pytest.raises(ValueError, match=r"no checkpoint in .* can be read"):
        checkpoints.load(config)
