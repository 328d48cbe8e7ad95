"""Beliefs begun while the opponent decides about a card that it has just drawn: any card of its hand, for all that is known."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.helpers import counts_of, deck_of, jitted_step
from unojax import cards
from unojax.belief import belief_init, belief_update
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.exact import ExactBelief, exact_init, exact_update
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state, parse_action

RULES = Rules.official(deck=deck_of("R1 R2 R2 Y1 Y5 G1 G5 G5 G2 B5 B1 B7 W W+4"), hand_size=3)
NUM_PARTICLES = 4096
STEPS = ("G5", "draw")


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> tuple[Observation, int, Observation]:
    """What player 0 sees before and after player 1 has played the card drawn, or passed with it."""
    state = make_state("R2 B7", "Y1 G5 R1", "B5", player=1, drawn="G5", rules=RULES)
    action = parse_action(request.param)
    after = jitted_step(state, np.int32(action), jax.random.key(0))
    assert not after.error and (after.hands[1].sum() == 3) == (request.param == "draw")
    return observe(state, 0), action, observe(after, 0)


def expected(before: Observation, action: int, after: Observation) -> ExactBelief:
    """By hand: what is left is any hand of two cards if the card was played; who passed held a card that could be played."""
    if action != cards.DRAW:
        return exact_init(after)
    start = exact_init(before)
    counts, probs = start.hands()
    number = np.arange(cards.NUM_TYPES)
    fits = (number // 13 == cards.COLOR_NAMES.index("blue")) | (number % 13 == 5)
    # One of two choices, or of five with a wild card and its colours.
    passes = np.where(number >= cards.WILD_TYPE, 1 / 5, fits / 2)
    weights = probs * (counts @ passes)
    table = np.zeros(start.probs.shape)
    table[tuple(counts[:, t] for t in start.types)] = weights / weights.sum()
    return ExactBelief(table, start.types, start.unseen, start.hand_count, RULES)


def test_the_exact_filter(step: tuple[Observation, int, Observation]):
    before, action, after = step
    belief, _ = exact_update(exact_init(before), before, action, after)
    np.testing.assert_allclose(belief.probs, expected(*step).probs, atol=1e-9)


@pytest.mark.parametrize("kind", ["particles", "bootstrap"])
def test_filters_of_particles(step: tuple[Observation, int, Observation], kind: str):
    """Probabilities of holding each type, within five standard errors of so many particles."""
    before, action, after = step
    init, update = (belief_init, belief_update) if kind == "particles" else (bootstrap_init, bootstrap_update)
    key_init, key_update = jax.random.split(jax.random.key(1))
    belief = init(before, key_init, num_particles=NUM_PARTICLES)
    belief, info = jax.jit(update)(belief, before, np.int32(action), after, key_update)
    assert not info.depleted and not info.inconsistent
    holds = counts_of(belief.particles) > 0
    found = np.exp(np.asarray(belief.log_weights, float)) @ holds
    prob = expected(*step).prob_holds
    error = np.sqrt(prob * (1 - prob) / float(info.ess))
    assert (np.abs(found - prob) <= 5 * error + 1e-6).all()
