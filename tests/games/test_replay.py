"""Lists of actions read as games: which cards are drawn or laid, and which can't be."""

from __future__ import annotations

import re

import jax
import pytest

from tests.helpers import deck_of
from unojax import Rules, parse_position
from unojax.decks import small_deck
from unojax.games.replay import replay

FEW = Rules(deck=small_deck(colors=2, ranks=(*range(4), 10, 12), copies=1, wilds=1), hand_size=3)


def test_cards_drawn_come_as_given_and_are_written_as_read():
    start = parse_position("Y0,Y1/R0,R1,RS,Y3/R2,R3,Y2,YS,Y+2,W,W+4/0 R+2 0 2 0 - *", rules=FEW)
    game = replay(start, "draw(R2,R3) R1 R2 RS Y3", jax.random.key(0), max_steps=3)
    assert " ".join(step.notation(with_cards=True) for step in game.steps) == "draw(R2,R3) R1 R2"
    assert game.steps[0].notation(with_cards=False) == "draw"
    assert game.steps[0].drawn == "R2 R3"
    assert game.steps[0].reshuffled


@pytest.mark.parametrize(
    ("position", "rules", "token", "says"),
    [
        ("B1,R2/G1/-/* R9 0+R2 0 1 draw *", Rules.official(), "draw(G3)", "is a pass, after which no card is drawn"),
        ("B1/G1/-/* R9 0 0 0 - *", Rules.rlcard(), "draw(W)", "has a colour declared, as in draw(W:B)"),
        ("B1/G1/-/* R9 0 0 0 - *", Rules.rlcard(), "draw(W:)", "has a colour declared"),
        ("B1/G1/-/* R9 0 0 0 - *", Rules.rlcard(), "draw(W:YB)", "has a colour declared"),
        ("B1/G1/-/* R9 0 0 0 - *", Rules.rlcard(), "draw(R5:B)", "and no other draw"),
        ("B1/G1/-/* R9 0 0 0 - *", Rules.rlcard(), "draw(B9:G)", "and no other draw"),
        ("B1/G1/-/* R9 0 0 0 - *", Rules(), "draw(W:B)", "and no other draw"),
    ],
)
def test_draws_that_can_not_have_been(position: str, rules: Rules, token: str, says: str):
    with pytest.raises(ValueError, match=re.escape(says)):
        replay(parse_position(position, rules=rules), token, jax.random.key(0))


def test_cards_drawn_go_to_the_hand_or_are_laid():
    """A card that is not laid under rules that lay some is one of the hand; what is written is read again."""
    start = parse_position("B1/G1/-/* R9 0 0 0 - *", rules=Rules.rlcard())
    for token in ("draw(W:B)", "draw(R5)", "draw(G3)"):
        step = replay(start, token, jax.random.key(0)).steps[0]
        assert step.notation(with_cards=True) == token
    few = Rules(play_drawn="auto", deck=deck_of("R1 R2 Y1 Y2 Y3"), hand_size=1)
    step = replay(parse_position("Y3/Y1,Y2/R1/0 R2 0 0 0 - *", rules=few), "draw(R1)", jax.random.key(0)).steps[0]
    assert (step.laid, step.reshuffled) == ("R1", True)
