"""Games of other people, tracked event by event: beliefs, short forms, errors, corrections."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import jax
import numpy as np
import pytest

from tests.games.playing import VARIANTS, random_game
from tests.helpers import assert_trees_equal, refusals, refused_texts
from unojax.belief.tracking import track
from unojax.games.at_table import NAMES, Table
from unojax.games.gamefile import read_game
from unojax.games.seen import ImpossibleActionError, SeenGame, play_seen

PROGRAMS = 110  # Particle filters and searches.

AGENT = {"agent": "mc:rollouts=16,particles=64,policy=uniform,model=uniform|scarcest-color", "seed": 3}
HAND = "R1 R5 Y2 YS B7 G+2 W"


def at_table(line: str = "", hand: str = HAND, top: str = "R0", rules: str = "default", **others) -> SeenGame:
    """Return the game of a `Table`, without its beliefs."""
    return Table(hand, top, rules=rules, **others).game.play(line)


@pytest.mark.parametrize("name", ["official", *(pytest.param(name, marks=pytest.mark.slow) for name in ("default", "house"))])
def test_belief_is_that_of_the_filter(name: str):
    """A game entered as text gives the filter's belief on the real observations, digest by digest."""
    real = SeenGame.of(random_game(name, 1), 0)
    table = Table.of(real.back(len(real.events)), **AGENT)
    key = jax.random.key(AGENT["seed"])
    beliefs = track(table.search.updater, jax.random.fold_in(jax.random.fold_in(key, 0), 0), real.observations[:12])
    for number, (belief, _) in enumerate(beliefs):
        if number:
            table.play(str(real.events[number - 1]))
        assert_trees_equal(jax.device_get(table.belief), jax.device_get(belief))


def test_a_table_from_the_deal_to_a_resumed_game(tmp_path):
    """Advice on the own turn only, `after`, undo, a correction, a count, and the file."""
    table = Table("R1 RS W+4", "R0", rules=VARIANTS["official"], opponent_begins=True, **AGENT)
    assert not table.is_my_turn and table.advise() is None
    assert [str(event) for event in table.play("r2; r1 d")] == ["R2", "R1", "draw"]
    advised = table.advise()
    assert advised is not None and {play.action for play in advised.plays} >= {"RS", "draw"}
    assert advised is table.advise()

    before, looked = table.events, table.look()
    branch = table.after("rs")
    assert table.events is before and branch.events == (*before, *branch.events[3:])
    assert branch.look().win_probability != looked.win_probability
    assert table.look() is not looked and table.look().win_probability == looked.win_probability

    table.play("RS; W+4:Y")
    table.undo(2)
    assert table.events == before
    table.correct(1, "R3")
    assert [str(event) for event in table.events] == ["R3", "R1", "draw"]
    with pytest.raises(ImpossibleActionError, match="action 2: you can't play R1: legal here"):
        table.correct(1, "W:Y")
    assert [str(event) for event in table.events] == ["R3", "R1", "draw"]

    types = table.look().types
    table.play("they have 6 cards")
    assert int(table.view.opponent_count) == 6 and str(table.events[-1]) == "=6"
    assert table.game.num_steps == 3, "a count is no step of the game"
    assert table.look().types == pytest.approx(types, abs=1e-5)

    table.save(tmp_path / "table.json")
    again = Table.resume(tmp_path / "table.json", agent=AGENT["agent"])
    assert again.events == table.events and again.game.names == NAMES
    assert_trees_equal(again.view, table.view)
    assert_trees_equal(jax.device_get(again.belief), jax.device_get(table.belief))
    with pytest.raises(ValueError, match="a game as one player saw it"):
        read_game(tmp_path / "table.json").replay()


def test_a_notebook_shows_a_table():
    table = Table(HAND, "R0")
    table.play("r5; d")
    assert repr(table) == f"<Table of 2 events, {table.view!r}>" and table._repr_svg_() == table.view._repr_svg_()


def test_the_end_of_a_game():
    table = Table("R1", "R0", opponent=3, rules=VARIANTS["official"], **AGENT)
    table.play("r1")
    assert table.is_over and table.look().win_probability == 1 and table.advise() is None


SHORT_FORMS = {
    "R5": ["r5", "red 5", "R 5"],
    "W:B": ["w b", "wb", "W:B", "wild blue"],
    "draw(G7)": ["d g7", "draw G7", "draw(G7)", "draw green 7"],
    "R5 draw R1": ["r5 d r1", "r5, d; r1"],
    "R5 draw+ R7": ["r5 d+r7"],
    "R5 draw+ pass": ["r5 draw+ pass", "r5 draw+ p"],
    "draw(R7) pass": ["d r7 p"],
    "draw(R7) R7": ["d r7 r7"],
    "R5 W+4:B challenge(won) draw": ["r5 w4b c won d", "r5 w+4 blue c+ d"],
    "R5 W+4:B challenge(lost) draw(R1,R2,R3,R4,G6,G7)": ["r5 w4b challenge lost draw r1 r2 r3 r4 g6 g7"],
    "R5 W+4:B challenge(lost)": ["r5 w4b c-"],
    "R5 W+4:B draw(R2,R3,R4,G7)": ["r5 w4b d r2 r3 r4 g7"],
    "R5 =5": ["r5 =5", "r5; they have 5 cards", "r5; = 5"],
    "R5 =5 R+2 draw(R1,G6)": ["r5; they hold 5; r+2; d r1 g6"],
    "R5 draw draw(R2)": ["r5; draw 1 card; d r2", "r5; draw 1 card, draw 1 r2"],
    "R5 R+2 draw(R1,G6) R7": ["r5; r+2; draw 2 r1 g6; r7", "r5; r+2; draw two cards: red 1, green 6; r7"],
}


def test_short_forms():
    for events, lines in SHORT_FORMS.items():
        for line in lines:
            game = at_table(line, rules="official")
            assert game.notation == events, line
            assert game.events == play_seen(game.start, events).events
    for line in ("they have 5 cards", "They hold 5", "lost track: they have 5 cards", "lost track 5", "= 5"):
        assert at_table("r5").play(line).notation == "R5 =5"
    for line in ("draw 2", "d two", "draws 2 cards"):
        assert at_table("r+2", hand="R1 R5 Y2 YS B7 G+2 R+2").play(line).notation == "R+2 draw"


# By rules and the events so far: words of the refusal, and lines that it refuses.
BAD = {
    ("default", ""): {
        "unknown event": ["x", "r", "r55", "purple 5", "5", "r10", "r5:b", "draw-", "(r5)", "=", "=x"],
        "declare one of the four colours": ["w", "w p"],
        "you can't play": ["r7", "y2", "b7", "w+4 b"],
        "you can't draw(G7)": ["d g7"],
        "you can't pass": ["pass"],
        "you can't challenge": ["challenge"],
        "they can't hold 101 cards": ["they have 101 cards"],
        "action 3: you can't play R4": ["r5 r4 r4"],
    },
    ("official", ""): {
        "you can't challenge(won)": ["c won"],
        "you can't pass": ["p"],
        "name the card that you drew": ["d"],
        "1 x R0 can't be drawn": ["d r0"],
        "a draw of 1": ["draw(r2,r3)"],
        "you can't draw 2 here": ["draw 2"],
        "unknown card 'X'": ["draw(x)"],
    },
    ("official", "d r7"): {"write pass": ["d r8"], "you can't play R5": ["r5"]},
    ("official", "d b7"): {"they can't pass": ["p"]},
    ("official", "r5 w4b"): {"a draw of 4": ["d r1"], "how the challenge ended": ["c"], "you can't play R1": ["r1"]},
    ("official", "r5 w4b c won"): {"you can't play R2": ["d r2 r3 r4 r6"]},
    # The other player's plays.
    ("default", "r5"): {
        "they can't play Y2": ["y2"],
        "declare one of the four colours": ["w"],
        "write draw": ["draw(r3)", "draw+"],
        "they can't draw 2 here": ["d 2"],
        "they can't hold 0 cards": ["=0"],
        "they can't hold 200 cards": ["=200"],
    },
    ("default", "r5 d r1 r2 y2 y2 wy"): {"they can't play Y2": ["y2"]},
    ("default", "r1"): {"they can't play R0": ["r0"], "they can't play R1": ["g1 g+2 r1"]},
    ("default", "r5 r+2"): {"you can't play R1": ["r1"]},
    ("default", "wy"): {"they can't play R3": ["r3"]},
    # The other player's draws, passes and challenges.
    ("house", "r5"): {"write draw": ["draw+"], "they can't challenge": ["c"]},
    ("official", "r5"): {"write draw": ["draw(r3)"], "they can't pass": ["p"], "they can't challenge": ["c"]},
    ("rlcard", "r5"): {
        "they can't draw(B3)": ["draw(b3)"],
        "no R0 is left": ["draw(r0)"],
        "declare": ["draw(w)", "w4b w"],
    },
    ("official", "r5 d+"): {"they can't draw again": ["d r1"]},
    ("official", "wy"): {"they can't challenge": ["c won"]},
    ("house", "r5 d"): {"you can't challenge": ["w4b c"]},
}


def test_bad_entries():
    """Each raises with a reason, and its line changes nothing."""
    for (rules, so_far), refused in BAD.items():
        refused_texts(at_table(so_far, rules=rules).play, refused)
    table = Table(HAND, "R0")
    before = table.game
    with pytest.raises(ImpossibleActionError, match="action 3: you can't play R4"):
        table.play("r5 r4 r4")
    assert table.game is before


def test_bad_starts_and_corrections():
    starts = {
        "hand": {"hand": "R1 R5"},
        "'Q'": {"hand": "R1 Q"},
        "top": {"top": "W"},
        "penalty": {"penalty": 2},
        "rules": {"rules": "mine"},
        "estimates": {"agent": "uniform"},
        "hidden hand": {"agent": "mc:belief=truth"},
        "seed": {"seed": -1},
        "replicates": {"replicates": 1},
        "pile must be text": {"pile": None},
        "opponent_begins must be True or False": {"opponent_begins": "they"},
    }
    refusals({name: partial(Table, **{"hand": HAND, "top": "R0"} | given) for name, given in starts.items()})
    game = at_table("r5")
    refusals({f"there is no event ({number})": partial(game.corrected, number, "r1") for number in (0, 2, "1")})
    events, number = cast(Any, ["r5", "d"]), cast(Any, "1")
    refusals({"events must be text": partial(game.play, events), "events to take back, not '1'": partial(game.back, number)})
    refusals({"1 events to take back, not 2": lambda: game.back(2)})


def test_effects_of_a_start_card():
    for rules, top, opponent_begins, mine, theirs, penalty in (
        ("default", "R+2", False, 7, 7, 0),
        ("official", "R+2", False, 7, 7, 2),
        ("official", "R+2", True, 7, 7, 2),
        ("official", "RS", True, 7, 7, 0),
        ("official", "W:B", False, 7, 7, 0),
        ("official,start_card=any", "W+4:B", False, 7, 7, 4),
        ("rlcard", "R+2", False, 9, 7, 0),
        ("rlcard", "R+2", True, 7, 9, 0),
    ):
        view = Table(HAND + " Y0 G0" * (mine == 9), top, opponent_begins=opponent_begins, rules=rules).view
        assert (int(np.sum(view.hand)), int(view.opponent_count), int(view.penalty)) == (mine, theirs, penalty)
        assert int(view.current_player) == opponent_begins and view.contested == -1
