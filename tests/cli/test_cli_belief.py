"""`unojax belief`: the game it follows, what it says of the belief, and how it looks."""

from __future__ import annotations

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

from tests.games.test_seen import VARIANTS
from unojax import Rules, format_position, get_policy, parse_position, play_game
from unojax.analysis import turns as belief_turns
from unojax.belief import PolicyOpponent, consistent_opponent, uniform_opponent
from unojax.belief.opponents import TREMBLE
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter
from unojax.cli import main
from unojax.cli.options import get_opponent
from unojax.decks import parse_deck
from unojax.games import replay
from unojax.games.gamefile import GameFile, write_game
from unojax.games.seen import SeenGame
from unojax.policies import uniform
from unojax.specs import POLICY_NAMES
from unojax.terminal import cards as drawing

DECK = "colors=2,ranks=0-3+S++2,copies=1,wilds=1"
RULES = Rules(deck=parse_deck(DECK), hand_size=3)
NUM_PARTICLES = 256
SEED = 1
ARGS = ["belief", "--seed", str(SEED), "--deck", DECK, "--hand-size", "3", "--particles", str(NUM_PARTICLES)]
# Player 1 to move holds R1 and W, the deck is empty, and so player 0 knows it.
KNOWN_HAND = "R0,R2/R1,W/Y0,Y2,Y3,YS,Y+2,R3,RS,R+2,W+4/0 Y1 1 0 4 - *"


def run_json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """The JSON on stdout, of which there must be nothing else."""
    assert main([*ARGS, *args, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def run_text(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main([*ARGS, *args]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """The record of one whole game."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main([*ARGS, "--json", "-"]) == 0
    return json.loads(out.getvalue())


@pytest.mark.slow
def test_game_is_that_of_play_game(data: dict[str, Any]):
    uniform = get_policy("uniform")
    key = jax.random.key(SEED, impl="threefry2x32")
    play = jax.jit(play_game, static_argnames=("policies", "num_steps", "rules"))
    game = play(key, (uniform, uniform), num_steps=replay.MAX_STEPS, rules=RULES)
    num_steps = int((game.actions >= 0).sum())
    assert [turn["turn"] for turn in data["turns"]] == list(range(num_steps + 1))
    for turn in data["turns"]:
        state = jax.tree.map(lambda x, t=turn["turn"]: x[t], game.states)
        assert turn["truth"]["position"] == format_position(state)
    assert Rules(**(data["rules"] | {"deck": tuple(data["rules"]["deck"])})) == RULES


def test_the_record_can_be_read_back(capsys, data: dict[str, Any]):
    """Start and actions, with the cards drawn, give the same game and the same belief."""
    assert "draw(" in data["actions"], "the game of this seed is meant to have draws"
    again = run_json(capsys, "--start", data["start"], "--actions", data["actions"])
    assert again["policies"] is None
    assert again | {"policies": data["policies"]} == data


def test_belief_agrees_with_the_exact_filter(data: dict[str, Any]):
    """Each probability within 0.2, six standard deviations (at most 0.5 / 16) of a mean over 256 hands.

    A sound filter fails on fewer than one seed in 10^6.
    """
    game = replay.replay(parse_position(data["start"], rules=RULES), data["actions"], jax.random.key(0))
    seen, log_evidence = game.observations(0), 0.0
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


def test_prior_of_a_deal_and_of_a_position(capsys, data: dict[str, Any]):
    """The weights of the deal's prior are uneven: hands with a wild card are less likely."""
    assert NUM_PARTICLES / 2 < data["turns"][0]["ess"] < NUM_PARTICLES
    for later in (data["start"].replace(" 0 - *", " 2 - *"), data["turns"][1]["truth"]["position"]):
        (turn,) = run_json(capsys, "--start", later, "--actions", "")["turns"]
        assert turn["ess"] == pytest.approx(NUM_PARTICLES)


def test_summary_is_of_the_turns(data: dict[str, Any]):
    turns, summary = data["turns"], data["summary"]
    scored = [turn["truth"] for turn in turns[1:] if turn["observation"]["opponent_count"]]
    assert len(scored) == len(turns) - 2, "the opponent is meant to win this game"
    assert summary["scored"] == len(scored)
    assert summary["log_score"] == pytest.approx(np.mean([truth["log_score"] for truth in scored]))
    assert summary["uniform_log_score"] == pytest.approx(np.mean([truth["uniform_log_score"] for truth in scored]))
    least = min(turns, key=lambda turn: turn["ess"])
    assert (summary["smallest_ess"], summary["smallest_ess_turn"]) == (least["ess"], least["turn"])
    assert least["ess"] < NUM_PARTICLES
    assert summary["log_evidence"] == pytest.approx(sum(turn["log_evidence"] or 0.0 for turn in turns))
    assert summary["begun_anew"] == []


def test_uniform_log_score_of_the_start(data: dict[str, Any]):
    """3 of 10 unseen cards, one copy of each: ln 0.3 for the cards held, ln 0.7 for the others."""
    truth = data["turns"][0]["truth"]
    assert truth["uniform_log_score"] == pytest.approx(3 * math.log(0.3) + 7 * math.log(0.7), abs=1e-4)


def test_steps_cut_the_same_game_short(capsys, data: dict[str, Any]):
    assert run_json(capsys, "--steps", "4")["turns"] == data["turns"][:5]


def test_the_belief_has_a_seed_of_its_own(capsys, data: dict[str, Any]):
    same, other = (run_json(capsys, "--steps", "3", "--belief-seed", seed) for seed in (str(data["seed"]), "99"))
    for one in (same, other):
        assert [turn["action"] for turn in one["turns"]] == [turn["action"] for turn in data["turns"][:4]]
    assert [turn["belief"] for turn in same["turns"]] == [turn["belief"] for turn in data["turns"][:4]]
    assert [turn["belief"] for turn in other["turns"][1:]] != [turn["belief"] for turn in data["turns"][1:4]]
    assert (data["belief_seed"], other["belief_seed"]) == (data["seed"], 99)


def test_the_other_player(capsys, data: dict[str, Any]):
    other = run_json(capsys, "--player", "1", "--steps", "6")
    for turn, same in zip(other["turns"], data["turns"], strict=False):
        assert turn["truth"]["position"] == same["truth"]["position"]
        assert turn["truth"]["hand"] == same["observation"]["hand"]
        assert turn["observation"]["hand"] == same["truth"]["hand"]


def test_truth_can_be_hidden(capsys, data: dict[str, Any]):
    hidden = run_json(capsys, "--hide-truth")
    assert hidden["start"] is None
    assert hidden["summary"] == data["summary"]
    num_draws = 0
    for turn, known in zip(hidden["turns"], data["turns"], strict=True):
        assert "truth" not in turn
        hides = known["mover"] == 1 and known["action"].startswith("draw")
        num_draws += hides
        assert turn["action"] == ("draw" if hides else known["action"])
        assert turn["belief"] == known["belief"]
    assert num_draws > 0, "the game of this seed is meant to have draws of the opponent"
    assert "*" not in run_text(capsys, "--hide-truth")
    assert "*" not in run_text(capsys, "--hide-truth", "--turn", "6")


def test_text(capsys, monkeypatch, data: dict[str, Any]):
    monkeypatch.setenv("NO_COLOR", "1")
    out = run_text(capsys)
    lines = out.splitlines()
    assert "\x1b" not in out
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert [line.split()[1] for line in lines if re.match(r"turn \d", line)] == [str(turn["turn"]) for turn in data["turns"]]
    blocks = re.split(r"^turn |\n\n", out, flags=re.MULTILINE)[2:-1]
    for block, turn in zip(blocks, data["turns"], strict=True):
        if "all else is as before" in block or not turn["observation"]["opponent_count"]:
            continue
        # The deck holds one copy of each card; those that are held are marked, and no others.
        assert sorted(re.findall(r"\*(\S+)", block)) == sorted(turn["truth"]["hand"].split())
        for name, shown in re.findall(r"[ *]([RY][\dS+]\S*|W\S*) +[█▏▎▍▌▋▊▉]* +(<1|>99|\d+)(?= |$)", block):
            assert shown == drawing.whole_percent(turn["belief"]["prob_holds"][name])
    assert f"won by player 1 after turn {data['turns'][-1]['turn']}" in out
    assert f"{data['summary']['log_score']:.3f}" in out


def test_one_turn_in_full(capsys, data: dict[str, Any]):
    out = run_text(capsys, "--turn", "6")
    turn = data["turns"][6]
    assert all(len(line) <= 80 and line == line.rstrip() for line in out.splitlines())
    assert out.startswith("turn 6  ")
    assert re.findall(r"turn \d+", out) == ["turn 6"]
    assert f"player 1 holds {turn['truth']['hand']}" in out
    assert f"hand      {turn['observation']['hand']}" in out
    assert sorted(re.findall(r"\*(\S+) +[█▏▎▍▌▋▊▉]", out)) == sorted(turn["truth"]["hand"].split())
    assert f"{100 * turn['belief']['prob_no_playable']:.1f} %" in out
    # The record ends with the turn that was asked for.
    assert run_json(capsys, "--turn", "6")["turns"] == data["turns"][:7]


def test_ascii_terminal(capsys, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)
    assert main([*ARGS, "--steps", "2"]) == 0
    assert re.search(r"^.{30}[ *]\S+ +#+ +\d+", out.buffer.getvalue().decode("ascii"), re.MULTILINE)


def test_status_line_keeps_off_the_results(capsys, monkeypatch):
    """The results go to stdout also while someone looks at stderr, where rich would lead them."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main([*ARGS, "--steps", "2"]) == 0
    captured = capsys.readouterr()
    assert "turn 2" in captured.out
    assert "holds" not in captured.err
    assert main([*ARGS, "--steps", "2", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["turns"]) == 3
    assert "compiling" in captured.err


def test_a_belief_begun_anew_is_said(capsys, monkeypatch):
    """As with a wrong model, of which `test_wrong_model_is_said` makes one."""

    def follow_badly(*args):
        for belief, info in track(*args):
            yield belief, info and info._replace(depleted=True, restarted=True, ess=0.0, log_evidence=-np.inf)

    monkeypatch.setattr(belief_turns, "track", follow_badly)
    args = ["--start", KNOWN_HAND, "--actions", "R1"]
    last = run_json(capsys, *args)["turns"][-1]
    assert (last["log_evidence"], last["ess"], last["begun_anew"]) == (None, 0.0, "no particle could explain this turn")
    out = run_text(capsys, *args)
    assert "begun anew from the position alone: no particle could explain this turn" in out
    assert "Begun anew    in turn 5" in out


@pytest.mark.slow
def test_wrong_model_is_said(capsys):
    """A player who plays wilds first has not played R1 while holding W."""
    args = ["--opponent-model", "wilds-first+0", "--start", KNOWN_HAND, "--actions", "R1"]
    last = run_json(capsys, *args)["turns"][-1]
    assert last["log_evidence"] is None
    assert last["begun_anew"] == "no particle could explain this turn"
    assert last["ess"] == 0.0
    out = run_text(capsys, *args)
    assert "begun anew from the position alone: no particle could explain this turn" in out
    assert "Begun anew    in turn 5" in out


@pytest.mark.parametrize(
    ("start", "actions", "player", "words"),
    [
        ("R0,W/Y0,Y2/R2/* R1 0 0 0 - *", "W:B", 0, "player 0 plays W and declares blue, one card left."),
        ("R0/Y0,Y2/R2/* R1 0 0 0 - *", "R0", 0, "player 0 plays R0 and wins."),
        ("Y1,Y2/R1/R2/* R0 0 0 0 - *", "draw(W)", 0, "player 0 draws W, unable to play."),
        ("Y1,Y2/R1/R2/* R0 0 0 0 - *", "draw(W)", 1, "player 0 draws a card, unable to play."),
        ("Y0,Y2/R1/R2/* R+2 0 2 0 - *", "draw(YS,W)", 0, "player 0 draws YS, W as the penalty."),
        ("Y0,Y2/R1/R2/* R+2 0 2 0 - *", "DRAW( ys , w )", 1, "player 0 draws 2 cards as the penalty."),
        (
            "Y0,Y1/R0,R1,RS,Y3/R2,R3,Y2,YS,Y+2,W,W+4/0 R+2 0 2 0 - *",
            "draw(R2,R3)",
            0,
            "player 0 draws R2, R3 as the penalty; the pile goes back into the deck first.",
        ),
        ("Y1,Y3,YS,Y+2/Y0,R1,RS,R2,R3,Y2,W,W+4,R+2/-/0 R0 0 0 0 - *", "draw", 0, "player 0 can't draw, too few cards are left;"),
    ],
)
def test_words(start: str, actions: str, player: int, words: str):
    game = replay.replay(parse_position(start, rules=RULES), actions, jax.random.key(0))
    assert words in drawing.step_words(game.steps[-1], player).plain


@pytest.mark.slow
def test_an_own_challenge_tells_something(capsys):
    """It is no play, after which all is as it was."""
    args = ["belief", "--rules", "official", "--particles", "32", "--start", "G1,G2/R1,R2,W+4/-/* R9 1 0 0 - *", "--actions"]
    assert main([*args, "W+4:B challenge"]) == 0
    out = capsys.readouterr().out
    assert "challenges the Wild+4 and is right" in out and "all else is as before" not in out


def test_a_saved_game_is_followed_under_its_own_rules(capsys, complaint, tmp_path, data: dict[str, Any]):
    path, few = str(tmp_path / "game.json"), str(NUM_PARTICLES)
    game = replay.replay(parse_position(data["start"], rules=RULES), data["actions"], jax.random.key(9))
    write_game(path, GameFile.of(game, players=("person", "linear"), seed=None))
    assert main(["belief", "--seed", str(SEED), "--game", path, "--particles", few, "--json", "-"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert same.pop("policies") is None and same == {name: value for name, value in data.items() if name != "policies"}
    assert main(["belief", "--game", path, "--particles", few, "--steps", "2"]) == 0
    out = capsys.readouterr().out
    assert "hand_size=3" in out and "Policies" not in out
    text = (tmp_path / "game.json").read_text().replace(data["actions"].split()[0], "G9", 1)
    (tmp_path / "game.json").write_text(text)
    assert "game.json" in complaint(["belief", "--game", path])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("--turn 99", "--turn must be in [0, 10], the turns of this game, got 99"),
        ("--turn -1", "--turn must be at least 0, the start, got -1"),
        ("--particles 2000000", "--particles must be at most 1048576, got 2000000"),
        ("--opponent-model best", "--opponent-model 'best': "),
        ("--opponent-model guard+2", "--opponent-model 'guard+2': tremble must be a probability in [0, 1], got 2.0"),
        ("--opponent-model guard+", "the tremble must be a probability in [0, 1], got ''"),
        ("--opponent-model uniform+0.1", "uniform has no tremble"),
        ("--actions R5", "--start and --actions need each other"),
        ("--start x", "--start and --actions need each other"),
        ("--start x --actions draw", "--start: position 'x' must have seven fields"),
        ("--game x.json", "--game has a start, actions and rules of its own"),
        ("--player 2", "--player"),
        ("--policies uniform best", "no policy is called 'best'"),
        ("--json .", "--json: '.' is a folder"),
        ("--json=", "--json: the name of the file is empty"),
    ],
)
def test_errors_are_one_line(complaint, args: str, says: str):
    assert says in complaint([*ARGS, *args.split()])


@pytest.mark.parametrize("played", ["--game x.json", "--start x --actions draw"])
def test_a_game_with_its_actions_needs_no_policies(complaint, played: str):
    assert "--policies play a new game" in complaint(f"belief {played} --policies linear uniform".split())


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        ("Y0", "--actions: action 1: 'Y0' is not legal for player 1, who may only: R1, W:R, "),
        ("draw", "--actions: action 1: 'draw' is not legal"),
        ("R1 R9", "--actions: action 2: 'R9' is not legal for player 0, who may only: R0, R2"),
        ("R1 R0 W:B R2", "--actions: action 4: 'R2' comes after the end of the game"),
        ("R1 W", "--actions: action 2: action 'W' must declare one of the four colours"),
        ("W+4:R", "--actions: action 1: 'W+4:R' is not legal"),
        ("W:B draw(R1)", "--actions: action 2: draw(R1): the deck holds 0 x R1"),
        ("W:B draw(R3,RS)", "--actions: action 2: a draw of 1 must name as many cards, got 'R3,RS'"),
        ("W:B draw(Q)", "--actions: action 2: unknown card 'Q'"),
        ("W:B draw(R3", "--actions: action 2: unknown action 'draw(R3'"),
    ],
)
def test_wrong_actions(complaint, actions: str, says: str):
    assert says in complaint([*ARGS, "--start", KNOWN_HAND, "--actions", actions])


def test_every_policy_is_a_model():
    for name in POLICY_NAMES[1:]:
        assert get_opponent(name) == PolicyOpponent(get_policy(name), tremble=TREMBLE)
        assert get_opponent(f"{name}+.25") == PolicyOpponent(get_policy(name), tremble=0.25)
    assert get_opponent("uniform") == uniform_opponent
    assert get_opponent("consistent") == consistent_opponent


def test_the_help_knows_the_tremble(capsys):
    assert main(["belief", "--help"]) == 0
    assert f"guard+{TREMBLE}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "0"), (1e-4, "<1"), (0.0049, "<1"), (0.006, "1"), (0.5, "50"), (0.994, "99"), (0.996, ">99"), (1 - 2e-7, "100")],
)
def test_percent(probability: float, text: str):
    assert drawing.whole_percent(probability) == text


@pytest.mark.parametrize(("share", "text"), [(0.0, "    "), (1 / 32, "▏   "), (0.5, "██  "), (0.9, "███▋"), (1.0, "████")])
def test_bar(monkeypatch, share: float, text: str):
    monkeypatch.setattr(sys, "stdout", Console(file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8")).file)
    assert drawing.bar(share, 4) == text


@pytest.mark.slow
def test_the_type_of_the_opponent_is_found_out(capsys):
    """The belief of every turn is one over types too, and the words are those of `plays_like`."""
    args = ("--opponent-model", "uniform|guard*3", "--steps", "6")
    data = run_json(capsys, *args)
    probs = [turn["type_probs"] for turn in data["turns"]]
    assert probs[0] == pytest.approx({"guard": 0.75, "uniform": 0.25}, rel=1e-5)
    assert all(sum(told.values()) == pytest.approx(1.0, rel=1e-5) for told in probs)
    assert probs[-1] != probs[0]
    text = run_text(capsys, *args)
    likeliest = max(probs[-1], key=probs[-1].get)
    assert f"player 1 plays like {likeliest} {probs[-1][likeliest]:.2f}" in " ".join(text.split())
    assert "guard" in run_text(capsys, *args, "--turn", "6")


@pytest.mark.parametrize("rules", ["official", "house"])
def test_a_record_of_one_side_gives_the_belief_of_the_whole_game(capsys, tmp_path, rules: str):
    """Turn by turn; without the truth, which the record does not have."""
    variant = VARIANTS[rules]
    game = replay.play(jax.random.key(1), (uniform, uniform), rules=variant, max_steps=12)
    write_game(tmp_path / "whole.json", GameFile.of(game, players=("person", "linear"), seed=None))
    seen = SeenGame.of(game, 0)
    write_game(tmp_path / "side.json", GameFile.of(seen, players=("person", "opponent"), seed=None))
    turns = {}
    for name in ("whole", "side"):
        args = ["belief", "--game", str(tmp_path / f"{name}.json"), "--particles", str(NUM_PARTICLES)]
        assert main([*args, "--hide-truth", "--json", "-"]) == 0
        turns[name] = json.loads(capsys.readouterr().out)["turns"]
    actions = [turn.pop("action") for turn in turns["side"]]
    assert actions[1:] == [str(event) for event in seen.events]
    assert [{name: value for name, value in turn.items() if name != "action"} for turn in turns["whole"]] == turns["side"]
    assert all("truth" not in turn for turn in turns["side"])
    assert main(["belief", "--game", str(tmp_path / "side.json"), "--particles", str(NUM_PARTICLES)]) == 0
    out = capsys.readouterr().out
    assert "turn 12" in out and "Log score" not in out
