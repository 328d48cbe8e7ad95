"""What agents with memory do at each information state: the agent is led through all that its player can see.

An agent's memory after what it saw is the same in all histories of an information state (it sees observations only), so one
history stands for them all, and a past that information states share is followed once. What is random in an agent, the particles
of its belief, the samples of its search, is frozen: each information state has a key of its own, so with one key an agent is a
pure strategy like any other, and its exploitability is exact. With K keys it is the average of K such plays at each information
state, which comes to an agent that draws its samples anew as K grows.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards, game
from unojax.agents import RESIGN, Agent, PolicyAgent, act, check_sees_no_hidden_hand, update
from unojax.belief.hands import Hands
from unojax.belief.updaters import GivenHands
from unojax.decks import is_int
from unojax.device import static
from unojax.observation import Observation, observe
from unojax.policies import Policy
from unojax.rules import Rules
from unojax.solve.expansion import table_of
from unojax.solve.seen import HiddenHands, Seen, look_back
from unojax.solve.strategies import Strategies, colors_shown, of_policy
from unojax.solve.treeplex import Tree, Treeplex
from unojax.specs import as_agent

_CHUNKS: Final = (32, 512)
"""Information states at a time, in small games and large ones: their memories are kept, for each level of the game."""


class PlayError(ValueError):
    """An agent gave the game up, or chose an illegal action."""


def of_agent(
    tree: Tree,
    agent: str | Policy | Agent,
    *,
    key: Array | None = None,
    num_keys: int = 1,
    against: Strategies | None = None,
) -> Strategies:
    """Compute what an agent does at each information state, in either seat.

    A program behind an agent (`process:`) is asked about what follows a state in any order: what it keeps of a game beside the
    agent's memory must not count.

    Args:
        tree: of the game.
        agent: an agent, the spec of one, or a policy. One without memory that tells its probabilities is taken by them.
        key: the source of everything random; None: `jax.random.key(0)`.
        num_keys: plays with so many keys are averaged, see the module.
        against: in place of its own belief the agent is told the exact probability of each hidden hand, against an opponent who
            follows this strategy (see `seen.look_back`). For agents with an `updater`.

    Raises:
        ValueError: an argument is out of range, or it is no agent, or one that looks at the hidden hand.
        PlayError: it gave the game up, or chose an illegal action.
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
    """Information states of a level that wait for the agent: their numbers, and where the memories before them are."""

    states: np.ndarray
    memory: Any = None
    place: np.ndarray = np.zeros(0, int)


def _number(runs: list[_Run]) -> int:
    return sum(len(run.states) for run in runs)


def _split(runs: list[_Run], size: int) -> tuple[list[_Run], list[_Run]]:
    """Take so many information states off, or all if there are fewer."""
    taken: list[_Run] = []
    for number, run in enumerate(runs):
        if len(run.states) > size:
            first, rest = (_Run(run.states[part], run.memory, run.place[part]) for part in (slice(size), slice(size, None)))
            return [*taken, *([first] if size else [])], [rest, *runs[number + 1 :]]
        taken.append(run)
        size -= len(run.states)
    return taken, []


class _Led:
    """One player's agent on its way through all that the player can see, in chunks."""

    def __init__(self, tree: Tree, player: int, agent: Agent, levels: list[Seen], hands: HiddenHands | None):
        self.tree, self.player, self.levels, self.hands = tree, player, levels, hands
        self.numbers, skeleton = static.split(agent)
        # One program for both seats.
        self.seat, self.how = np.int32(player), {"skeleton": skeleton, "rules": tree.rules}
        self.name = agent.name
        # The larger one if most levels have as many.
        self.chunk = _CHUNKS[int(np.median([len(level.rows) for level in levels] or [0]) >= _CHUNKS[1])]
        self.most_hands = 0 if hands is None else max(1, int(np.diff(hands.start).max(initial=1)))

    def mean(self, keys: list[Array]) -> np.ndarray:
        """Average what the agent does with some keys: float64[S]."""
        total = np.zeros(self.tree.players[self.player].num_sequences)
        for key in keys:
            total += self.behavior(key)
        return total / len(keys)

    def behavior(self, key: Array) -> np.ndarray:
        """Ask the agent everywhere: float64[S], 1 for its choices."""
        self.key = jax.random.fold_in(key, self.player)
        treeplex = self.tree.players[self.player]
        self.chosen = np.zeros(treeplex.num_choices, np.int64)
        # The deepest full chunk first, so that few memories wait; then what is left, from the top.
        # None at all where a player never has a choice.
        first = [_Run(np.arange(len(self.levels[0].rows)))] if len(self.levels[0].rows) else []
        waiting = [first, *([] for _ in self.levels[1:])]
        # Information states with a choice: where there is none, an agent need not be asked.
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
        """Lead the agent to a chunk of information states of a level: its memories, and where it is, int64[N]."""
        level, (index, keys, here) = self.levels[step], self._chunk_of(step, runs)
        if step == 0:
            return _begin(self.numbers, keys, self.seat, here, **self.how), index[: _number(runs)]
        last, parent = self.levels[step - 1], level.parent[index]
        there = (last.rows[parent], last.last_action[parent], np.int32(step - 1))
        memory = _follow(self.numbers, keys, self.seat, _gather(runs, self.chunk), there, here, **self.how)
        return memory, index[: _number(runs)]

    def _ask(self, step: int, runs: list[_Run]) -> list[_Run]:
        """Ask the agent at a chunk of information states of a level, which have a choice: what is left of them."""
        runs, left = _split(runs, self.chunk)
        index, keys, here = self._chunk_of(step, runs)
        infoset, number = self.levels[step].infoset[index], _number(runs)
        hands = None if self.hands is None else _told(self.hands, infoset, self.most_hands)
        counts = np.arange(self.chunk) < number
        action = _decide(self.numbers, keys, self.seat, _gather(runs, self.chunk), here, counts, hands, **self.how)
        self.chosen[infoset[:number]] = np.asarray(action)[:number]
        return left

    def _chunk_of(self, step: int, runs: list[_Run]) -> tuple[np.ndarray, Array, Any]:
        """Fill a chunk up with its last information state: their numbers, int64[C], keys and positions."""
        level, index = self.levels[step], np.concatenate([run.states for run in runs])
        index = np.concatenate([index, np.repeat(index[-1:], self.chunk - len(index))])
        return index, _keys(self.key, np.int32(step), index), (level.rows[index], level.last_action[index], np.int32(step))

    def _children(self, step: int, index: np.ndarray, memory: Any) -> _Run:
        """Find what follows some information states of a level, with their memories."""
        parent = self.levels[step + 1].parent
        first, end = np.searchsorted(parent, [index, index + 1])
        place = np.repeat(np.arange(len(index)), end - first)
        children = np.concatenate([np.arange(a, b) for a, b in zip(first, end, strict=True)])
        return _Run(children, memory, place)


@jax.jit
def _keys(key: Array, step: Array, index: Array) -> Array:
    """Keys of some information states of a level, [C]."""
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, step), index)


def _told(hands: HiddenHands, infoset: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Give the hidden hands of some information states: uint32[C, N, 4] and their log weights, float32[C, N]."""
    place = hands.start[infoset][:, None] + np.arange(most)
    is_one = place < hands.start[infoset + 1][:, None]
    place = np.minimum(place, len(hands.prob) - 1)
    with np.errstate(divide="ignore"):
        return hands.packed[place], np.where(is_one, np.log(hands.prob[place]), -np.inf).astype(np.float32)


def _sequences(tree: Tree, treeplex: Treeplex, chosen: np.ndarray, name: str) -> np.ndarray:
    """Find the sequences of actions, int64[I], one at each information state."""
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
    """Show a player the positions, and the legal actions there: a batch."""
    rows, last_action, steps = positions

    def one(row: Array, last: Array) -> tuple[Observation, Array]:
        state = game.from_table(table_of(row), rules, last_action=last, step_count=steps)
        return observe(state, player), game.legal_mask(state)

    return jax.vmap(one)(rows, last_action)


_STATIC = ("skeleton", "rules")


def _join(runs: list[_Run], size: int) -> list[_Run]:
    """Make one run of several that fill no chunk: of the memories that they came from, no more is kept than is needed."""
    runs, number = [run for run in runs if len(run.states)], _number(runs)
    if len(runs) < 2 or number > size:
        return runs
    return [_Run(np.concatenate([run.states for run in runs]), _gather(runs, size), np.arange(number))]


def _gather(runs: list[_Run], size: int) -> Any:
    """Put the memories before the information states of a chunk side by side."""
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


@partial(jax.jit, static_argnames=_STATIC)
def _begin(numbers: list[Array], keys: Array, player: Array, here: _Position, *, skeleton: Any, rules: Rules) -> Any:
    agent = cast(Agent, static.join(numbers, skeleton))
    return jax.vmap(agent.init)(keys, _watch(here, player, rules)[0])


@partial(jax.jit, static_argnames=_STATIC)
def _follow(
    numbers: list[Array],
    keys: Array,
    player: Array,
    memory: Any,
    there: _Position,
    here: _Position,
    *,
    skeleton: Any,
    rules: Rules,
) -> Any:
    agent = cast(Agent, static.join(numbers, skeleton))
    seen = [_watch(positions, player, rules)[0] for positions in (there, here)]
    return jax.vmap(partial(update, agent))(keys, memory, seen[0], here[1].astype(jnp.int32), seen[1])


@partial(jax.jit, static_argnames=_STATIC)
def _decide(
    numbers: list[Array],
    keys: Array,
    player: Array,
    memory: Any,
    here: _Position,
    counts: Array,
    hands: tuple[Array, Array] | None,
    *,
    skeleton: Any,
    rules: Rules,
) -> Array:
    """Ask for actions, int32[C]; where it does not count, what is shown is no choice, and costs nothing."""
    agent = cast(Agent, static.join(numbers, skeleton))
    seen, legal = _watch(here, player, rules)
    if hands is not None:
        packed, log_weights = hands
        told = Hands((packed[..., 0], packed[..., 1], packed[..., 2], packed[..., 3]), log_weights)
        memory = jax.tree.map(lambda part: told if isinstance(part, Hands) else part, memory, is_leaf=_is_hands)
    only = jax.nn.one_hot(jnp.argmax(legal, axis=1), legal.shape[1], dtype=bool)
    keys = jax.vmap(jax.random.fold_in, (0, None))(keys, 1)
    return jax.vmap(partial(act, agent))(keys, memory, seen, jnp.where(counts[:, None], legal, only))


def _is_hands(part: Any) -> bool:
    return isinstance(part, Hands)
