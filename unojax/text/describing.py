"""The `repr` of a position."""

from __future__ import annotations

from dataclasses import fields

import jax
import numpy as np
from jax.core import Tracer

from unojax.device.struct import by_field
from unojax.game import State
from unojax.observation import Observation
from unojax.text.observation import format_observation
from unojax.text.position import format_position


def describe(position: State | Observation) -> str:
    """Return a position as one short line, for any values of its fields."""
    what = type(position).__name__
    try:
        values = [getattr(position, each.name) for each in fields(position) if each.name != "rules"]
        if any(isinstance(value, Tracer) for value in values):
            return f"<{what} under tracing>"
        if not all(isinstance(value, jax.Array | np.ndarray | np.generic | int | float) for value in values):
            # For example shapes, from `jax.eval_shape` or `jax.tree.map(jnp.shape, state)`.
            return by_field(position)
        if shape := np.shape(position.current_player):
            return f"<{what}, batch of shape {shape}>"
        text = format_position(position) if isinstance(position, State) else format_observation(position)
        return f"<{what} {' '.join(text.split())}>"
    # Debuggers show objects in any state.
    except Exception:
        return f"<{what} with unusual fields>"
