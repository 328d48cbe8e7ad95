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
from tests.belief.oracle import FORFEITING, Record, play_games
from tests.belief.test_exact import choosy_opponent
from tests.helpers import long_but, slow_but
from unojax import cards, game
from unojax.belief import Belief, Info, belief_init, belief_update, uniform_opponent
from unojax.belief.opponents import Family, Opponent, PolicyOpponent
from unojax.belief.particles import accounts, lockstep, lockstep_work, moves, past
from unojax.belief.particles.accounts import Cloud
from unojax.belief.particles.ledger import cards_playable_on
from unojax.belief.particles.likelihood import Exchange, log_likelihood
from unojax.belief.updaters import plain_info
from unojax.device import random_bits
from unojax.device.batching import Agenda, num_turns, put_in_columns, put_rows, take_rows
from unojax.device.platform import tuned_for
from unojax.observation import observe
from unojax.policies import POLICIES

NUM_STEPS = 20
NUM_GAMES = 24
CAPACITY = {"max_slots": 28, "max_plays": 6}
SLOTS = 12


FAMILY = Family((uniform_opponent, PolicyOpponent(POLICIES["linear"], tremble=0.2), choosy_opponent))
PACKED = Family((uniform_opponent, PolicyOpponent(POLICIES["scarcest-color"], tremble=0.1)))


def long_games() -> Record:
    """Games that last, of a deck with Skip and +2, out of the record that other files share."""
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    lanes = np.flatnonzero((record.happened != game.NO_ACTION).sum(0) >= 14)[: NUM_GAMES // 2]
    return jax.tree.map(lambda x: x[:, lanes], record)


@pytest.mark.parametrize("opponent", slow_but([FAMILY], [uniform_opponent, FAMILY]), ids=["uniform", "family"])
def test_all_hands_of_the_past_at_once(opponent: Opponent) -> None:
    """Likelihoods of the crafted history, before and after two refreshing moves, not carried out everywhere.

    The first card counts as dealt before a coloured start card. The family asks each of its models, packed or not.
    """
    cloud, seen = crafted.cloud_of(np.arange(len(crafted.accounts()))), crafted.seen()
    book = dataclasses.replace(crafted.history(), num_dealt=jnp.int32(1), num_startable=jnp.int32(6))
    log_types = jnp.log(jnp.array([0.5, 0.25, 0.25])) if isinstance(opponent, Family) else None
    # The first of three games is another one, which nobody wants.
    at, wanted, several = (
        jnp.array([1, 0, 1]),
        jnp.array([False, True, True]),
        partial(jax.tree.map, lambda x: jnp.stack([x] * 3)),
    )

    @jax.jit
    def both(before: past.Past, now: Cloud, exchange: Exchange | None = None) -> tuple[jax.Array, jax.Array]:
        found = past.past_log_likelihood(before, several(now), several(book), opponent, several(seen), several(exchange))
        return found[1:], log_likelihood(now, book, opponent, seen, exchange)

    @jax.jit
    def propose(key: jax.Array, place: jax.Array, now: Cloud) -> Any:
        return moves.propose(jax.random.fold_in(key, place), now, book, accounts.nth_live(now, book, place))

    @jax.jit
    def accept(before: past.Past, now: Cloud, proposal: Any, *logs: jax.Array) -> tuple[past.Past, Cloud]:
        now, _, accepted = moves.accept(now, book, proposal, *logs, log_types)
        return past.exchanged(before, several(book), several(proposal.exchange), several(accepted)), now

    before = jax.jit(lambda now: past.past_of(several(now), at, several(book), seen.rules, wanted, 8))(cloud)
    pairs = [both(before, cloud)]
    for place in range(2):
        proposal = propose(jax.random.key(0), jnp.int32(place), cloud)
        of_past, replayed = both(before, cloud, proposal.exchange)
        pairs.append((jnp.where(proposal.fits, of_past, 0.0), jnp.where(proposal.fits, replayed, 0.0)))
        before, cloud = accept(before, cloud, proposal, pairs[0][1], replayed)
    for of_past, replayed in pairs:
        assert len(np.unique(np.asarray(replayed))) > 2
        for of_game in np.asarray(of_past):
            np.testing.assert_allclose(of_game, replayed, rtol=1e-5, atol=1e-5)


def follow(record: Record, beliefs: Belief, opponent: Opponent) -> list[tuple[Any, Any]]:
    """Beliefs and `Info` of many games, both seats, after each of their steps."""
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
@pytest.mark.parametrize("opponent", long_but([PACKED], [uniform_opponent, PACKED]), ids=["uniform", "family"])
def test_games_in_lockstep_equal_games_one_by_one(opponent: Opponent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along games with events of all kinds, restarts among them: the same particles, and weights up to rounding."""
    monkeypatch.setattr(lockstep, "SLOTS", SLOTS)
    monkeypatch.setattr(lockstep, "LANES", dict.fromkeys(lockstep.LANES, 256))
    monkeypatch.setattr(lockstep, "BLOCK_LANES", dict.fromkeys(lockstep.BLOCK_LANES, 320))
    for module in (lockstep, lockstep_work):
        monkeypatch.setattr(module, "MOST_OPEN", 4)
    record = long_games()
    start = jax.jit(jax.vmap(partial(belief_init, num_particles=32, opponent=opponent, **CAPACITY)))
    beliefs = start(seats(record, 0), jax.random.split(jax.random.key(9), NUM_GAMES))
    one_by_one = follow(record, beliefs, opponent)
    with tuned_for("gpu"):
        together = follow(record, beliefs, opponent)
    happened = record.happened[:NUM_STEPS].ravel()
    kinds = {(int(a) == cards.DRAW, a != game.NO_ACTION) for a in happened}
    assert len(kinds) == 3
    # Skip, +2 and Wild+4, and what the latter have the other draw. Reverse is another Skip by these rules.
    assert {10, 12, 14} <= set((happened[(happened >= 0) & (happened < cards.DRAW)] % 15).tolist())
    assert {2, 4} <= set(record.observations[0].penalty[:NUM_STEPS].ravel().tolist())
    infos = [info for _, info in one_by_one]
    assert any(info.resampled.any() for info in infos) and any(info.restarted.any() for info in infos)
    assert any((belief.ledger.num_slots > SLOTS).any() for belief, _ in one_by_one)
    for t, (one, other) in enumerate(zip(one_by_one, together, strict=True)):
        for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            name = f"step {t}, {jax.tree_util.keystr(path)}"
            if a.dtype == np.float32:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=name)


def test_slots_in_several_rounds_are_weighed_once_each() -> None:
    """Seven cards not seen, all of which could be of the top card's colour: in rounds of four slots, or all in one."""
    seen = observe(game.init(jax.random.key(0)), 0)
    belief = belief_init(seen, jax.random.key(1), num_particles=8)
    before, book, playable = belief.cloud, belief.ledger, cards_playable_on(jnp.uint32(0), jnp.uint32(5))
    key = jax.random.key(2)
    one_by_one, expected = jax.jit(moves.condition_on_no_play)(key, before, book, playable)

    @partial(jax.jit, static_argnames="most_open")
    def in_rounds(cloud: Cloud, book: Any, *, most_open: int) -> Any:
        is_open = moves.open_slots(book, playable)
        round_of, log_weights = (jnp.cumsum(is_open) - 1) // most_open, jnp.zeros(8)
        for number in range(-(-7 // most_open)):
            here = round_of == number
            cloud, increment = moves.condition_on_no_play(key, cloud, book, playable, most_open, here)
            log_weights += increment
        return cloud, log_weights, is_open.sum()

    with tuned_for("gpu"):
        found = [in_rounds(before, book, most_open=most_open) for most_open in (4, 40)]
    for cloud, log_weights, num_open in found:
        assert num_open == 7
        np.testing.assert_array_equal(cloud.labels, one_by_one.labels)
        np.testing.assert_allclose(log_weights, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_single_game_and_batches_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes alone: nothing is compiled. A single game is asked for as a batch of one, whoever updates it."""
    record = long_games()
    before, after = (jax.tree.map(lambda x: x[:4], seats(record, t)) for t in (0, 1))
    start = partial(belief_init, num_particles=8, **CAPACITY)
    keys = jnp.zeros((4, 2), jnp.uint32)
    beliefs = jax.eval_shape(jax.vmap(start), before, keys)
    actions = jnp.zeros(4, jnp.int32)

    def check(update: Any, *leading: int) -> None:
        trees = (beliefs, before, actions, after, keys)
        arguments = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*leading, *x.shape[1:]), x.dtype), trees)
        updated, info = jax.eval_shape(update, *arguments)
        assert updated.log_weights.shape == (*leading, 8)
        assert info.ess.shape == leading

    update_games, asked = lockstep.update_games, []

    def update(beliefs: Belief, *others: Any, **options: Any) -> tuple[Belief, Info]:
        """Go all the way with the whole batch alone: JAX traces its parts too, on the way to it."""
        asked.append(beliefs.log_weights.shape)
        if asked[-1] == (6, 8):
            return update_games(beliefs, *others, **options)
        return beliefs, jax.vmap(lambda _: plain_info())(beliefs.log_weights)

    monkeypatch.setattr(lockstep, "update_games", update)
    with tuned_for("gpu"):
        check(jax.vmap(jax.vmap(belief_update)), 2, 3)
        assert asked[-1] == (6, 8)
        asked.clear()
        check(belief_update)
        assert set(asked) == {(1, 8)}


@pytest.mark.parametrize("room", [9, 14, 100])
def test_a_chunk_has_no_more_blocks_than_there_is_room_for(room: int) -> None:
    rng = np.random.default_rng(room)
    rounds, sizes = rng.integers(0, 4, 12).astype(np.int32), rng.integers(0, 10, 12).astype(np.int32)

    @jax.jit
    def work_through(rounds: jax.Array, sizes: jax.Array) -> Any:
        def work(index: jax.Array, at: jax.Array, state: Any) -> Any:
            done, turns, most = state
            taken = jnp.where(at < 12, take_rows(sizes, at), 0).sum()
            return put_rows(done, at, jnp.where(take_rows(done, at) == index, index + 1, -1)), turns + 1, jnp.maximum(most, taken)

        return Agenda({"work": rounds}, 12).do(
            "work", 5, work, (jnp.zeros(12, jnp.int32), jnp.int32(0), jnp.int32(0)), sizes, room
        )

    done, turns, most = work_through(rounds, sizes)
    np.testing.assert_array_equal(done, rounds)
    assert int(turns) == num_turns(rounds, 5, sizes, room)
    assert 0 < int(most) <= room


def test_changes_are_put_into_columns_of_one_table_and_of_many() -> None:
    rng = np.random.default_rng(0)
    tables, new = rng.integers(0, 99, (3, 4, 5)).astype(np.uint8), rng.integers(100, 200, (3, 2, 5)).astype(np.uint8)
    # Two different rows of each column, or beyond the end.
    index = rng.permuted(np.tile(np.array([0, 1, 2, 3, 65535], np.uint16)[:, None], (3, 1, 5)), axis=1)[:, :2]
    expected = tables.copy()
    for element, change, column in np.ndindex(index.shape):
        if index[element, change, column] < 4:
            expected[element, index[element, change, column], column] = new[element, change, column]
    np.testing.assert_array_equal(jax.vmap(put_in_columns)(*map(jnp.asarray, (tables, index, new))), expected)
    for arguments, result in zip(zip(tables, index, new, strict=True), expected, strict=True):
        np.testing.assert_array_equal(put_in_columns(*map(jnp.asarray, arguments)), result)


@pytest.mark.parametrize("partitionable", [True, False])
def test_keys_are_split_as_jax_splits_them(partitionable: bool) -> None:
    key = jax.random.key(3)
    with jax.threefry_partitionable(partitionable):
        words = random_bits.split(random_bits.key_words(key), 5)
        np.testing.assert_array_equal(np.array(words), jax.random.key_data(jax.random.split(key, 5)))
        assert random_bits.wrap(words[2]) == jax.random.split(key, 5)[2]
