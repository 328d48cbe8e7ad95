"""`unojax.adapters.nodes`: chance at single nodes, without a library."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.helpers import deck_of
from unojax import cards
from unojax.adapters.nodes import Nodes
from unojax.rules import Rules

DECK = deck_of("R1 R2 Y1 Y2 B1 B2 G1 G2 W W")


@pytest.mark.parametrize("play_drawn", ["auto", "no"])
def test_chance_declares_the_colour_of_a_wild_card_that_is_laid_as_drawn(play_drawn: str) -> None:
    """Each colour has a quarter of the probability to draw the card. A card that stays in the hand changes no colour."""
    nodes, chooser, num_wilds = Nodes(Rules(deck=DECK, hand_size=1, play_drawn=play_drawn)), random.Random(0), 0
    for _ in range(30):
        position, draws = nodes.start, False
        while not (facts := nodes.facts(position)).is_over and num_wilds < 4:
            if not (facts.is_dealing or draws):
                position = nodes.play(position, chooser.choice(facts.legal))
                draws = facts.legal == (cards.DRAW,) or nodes.facts(position).is_drawing
                continue
            outcomes = nodes.outcomes(position)
            wilds = [(outcome, share) for outcome, share in outcomes if outcome % cards.NUM_TYPES == cards.WILD_TYPE]
            if draws and wilds:
                num_wilds += 1
                colors = Counter[int]()
                for outcome, share in wilds:
                    colors[int(nodes.state(nodes.draw(position, outcome)).color)] += share
                left = facts.counts[cards.WILD_TYPE] / sum(facts.counts)
                expected = dict.fromkeys(range(4), left / 4) if play_drawn == "auto" else {int(nodes.state(position).color): left}
                assert colors == pytest.approx(expected)
            position = nodes.draw(position, chooser.choice(outcomes)[0])
            draws = nodes.facts(position).is_drawing
    assert num_wilds == 4
