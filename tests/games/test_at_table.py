"""Games that others play, followed event by event: the belief of the same game, entries in short, refusals, corrections."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

import unojax
from tests.games.test_seen import SMALL, VARIANTS, random_game
from tests.helpers import assert_trees_equal
from unojax import Rules
from unojax.belief.tracking import track
from unojax.games.at_table import NAMES, Table
from unojax.games.gamefile import read_game
from unojax.games.seen import ImpossibleActionError, SeenGame, play_seen

AGENT = {"agent": "mc:rollouts=16,particles=64,policy=uniform,model=uniform|scarcest-color", "seed": 3}
HAND = "R1 R5 Y2 YS B7 G+2 W"


def at_table(line: str = "", hand: str = HAND, top: str = "R0", rules: str = "default", **others) -> SeenGame:
    """A game as a `Table` has it, without its beliefs."""
    return Table(hand, top, rules=rules, **others).game.play(line)


@pytest.mark.parametrize("name", ["default", "official", "house"])
def test_belief_is_that_of_the_filter(name: str):
    """The same game, entered in text, and followed by the filter from the real observations: digests are equal."""
    real = SeenGame.of(random_game(name, 1), 0)
    table = Table.of(real.back(len(real.events)), **AGENT)
    key = jax.random.key(AGENT["seed"])
    beliefs = track(table.search.updater, jax.random.fold_in(jax.random.fold_in(key, 0), 0), real.observations[:12])
    for number, (belief, _) in enumerate(beliefs):
        if number:
            table.play(str(real.events[number - 1]))
        assert_trees_equal(jax.device_get(table.belief), jax.device_get(belief))


def official(hand: str = "R1 RS W+4", top: str = "R0", **others) -> Table:
    return Table(hand, top, rules=VARIANTS["official"], **AGENT, **others)


def test_a_table_from_the_deal_to_a_resumed_game(tmp_path):
    """Advice on one's own turn alone, what if, undo, a correction of an earlier event, a count, and the file."""
    table = official(opponent_begins=True)
    assert not table.is_my_turn and table.advise() is None
    assert [str(event) for event in table.play("r2; r1 d")] == ["R2", "R1", "draw"]
    advised = table.advise()
    assert advised is not None and {play.action for play in advised.plays} >= {unojax.parse_action("RS"), 60}
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
    assert table.look().types == pytest.approx(types, abs=1e-5)

    table.save(tmp_path / "table.json")
    again = Table.resume(tmp_path / "table.json", agent=AGENT["agent"])
    assert again.events == table.events and again.game.names == NAMES
    assert_trees_equal(again.view, table.view)
    assert_trees_equal(jax.device_get(again.belief), jax.device_get(table.belief))
    with pytest.raises(ValueError, match="a game as one player saw it"):
        read_game(tmp_path / "table.json").replay()


def test_the_end_of_a_game():
    table = Table("R1", "R0", opponent=3, rules=Rules(**SMALL), **AGENT)
    table.play("r1")
    assert table.is_over and table.look().win_probability == 1 and table.advise() is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["default", "official", "house", "rlcard"])
def test_files_of_one_view_lead_to_the_same_views(name: str, seed: int, tmp_path):
    real = SeenGame.of(random_game(name, seed), 1)
    table = Table.of(real)
    table.save(tmp_path / "game.json")
    again = read_game(tmp_path / "game.json").seen()
    assert again.events == real.events
    for mine, seen in zip(again.observations, real.observations, strict=True):
        assert_trees_equal(mine, seen)


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ("r5", "R5"),
        ("red 5", "R5"),
        ("R 5", "R5"),
        ("w b", "W:B"),
        ("wb", "W:B"),
        ("W:B", "W:B"),
        ("wild blue", "W:B"),
        ("d g7", "draw(G7)"),
        ("draw G7", "draw(G7)"),
        ("draw(G7)", "draw(G7)"),
        ("draw green 7", "draw(G7)"),
        ("r5 d r1", "R5 draw R1"),
        ("r5, d; r1", "R5 draw R1"),
        ("r5 d+r7", "R5 draw+ R7"),
        ("r5 draw+ pass", "R5 draw+ pass"),
        ("r5 draw+ p", "R5 draw+ pass"),
        ("d r7 p", "draw(R7) pass"),
        ("d r7 r7", "draw(R7) R7"),
        ("r5 w4b c won d", "R5 W+4:B challenge(won) draw"),
        ("r5 w+4 blue c+ d", "R5 W+4:B challenge(won) draw"),
        ("r5 w4b challenge lost draw r1 r2 r3 r4 g6 g7", "R5 W+4:B challenge(lost) draw(R1,R2,R3,R4,G6,G7)"),
        ("r5 w4b c-", "R5 W+4:B challenge(lost)"),
        ("r5 w4b d r2 r3 r4 g7", "R5 W+4:B draw(R2,R3,R4,G7)"),
        ("r5 =5", "R5 =5"),
    ],
)
def test_short_forms(line: str, events: str):
    game = at_table(line, rules="official")
    assert game.notation == events
    assert game.events == play_seen(game.start, events).events


@pytest.mark.parametrize("line", ["they have 5 cards", "They hold 5", "lost track: they have 5 cards", "lost track 5", "= 5"])
def test_counts_in_words(line: str):
    assert at_table("r5").play(line).notation == "R5 =5"


@pytest.mark.parametrize("line", ["draw 2", "d two", "draws 2 cards"])
def test_draws_with_a_number(line: str):
    game = at_table("r+2", hand="R1 R5 Y2 YS B7 G+2 R+2")
    assert game.play(line).notation == "R+2 draw"


START = "R1 R5 Y2 YS B7 G+2 W"
BAD = [
    # No events at all.
    ("default", "", "x", "unknown event 'x': write a card"),
    ("default", "", "r", "unknown event 'r'"),
    ("default", "", "r55", "unknown event 'r55'"),
    ("default", "", "purple 5", "unknown event 'purple'"),
    ("default", "", "5", "unknown event '5'"),
    ("default", "", "r10", "unknown event 'r10'"),
    ("default", "", "w", "must declare one of the four colours"),
    ("default", "", "w p", "must declare one of the four colours"),
    ("default", "", "r5:b", "unknown event 'r5:b'"),
    ("default", "", "draw-", "unknown event 'draw-'"),
    ("default", "", "(r5)", "unknown event '(r5)'"),
    ("default", "", "=", "unknown event '='"),
    ("default", "", "=x", "unknown event '=x'"),
    # Plays of one's own.
    ("default", "", "r7", "you can't play R7: legal here: R1, R5"),
    ("default", "", "y2", "you can't play Y2: legal here"),
    ("default", "", "b7", "you can't play B7: legal here"),
    ("default", "", "w+4 b", "you can't play W+4:B: legal here"),
    ("default", "r5 d", "r5", "you can't play R5: legal here"),
    ("default", "", "d g7", "you can't draw(G7): legal here"),
    ("default", "", "pass", "you can't pass: legal here"),
    ("default", "", "challenge", "you can't challenge: legal here"),
    ("official", "", "c won", "you can't challenge(won): legal here"),
    ("official", "", "p", "you can't pass: legal here"),
    # Draws of one's own.
    ("official", "", "d", "name the card that you drew, as in draw(R5)"),
    ("official", "", "d r0", "1 x R0 can't be drawn: only 0 can be in the deck"),
    ("official", "", "draw(r2,r3)", "a draw of 1 must name as many cards"),
    ("official", "", "draw(x)", "unknown card 'X'"),
    ("official", "", "draw 2", "you can't draw 2 here: the draw is of 1"),
    ("official", "d r7", "d r8", "you can't draw again, having drawn a card that can be played: write pass"),
    ("official", "d r7", "r5", "you can't play R5: legal here: R7, pass"),
    ("official", "d b7", "p", "they can't pass"),
    ("official", "r5 w4b", "d r1", "a draw of 4 must name as many cards"),
    ("official", "r5 w4b", "c", "say how the challenge ended"),
    ("official", "r5 w4b c won", "d r2 r3 r4 r6", "you can't play R2: legal here"),
    ("official", "r5 w4b", "r1", "you can't play R1: legal here: draw, challenge"),
    # Plays of theirs.
    ("default", "r5", "y2", "they can't play Y2: it does not go on R5"),
    ("default", "r5 d r1 r2 y2 y2 wy", "y2", "they can't play Y2: both are on the pile"),
    ("default", "r1", "r0", "they can't play R0: the only one is on the pile"),
    ("default", "r1", "g1 g+2 r1", "they can't play R1: they must draw 2"),
    ("default", "r5 r+2", "r1", "you can't play R1: legal here: draw"),
    ("default", "r5", "w", "must declare one of the four colours"),
    ("default", "wy", "r3", "they can't play R3: it does not go on W:Y"),
    ("rlcard", "r5", "w4b w", "must declare"),
    # Draws of theirs.
    ("default", "r5", "draw(r3)", "cards that the other player draws are not seen: write draw alone"),
    ("default", "r5", "draw+", "write draw"),
    ("default", "r5", "d 2", "they can't draw 2 here: the draw is of 1"),
    ("house", "r5", "draw+", "write draw"),
    ("official", "r5", "draw(r3)", "are not seen: write draw alone"),
    ("rlcard", "r5", "draw(b3)", "they can't draw(B3) here"),
    ("rlcard", "r5", "draw(r0)", "no R0 is left to draw"),
    ("rlcard", "r5", "draw(w)", "must declare"),
    # Passes and challenges of theirs.
    ("official", "r5", "p", "they can't pass: no card was just drawn"),
    ("official", "r5", "c", "they can't challenge: no Wild+4 is pending"),
    ("official", "r5 d+", "d r1", "they can't draw again in this turn: write pass"),
    ("official", "wy", "c won", "they can't challenge"),
    ("house", "r5", "c", "they can't challenge"),
    ("house", "r5 d", "w4b c", "you can't challenge: legal here"),
    # Counts.
    ("default", "r5", "=0", "they can't hold 0 cards"),
    ("default", "r5", "=200", "they can't hold 200 cards: 100 are neither in the own hand nor on the pile"),
    ("default", "", "they have 101 cards", "they can't hold 101 cards"),
    # After the first events of a line, which are not kept either.
    ("default", "", "r5 r4 r4", "action 3: you can't play R4: legal here"),
]


@pytest.mark.parametrize(("rules", "so_far", "line", "says"), BAD)
def test_bad_entries(rules: str, so_far: str, line: str, says: str):
    """Each is refused in words, and nothing is lost."""
    table = Table(START, "R0", rules=rules)
    table.play(so_far)
    before = table.game
    with pytest.raises(ImpossibleActionError, match=re.escape(says)):
        table.play(line)
    assert table.game is before


def test_there_are_sixty_bad_entries():
    assert len(BAD) >= 60 and len(set(BAD)) == len(BAD)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"hand": "R1 R5"}, "hand must be the 7 cards that you hold at first, got 2; give opponent"),
        ({"hand": "R1 Q"}, "hand: unknown card 'Q'"),
        ({"top": "W"}, "top must say which colour was declared"),
        ({"penalty": 2}, "pile and penalty belong to the midst of a game"),
        ({"rules": "mine"}, "rules must be a unojax.Rules or one of"),
        ({"agent": "uniform"}, "has no estimates"),
        ({"agent": "mc:belief=truth"}, "needs the hidden hand"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_starts(words: dict, says: str):
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        Table(**({"hand": START, "top": "R0"} | words))


@pytest.mark.parametrize(
    ("rules", "top", "opponent_begins", "mine", "theirs", "penalty"),
    [
        ("default", "R+2", False, 7, 7, 0),
        ("official", "R+2", False, 7, 7, 2),
        ("official", "R+2", True, 7, 7, 2),
        ("official", "RS", True, 7, 7, 0),
        ("rlcard", "R+2", False, 9, 7, 0),
        ("rlcard", "R+2", True, 7, 9, 0),
    ],
)
def test_what_a_start_card_does(rules: str, top: str, opponent_begins: bool, mine: int, theirs: int, penalty: int):
    view = Table(START + " Y0 G0" * (mine == 9), top, opponent_begins=opponent_begins, rules=rules).view
    assert (int(np.sum(view.hand)), int(view.opponent_count), int(view.penalty)) == (mine, theirs, penalty)
    assert int(view.current_player) == opponent_begins


def test_corrections_of_an_event_that_is_not_there():
    game = at_table("r5")
    for number in (0, 2):
        with pytest.raises(ValueError, match="there is no event"):
            game.corrected(number, "r1")
    with pytest.raises(ValueError, match="there are 1 events to take back, not 2"):
        game.back(2)
