"""Games of a batch in lockstep: `play_steps`, and its programs for one step of all games and for an agent's part in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards, game, table
from unojax.agents import RESIGN, Agent, Memory, act, next_game, reveal, update
from unojax.device.batching import update_chosen
from unojax.device.blame import blamed_on
from unojax.device.mesh import program_of_batch
from unojax.device.platform import platform
from unojax.device.static import Argument
from unojax.game import Packed
from unojax.observation import observe_packed
from unojax.rules import Rules
from unojax.text import format_action

# Purposes of a pair's key. Keys for draws also depend on the player and the number of the player's draw; keys for agents, on
# the player, the step and the agent's function. The alternative was tried: keys with the step for the draws, and with the game
# for the agents. In 4,000 pairs of scarcest-color, errors were then as with 1.03 times as many independent games against
# uniform and 1.24 times against keep-wilds. With the keys chosen the factors are 1.16 and 1.75.
_DEAL, _DRAW, _AGENT, JUDGE = range(4)
_ACT, _UPDATE, _INIT = range(3)

_CHUNKS: Final = {"cpu": 8, "gpu": 2}
"""Number of chunks per batch. A partly filled chunk is computed whole."""
_SMALLEST_CHUNK: Final = 32
"""Smallest chunk, in games: fewer games take hardly less time."""

_Tree = TypeVar("_Tree")


class AgentError(ValueError):
    """An agent raised an error or returned an invalid action."""


class Seats(NamedTuple):
    """Constant part of G games: keys and seats.

    Attributes:
        key: key[G]. Key of the pair.
        game: int32[G]. 0 or 1: the first or second game of its pair, and the player number of agent A.
    """

    key: Array
    game: Array


class MatchLanes(NamedTuple):
    """Mutable part of G games.

    Attributes:
        state: The games.
        forced: int32[G]. The only legal action of the player to move; -1 with several.
        num_draws: int32[G, 2]. Draws of each player; drawing several cards at once counts as one.
        num_choices: int32[G, 2]. Decisions of each agent.
    """

    state: Packed
    forced: Array
    num_draws: Array
    num_choices: Array


class BatchStep(NamedTuple):
    """A step of all games.

    Attributes:
        seats: Constant part of the games.
        before, after: Games before and after the step.
        actions: Actions of A and of B at their decisions, int32[G] each, -1 elsewhere.
        num_ended: Number of games that the step has ended.
    """

    seats: Seats
    before: MatchLanes
    actions: list[Array]
    after: MatchLanes
    num_ended: int


class Side:
    """An agent at one side of all games, A (`index` 0) or B (1), with its memories and computing time."""

    def __init__(self, agent: Agent, index: int):
        self.agent = agent
        self.memory: Memory | None = None
        self.seconds = 0.0
        self._argument, self._index = Argument(agent), np.int32(index)

    def begin(self, seats: Seats, lanes: MatchLanes) -> None:
        """Begin the first game, or the next one, of every env slot."""
        self.memory = self._call(begin, seats, lanes, self.memory)

    def decide(self, seats: Seats, lanes: MatchLanes) -> Array:
        """Return the agent's actions at its decisions: int32[G], -1 elsewhere."""
        return self._call(decide, self.memory, seats, lanes)

    def remember(self, step: BatchStep) -> None:
        """Update the memories of the games that the step has advanced."""
        # Most policies have no memory.
        if jax.tree.leaves(self.memory):
            self.memory = self._call(remember, self.memory, step.seats, step.before, step.after, step.actions)

    def _call(self, program: Callable[..., _Tree], *args: Any) -> _Tree:
        began = time.perf_counter()
        try:
            with blamed_on(f"agent {self.agent.name}", AgentError):
                return jax.block_until_ready(program(self._argument, self._index, *args))
        finally:
            self.seconds += time.perf_counter() - began


def play_steps(key: Array, sides: Sequence[Side], pairs: np.ndarray, *, rules: Rules, batch_size: int) -> Iterator[BatchStep]:
    """Play both games of some pairs, and yield each step: at least one, to compile the programs.

    Args:
        key, rules: As in `play_match`.
        sides: A and B, and any other agents, which only observe. While a step is yielded, memories are those before it.
        pairs: int64[P]. Numbers of the pairs.
        batch_size: Number of env slots, at least 2 P.

    Raises:
        AgentError: If an agent raises, or chooses an illegal action.
    """
    slot = np.arange(batch_size)
    pair = np.zeros(batch_size, np.uint32)
    pair[: 2 * len(pairs)] = np.repeat(pairs, 2)
    seats, lanes = deal(key, pair, slot.astype(np.int32) % 2, slot < 2 * len(pairs), rules=rules)
    for side in sides:
        side.begin(seats, lanes)
    num_left, is_over = 2 * len(pairs), False
    while not is_over:
        actions = [side.decide(seats, lanes) for side in sides[:2]]
        after, counts = advance(seats, lanes, actions)
        num_live, num_wrong = np.asarray(counts).sum(0).tolist()
        step = BatchStep(seats, lanes, actions, after, num_left - num_live)
        if num_wrong:
            raise AgentError(_describe_illegal(sides, pairs, step))
        yield step
        for side in sides:
            side.remember(step)
        lanes, num_left, is_over = after, num_live, num_live == 0


def _describe_illegal(sides: Sequence[Side], pairs: np.ndarray, step: BatchStep) -> str:
    slot = int(np.flatnonzero(np.asarray(step.after.state.error))[0])
    which = slot % 2
    state = jax.tree.map(lambda leaf: leaf[slot], step.before.state)
    side = int(state.current_player) ^ which
    played = int(step.actions[side][slot])
    name = f" ({format_action(played)})" if 0 <= played < state.rules.num_actions else ""
    mask = np.asarray(jax.jit(game.packed_legal_mask)(state))
    legal = ", ".join(f"{a} ({format_action(a)})" for a in np.flatnonzero(mask).tolist())
    return (
        f"agent {sides[side].agent.name} chose the illegal action {played}{name} in step {int(state.step_count)} of game {which} "
        f"of pair {int(pairs[slot // 2])}; legal were {legal}"
    )


@program_of_batch(1, static=("rules",))
def deal(key: Array, pair: Array, which: Array, is_used: Array, *, rules: Rules) -> tuple[Seats, MatchLanes]:
    """Start games; unused env slots are over from the start."""
    keys = jax.vmap(partial(jax.random.fold_in, key))(pair)

    def deal_one(key: Array, is_used: Array) -> MatchLanes:
        state = _concede(game.init_packed(fold(key, _DEAL), rules), ~is_used)
        nothing = jnp.zeros(2, jnp.int32)
        return MatchLanes(state, _forced(state), nothing, nothing)

    return Seats(keys, which), jax.vmap(deal_one)(keys, is_used)


@program_of_batch(2)
def begin(argument: Argument, index: Array, seats: Seats, lanes: MatchLanes, last: Memory | None = None) -> Memory:
    """Create the memories of agent `index` (0 for A, 1 for B), afresh or from the end of each slot's last game."""
    agent: Agent = argument.value

    def begin_one(seats: Seats, lanes: MatchLanes, last: Memory | None) -> Memory:
        player = seats.game ^ index
        key, seen = _agent_key(seats, lanes.state, player, _INIT), observe_packed(lanes.state, player)
        return jax.tree.map(jnp.asarray, agent.init(key, seen) if last is None else next_game(agent, key, last, seen))

    return jax.vmap(begin_one)(seats, lanes, last)


@program_of_batch(2)
def decide(argument: Argument, index: Array, memory: Memory, seats: Seats, lanes: MatchLanes) -> Array:
    """Return the actions of agent `index` at its decisions: int32[G], -1 elsewhere."""
    agent: Agent = argument.value

    def decide_one(_: Array, seats: Seats, lanes: MatchLanes, memory: Memory) -> Array:
        player = seats.game ^ index
        state = lanes.state
        memory = reveal(agent, memory, state, player)
        key = _agent_key(seats, state, player, _ACT)
        return act(agent, key, memory, observe_packed(state, player), game.packed_legal_mask(state))

    waits = find_waiting(seats, lanes, index)
    nothing = jnp.full(waits.shape, game.NO_ACTION, jnp.int32)
    return _update_chosen(waits, decide_one, (seats, lanes, memory), nothing)


def find_waiting(seats: Seats, lanes: MatchLanes, index: ArrayLike) -> Array:
    """Return the games with a decision of agent `index`: bool[G]."""
    return ~lanes.state.is_over & (lanes.forced < 0) & (mover_of(seats, lanes.state) == index)


@program_of_batch(0)
def advance(seats: Seats, lanes: MatchLanes, actions: list[Array]) -> tuple[MatchLanes, Array]:
    """Advance every unfinished game by one step.

    Also return, for the host, int32[1, 2] of each device: numbers of unfinished games and of illegal actions.
    """
    mover, action = mover_of(seats, lanes.state), _taken(seats, lanes, actions)

    def advance_one(lanes: MatchLanes, seats: Seats, action: Array, mover: Array) -> MatchLanes:
        player = lanes.state.current_player.astype(jnp.int32)
        key = fold(seats.key, _DRAW, player, lanes.num_draws[player])
        resigns = action == RESIGN
        state = jax.tree.map(partial(jnp.where, resigns), lanes.state, game.step_packed(lanes.state, action, key))
        state = _concede(state, resigns)
        # The same action passes after drawing a playable card, and draws again after an unplayable one.
        has_drawn = lanes.state.table.unpack_account().has_drawn != 0
        is_draw = (action == cards.DRAW) & (~has_drawn | (lanes.forced >= 0))
        return MatchLanes(
            state=state,
            forced=_forced(state),
            num_draws=lanes.num_draws.at[player].add(is_draw.astype(jnp.int32)),
            num_choices=lanes.num_choices.at[mover].add((lanes.forced < 0).astype(jnp.int32)),
        )

    lanes = _update_chosen(~lanes.state.is_over, advance_one, (seats, action, mover), lanes)
    counts = jnp.stack([(~lanes.state.is_over).sum(), (lanes.state.error != 0).sum()])
    return lanes, counts[None]


def _taken(seats: Seats, lanes: MatchLanes, actions: list[Array]) -> Array:
    """Return the actions taken, int32[G]: forced ones, and those of the agents."""
    return jnp.where(lanes.forced >= 0, lanes.forced, jnp.where(mover_of(seats, lanes.state) == 0, actions[0], actions[1]))


@program_of_batch(2, donate=(2,))
def remember(
    argument: Argument,
    index: Array,
    memory: Memory,
    seats: Seats,
    before: MatchLanes,
    after: MatchLanes,
    actions: list[Array],
) -> Memory:
    """Update the memories of agent `index` after a step of all games that were unfinished before it."""
    agent: Agent = argument.value

    def remember_one(memory: Memory, seats: Seats, before: MatchLanes, after: MatchLanes, action: Array) -> Memory:
        player = seats.game ^ index
        key = _agent_key(seats, before.state, player, _UPDATE)
        seen = [observe_packed(lanes.state, player) for lanes in (before, after)]
        return update(agent, key, memory, seen[0], action, seen[1])

    action = _taken(seats, before, actions)
    return _update_chosen(~before.state.is_over, remember_one, (seats, before, after, action), memory)


def chunk_of(num_games: int) -> int:
    """Return the number of games that a device computes at a time, given its games of a batch."""
    return min(num_games, max(_SMALLEST_CHUNK, num_games // _CHUNKS[platform()]))


def _update_chosen(chosen: Array, one: Callable[..., _Tree], args: tuple[Any, ...], state: _Tree) -> _Tree:
    """Apply `update_chosen` with a function of one game; padding of the last chunk consists of finished games."""

    def work(is_real: Array, *picked: Any) -> _Tree:
        def finish(leaf: Any) -> Any:
            return _concede(leaf, ~is_real) if isinstance(leaf, Packed) else leaf

        return jax.vmap(one)(*jax.tree.map(finish, picked, is_leaf=lambda a: isinstance(a, Packed)))

    return update_chosen(chosen, chunk_of(len(chosen)), work, args, state)


@program_of_batch(0)
def results(lanes: MatchLanes) -> tuple[Array, Array]:
    """Return the winner of each finished game, int8[G] (-1: none), and the points of the loser's cards, int32[G]."""
    outcome = lanes.state.table.unpack_meta().outcome
    winner = jnp.where(outcome == 0, game.NO_WINNER, jnp.where(outcome > 0, 0, 1)).astype(jnp.int8)
    return winner, jnp.where(outcome == 0, 0, table.card_points(lanes.state.table, lanes.state.rules))


def _concede(state: Packed, where: Array) -> Packed:
    """End games, bool[...], as lost for the player to move."""
    return replace(state, table=table.concede(state.table, state.current_player, where))


def _forced(state: Packed) -> Array:
    """Return the only legal action, int32[]; -1 if there are several."""
    legal = game.packed_legal_mask(state)
    return jnp.where(legal.sum() == 1, legal.argmax(), game.NO_ACTION).astype(jnp.int32)


def mover_of(seats: Seats, state: Packed) -> Array:
    """Return the agent to move, 0 for A: int32[...]."""
    return state.current_player.astype(jnp.int32) ^ seats.game


def _agent_key(seats: Seats, state: Packed, player: Array, purpose: int) -> Array:
    return fold(seats.key, _AGENT, player, state.step_count, purpose)


def fold(key: Array, *parts: ArrayLike) -> Array:
    """Fold several numbers into a key, in sequence."""
    for part in parts:
        key = jax.random.fold_in(key, part)
    return key
