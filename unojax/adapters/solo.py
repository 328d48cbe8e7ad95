"""One seat of many games against an agent, on the device.

Games run in lanes. A lane whose game is over begins the next game at its next step, and skips games that end before the seat's
first move. Random numbers of game g derive from `fold_in(lane's key, g)`, so a lane plays the same games alone and among
thousands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import game
from unojax.adapters.encoding import Encoder
from unojax.adapters.seats import play_or_lose
from unojax.agents import Agent, Memory, PolicyAgent, act, reveal, update
from unojax.device import control, struct
from unojax.device.batching import update_chosen
from unojax.device.random_bits import threefry
from unojax.device.static import Argument
from unojax.game import Packed, State
from unojax.observation import observe_packed
from unojax.policies import PackedPolicy
from unojax.table import concede, find_node
from unojax.view import view_at_node

Seat = Literal[0, 1, "random"]
"""Player of the seat; "random": a fair coin in each game."""

DEAL, DRAW, _SEAT, _BEGIN, _ACT, _REMEMBER, _FOLLOW_BEGIN, _FOLLOW = range(8)
"""Purposes of a game's keys; see `key_for`."""
_CHUNKS: Final = 16
"""Number of chunks of a batch if only a few of its games need work."""
_SMALLEST_CHUNK: Final = 16
"""Fewest games of a chunk; fewer hardly save time."""
MOST_PASSED_OVER: Final = 1000
"""Limit of consecutive games of a lane that end before the seat's first move; the lane then keeps its finished game."""


@struct.dataclass
class Lanes:
    """G games, one for each lane.

    Attributes:
        key, game_key: Keys of the lane and of its game, uint32[G, 2].
        number: Number of the game in its lane, int32[G].
        seat: Player of the seat, int8[G].
        packed: The games.
        memory, known: Memory of the opponent and of the encoder.
        reward: Reward of the seat since its last action, float32[G]; 0 before its first.
    """

    key: Array
    game_key: Array
    number: Array
    seat: Array
    packed: Packed
    memory: Memory
    known: Any
    reward: Array

    @property
    def state(self) -> State:
        """The games as states."""
        return self.packed.unpack()


class Shown(NamedTuple):
    """Results of a step: [G, size], int8[G, num_actions], float32[G], and four times bool[G].

    `illegal` marks games that the seat lost by an illegal action, `failed` those that the opponent lost so or resigned.
    """

    observation: Any
    mask: Any
    reward: Any
    terminated: Any
    truncated: Any
    illegal: Any
    failed: Any


@dataclass(frozen=True)
class Table:
    """Settings shared by all lanes; static under `jit`."""

    encoder: Encoder
    seat: Seat


def begin(agent: Argument, keys: Array, games: Array, *, table: Table) -> tuple[Lanes, Shown]:
    """Begin game number `games`, int32[G], in lanes with `keys`, uint32[G, 2]."""
    # Reuse the program of a step: the opponent's moves take long to compile.
    lanes = _before(agent, keys, games, table=table)
    return step(agent, lanes, np.zeros(len(games), np.int32), table=table)


@partial(jax.jit, static_argnames="table", donate_argnames="lanes")
def step(agent: Argument, lanes: Lanes, action: ArrayLike, *, table: Table) -> tuple[Lanes, Shown]:
    """Play an action, int32[G], and the opponent's moves in each lane, or begin the next game."""
    opponent, ended = agent.value, lanes.packed.is_over

    def play(lane: Lanes, action: Array, ended: Array) -> Lanes:
        played = _move(opponent, table, replace(lane, reward=jnp.float32(0.0)), action)
        return jax.tree.map(partial(jnp.where, ended), lane, played)

    lanes = lax.optimization_barrier(jax.vmap(play)(lanes, jnp.asarray(action), ended))
    return _finish_step(opponent, table, lanes, ended, is_renewal=False)


@partial(jax.jit, static_argnames="table", donate_argnames="lanes")
def renew(agent: Argument, lanes: Lanes, *, table: Table) -> tuple[Lanes, Shown]:
    """Begin the next game in each lane whose game is over; leave the others unchanged."""
    return _finish_step(agent.value, table, lanes, lanes.packed.is_over, is_renewal=True)


@partial(jax.jit, static_argnames="table")
def _before(agent: Argument, keys: Array, games: Array, *, table: Table) -> Lanes:
    """Return lanes about to begin `games`: a finished game each, with empty memories."""
    dealt = jax.eval_shape(jax.vmap(partial(_deal, agent.value, table)), keys, games)
    lanes = jax.tree.map(lambda leaf: lax.full(leaf.shape, 0, leaf.dtype), dealt)
    over = concede(lanes.packed.table, lanes.seat, jnp.ones(len(games), bool))
    return replace(lanes, key=keys, number=games - 1, packed=replace(lanes.packed, table=over))


def _deal_next(agent: Agent, table: Table, ended: Array, lanes: Lanes) -> Lanes:
    def deal(is_real: Array, lanes: Lanes) -> Lanes:
        del is_real
        return jax.vmap(partial(_deal, agent, table))(lanes.key, lanes.number + 1)

    return update_chosen(ended, _chunk(len(ended)), deal, (), lanes)


def _finish_step(agent: Agent, table: Table, lanes: Lanes, begins: Array, *, is_renewal: bool) -> tuple[Lanes, Shown]:
    """Deal in finished lanes that `begins` marks, play the opponent's moves, and observe."""
    size = len(lanes.number)

    def ended_early(lanes: Lanes) -> Array:
        return begins & lanes.packed.is_over

    def waits(lanes: Lanes) -> Array:
        return ~lanes.packed.is_over & (lanes.packed.current_player != lanes.seat)

    def move(is_real: Array, lanes: Lanes) -> Lanes:
        packed = lanes.packed
        over = concede(packed.table, packed.current_player, ~is_real)
        lanes = replace(lanes, packed=replace(packed, table=over))
        return jax.vmap(partial(_answer, agent, table))(lanes)

    def all_move(lanes: Lanes) -> Lanes:
        return update_chosen(waits(lanes), _chunk(size), move, (), lanes)

    if size > _SMALLEST_CHUNK and not is_renewal:
        # Most games need one opponent move, so compute the first one for all.
        answered = jax.vmap(partial(_answer, agent, table))(lanes)
        lanes = jax.tree.map(partial(_where, waits(lanes)), answered, lanes)

    def goes_on(carry: tuple[Lanes, Array]) -> Array:
        lanes, deals = carry
        return waits(lanes).any() | (ended_early(lanes).any() & (deals <= MOST_PASSED_OVER))

    def one_round(carry: tuple[Lanes, Array]) -> tuple[Lanes, Array]:
        lanes, deals = carry
        ended = ended_early(lanes)
        return all_move(_deal_next(agent, table, ended, lanes)), deals + ended.any()

    lanes, _ = control.while_loop(goes_on, one_round, (lanes, jnp.int32(0)))
    lanes = replace(lanes, reward=jnp.where(begins, 0.0, lanes.reward))
    return lanes, jax.vmap(partial(_show, table))(lax.optimization_barrier(lanes))


def _chunk(size: int) -> int:
    return min(size, max(_SMALLEST_CHUNK, -(-size // _CHUNKS)))


def _where(chosen: Array, new: Array, old: Array) -> Array:
    return jnp.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _deal(agent: Agent, table: Table, key: Array, number: Array) -> Lanes:
    game_key = jax.random.fold_in(jax.random.wrap_key_data(key, impl="threefry2x32"), number)
    packed = game.init_packed(key_for(game_key, 0, DEAL), table.encoder.rules)
    is_random, coin = table.seat == "random", jax.random.bernoulli(key_for(game_key, 0, _SEAT))
    seat = coin.astype(jnp.int8) if is_random else jnp.int8(table.seat)
    memory = agent.init(key_for(game_key, 0, _BEGIN), observe_packed(packed, 1 - seat))
    known = table.encoder.init(key_for(game_key, 0, _FOLLOW_BEGIN), observe_packed(packed, seat))
    memory, known = jax.tree.map(jnp.asarray, (memory, known))
    return Lanes(key, jax.random.key_data(game_key), number, seat, packed, memory, known, jnp.float32(0.0))


def _answer(agent: Agent, table: Table, lane: Lanes) -> Lanes:
    """Choose and play the opponent's action."""
    packed, player, key = lane.packed, 1 - lane.seat, _lane_key(lane, _ACT)
    if isinstance(agent, PolicyAgent) and isinstance(agent.policy, PackedPolicy):
        node = find_node(packed.table, packed.rules)
        view = view_at_node(packed.table, node, packed.rules)
        return _move(agent, table, lane, agent.policy.choose(key, view, node.options))
    legal = game.packed_legal_mask(packed)
    memory = reveal(agent, lane.memory, lane.state, player)
    chosen = act(agent, key, memory, observe_packed(packed, player), legal)
    forced = legal.sum() == 1
    return _move(agent, table, lane, jnp.where(forced, legal.argmax().astype(jnp.int32), chosen))


def _move(agent: Agent, table: Table, lane: Lanes, action: Array) -> Lanes:
    """Play an action for the player to move, by `play_or_lose`."""
    before, seat = lane.packed, lane.seat
    after = play_or_lose(before, action, _lane_key(lane, DRAW))
    reward = jnp.where(seat == 0, after.rewards[0], after.rewards[1])
    mine, theirs = ((observe_packed(before, player), observe_packed(after, player)) for player in (seat, 1 - seat))
    memory, known = lane.memory, lane.known
    if jax.tree.leaves(memory):
        memory = update(agent, _lane_key(lane, _REMEMBER), memory, theirs[0], after.last_action, theirs[1])
    if jax.tree.leaves(known):
        known = table.encoder.update(_lane_key(lane, _FOLLOW), known, mine[0], after.last_action, mine[1])
    return replace(lane, packed=after, memory=memory, known=known, reward=lane.reward + reward)


def _show(table: Table, lane: Lanes) -> Shown:
    packed = lane.packed
    # A player who loses by an error stays on turn.
    is_wrong, is_seats = packed.error != 0, packed.current_player == lane.seat
    return Shown(
        observation=table.encoder.encode(lane.known, observe_packed(packed, lane.seat)),
        mask=game.packed_legal_mask(packed).astype(jnp.int8),
        reward=lane.reward,
        terminated=packed.terminated,
        truncated=packed.truncated,
        illegal=is_wrong & is_seats,
        failed=is_wrong & ~is_seats,
    )


def _lane_key(lane: Lanes, purpose: int) -> Array:
    """Return the key of `key_for`, computed in the kernel that uses it."""
    counter = 8 * lane.packed.step_count.astype(jnp.uint32) + np.uint32(purpose)
    key = threefry((lane.game_key[0], lane.game_key[1]), (jnp.zeros_like(counter), counter))
    return jax.random.wrap_key_data(lax.optimization_barrier(jnp.stack(key)), impl="threefry2x32")


def key_for(game_key: Array, step: ArrayLike, purpose: int) -> Array:
    """Return a game's key for one purpose at one step."""
    return jax.random.fold_in(game_key, 8 * jnp.asarray(step, jnp.int32) + purpose)
