"""Policies asked for packed hands see what they see in observations, the account of a turn included."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import pytest

from tests.helpers import deck_of, jitted_step
from unojax import bits, cards
from unojax.belief import belief_init, belief_update
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.opponents import SLIP, PolicyOpponent
from unojax.bits import Words
from unojax.observation import observe
from unojax.policies.packed import PackedPolicy
from unojax.rules import Rules
from unojax.text import make_state
from unojax.view import View

RULES = Rules.official(deck=deck_of("R1 R2 R2 Y1 Y5 G1 G5 G2 B5 B1 B7 W+4 W+4"), hand_size=3)


@dataclass(frozen=True)
class Doubtful(PackedPolicy):
    """Challenges who called green after blue was active, and no one else."""

    name: str = "doubtful"
    summary: str = "challenges where blue was active"

    def narrow(self, view: View, legal: Words) -> Words:
        was_blue = view.unpack_account().contested == cards.COLOR_NAMES.index("blue") + 1
        w0, *others = legal
        kept = np.where if isinstance(w0, np.ndarray) else jax.numpy.where
        w0 = kept(was_blue & (w0 & bits.CHALLENGE_OPTION != 0), w0 & bits.CHALLENGE_OPTION, w0)
        return w0, *others


@pytest.mark.parametrize("contested", ["blue", "red"])
def test_a_packed_policy_sees_the_colour_that_may_be_contested(contested: str):
    """The opponent challenges: always if it was blue, otherwise as one of two choices.

    A tremble takes the cards, because there is no play; a slip takes either choice.
    """
    state = make_state(
        "R2 B7", "Y1 G5 R1", "W+4", color="green", penalty=4, contested=contested[0].upper(), player=1, rules=RULES
    )
    after = jitted_step(state, np.int32(cards.CHALLENGE), jax.random.key(0))
    assert not after.error
    before, after = observe(state, 0), observe(after, 0)
    opponent = PolicyOpponent(Doubtful(), 0.2)
    _, log_evidence = exact_update(exact_init(before), before, cards.CHALLENGE, after, opponent=opponent)
    _, info = belief_update(
        belief_init(before, jax.random.key(1), num_particles=8),
        *(before, np.int32(cards.CHALLENGE), after, jax.random.key(2)),
        opponent=opponent,
    )
    challenges = (1 - SLIP) * 0.8 * (1.0 if contested == "blue" else 0.5) + SLIP * 0.5
    assert log_evidence == pytest.approx(np.log(challenges), abs=1e-6)
    assert float(info.log_evidence) == pytest.approx(log_evidence, abs=1e-5)
