"""Let a belief follow a game: a whole recorded one on the device, or one position after the other on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from unojax.belief import history
from unojax.belief.filters import ExactFilter, Filter, plain_info
from unojax.belief.particles import Info
from unojax.device.kept import KeptProgram
from unojax.observation import Observation

_Tree = TypeVar("_Tree")

Note = Callable[[_Tree, Array, Observation, Any, Info], _Tree]
"""`note(out, t, seen, belief, info)` adds what is to be known of the belief at position t to `out`."""


def follow_game(filter: Filter, key: Array, views: Observation, num_updates: Array, note: Note[_Tree], out: _Tree) -> _Tree:
    """Let a belief follow a recorded game. Pure; batched by `vmap` or, better on a CPU, `lax.map`.

    Args:
        filter, key: static, and none of the host; consumed.
        views: [T + 1] of the observer, the first position and those after each micro-step.
        num_updates: int32[] how many steps to follow.
        note: called at the start, with an `Info` of nothing, and after each update; a position that is not reached is not noted.
        out: any pytree, given to `note`; returned as the last `note` left it.
    """
    num_positions = views.player.shape[0]

    def view(t: Array) -> Observation:
        return jax.tree.map(lambda x: x[t], views)

    def one_update(t: Array, carry: tuple[Any, _Tree]) -> tuple[Any, _Tree]:
        belief, out = carry
        before, after = view(t), view(t + 1)
        action = history.infer_action(before, after)
        belief, info = filter.update(jax.random.fold_in(key, t), belief, before, action, after)
        return belief, note(out, t + 1, after, belief, info)

    first = view(jnp.int32(0))
    start = filter.init(jax.random.fold_in(key, num_positions), first)
    out = note(out, jnp.int32(0), first, start, plain_info(ess=filter.num_particles))
    return lax.fori_loop(0, num_updates, one_update, (start, out))[1]


def follow(filter: Filter, key: Array, observations: Iterable[Observation]) -> Iterator[tuple[Any, Info | None]]:
    """Let a belief follow a game on the host: give it at each position, with the diagnostics of the update that led to it.

    Observations, one before the first and one after each micro-step, are taken as they are asked for. Consumes `key`.

    Raises:
        ValueError: two observations in a row are not one micro-step apart.
    """
    belief, before = None, None
    for index, seen in enumerate(observations):
        here = jax.random.fold_in(key, index)
        if before is None:
            belief, info = begin(filter, here, seen), None
        else:
            belief, info = advance(filter, here, belief, before, seen, place=index)
        before = seen
        yield belief, info


def begin(filter: Filter, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> Any:
    """Begin a belief on the host; one program for each filter.

    `log_types`: float32[K] nats, what is known of the opponent's type, for a filter with a `Family` (see `belief_init`).
    """
    known = () if log_types is None else (log_types,)
    if isinstance(filter, ExactFilter):
        return filter.init(key, observation, *known)
    return _init(key, observation, *known, filter=filter)


def shapes_of(filter: Filter, key: Array, observation: Observation) -> Any:
    """Tell what `begin` returns, each a `jax.ShapeDtypeStruct`, long before it does. Not of an `ExactFilter`."""
    return _init.shapes(key, observation, filter=filter)


def advance(filter: Filter, key: Array, belief: Any, before: Observation, after: Observation, *, place: int) -> tuple[Any, Info]:
    """Condition a belief on the host on the micro-step that leads to `place`; one program for each filter.

    Raises:
        ValueError: the observations are not one micro-step apart, or not those of this belief.
    """
    if isinstance(filter, ExactFilter):
        return filter.update(key, belief, before, _infer_action(before, after), after)
    belief, info = _update(key, belief, before, after, filter=filter)
    if info.inconsistent:
        raise ValueError(
            f"observations {place - 1} and {place} are not one micro-step apart; pass the views of one player after every play "
            f"and every draw of either player"
        )
    return belief, info


@partial(KeptProgram, static="filter")
def _init(key: Array, observation: Observation, *known: ArrayLike, filter: Filter) -> Any:
    return filter.init(key, observation, *known)


@partial(KeptProgram, static="filter")
def _update(key: Array, belief: Any, before: Observation, after: Observation, *, filter: Filter) -> tuple[Any, Info]:
    return filter.update(key, belief, before, history.infer_action(before, after), after)


_infer_action = jax.jit(history.infer_action)
