"""How states and observations show themselves in a notebook. Never raises: what can't be drawn shows as it always did."""

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
    """The picture of a single position; None for anything else."""
    if _batch_shape(position) != ():
        return None
    try:
        return str(position_svg(position))
    except ValueError:
        return None


def repr_html(position: State | Observation) -> str | None:
    """A line about a batch of positions; None for anything else."""
    shape = _batch_shape(position)
    if not shape:
        return None
    number, size = int(np.prod(shape)), ", ".join(map(str, shape))
    is_state = isinstance(position, State)
    what = type(position).__name__
    over = position.terminated | position.truncated if is_state else position.terminated
    line = f"{what}[{size}]: {number:,} {'games' if is_state else 'observations'}, {int(np.sum(over)):,} of them over."
    take = "jax.tree.map(lambda x: x[i], ...)"
    return f"<p>{escape(line)} One of them, taken with <code>{escape(take)}</code>, shows itself as a picture.</p>"


def _batch_shape(position: State | Observation) -> tuple[int, ...] | None:
    """The axes before those of a single position; None if it doesn't hold concrete arrays of one batch."""
    single = {
        "hands": (2, cards.NUM_CARDS),
        "hand": (cards.NUM_CARDS,),
        "pile": (cards.NUM_CARDS,),
        "deck": (cards.NUM_CARDS,),
        "rewards": (2,),
    }
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
