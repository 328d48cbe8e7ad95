"""Searches where drawing, passing and challenging are choices beside the plays."""

from __future__ import annotations

import pytest

import unojax
from tests.helpers import deck_of, slow_but
from unojax.games.choices import choices
from unojax.games.seen import read_seen
from unojax.rules import Rules

# All that player 1 does not see is red: the Wild+4 was played beside a red card for sure.
RULES = Rules.official(deck=deck_of("R1 R1 R2 R2 R3 R3 R4 R4 R5 R5 R6 R6 B1 B2 B2 W+4 Y9"), hand_size=2)
AGENTS = ("mc:rollouts=64,particles=64", "tree:simulations=64,particles=64")
CONTESTED = "R1,R2/B1,B2,B2/Y9/* W+4:Y 1 4?R 1 W+4:Y *"


@pytest.mark.parametrize("agent", slow_but([AGENTS[0]], AGENTS))
def test_a_challenge_that_must_succeed_is_advised(agent: str):
    advised = unojax.advise(CONTESTED, agent=agent, replicates=4, rules=RULES)
    assert set(advised.wins) == {"draw", "challenge"}
    assert advised.play == "challenge"
    assert advised.wins["challenge"][0] > advised.wins["draw"][0] + 0.1


def test_a_forced_draw_is_no_choice():
    forced = read_seen("B1/3/-/* R9 0 0 0 - *", "", None, Rules.official()).end
    at_will = read_seen("R1/3/-/* R9 0 0 0 - *", "", None, Rules.official()).end
    assert not choices(forced).any()
    assert choices(at_will).nonzero()[0].tolist() == [1, 60]


def test_a_list_of_actions_is_followed_where_drawing_is_a_choice():
    """The other player drew a card that it could have played, and kept it."""
    advised = unojax.advise("B1,B2/2/-/* R1 1 0 0 - *", history="draw+ pass", agent=AGENTS[0], replicates=4, rules=RULES)
    assert set(advised.wins) == {"B1", "draw"} and advised.game.notation == "draw+ pass"
