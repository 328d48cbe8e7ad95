"""`training.updates`: updates by hand."""

from __future__ import annotations

import jax
import numpy as np
import optax

from training.updates import Learner, learn


def test_the_average_follows_the_parameters_by_its_decay() -> None:
    """Three steps of -1 from 0, averaged with decay 0.9; a second array has no average."""
    start, optimizer = {"w": np.float32(0), "b": np.float32(5)}, optax.sgd(1.0)

    @jax.jit
    def three_updates(learner: Learner) -> tuple[Learner, jax.Array, jax.Array]:
        gradient = {"w": np.float32(1), "b": np.float32(0)}
        return learn(
            learner, optimizer, lambda _, count: (gradient, count + 1), 3, decay=0.9, averaged=lambda params: {"w": params["w"]}
        )

    learner, sums, norm = jax.device_get(three_updates(Learner(start, {"w": np.float32(0)}, optimizer.init(start))))
    assert learner.params == {"w": -3, "b": 5} and sums == 1 + 2 + 3 and norm == 1
    # 0.9 (0.9 (0.1 * -1) + 0.1 * -2) + 0.1 * -3
    np.testing.assert_allclose(learner.average["w"], -0.561, rtol=1e-6)
    assert learner.average.keys() == {"w"}
