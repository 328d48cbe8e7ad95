"""Strategies of agents with memory, which are run through all their observations.

An agent sees only observations, so one history represents an information state, and a shared past is run once. Randomness is
frozen: each information state has its own key. With one key an agent is thus a pure strategy with an exact exploitability. The
mean over K keys converges to an agent with fresh samples as K grows.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards, game
from unojax.agents import RESIGN, Agent, PolicyAgent, act, check_sees_no_hidden_hand, update
from unojax.belief.hands import Hands
from unojax.belief.updaters import GivenHands
from unojax.decks import is_int
from unojax.device.static import Argument
from unojax.observation import Observation, observe
from unojax.policies import Policy
from unojax.rules import Rules
from unojax.solve.seen import HiddenHands, Seen, look_back
from unojax.solve.strategies import Strategies, colors_shown, of_policy, states_at
from unojax.solve.treeplex import Tree, Treeplex
from unojax.specs import as_agent

_CHUNKS: Final = (32, 512)
"""Information states at a time, in small and large games; their memories are stored for each level."""


class PlayError(ValueError):
    """An agent resigned, or chose an illegal action."""


def of_agent(
    tree: Tree,
    agent: str | Policy | Agent,
    *,
    key: Array | None = None,
    num_keys: int = 1,
    against: Strategies | None = None,
) -> Strategies:
    """Return an agent's strategy in either seat.

    The agent must depend on its memory only: a program (`process:`) receives information states in any order.

    Args:
        tree: Tree of the game.
        agent: An agent, its spec, or a policy. A policy that exposes its probabilities is evaluated by them.
        key: Source of all randomness. None: `jax.random.key(0)`.
        num_keys: Number of keys whose choices are averaged.
        against: Opponent strategy against which the agent receives the exact probability of each hidden hand (`seen.look_back`),
            instead of its own belief. Requires an agent with an `updater`.

    Raises:
        ValueError: If an argument is out of range, or the agent is invalid or sees the hidden hand.
        PlayError: If the agent resigned, or chose an illegal action.
    """
    if not (is_int(num_keys) and num_keys >= 1):
        raise ValueError(f"num_keys must be an integer of at least 1, got {num_keys!r}")
    agent = as_agent(agent, rules=tree.rules)
    if isinstance(agent, PolicyAgent) and hasattr(agent.policy, "action_probs") and against is None:
        return of_policy(tree, agent.policy)
    if against is not None:
        if not (hasattr(agent, "updater") and is_dataclass(agent)):
            raise ValueError(f"{agent.name} has no belief that could be replaced: against is for agents with an updater")
        agent = replace(agent, updater=GivenHands())  # pyright: ignore[reportArgumentType]
    else:
        check_sees_no_hidden_hand(agent)
    key = jax.random.key(0, impl="threefry2x32") if key is None else key
    pasts = look_back(tree, against)
    keys = [jax.random.fold_in(key, index) for index in range(num_keys)]
    first, second = (_Led(tree, player, agent, *pasts[player]) for player in (0, 1))
    return first.mean(keys), second.mean(keys)


class _Run(NamedTuple):
    """Information states of a level that wait for the agent, and where their memories are."""

    states: np.ndarray
    memory: Any = None
    place: np.ndarray = np.zeros(0, int)


def _number(runs: list[_Run]) -> int:
    return sum(len(run.states) for run in runs)


def _split(runs: list[_Run], size: int) -> tuple[list[_Run], list[_Run]]:
    """Split off at most `size` information states."""
    taken: list[_Run] = []
    for number, run in enumerate(runs):
        if len(run.states) > size:
            first, rest = (_Run(run.states[part], run.memory, run.place[part]) for part in (slice(size), slice(size, None)))
            return [*taken, *([first] if size else [])], [rest, *runs[number + 1 :]]
        taken.append(run)
        size -= len(run.states)
    return taken, []


class _Led:
    """One player's agent on its way through all observations, in chunks of C."""

    def __init__(self, tree: Tree, player: int, agent: Agent, levels: list[Seen], hands: HiddenHands | None):
        self.tree, self.player, self.levels, self.hands = tree, player, levels, hands
        # One program for both seats.
        self.agent, self.seat, self.rules = Argument(agent), np.int32(player), tree.rules
        self.name = agent.name
        # The larger one if most levels fill it.
        self.chunk = _CHUNKS[int(np.median([len(level.rows) for level in levels] or [0]) >= _CHUNKS[1])]
        self.most_hands = 0 if hands is None else max(1, int(np.diff(hands.start).max(initial=1)))

    def mean(self, keys: list[Array]) -> np.ndarray:
        """Return the agent's strategy averaged over keys."""
        total = np.zeros(self.tree.players[self.player].num_sequences)
        for key in keys:
            total += self.behavior(key)
        return total / len(keys)

    def behavior(self, key: Array) -> np.ndarray:
        """Return the agent's choices as behaviour, 1 for each choice."""
        self.key = jax.random.fold_in(key, self.player)
        treeplex = self.tree.players[self.player]
        self.chosen = np.zeros(treeplex.num_choices, np.int64)
        # The deepest full chunk first, so that few memories wait; then the partial chunks, from the top. There are none if the
        # player never has a choice.
        first = [_Run(np.arange(len(self.levels[0].rows)))] if len(self.levels[0].rows) else []
        waiting = [first, *([] for _ in self.levels[1:])]
        # Only information states with a choice require an action.
        choosing: list[list[_Run]] = [[] for _ in self.levels]
        while any(waiting):
            sizes = np.array([_number(runs) for runs in waiting])
            full = np.flatnonzero(sizes >= self.chunk)
            step = int(full[-1] if len(full) else np.flatnonzero(sizes)[0])
            runs, waiting[step] = _split(waiting[step], self.chunk)
            memory, index = self._lead(step, runs)
            place = np.flatnonzero(self.levels[step].infoset[index] >= 0)
            choosing[step] = _join([*choosing[step], _Run(index[place], memory, place)], self.chunk)
            if _number(choosing[step]) >= self.chunk:
                choosing[step] = self._ask(step, choosing[step])
            if step + 1 < len(self.levels):
                waiting[step + 1] = _join([*waiting[step + 1], self._children(step, index, memory)], self.chunk)
        for step, runs in enumerate(choosing):
            if runs:
                self._ask(step, runs)
        behavior = np.zeros(treeplex.num_sequences)
        behavior[0] = 1.0
        behavior[_sequences(self.tree, treeplex, self.chosen, self.name)] = 1.0
        return behavior

    def _lead(self, step: int, runs: list[_Run]) -> tuple[Any, np.ndarray]:
        """Return the agent's memories at a chunk of a level, and their places, int64[N]."""
        level, (index, keys, here) = self.levels[step], self._chunk_of(step, runs)
        if step == 0:
            return _begin(self.agent, keys, self.seat, here, rules=self.rules), index[: _number(runs)]
        last, parent = self.levels[step - 1], level.parent[index]
        there = (last.rows[parent], last.last_action[parent], np.int32(step - 1))
        memory = _follow(self.agent, keys, self.seat, _gather(runs, self.chunk), there, here, rules=self.rules)
        return memory, index[: _number(runs)]

    def _ask(self, step: int, runs: list[_Run]) -> list[_Run]:
        """Request actions at a chunk of states with a choice; return the rest."""
        runs, left = _split(runs, self.chunk)
        index, keys, here = self._chunk_of(step, runs)
        infoset, number = self.levels[step].infoset[index], _number(runs)
        hands = None if self.hands is None else _hands_at(self.hands, infoset, self.most_hands)
        counts = np.arange(self.chunk) < number
        action = _decide(self.agent, keys, self.seat, _gather(runs, self.chunk), here, counts, hands, rules=self.rules)
        self.chosen[infoset[:number]] = np.asarray(action)[:number]
        return left

    def _chunk_of(self, step: int, runs: list[_Run]) -> tuple[np.ndarray, Array, Any]:
        """Pad a chunk with its last information state: numbers, int64[C], keys and positions."""
        level, index = self.levels[step], np.concatenate([run.states for run in runs])
        index = np.concatenate([index, np.repeat(index[-1:], self.chunk - len(index))])
        return index, _keys(self.key, np.int32(step), index), (level.rows[index], level.last_action[index], np.int32(step))

    def _children(self, step: int, index: np.ndarray, memory: Any) -> _Run:
        """Return the successors of some information states, with their memories."""
        parent = self.levels[step + 1].parent
        first, end = np.searchsorted(parent, [index, index + 1])
        place = np.repeat(np.arange(len(index)), end - first)
        children = np.concatenate([np.arange(a, b) for a, b in zip(first, end, strict=True)])
        return _Run(children, memory, place)


@jax.jit
def _keys(key: Array, step: Array, index: Array) -> Array:
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, step), index)


def _hands_at(hands: HiddenHands, infoset: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden hands, uint32[C, N, 4], and their log weights, float32[C, N]."""
    place = hands.start[infoset][:, None] + np.arange(most)
    is_one = place < hands.start[infoset + 1][:, None]
    place = np.minimum(place, len(hands.prob) - 1)
    with np.errstate(divide="ignore"):
        return hands.packed[place], np.where(is_one, np.log(hands.prob[place]), -np.inf).astype(np.float32)


def _sequences(tree: Tree, treeplex: Treeplex, chosen: np.ndarray, name: str) -> np.ndarray:
    """Return the sequence of each chosen action, int64[I]."""
    if len(none := np.flatnonzero((chosen < 0) | (chosen >= cards.NUM_ACTIONS))):
        what = "gave the game up" if chosen[none[0]] == RESIGN else f"chose {chosen[none[0]]}, which is no action,"
        raise PlayError(f"{name} {what} at information state {none[0]}")
    is_wild = (chosen < cards.DRAW) & (chosen % cards.NUM_RANKS >= cards.WILD)
    shown = colors_shown(tree)
    chosen = np.where(
        is_wild, shown[np.minimum(chosen // cards.NUM_RANKS, 3)] * cards.NUM_RANKS + chosen % cards.NUM_RANKS, chosen
    )
    keys = treeplex.infoset_of.astype(int) * cards.NUM_ACTIONS + treeplex.actions[1:]
    order = np.argsort(keys)
    wanted = np.arange(len(chosen)) * cards.NUM_ACTIONS + chosen
    found = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)] if len(keys) else wanted
    illegal = np.flatnonzero(keys[found] != wanted)
    if len(illegal):
        raise PlayError(f"{name} chose action {chosen[illegal[0]]}, which is not legal, at information state {illegal[0]}")
    return found + 1


_Position = tuple[Array, Array, Array]
"""Tables, last public actions, and the number of steps."""


def _watch(positions: _Position, player: Array, rules: Rules) -> tuple[Observation, Array]:
    """Return a batch of observations and legal actions."""
    rows, last_action, steps = positions
    states = states_at(rows, last_action, jnp.broadcast_to(steps, last_action.shape), rules=rules)
    return jax.vmap(observe, (0, None))(states, player), jax.vmap(game.legal_mask)(states)


def _join(runs: list[_Run], size: int) -> list[_Run]:
    """Merge partial chunks into one run, with the required memories only."""
    runs, number = [run for run in runs if len(run.states)], _number(runs)
    if len(runs) < 2 or number > size:
        return runs
    return [_Run(np.concatenate([run.states for run in runs]), _gather(runs, size), np.arange(number))]


def _gather(runs: list[_Run], size: int) -> Any:
    """Stack the memories before the information states of a chunk."""
    gathered, start = runs[0].memory, 0
    for run in runs:
        place = np.full(size, -1)
        place[start : start + len(run.states)] = run.place
        gathered = _put(gathered, run.memory, place)
        start += len(run.states)
    return gathered


@jax.jit
def _put(gathered: Any, memory: Any, place: Array) -> Any:
    def one(leaf: Array, of_run: Array) -> Array:
        return jnp.where((place >= 0).reshape(-1, *[1] * (leaf.ndim - 1)), of_run[jnp.maximum(place, 0)], leaf)

    return jax.tree.map(one, gathered, memory)


@partial(jax.jit, static_argnames="rules")
def _begin(agent: Argument, keys: Array, player: Array, here: _Position, *, rules: Rules) -> Any:
    return jax.vmap(agent.value.init)(keys, _watch(here, player, rules)[0])


@partial(jax.jit, static_argnames="rules")
def _follow(agent: Argument, keys: Array, player: Array, memory: Any, there: _Position, here: _Position, *, rules: Rules) -> Any:
    seen = [_watch(positions, player, rules)[0] for positions in (there, here)]
    return jax.vmap(partial(update, agent.value))(keys, memory, seen[0], here[1].astype(jnp.int32), seen[1])


@partial(jax.jit, static_argnames="rules")
def _decide(
    agent: Argument,
    keys: Array,
    player: Array,
    memory: Any,
    here: _Position,
    counts: Array,
    hands: tuple[Array, Array] | None,
    *,
    rules: Rules,
) -> Array:
    """Return actions, int32[C]. Entries that do not count get a position without a choice."""
    seen, legal = _watch(here, player, rules)
    if hands is not None:
        packed, log_weights = hands
        told = Hands((packed[..., 0], packed[..., 1], packed[..., 2], packed[..., 3]), log_weights)
        memory = jax.tree.map(lambda part: told if isinstance(part, Hands) else part, memory, is_leaf=_is_hands)
    only = jax.nn.one_hot(jnp.argmax(legal, axis=1), legal.shape[1], dtype=bool)
    keys = jax.vmap(jax.random.fold_in, (0, None))(keys, 1)
    return jax.vmap(partial(act, agent.value))(keys, memory, seen, jnp.where(counts[:, None], legal, only))


def _is_hands(part: Any) -> bool:
    return isinstance(part, Hands)
