"""`unojax advise`: the history it follows, what it says of each play, and that it never looks at the hidden hand."""

from __future__ import annotations

import io
import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

import unojax
from unojax import Rules, cards
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter
from unojax.cli import main
from unojax.decks import parse_deck
from unojax.games import advising
from unojax.games.choices import legal_actions
from unojax.games.seen import play_seen
from unojax.search import pooling
from unojax.terminal import advice as advise_view
from unojax.text import make_observation, parse_action, parse_observation

DECK = "colors=2,ranks=0-3+S++2,copies=1,wilds=1"
RULES = Rules(deck=parse_deck(DECK), hand_size=3)
# Cheaper to compile than the default, in which the linear policy plays and is the model.
SPEC = "mc:rollouts=64,particles=256,policy=uniform,model=uniform"
ARGS = ["advise", "--deck", DECK, "--hand-size", "3", "--agent", SPEC, "--replicates", "4"]
# Player 0 wins at once with the skip, which forfeits the other's turn, and the card after it.
WIN_IN_TWO = "RS,R1/3/Y0/* R0 0 0 0 - *"
# Player 1 can't play on R2, and draws.
OPPONENT_DRAWS = "R0,R1,Y1,Y2/2/-/* R2 1 0 0 - *"


def run_json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """The JSON on stdout, of which there must be nothing else, without the time it took."""
    assert main([*ARGS, *args, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data.pop("seconds") >= 0
    return data


def run_text(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main([*ARGS, *args]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(len(line) <= 80 and line == line.rstrip() for line in captured.out.splitlines())
    return captured.out


def test_a_winning_play_is_found(capsys):
    data = run_json(capsys, WIN_IN_TWO)
    best, other = data["plays"]
    assert data["recommended"] == best["action"] == "RS"
    assert (best["win"], best["win_error"], best["behind"], best["behind_error"]) == (1.0, 0.0, 0.0, 0.0)
    assert other["action"] == "R1"
    assert 0 < other["win"] < 1
    # What is behind a sure win is the chance not to win, with the same error.
    assert other["behind"] == pytest.approx(1 - other["win"])
    assert other["behind_error"] == pytest.approx(other["win_error"]) and other["win_error"] > 0
    assert [play["rollouts"] for play in data["plays"]] == [4 * 64] * 2
    assert not data["forced"]
    out = run_text(capsys, WIN_IN_TWO)
    assert re.search(r"^> +RS +100\.0 ± 0\.0 +256", out, re.MULTILINE)
    assert re.search(rf"^ +R1 +{100 * other['win']:.1f} ± [\d.]+ +-{100 * other['behind']:.1f} ± [\d.]+ +256", out, re.MULTILINE)
    assert "Play RS" in out


def test_plain_words_are_a_position(capsys):
    data = run_json(capsys, WIN_IN_TWO)
    words = ["--hand", "rs, R1", "--top", "r0", "--opponent", "3", "--pile", "Y0"]
    assert run_json(capsys, *words) == data
    assert "RS" in run_text(capsys, *words)
    wild = run_json(capsys, "--hand", "R1 W", "--top", "W+4:Y", "--opponent", "2", "--penalty", "4")
    assert wild["recommended"] == "draw" and "must draw 4" in wild["observation"]


def test_a_position_comes_from_standard_input(capsys, monkeypatch, complaint):
    data = run_json(capsys, WIN_IN_TWO)
    monkeypatch.setattr("sys.stdin", io.StringIO(WIN_IN_TWO + "\n"))
    assert run_json(capsys, "-") == data
    monkeypatch.setattr("sys.stdin", io.StringIO(data["observation"]))
    assert run_json(capsys, "-") == data
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "standard input is empty" in complaint([*ARGS, "-"])


def test_ctrl_c_keeps_what_was_searched(capsys, monkeypatch):
    """A search of many replicates that is stopped in the sixth; and in the third, when there is too little."""
    whole = pooling.search_once

    def stop_in(last: int):
        def compiled(*args, **options):
            search, done = whole.compile(*args, **options), []

            def one(*args):
                done.append(1)
                if len(done) > last:
                    raise KeyboardInterrupt
                return search(*args)

            return one

        monkeypatch.setattr(pooling, "search_once", SimpleNamespace(compile=compiled))

    # One replicate after the other.
    monkeypatch.setattr(pooling, "available_cores", lambda: 1)
    stop_in(5)
    assert main([*ARGS, "--replicates", "none", "--seconds", "500", WIN_IN_TWO, "--json", "-"]) == 130
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["replicates"] == 5 and data["recommended"] == "RS"
    assert "unojax advise: stopped after" in captured.err
    stop_in(2)
    assert main([*ARGS, WIN_IN_TWO]) == 130
    assert capsys.readouterr().out == ""
    # In a library call it goes through, so that a loop over such calls can be stopped.
    stop_in(5)
    with pytest.raises(KeyboardInterrupt):
        unojax.advise(WIN_IN_TWO, seconds=500.0, agent=SPEC, rules=RULES)


def test_advice_in_python():
    told = unojax.advise(hand="RS R1", top="R0", opponent=3, pile="Y0", agent=SPEC, replicates=4, rules=RULES)
    assert told.play == "RS"
    assert list(told.wins) == ["RS", "R1"] and told.wins["RS"] == (1.0, 0.0)
    assert repr(told).startswith("play RS; wins: RS 100.0 ± 0.0 %, R1 ")
    assert told.belief.prob_holds.shape == (cards.NUM_TYPES,)
    with pytest.raises(ValueError, match="replicates or seconds, not both"):
        unojax.advise(WIN_IN_TWO, replicates=4, seconds=1.0, rules=RULES)
    with pytest.raises(ValueError, match=r"replicates must be an integer, got 4\.5"):
        unojax.advise(WIN_IN_TWO, replicates=4.5, rules=RULES)  # type: ignore[arg-type] the bad value is the test
    with pytest.raises(ValueError, match="top missing"):
        unojax.advise(hand="R1", opponent=3, rules=RULES)
    for seed in (-1, 2**32, 1.5, True):
        with pytest.raises(ValueError, match=r"seed must be a whole number in \[0, 4294967295\]"):
            unojax.advise(WIN_IN_TWO, seed=seed, rules=RULES)


def test_a_discount_changes_no_win_probability():
    """The same games are played, and their results are worth other values: the best play may be another one."""
    plain, steep = (
        unojax.advise(hand="RS R1", top="R0", opponent=3, pile="Y0", agent=f"{SPEC},discount={gamma}", replicates=4, rules=RULES)
        for gamma in (1, 0.5)
    )
    assert dict(sorted(plain.wins.items())) == dict(sorted(steep.wins.items())) and len(plain.wins) == 2


def test_forced_moves(capsys):
    only = run_json(capsys, "R1/3/Y0/* R0 0 0 0 - *")
    assert only["forced"] and only["recommended"] == "R1"
    assert [play["win"] for play in only["plays"]] == [1.0]
    assert "Play R1: no other play is legal." in run_text(capsys, "R1/3/Y0/* R0 0 0 0 - *")
    for position, says in (
        ("Y1/3/Y0/* R0 0 0 0 - *", "Draw: no card in hand can be played."),
        ("R1/3/Y0/* R+2 0 2 0 - *", "Draw 2: the penalty leaves no choice."),
    ):
        data = run_json(capsys, position)
        assert data["forced"] and data["recommended"] == "draw" and data["plays"] == []
        assert says in run_text(capsys, position)


def test_the_hidden_hand_is_not_looked_at(capsys):
    """Whatever it is, and if it is not given at all."""
    views = [run_json(capsys, f"R1,R2,Y1/{hand}/Y0/* R0 0 0 0 - *") for hand in ("W,W+4", "Y2,Y3", "2")]
    assert views[0] == views[1] == views[2]
    assert len(views[0]["plays"]) == 2
    texts = [run_text(capsys, f"R1,R2,Y1/{hand}/Y0/* R0 0 0 0 - *") for hand in ("W,W+4", "Y2,Y3")]
    one, other = (re.sub(r"in [\d.]+ s", "", " ".join(out.split())) for out in texts)
    assert one == other
    assert "the hand of player 1 was given and not looked at" in one


def test_the_record_can_be_read_back(capsys):
    history = "draw R0 Y0 Y1 Y+2 draw(RS,W) draw"
    data = run_json(capsys, "R0,Y1,Y2,Y3/2/-/* R2 1 0 0 - *", "--history", history)
    assert data["history"] == history
    assert "hand      RS Y2 Y3 W" in data["observation"]
    assert [play["action"] for play in data["plays"]] != sorted(play["action"] for play in data["plays"])
    assert run_json(capsys, data["start"], "--history", data["history"]) == data
    assert Rules(**(data["rules"] | {"deck": tuple(data["rules"]["deck"])})) == RULES


def test_belief_is_that_of_the_history(capsys):
    """Each probability within 0.2, six standard deviations (at most 0.5 / 16) of a mean over 256 hands.

    A sound filter fails on fewer than one seed in 10^6.
    """
    history = "draw R0 R3 R1 draw"
    data = run_json(capsys, OPPONENT_DRAWS, "--history", history)
    seen = play_seen(parse_observation(OPPONENT_DRAWS, rules=RULES), history).observations
    *_, (exact, _) = track(ExactFilter(prior="uniform"), jax.random.key(0), seen)
    believed = [data["belief"]["prob_holds"].get(name, 0.0) for name in cards.TYPE_NAMES]
    np.testing.assert_allclose(believed, exact.prob_holds, atol=0.2)
    alone = run_json(capsys, data["observation"])["belief"]["prob_holds"]
    # Exactly it is 0.255 for one card; three standard deviations of a mean over 256 hands are 0.09.
    assert max(abs(alone[name] - data["belief"]["prob_holds"][name]) for name in alone) > 0.15
    out = run_text(capsys, OPPONENT_DRAWS, "--history", history)
    assert "from 5 actions, player 1 taken for uniform" in " ".join(out.split())
    assert "--history would sharpen it" in " ".join(run_text(capsys, data["observation"]).split())


@pytest.mark.parametrize(
    ("position", "history", "says"),
    [
        (
            "R1,R2/3/-/* R0 0 0 0 - *",
            "R1 R1",
            "action 2: player 1 can't play R1: the only one is on the pile",
        ),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 R2", "action 2: player 1 can't play R2: the only one is in the hand of player 0"),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 Y2", "action 2: player 1 can't play Y2: it does not go on R1"),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 draw(W)", "action 2: cards that the other player draws are not seen: write draw alone"),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 draw R3", "action 3: player 0 can't play R3: legal here: R2"),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 draw R2 draw", "action 4: 'draw' comes after the end of the game"),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 Y", "action 2: unknown event 'y'"),
        ("R1,R2/3/-/* R0 0 0 0 - *", "R1 draw R2", "the game is over at its end"),
        ("R1,R2/1/-/* R0 0 0 0 - *", "R1 Y1", "the game is over at its end"),
        ("R+2,R2/3/-/* R0 0 0 0 - *", "R+2 W:R", "action 2: player 1 can't play W:R: player 1 must draw 2"),
        ("Y1,Y2/3/-/* R0 0 0 0 - *", "draw", "action 1: name the card that player 0 drew, as in draw(R5)"),
        ("Y1,Y2/3/-/* R0 0 0 0 - *", "draw(Y1)", "action 1: 1 x Y1 can't be drawn: only 0 can be in the deck"),
        ("Y1,Y2/3/-/* R0 0 0 0 - *", "draw(R1,R2)", "action 1: a draw of 1 must name as many cards"),
        # The deck is empty, so that the card is one of the pile.
        (
            "Y1,Y2/1/Y0,Y3,YS,Y+2,R1,R2,R3,RS,R+2,W/0 R0 0 0 0 - *",
            "draw(W+4)",
            "action 1: the deck holds 0 cards, and 1 of those drawn",
        ),
        # 8 unseen cards, 2 of which are neither red nor 0 nor wild.
        (
            "R1,R2,Y1,Y2,Y3/6/-/* R0 1 0 0 - *",
            "draw",
            "action 1: player 1 can't draw: of 6 cards one goes on R0, since only 2 of the cards not seen don't",
        ),
        ("R0,R1,Y1,Y2/2/-/* R2 1 0 0 - *", "draw R0 R3 R1 R+2", "action 5: no hand of player 1 explains this"),
    ],
)
def test_impossible_histories(complaint, position: str, history: str, says: str):
    assert says in complaint([*ARGS, position, "--history", history])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["x"], "position 'x' must have seven fields"),
        (["R1/2/-/* R9 0 0 0 - *"], "but rules.deck has 0"),
        (["R1/20/-/* R0 0 0 0 - *"], "the other player can't hold 20 cards"),
        (["R1/Q/-/* R0 0 0 0 - *"], "unknown card 'Q' in hand of player 1"),
        (["-/R1/-/* R0 0 0 1 - 0"], "position '-/R1/-/* R0 0 0 1 - 0': the game is over"),
        (["player 0: the game is over"], "write a position with the number"),
        ([WIN_IN_TWO, "--player", "1"], "the position shows the hand of player 0, not of player 1"),
        ([WIN_IN_TWO, "--agent", "uniform"], "agent 'uniform' has no estimates; choose a search, mc or tree"),
        ([WIN_IN_TWO, "--agent", "best"], "no agent is called 'best'"),
        ([WIN_IN_TWO, "--agent", "mc:belief=truth"], "belief=truth needs the hidden hand"),
        ([WIN_IN_TWO, "--agent", "mc:discount=0"], "discount must be in (0, 1], got 0.0"),
        ([WIN_IN_TWO, "--step-penalty", "0.1"], "are no win probabilities; leave the step penalty out"),
        ([WIN_IN_TWO, "--seconds", "1"], "give --replicates or --seconds, not both"),
        ([WIN_IN_TWO, "--replicates", "2"], "--replicates must be at least 4"),
        ([WIN_IN_TWO, "--replicates", "none", "--seconds", "0"], "--seconds must be a positive number, got 0.0"),
        ([WIN_IN_TWO, "--bars", "-1"], "--bars must be in [0, 54], got -1"),
        ([WIN_IN_TWO, "--json", "."], "--json: '.' is a folder"),
        ([], "give POSITION, or --hand, --top and --opponent: --hand and --top and --opponent missing"),
        (["--hand", "R1", "--top", "R0"], "--opponent missing"),
        ([WIN_IN_TWO, "--hand", "R1"], "give POSITION, or --hand, --top, --opponent and what belongs to them, not both"),
        ([WIN_IN_TWO, "--penalty", "2"], "not both"),
        (["--hand", "R1 Q", "--top", "R0", "--opponent", "3"], "hand: unknown card 'Q'"),
        (["--hand", "R1", "--top", "W", "--opponent", "3"], "top must say which colour was declared, as in W:B"),
        (["--hand", "R1", "--top", "R9", "--opponent", "3"], "but rules.deck has 0"),
        (["--hand", "R1", "--top", "R0", "--opponent", "30"], "the other player can't hold 30 cards"),
        (["--hand", "R1", "--top", "R0", "--opponent", "3", "--pile", "R1"], "R1"),
        (["--hand", "R1", "--top", "R+2", "--opponent", "3", "--penalty", "6"], "penalty must be 0 or 2 under a top card R+2"),
        (["--hand", "R1", "--top", "R+2", "--opponent", "3", "--penalty", "x"], "penalty must be a number of cards, of a Wild+4"),
        (["--hand", "R1", "--top", "W+4:R", "--opponent", "3", "--penalty", "4?Y"], "needs rules with challenges"),
        ([WIN_IN_TWO, "--penalty", "4?R"], "not both"),
    ],
)
def test_errors_are_one_line(complaint, args: list[str], says: str):
    assert says in complaint([*ARGS, *args])


def test_penalties_that_add_up(capsys, complaint):
    words = ("--hand", "R1", "--top", "R+2", "--pile", "Y+2", "--opponent", "3", "--penalty", "4", "--stacking", "True")
    data = run_json(capsys, *words)
    assert data["forced"] and "must draw 4" in data["observation"]
    unnamed = [*ARGS, *words[:4], *words[6:]]
    assert "penalty must be 0 or 2 under a top card R+2 (2 needs a +2, 4 a W+4), got 4; they add up" in complaint(unnamed)


CHALLENGES = ("--wild-draw-four", "challenge")
WORDS = ("--hand", "R1 RS", "--top", "W+4:Y", "--opponent", "3")


def test_a_wild_draw_four_that_may_be_challenged(capsys, complaint):
    """In words as in the position, with both that are legal."""
    data = run_json(capsys, "R1,RS/3/-/* W+4:Y 0 4?R 0 - *", *CHALLENGES)
    assert run_json(capsys, *WORDS, "--penalty", "4?R", *CHALLENGES) == data
    assert {play["action"] for play in data["plays"]} == {"draw", "challenge"}
    # The number alone would say that there is nothing to choose.
    says = "penalty must say which colour was active before the Wild+4, as in 4?R, since it may be challenged, got '4'"
    assert says in complaint([*ARGS, *WORDS, "--penalty", "4", *CHALLENGES])


@pytest.mark.parametrize(
    ("top", "penalty", "rules", "legal"),
    [
        ("W+4:B", "4?R", Rules.official(), {cards.DRAW, cards.CHALLENGE}),
        ("w+4:b", " 4?red ", Rules.official(), {cards.DRAW, cards.CHALLENGE}),
        # A challenge that failed.
        ("W+4:B", 6, Rules.official(), {cards.DRAW}),
        ("G+2", 2, Rules.official(), {cards.DRAW}),
        ("W+4:B", 4, Rules(), {cards.DRAW}),
        # Drawn already.
        ("W+4:R", 0, Rules.official(), {*map(parse_action, ("R1", "RS", "draw"))}),
        ("W+4:R", "", Rules(), {*map(parse_action, ("R1", "RS"))}),
    ],
)
def test_what_a_penalty_in_words_leaves_to_do(top: str, penalty: int | str, rules: Rules, legal: set[int]):
    seen = make_observation("R1 RS", top, 5, penalty=penalty, rules=rules)
    assert set(np.flatnonzero(legal_actions(seen))) == legal


@pytest.mark.parametrize(("pile", "penalty"), [("", 4), ("", "4"), ("W+4", 8)])
def test_a_penalty_that_may_be_challenged_says_so(pile: str, penalty: int | str):
    rules = Rules.official(stacking=True)
    with pytest.raises(
        ValueError, match=rf"as in {penalty}\?R, since it may be challenged, got {penalty!r}; if it can't be any more"
    ):
        unojax.advise(hand="R1 RS", top="W+4:B", opponent=5, pile=pile, penalty=penalty, agent=SPEC, rules=rules)


def test_of_two_views_that_fail_the_longer_one_tells_why(complaint):
    """From seat 1, whose cards are not named, the history would fail at its first draw."""
    args = ["Y1,Y2/Y3,YS/-/* R0 0 0 0 - *", "--history", "draw(W) draw Y2"]
    assert "action 3: player 0 can't play Y2: legal here: W:R" in complaint([*ARGS, *args])


def test_seconds_are_kept(capsys, monkeypatch):
    """With a clock that goes on by 1 s at each look, a replicate takes 1 s; and there are never fewer than errors need."""
    rounds = {}
    for seconds in ("1", "10.5"):
        ticks = iter(range(1000))
        monkeypatch.setattr(advising, "time", SimpleNamespace(perf_counter=lambda ticks=ticks: next(ticks)))
        rounds[seconds] = run_json(capsys, WIN_IN_TWO, "--replicates", "none", "--seconds", seconds)["replicates"]
    assert rounds == {"1": 4, "10.5": 10}


def test_text_shows_what_the_record_has(capsys):
    data = run_json(capsys, "R1,R2,Y1,W/4/Y0/* R0 0 0 0 - *", "--bars", "5")
    out = run_text(capsys, "R1,R2,Y1,W/4/Y0/* R0 0 0 0 - *", "--bars", "5")
    rows = re.findall(r"^([> ]) +(\S+) +([\d.]+) ± ([\d.]+) ", out, re.MULTILINE)
    assert [row[1] for row in rows] == [play["action"] for play in data["plays"]]
    assert [row[1] for row in rows if row[0] == ">"] == [data["recommended"]]
    for row, play in zip(rows, data["plays"], strict=True):
        assert float(row[2]) == pytest.approx(100 * play["win"], abs=0.051)
        assert float(row[3]) == pytest.approx(100 * play["win_error"], abs=0.051)
    likely = sorted(data["belief"]["prob_holds"].items(), key=lambda item: -item[1])[:5]
    shown = re.findall(r"([RYW]\S*) +[█▏▎▍▌▋▊▉]+ +(\d+)", out)
    assert dict(shown) == {name: f"{100 * probability:.0f}" for name, probability in likely}
    assert re.search(rf"^ *[> ] +{re.escape(data['policy_play'])} .* uniform alone$", out, re.MULTILINE)
    assert "[" not in out
    assert "█" not in run_text(capsys, "R1,R2,Y1,W/4/Y0/* R0 0 0 0 - *", "--bars", "0")


def test_draws_and_challenges_are_advised_as_plays_are():
    """They have no card, and so no colour, and nothing is played."""
    numbers = {"win": 0.5, "win_error": 0.1, "behind": 0.0, "behind_error": 0.0, "gain": 0.0, "gain_error": 0.0, "rollouts": 8}
    actions = (cards.CHALLENGE, cards.DRAW, 0)
    plays = tuple(pooling.PooledPlay(action, **numbers) for action in actions)
    told = pooling.Pooled(plays, recommended=cards.CHALLENGE, own=cards.CHALLENGE, replicates=4)
    console = Console(file=(out := io.StringIO()), width=80)
    console.print(advise_view.plays(told, unojax.parse_agent(SPEC, rules=RULES), has_drawn=False))
    text = out.getvalue()
    assert re.search("> +challenge", text) and re.search("  draw +50.0", text)
    assert "Challenge, as the policy uniform would." in text
    console.print(advise_view.plays(told, unojax.parse_agent(SPEC, rules=RULES), has_drawn=True))
    assert re.search("  pass +50.0", out.getvalue().removeprefix(text)) and "draw" not in out.getvalue().removeprefix(text)


@pytest.mark.slow
@pytest.mark.long
def test_other_searches(capsys):
    """The default policy, a tree, and a belief without memory say the same of a position that is won."""
    for spec in (
        "mc:rollouts=64,particles=256",
        "tree:simulations=64,particles=256,nodes=64",
        "mc:rollouts=64,particles=256,belief=unseen",
    ):
        data = run_json(capsys, WIN_IN_TWO, "--agent", spec)
        assert data["agent"] == spec
        assert data["recommended"] == "RS"
        assert data["plays"][0]["win"] == 1.0


def test_status_line_keeps_off_the_results(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main([*ARGS, WIN_IN_TWO, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["recommended"] == "RS"
    assert "search: replicate 4 of 4" in captured.err and "5 of 4" not in captured.err
    assert main([*ARGS, WIN_IN_TWO, "--json", "-", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_ascii_terminal(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)
    assert main([*ARGS, WIN_IN_TWO]) == 0
    assert re.search(r"^> \|RS +\|100\.0 \+- 0\.0 ", out.buffer.getvalue().decode("ascii"), re.MULTILINE)


@pytest.mark.parametrize(
    ("rules", "history", "plays"),
    [
        ("official", "draw+ pass R1 draw", {"RS", "draw"}),
        ("official", "W+4:R challenge(won) draw", {"R1", "RS", "draw"}),
        ("house", "draw draw R2 R1 draw draw pass", {"RS"}),
        ("rlcard", "draw(R3) R1 draw(W:R)", {"RS"}),
    ],
)
def test_histories_under_rules_with_choices(capsys, rules: str, history: str, plays: set[str]):
    """The opponent moves first; drawn cards kept, played and laid, passes, a challenge."""
    words = ("--hand", "R1 RS", "--top", "R0", "--opponent", "3", "--opponent-begins", "--rules", rules)
    data = run_json(capsys, *words, "--history", history)
    assert data["history"] == history
    assert {play["action"] for play in data["plays"]} == plays


def test_a_belief_on_the_opponents_turn(capsys):
    data = run_json(capsys, "R1,R2/3/-/* R0 0 0 0 - *", "--history", "R1")
    assert data["recommended"] is None and data["plays"] == []
    out = run_text(capsys, "--hand", "R1 RS", "--top", "R0", "--opponent", "3", "--opponent-begins")
    assert "Player 1 is to move." in out and "Probability in % that player 1 holds a card" in out
