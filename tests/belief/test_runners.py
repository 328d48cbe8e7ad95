"""The two interpreters of the particle filter's stages give the same beliefs: game by game, and in a batch."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief import test_proposals as crafted
from tests.belief.games import RULES, games_of
from tests.belief.models import choosy_opponent
from tests.helpers import assert_trees_equal, num_turns
from unojax import bits, cards
from unojax.belief import Belief, Info, belief_init, belief_update, uniform_opponent
from unojax.belief.opponents import Family, Opponent, PolicyOpponent
from unojax.belief.particles import parallel, proposals, public, schedule, stages
from unojax.belief.particles.likelihood import Exchange, LogLikelihood, log_likelihood
from unojax.belief.particles.public import FAILS, FITS, HOLDS_COLOR, PublicHistory, Record, encode
from unojax.belief.particles.rows import PARALLEL, SERIAL
from unojax.belief.particles.trajectory import RELEASED, Trajectories
from unojax.belief.particles.weighing import Options
from unojax.device.batching import Agenda, put_in_columns, put_rows, take_rows
from unojax.device.random_bits import threefry_words
from unojax.observation import Observation
from unojax.policies import POLICIES
from unojax.table import Picked
from unojax.view import View

PROGRAMS: Final = 200  # in the slow part, several for each rule set

NUM_LANES, NUM_STEPS, NUM_PARTICLES = 24, 20, 32
LANES = 4 * NUM_PARTICLES
"""Four games at a time, and as many blocks of records as one game can have."""
CAPACITY = {"max_slots": 28, "max_plays": 8}
PACKED = Family((uniform_opponent, PolicyOpponent(POLICIES["scarcest-color"], tremble=0.1)))
CASES: list[tuple[str, Opponent]] = [
    *((name, uniform_opponent) for name in RULES),
    ("forfeiting", PACKED),
    ("official", PACKED),
]
ALL_POSSIBLE = {"auto until"}
"""Rules that reveal facts about hands, which hold in all trajectories of the chosen games."""
QUICK = [(name, uniform_opponent) for name in ("official", "forfeiting", "house")]


def chosen_games(name: str) -> np.ndarray:
    """Return the numbers of the longest games, and of one in which a lost challenge rules out cards in many slots."""
    states, _, actions = games_of(RULES[name])
    longest = np.argsort(-states.step_count[:, -1], kind="stable")
    challenger = states.current_player[:, :-1]
    is_lost = (actions == cards.CHALLENGE) & (states.current_player[:, 1:] == challenger)
    accused = np.take_along_axis(states.hands[:, :-1].sum(-1), 1 - challenger[..., None], -1)[..., 0]
    rules_out_many = (is_lost & (accused > PARALLEL.at_a_time))[:, :NUM_STEPS].any(1)
    last = longest[rules_out_many[longest]][:1]
    return np.concatenate([longest[~np.isin(longest, last)][: NUM_LANES // 2 - len(last)], last])


def views_at(name: str, t: int) -> tuple[Observation, np.ndarray]:
    """Return both players' observations of the chosen games at step t, [2 G], and the actions, -1 without an event."""
    games, chosen = games_of(RULES[name]), chosen_games(name)
    seen = jax.tree.map(lambda *xs: np.concatenate([x[chosen, t] for x in xs]), *games.seen)
    return seen, np.concatenate([games.actions[chosen, t]] * 2)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small limits, so that games of more than eight slots are long, and chunks and rounds are small."""
    small = tuple(
        dataclasses.replace(stage, lanes=LANES, at_a_time=min(PARALLEL.at_a_time if stage.by_slot else 2, stage.at_a_time))
        for stage in stages.STAGES
    )
    for module in (stages, parallel):
        monkeypatch.setattr(module, "STAGES", small)
    monkeypatch.setattr(parallel, "SHORT", 8)
    monkeypatch.setattr(parallel, "MOVES_AT_A_TIME", 4)
    monkeypatch.setattr(parallel, "LANES", dict.fromkeys(parallel.LANES, LANES))


def assert_same(one: Any, other: Any, name: str) -> None:
    """Compare integers exactly, and floats up to rounding."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        tolerance = 1e-4 if a.dtype == np.float32 else 0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"{name}, {jax.tree_util.keystr(path)}")


def hopeless(beliefs: Belief, number: int) -> Belief:
    """Give the particles of one game zero weight."""

    def without(log_weights: jax.Array) -> np.ndarray:
        return np.where(np.arange(NUM_LANES)[:, None] == number, np.float32(-np.inf), log_weights)

    target = beliefs.target and beliefs.target._replace(log_weights=without(beliefs.target.log_weights))
    return dataclasses.replace(beliefs, log_weights=without(beliefs.log_weights), target=target)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opponent"),
    [
        pytest.param(*case, id=f"{case[0]}, {'types' if case[1] is PACKED else 'uniform'}", marks=mark)
        for case, mark in ((case, [] if case in QUICK else [pytest.mark.long]) for case in CASES)
    ],
)
def test_a_batch_together_equals_its_games_one_by_one(name: str, opponent: Opponent, small_chunks: None) -> None:
    """Equal particles, and weights up to rounding, along games with events of all kinds.

    Each update starts from the serial beliefs. One game gets a wrong action, another one particles that explain nothing.
    """
    rules, options = RULES[name], Options(opponent, 0.5, 6)
    capacity = CAPACITY | {"max_plays": 4 if rules.has_plain_steps else 8}
    one_by_one = jax.jit(jax.vmap(partial(belief_update, opponent=opponent)))
    together = jax.jit(partial(parallel.update_games, options=options))
    start = jax.jit(jax.vmap(partial(belief_init, num_particles=NUM_PARTICLES, opponent=opponent, **capacity)))
    beliefs, infos, reached = start(views_at(name, 0)[0], jax.random.split(jax.random.key(9), NUM_LANES)), [], []

    @jax.jit
    @jax.vmap
    def rounds_due(belief: Belief, before: Observation, action: jax.Array, after: Observation) -> dict[str, jax.Array]:
        of = stages.read_transition(belief, before, action, after, (jnp.uint32(0), jnp.uint32(0)))
        return {stage.name: stage.rounds(of).astype(jnp.int32) for _, stage in stages.stages_of(rules)}

    due = []
    for t in range(NUM_STEPS):
        (before, actions), (after, _) = views_at(name, t), views_at(name, t + 1)
        if t == 3:
            actions[0] = 8 if actions[0] == 7 else 7
        if t == 4:
            beliefs = hopeless(beliefs, 1)
        arguments, keys = (beliefs, before, actions, after), jax.random.split(jax.random.key(t), NUM_LANES)
        due.append(jax.device_get(rounds_due(*arguments)))
        one, other = jax.device_get((one_by_one(*arguments, keys), together(*arguments, jax.random.key_data(keys))))
        beliefs, info = one
        assert_same((beliefs, info._replace(type_probs=None)), other, f"step {t}")
        infos.append(info)
        reached.append((beliefs.public.num_slots, np.isneginf(beliefs.log_weights) & np.isfinite(beliefs.target_weights)))

    assert infos[3].inconsistent[0] and infos[4].depleted[1]
    info = jax.tree.map(lambda *xs: np.stack(xs), *infos)
    assert (info.restarted & ~info.depleted).any() and info.resampled.any() and (info.acceptance > 0).any()
    # Of all stages, most for several games at a time and some in more rounds than are made at a time, of short and long games.
    rounds = jax.tree.map(lambda *xs: np.stack(xs), *due)
    assert all(numbers.any() for numbers in rounds.values()), rounds.keys()
    at_a_time = {stage.name: stage.at_a_time for stage in parallel.STAGES}
    assert all(rounds[stage].max() > at_a_time[stage] for stage in ("cards ruled out", "unseen draw"))
    assert rounds["seen draw"].max() > 1 and (rounds["play"] > 0).sum(1).max() > LANES // NUM_PARTICLES
    num_slots = np.array([slots for slots, _ in reached])
    assert (num_slots > parallel.SHORT).any() and (num_slots <= parallel.SHORT).any()
    # Trajectories that are impossible, among others that are not.
    assert any(impossible.any() for _, impossible in reached) == (rules.tells_of_hands and name not in ALL_POSSIBLE)


def test_all_hands_of_the_past_at_once() -> None:
    """Likelihoods of the crafted history, before and after two rejuvenation moves with partial acceptance."""
    family = Family((uniform_opponent, PolicyOpponent(POLICIES["linear"], tremble=0.2), choosy_opponent))
    now, seen = crafted.particles_of(np.arange(len(crafted.enumerated()))), crafted.seen()
    history = dataclasses.replace(crafted.crafted_history(), deal=np.array([1, 6, 0, -1], np.int32))
    log_types = np.log(np.array([0.5, 0.25, 0.25], np.float32))
    # The first of three games is another one, whose likelihoods are not wanted.
    at, wanted, since = np.array([1, 0, 1]), np.array([False, True, True]), np.zeros(3, np.int32)
    several = partial(jax.tree.map, lambda x: jnp.stack([x] * 3))

    @jax.jit
    def both(past: schedule.Past, now: Trajectories, exchange: Exchange | None = None) -> tuple[jax.Array, jax.Array]:
        [found] = schedule.log_likelihoods(past, several(now), several(history), family, several(seen), several(exchange))
        return found.softened[1:], log_likelihood(now, history, family, seen, exchange).softened

    @jax.jit
    def propose(place: jax.Array, now: Trajectories) -> proposals.Proposal:
        random = threefry_words((jnp.uint32(0), place.astype(jnp.uint32)), now.hand.shape[1])[0]
        return proposals.propose(SERIAL, random, now, history, SERIAL.nth_live(history, now.labels, place))

    @jax.jit
    def accept(
        past: schedule.Past, now: Trajectories, proposal: proposals.Proposal, *logs: jax.Array
    ) -> tuple[Any, Trajectories]:
        before, proposed = (LogLikelihood(log, None) for log in logs)
        now, _, accepted = proposals.accept(SERIAL, now, history, proposal, before, proposed, log_types)
        return schedule.exchanged(past, several(history), several(proposal.exchange), several(accepted)), now

    past = jax.jit(lambda now: schedule.past_of(several(now), at, several(history), since, seen.rules, wanted, 8))(now)
    pairs = [both(past, now)]
    for place in range(2):
        proposal = propose(np.int32(place), now)
        of_past, replayed = both(past, now, proposal.exchange)
        fits = np.asarray(proposal.fits)
        pairs.append((np.where(fits, of_past, 0.0), np.where(fits, replayed, 0.0)))
        past, now = accept(past, now, proposal, pairs[0][1], replayed)
    for of_past, replayed in pairs:
        assert len(np.unique(np.asarray(replayed))) > 2
        for of_game in np.asarray(of_past):
            np.testing.assert_allclose(of_game, replayed, rtol=1e-5, atol=1e-5)


@dataclasses.dataclass(frozen=True)
class CountingOpponent:
    """Takes any choice for possible, the likelier the more options and cards there are."""

    def __call__(self, observation: Observation, legal_mask: jax.Array) -> jax.Array:
        return legal_mask.astype(jnp.float32)

    def likelihood(self, view: View, legal: bits.Words, played: Picked) -> jax.Array:
        return (1.0 + bits.count(legal) + bits.count(view.hand)).astype(jnp.float32) / 100


def random_past(rng: np.random.Generator, like: Observation) -> tuple[Trajectories, PublicHistory, int]:
    """Return particles that have played their oldest cards, a history of plays and revealed facts, and the first live slot."""
    num_slots, num_records = 21, 14
    played = np.arange(num_records) % 4 < 3
    num_played = played.sum()
    slots_before = np.maximum(np.sort(rng.integers(3, num_slots, num_records)), np.cumsum(played))
    every = np.array([32 * word + position for word in range(4) for position in range(27)], np.uint8)
    order = np.stack([rng.permutation(every) for _ in range(NUM_PARTICLES)], 1)
    labels = np.full((24, NUM_PARTICLES), RELEASED)
    labels[:num_slots] = order[:num_slots] | np.where(np.arange(num_slots) < num_played, RELEASED, np.uint8(0))[:, None]
    played_labels = np.full((16, NUM_PARTICLES), RELEASED)
    played_labels[np.flatnonzero(played)] = order[:num_played]
    hand, deck = (crafted.sets_of(part.T.tolist()) for part in (order[num_played:num_slots], order[num_slots:]))
    nothing = np.zeros_like(hand)

    def number(*choices: int) -> np.ndarray:
        return np.resize(rng.choice(choices, num_records), 16).astype(np.int32)

    color, rank = number(0, 1, 2, 3), number(*range(cards.NUM_RANKS))
    action = np.where(np.resize(played, 16), color * cards.NUM_RANKS + rank, number(FITS, FAILS, HOLDS_COLOR))
    record = Record(
        pile=np.zeros((16, 4), np.uint32),
        slots_before=np.resize(slots_before, 16).astype(np.int32),
        action=action.astype(np.int32),
        last_action=number(3, cards.DRAW),
        play_color=color,
        play_rank=rank,
        color=number(0, 1, 2, 3),
        rank=number(*range(cards.NUM_RANKS)),
        observer_count=number(3),
        deck_count=number(20),
        penalty=number(0, 0, 2),
        contested=number(-1, 0, 1),
        has_drawn=number(0, 1) > 0,
    )
    history = dataclasses.replace(
        public.empty(max_slots=24, max_records=16),
        allowed=np.full((cards.NUM_COLORS, 24), bits.ALL_SLOTS),
        num_slots=np.int32(num_slots),
        records=encode(jax.tree.map(jnp.asarray, record)),
        num_records=np.int32(num_records),
        deal=np.array([like.rules.hand_size, 20, 0, -1], np.int32),
    )
    return jax.tree.map(jnp.asarray, Trajectories(hand, deck, nothing, nothing, labels, played_labels)), history, int(num_played)


def test_rejuvenation_needs_the_later_records_alone() -> None:
    """Records from before the oldest live slot and later ones add up to all; an exchange changes the later ones alone."""
    opponent, rng = CountingOpponent(), np.random.default_rng(0)
    seen = jax.tree.map(lambda x: x[0], views_at("official", 0)[0])
    assert seen.rules.tells_of_hands and seen.rules.keeps_account
    pasts = [random_past(rng, seen) for _ in range(2)]
    now, history = (jax.tree.map(lambda *xs: jnp.stack(xs), *parts) for parts in list(zip(*pasts, strict=True))[:2])
    like = jax.tree.map(lambda x: jnp.stack([x] * 2), seen)
    oldest = parallel.oldest_live_slots(now)
    assert oldest.tolist() == [first for _, _, first in pasts]

    @jax.jit
    def both(oldest: jax.Array, now: Trajectories, history: PublicHistory) -> Any:
        def propose(random: jax.Array, now: Trajectories, history: PublicHistory) -> Exchange:
            slot = SERIAL.nth_live(history, now.labels, jnp.int32(2))
            return proposals.propose(SERIAL, random, now, history, slot).exchange

        def replayed(now: Trajectories, history: PublicHistory, exchange: Exchange | None) -> LogLikelihood:
            return log_likelihood(now, history, opponent, seen, exchange)

        def of_past(since: jax.Array, exchange: Exchange | None = None, split: jax.Array | None = None) -> list[LogLikelihood]:
            past = schedule.past_of(now, jnp.arange(2), history, since, seen.rules, jnp.ones(2, bool), 20)
            return schedule.log_likelihoods(past, now, history, opponent, like, exchange, split)

        random = threefry_words((jnp.uint32(0), jnp.uint32(1)), now.hand.shape[-1])[0]
        exchange = jax.vmap(partial(propose, random))(now, history)
        early, late = of_past(jnp.zeros(2, jnp.int32), split=oldest)
        [later], [changed] = of_past(oldest), of_past(oldest, exchange)
        of_all = jax.vmap(partial(replayed, exchange=None))(now, history), jax.vmap(replayed)(now, history, exchange)
        return (early.plus(late), late, early.plus(changed)), (of_all[0], later, of_all[1]), early

    found, expected, early = jax.device_get(both(oldest, now, history))
    assert_same(expected, found, "later records")
    assert (early.softened < 0).all() and early.is_impossible.any()
    for log_lik in expected:
        assert np.isfinite(log_lik.softened).all() and 0 < log_lik.is_impossible.mean() < 1
    assert not np.allclose(expected[0].softened, expected[2].softened)


def test_an_accelerator_updates_all_games_of_nested_batches_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """By shapes, without compiling. Games with their own model parameters are updated one by one."""
    asked = []

    def update_games(beliefs: Belief, seen: Observation, *others: Any, options: Any) -> tuple[Belief, Info]:
        asked.append(beliefs.log_weights.shape)
        likelihoods = jax.vmap(lambda seen: options.opponent(seen, seen.legal_mask).sum())(seen)
        return beliefs, jax.vmap(lambda x: Info(log_evidence=x))(likelihoods)

    monkeypatch.setattr(parallel, "update_games", update_games)
    monkeypatch.setattr("unojax.belief.particles.filter.by_platform", lambda on_cpu, on_accelerator, *rest: on_accelerator(*rest))
    (before, actions), (after, _) = views_at("forfeiting", 0), views_at("forfeiting", 1)
    keys = jax.ShapeDtypeStruct((NUM_LANES, 2), np.uint32)
    beliefs = jax.eval_shape(jax.vmap(partial(belief_init, num_particles=8, **CAPACITY)), before, keys)

    def most_together(update: Any, *leading: int, scales: int | None = None) -> int:
        asked.clear()
        # An update that was traced would not be traced again.
        jax.clear_caches()
        arguments = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((*leading, *x.shape[1:]), x.dtype), (beliefs, before, actions, after, keys)
        )
        scale = () if scales is None else (jax.ShapeDtypeStruct((4,)[:scales], np.float32),)
        updated, info = jax.eval_shape(update, *scale, *arguments)
        assert updated.log_weights.shape == (*leading, 8) and info.log_evidence.shape == leading
        return max(games for games, _ in asked)

    def update_by(scale: jax.Array, *arguments: Any) -> tuple[Belief, Info]:
        return belief_update(*arguments, opponent=lambda seen, legal: scale * legal.astype(jnp.float32))

    assert most_together(belief_update) == 1
    assert most_together(jax.vmap(jax.vmap(belief_update)), 2, 3) == 6
    assert most_together(jax.vmap(update_by, (None, 0, 0, 0, 0, 0)), 4, scales=0) == 4
    assert most_together(jax.vmap(update_by), 4, scales=1) == 1


@pytest.mark.slow
def test_batches_of_batches_are_one_larger_batch() -> None:
    """Three beliefs of two positions: nested batches, one batch of six, and single updates."""
    (before, actions), (after, _) = views_at("forfeiting", 1), views_at("forfeiting", 2)
    chosen = np.flatnonzero(actions >= 0)[[0, -1]]
    before, actions, after = jax.tree.map(lambda x: x[chosen], (before, actions, after))
    keys = jax.random.split(jax.random.key(0), (2, 3))
    start = partial(belief_init, num_particles=8, **CAPACITY)
    beliefs = jax.jit(jax.vmap(jax.vmap(start, (None, 0))))(before, keys)
    nested = jax.jit(jax.vmap(jax.vmap(belief_update, (0, None, None, None, 0))))(beliefs, before, actions, after, keys)

    def flat(tree: Any) -> Any:
        return jax.tree.map(lambda x: x.reshape(6, *x.shape[2:]), tree)

    each = jax.tree.map(lambda x: np.repeat(x, 3, 0), (before, actions, after))
    expected = jax.jit(jax.vmap(belief_update))(flat(beliefs), *each, flat(keys))
    assert len(np.unique(expected[0].trajectories.labels, axis=0)) == 6
    assert_trees_equal(flat(nested), expected)
    alone = jax.jit(belief_update)(*jax.tree.map(lambda x: x[5], (flat(beliefs), *each, flat(keys))))
    assert_same(*jax.device_get((alone, jax.tree.map(lambda x: x[5], expected))), "alone")


# The work on batches.


def test_a_chunk_has_no_more_blocks_than_there_is_room_for() -> None:
    rng = np.random.default_rng(0)
    rounds, sizes = rng.integers(0, 4, 12).astype(np.int32), rng.integers(0, 10, 12).astype(np.int32)

    @partial(jax.jit, static_argnames="room")
    def work_through(rounds: jax.Array, sizes: jax.Array, *, room: int) -> Any:
        def work(index: jax.Array, at: jax.Array, state: Any) -> Any:
            done, turns, most = state
            taken = jnp.where(at < 12, take_rows(sizes, at), 0).sum()
            return put_rows(done, at, jnp.where(take_rows(done, at) == index, index + 1, -1)), turns + 1, jnp.maximum(most, taken)

        nothing = (jnp.zeros(12, jnp.int32), jnp.int32(0), jnp.int32(0))
        return Agenda({"work": rounds}, 12).do("work", 5, work, nothing, sizes, room)

    for room in (9, 14, 100):
        done, turns, most = work_through(rounds, sizes, room=room)
        np.testing.assert_array_equal(done, rounds)
        assert int(turns) == num_turns(rounds, 5, sizes, room) and 0 < int(most) <= room


def test_changes_are_put_into_columns_of_one_table_and_of_many() -> None:
    rng = np.random.default_rng(0)
    tables, new = rng.integers(0, 99, (3, 4, 5)).astype(np.uint8), rng.integers(100, 200, (3, 2, 5)).astype(np.uint8)
    # Two different rows of each column, or beyond the end.
    index = rng.permuted(np.tile(np.array([0, 1, 2, 3, 65535], np.uint16)[:, None], (3, 1, 5)), axis=1)[:, :2]
    expected = tables.copy()
    for element, change, column in np.ndindex(index.shape):
        if index[element, change, column] < 4:
            expected[element, index[element, change, column], column] = new[element, change, column]
    np.testing.assert_array_equal(jax.jit(jax.vmap(put_in_columns))(tables, index, new), expected)
    np.testing.assert_array_equal(jax.jit(put_in_columns)(tables[0], index[0], new[0]), expected[0])
