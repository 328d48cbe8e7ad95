"""Updaters of all kinds along the same games: hands that agree with the marginals, types, next games, and agents made of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.oracle import FORFEITING, play_games
from unojax import bits, cards, make_state
from unojax.belief import summary
from unojax.belief.hands import Hands
from unojax.belief.opponents import parse_opponent
from unojax.belief.tracking import begin, track
from unojax.belief.updaters import (
    BootstrapFilter,
    ClosedFormFilter,
    ColorBoundsFilter,
    ExactFilter,
    Oracle,
    ParticleFilter,
    UniformFilter,
    Updater,
    parse_updater,
)
from unojax.observation import Observation, observe
from unojax.search.agents import monte_carlo

NUM_UPDATES, NUM_HANDS = 9, 4096
KEY = jax.random.key(4)
DRAWN = [ClosedFormFilter(num_hands=NUM_HANDS), ColorBoundsFilter(NUM_HANDS), UniformFilter(NUM_HANDS)]


@cache
def lane() -> int:
    """A game in which somebody can't play, so that the bounds say something."""
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    lives = (record.happened[: NUM_UPDATES + 1] >= 0).all(0)
    states = jax.tree.map(lambda x: x[:NUM_UPDATES], record.states)
    draws = (record.happened[:NUM_UPDATES] == cards.DRAW) & (states.penalty == 0) & (states.current_player == 1)
    return int(np.argmax(np.where(lives, draws.sum(0), -1)))


def views(player: int = 0) -> list[Observation]:
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    return [record.view(player, t, lane()) for t in range(NUM_UPDATES + 1)]


@pytest.mark.parametrize("updater", DRAWN, ids=lambda updater: updater.name)
def test_drawn_hands_are_those_of_the_marginals(updater: Updater):
    """Shares of 4096 hands, five standard errors and less than 0.04 from their probabilities, at each position."""
    look = jax.jit(lambda key, belief, seen: (updater.hands(key, belief, seen), updater.count_probs(belief, seen)))
    for number, (seen, (belief, _)) in enumerate(zip(views(), track(updater, KEY, views()), strict=True)):
        hands, probs = jax.device_get(look(jax.random.key(number), belief, seen))
        held = np.asarray(bits.type_counts(hands.packed))
        assert (held.sum(-1) == seen.opponent_count).all() and (held <= np.asarray(seen.unseen)).all()
        np.testing.assert_array_equal(jnp.stack(bits.canonical(hands.packed)), np.stack(hands.packed))
        np.testing.assert_allclose(hands.log_weights, -np.log(NUM_HANDS), rtol=1e-6)
        np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-4)
        np.testing.assert_allclose((probs @ np.arange(5)).sum(), int(seen.opponent_count), rtol=1e-3)
        np.testing.assert_allclose(summary.count_probs(hands), probs, atol=0.04)


def test_hands_within_bounds_are_as_likely_as_each_other():
    """Against hands of unseen cards of which those beyond the bounds are left out; full deck, no bound for green."""
    seen = observe(make_state("R1 R2 B7 W", "B1 Y4 G3 G5 Y9", "R7", pile="R5 Y5"), 0)
    limits = np.array([1, 3, 2, 31, 0])
    bounds = jnp.uint32(sum(limit << 5 * kind for kind, limit in enumerate(limits.tolist())))
    kinds = np.where(cards.COLOR_OF_TYPE < 0, 4, cards.COLOR_OF_TYPE)

    def possible(hands: Hands) -> np.ndarray:
        held = np.asarray(bits.type_counts(hands.packed))
        return held[(held @ (kinds[:, None] == np.arange(5)).astype(int) <= limits).all(-1)]

    expected = possible(UniformFilter(2**16).hands(KEY, (), seen))
    updater = ColorBoundsFilter(2**14)
    drawn = possible(updater.hands(KEY, bounds, seen))
    assert len(drawn) == 2**14 and 0.05 < len(expected) / 2**16 < 0.5
    probs = np.asarray(updater.count_probs(bounds, seen))
    for held in (expected, drawn):
        shares = (held[..., None] == np.arange(5)).mean(0)
        np.testing.assert_allclose(shares, probs, atol=0.02)
    assert np.abs(probs - np.asarray(UniformFilter().count_probs((), seen))).max() > 0.05
    # Bounds that no hand of the position keeps say nothing.
    np.testing.assert_allclose(updater.count_probs(jnp.uint32(0), seen), UniformFilter().count_probs((), seen), atol=1e-5)


def test_exact_hands_are_all_that_are_possible():
    updater = ExactFilter(parse_opponent("uniform|linear"))
    for seen, (belief, _) in zip(views(), track(updater, KEY, views()), strict=True):
        hands = updater.hands(KEY, belief, seen)
        room = hands.log_weights.shape[0]
        assert room & (room - 1) == 0 and hands.log_joint is not None
        np.testing.assert_allclose(summary.count_probs(hands), belief.count_probs, atol=1e-5)
        np.testing.assert_allclose(jnp.exp(hands.log_joint).sum(0), jnp.exp(hands.log_weights), atol=1e-6)
        np.testing.assert_allclose(jnp.exp(hands.log_joint).sum(1), np.exp(belief.log_type_probs), atol=1e-5)
        uniform, linear = np.exp(belief.log_type_probs)
        assert updater.types(belief) == pytest.approx({"uniform": uniform, "linear": linear})


def test_the_oracle_knows():
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    state = jax.tree.map(lambda x: x[0, lane()], record.states)
    updater, seen = Oracle(), observe(state, 0)
    belief = updater.see(state, jnp.int32(0))
    truth = cards.counts(state.hands[1])
    np.testing.assert_array_equal(jnp.argmax(updater.count_probs(belief, seen), -1), truth)
    np.testing.assert_array_equal(bits.type_counts(updater.hands(KEY, belief, seen).packed)[0], truth)


def test_what_is_carried_over_to_the_next_game():
    """The posterior of the types where there are any; nothing else."""
    start = views()[0]
    family = parse_opponent("uniform|linear")
    for updater in (ParticleFilter(16, family), ExactFilter(family)):
        known = begin(updater, KEY, start, jnp.log(jnp.array([0.25, 0.75])))
        carried = updater.next_game(KEY, known, start)
        assert updater.types(carried) == pytest.approx({"linear": 0.75, "uniform": 0.25}, abs=1e-5)
    for updater in (ParticleFilter(16), BootstrapFilter(16), *DRAWN):
        assert updater.types(updater.init(KEY, start)) == {}
        first, again = updater.init(KEY, start), updater.next_game(KEY, updater.init(jax.random.key(9), start), start)
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("belief", ["bootstrap", "closed", "ages", "unseen", "truth"])
def test_a_search_takes_any_of_them(belief: Any):
    agent = monte_carlo(belief=belief, model="uniform", particles=16, rollouts=8, rules=FORFEITING)
    assert f"belief={belief}" in agent.name
    before, after = views()[:2]

    @jax.jit
    def play(before: Observation, after: Observation) -> jax.Array:
        memory = agent.update(KEY, agent.init(KEY, before), before, after.last_action, after)
        return agent.act(KEY, memory, after, after.legal_mask)

    assert 0 <= int(play(before, after)) < cards.NUM_ACTIONS


def test_a_search_by_the_exact_belief_is_of_the_host():
    agent = replace(monte_carlo(model="uniform", rollouts=8, rules=FORFEITING), updater=ExactFilter())
    mine = next(seen for seen in views() if seen.is_my_turn and seen.legal_mask.sum() > 1)
    memory = agent.init(KEY, mine)
    assert bool(mine.legal_mask[int(agent.act(KEY, memory, mine, mine.legal_mask))])
    with pytest.raises(ValueError, match="the exact filter runs on the host"):
        jax.jit(agent.init)(KEY, mine)


def test_bad_input():
    with pytest.raises(ValueError, match="takes one opponent model, got a family"):
        parse_updater("bootstrap", particles=8, model="uniform|linear")
    with pytest.raises(ValueError, match="num_particles must be an integer of at least 1, got 0"):
        ParticleFilter(0)
    with pytest.raises(ValueError, match="num_particles must be an integer of at least 1, got 0"):
        BootstrapFilter(0)
