"""Run an updater along a game: a recorded game on the device, or position by position on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards
from unojax.belief import history
from unojax.belief.particles import Info
from unojax.belief.summary import BeliefSummary, summarize
from unojax.belief.updaters import Updater
from unojax.device import control
from unojax.device.programs import Program
from unojax.observation import Observation

_Tree = TypeVar("_Tree")
_SHOWN: Final = 1
"""Random stream of a shown hand."""

Note = Callable[[_Tree, Array, Observation, Any, Info], _Tree]
"""`note(out, t, seen, belief, info)` records figures of the belief at position t in `out`."""


def run_filter(updater: Updater, key: Array, views: Observation, num_updates: Array, note: Note[_Tree], out: _Tree) -> _Tree:
    """Run an updater along a recorded game. Pure; batch it by `vmap` or, faster on a CPU, `lax.map`.

    Args:
        updater: Static; not one of the host.
        key: PRNG key; consumed.
        views: [T + 1] views of the observer, at the first position and after each transition.
        num_updates: int32[] number of transitions to track.
        note: Function called at the start, with an empty `Info`, and after each of the `num_updates` updates.
        out: Any pytree, passed to `note`; the last `note` result is returned.
    """
    num_positions = views.player.shape[0]

    def view(t: Array) -> Observation:
        return jax.tree.map(lambda x: x[t], views)

    def one_update(t: Array, carry: tuple[Any, _Tree]) -> tuple[Any, _Tree]:
        belief, out = carry
        before, after = view(t), view(t + 1)
        action = history.infer_action(before, after)
        belief, info = updater.update(jax.random.fold_in(key, t), belief, before, action, after)
        return belief, note(out, t + 1, after, belief, info)

    first = view(jnp.int32(0))
    start = updater.init(jax.random.fold_in(key, num_positions), first)
    out = note(out, jnp.int32(0), first, start, Info(ess=jnp.float32(updater.num_particles)))
    return control.fori_loop(0, num_updates, one_update, (start, out))[1]


def track(
    updater: Updater,
    key: Array,
    observations: Iterable[Observation],
    hands: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> Iterator[tuple[Any, Info | None]]:
    """Track a game on the host: yield the belief at each position, with the diagnostics of its update.

    Args:
        updater: Updater of the belief.
        key: PRNG key; consumed.
        observations: One before the first transition and one after each, consumed lazily.
        hands: bool[108] hands that the opponent showed, by the numbers of their positions, the first one being 0.

    Raises:
        ValueError: If two consecutive observations are not one transition apart, or a hand is impossible.
    """
    if not hasattr(updater, "init"):
        raise ValueError(f"updater must be one of unojax.belief.updaters, such as ParticleFilter(), got {updater!r}")
    if isinstance(observations, Observation):
        raise ValueError(
            "observations must be several, one for each position, got a single Observation or a batch; take those of a batch "
            "apart with jax.tree.map(lambda x: x[i], observations)"
        )
    belief, before = None, None
    for place, seen in enumerate(observations):
        here = jax.random.fold_in(key, place)
        if before is None:
            belief, info = begin(updater, here, seen), None
        else:
            belief, info = advance(updater, here, belief, before, seen, place=place)
        if place in hands:
            belief, told = given_hand(updater, jax.random.fold_in(here, _SHOWN), belief, seen, hands[place])
            info = told if info is None else _together(info, told)
        before = seen
        yield belief, info


def _together(update: Info, shown: Info) -> Info:
    """Return the diagnostics of a transition after which the hand was shown."""
    return shown._replace(
        log_evidence=update.log_evidence + shown.log_evidence,
        depleted=update.depleted | shown.depleted,
        restarted=update.restarted | shown.depleted,
        resampled=update.resampled,
        acceptance=update.acceptance,
    )


def begin(updater: Updater, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> Any:
    """Begin a belief on the host; one program for each updater.

    `log_types`: float32[K] nats, prior over the opponent's type, for an updater with a `Family` (see `belief_init`).
    """
    known = () if log_types is None else (log_types,)
    if updater.on_host:
        return updater.init(key, observation, *known)
    return _init(key, observation, *known, updater=updater)


class Look(NamedTuple):
    """Figures of a belief at a position.

    Attributes:
        belief: Figures of the belief.
        count_probs: float32[54, 5], as from `Updater.count_probs`.
        types: P(type) of the opponent by name, the likeliest first; empty without types.
    """

    belief: BeliefSummary
    count_probs: np.ndarray
    types: Mapping[str, float]


def look(updater: Updater, key: Array, belief: Any, observation: Observation) -> Look:
    """Compute the figures of a belief on the host, NumPy. Consumes `key`."""
    if updater.on_host:
        figures = summarize(updater.hands(key, belief, observation), observation), updater.count_probs(belief, observation)
    else:
        figures = _look(key, belief, observation, updater=updater)
    summary, count_probs = jax.device_get(figures)
    return Look(summary, count_probs, updater.types(belief))


def shapes_of(updater: Updater, key: Array, observation: Observation) -> Any:
    """Return the shapes of `begin`'s results, each a `jax.ShapeDtypeStruct`. Not for an updater of the host."""
    return _init.shapes(key, observation, updater=updater)


def advance(
    updater: Updater, key: Array, belief: Any, before: Observation, after: Observation, *, place: int
) -> tuple[Any, Info]:
    """Condition a belief on the host on the transition that leads to `place`; one program for each updater.

    Raises:
        ValueError: If the observations are not one transition apart, or do not belong to this belief.
    """
    if updater.on_host:
        belief, info = updater.update(key, belief, before, _infer_action(before, after), after)
    else:
        belief, info = _update(key, belief, before, after, updater=updater)
    if info.inconsistent:
        raise ValueError(
            f"observations {place - 1} and {place} are not one transition apart; pass the views of one player after every play "
            f"and every draw of either player"
        )
    return belief, info


def compile_advance(updater: Updater, key: Array, observation: Observation) -> None:
    """Compile the program of `advance` ahead of time. No effect for an updater of the host."""
    if not updater.on_host:
        _update.compile(key, shapes_of(updater, key, observation), observation, observation, updater=updater)


@partial(Program, static="updater", is_light=True)
def _init(key: Array, observation: Observation, *known: ArrayLike, updater: Updater) -> Any:
    return updater.init(key, observation, *known)


@partial(Program, static="updater")
def _update(key: Array, belief: Any, before: Observation, after: Observation, *, updater: Updater) -> tuple[Any, Info]:
    return updater.update(key, belief, before, history.infer_action(before, after), after)


def given_hand(updater: Updater, key: Array, belief: Any, observation: Observation, hand: np.ndarray) -> tuple[Any, Info]:
    """Condition a belief on the host on the opponent's hand, bool[108], seen at the latest position.

    One program for each updater.

    Raises:
        ValueError: If the hand is impossible at the position.
    """
    if updater.on_host:
        return updater.given_hand(key, belief, observation, jnp.asarray(hand))
    belief, info = _given_hand(key, belief, observation, hand, updater=updater)
    if info.inconsistent:
        raise ValueError("the opponent can't hold this hand: its number of cards differs, or a card is in sight elsewhere")
    return belief, info


def compile_given_hand(updater: Updater, key: Array, observation: Observation) -> None:
    """Compile the program of `given_hand` ahead of time. No effect for an updater of the host."""
    if not updater.on_host:
        belief = shapes_of(updater, key, observation)
        _given_hand.compile(key, belief, observation, np.zeros(cards.NUM_CARDS, bool), updater=updater)


@partial(Program, static="updater")
def _given_hand(key: Array, belief: Any, observation: Observation, hand: Array, *, updater: Updater) -> tuple[Any, Info]:
    return updater.given_hand(key, belief, observation, hand)


@partial(Program, static="updater", is_light=True)
def _look(key: Array, belief: Any, observation: Observation, *, updater: Updater) -> tuple[BeliefSummary, Array]:
    return summarize(updater.hands(key, belief, observation), observation), jnp.asarray(updater.count_probs(belief, observation))


_infer_action = jax.jit(history.infer_action)
