"""Searches under rules with optional draws, passes and challenges."""

from __future__ import annotations

import pytest

import unojax
from tests.helpers import deck_of
from unojax.games.choices import choices
from unojax.games.seen import read_seen
from unojax.rules import Rules

# All cards that player 1 does not see are red: the Wild+4 was certainly played beside a red card.
RULES = Rules.official(deck=deck_of("R1 R1 R2 R2 R3 R3 R4 R4 R5 R5 R6 R6 B1 B2 B2 W+4 Y9"), hand_size=2)
CONTESTED = "R1,R2/B1,B2,B2/Y9/* W+4:Y 1 4?R 1 W+4:Y *"
AGENT = "mc:rollouts=64,belief=unseen,policy=uniform"


@pytest.mark.parametrize(
    "agent",
    [
        AGENT,
        pytest.param("mc:rollouts=64,particles=64", marks=pytest.mark.slow),
        pytest.param("tree:simulations=64,particles=64", marks=pytest.mark.slow),
    ],
)
def test_a_challenge_that_must_succeed_is_advised(agent: str):
    advised = unojax.advise(CONTESTED, agent=agent, replicates=4, rules=RULES)
    assert set(advised.wins) == {"draw", "challenge"}
    assert advised.play == "challenge"
    assert advised.wins["challenge"][0] > advised.wins["draw"][0] + 0.1


def test_optional_draws_are_choices_and_forced_draws_are_not():
    """Also after the other player has drawn and kept a playable card."""
    for position, expected in (("B1/3/-/* R9 0 0 0 - *", []), ("R1/3/-/* R9 0 0 0 - *", [1, 60])):
        assert choices(read_seen(position, "", None, Rules.official()).end).nonzero()[0].tolist() == expected
    advised = unojax.advise("B1,B2/2/-/* R1 1 0 0 - *", history="draw+ pass", agent=AGENT, replicates=4, rules=RULES)
    assert set(advised.wins) == {"B1", "draw"} and advised.game.notation == "draw+ pass"
