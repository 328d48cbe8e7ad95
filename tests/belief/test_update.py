"""A single update of the particle filter: restarts, no-ops, weights, and the modes of JAX."""

from __future__ import annotations

import dataclasses
import inspect
import re
from functools import cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from tests.belief.comparing import invariants
from tests.belief.games import games_of
from tests.belief.models import GUARD
from tests.belief.oracle import THIN
from tests.helpers import after as after_actions
from tests.helpers import assert_trees_equal, refusals, slow_but
from unojax import cards, game
from unojax.belief import Belief, Info, belief_init, belief_update, belief_update_checked, history, uniform_opponent
from unojax.belief.particles import stages, weighing
from unojax.belief.particles.stages import Transition
from unojax.belief.particles.weighing import Options
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter
from unojax.observation import Observation, observe
from unojax.text import make_state, parse_action

PROGRAMS: Final = 120  # refusals build a belief outside of jit; the modes of JAX trace on their own


NUM_PARTICLES, BATCH = 64, 8
SMALL = {"max_slots": THIN.num_cards, "max_plays": 3}
start = jax.jit(partial(belief_init, num_particles=NUM_PARTICLES, **SMALL))
check = jax.jit(partial(invariants, opponent=uniform_opponent))

Case = tuple[Belief, Observation, Any, Observation]


def stack(trees: list) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(trees))


@cache
def program() -> jax.stages.Compiled:
    """Return the update of eight games, compiled once."""
    one = transition(0, 0)
    shapes = jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.stack([x] * BATCH), one))
    return jax.jit(jax.vmap(belief_update)).lower(*shapes, jax.random.split(jax.random.key(0), BATCH)).compile()


def updated(cases: list[Case], seed: int = 1) -> list[tuple[Belief, Info]]:
    """Update up to eight beliefs with the same key."""
    arguments = stack([(belief, before, np.int32(action), after) for belief, before, action, after in cases])
    arguments = jax.tree.map(lambda x: np.concatenate([x] + [x[-1:]] * (BATCH - len(cases))), arguments)
    keys = jax.random.wrap_key_data(np.tile(jax.random.key_data(jax.random.key(seed)), (BATCH, 1)))
    results = jax.device_get(program()(*arguments, keys))
    return [jax.tree.map(lambda x, i=i: x[i], results) for i in range(len(cases))]


def transition(number: int, t: int, seat: int = 0) -> Case:
    """Return a belief that starts at step t of a game, and the next transition."""
    games = games_of(THIN)
    before = games.view(seat, number, t)
    belief = jax.device_get(start(before, jax.random.key(number)))
    return belief, before, games.actions[number, t], games.view(seat, number, t + 1)


def find_draw() -> tuple[int, int]:
    """Return game and step of a draw by the opponent of player 0."""
    games = games_of(THIN)
    theirs = (games.states.current_player[:, :-1] == 1) & ~games.states.terminated[:, 1:]
    return games.find((games.actions == cards.DRAW) & theirs)


def test_a_belief_begins_again_if_it_is_depleted_or_full() -> None:
    """A slot is a card that the opponent ever acquired. Capacities may be rounded up."""
    belief, *step = transition(*find_draw())
    max_slots, drawn = belief.public.max_slots, int(step[2].opponent_count - step[0].opponent_count)
    assert SMALL["max_slots"] <= max_slots < SMALL["max_slots"] + 8
    assert SMALL["max_plays"] <= belief.public.max_records < SMALL["max_plays"] + 4
    full = [
        dataclasses.replace(belief, public=dataclasses.replace(belief.public, num_slots=np.int32(max_slots - drawn + excess)))
        for excess in (0, 1)
    ]
    hopeless = dataclasses.replace(belief, log_weights=np.full_like(belief.log_weights, -np.inf))
    results = updated([(one, *step) for one in (*full, hopeless)])
    assert [bool(info.restarted) for _, info in results] == [False, True, True]
    assert [bool(info.depleted) for _, info in results] == [False, False, True]
    for belief, info in results[1:]:
        assert not info.resampled and int(belief.public.num_records) == 0
        assert int(belief.public.num_slots) == int(step[2].opponent_count)
        np.testing.assert_allclose(belief.log_weights, -np.log(NUM_PARTICLES), rtol=1e-6)
        assert all(check(belief, step[2]).values())
    assert np.isneginf(results[2][1].log_evidence) and results[2][1].ess == 0


def test_nothing_changes_when_nothing_moves() -> None:
    """In finished games and after illegal actions, given as -1 or by number."""
    games = games_of(THIN)
    over = games.states.terminated[:, :-1]
    finished, refused = games.find(over), games.find((games.actions < 0) & ~over)
    cases = [
        (belief, before, tried, after)
        for belief, before, _, after in (transition(*finished), transition(*refused))
        for tried in (game.NO_ACTION, 3, cards.DRAW)
    ]
    for (belief, info), case in zip(updated(cases), cases, strict=True):
        assert_trees_equal(belief, case[0])
        assert info.log_evidence == pytest.approx(0.0, abs=1e-5)
        assert not (info.restarted or info.depleted or info.resampled or info.inconsistent)


def test_what_contradicts_itself_changes_nothing() -> None:
    """For plays and draws of either player. Uneven weights are not resampled."""
    uneven = jax.nn.log_softmax(np.arange(float(NUM_PARTICLES), dtype=np.float32) / 8)
    games = games_of(THIN)
    in_a_row = (games.actions[:, :-1] >= 0) & (games.actions[:, 1:] >= 0) & ~games.states.terminated[:, 2:]
    draws, mine = games.actions[:, :-1] == cards.DRAW, games.states.current_player[:, :-2] == 0
    for kind in (draws & mine, draws & ~mine, ~draws & mine, ~draws & ~mine):
        number, t = games.find(in_a_row & kind)
        belief, before, action, after = transition(number, t)
        belief = dataclasses.replace(belief, log_weights=np.asarray(uneven))
        other = games.views(1, number)
        cases = {
            "right": (belief, before, action, after),
            "another action": (belief, before, 3 if action == cards.DRAW else cards.DRAW, after),
            "no action": (belief, before, game.NO_ACTION, after),
            "a skipped turn": (belief, before, action, games.view(0, number, t + 2)),
            "the other player after": (belief, before, action, other[t + 1]),
            "the other player": (belief, other[t], action, other[t + 1]),
            "another position": (transition(number + 1, 0)[0], before, action, after),
            "backwards": (belief, after, action, before),
        }
        for (name, case), (result, info) in zip(cases.items(), updated(list(cases.values())), strict=True):
            assert bool(info.inconsistent) == (name != "right"), name
            if name != "right":
                assert_trees_equal(result, case[0])
                assert not (info.restarted or info.depleted or info.resampled) and info.log_evidence == 0.0, name


def test_the_same_key_gives_the_same_belief_alone_and_in_a_batch() -> None:
    case = transition(*find_draw())
    (one, _), (two, _) = updated([case, case])
    assert_trees_equal(one, two)
    assert not np.array_equal(*(start(case[1], jax.random.key(k)).particles for k in (0, 1)))
    assert not np.array_equal(updated([case], seed=2)[0][0].particles, one.particles)


def test_no_event_copies_the_labels() -> None:
    """XLA copies a table that is read after an update in place, which took a seventh of the time."""
    rows, number = transition(0, 0)[0].trajectories.labels.shape
    text = program().as_text()
    assert f"u8[{rows},{number}]" in text
    assert not re.findall(rf"= u8\[{rows},{number}\]\S* copy\(", text)


def quick_update(belief: Belief, before: Observation, action: jax.Array, after: Observation, key: jax.Array):
    """Replace `belief_update`, which compiles slowly: flag inconsistencies, and keep the belief."""
    return belief, Info(inconsistent=~history.is_consistent(before, action, after))


@pytest.mark.parametrize("whole", slow_but([False], [False, True]))
def test_checked_update_raises(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr("unojax.belief.particles.filter.belief_update", quick_update)
    belief, before, action, after = transition(0, 0)
    checked, key = jax.jit(checkify.checkify(belief_update_checked)), jax.random.key(1)
    error, result = checked(belief, before, action, after, key)
    error.throw()
    assert not whole or result[1].ess > 0
    # The cards are those of the action, and only the rules of the game show whose turn it is.
    other_turn = dataclasses.replace(after, current_player=1 - after.current_player)
    assert history.is_consistent(before, action, other_turn)
    for tried, seen in ((np.int32(7), after), (action, other_turn)):
        error, _ = checked(belief, before, tried, seen, key)
        with pytest.raises(checkify.JaxRuntimeError, match=f"around action {tried} are not one transition apart"):
            error.throw()


def test_refusals() -> None:
    belief, before, action, after = transition(0, 0)
    batch = jax.tree.map(lambda x: np.stack([x, x]), belief)

    def begin(**options: Any) -> object:
        return belief_init(before, jax.random.key(0), **options)

    key = jax.random.key(1)

    def call(belief: Belief = belief, action: Any = action, key: Any = key, **options: Any) -> object:
        return belief_update(belief, before, action, after, key, **options)

    refusals(
        {
            "num_particles (none)": lambda: begin(num_particles=0),
            "num_particles (float)": lambda: begin(num_particles=10.0),
            "num_particles (more than an index counts)": lambda: begin(num_particles=2**40),
            "opponent": lambda: begin(opponent="linear"),
            "max_slots": lambda: begin(max_slots=THIN.num_cards - 1),
            "max_slots (text)": lambda: begin(max_slots="128"),
            "max_plays": lambda: begin(max_plays=0),
            "max_plays (float)": lambda: begin(max_plays=2.5),
            "prior": lambda: begin(prior="flat"),
            "ess_threshold": lambda: call(ess_threshold=1.5),
            "ess_threshold (negative)": lambda: call(ess_threshold=-0.1),
            "ess_threshold (text)": lambda: call(ess_threshold="half"),
            "num_moves": lambda: call(num_moves=-1),
            "num_moves (float)": lambda: call(num_moves=1.5),
            "action": lambda: call(action=1.0),
            "key": lambda: call(key=0),
            "log_weights": lambda: call(belief=batch),
        }
    )


# The weights.


@pytest.fixture(scope="module")
def uneven() -> tuple[Belief, Transition]:
    """Return a belief of uneven weights, and a transition with uneven evidence."""
    belief, before, action, after = transition(0, 0)
    belief = dataclasses.replace(belief, log_weights=jax.nn.log_softmax(jnp.arange(float(NUM_PARTICLES)) / 8))
    read = jax.jit(lambda *arguments: stages.read_transition(*arguments, (jnp.uint32(0), jnp.uint32(1))))
    of = jax.device_get(read(belief, before, action, after))
    assert of.moved and not of.inconsistent
    return jax.device_get(belief), of._replace(log_constant=np.float32(0.0))


weigh = jax.jit(weighing.weigh, static_argnames="options")


def weighed(belief: Belief, of: Transition, log_lik: Any = 0.0, ess_threshold: float = 0.5) -> tuple[jax.Array, Info]:
    nothing, options = np.zeros(NUM_PARTICLES, np.float32), Options(uniform_opponent, ess_threshold, 6)
    return weigh(belief, of, nothing, nothing + np.float32(log_lik), options=options)


def test_what_is_no_finite_likelihood_is_impossible(uneven: tuple[Belief, Transition]) -> None:
    belief, of = uneven
    log_lik = np.zeros(NUM_PARTICLES, np.float32)
    log_lik[:3] = np.inf, np.nan, -np.inf
    (log_weights, info), left = weighed(belief, of, log_lik), belief.log_weights[3:].astype(float)
    assert np.isneginf(log_weights[:3]).all() and not info.depleted
    np.testing.assert_allclose(info.log_evidence, np.logaddexp.reduce(left), atol=1e-6)
    np.testing.assert_allclose(log_weights[3:], left - np.logaddexp.reduce(left), rtol=1e-5)
    assert all(weighed(belief, of, nowhere)[1].depleted for nowhere in (np.inf, np.nan))


def test_when_a_belief_is_resampled_or_begins_again(uneven: tuple[Belief, Transition]) -> None:
    """Contract: systematic resampling when ESS < N/2, threshold configurable. Nothing is resampled if nothing moved.

    The weights have an ESS of N/4. A belief restarts at the last slot or record.
    """
    belief, of = uneven
    assert inspect.signature(belief_update).parameters["ess_threshold"].default == 0.5
    assert not weighed(belief, of, ess_threshold=0.24)[1].resampled and weighed(belief, of, ess_threshold=0.26)[1].resampled
    nothing = of._replace(moved=np.bool_(False))
    assert not weighed(belief, nothing, ess_threshold=0.26)[1].resampled
    for field, most in (("num_slots", belief.public.max_slots), ("num_records", belief.public.max_records - 1)):
        full, outgrown = (dataclasses.replace(of.new, **{field: np.int32(number)}) for number in (most, most + 1))
        assert not weighed(belief, of._replace(new=full))[1].restarted, field
        assert weighed(belief, of._replace(new=outgrown))[1].restarted, field
        _, found = weighed(belief, nothing._replace(inconsistent=np.bool_(True), new=outgrown))
        assert not (found.restarted or found.resampled or found.depleted)


# The modes of JAX.


def test_strict_modes() -> None:
    """JAX complains while tracing."""
    belief, before, action, after = transition(0, 0)
    key = jax.random.key(1)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        jax.make_jaxpr(partial(belief_init, num_particles=16, prior="deal"))(before, key)
        jax.make_jaxpr(history.infer_action)(before, after)
        jax.make_jaxpr(partial(belief_update, opponent=GUARD))(belief, before, action, after, key)
        for updater in (BootstrapFilter(16, GUARD), ClosedFormFilter()):
            jax.make_jaxpr(updater.update)(key, jax.eval_shape(updater.init, key, before), before, action, after)
        exact = ExactFilter(GUARD)
        exact.update(key, exact.init(key, before), before, action, after)


@pytest.mark.slow
def test_64_bit_mode_changes_nothing() -> None:
    """Along a game with events of all kinds: the same bits and dtypes."""
    games, exact = games_of(THIN), ExactFilter()
    views, actions = games.views(0, 1, 9), games.actions[1]

    def along() -> list[Any]:
        belief, result = start(views[0], jax.random.key(0)), []
        for t in range(8):
            step = views[t], actions[t], views[t + 1]
            belief, info = jax.jit(belief_update)(belief, *step, jax.random.key(t))
            result.append(jax.device_get((belief, info)))
        return [*result, exact.update(None, exact.init(None, views[0]), views[0], actions[0], views[1])[0].hands()[1]]

    assert {int(a) == cards.DRAW for a in actions[:8]} == {True, False}
    usual = along()
    with jax.enable_x64(True):
        wide = along()
    assert_trees_equal(usual, wide)


def evidence_by(parameter: jax.Array, before: Observation, action: int, seen: Observation) -> jax.Array:
    """Return the evidence of a play for an opponent with this preference for red cards."""

    def model(observation: Observation, legal_mask: jax.Array) -> jax.Array:
        weights = jnp.where(jnp.arange(61) < 15, parameter, 1.0) * legal_mask
        return weights / weights.sum()

    key = jax.random.key(0)
    belief = belief_init(before, key, num_particles=32, prior="uniform")
    return belief_update(belief, before, jnp.int32(action), seen, key, opponent=model)[1].log_evidence


@pytest.mark.slow
def test_a_model_may_close_over_what_is_mapped_or_differentiated() -> None:
    before = after_actions(make_state("R1 Y3", "R2 W+4 B3", "R3"), "R1")
    seen = after_actions(before, "R2")
    evidence = partial(evidence_by, before=observe(before, 0), action=parse_action("R2"), seen=observe(seen, 0))
    parameters = jnp.array([1.0, 2.0, 4.0, 1.9, 2.1])
    one_by_one = jax.lax.map(evidence, parameters)
    assert one_by_one[0] < one_by_one[1] < one_by_one[2]
    np.testing.assert_allclose(jax.vmap(evidence)(parameters), one_by_one, rtol=1e-6)
    _, slope = jax.jvp(evidence, (jnp.float32(2),), (jnp.float32(1),))
    low, high = one_by_one[3:]
    np.testing.assert_allclose(slope, (high - low) / 0.2, rtol=0.02)
