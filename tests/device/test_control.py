"""Programs inside `jax.shard_map`: each loop and branch has one type, and devices give what one device gives."""

from __future__ import annotations

import subprocess
import sys
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
from unojax.device import control
from unojax.games.record import play_game
from unojax.rules import Rules
from unojax.specs import parse_agent

MESHES = {
    "plain": Mesh(np.array(jax.devices()[:1]), ("d",)),
    "auto": jax.make_mesh((1,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1]),
    "explicit": jax.make_mesh((1,), ("d",), axis_types=(AxisType.Explicit,), devices=jax.devices()[:1]),
}
KEYS = jax.random.split(jax.random.key(0), 2)


def shared(function: Any, mesh: Mesh = MESHES["plain"]) -> Any:
    """Make a function of one element one of a batch whose rows the devices of a mesh share."""
    return jax.jit(jax.shard_map(jax.vmap(function), mesh=mesh, in_specs=P("d"), out_specs=P("d")))


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


@pytest.mark.parametrize("loop", ["fori", "while", "scan", "chain"])
def test_loops_may_begin_with_a_constant(loop: str):
    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(shared(partial(add_up, loop))(x), [6.0, 12.0])
    np.testing.assert_array_equal(jax.vmap(partial(add_up, loop))(x), [6.0, 12.0])


@pytest.mark.parametrize("loop", ["fori", "while", "scan", "chain"])
def test_loops_where_the_mesh_is_not_told_what_differs(loop: str):
    """Training maps its iterations so."""
    mapped = jax.shard_map(
        jax.vmap(partial(add_up, loop)), mesh=MESHES["plain"], in_specs=P("d"), out_specs=P("d"), check_vma=False
    )
    np.testing.assert_array_equal(jax.jit(mapped)(jnp.array([1.0, 2.0])), [6.0, 12.0])


@pytest.mark.parametrize("number", [2.0, -2.0])
def test_one_branch_may_give_a_constant(number: float):
    def choose(x: Array) -> tuple[Array, Array]:
        zeros = jnp.zeros(1)
        is_positive = x[0] > 0
        by_index = control.switch(is_positive.astype(int) * 2, [lambda: zeros, lambda: zeros, lambda: 6 * x])
        return control.cond(is_positive, lambda: 6 * x, lambda: zeros), by_index

    chosen = jax.jit(jax.shard_map(choose, mesh=MESHES["plain"], in_specs=P("d"), out_specs=P("d")))(jnp.array([number]))
    np.testing.assert_array_equal(chosen, [[max(6 * number, 0.0)]] * 2)


@pytest.mark.parametrize("mesh", MESHES)
def test_deals_inside_shard_map(mesh: str):
    keys = jax.device_put(KEYS, NamedSharding(MESHES[mesh], P("d")))
    np.testing.assert_array_equal(shared(unojax.init, MESHES[mesh])(keys).hands, jax.vmap(unojax.init)(KEYS).hands)


def play_and_believe(key: Array) -> Any:
    """Deal, play, and condition a belief: a whole program of a user's."""
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


PROGRAMS = {
    "official deal": partial(unojax.init, rules=Rules.official()),
    "game": partial(play_game, num_steps=2),
    "belief": play_and_believe,
    "search": partial(decide, "mc:belief=unseen,particles=4,rollouts=8"),
    "value": partial(decide, "value:particles=4"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_have_types_inside_shard_map(program: str):
    """Tracing is enough: there JAX compares the types."""
    shared(PROGRAMS[program]).lower(KEYS)


TWO_DEVICES = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
jax.config.update("jax_num_cpu_devices", 2)
import unojax
keys = jax.random.split(jax.random.key(0), 4)
mesh = jax.make_mesh((2,), ("d",))
deals = jax.jit(jax.shard_map(jax.vmap(unojax.init), mesh=mesh, in_specs=P("d"), out_specs=P("d")))(
    jax.device_put(keys, NamedSharding(mesh, P("d")))
)
assert len(deals.hands.devices()) == 2
assert np.array_equal(deals.hands, jax.vmap(unojax.init)(keys).hands)
"""


def test_two_devices_deal_what_one_deals():
    subprocess.run([sys.executable, "-c", TWO_DEVICES], check=True)
