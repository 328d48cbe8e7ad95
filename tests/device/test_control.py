"""Programs inside `jax.shard_map`: consistent types, and the results of one device."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import unojax
from tests.helpers import run_on_devices
from unojax.device import control
from unojax.games.record import play_game
from unojax.rules import Rules
from unojax.specs import parse_agent

PLAIN = Mesh(np.array(jax.devices()[:1]), ("d",))
LOOPS = ("fori", "while", "scan", "chain")


def shared(function: Any, mesh: Mesh = PLAIN, **options: Any) -> Any:
    """Map a function of one element over a batch sharded across a mesh."""
    return jax.jit(jax.shard_map(jax.vmap(function), mesh=mesh, in_specs=P("d"), out_specs=P("d"), **options))


def add_up(loop: str, x: Array) -> Array:
    """Add 0 + x + 2x + 3x, from a constant."""
    zero = jnp.float32(0)
    if loop == "fori":
        return control.fori_loop(0, 4, lambda i, total: total + i * x, zero)
    if loop == "while":
        turns = control.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] + c[0] * x), (jnp.int32(0), zero))
        return turns[1]
    if loop == "scan":
        return control.scan(lambda total, i: (total + i * x, ()), zero, jnp.arange(4))[0]
    # The second value differs between devices only after the first turn has made the first one differ.
    return control.fori_loop(0, 5, lambda i, c: (i * x, c[1] + c[0]), (zero, zero))[1]


def add_up_by_all(x: Array) -> list[Array]:
    return [add_up(loop, x) for loop in LOOPS]


def test_loops_may_begin_with_a_constant():
    """Within a mesh, without one, and in a mesh without type checks, as in training."""
    x = np.array([1.0, 2.0], np.float32)
    for mapped in (shared(add_up_by_all), jax.jit(jax.vmap(add_up_by_all)), shared(add_up_by_all, check_vma=False)):
        np.testing.assert_array_equal(mapped(x), [[6.0, 12.0]] * len(LOOPS))


def test_without_checks_of_types_bodies_are_traced_as_often_as_outside():
    """Each of the nested loops would otherwise be traced twice, and the innermost one eight times."""
    traced = []

    def nested(depth: int, x: Array) -> Array:
        if depth == 0:
            traced.append(x)
            return x + 1
        return control.fori_loop(0, 2, lambda _, y: nested(depth - 1, y), x)

    def count(mapped: Any) -> int:
        traced.clear()
        mapped.trace(np.zeros(2, np.float32))
        return len(traced)

    three_deep = partial(nested, 3)
    outside = count(jax.jit(jax.vmap(three_deep)))
    assert count(shared(three_deep, check_vma=False)) == outside < count(shared(three_deep))


def test_one_branch_may_give_a_constant():
    def choose(x: Array) -> tuple[Array, Array]:
        zeros, is_positive = jnp.zeros(1), x[0] > 0
        by_index = control.switch(is_positive.astype(int) * 2, [lambda: zeros, lambda: zeros, lambda: 6 * x])
        return control.cond(is_positive, lambda: 6 * x, lambda: zeros), by_index

    chosen = jax.jit(jax.shard_map(choose, mesh=PLAIN, in_specs=P("d"), out_specs=P("d")))
    for number in (2.0, -2.0):
        np.testing.assert_array_equal(chosen(np.float32([number])), [[max(6 * number, 0.0)]] * 2)


def test_deals_inside_shard_map():
    keys = jax.random.split(jax.random.key(0), 2)
    expected = jax.jit(jax.vmap(unojax.init))(keys).hands
    for kind in (None, AxisType.Auto, AxisType.Explicit):
        mesh = PLAIN if kind is None else jax.make_mesh((1,), ("d",), axis_types=(kind,), devices=jax.devices()[:1])
        deals = shared(unojax.init, mesh)(jax.device_put(keys, NamedSharding(mesh, P("d"))))
        np.testing.assert_array_equal(deals.hands, expected)


def play_and_believe(key: Array) -> Any:
    """Deal, play, and condition a belief."""
    state = unojax.init(key)
    before = unojax.observe(state, 0)
    belief = unojax.belief_init(before, key, num_particles=4)
    action = unojax.legal_mask(state).argmax()
    after = unojax.observe(unojax.step(state, action, key), 0)
    return unojax.belief_update(belief, before, action, after, key)


def decide(spec: str, key: Array) -> Array:
    agent = parse_agent(spec)
    state = unojax.init(key)
    seen = unojax.observe(state, 0)
    return agent.act(key, agent.init(key, seen), seen, unojax.legal_mask(state))


def play_in_own_loop(key: Array) -> Any:
    """Loop with `jax.lax` over steps with auto-reset, from the deal and from a guess of the hidden hand."""

    def one_step(state: unojax.State, key: Array) -> tuple[unojax.State, Array]:
        after = unojax.step(state, unojax.legal_mask(state).argmax(), key)
        return jax.lax.cond(after.is_over, lambda: unojax.init(key), lambda: after), after.rewards

    state, rewards = jax.lax.scan(one_step, unojax.init(key), jax.random.split(key, 3))
    guess = unojax.determinize(key, unojax.observe(state, 0))
    return jax.lax.while_loop(lambda s: ~s.is_over, lambda s: one_step(s, key)[0], guess), rewards


def believe_in_own_loop(key: Array) -> Any:
    """Loop with `jax.lax` over updates of a belief; a new belief begins after each game."""

    def begin(state: unojax.State, key: Array) -> unojax.Belief:
        return unojax.belief_init(unojax.observe(state, 0), key, num_particles=4)

    def one_step(carry: tuple[unojax.State, unojax.Belief], key: Array) -> tuple[tuple[unojax.State, unojax.Belief], Array]:
        state, belief = carry
        action = unojax.legal_mask(state).argmax()
        after = unojax.step(state, action, key)
        belief, info = unojax.belief_update(belief, unojax.observe(state, 0), action, unojax.observe(after, 0), key)
        return jax.lax.cond(after.is_over, lambda: (state, begin(state, key)), lambda: (after, belief)), info.ess

    state = unojax.init(key)
    return jax.lax.scan(one_step, (state, begin(state, key)), jax.random.split(key, 3))


USERS_PROGRAMS = {
    "own loop": play_in_own_loop,
    "own loop of beliefs": believe_in_own_loop,
    "official deal": partial(unojax.init, rules=Rules.official()),
    "game": partial(play_game, num_steps=2),
    "belief": play_and_believe,
    "search": partial(decide, "mc:belief=unseen,particles=4,rollouts=8"),
    "value": partial(decide, "value:particles=4"),
}


@pytest.mark.parametrize("program", USERS_PROGRAMS)
def test_programs_have_types_inside_shard_map(program: str):
    """JAX compares the types while tracing."""
    shared(USERS_PROGRAMS[program]).trace(jax.random.split(jax.random.key(0), 2))


TWO_DEVICES = """
import jax, json, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import unojax
keys = jax.random.split(jax.random.key(0), 4)
mesh = jax.make_mesh((2,), ("d",))
deals = jax.jit(jax.shard_map(jax.vmap(unojax.init), mesh=mesh, in_specs=P("d"), out_specs=P("d")))(
    jax.device_put(keys, NamedSharding(mesh, P("d")))
)
print(json.dumps([len(deals.hands.devices()), np.array_equal(deals.hands, jax.jit(jax.vmap(unojax.init))(keys).hands)]))
"""


@pytest.mark.slow
def test_two_devices_deal_what_one_deals():
    assert run_on_devices(TWO_DEVICES, 2) == [2, True]
