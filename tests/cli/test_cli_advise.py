"""`unojax advise`: its history, its figures, and independence of the hidden hand."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Final

import jax
import numpy as np
import pytest
from rich.console import Console

import unojax
from tests.cli.by_script import RULE_ARGS, RULES
from tests.helpers import refusals
from unojax import Rules, cards
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter
from unojax.games import advising
from unojax.games.choices import legal_actions
from unojax.games.seen import play_seen
from unojax.search import pooling
from unojax.terminal import advice
from unojax.text import make_observation, parse_action, parse_observation

PROGRAMS: Final = 60  # two sets of rules, with several searches
# Cheaper to compile than the default, in which the linear policy plays and is the model.
SPEC = "mc:rollouts=64,particles=256,policy=uniform,model=uniform"
ARGS = ["advise", *RULE_ARGS, "--agent", SPEC, "--replicates", "4"]
# Player 0 wins at once with the skip, which forfeits the other's turn, and the card after it.
WIN_IN_TWO = "RS,R1/3/Y0/* R0 0 0 0 - *"
IN_WORDS = {"hand": "RS R1", "top": "R0", "opponent": 3, "pile": "Y0"}
# Player 1 can't play on R2, and draws.
OPPONENT_DRAWS = "R0,R1,Y1,Y2/2/-/* R2 1 0 0 - *"
OFFICIAL = Rules.official()


@pytest.fixture
def ask(run_json):
    """Return advice without its time."""

    def run(*args: str, **expected) -> dict:
        data = run_json(*ARGS, *args, **expected)
        assert data.pop("seconds") >= 0
        return data

    return run


def test_a_winning_play_is_found_and_the_table_shows_the_record(ask, run_text, run_ascii):
    data = ask(WIN_IN_TWO)
    best, other = data["plays"]
    assert data["recommended"] == best["action"] == "RS" and not data["forced"]
    assert (best["win"], best["win_error"], best["behind"], best["behind_error"]) == (1.0, 0.0, 0.0, 0.0)
    assert other["action"] == "R1" and 0 < other["win"] < 1
    # The win probability lost against a sure win has the same error.
    assert other["behind"] == pytest.approx(1 - other["win"])
    assert other["behind_error"] == pytest.approx(other["win_error"]) and other["win_error"] > 0
    assert [play["rollouts"] for play in data["plays"]] == [4 * 64] * 2
    out = run_text(*ARGS, WIN_IN_TWO)
    assert re.search(r"^> +RS +100\.0 ± 0\.0 +256", out, re.MULTILINE) and "Play RS" in out
    assert re.search(rf"^ +R1 +{100 * other['win']:.1f} ± [\d.]+ +-{100 * other['behind']:.1f} ± [\d.]+ +256", out, re.MULTILINE)
    assert re.search(r"^> \|RS +\|100\.0 \+- 0\.0 ", run_ascii(*ARGS, WIN_IN_TWO), re.MULTILINE)


def test_bars_and_the_policys_play_are_those_of_the_record(ask, run_text):
    position = "R1,R2,Y1,W/4/Y0/* R0 0 0 0 - *"
    data, out = ask(position), run_text(*ARGS, position, "--bars", "5")
    rows = re.findall(r"^([> ]) +(\S+) +([\d.]+) ± ([\d.]+) ", out, re.MULTILINE)
    assert [row[1] for row in rows] == [play["action"] for play in data["plays"]]
    assert [row[1] for row in rows if row[0] == ">"] == [data["recommended"]]
    likely = sorted(data["belief"]["prob_holds"].items(), key=lambda item: -item[1])[:5]
    shown = re.findall(r"([RYW]\S*) +[█▏▎▍▌▋▊▉]+ +(\d+)", out)
    assert dict(shown) == {name: f"{100 * probability:.0f}" for name, probability in likely}
    assert re.search(rf"^ *[> ] +{re.escape(data['policy_play'])} .* uniform alone$", out, re.MULTILINE)
    assert "█" not in run_text(*ARGS, position, "--bars", "0")


def test_a_position_comes_as_a_line_in_words_or_on_standard_input(ask, stdin):
    data = ask(WIN_IN_TWO)
    assert ask("--hand", "rs, R1", "--top", "r0", "--opponent", "3", "--pile", "Y0") == data
    for text in (WIN_IN_TWO + "\n", data["observation"]):
        stdin(text)
        assert ask("-") == data


def test_forced_moves_are_said_and_not_searched(ask, run_text):
    only = ask("R1/3/Y0/* R0 0 0 0 - *")
    assert only["forced"] and only["recommended"] == "R1" and [play["win"] for play in only["plays"]] == [1.0]
    for position, action, words in (
        ("Y1/3/Y0/* R0 0 0 0 - *", "draw", "Draw: no card in hand can be played."),
        ("R1/3/Y0/* R+2 0 2 0 - *", "draw", "Draw 2: the penalty leaves no choice."),
    ):
        data = ask(position)
        assert (data["forced"], data["recommended"], data["plays"]) == (True, action, [])
        assert words in run_text(*ARGS, position)
    words = "--hand R1 --top R+2 --pile Y+2 --opponent 3 --penalty 4 --stacking True"
    stacked = ask(*words.split(), "--agent", "mc:belief=unseen")
    assert stacked["forced"] and "must draw 4" in stacked["observation"]
    others_turn = ask("R1,R2/3/-/* R0 0 0 0 - *", "--history", "R1")
    assert others_turn["recommended"] is None and others_turn["plays"] == []
    assert "Player 1 is to move." in run_text(*ARGS, "R1,R2/3/-/* R0 0 0 0 - *", "--history", "R1")


def test_the_hidden_hand_changes_nothing(ask, run_text):
    """Whether it is given, another one, or omitted."""
    views = [ask(f"R1,R2,Y1/{hand}/Y0/* R0 0 0 0 - *") for hand in ("W,W+4", "Y2,Y3", "2")]
    assert views[0] == views[1] == views[2] and len(views[0]["plays"]) == 2
    texts = [run_text(*ARGS, f"R1,R2,Y1/{hand}/Y0/* R0 0 0 0 - *") for hand in ("W,W+4", "Y2,Y3")]
    one, other = (re.sub(r"in [\d.]+ s", "", " ".join(out.split())) for out in texts)
    assert one == other and "the hand of player 1 was given and not looked at" in one


def test_the_record_can_be_read_back(ask):
    history = "draw R0 Y0 Y1 Y+2 draw(RS,W) draw"
    data = ask("R0,Y1,Y2,Y3/2/-/* R2 1 0 0 - *", "--history", history)
    assert data["history"] == history and "hand      RS Y2 Y3 W" in data["observation"]
    assert [play["action"] for play in data["plays"]] != sorted(play["action"] for play in data["plays"])
    assert ask(data["start"], "--history", data["history"]) == data
    assert Rules(**(data["rules"] | {"deck": tuple(data["rules"]["deck"])})) == RULES


def test_belief_is_that_of_the_history(ask, run_text):
    """Probabilities within 0.2, six standard deviations (at most 0.5 / 16) of a mean over 256 hands."""
    history = "draw R0 R3 R1 draw"
    data = ask(OPPONENT_DRAWS, "--history", history)
    seen = play_seen(parse_observation(OPPONENT_DRAWS, rules=RULES), history).observations
    *_, (exact, _) = track(ExactFilter(prior="uniform"), jax.random.key(0), seen)
    believed = [data["belief"]["prob_holds"].get(name, 0.0) for name in cards.TYPE_NAMES]
    np.testing.assert_allclose(believed, exact.prob_holds, atol=0.2)
    alone = ask(data["observation"])["belief"]["prob_holds"]
    # Exactly it is 0.255 for one card; three standard deviations of a mean over 256 hands are 0.09.
    assert max(abs(alone[name] - data["belief"]["prob_holds"][name]) for name in alone) > 0.15
    out = run_text(*ARGS, OPPONENT_DRAWS, "--history", history)
    assert "from 5 actions, player 1 taken for uniform" in " ".join(out.split())
    assert "--history would sharpen it" in " ".join(run_text(*ARGS, data["observation"]).split())


def test_ctrl_c_keeps_the_replicates_that_are_finished(ask, capsys, monkeypatch):
    """Stopped in the sixth replicate, and in the third, when there are too few."""
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
    data = ask("--replicates", "none", "--seconds", "500", WIN_IN_TWO, status=130, note="unojax advise: stopped after")
    assert data["replicates"] == 5 and data["recommended"] == "RS"
    stop_in(2)
    assert unojax.cli.main([*ARGS, WIN_IN_TWO]) == 130
    assert capsys.readouterr().out == ""
    # A library call raises it, so that a loop over such calls can be stopped.
    stop_in(5)
    with pytest.raises(KeyboardInterrupt):
        unojax.advise(WIN_IN_TWO, seconds=500.0, agent=SPEC, rules=RULES)


def test_seconds_are_kept(ask, monkeypatch):
    """A replicate takes 1 s by a fake clock; there are never fewer than errors need."""
    replicates = {}
    for seconds in ("1", "10.5"):
        ticks = iter(range(1000))
        monkeypatch.setattr(advising, "time", SimpleNamespace(perf_counter=lambda ticks=ticks: next(ticks)))
        replicates[seconds] = ask(WIN_IN_TWO, "--replicates", "none", "--seconds", seconds)["replicates"]
    assert replicates == {"1": 4, "10.5": 10}


def test_the_status_line_keeps_off_the_results(capsys, watch):
    watch()
    for quiet in ((), ("--quiet",)):
        assert unojax.cli.main([*ARGS, WIN_IN_TWO, "--json", "-", *quiet]) == 0
        captured = capsys.readouterr()
        assert captured.out.startswith("{")
        assert captured.err == "" if quiet else "search: replicate 4 of 4" in captured.err and "5 of 4" not in captured.err


def test_advice_in_python():
    advised = unojax.advise(**IN_WORDS, agent=SPEC, replicates=4, rules=RULES)
    assert advised.play == "RS" and list(advised.wins) == ["RS", "R1"] and advised.wins["RS"] == (1.0, 0.0)
    assert repr(advised).startswith("play RS; wins: RS 100.0 ± 0.0 %, R1 ")
    assert advised.belief.prob_holds.shape == (cards.NUM_TYPES,)
    # A discount values the same games differently, and changes no win probability.
    discounted = unojax.advise(**IN_WORDS, agent=f"{SPEC},discount=0.5", replicates=4, rules=RULES)
    assert discounted.wins == advised.wins
    stacking, contested = Rules.official(stacking=True), {"hand": "R1 RS", "top": "W+4:B", "opponent": 5, "agent": SPEC}
    refusals(
        {
            "replicates or seconds": lambda: unojax.advise(WIN_IN_TWO, replicates=4, seconds=1.0, rules=RULES),
            "replicates (a fraction)": lambda: unojax.advise(WIN_IN_TWO, replicates=4.5, rules=RULES),
            "top": lambda: unojax.advise(hand="R1", opponent=3, rules=RULES),
            "penalty (may be challenged)": lambda: unojax.advise(**contested, penalty=4, rules=stacking),
            "penalty (text)": lambda: unojax.advise(**contested, penalty="4", rules=stacking),
            "penalty (stacked)": lambda: unojax.advise(**contested, pile="W+4", penalty=8, rules=stacking),
        }
        | {
            f"seed ({seed})": lambda seed=seed: unojax.advise(WIN_IN_TWO, seed=seed, rules=RULES)
            for seed in (-1, 2**32, 1.5, True)
        }
    )


def test_a_penalty_in_words_leaves_these_actions():
    for top, penalty, rules, legal in (
        ("W+4:B", "4?R", OFFICIAL, "draw challenge"),
        ("w+4:b", " 4?red ", OFFICIAL, "draw challenge"),
        # A challenge that failed.
        ("W+4:B", 6, OFFICIAL, "draw"),
        ("G+2", 2, OFFICIAL, "draw"),
        ("W+4:B", 4, Rules(), "draw"),
        # Drawn already.
        ("W+4:R", 0, OFFICIAL, "R1 RS draw"),
        ("W+4:R", "", Rules(), "R1 RS"),
    ):
        seen = make_observation("R1 RS", top, 5, penalty=penalty, rules=rules)
        assert set(np.flatnonzero(legal_actions(seen))) == {*map(parse_action, legal.split())}, (top, penalty)


def test_draws_and_challenges_have_rows_as_plays_have():
    """They have no card, hence no colour. After a draw, draw means pass."""
    numbers = {"win": 0.5, "win_error": 0.1, "behind": 0.0, "behind_error": 0.0, "gain": 0.0, "gain_error": 0.0, "rollouts": 8}
    plays = tuple(pooling.PooledPlay(action, **numbers) for action in ("challenge", "draw", "R0"))
    pooled = pooling.Pooled(plays, recommended="challenge", own="challenge", replicates=4)
    shown = {}
    for has_drawn in (False, True):
        console = Console(file=(out := io.StringIO()), width=80)
        console.print(advice.plays(pooled, unojax.parse_agent(SPEC, rules=RULES), has_drawn=has_drawn))
        shown[has_drawn] = out.getvalue()
    assert re.search("> +challenge", shown[False]) and re.search("  draw +50.0", shown[False])
    assert "Challenge, as the policy uniform would." in shown[False]
    assert re.search("  pass +50.0", shown[True]) and "draw" not in shown[True]


@pytest.fixture
def ask_after(ask):
    """Return advice after a history in which the opponent moves first."""

    def run(rules: str, history: str, *args: str) -> dict:
        words = "--top R0 --opponent 3 --opponent-begins --rules".split()
        data = ask("--hand", "R1 RS", *words, rules, "--history", history, *args)
        assert data["history"] == history
        return data

    return run


def test_histories_under_rules_with_choices(ask_after):
    """A challenge, a kept card, a pass. The opponent is then to move, so there is no search."""
    for history in ("W+4:R challenge(won) draw R1", "draw+ pass R1"):
        assert ask_after("official", history, "--agent", "mc:belief=unseen")["plays"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "history", "plays"),
    [
        ("official", "W+4:R challenge(won) draw", "R1 RS draw"),
        ("official", "draw+ pass R1 draw", "RS draw"),
        ("house", "draw draw R2 R1 draw draw pass", "RS"),
        ("rlcard", "draw(R3) R1 draw(W:R)", "RS"),
    ],
)
def test_advice_under_rules_with_choices(ask_after, rules: str, history: str, plays: str):
    assert {play["action"] for play in ask_after(rules, history)["plays"]} == set(plays.split())


def test_bad_command_lines_are_refused(refused, stdin):
    """`tests/games/test_at_table.py` has more impossible events, and `tests/text` more positions."""
    stdin("")
    win, words, turn = f"'{WIN_IN_TWO}'", "--hand R1 --top R+2 --opponent 3", "'R1,R2/3/-/* R0 0 0 0 - *' --history"
    histories = {
        f"{turn} 'R1 R2'": "--history: action 2: player 1 can't play R2: the only one is in the hand of player 0",
        f"{turn} 'R1 draw R2 draw'": "--history: action 4: 'draw' comes after the end",
        f"{turn} 'R1 draw R2'": "the game is over at its end",
        # The deck is empty, so that the card is one of the pile.
        "'Y1,Y2/1/Y0,Y3,YS,Y+2,R1,R2,R3,RS,R+2,W/0 R0 0 0 0 - *' --history 'draw(W+4)'": "action 1: the deck holds 0 cards",
        # 8 unseen cards, 2 of which are neither red nor 0 nor wild.
        "'R1,R2,Y1,Y2,Y3/6/-/* R0 1 0 0 - *' --history draw": "action 1: player 1 can't draw: of 6 cards one matches R0",
        f"'{OPPONENT_DRAWS}' --history 'draw R0 R3 R1 R+2'": "action 5: no hand of player 1 explains this",
        # Of two views that fail the longer one gives the reason: from seat 1 the history fails at its first draw.
        "'Y1,Y2/Y3,YS/-/* R0 0 0 0 - *' --history 'draw(W) draw Y2'": "action 3: player 0 can't play Y2",
    }
    positions = {
        "-": "standard input is empty",
        "x": "position 'x'",
        "'R1/20/-/* R0 0 0 0 - *'": "20 cards",
        "'-/R1/-/* R0 0 0 1 - 0'": "the game is over",
        "": "--hand and --top and --opponent missing",
        "--hand R1 --top R0": "--opponent missing",
        f"{win} --hand R1": "not both",
        f"{win} --penalty 2": "not both",
        "--hand 'R1 Q' --top R0 --opponent 3": "hand: unknown card 'Q'",
        "--hand R1 --top W --opponent 3": "top",
        "--hand R1 --top R9 --opponent 3": "rules.deck",
        "--hand R1 --top R0 --opponent 30": "30 cards",
        "--hand R1 --top R0 --opponent 3 --pile R1": "R1",
        f"{words} --penalty 6": "penalty",
        f"{words} --penalty x": "penalty",
        f"{words} --penalty 4 --stacking True": "penalty",
        "--hand R1 --top W+4:R --opponent 3 --penalty 4?Y": "challenges",
        # The number alone would say that there is nothing to choose.
        "--hand 'R1 RS' --top W+4:Y --opponent 3 --penalty 4 --wild-draw-four challenge": "penalty must say which colour",
    }
    options = {
        "--player 1": "player 1",
        "--agent uniform": "agent 'uniform'",
        "--agent best": "no agent is called 'best'",
        "--agent mc:belief=truth": "belief=truth",
        "--agent mc:discount=0": "discount",
        "--step-penalty 0.1": "step penalty",
        "--seconds 1": "--replicates or --seconds",
        "--replicates 2": "--replicates",
        "--replicates none --seconds 0": "--seconds",
        "--bars -1": "--bars",
        "--json .": "--json",
    }
    refused(histories | positions | {f"{win} {option}": name for option, name in options.items()}, ARGS)
