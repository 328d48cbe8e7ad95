"""Pictures of states and observations in a notebook, or their `repr` if that fails."""

from __future__ import annotations

from html import escape

import jax
import numpy as np
from jax.core import Tracer

from unojax import cards
from unojax.game import State
from unojax.observation import Observation
from unojax.viz.position import position_svg


def repr_svg(position: State | Observation) -> str | None:
    """Draw a single position; None for any other value."""
    if _batch_shape(position) != ():
        return None
    try:
        return str(position_svg(position))
    except ValueError:
        return None


def repr_html(position: State | Observation) -> str | None:
    """Return a line about a batch of positions; None for any other value."""
    shape = _batch_shape(position)
    if not shape:
        return None
    number, what = int(np.prod(shape)), type(position).__name__
    over, of = (position.is_over, "games") if isinstance(position, State) else (position.terminated, "observations")
    line = f"{what}[{', '.join(map(str, shape))}]: {number:,} {of}, {int(np.sum(over)):,} of them over."
    take = "jax.tree.map(lambda x: x[i], ...)"
    return f"<p>{escape(line)} One of them, taken with <code>{escape(take)}</code>, shows itself as a picture.</p>"


def _batch_shape(position: State | Observation) -> tuple[int, ...] | None:
    """Return the leading axes of a concrete batch of positions, else None."""
    single = {"hands": (2, cards.NUM_CARDS), "rewards": (2,)} | dict.fromkeys(("hand", "pile", "deck"), (cards.NUM_CARDS,))
    shapes = set()
    for name, leaf in vars(position).items():
        if name == "rules":
            continue
        if isinstance(leaf, Tracer) or not isinstance(leaf, jax.Array | np.ndarray | np.generic):
            return None
        own = single.get(name, ())
        if leaf.shape[leaf.ndim - len(own) :] != own:
            return None
        shapes.add(leaf.shape[: leaf.ndim - len(own)])
    return shapes.pop() if len(shapes) == 1 else None
