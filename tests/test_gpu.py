"""The same keys give the same results on a GPU as on the CPU: `pytest -m gpu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from training.loop import on_mesh
from training.updates import AXIS
from training.value.config import ValueConfig
from training.value.selfplay import SelfPlay
from unojax import init, observe, step
from unojax.arena import play_match
from unojax.belief import belief_init, belief_update, infer_action
from unojax.device.platform import tuned_for
from unojax.game import legal_mask
from unojax.simulation import count_games, simulate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.optimized,
    # Nothing to hold the CPU's results against; the forms for a GPU are tested on a CPU too, in the tests of each part.
    pytest.mark.skipif(jax.default_backend() != "gpu", reason="no GPU"),
]

NUM_GAMES = 64


def on_both(compute: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the results on the GPU, and those on the CPU in its own form."""
    here = jax.device_get(compute())
    with jax.default_device(jax.devices("cpu")[0]), tuned_for("cpu"):
        return here, jax.device_get(compute())


@pytest.mark.parametrize("run", [simulate, count_games])
def test_simulations(run: Callable[..., Any]) -> None:
    here, there = on_both(lambda: vars(run(jax.random.key(1), 4000, batch_size=512)))
    for name, values in here.items():
        np.testing.assert_array_equal(values, there[name], err_msg=name)


def test_beliefs() -> None:
    """Equal up to rounding after each step: logarithms differ in their last bits."""

    def follow() -> list[Any]:
        keys = jax.random.split(jax.random.key(0), NUM_GAMES)
        states = jax.jit(jax.vmap(init))(keys)
        seen = jax.vmap(observe, (0, None))(states, 0)
        beliefs = jax.jit(jax.vmap(lambda seen, key: belief_init(seen, key, num_particles=256)))(seen, keys)
        update, result = jax.jit(jax.vmap(belief_update)), []
        for t in range(8):
            keys = jax.random.split(jax.random.key(t), NUM_GAMES)
            actions = jnp.argmax(jax.vmap(legal_mask)(states), -1)
            states = jax.jit(jax.vmap(step))(states, actions, keys)
            before, seen = seen, jax.vmap(observe, (0, None))(states, 0)
            beliefs, info = update(beliefs, before, jax.vmap(infer_action)(before, seen), seen, keys)
            result.append((beliefs.particles.mean(1), info.log_evidence, info.ess))
        return result

    here, there = on_both(follow)
    for t, (ours, theirs) in enumerate(zip(here, there, strict=True)):
        held, log_evidence, ess = (np.abs(a - b) for a, b in zip(ours, theirs, strict=True))
        # A particle whose move is accepted by a hair on one of them alone is another one from there on.
        assert np.median(held) < 1e-6 and held.max() < 0.1, t
        assert np.median(log_evidence) < 1e-3 and np.median(ess) < 1.0, t


@pytest.mark.parametrize("agent", ["value", "mc:rollouts=64,particles=64"])
def test_matches(agent: str) -> None:
    """Nearly all games end alike: rounding can swap two equal plays."""

    def play() -> np.ndarray:
        return play_match(jax.random.key(2), (agent, "linear"), 16).points

    here = play()
    # For all threads, those of the match among them, which a context is not.
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    try:
        there = play()
    finally:
        jax.config.update("jax_default_device", None)
    assert np.mean(here == there) > 0.9


def test_training() -> None:
    """The first iteration agrees nearly: rounding can change a play, and with it a game."""
    config = ValueConfig(games=256, updates=1, epochs=2, iterations=4, play=SelfPlay(particles=16, search=8))

    def iterate(device: jax.Device) -> Any:
        mesh = jax.make_mesh((1,), (AXIS,), devices=[device])
        return jax.device_get(config.make_iteration(mesh)(on_mesh(config.start(), mesh))[1])

    here = iterate(jax.devices()[0])
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu), tuned_for("cpu"):
        there = iterate(cpu)
    assert np.isfinite(here.gradient_norm)
    np.testing.assert_allclose(here.steps, there.steps, rtol=0.02)
    for name, of_gpu in here.sums._asdict().items():
        np.testing.assert_allclose(of_gpu, getattr(there.sums, name), rtol=0.05, err_msg=name)
