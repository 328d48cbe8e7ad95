"""Iterations of counterfactual regret minimisation, compiled, in float64 on the CPU.

All sums are over neighbours, in sequence, so results do not depend on the number of iterations per call.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import Array

from unojax.device import control

Variant = Literal["cfr+", "dcfr", "cfr"]
Pair = tuple[Any, Any]
"""Arrays of player 0 and of player 1."""

ALPHA: Final = 1.5
BETA: Final = 0.0
GAMMA: Final = 2.0
"""Exponents of discounted CFR."""

ROUNDING: Final = 1e-14
"""Regrets up to this count as zero. Otherwise the order of summation would choose between actions of equal value."""

_WORK: Final = 10_000_000
"""Sequences and payoffs per compiled call, a tenth of a second, during which Ctrl-C waits."""


class Level(NamedTuple):
    """A player's information states of one depth, numbered from 0, as are their sequences.

    Attributes:
        owner: Information state of each sequence, int32[N].
        parent: Sequence before each information state, int32[M].
        uniform: Uniform behaviour, float64[N].
    """

    owner: Array
    parent: Array
    uniform: Array


class Side(NamedTuple):
    """Input of a player's update, with P payoffs.

    Attributes:
        levels: Levels of the treeplex, from the top down; the level before the first holds the empty sequence.
        row: The player's sequence of each payoff, ascending, int32[P].
        column: The other player's sequence, int32[P].
        payoff: Payoff to this player, times the chance probability, float64[P].
    """

    levels: tuple[Level, ...]
    row: Array
    column: Array
    payoff: Array


def side_of(
    depths: np.ndarray, first: np.ndarray, num_actions: np.ndarray, parent: np.ndarray, payoff: scipy.sparse.csr_array
) -> Side:
    """Return a player's side from the arrays of its `Treeplex`, and its payoffs."""
    cpu = _cpu()

    def put(array: Any) -> Array:
        with jax.enable_x64(True):
            return jax.device_put(array, cpu)

    levels, before = [], np.int32(0)
    for start, stop in pairwise(depths.tolist()):
        number = num_actions[start:stop]
        owner = np.repeat(np.arange(stop - start, dtype=np.int32), number)
        levels.append(Level(put(owner), put(parent[start:stop] - before), put(1.0 / number[owner])))
        before = first[start]
    entries = payoff.tocoo()
    row, column = (put(place.astype(np.int32)) for place in entries.coords)
    return Side(tuple(levels), row, column, put(entries.data))


def _cpu() -> Any:
    """Return the CPU, which adds in a fixed order; None if JAX may not use it."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:
        return None


def advance(
    sides: tuple[Side, Side], variant: Variant, iteration: int, regrets: Pair, sums: Pair, count: int
) -> tuple[Pair, Pair]:
    """Run `count` iterations after the first `iteration`.

    `regrets` and `sums`, the weighted sum of plans, are those of `CFRState`, before and after.
    """
    size = sum(len(side.payoff) + len(of_player) for side, of_player in zip(sides, regrets, strict=True))
    last = iteration + count
    with jax.enable_x64(True):
        while iteration < last:
            some = min(last - iteration, max(1, _WORK // size))
            after = _iterate(sides, variant == "cfr+", variant == "dcfr", iteration, regrets, sums, some)
            regrets, sums = jax.device_get(after)
            iteration += some
    return regrets, sums


class _Player(NamedTuple):
    """State of a player. Lists have an array per level; arrays include the empty sequence."""

    regrets: list[Array]
    sums: Array
    behavior: list[Array]
    plan: Array


@jax.jit
def _iterate(
    sides: tuple[Side, Side], is_plus: Array, is_discounted: Array, done: Array, regrets: Pair, sums: Pair, count: Array
) -> tuple[Pair, Pair]:
    def begin(side: Side, regrets: Array, sums: Array) -> _Player:
        of_levels = _split(side.levels, regrets)[1:]
        behavior = _match(side.levels, of_levels)
        return _Player(of_levels, sums, behavior, _plan(side.levels, behavior))

    def iterate(index: Array, players: list[_Player]) -> list[_Player]:
        t = (done + index + 1).astype(float)
        for player, side in enumerate(sides):
            players[player] = _update(side, players[player], players[1 - player].plan, t, is_plus, is_discounted)
        return players

    players = control.fori_loop(0, count, iterate, list(map(begin, sides, regrets, sums)))
    first, second = (jnp.concatenate([jnp.zeros(1), *player.regrets]) for player in players)
    return (first, second), (players[0].sums, players[1].sums)


def _update(side: Side, player: _Player, other_plan: Array, t: Array, is_plus: Array, is_discounted: Array) -> _Player:
    """Update a player in iteration t."""
    floor, weight = jnp.where(is_plus, 0.0, -jnp.inf), jnp.where(is_plus, t, 1.0)
    factors = t**ALPHA / (t**ALPHA + 1), t**BETA / (t**BETA + 1), (t / (t + 1)) ** GAMMA
    of_positive, of_negative, of_sums = (jnp.where(is_discounted, factor, 1.0) for factor in factors)
    gains = _sum(side.payoff * other_plan[side.column], side.row, len(player.plan))
    regrets = []
    for regret, more in zip(player.regrets, _advantages(side.levels, gains, player.behavior), strict=True):
        cut = jnp.maximum(regret + more, floor)
        regrets.append(cut * jnp.where(cut >= 0, of_positive, of_negative))
    sums = (player.sums + weight * player.plan) * of_sums
    behavior = _match(side.levels, regrets)
    return _Player(regrets, sums, behavior, _plan(side.levels, behavior))


def _sum(array: Array, place: Array, number: int) -> Array:
    return jax.ops.segment_sum(array, place, number, indices_are_sorted=True)


def _split(levels: tuple[Level, ...], array: Array) -> list[Array]:
    """Split arrays of sequences into levels, the empty sequence first."""
    return jnp.split(array, np.cumsum([1, *(len(level.owner) for level in levels[:-1])])) if levels else [array]


def _advantages(levels: tuple[Level, ...], gains: Array, behavior: list[Array]) -> list[Array]:
    """Return each sequence's advantage over its information state, as in `Treeplex.values`."""
    found: list[Array] = []
    values = _split(levels, gains)
    for depth in range(len(levels), 0, -1):
        level = levels[depth - 1]
        of_states = _sum(values[depth] * behavior[depth - 1], level.owner, len(level.parent))
        found.append(values[depth] - of_states[level.owner])
        values[depth - 1] += _sum(of_states, level.parent, len(values[depth - 1]))
    return found[::-1]


def _match(levels: tuple[Level, ...], regrets: list[Array]) -> list[Array]:
    """Return behaviour in proportion to positive regrets, uniform if there are none."""
    behavior = []
    for level, regret in zip(levels, regrets, strict=True):
        positive = jnp.where(regret > ROUNDING, regret, 0.0)
        total = _sum(positive, level.owner, len(level.parent))[level.owner]
        behavior.append(jnp.where(total > 0, positive / total, level.uniform))
    return behavior


def _plan(levels: tuple[Level, ...], behavior: list[Array]) -> Array:
    """Return the plan of a behaviour."""
    plan = [jnp.ones(1)]
    for level, chosen in zip(levels, behavior, strict=True):
        plan.append(chosen * plan[-1][level.parent][level.owner])
    return jnp.concatenate(plan)
