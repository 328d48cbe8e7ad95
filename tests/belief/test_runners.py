"""The two interpreters of the particle filter's stages, held to each other on a CPU: one game at a time, and a batch together."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief import test_proposals as crafted
from tests.belief.oracle import FORFEITING, play_games
from tests.belief.test_exact import choosy_opponent
from tests.belief.test_exact_variants import VARIANTS
from tests.helpers import assert_trees_equal, play, slow_but
from unojax import game
from unojax.belief import Belief, Info, belief_init, belief_update, uniform_opponent
from unojax.belief.history import infer_action
from unojax.belief.opponents import Family, Opponent, PolicyOpponent
from unojax.belief.particles import parallel, proposals, schedule, stages
from unojax.belief.particles.likelihood import Exchange, log_likelihood
from unojax.belief.particles.rows import GROUP, SERIAL
from unojax.belief.particles.trajectory import Trajectories
from unojax.belief.particles.weighing import Options
from unojax.belief.updaters import plain_info
from unojax.device.batching import Agenda, num_turns, put_in_columns, put_rows, take_rows
from unojax.device.random_bits import threefry_words
from unojax.observation import Observation, observe
from unojax.policies import POLICIES
from unojax.rules import Rules

NUM_GAMES, NUM_STEPS, NUM_PARTICLES = 24, 20, 32
LANES, BLOCK_LANES = 4 * NUM_PARTICLES, 10 * NUM_PARTICLES
"""Four games and ten blocks of records at a time."""
CAPACITY = {"max_slots": 28, "max_plays": 8}

FAMILY = Family((uniform_opponent, PolicyOpponent(POLICIES["linear"], tremble=0.2), choosy_opponent))
PACKED = Family((uniform_opponent, PolicyOpponent(POLICIES["scarcest-color"], tremble=0.1)))


@pytest.mark.parametrize("opponent", slow_but([FAMILY], [uniform_opponent, FAMILY]), ids=["uniform", "family"])
def test_all_hands_of_the_past_at_once(opponent: Opponent) -> None:
    """Likelihoods of the crafted history, before and after two rejuvenation moves, not carried out everywhere.

    The first card counts as dealt before a coloured start card. The family asks each of its models, packed or not.
    """
    now, seen = crafted.particles_of(np.arange(len(crafted.enumerated()))), crafted.seen()
    history = dataclasses.replace(crafted.crafted_history(), deal=jnp.array([1, 6, 0, -1]))
    log_types = jnp.log(jnp.array([0.5, 0.25, 0.25])) if isinstance(opponent, Family) else None
    # The first of three games is another one, which nobody wants.
    at, wanted, several = (
        jnp.array([1, 0, 1]),
        jnp.array([False, True, True]),
        partial(jax.tree.map, lambda x: jnp.stack([x] * 3)),
    )

    @jax.jit
    def both(past: schedule.Past, now: Trajectories, exchange: Exchange | None = None) -> tuple[jax.Array, jax.Array]:
        found = schedule.log_likelihoods(past, several(now), several(history), opponent, several(seen), several(exchange))
        return found[1:], log_likelihood(now, history, opponent, seen, exchange)

    @jax.jit
    def propose(place: jax.Array, now: Trajectories) -> proposals.Proposal:
        random = threefry_words((jnp.uint32(0), place.astype(jnp.uint32)), now.hand.shape[1])[0]
        return proposals.propose(SERIAL, random, now, history, SERIAL.nth_live(history, now.labels, place))

    @jax.jit
    def accept(
        past: schedule.Past, now: Trajectories, proposal: proposals.Proposal, *logs: jax.Array
    ) -> tuple[Any, Trajectories]:
        now, _, accepted = proposals.accept(SERIAL, now, history, proposal, *logs, log_types)
        return schedule.exchanged(past, several(history), several(proposal.exchange), several(accepted)), now

    past = jax.jit(lambda now: schedule.past_of(several(now), at, several(history), seen.rules, wanted, 8))(now)
    pairs = [both(past, now)]
    for place in range(2):
        proposal = propose(jnp.int32(place), now)
        of_past, replayed = both(past, now, proposal.exchange)
        pairs.append((jnp.where(proposal.fits, of_past, 0.0), jnp.where(proposal.fits, replayed, 0.0)))
        past, now = accept(past, now, proposal, pairs[0][1], replayed)
    for of_past, replayed in pairs:
        assert len(np.unique(np.asarray(replayed))) > 2
        for of_game in np.asarray(of_past):
            np.testing.assert_allclose(of_game, replayed, rtol=1e-5, atol=1e-5)


# Games of whole rule sets.


RULES: dict[str, Rules] = {
    "default": FORFEITING,
    **{name: VARIANTS[name] for name in ("official", "house", "rlcard", "all at will", "no wild+4 beside the colour")},
}
CASES: list[Any] = [
    *((name, uniform_opponent) for name in RULES),
    ("default", PACKED),
    ("official", PACKED),
]
ALWAYS = [CASES[0], CASES[1], CASES[2], CASES[3]]


class Steps(NamedTuple):
    """What both players of some games saw, [T + 1, 2 G, ...], and the actions that were carried out, [T, 2 G]."""

    seen: Observation
    actions: jax.Array

    def at(self, t: int) -> Observation:
        return jax.tree.map(lambda x: x[t], self.seen)


def steps_of(rules: Rules) -> Steps:
    """Games that last, out of those that other files play; with steps at which nothing happens."""
    if rules == FORFEITING:
        record = play_games(seed=3, num_games=300, num_steps=25, rules=rules)
        lanes = np.flatnonzero((record.happened != game.NO_ACTION).sum(0) >= 14)[: NUM_GAMES // 2]
        states = jax.tree.map(lambda x: x[: NUM_STEPS + 1, lanes], record.states)
    else:
        states = play(3, num_games=100, num_steps=32, rules=rules).states
        lanes = np.argsort(-states.step_count[:, -1], kind="stable")[: NUM_GAMES // 2]
        states = jax.tree.map(lambda x: np.moveaxis(x[lanes, : NUM_STEPS + 1], 0, 1), states)
    views = [jax.jit(jax.vmap(jax.vmap(partial(observe, player=player))))(states) for player in (0, 1)]
    seen = jax.tree.map(lambda *xs: jnp.concatenate(xs, 1), *views)
    before, after = (jax.tree.map(lambda x, part=part: x[part], seen) for part in (slice(-1), slice(1, None)))
    return Steps(seen, jax.jit(jax.vmap(jax.vmap(infer_action)))(before, after))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games with more than eight slots count as long ones, and few games, blocks and rounds are worked on at a time."""
    small = tuple(
        dataclasses.replace(stage, lanes=LANES, at_a_time=min(GROUP if stage.by_slot else 2, stage.at_a_time))
        for stage in stages.STAGES
    )
    for module in (stages, parallel):
        monkeypatch.setattr(module, "STAGES", small)
    monkeypatch.setattr(parallel, "SHORT", 8)
    monkeypatch.setattr(parallel, "MOVES_AT_A_TIME", 4)
    monkeypatch.setattr(parallel, "LANES", dict.fromkeys(parallel.LANES, LANES))
    monkeypatch.setattr(parallel, "BLOCK_LANES", dict.fromkeys(parallel.BLOCK_LANES, BLOCK_LANES))


def assert_same(one: Any, other: Any, name: str) -> None:
    """Integers exactly, and numbers up to rounding."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        where = f"{name}, {jax.tree_util.keystr(path)}"
        if a.dtype == np.float32:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opponent"),
    [
        pytest.param(*case, id=f"{case[0]}, {'family' if case[1] is PACKED else 'uniform'}", marks=mark)
        for case, mark in ((case, () if case in ALWAYS else pytest.mark.long) for case in CASES)
    ],
)
def test_a_batch_together_equals_its_games_one_by_one(name: str, opponent: Opponent, small_chunks: None) -> None:
    """Along games with events of all kinds: the same particles, and weights up to rounding.

    Each update begins at what the games one by one have come to. One of the games is given a wrong action, and another one
    particles that explain nothing.
    """
    rules, options = RULES[name], Options(opponent, 0.5, 6)
    steps, capacity = steps_of(rules), CAPACITY | {"max_plays": 4 if rules.has_plain_steps else 8}
    one_by_one = jax.jit(jax.vmap(partial(belief_update, opponent=opponent)))
    together = jax.jit(partial(parallel.update_games, options=options))
    start = jax.jit(jax.vmap(partial(belief_init, num_particles=NUM_PARTICLES, opponent=opponent, **capacity)))
    beliefs, infos, reached = start(steps.at(0), jax.random.split(jax.random.key(9), NUM_GAMES)), [], []
    rounds: dict[str, list[np.ndarray]] = {stage.name: [] for _, stage in stages.stages_of(rules)}

    @jax.jit
    @jax.vmap
    def rounds_due(belief: Belief, before: Observation, action: jax.Array, after: Observation) -> dict[str, jax.Array]:
        of = stages.read_transition(belief, before, action, after, (jnp.uint32(0), jnp.uint32(0)))
        return {stage.name: stage.rounds(of).astype(jnp.int32) for _, stage in stages.stages_of(rules)}

    for t in range(NUM_STEPS):
        actions, keys = steps.actions[t], jax.random.split(jax.random.key(t), NUM_GAMES)
        if t == 3:
            actions = actions.at[0].set(jnp.where(actions[0] == 7, 8, 7))
        if t == 4:
            beliefs = hopeless(beliefs, 1)
        arguments = beliefs, steps.at(t), actions, steps.at(t + 1)
        for stage, number in rounds_due(*arguments).items():
            rounds[stage].append(np.asarray(number))
        one, other = one_by_one(*arguments, keys), together(*arguments, jax.random.key_data(keys))
        beliefs, info = one
        assert_same(*jax.device_get(((beliefs, info._replace(type_probs=None)), other)), f"step {t}")
        infos.append(jax.device_get(info))
        reached.append(jax.device_get((beliefs.public.num_slots, beliefs.log_weights, beliefs.target_weights)))

    assert infos[3].inconsistent[0] and infos[4].depleted[1]
    outgrown = sum((info.restarted & ~info.depleted).sum() for info in infos)
    assert outgrown and sum(info.resampled.sum() for info in infos)
    assert sum((info.acceptance > 0).sum() for info in infos)
    # Of all stages, most for several games at a time and some in more rounds than are made at a time, of short and long games.
    for stage, numbers in rounds.items():
        assert np.max(numbers), f"no {stage}"
    at_a_time = {stage.name: stage.at_a_time for stage in parallel.STAGES}
    for stage in ("cards ruled out", "unseen draw"):
        assert np.max(rounds[stage]) > at_a_time[stage], stage
    assert np.max(rounds["seen draw"]) > 1
    assert max((number > 0).sum() for number in rounds["play"]) > LANES // NUM_PARTICLES
    num_slots = np.array([row[0] for row in reached])
    assert (num_slots > parallel.SHORT).any() and (num_slots <= parallel.SHORT).any()
    if rules.tells_of_hands:
        # Trajectories that are impossible, among others that are not.
        assert any((np.isneginf(weights) & np.isfinite(target)).any() for _, weights, target in reached)


def hopeless(beliefs: Belief, number: int) -> Belief:
    """Take all weight from the particles of one of many games."""
    nothing = beliefs.log_weights.at[number].set(-jnp.inf)
    target = beliefs.target
    if target is not None:
        target = target._replace(log_weights=target.log_weights.at[number].set(-jnp.inf))
    return dataclasses.replace(beliefs, log_weights=nothing, target=target)


@pytest.mark.slow
def test_a_single_game_and_batches_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes alone: nothing is compiled. On an accelerator, a single game is asked for as a batch of one."""
    steps = steps_of(FORFEITING)
    before, after = (jax.tree.map(lambda x: x[:4], steps.at(t)) for t in (0, 1))
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

    update_games, asked = parallel.update_games, []

    def update(beliefs: Belief, *others: Any, options: Any) -> tuple[Belief, Info]:
        """Go all the way with the whole batch alone: JAX traces its parts too, on the way to it."""
        asked.append(beliefs.log_weights.shape)
        if asked[-1] == (6, 8):
            return update_games(beliefs, *others, options=options)
        return beliefs, jax.vmap(lambda _: plain_info())(beliefs.log_weights)

    monkeypatch.setattr(parallel, "update_games", update)
    monkeypatch.setattr(
        "unojax.belief.particles.filter.by_platform", lambda on_cpu, on_accelerator, *arguments: on_accelerator(*arguments)
    )
    check(jax.vmap(jax.vmap(belief_update)), 2, 3)
    assert asked[-1] == (6, 8)
    asked.clear()
    # What was traced for a single game would not be traced again.
    jax.clear_caches()
    check(belief_update)
    assert set(asked) == {(1, 8)}


@pytest.mark.parametrize("is_mapped", [False, True])
def test_games_go_together_under_a_model_with_traced_parameters(is_mapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator; only under parameters of their own they go one after the other."""
    steps = steps_of(FORFEITING)
    before, after = (jax.tree.map(lambda x: x[:4], steps.at(t)) for t in (0, 1))
    keys = jnp.zeros((4, 2), jnp.uint32)
    beliefs = jax.eval_shape(jax.vmap(partial(belief_init, num_particles=8, **CAPACITY)), before, keys)
    asked = []

    def update_games(beliefs: Belief, seen: Observation, *others: Any, options: Any) -> tuple[Belief, Info]:
        asked.append(beliefs.log_weights.shape)
        likelihoods = jax.vmap(lambda seen: options.opponent(seen, seen.legal_mask).sum())(seen)
        return beliefs, jax.vmap(lambda x: plain_info(log_evidence=x))(likelihoods)

    monkeypatch.setattr(parallel, "update_games", update_games)
    monkeypatch.setattr(
        "unojax.belief.particles.filter.by_platform", lambda on_cpu, on_accelerator, *arguments: on_accelerator(*arguments)
    )

    def update(scale: jax.Array, *arguments: Any) -> tuple[Belief, Info]:
        return belief_update(*arguments, opponent=lambda seen, legal: scale * legal.astype(jnp.float32))

    scales = jnp.ones(4) if is_mapped else jnp.float32(1)
    of_games = jax.vmap(update, (0 if is_mapped else None, 0, 0, 0, 0, 0))
    updated, info = jax.eval_shape(of_games, scales, beliefs, before, jnp.zeros(4, jnp.int32), after, keys)
    assert updated.log_weights.shape == (4, 8)
    assert info.log_evidence.shape == (4,)
    assert ((4, 8) in asked) == (not is_mapped)


@pytest.mark.slow
def test_batches_of_batches_are_one_larger_batch() -> None:
    """Three beliefs of each of two positions, as a batch of batches, and as six games."""
    steps, t = steps_of(FORFEITING), 1
    # An opponent's play and another player's draw, or the like.
    chosen = np.flatnonzero(np.asarray(steps.actions[t]) >= 0)[[0, -1]]
    before, after = (jax.tree.map(lambda x: x[chosen], steps.at(t)) for t in (t, t + 1))
    keys = jax.random.split(jax.random.key(0), (2, 3))
    start = partial(belief_init, num_particles=8, **CAPACITY)
    beliefs = jax.jit(jax.vmap(jax.vmap(start, (None, 0))))(before, keys)
    actions = steps.actions[t][chosen]
    nested = jax.jit(jax.vmap(jax.vmap(belief_update, (0, None, None, None, 0))))(beliefs, before, actions, after, keys)

    def flat(tree: Any) -> Any:
        return jax.tree.map(lambda x: x.reshape(6, *x.shape[2:]), tree)

    each = jax.tree.map(lambda x: jnp.repeat(x, 3, 0), (before, actions, after))
    expected = jax.jit(jax.vmap(belief_update))(flat(beliefs), *each, flat(keys))
    assert len(np.unique(expected[0].trajectories.labels, axis=0)) == 6
    assert_trees_equal(flat(nested), expected)


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
