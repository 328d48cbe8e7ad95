"""The standing of a match over rematches."""

from __future__ import annotations

from dataclasses import replace

from tests.cli.by_script import AGENT, MY_TURN, RULES, lines, talk
from unojax import Rules, parse_position
from unojax.games.session import Session
from unojax.games.tally import Tally
from unojax.rules import MATCH_POINTS

OFFICIAL = replace(RULES, points=True)


def finished(position: str, rules: Rules, *, seat: int) -> Session:
    return Session(AGENT, seat=seat, seed=0, rules=rules, start=parse_position(position, rules=rules))


def test_points_are_those_of_the_cards_that_the_loser_holds():
    """2 for the Y2, 20 for the Skip, 50 for the Wild; they go to the winner, whichever seat the person has."""
    won_by_0 = "-/Y2,YS,W/R3/* R0 0 0 4 R0 0"
    mine, theirs = (finished(won_by_0, OFFICIAL, seat=seat) for seat in (0, 1))
    assert mine.card_points == theirs.card_points == 72
    assert Tally().after(mine) == Tally(games=(1, 0), points=(72, 0))
    assert Tally().after(mine).after(theirs) == Tally(games=(1, 1), points=(72, 72))
    # Without points in the rules games count alone.
    assert Tally().after(finished(won_by_0, RULES, seat=0)) == Tally(games=(1, 0))


def test_a_match_ends_at_its_points_and_the_next_one_starts_at_zero():
    won = finished("-/Y2,YS,W/R3/* R0 0 0 4 R0 0", OFFICIAL, seat=0)
    before = Tally(games=(7, 6), points=(MATCH_POINTS - 72, 300))
    assert before.after(won) == Tally(games=(8, 6), points=(MATCH_POINTS, 300), matches=(1, 0))
    assert before.after(won).after(won) == Tally(games=(9, 6), points=(72, 0), matches=(1, 0))


def test_a_game_that_nobody_won_changes_nothing():
    drawn = finished("Y0/Y2/R3/* R0 1 0 4 R0 T", replace(OFFICIAL, max_steps=4), seat=0)
    assert drawn.card_points == 0 and Tally(games=(1, 2)).after(drawn) == Tally(games=(1, 2))


def test_the_conversation_shows_the_standing():
    session = Session(AGENT, seat=0, seed=0, rules=OFFICIAL, start=parse_position("R0/Y0,Y2/-/* R3 0 0 0 - *", rules=OFFICIAL))
    _, text = talk(session, lines("1"), tally=Tally(games=(1, 3), points=(20, MATCH_POINTS - 1)))
    assert "count 2 points" in text and f"You 22, uniform {MATCH_POINTS - 1}" in text and "You 2, uniform 3" in text
    plain = Session(AGENT, seat=0, seed=0, rules=RULES, start=parse_position(MY_TURN, rules=RULES))
    assert "Games won" not in talk(plain, lines("q"), tally=Tally())[1]
