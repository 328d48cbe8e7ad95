"""Agents against each other, fairly: `play_match`.

Games come in **pairs** with the seats swapped, like the duplicate deals of bridge. In both games of a pair player p is dealt the
same hand, the same random words decide p's k-th draw, and the agent that is player p gets the same keys. So a part of the luck
cancels (more, the more alike the agents play), and two equal agents play the same game twice. Everything random in pair i derives
from `fold_in(key, i)`: results depend neither on the batch size nor on the number of workers, and matches with the same key have
the same deals.

The games of a batch move in lockstep. The host asks each agent to choose where it has a choice, moves all games by one step, and
lets both agents see it. An agent's functions run for those games alone that need them, a few games (a *chunk*) at a time, so a
finished game or a forced move costs next to nothing however slow the agents are. Each agent's part is a program of its own,
compiled once for all its opponents, and its time is taken apart.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import cards, game, static
from unojax.agents import Agent, Memory
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules, is_int
from unojax.static import Skeleton
from unojax.text import format_action

MAX_PAIRS: Final = 2**30
"""Pairs that one key numbers."""
MOST_GAMES: Final = {"cpu": 1024, "gpu": 4096}
"""Games in progress at a time, in a batch."""
_CHUNKS: Final = {"cpu": 8, "gpu": 2}
"""Into how many chunks a batch is divided: a chunk that is not full is computed whole."""

# What in a pair a key is for. Draws go on with the player and the number of the player's draw; agents with the player, the step,
# and what the agent does. Keys with the step for the draws, and with the game too for the agents, were tried: 4,000 pairs of
# scarcest-color then gave errors as with 1.03 times as many independent games against uniform and 1.24 times against keep-wilds;
# the keys chosen, 1.16 and 1.75.
_DEAL, _DRAW, _AGENT = range(3)
_ACT, _UPDATE, _INIT = range(3)

Agents = tuple[Agent, Agent]
_Tree = TypeVar("_Tree")


class AgentError(ValueError):
    """An agent raised, or answered what is no answer."""


@dataclass(frozen=True)
class Pairs:
    """Results of P pairs of games of agents A and B. A is player 0 in the first game of a pair, and player 1 in the second.

    Attributes:
        index: int64[P] the pairs' numbers.
        winner: int8[P, 2] of each game, 0 for A and 1 for B; -1 for a drawn or truncated game.
        num_steps: int32[P, 2] of each game, as in `unojax.Games`.
        num_choices: int32[P, 2, 2] decisions, plays with more than one legal action, by game and agent.
        seconds: float64[2] spent in the functions of A and of B: `init`, `update`, `act` and the observations for them. This is
            wall-clock time of calls that serve many games at once: divided by the decisions it says how fast an agent plays when
            many of its games run together, not how long it takes for one move. Workers that run together share the machine.
    """

    index: np.ndarray
    winner: np.ndarray
    num_steps: np.ndarray
    num_choices: np.ndarray
    seconds: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def points(self) -> np.ndarray:
        """float64[P, 2]: what A got in each game, 1 for a win and 1/2 for a drawn game."""
        return np.select([self.winner == 0, self.winner == 1], [1.0, 0.0], 0.5)

    def swapped(self) -> Pairs:
        """The results of the match of B and A, which has the same games in the other order."""
        return Pairs(
            index=self.index,
            winner=np.where(self.winner < 0, self.winner, 1 - self.winner)[:, ::-1],
            num_steps=self.num_steps[:, ::-1],
            num_choices=self.num_choices[:, ::-1, ::-1],
            seconds=self.seconds[::-1],
        )

    @classmethod
    def join(cls, parts: Sequence[Pairs]) -> Pairs:
        """All pairs of some results, in the order of their numbers."""
        empty = cls(
            index=np.zeros(0, np.int64),
            winner=np.zeros((0, 2), np.int8),
            num_steps=np.zeros((0, 2), np.int32),
            num_choices=np.zeros((0, 2, 2), np.int32),
            seconds=np.zeros(2),
        )
        every = [empty, *parts]
        index = np.concatenate([part.index for part in every])
        order = np.argsort(index, kind="stable")
        return cls(
            index=index[order],
            winner=np.concatenate([part.winner for part in every])[order],
            num_steps=np.concatenate([part.num_steps for part in every])[order],
            num_choices=np.concatenate([part.num_choices for part in every])[order],
            seconds=np.sum([part.seconds for part in every], axis=0),
        )


def play_match(
    key: Array,
    agents: Agents,
    num_pairs: int,
    *,
    rules: Rules = Rules(),
    batch_size: int | None = None,
    workers: int | None = None,
) -> Pairs:
    """Play pairs 0 .. num_pairs - 1 of a match.

    Args:
        key: the source of everything random; the same key gives the same deals to any agents.
        agents: A and B.
        num_pairs: 1 .. 2^30.
        rules: static.
        batch_size: games in progress at a time in a batch, an even number; None: what suits the device. Changes no result.
        workers: batches in progress at a time; None: one for each CPU core, or 1 with a GPU. Changes no result.

    Raises:
        ValueError: an argument is out of range.
        AgentError: an agent raised, or chose an illegal action.
    """
    if not (is_int(num_pairs) and 1 <= num_pairs <= MAX_PAIRS):
        raise ValueError(f"num_pairs must be an integer in [1, {MAX_PAIRS}], got {num_pairs!r}")
    workers = default_workers() if workers is None else workers
    batch_size = default_batch_size(2 * num_pairs, workers) if batch_size is None else batch_size
    check_sizes(batch_size, workers)
    compile_match(agents, rules=rules, batch_size=batch_size)
    batches = split_pairs(np.arange(num_pairs), batch_size)
    played = play_batches(key, [Batch(agents, batch) for batch in batches], rules=rules, batch_size=batch_size, workers=workers)
    return Pairs.join([pairs for _, pairs in played])


def default_workers() -> int:
    """Batches in progress at a time: XLA lets go of Python's lock, and one batch alone leaves a part of the cores idle."""
    return (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1


def default_batch_size(num_games: int, workers: int) -> int:
    """Games in progress at a time in a batch, for so many games of a match.

    A power of two, so that matches of similar size share their compiled programs; some work for every worker.
    """
    most = MOST_GAMES["cpu" if jax.default_backend() == "cpu" else "gpu"]
    share = max(2, -(-num_games // workers))
    return min(most, 1 << (share - 1).bit_length())


def check_sizes(batch_size: int, workers: int) -> None:
    """Check what may be chosen freely.

    Raises:
        ValueError: the batch size is not an even number of at least 2, or there are no workers.
    """
    if not (is_int(batch_size) and batch_size >= 2 and batch_size % 2 == 0):
        raise ValueError(f"batch_size must be an even number of games, since they come in pairs, got {batch_size!r}")
    if not (is_int(workers) and workers >= 1):
        raise ValueError(f"workers must be an integer of at least 1, got {workers!r}")


def split_pairs(pairs: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Numbers of pairs int64[P], divided into batches."""
    size = batch_size // 2
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


class Batch(NamedTuple):
    """Games that are played together: two agents, and int64[P] numbers of pairs, at most half the batch size."""

    agents: Agents
    pairs: np.ndarray


def play_batches(
    key: Array,
    batches: Sequence[Batch],
    *,
    rules: Rules = Rules(),
    batch_size: int,
    workers: int,
    on_games: Callable[[int], None] = lambda finished: None,
) -> Iterator[tuple[Batch, Pairs]]:
    """Play batches, `workers` at a time, and hand each out with its results when it is complete.

    Whoever stops iterating (Ctrl-C included) stops the work.

    Args:
        key, rules, batch_size, workers: as in `play_match`.
        batches: what to play, in this order; a program that is not compiled yet (see `compile_match`) is compiled on the way, and
            the time for that counted.
        on_games: called now and then, from any thread, with the number of games that have ended since the last call.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(workers, thread_name_prefix="unojax-arena") as pool:

        def start(batch: Batch) -> Future[Pairs]:
            return pool.submit(_play_batch, key, batch, rules, batch_size, stop, on_games)

        try:
            waiting = iter(batches)
            running = {start(batch): batch for batch in islice(waiting, workers)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda f: int(running[f].pairs[0])):
                    batch = running.pop(future)
                    pairs = future.result()
                    running |= {start(batch): batch for batch in islice(waiting, 1)}
                    yield batch, pairs
        finally:
            stop.set()


def compile_match(agents: Agents, *, rules: Rules = Rules(), batch_size: int) -> None:
    """Compile what a match needs, by playing no games. Programs are kept, an agent's for all its opponents."""
    batch = Batch(agents, np.zeros(0, np.int64))
    _play_batch(jax.random.key(0), batch, rules, batch_size, threading.Event(), lambda finished: None)


class Seats(NamedTuple):
    """What of G games stays: whose they are.

    Attributes:
        key: key[G] of the pair.
        game: int32[G] 0 or 1: the first or second of its pair, and the number of the player that agent A is.
    """

    key: Array
    game: Array


class Lanes(NamedTuple):
    """What of G games moves.

    Attributes:
        state: the games.
        forced: int32[G] the only legal action of the player to move; -1 where there is a choice.
        num_draws: int32[G, 2] draws of each player, one of several cards being one.
        num_choices: int32[G, 2] decisions of each agent.
    """

    state: State
    forced: Array
    num_draws: Array
    num_choices: Array


def _play_batch(
    key: Array, batch: Batch, rules: Rules, batch_size: int, stop: threading.Event, on_games: Callable[[int], None]
) -> Pairs:
    num_games = 2 * len(batch.pairs)
    pair = np.zeros(batch_size, np.uint32)
    pair[:num_games] = np.repeat(batch.pairs, 2)
    which = np.arange(batch_size, dtype=np.int32) % 2
    chunk = max(1, batch_size // _CHUNKS["cpu" if jax.default_backend() == "cpu" else "gpu"])
    sides = [_Side(agent, index, rules, chunk) for index, agent in enumerate(batch.agents)]

    seats, lanes = _deal(key, pair, which, np.arange(batch_size) < num_games, rules=rules)
    for side in sides:
        side.begin(seats, lanes)
    num_live = num_games
    # Without games one round is still made, which compiles the programs.
    while True:
        actions = [side.decide(seats, lanes) for side in sides]
        after, action, live, wrong = _advance(seats, lanes, actions, rules=rules, chunk=chunk)
        if wrong:
            raise AgentError(_describe_illegal(batch, lanes, after, action))
        for side in sides:
            side.remember(seats, lanes, after, action)
        lanes = after
        if int(live) < num_live:
            on_games(num_live - int(live))
            num_live = int(live)
        if num_live == 0 or stop.is_set():
            break

    winner = np.asarray(lanes.state.winner)[:num_games].reshape(-1, 2)
    return Pairs(
        index=np.asarray(batch.pairs, np.int64),
        # In the second game A is player 1.
        winner=np.where(winner < 0, winner, winner ^ np.arange(2)).astype(np.int8),
        num_steps=np.asarray(lanes.state.step_count)[:num_games].reshape(-1, 2),
        num_choices=np.asarray(lanes.num_choices)[:num_games].reshape(-1, 2, 2),
        seconds=np.array([side.seconds for side in sides]),
    )


class _Side:
    """One of the two agents in a batch: its memories, and the time it takes."""

    def __init__(self, agent: Agent, index: int, rules: Rules, chunk: int):
        self.agent = agent
        self.seconds = 0.0
        self._index = np.int32(index)
        self._numbers, skeleton = static.split(agent)
        self._static: dict[str, Any] = {"skeleton": skeleton, "rules": rules}
        self._chunk = chunk
        self._memory: Memory = ()

    def begin(self, seats: Seats, lanes: Lanes) -> None:
        self._memory = self._call(_begin, seats, lanes)

    def decide(self, seats: Seats, lanes: Lanes) -> Array:
        return self._call(_decide, self._memory, seats, lanes, chunk=self._chunk)

    def remember(self, seats: Seats, before: Lanes, after: Lanes, action: Array) -> None:
        # Most policies remember nothing.
        if jax.tree.leaves(self._memory):
            self._memory = self._call(_remember, self._memory, seats, before, after, action, chunk=self._chunk)

    def _call(self, program: Callable[..., _Tree], *args: Any, **static_args: Any) -> _Tree:
        began = time.perf_counter()
        try:
            return jax.block_until_ready(program(self._numbers, self._index, *args, **self._static, **static_args))
        except jax.errors.JaxRuntimeError:
            # The device's: no memory, for example.
            raise
        except Exception as error:
            raise AgentError(f"agent {self.agent.name} failed: {type(error).__name__}: {error}") from error
        finally:
            self.seconds += time.perf_counter() - began


@partial(jax.jit, static_argnames="rules")
def _deal(key: Array, pair: Array, which: Array, is_used: Array, *, rules: Rules) -> tuple[Seats, Lanes]:
    """Start games; unused ones are over from the beginning."""
    keys = jax.vmap(partial(jax.random.fold_in, key))(pair)

    def deal_one(key: Array, is_used: Array) -> Lanes:
        state = game.init(_fold(key, _DEAL), rules=rules)
        state = state.replace(terminated=state.terminated | ~is_used)
        nothing = jnp.zeros(2, jnp.int32)
        return Lanes(state, _forced(state, rules), nothing, nothing)

    return Seats(keys, which), jax.vmap(deal_one)(keys, is_used)


@partial(jax.jit, static_argnames=("skeleton", "rules"))
def _begin(numbers: list[Array], index: Array, seats: Seats, lanes: Lanes, *, skeleton: Skeleton, rules: Rules) -> Memory:
    """The memories of agent `index` (0 for A, 1 for B) at the start."""
    agent: Agent = static.join(numbers, skeleton)

    def begin_one(seats: Seats, lanes: Lanes) -> Memory:
        player = seats.game ^ index
        key = _agent_key(seats, lanes.state, player, _INIT)
        return jax.tree.map(jnp.asarray, agent.init(key, observe(lanes.state, player, rules=rules)))

    return jax.vmap(begin_one)(seats, lanes)


@partial(jax.jit, static_argnames=("skeleton", "rules", "chunk"))
def _decide(
    numbers: list[Array],
    index: Array,
    memory: Memory,
    seats: Seats,
    lanes: Lanes,
    *,
    skeleton: Skeleton,
    rules: Rules,
    chunk: int,
) -> Array:
    """int32[G]: what agent `index` plays where it has a choice; -1 elsewhere."""
    agent: Agent = static.join(numbers, skeleton)
    reveal = getattr(agent, "reveal", None)

    def decide_one(seats: Seats, lanes: Lanes, memory: Memory) -> Array:
        player = seats.game ^ index
        state = lanes.state
        if reveal is not None:
            memory = reveal(memory, state, player)
        key = _agent_key(seats, state, player, _ACT)
        action = jnp.asarray(agent.act(key, memory, observe(state, player, rules=rules), game.legal_mask(state, rules=rules)))
        if action.shape or not jnp.issubdtype(action.dtype, jnp.integer):
            raise ValueError(f"act must return one integer, got {action.dtype}{list(action.shape)}")
        return action.astype(jnp.int32)

    waits = ~lanes.state.is_over & (lanes.forced < 0) & (_mover(seats, lanes.state) == index)
    nothing = jnp.full(waits.shape, game.NO_ACTION, jnp.int32)
    return _for_chosen(waits, chunk, decide_one, (seats, lanes, memory), nothing)


@partial(jax.jit, static_argnames=("rules", "chunk"))
def _advance(seats: Seats, lanes: Lanes, actions: list[Array], *, rules: Rules, chunk: int) -> tuple[Lanes, Array, Array, Array]:
    """Every unfinished game one step further; the actions int32[G], how many games go on, and whether an action was illegal."""
    mover = _mover(seats, lanes.state)
    action = jnp.where(lanes.forced >= 0, lanes.forced, jnp.where(mover == 0, actions[0], actions[1]))

    def advance_one(seats: Seats, lanes: Lanes, action: Array, mover: Array) -> Lanes:
        player = lanes.state.current_player.astype(jnp.int32)
        key = _fold(seats.key, _DRAW, player, lanes.num_draws[player])
        state = game.step(lanes.state, action, key, rules=rules)
        return Lanes(
            state=state,
            forced=_forced(state, rules),
            num_draws=lanes.num_draws.at[player].add((action == cards.DRAW).astype(jnp.int32)),
            num_choices=lanes.num_choices.at[mover].add((lanes.forced < 0).astype(jnp.int32)),
        )

    lanes = _for_chosen(~lanes.state.is_over, chunk, advance_one, (seats, lanes, action, mover), lanes)
    return lanes, action, jnp.sum(~lanes.state.is_over), jnp.any(lanes.state.error != 0)


@partial(jax.jit, static_argnames=("skeleton", "rules", "chunk"), donate_argnames="memory")
def _remember(
    numbers: list[Array],
    index: Array,
    memory: Memory,
    seats: Seats,
    before: Lanes,
    after: Lanes,
    action: Array,
    *,
    skeleton: Skeleton,
    rules: Rules,
    chunk: int,
) -> Memory:
    """The memories of agent `index` after a step of every game that was unfinished before it."""
    agent: Agent = static.join(numbers, skeleton)

    def remember_one(seats: Seats, before: Lanes, after: Lanes, action: Array, memory: Memory) -> Memory:
        player = seats.game ^ index
        key = _agent_key(seats, before.state, player, _UPDATE)
        seen = [observe(lanes.state, player, rules=rules) for lanes in (before, after)]
        new = jax.tree.map(jnp.asarray, agent.update(key, memory, seen[0], action, seen[1]))
        if (a := _shapes(memory)) != (b := _shapes(new)):
            raise ValueError(f"update must return a memory like the one it gets, {a}, but returned {b}")
        return new

    live = ~before.state.is_over
    return _for_chosen(live, chunk, remember_one, (seats, before, after, action, memory), memory)


def _for_chosen(chosen: Array, chunk: int, one: Callable[..., _Tree], args: tuple[Any, ...], out: _Tree) -> _Tree:
    """`out` with what `one` makes of each chosen game in its place, computed for the chosen games only, a chunk at a time.

    Args:
        chosen: bool[G].
        chunk: games at a time, static. The last chunk is filled up with finished games.
        one: of one game's `args`.
        args, out: pytrees with a leading axis G.
    """
    num_lanes = len(chosen)
    order = jnp.argsort(~chosen, stable=True)
    # A slice that would reach over the end is moved back, so there must be a whole number of chunks.
    order = jnp.append(order, jnp.zeros(-num_lanes % chunk, order.dtype))
    number = chosen.sum()

    def one_chunk(i: Array, out: _Tree) -> _Tree:
        at = lax.dynamic_slice(order, [i * chunk], [chunk])
        is_real = i * chunk + jnp.arange(chunk) < number
        picked = jax.tree.map(lambda a: a[at], args)
        picked = jax.tree.map(partial(_finish, ~is_real), picked, is_leaf=lambda a: isinstance(a, State))
        made = jax.vmap(one)(*picked)
        target = jnp.where(is_real, at, num_lanes)
        return jax.tree.map(lambda old, new: old.at[target].set(new, mode="drop"), out, made)

    return lax.fori_loop(0, (number + chunk - 1) // chunk, one_chunk, out)


def _finish(where: Array, leaf: Any) -> Any:
    return leaf.replace(terminated=leaf.terminated | where) if isinstance(leaf, State) else leaf


def _forced(state: State, rules: Rules) -> Array:
    """int32[]: the only legal action, or -1."""
    legal = game.legal_mask(state, rules=rules)
    return jnp.where(legal.sum() == 1, legal.argmax(), game.NO_ACTION).astype(jnp.int32)


def _mover(seats: Seats, state: State) -> Array:
    """int32[...]: the agent whose player moves next, 0 for A."""
    return state.current_player.astype(jnp.int32) ^ seats.game


def _agent_key(seats: Seats, state: State, player: Array, purpose: int) -> Array:
    return _fold(seats.key, _AGENT, player, state.step_count, purpose)


def _fold(key: Array, *parts: ArrayLike) -> Array:
    for part in parts:
        key = jax.random.fold_in(key, part)
    return key


def _shapes(memory: Memory) -> str:
    leaves, treedef = jax.tree.flatten(memory)
    return f"{treedef} of {[f'{leaf.dtype}{list(leaf.shape)}' for leaf in leaves]}"


def _describe_illegal(batch: Batch, before: Lanes, after: Lanes, action: Array) -> str:
    lane = int(np.flatnonzero(np.asarray(after.state.error))[0])
    which = lane % 2
    state = jax.tree.map(lambda leaf: leaf[lane], before.state)
    agent = batch.agents[int(state.current_player) ^ which]
    played = int(action[lane])
    name = f" ({format_action(played)})" if 0 <= played < cards.NUM_ACTIONS else ""
    mask = np.asarray(game.hand_legal_mask(state.hands[state.current_player], state.color, state.top_rank, state.penalty))
    legal = ", ".join(f"{a} ({format_action(a)})" for a in np.flatnonzero(mask).tolist())
    return (
        f"agent {agent.name} chose the illegal action {played}{name} in step {int(state.step_count)} of game {which} of pair "
        f"{int(batch.pairs[lane // 2])}; legal were {legal}"
    )
