"""`unojax belief`: the game, the figures of the belief, and their form."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import re
import sys
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from tests.cli.by_script import RULE_ARGS, RULES
from tests.helpers import slow_but
from unojax import Rules, format_position, get_policy, parse_position, play_game
from unojax.analysis import turns as belief_turns
from unojax.belief import PolicyOpponent, consistent_opponent, uniform_opponent
from unojax.belief.opponents import TREMBLE
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter
from unojax.cli import main
from unojax.cli.options import get_opponent
from unojax.games import replay
from unojax.games.gamefile import GameFile, write_game
from unojax.games.seen import SeenGame
from unojax.policies import uniform
from unojax.rules import PRESETS
from unojax.specs import POLICY_NAMES
from unojax.terminal import cards as drawing

NUM_PARTICLES = 256
SEED = 1
ARGS = ["belief", "--seed", str(SEED), *RULE_ARGS, "--particles", str(NUM_PARTICLES)]
# Player 1 to move holds R1 and W, the deck is empty, and so player 0 knows it.
KNOWN_HAND = "R0,R2/R1,W/Y0,Y2,Y3,YS,Y+2,R3,RS,R+2,W+4/0 Y1 1 0 4 - *"


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """Return the report of a whole game with draws of both players, won by player 1."""
    with contextlib.redirect_stdout(out := io.StringIO()):
        assert main([*ARGS, "--json", "-"]) == 0
    return json.loads(out.getvalue())


def game_of(data: dict[str, Any]) -> replay.Replay:
    return replay.replay(parse_position(data["start"], rules=RULES), data["actions"], jax.random.key(0))


@pytest.mark.slow
def test_the_game_is_that_of_play_game(data):
    key = jax.random.key(SEED, impl="threefry2x32")
    play = jax.jit(play_game, static_argnames=("policies", "num_steps", "rules"))
    game = jax.device_get(play(key, (uniform, uniform), num_steps=replay.MAX_STEPS, rules=RULES))
    assert [turn["turn"] for turn in data["turns"]] == list(range((game.actions >= 0).sum() + 1))
    for turn in data["turns"]:
        state = jax.tree.map(lambda x, t=turn["turn"]: x[t], game.states)
        assert turn["truth"]["position"] == format_position(state)


def test_the_record_can_be_read_back_and_saved(run_json, run_text, refused, tmp_path, data):
    """Start and actions give the same game and belief, typed or from a file."""
    assert Rules(**(data["rules"] | {"deck": tuple(data["rules"]["deck"])})) == RULES
    again = run_json(*ARGS, "--start", data["start"], "--actions", data["actions"])
    assert again["policies"] is None and again | {"policies": data["policies"]} == data
    path = tmp_path / "game.json"
    write_game(path, GameFile.of(game_of(data), players=("person", "linear"), seed=None))
    saved = ["belief", "--seed", str(SEED), "--game", str(path), "--particles", str(NUM_PARTICLES)]
    assert run_json(*saved) == again
    out = run_text(*saved, "--steps", "2")
    assert "hand_size=3" in out and "Policies" not in out
    path.write_text(path.read_text().replace(data["actions"].split()[0], "G9", 1))
    refused({f"belief --game '{path}'": "game.json"})


def test_belief_agrees_with_the_exact_filter(data):
    """Contract: the particle filter agrees with the exact filter within Monte Carlo error.

    Probabilities within 0.2, six standard deviations (at most 0.5 / 16) of a mean over 256 hands.
    """
    seen, log_evidence = game_of(data).observations(0), 0.0
    for index, (turn, (exact, info)) in enumerate(zip(data["turns"], track(ExactFilter(), jax.random.key(0), seen), strict=True)):
        log_evidence += 0.0 if info is None else float(info.log_evidence)
        belief = turn["belief"]
        assert list(belief["prob_holds"]) == list(belief["expected_counts"])
        expected = exact.expected_counts[np.flatnonzero(RULES.deck)]
        assert list(belief["expected_counts"].values()) == pytest.approx(expected, abs=0.2)
        assert list(belief["prob_holds"].values()) == pytest.approx(exact.prob_holds[np.flatnonzero(RULES.deck)], abs=0.2)
        no_playable = exact.prob_no_playable(int(seen[index].color), int(seen[index].top_rank))
        assert belief["prob_no_playable"] == pytest.approx(no_playable, abs=0.2)
        hands, probs = exact.hands()
        for color, name in enumerate(("red", "yellow", "blue", "green")):
            holds = probs[hands[:, 13 * color : 13 * color + 13].any(1)].sum()
            assert belief["prob_color"][name] == pytest.approx(holds, abs=0.2)
        assert belief["num_distinct"] <= len(hands)
    # A misplaced observation or action shifts it by nats, or makes the turn impossible.
    assert data["summary"]["log_evidence"] == pytest.approx(log_evidence, abs=0.5)


def test_weights_of_the_start_and_the_summary(run_json, data):
    """The prior of the deal gives hands with a wild card less weight."""
    assert NUM_PARTICLES / 2 < data["turns"][0]["ess"] < NUM_PARTICLES
    for later in (data["start"].replace(" 0 - *", " 2 - *"), data["turns"][1]["truth"]["position"]):
        (turn,) = run_json(*ARGS, "--start", later, "--actions", "")["turns"]
        assert turn["ess"] == pytest.approx(NUM_PARTICLES)
    turns, summary = data["turns"], data["summary"]
    # 3 of 10 unseen cards, one copy of each: ln 0.3 for the cards held, ln 0.7 for the others.
    assert turns[0]["truth"]["uniform_log_score"] == pytest.approx(3 * math.log(0.3) + 7 * math.log(0.7), abs=1e-4)
    scored = [turn["truth"] for turn in turns[1:] if turn["observation"]["opponent_count"]]
    assert summary["scored"] == len(scored) == len(turns) - 2, "the opponent is meant to win this game"
    for name in ("log_score", "uniform_log_score"):
        assert summary[name] == pytest.approx(np.mean([truth[name] for truth in scored]))
    least = min(turns, key=lambda turn: turn["ess"])
    assert (summary["smallest_ess"], summary["smallest_ess_turn"]) == (least["ess"], least["turn"])
    assert least["ess"] < NUM_PARTICLES and summary["begun_anew"] == []
    assert summary["log_evidence"] == pytest.approx(sum(turn["log_evidence"] or 0.0 for turn in turns))


def test_options_change_what_they_say_and_nothing_else(run_json, data):
    turns = data["turns"]
    same, other = (run_json(*ARGS, "--steps", "3", "--belief-seed", seed) for seed in (str(data["seed"]), "99"))
    assert same["turns"] == turns[:4] and (same["belief_seed"], other["belief_seed"]) == (data["seed"], 99)
    assert [turn["action"] for turn in other["turns"]] == [turn["action"] for turn in turns[:4]]
    assert [turn["belief"] for turn in other["turns"][1:]] != [turn["belief"] for turn in turns[1:4]]
    for turn, seen in zip(run_json(*ARGS, "--player", "1", "--steps", "3")["turns"], turns, strict=False):
        assert turn["truth"]["position"] == seen["truth"]["position"]
        assert turn["truth"]["hand"] == seen["observation"]["hand"]
        assert turn["observation"]["hand"] == seen["truth"]["hand"]


def test_the_truth_can_be_hidden(run_json, run_text, data):
    hidden = run_json(*ARGS, "--hide-truth")
    assert hidden["start"] is None and hidden["summary"] == data["summary"]
    num_draws = 0
    for turn, known in zip(hidden["turns"], data["turns"], strict=True):
        hides = known["mover"] == 1 and known["action"].startswith("draw")
        num_draws += hides
        assert "truth" not in turn and turn["action"] == ("draw" if hides else known["action"])
        assert turn["belief"] == known["belief"]
    assert num_draws > 0, "the game of this seed is meant to have draws of the opponent"
    for options in ((), ("--turn", "6")):
        assert "*" not in run_text(*ARGS, "--hide-truth", *options)


def test_text_shows_the_record(run_text, run_json, run_ascii, data):
    out = run_text(*ARGS)
    numbers = [line.split()[1] for line in out.splitlines() if re.match(r"turn \d", line)]
    assert numbers == [str(turn["turn"]) for turn in data["turns"]]
    for block, turn in zip(re.split(r"^turn |\n\n", out, flags=re.MULTILINE)[2:-1], data["turns"], strict=True):
        if "all else is as before" in block or not turn["observation"]["opponent_count"]:
            continue
        # The deck holds one copy of each card; those that are held are marked, and no others.
        assert sorted(re.findall(r"\*(\S+)", block)) == sorted(turn["truth"]["hand"].split())
        for name, shown in re.findall(r"[ *]([RY][\dS+]\S*|W\S*) +[█▏▎▍▌▋▊▉]* +(<1|>99|\d+)(?= |$)", block):
            assert shown == drawing.whole_percent(turn["belief"]["prob_holds"][name])
    assert f"won by player 1 after turn {data['turns'][-1]['turn']}" in out
    assert f"{data['summary']['log_score']:.3f}" in out
    assert re.search(r"^.{30}[ *]\S+ +#+ +\d+", run_ascii(*ARGS, "--steps", "2"), re.MULTILINE)

    out, turn = run_text(*ARGS, "--turn", "6"), data["turns"][6]
    assert out.startswith("turn 6  ") and re.findall(r"turn \d+", out) == ["turn 6"]
    assert f"player 1 holds {turn['truth']['hand']}" in out and f"hand      {turn['observation']['hand']}" in out
    assert sorted(re.findall(r"\*(\S+) +[█▏▎▍▌▋▊▉]", out)) == sorted(turn["truth"]["hand"].split())
    assert f"{100 * turn['belief']['prob_no_playable']:.1f} %" in out
    # The record ends with that turn.
    assert run_json(*ARGS, "--turn", "6")["turns"] == data["turns"][:7]


def test_a_narrow_terminal_breaks_no_row(run_text, monkeypatch):
    """The figures stand above the bars, and colours are columns."""
    commands = [*ARGS, "--steps", "6"], [*ARGS, "--turn", "6"]
    wide = [run_text(*command) for command in commands]
    monkeypatch.setenv("COLUMNS", "32")
    narrow = [run_text(*command) for command in commands]
    assert max(len(line) for out in narrow for line in out.splitlines()) <= 32
    bar = re.compile(r"[ *]([RY][\dS+]\S*|W\S*) +[█▏▎▍▌▋▊▉]* +(<1|>99|\d+)(?= |$)", re.MULTILINE)
    for one, other in zip(wide, narrow, strict=True):
        assert bar.findall(one) and sorted(bar.findall(one)) == sorted(bar.findall(other))
    assert ["red", "yellow"] in map(str.split, narrow[1].splitlines())


def test_the_status_line_keeps_off_the_results(run_json, capsys, watch):
    """Only the error stream is a terminal."""
    watch()
    assert main([*ARGS, "--steps", "2"]) == 0
    captured = capsys.readouterr()
    assert "turn 2" in captured.out and "holds" not in captured.err
    assert len(run_json(*ARGS, "--steps", "2", note="compiling")["turns"]) == 3


def test_a_belief_that_starts_again_is_said(run_json, run_text, monkeypatch):
    """With a patched filter; `test_a_wrong_model_is_said` has a wrong model."""

    def track_badly(*args):
        for belief, info in track(*args):
            yield belief, info and info._replace(depleted=True, restarted=True, ess=0.0, log_evidence=-np.inf)

    monkeypatch.setattr(belief_turns, "track", track_badly)
    check_restart([*ARGS, "--start", KNOWN_HAND, "--actions", "R1"], run_json, run_text)


@pytest.mark.slow
def test_a_wrong_model_is_said(run_json, run_text):
    """A player who plays wilds first has not played R1 while holding W."""
    args = [*ARGS, "--opponent-model", "wilds-first+0", "--start", KNOWN_HAND, "--actions", "R1"]
    check_restart(args, run_json, run_text)


def check_restart(args: list[str], run_json, run_text) -> None:
    last, out = run_json(*args)["turns"][-1], run_text(*args)
    words = "no particle could explain this turn"
    assert (last["log_evidence"], last["ess"], last["begun_anew"]) == (None, 0.0, words)
    assert f"restarted from the position alone: {words}" in out and "Restarted     in turn 5" in out


def test_steps_have_words():
    for start, action, player, words in (
        ("R0,W/Y0,Y2/R2/* R1 0 0 0 - *", "W:B", 0, "player 0 plays W and declares blue, one card left."),
        ("R0/Y0,Y2/R2/* R1 0 0 0 - *", "R0", 0, "player 0 plays R0 and wins."),
        ("Y1,Y2/R1/R2/* R0 0 0 0 - *", "draw(W)", 0, "player 0 draws W, unable to play."),
        ("Y1,Y2/R1/R2/* R0 0 0 0 - *", "draw(W)", 1, "player 0 draws a card, unable to play."),
        ("Y0,Y2/R1/R2/* R+2 0 2 0 - *", "draw(YS,W)", 0, "player 0 draws YS, W as the penalty."),
        ("Y0,Y2/R1/R2/* R+2 0 2 0 - *", "DRAW( ys , w )", 1, "player 0 draws 2 cards as the penalty."),
        ("Y0,Y1/R0,R1,RS,Y3/R2,R3,Y2,YS,Y+2,W,W+4/0 R+2 0 2 0 - *", "draw(R2,R3)", 0, "the pile goes back into the deck first."),
        ("Y1,Y3,YS,Y+2/Y0,R1,RS,R2,R3,Y2,W,W+4,R+2/-/0 R0 0 0 0 - *", "draw", 0, "can't draw, too few cards are left;"),
    ):
        game = replay.replay(parse_position(start, rules=RULES), action, jax.random.key(0))
        assert words in drawing.step_words(game.steps[-1], player).plain


def test_percentages_and_bars(monkeypatch):
    shown = {0.0: "0", 1e-4: "<1", 0.0049: "<1", 0.006: "1", 0.5: "50", 0.994: "99", 0.996: ">99", 1 - 2e-7: "100"}
    assert {share: drawing.whole_percent(share) for share in shown} == shown
    bars = {0.0: "    ", 1 / 32: "▏   ", 0.5: "██  ", 0.9: "███▋", 1.0: "████"}
    monkeypatch.setattr(sys, "stdout", Console(file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8")).file)
    assert {share: drawing.bar(share, 4) for share in bars} == bars


@pytest.mark.slow
def test_an_own_challenge_tells_something(run_text):
    """A challenge, unlike a play, is evidence."""
    start = ["--start", "G1,G2/R1,R2,W+4/-/* R9 1 0 0 - *", "--actions", "W+4:B challenge"]
    out = run_text("belief", "--rules", "official", "--particles", "32", *start)
    assert "challenges the Wild+4 and is right" in out and "all else is as before" not in out


@pytest.mark.slow
def test_the_type_of_the_opponent_is_inferred(run_json, run_text):
    """Every turn has probabilities of types, and the words of `plays_like`."""
    args = (*ARGS, "--opponent-model", "uniform|guard*3", "--steps", "6")
    probs = [turn["type_probs"] for turn in run_json(*args)["turns"]]
    assert probs[0] == pytest.approx({"guard": 0.75, "uniform": 0.25}, rel=1e-5) != probs[-1]
    assert all(sum(each.values()) == pytest.approx(1.0, rel=1e-5) for each in probs)
    likeliest = max(probs[-1], key=probs[-1].get)
    assert f"player 1 plays like {likeliest} {probs[-1][likeliest]:.2f}" in " ".join(run_text(*args).split())
    assert "guard" in run_text(*args, "--turn", "6")


@pytest.mark.parametrize("preset", slow_but(["default"], ["default", "official", "house"]))
def test_a_record_of_one_side_gives_the_belief_of_the_whole_game(run_json, run_text, tmp_path, preset: str):
    """Turn by turn, without the truth."""
    rules = dataclasses.replace(PRESETS[preset], deck=RULES.deck, hand_size=3)
    game = replay.play(jax.random.key(1), (uniform, uniform), rules=rules, max_steps=12)
    seen = SeenGame.of(game, 0)
    turns = {}
    for name, part in (("whole", game), ("side", seen)):
        write_game(tmp_path / f"{name}.json", GameFile.of(part, players=("person", "opponent"), seed=None))
        args = ["belief", "--game", str(tmp_path / f"{name}.json"), "--particles", str(NUM_PARTICLES)]
        turns[name] = run_json(*args, "--hide-truth")["turns"]
    actions = [[turn.pop("action") for turn in turns[name]] for name in ("whole", "side")]
    assert actions[1][1:] == [str(event) for event in seen.events]
    assert turns["whole"] == turns["side"] and all("truth" not in turn for turn in turns["side"])
    out = run_text(*args)
    assert f"turn {len(game.steps)}" in out and "Log score" not in out


def test_every_policy_is_a_model(capsys):
    for name in POLICY_NAMES[1:]:
        assert get_opponent(name) == PolicyOpponent(get_policy(name), tremble=TREMBLE)
        assert get_opponent(f"{name}+.25") == PolicyOpponent(get_policy(name), tremble=0.25)
    assert (get_opponent("uniform"), get_opponent("consistent")) == (uniform_opponent, consistent_opponent)
    assert main(["belief", "--help"]) == 0 and f"guard+{TREMBLE}" in capsys.readouterr().out


def test_bad_command_lines_are_refused(refused):
    options = {
        "--turn 99": "--turn must be in [0, 10]",
        "--turn -1": "--turn",
        "--particles 2000000": "--particles",
        "--opponent-model best": "--opponent-model 'best': ",
        "--opponent-model guard+2": "--opponent-model 'guard+2': tremble",
        "--opponent-model guard+": "tremble",
        "--opponent-model uniform+0.1": "tremble",
        "--actions R5": "--start and --actions",
        "--start x": "--start and --actions",
        "--start x --actions draw": "--start: position 'x'",
        "--game x.json": "--game",
        "--player 2": "--player",
        "--policies uniform best": "no policy is called 'best'",
        "--json .": "--json",
        "--json=": "--json",
    }
    actions = {
        "Y0": "action 1: 'Y0' is not legal for player 1, who may only: R1, W:R, ",
        "draw": "action 1: 'draw' is not legal",
        "R1 R9": "action 2: 'R9' is not legal for player 0, who may only: R0, R2",
        "R1 R0 W:B R2": "action 4: 'R2' comes after the end",
        "R1 W": "action 2: action 'W' must declare",
        "W+4:R": "action 1: 'W+4:R' is not legal",
        "W:B draw(R1)": "action 2: draw(R1): the deck holds 0 x R1",
        "W:B draw(R3,RS)": "action 2: a draw of 1",
        "W:B draw(Q)": "action 2: unknown card 'Q'",
        "W:B draw(R3": "action 2: unknown action 'draw(R3'",
    }
    typed = {f"--start '{KNOWN_HAND}' --actions '{line}'": f"--actions: {words}" for line, words in actions.items()}
    refused(options | typed, ARGS)
    needless = "--policies play a new game"
    refused({f"belief {played} --policies linear uniform": needless for played in ("--game x.json", "--start x --actions draw")})
