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

from tests.belief.oracle import THIN
from unojax import game
from unojax.belief import Belief, Info, belief_init, belief_update
from unojax.belief.particles import parallel, serial
from unojax.belief.updaters import plain_info
from unojax.device.platform import by_platform, platform, tuned_for
from unojax.observation import observe

_T = TypeVar("_T")
ON_CPU, ON_ACCELERATOR = "stablehlo.cosine", "stablehlo.tanh"


def in_thread(compute: Callable[[], _T]) -> _T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(compute).result()


def here(compute: Callable[[], _T]) -> _T:
    return compute()


ANYWHERE = pytest.mark.parametrize("run", [here, in_thread])


def program() -> Callable[[jax.Array], jax.Array]:
    """A new function each time, so that nothing is traced already."""
    return lambda x: by_platform(jnp.cos, jnp.tanh, x)


@pytest.fixture
def beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose default device is said to be a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def forms_in(function: Callable[..., Any], platforms: tuple[str, ...], *arguments: Any) -> set[str]:
    """Which of the two forms are in a program lowered for some platforms."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=platforms).as_text()
    return {form for form in (ON_CPU, ON_ACCELERATOR) if form in text}


@ANYWHERE
def test_the_form_is_that_of_the_platform_lowered_for(run: Any, beside_a_gpu: None) -> None:
    x = jnp.float32(1)
    assert run(lambda: forms_in(program(), ("cpu",), x)) == {ON_CPU}
    assert run(lambda: forms_in(program(), ("cuda",), x)) == {ON_ACCELERATOR}
    assert run(lambda: forms_in(program(), ("cpu", "cuda"), x)) == {ON_CPU, ON_ACCELERATOR}


@ANYWHERE
def test_a_program_placed_on_the_cpu_has_the_form_for_a_cpu(run: Any, beside_a_gpu: None) -> None:
    cpu = jax.devices("cpu")[0]
    x = jax.device_put(jnp.float32(1), cpu)
    for call in (jax.jit(program()), program(), jax.jit(jax.vmap(program()))):
        # XLA's and NumPy's cosine differ by a rounding.
        np.testing.assert_allclose(run(lambda call=call: call(jnp.broadcast_to(x, 3))), np.cos(1), rtol=1e-6)


@ANYWHERE
def test_a_process_without_accelerators_traces_one_form(run: Any) -> None:
    def never(x: jax.Array) -> jax.Array:
        raise AssertionError("the form for an accelerator is traced")

    np.testing.assert_allclose(run(lambda: by_platform(jnp.cos, never, jnp.float32(1))), np.cos(1), rtol=1e-6)
    assert run(platform) == "cpu"


@ANYWHERE
def test_sizes_follow_the_device_of_new_arrays(run: Any, beside_a_gpu: None) -> None:
    assert run(platform) == "gpu"
    for device in (jax.devices("cpu")[0], "cpu"):
        with jax.default_device(device):
            assert platform() == "cpu"


@ANYWHERE
def test_another_form_can_be_asked_for(run: Any) -> None:
    """In all threads, and also of a function that has been traced already; afterwards everything is as before."""
    x, jitted = jnp.float32(1), jax.jit(program())
    for _ in range(2):
        np.testing.assert_allclose(run(lambda: jitted(x)), np.cos(1), rtol=1e-6)
        with tuned_for("gpu"):
            assert run(platform) == "gpu"
            np.testing.assert_allclose(run(lambda: jitted(x)), np.tanh(1), rtol=1e-6)
            with tuned_for("cpu"):
                assert run(platform) == "cpu"
            assert run(platform) == "gpu"
    assert run(platform) == "cpu"


@ANYWHERE
@pytest.mark.parametrize("is_batch", [False, True])
def test_beliefs_have_the_form_of_their_platform(
    run: Any, is_batch: bool, beside_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With marks in place of the two interpreters, which take long to compile."""

    def marked(mark: Callable[[jax.Array], jax.Array], belief: Belief, *others: Any, options: Any) -> tuple[Belief, Info]:
        info = plain_info()
        leading = belief.log_weights.shape[:-1]
        info = jax.tree.map(lambda x: jnp.broadcast_to(x, (*leading, *jnp.shape(x))), info)
        return belief.__class__(**vars(belief) | {"log_weights": mark(belief.log_weights)}), info

    monkeypatch.setattr(serial, "update_game", partial(marked, jnp.cos))
    monkeypatch.setattr(parallel, "update_games", partial(marked, jnp.tanh))
    seen = observe(game.init(jax.random.key(0), rules=THIN), 0)
    belief = belief_init(seen, jax.random.key(0), num_particles=4, max_slots=12, max_plays=4)
    arguments = belief, seen, jnp.int32(60), seen, jax.random.key(1)

    def forms(platform: str) -> set[str]:
        # A new function, since what is traced is kept.
        def update(*arguments: Any) -> Any:
            return belief_update(*arguments)

        if is_batch:
            batch = jax.tree.map(lambda x: jnp.stack([x, x]), arguments)
            return forms_in(jax.vmap(update), (platform,), *batch)
        return forms_in(update, (platform,), *arguments)

    assert run(lambda: forms("cpu")) == {ON_CPU}
    assert run(lambda: forms("cuda")) == {ON_ACCELERATOR}
