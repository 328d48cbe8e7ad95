"""The form of a program follows the platform that it is lowered for, in every thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus import RULES
from unojax import game
from unojax.belief import Belief, Info, belief_init, belief_update
from unojax.belief.particles import parallel, serial
from unojax.device.lanes import walk
from unojax.device.platform import by_platform, platform, tuned_for
from unojax.observation import observe

_T = TypeVar("_T")
ON_CPU, ON_ACCELERATOR = "stablehlo.cosine", "stablehlo.tanh"
X = np.float32(1)


def in_thread(compute: Callable[[], _T]) -> _T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(compute).result()


def here(compute: Callable[[], _T]) -> _T:
    return compute()


ANYWHERE = pytest.mark.parametrize("run", [here, in_thread])


def program() -> Callable[[jax.Array], jax.Array]:
    """Return a new, untraced function."""
    return lambda x: by_platform(jnp.cos, jnp.tanh, x)


@pytest.fixture
def beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the default device is a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def forms_in(function: Callable[..., Any], platforms: tuple[str, ...], *arguments: Any) -> set[str]:
    """Return the forms in a program lowered for some platforms."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=platforms).as_text()
    return {form for form in (ON_CPU, ON_ACCELERATOR) if form in text}


@ANYWHERE
def test_the_form_is_that_of_the_platform_lowered_for(run: Any, beside_a_gpu: None) -> None:
    for platforms, forms in ((("cpu",), {ON_CPU}), (("cuda",), {ON_ACCELERATOR}), (("cpu", "cuda"), {ON_CPU, ON_ACCELERATOR})):
        assert run(lambda platforms=platforms: forms_in(program(), platforms, X)) == forms
    x = jax.device_put(np.ones(3, np.float32), jax.devices("cpu")[0])
    for call in (jax.jit(program()), program(), jax.jit(jax.vmap(program()))):
        # XLA's and NumPy's cosine differ by a rounding.
        np.testing.assert_allclose(run(lambda call=call: call(x)), np.cos(np.ones(3)), rtol=1e-6)


@ANYWHERE
def test_a_process_without_accelerators_traces_one_form(run: Any) -> None:
    def never(x: jax.Array) -> jax.Array:
        raise AssertionError("the form for an accelerator is traced")

    np.testing.assert_allclose(run(lambda: by_platform(jnp.cos, never, X)), np.cos(1), rtol=1e-6)
    assert run(platform) == "cpu"


@ANYWHERE
def test_sizes_follow_the_device_of_new_arrays(run: Any, beside_a_gpu: None) -> None:
    assert run(platform) == "gpu"
    for device in (jax.devices("cpu")[0], "cpu"):
        with jax.default_device(device):
            assert platform() == "cpu"


@ANYWHERE
def test_another_form_can_be_chosen(run: Any) -> None:
    """In all threads, and for a traced function; the old form returns afterwards."""
    jitted = jax.jit(program())
    for _ in range(2):
        np.testing.assert_allclose(run(lambda: jitted(X)), np.cos(1), rtol=1e-6)
        with tuned_for("gpu"):
            assert run(platform) == "gpu"
            np.testing.assert_allclose(run(lambda: jitted(X)), np.tanh(1), rtol=1e-6)
            with tuned_for("cpu"):
                assert run(platform) == "cpu"
            assert run(platform) == "gpu"
    assert run(platform) == "cpu"


@ANYWHERE
def test_beliefs_have_the_form_of_their_platform(run: Any, beside_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stubs for the two interpreters, alone and in a batch."""

    def marked(mark: Callable[[jax.Array], jax.Array], belief: Belief, *others: Any, options: Any) -> tuple[Belief, Info]:
        leading = belief.log_weights.shape[:-1]
        info = jax.tree.map(lambda x: jnp.broadcast_to(x, (*leading, *jnp.shape(x))), Info())
        return belief.__class__(**vars(belief) | {"log_weights": mark(belief.log_weights)}), info

    monkeypatch.setattr(serial, "update_game", partial(marked, jnp.cos))
    monkeypatch.setattr(parallel, "update_games", partial(marked, jnp.tanh))

    def arguments(key: jax.Array) -> tuple[Any, ...]:
        seen = observe(game.init(key, rules=RULES["few cards"]), 0)
        return belief_init(seen, key, num_particles=4, max_slots=26, max_plays=4), seen, jnp.int32(60), seen, key

    one = jax.eval_shape(arguments, jax.random.key(0))
    many = jax.eval_shape(jax.vmap(arguments), jax.random.split(jax.random.key(0)))

    def forms(platform: str, given: tuple[Any, ...], mapped: Callable[..., Any]) -> set[str]:
        # A new function, because a trace is kept.
        return forms_in(mapped(partial(belief_update)), (platform,), *given)

    for given, mapped in ((one, lambda update: update), (many, jax.vmap)):
        for platform_, form in (("cpu", ON_CPU), ("cuda", ON_ACCELERATOR)):
            assert run(lambda p=platform_, g=given, m=mapped: forms(p, g, m)) == {form}


def decide(index: jax.Array, lanes: jax.Array, move: jax.Array) -> jax.Array:
    return 3 * lanes + 7 * move + index


def carry_out(lanes: jax.Array, move: jax.Array) -> jax.Array:
    return 5 * lanes + move


@pytest.mark.parametrize("form", ["cpu", "gpu"])
def test_a_walk_takes_every_node_once_in_order(form: Any) -> None:
    first = np.arange(4, dtype=np.int32)
    lanes, move = first, first[::-1]
    with tuned_for(form):
        for num_nodes in range(1, 17):
            if num_nodes > 1:
                lanes = carry_out(lanes, move)
                move = decide(np.int32(num_nodes - 1), lanes, move)
            if num_nodes in (1, 2, 3, 5, 6, 8, 9, 12, 16):
                compiled = jax.jit(lambda lanes, move, n=num_nodes: walk(lanes, move, decide, carry_out, num_nodes=n))
                np.testing.assert_array_equal(compiled(first, first[::-1]), carry_out(lanes, move), err_msg=str(num_nodes))


def test_no_node_is_left_over_beside_the_loop_of_a_gpu() -> None:
    """Length and nodes of loops; one or two kernels need none."""
    expected = {1: [], 4: [], 5: [], 6: [], 9: [(8, 2)], 12: [(11, 1)], 16: [(15, 3)]}
    found = {}
    with tuned_for("gpu"):
        for num_nodes in expected:
            made = jax.make_jaxpr(lambda x, n=num_nodes: walk(x, x, decide, carry_out, num_nodes=n))(np.int32(1))
            scans = [e.params for e in made.jaxpr.eqns if e.primitive.name == "scan"]
            found[num_nodes] = [(scan["length"], scan["unroll"]) for scan in scans]
    assert found == expected
