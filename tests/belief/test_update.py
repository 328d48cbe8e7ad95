"""A single update of the particle filter: what begins anew, what changes nothing, what is refused, and the modes of JAX."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from tests import helpers
from tests.belief.oracle import THIN
from tests.belief.test_particles import NUM_STEPS, games, guard_opponent, invariants
from tests.helpers import assert_trees_equal, slow_but
from unojax import cards, game
from unojax.belief import (
    Belief,
    Info,
    belief_init,
    belief_update,
    belief_update_checked,
    history,
    uniform_opponent,
)
from unojax.belief.particles import stages, weighing
from unojax.belief.particles.stages import Transition
from unojax.belief.particles.weighing import Options, Weighing
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter, plain_info
from unojax.observation import Observation, observe
from unojax.text import make_state, parse_action

SMALL = {"max_slots": THIN.num_cards, "max_plays": 3}
update: Any = jax.jit(belief_update)
update_games = jax.jit(jax.vmap(belief_update))
start = jax.jit(partial(belief_init, num_particles=64, **SMALL))
check = jax.jit(partial(invariants, opponent=uniform_opponent, rules=THIN))


def thin_lane(player: int, lane: int) -> tuple[list[Observation], np.ndarray]:
    record = games(THIN)
    return [record.view(player, t, lane) for t in range(NUM_STEPS + 1)], record.happened[:, lane].astype(np.int32)


def assert_begun_anew(belief: Belief, info: Info, seen: Observation) -> None:
    assert info.restarted
    assert not (info.depleted or info.resampled)
    assert int(belief.public.num_slots) == int(seen.opponent_count)
    assert int(belief.public.num_records) == 0
    np.testing.assert_allclose(belief.log_weights, -np.log(64.0), rtol=1e-6)
    assert all(check(belief, seen).values())


@pytest.mark.slow
def test_the_last_play_that_fits_begins_anew() -> None:
    """The belief restarts at the play that fills its capacity, and not before; then it is as good as one from the position."""
    record, happened = games(THIN), games(THIN).happened
    plays = ((happened >= 0) & (happened < cards.DRAW) & (record.states.current_player[:-1] == 1)).cumsum(0)
    capacity = start(record.view(0, 0, 0), jax.random.key(0)).public.max_records
    assert SMALL["max_plays"] <= capacity < SMALL["max_plays"] + 4
    lane = int(np.flatnonzero(plays[-1] > capacity)[0])
    views, happened = thin_lane(0, lane)
    first = int((plays[:, lane] >= capacity).argmax())
    belief = start(views[0], jax.random.key(lane))
    for t in range(first):
        belief, info = update(belief, views[t], happened[t], views[t + 1], jax.random.fold_in(jax.random.key(lane), t))
        assert not info.restarted
    assert int(belief.public.num_records) == capacity - 1
    belief, info = update(belief, views[first], happened[first], views[first + 1], jax.random.key(lane))
    assert_begun_anew(belief, info, views[first + 1])


def test_one_slot_too_many_begins_anew() -> None:
    """Capacities may be rounded up. Slots without a card stand for cards that the opponent has drawn and played long ago."""
    record, happened = games(THIN), games(THIN).happened
    drawn = np.diff(record.observations[0].opponent_count.astype(int), axis=0)
    t, lane = np.argwhere(drawn > 0)[0].tolist()
    before, after = record.view(0, t, lane), record.view(0, t + 1, lane)
    belief = start(before, jax.random.key(lane))
    capacity = belief.public.max_slots
    assert SMALL["max_slots"] <= capacity < SMALL["max_slots"] + 8
    for spare in (0, -1):
        used = jnp.int32(capacity - drawn[t, lane] - spare)
        full = dataclasses.replace(belief, public=dataclasses.replace(belief.public, num_slots=used))
        updated, info = update(full, before, happened[t, lane].astype(np.int32), after, jax.random.key(1))
        assert bool(info.restarted) == (spare < 0)
    assert_begun_anew(updated, info, after)


def test_depletion_is_reported_and_begins_anew() -> None:
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    hopeless = dataclasses.replace(belief, log_weights=jnp.full_like(belief.log_weights, -jnp.inf))
    belief, info = update(hopeless, views[0], happened[0], views[1], jax.random.key(1))
    assert info.depleted and info.restarted and not info.resampled
    assert np.isneginf(info.log_evidence)
    assert float(info.ess) == 0.0
    assert all(check(belief, views[1]).values())


def test_nothing_changes_when_nothing_moves() -> None:
    """Finished games and refused actions, whether called -1 or by the number that was tried."""
    record, happened = games(THIN), games(THIN).happened
    finished = np.argwhere(record.states.terminated[:-1])[0]
    refused = np.argwhere((happened == game.NO_ACTION) & ~record.states.terminated[:-1])[0]
    for t, lane in (finished.tolist(), refused.tolist()):
        view = record.view(0, t, lane)
        belief = start(view, jax.random.key(0))
        for action in np.array([game.NO_ACTION, record.actions[t, lane], cards.DRAW], np.int32):
            same, info = update(belief, view, action, record.view(0, t + 1, lane), jax.random.key(1))
            assert_trees_equal(same, belief)
            assert float(info.log_evidence) == pytest.approx(0.0, abs=1e-5)
            assert not (info.restarted or info.depleted or info.resampled)


@pytest.mark.slow
def test_a_batch_of_games_equals_its_games() -> None:
    lanes, t = range(8), 1
    views = [thin_lane(lane % 2, lane)[0] for lane in lanes]
    actions = [thin_lane(lane % 2, lane)[1][t] for lane in lanes]
    keys = jax.random.split(jax.random.key(0), len(lanes))
    beliefs = [start(view[t], key) for view, key in zip(views, keys, strict=True)]

    def stack(trees: list) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

    before, after = stack([view[t] for view in views]), stack([view[t + 1] for view in views])
    batch = update_games(stack(beliefs), before, jnp.array(actions, jnp.int32), after, keys)
    assert (
        len({(a == cards.DRAW, int(v[t].current_player) == lane % 2) for lane, a, v in zip(lanes, actions, views, strict=True)})
        > 1
    )
    for lane in lanes:
        one = update(beliefs[lane], views[lane][t], actions[lane], views[lane][t + 1], keys[lane])
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(jax.tree.map(lambda x, lane=lane: x[lane], batch)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_one_program_for_all_events_and_seats() -> None:
    size, kinds = update._cache_size(), set()
    for lane in range(6):
        views, happened = thin_lane(lane % 2, lane)
        belief = start(views[0], jax.random.key(lane))
        for t in range(6):
            belief, _ = update(belief, views[t], happened[t], views[t + 1], jax.random.key(t))
            kinds.add((int(happened[t]) == cards.DRAW, int(views[t].current_player) == lane % 2))
    assert len(kinds) == 4
    assert update._cache_size() == max(size, 1)


def test_no_event_copies_the_labels() -> None:
    """XLA copies a table that is read after it was changed in place, which took a seventh of an update's time."""
    seen = observe(game.init(jax.random.key(0), rules=THIN), 0)
    belief = start(seen, jax.random.key(0))
    arguments = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), (belief, seen, jnp.int32(cards.DRAW), seen))
    program = update_games.lower(*arguments, jax.random.split(jax.random.key(1))).compile().as_text()
    rows, number = belief.trajectories.labels.shape
    assert f"u8[{rows},{number}]" in program
    assert not re.findall(rf"= u8\[{rows},{number}\]\S* copy\(", program)


def test_the_same_key_gives_the_same_belief() -> None:
    views, happened = thin_lane(0, 1)
    belief = start(views[0], jax.random.key(0))
    one, two = (update(belief, views[0], happened[0], views[1], jax.random.key(1))[0] for _ in range(2))
    assert_trees_equal(one, two)
    assert not np.array_equal(*(start(views[0], jax.random.key(k)).particles for k in (0, 1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_particles": 0}, "num_particles must be an integer of at least 1, got 0"),
        ({"num_particles": 10.0}, "num_particles must be an integer of at least 1, got 10.0"),
        ({"opponent": "linear"}, "opponent must be a model, a function, or a Family of them, got 'linear'"),
        ({"max_slots": THIN.num_cards - 1}, "max_slots must be at least the 11 cards of the game"),
        ({"max_plays": 0}, "max_plays at least 1, got 192 and 0"),
    ],
)
def test_bad_sizes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_init(games(THIN).view(0, 0, 0), jax.random.key(0), **arguments)


# Observations that do not belong together.


def test_what_does_not_belong_together_changes_nothing() -> None:
    """Another action than the one shown, a skipped turn, another player's view, and a belief of another position."""
    record, happened = games(THIN), games(THIN).happened
    mine = record.states.current_player[:-1] == 0
    both = (happened[:-1] >= 0) & (happened[1:] >= 0) & ~record.states.terminated[2:]
    play, draw = ((happened[:-1] >= 0) & (happened[:-1] < cards.DRAW), happened[:-1] == cards.DRAW)
    for kind in (play & ~mine[:-1], draw & ~mine[:-1], play & mine[:-1], draw & mine[:-1]):
        t, lane = np.argwhere(both & kind)[0].tolist()
        views, actions = thin_lane(0, lane)
        belief = start(views[t], jax.random.key(1))
        elsewhere = start(thin_lane(0, lane + 1)[0][0], jax.random.key(1))
        wrong_action = np.int32(3 if actions[t] == cards.DRAW else cards.DRAW)
        other_player = thin_lane(1, lane)[0]
        cases = {
            "right": (belief, views[t], actions[t], views[t + 1]),
            "another action": (belief, views[t], wrong_action, views[t + 1]),
            "no action": (belief, views[t], np.int32(game.NO_ACTION), views[t + 1]),
            "a skipped turn": (belief, views[t], actions[t], views[t + 2]),
            "the other player after": (belief, views[t], actions[t], other_player[t + 1]),
            "the other player": (belief, other_player[t], actions[t], other_player[t + 1]),
            "another position": (elsewhere, views[t], actions[t], views[t + 1]),
            "backwards": (belief, views[t + 1], actions[t], views[t]),
        }
        for name, (old, before, action, after) in cases.items():
            updated, info = update(old, before, action, after, jax.random.key(2))
            assert bool(info.inconsistent) == (name != "right"), name
            if name != "right":
                assert_trees_equal(updated, old)
                assert not (info.restarted or info.depleted or info.resampled), name
                assert float(info.log_evidence) == 0.0


def test_an_uneven_belief_stays_as_it_was_too() -> None:
    """Its weights are not evened out by a resampling for which nothing gave a reason."""
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    log_weights = jnp.log(jnp.arange(64.0) ** 4 / (jnp.arange(64.0) ** 4).sum())
    uneven = dataclasses.replace(belief, log_weights=log_weights)
    updated, info = update(uneven, views[0], happened[0], views[2], jax.random.key(1))
    assert info.inconsistent
    assert_trees_equal(updated, uneven)


def quick_update(belief: Belief, before: Observation, action: jax.Array, after: Observation, key: jax.Array):
    """In place of `belief_update`, which takes long to compile: it tells what is inconsistent and believes nothing."""
    del key
    return belief, plain_info(~history.is_consistent(before, action, after))


@pytest.mark.parametrize("whole", slow_but([False], [False, True]))
def test_checked_update_raises(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr("unojax.belief.particles.filter.belief_update", quick_update)
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    checked = jax.jit(checkify.checkify(belief_update_checked))
    error, result = checked(belief, views[0], happened[0], views[1], jax.random.key(1))
    error.throw()
    if whole:
        assert_trees_equal(result, update(belief, views[0], happened[0], views[1], jax.random.key(1)))
    error, _ = checked(belief, views[0], np.int32(7), views[1], jax.random.key(1))
    with pytest.raises(checkify.JaxRuntimeError, match="observations around action 7 are not one transition apart"):
        error.throw()
    # The cards are those of the action, and only the rules of the game tell whose turn it is.
    other_turn = dataclasses.replace(views[1], current_player=1 - views[1].current_player)
    assert history.is_consistent(views[0], happened[0], other_turn)
    error, _ = checked(belief, views[0], happened[0], other_turn, jax.random.key(1))
    with pytest.raises(checkify.JaxRuntimeError, match="are not one transition apart"):
        error.throw()


def test_what_is_out_of_range_is_refused() -> None:
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    for options in ({"ess_threshold": 1.5}, {"ess_threshold": -0.1}, {"num_moves": -1}):
        with pytest.raises(ValueError, match=r"ess_threshold must be in \[0, 1\] and num_moves at least 0"):
            belief_update(belief, views[0], happened[0], views[1], jax.random.key(1), **options)
    with pytest.raises(ValueError, match="action must be an integer"):
        belief_update(belief, views[0], float(happened[0]), views[1], jax.random.key(1))
    with pytest.raises(ValueError, match="belief_update takes a random key"):
        belief_update(belief, views[0], happened[0], views[1], 0)  # type: ignore[arg-type] the bad value is the test
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), belief)
    with pytest.raises(ValueError, match="belief_update takes a single belief, got log_weights of shape"):
        belief_update(batch, views[0], happened[0], views[1], jax.random.key(1))


# The weights.


@pytest.fixture(scope="module")
def uneven() -> tuple[Belief, Transition]:
    """A belief of uneven weights, and a transition whose evidence has no constant factor."""
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    belief = dataclasses.replace(belief, log_weights=jax.nn.log_softmax(jnp.arange(64.0) / 8))
    read = jax.jit(lambda *arguments: stages.read_transition(*arguments, (jnp.uint32(0), jnp.uint32(1))))
    of = read(belief, views[0], happened[0], views[1])
    assert of.moved and not of.inconsistent
    return belief, of._replace(log_constant=jnp.float32(0.0))


def weighed(belief: Belief, of: Transition, log_lik: Any = 0.0, ess_threshold: float = 0.5) -> Weighing:
    nothing, options = jnp.zeros(64), Options(uniform_opponent, ess_threshold, 6)
    return jax.jit(weighing.weigh, static_argnames="options")(belief, of, nothing, nothing + log_lik, options=options)


def test_what_is_no_finite_likelihood_is_impossible(uneven: tuple[Belief, Transition]) -> None:
    belief, of = uneven
    found = weighed(belief, of, jnp.zeros(64).at[:3].set(jnp.array([jnp.inf, jnp.nan, -jnp.inf])))
    assert np.isneginf(found.log_weights[:3]).all() and not found.depleted
    np.testing.assert_allclose(found.log_weights[3:], jax.nn.log_softmax(belief.log_weights[3:]), rtol=1e-5)
    np.testing.assert_allclose(found.log_evidence, jax.nn.logsumexp(belief.log_weights[3:]), atol=1e-6)
    for nowhere in (jnp.inf, jnp.nan):
        assert weighed(belief, of, nowhere).depleted


@pytest.mark.parametrize("field", ["num_slots", "num_records"])
def test_where_nothing_moved_nothing_is_resampled(uneven: tuple[Belief, Transition], field: str) -> None:
    belief, of = uneven
    assert weighed(belief, of, ess_threshold=1.0).resampled
    nothing = of._replace(moved=jnp.bool_(False))
    assert not weighed(belief, nothing, ess_threshold=1.0).resampled
    outgrown = dataclasses.replace(of.new, **{field: jnp.int32(100)})
    assert not weighed(belief, of).restarted
    assert weighed(belief, of._replace(new=outgrown)).restarted
    found = weighed(belief, nothing._replace(inconsistent=jnp.bool_(True), new=outgrown))
    assert not (found.restarted or found.resampled or found.depleted)


# The modes of JAX.


@pytest.fixture
def step_of_a_game() -> tuple[Any, ...]:
    views, happened = thin_lane(0, 0)
    return start(views[0], jax.random.key(0)), views[0], happened[0], views[1], jax.random.key(1)


def test_strict_modes(step_of_a_game: tuple[Any, ...]) -> None:
    """Tracing is enough: that is when JAX complains."""
    belief, before, action, after, key = step_of_a_game
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        jax.make_jaxpr(partial(belief_init, num_particles=16, prior="deal"))(before, key)
        jax.make_jaxpr(history.infer_action)(before, after)
        several = jax.vmap(partial(belief_update, opponent=guard_opponent), (None, None, None, None, 0))
        jax.make_jaxpr(several)(belief, before, action, after, jax.random.split(key, 2))
        other = BootstrapFilter(16, guard_opponent)
        jax.make_jaxpr(other.update)(key, jax.eval_shape(other.init, key, before), before, action, after)
        closed = ClosedFormFilter()
        jax.make_jaxpr(closed.update)(key, jax.eval_shape(closed.init, key, before), before, action, after)
        exact = ExactFilter(guard_opponent)
        exact.update(key, exact.init(key, before), before, action, after)


@pytest.mark.slow
def test_64_bit_mode_changes_nothing() -> None:
    """Along a game, through events of all kinds: the same bits of the same types."""
    views, happened = thin_lane(0, 1)

    def along() -> list[Any]:
        begin = jax.jit(partial(belief_init, num_particles=64, **SMALL))
        belief, result = begin(views[0], jax.random.key(0)), []
        for t in range(8):
            belief, info = update(belief, views[t], happened[t], views[t + 1], jax.random.key(t))
            result.append(jax.device_get((belief, info)))
        return result

    assert {int(a) == cards.DRAW for a in happened[:8]} == {True, False}
    usual = along()
    with jax.enable_x64(True):
        wide = along()
        exact = ExactFilter()
        belief, _ = exact.update(None, exact.init(None, views[0]), views[0], happened[0], views[1])
    for one, two in zip(jax.tree.leaves(usual), jax.tree.leaves(wide), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    expected, _ = exact.update(None, exact.init(None, views[0]), views[0], happened[0], views[1])
    np.testing.assert_array_equal(belief.probs, expected.probs)


def evidence_by(parameter: jax.Array, before: Observation, action: int, seen: Observation) -> jax.Array:
    """Evidence of a play, for an opponent who prefers red cards by so much."""

    def model(observation: Observation, legal_mask: jax.Array) -> jax.Array:
        weights = jnp.where(jnp.arange(61) < 15, parameter, 1.0) * legal_mask
        return weights / weights.sum()

    key = jax.random.key(0)
    belief = belief_init(before, key, num_particles=32, prior="uniform")
    return belief_update(belief, before, jnp.int32(action), seen, key, opponent=model)[1].log_evidence


def test_a_model_may_close_over_what_is_mapped_or_differentiated():
    before = helpers.after(make_state("R1 Y3", "R2 W+4 B3", "R3"), "R1")
    seen = helpers.after(before, "R2")
    evidence = partial(evidence_by, before=observe(before, 0), action=parse_action("R2"), seen=observe(seen, 0))
    parameters = jnp.array([1.0, 2.0, 4.0])
    one_by_one = jax.lax.map(evidence, parameters)
    assert one_by_one[0] < one_by_one[1] < one_by_one[2]
    np.testing.assert_allclose(jax.vmap(evidence)(parameters), one_by_one, rtol=1e-6)
    _, slope = jax.jvp(evidence, (jnp.float32(2),), (jnp.float32(1),))
    low, high = jax.lax.map(evidence, jnp.array([1.9, 2.1]))
    np.testing.assert_allclose(slope, (high - low) / 0.2, rtol=0.02)
