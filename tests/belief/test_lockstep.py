"""The form of the particle filter for a GPU, held on a CPU to that of one game at a time."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief import test_moves as crafted
from tests.belief.oracle import THIN, play_games
from tests.belief.test_exact import choosy_opponent
from unojax import cards, game
from unojax.belief import Belief, belief_init, belief_update, uniform_opponent
from unojax.belief.opponents import Family, Opponent, PolicyOpponent
from unojax.belief.particles import accounts, lockstep, moves, past
from unojax.belief.particles.likelihood import log_likelihood
from unojax.belief.particles.lockstep import Size
from unojax.device.platform import tuned_for
from unojax.policies import POLICIES

NUM_STEPS = 20
NUM_GAMES = 24
CAPACITY = {"max_slots": 28, "max_plays": 7}


FAMILY = Family((uniform_opponent, PolicyOpponent(POLICIES["linear"], tremble=0.2), choosy_opponent))


@pytest.mark.parametrize("opponent", [*FAMILY.models, FAMILY])
def test_all_hands_of_the_past_at_once(opponent: Opponent) -> None:
    """Likelihoods of the crafted history, before and after two refreshing moves, not carried out everywhere.

    The first card counts as dealt before a coloured start card.
    """
    cloud, seen = crafted.cloud_of(np.arange(len(crafted.accounts()))), crafted.seen()
    book = dataclasses.replace(crafted.history(), num_dealt=jnp.int32(1), num_colored=jnp.int32(6))
    log_types = jnp.log(jnp.array([0.5, 0.25, 0.25])) if isinstance(opponent, Family) else None

    @jax.jit
    def both(key: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        now = cloud
        before = past.past_of(now, book, seen.rules, 8)
        pairs = [(past.past_log_likelihood(before, now, book, opponent, seen), log_likelihood(now, book, opponent, seen))]
        for place in range(2):
            slot = accounts.nth_live(now, book, jnp.int32(place))
            proposal = moves.propose(jax.random.fold_in(key, place), now, book, slot)
            tried = proposal.exchange
            of_past = past.past_log_likelihood(before, now, book, opponent, seen, tried)
            replayed = log_likelihood(now, book, opponent, seen, tried)
            pairs.append((jnp.where(proposal.fits, of_past, 0.0), jnp.where(proposal.fits, replayed, 0.0)))
            now, _, accepted = moves.accept(now, book, proposal, pairs[0][0], replayed, log_types)
            before = past.exchanged(before, book, tried, accepted)
        return pairs

    for of_past, replayed in both(jax.random.key(0)):
        assert len(np.unique(np.asarray(replayed))) > 2
        np.testing.assert_allclose(of_past, replayed, rtol=1e-5, atol=1e-5)


def follow(beliefs: Belief, opponent: Opponent) -> list[tuple[Any, Any]]:
    """Beliefs and `Info` of many games, both seats, after each of their steps."""
    record = play_games(seed=5, num_games=NUM_GAMES // 2, num_steps=NUM_STEPS, rules=THIN)
    update = jax.jit(jax.vmap(partial(belief_update, opponent=opponent)))
    result = []
    for t in range(NUM_STEPS):
        before, after = (seats(record, t) for t in (t, t + 1))
        actions = jnp.concatenate([jnp.asarray(record.happened[t], jnp.int32)] * 2)
        keys = jax.random.split(jax.random.key(t), NUM_GAMES)
        beliefs, info = update(beliefs, before, actions, after, keys)
        result.append(jax.device_get((beliefs, info)))
    return result


def seats(record: Any, t: int) -> Any:
    views = [jax.tree.map(lambda x: jnp.asarray(x[t]), record.observations[player]) for player in (0, 1)]
    return jax.tree.map(lambda *xs: jnp.concatenate(xs), *views)


@pytest.mark.slow
@pytest.mark.parametrize("opponent", [uniform_opponent, Family(FAMILY.models[:2])], ids=["uniform", "family"])
def test_games_in_lockstep_equal_games_one_by_one(opponent: Opponent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along games with events of all kinds, restarts among them: the same particles, and weights up to rounding."""
    monkeypatch.setattr(lockstep, "SIZES", (Size(12, 4),))
    monkeypatch.setattr(lockstep, "LANES", {what: (256, 192)[-len(lanes) :] for what, lanes in lockstep.LANES.items()})
    monkeypatch.setattr(lockstep, "MOST_OPEN", 4)
    record = play_games(seed=5, num_games=NUM_GAMES // 2, num_steps=NUM_STEPS, rules=THIN)
    start = jax.jit(jax.vmap(partial(belief_init, num_particles=32, opponent=opponent, **CAPACITY)))
    beliefs = start(seats(record, 0), jax.random.split(jax.random.key(9), NUM_GAMES))
    one_by_one = follow(beliefs, opponent)
    with tuned_for("gpu"):
        together = follow(beliefs, opponent)
    kinds = {(int(a) == cards.DRAW, a != game.NO_ACTION) for a in record.happened.ravel()}
    assert len(kinds) == 3
    infos = [info for _, info in one_by_one]
    assert any(info.resampled.any() for info in infos) and any(info.restarted.any() for info in infos)
    for t, (one, other) in enumerate(zip(one_by_one, together, strict=True)):
        for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            name = f"step {t}, {jax.tree_util.keystr(path)}"
            if a.dtype == np.float32:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=name)


def test_a_single_game_and_batches_of_batches() -> None:
    """Shapes alone: nothing is compiled."""
    record = play_games(seed=5, num_games=2, num_steps=2, rules=THIN)
    before, after = seats(record, 0), seats(record, 1)
    start = partial(belief_init, num_particles=8, **CAPACITY)
    keys = jnp.zeros((4, 2), jnp.uint32)
    beliefs = jax.eval_shape(jax.vmap(start), before, keys)
    actions = jnp.zeros(4, jnp.int32)

    def of_shape(*leading: int) -> Any:
        trees = (beliefs, before, actions, after, keys)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*leading, *x.shape[1:]), x.dtype), trees)

    with tuned_for("gpu"):
        for leading in ((), (2, 3)):
            update = belief_update
            for _ in leading:
                update = jax.vmap(update)
            updated, info = jax.eval_shape(update, *of_shape(*leading))
            assert updated.log_weights.shape == (*leading, 8)
            assert info.ess.shape == leading
