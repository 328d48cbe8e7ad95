"""Both seats of a game for the self-play adapters."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import game, table
from unojax.adapters.encoding import Encoder
from unojax.device import struct
from unojax.device.forks import check_not_forked
from unojax.device.tracing import traced_once
from unojax.game import Packed, State
from unojax.observation import Observation, determinize, observe_packed

PLAYERS: Final = (0, 1)
_REMEMBERS: Final = 1 << 30
"""Constant folded into an encoder's keys, far from the counters of the draws, which use a step's key."""
_NEVER_AN_ACTION: Final = 127


@struct.dataclass
class Seats:
    """A packed game, and the encoder's memory of each player."""

    packed: Packed
    memories: tuple[Any, Any]

    @property
    def state(self) -> State:
        """The game."""
        return self.packed.unpack()


def play_or_lose(before: Packed, action: Array, key: Array) -> Packed:
    """Play an action as `unojax.step` does; an illegal one loses the game. Consumes `key`."""
    after = game.step_packed(before, action, key)
    loser, is_wrong = before.current_player, (after.error != 0) & ~before.is_over
    lost = jnp.where(np.arange(2) == loser, jnp.float32(-1.0), jnp.float32(1.0))
    ended, rewards = table.concede(after.table, loser, is_wrong), jnp.where(is_wrong, lost, after.rewards)
    # In separate buffers: XLA on CPU would repeat the step for every column of the arrays derived from it.
    return lax.optimization_barrier(replace(after, table=ended, rewards=rewards))


def as_index(action: Any) -> int:
    """Return an action as an integer. Raises ValueError for values such as 3.7 or text."""
    try:
        return operator.index(action)
    except TypeError:
        raise ValueError(f"an action must be one integer, got {action!r}") from None


def in_32_bits(actions: ArrayLike) -> np.ndarray:
    """Return integers as int32, NumPy; those that do not fit become an invalid action."""
    actions, least, most = np.asarray(actions), -(2**31), 2**31 - 1
    return np.where((actions >= least) & (actions <= most), actions, _NEVER_AN_ACTION).astype(np.int32)


@dataclass(frozen=True)
class SeatsGame:
    """Pure, unbatched functions of a game under an encoder's rules. Hashable.

    Keys and actions give the states of `unojax.init` and `unojax.step`, bit by bit.
    """

    encoder: Encoder

    def deal(self, key: Array) -> Seats:
        """Begin a game. Consumes `key`."""
        return _begin(key, encoder=self.encoder)

    def play(self, seats: Seats, action: ArrayLike, key: Array) -> Seats:
        """Play an action by `play_or_lose`. Consumes `key`."""
        return _follow(seats, jnp.asarray(action), key, encoder=self.encoder)

    def look(self, seats: Seats, player: ArrayLike) -> Array:
        """Return a player's encoded observation, [encoder.size]."""
        player = jnp.asarray(player)
        return self.encoder.encode(_memory(seats, player), observe_packed(seats.packed, player))

    def determinize(self, seats: Seats, key: Array) -> Seats:
        """Resample the opponent's hand, by `Encoder.sample_hand`, and the deck. Consumes `key`.

        The observation of the player to move is unchanged; the opponent's memory restarts.
        """
        hand_key, memory_key = jax.random.split(key)
        state = seats.state
        me = state.current_player
        seen = observe_packed(seats.packed, me)
        hand = self.encoder.sample_hand(hand_key, _memory(seats, me), seen)
        dealt = determinize(hand, seen)
        packed = game.pack_state(replace(state, hands=dealt.hands, deck=dealt.deck))
        begun = self.encoder.init(memory_key, observe_packed(packed, 1 - me))
        first, second = (
            jax.tree.map(lambda old, new, player=player: jnp.where(me == player, old, new), memory, begun)
            for player, memory in enumerate(seats.memories)
        )
        return Seats(packed, (first, second))


@partial(traced_once, static=("encoder",))
def _begin(key: Array, *, encoder: Encoder) -> Seats:
    packed = game.init_packed(key, encoder.rules)
    first, second = (encoder.init(_key(key, player), observe_packed(packed, jnp.int8(player))) for player in PLAYERS)
    return Seats(packed, (first, second))


@partial(traced_once, static=("encoder",))
def _follow(seats: Seats, action: Array, key: Array, *, encoder: Encoder) -> Seats:
    before, after = seats.packed, play_or_lose(seats.packed, action, key)
    around = [
        (observe_packed(before, player), after.last_action, observe_packed(after, player)) for player in map(jnp.int8, PLAYERS)
    ]
    first, second = (encoder.update(_key(key, player), memory, *around[player]) for player, memory in enumerate(seats.memories))
    return Seats(after, (first, second))


def _memory(seats: Seats, player: Array) -> Any:
    return jax.tree.map(lambda first, second: jnp.where(player == 0, first, second), *seats.memories)


def _key(key: Array, player: int) -> Array:
    return jax.random.fold_in(key, _REMEMBERS + player)


@struct.dataclass
class Shown:
    """Values that a host needs at every position, on the device or as NumPy.

    Attributes:
        encoded: Both players' observations, [2, size].
        mask: Legal actions of the player to move, bool[num_actions].
        rewards, terminated, truncated, current_player: As in `State`.
    """

    encoded: Any
    mask: Any
    rewards: Any
    terminated: Any
    truncated: Any
    current_player: Any


class HostGame:
    """One game at a time on the host; for adapters called from Python.

    Attributes:
        seats: The game, on the device.
        shown: The position as NumPy. `observation` and `state` fetch the rest on demand.
    """

    def __init__(self, encoder: Encoder):
        self.functions = SeatsGame(encoder)
        self.seats: Seats
        self.shown: Shown
        self._num_deals = 0
        self.seed(None)

    def seed(self, seed: int | None) -> None:
        """Begin a sequence of games. None: a random seed."""
        # An integer, so that JAX does not start before the first game.
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._num_deals = 0

    def deal(self) -> None:
        """Begin the next game of the sequence."""
        check_not_forked()
        self._game_key = jax.random.fold_in(jax.random.key(self._seed, impl="threefry2x32"), self._num_deals)
        self._num_deals += 1
        self._keep(_deal(self.functions, self._game_key))

    def play(self, action: int) -> bool:
        """Play an action by `play_or_lose`; return whether it was legal."""
        is_legal = 0 <= action < len(self.shown.mask) and bool(self.shown.mask[action])
        self._keep(_play(self.functions, self.seats, in_32_bits(action), self._game_key))
        return is_legal

    def observation(self, player: int) -> Observation:
        """Return a player's observation, NumPy."""
        return jax.device_get(_observe(self.seats, np.int8(player)))

    def state(self) -> State:
        """Return the whole position, NumPy."""
        return jax.device_get(_unpack(self.seats))

    def restore(self, seats: Seats, shown: Shown) -> None:
        """Return to an earlier position of the same game."""
        self.seats, self.shown = seats, shown

    def _keep(self, made: tuple[Seats, Shown]) -> None:
        self.seats, self.shown = made[0], jax.device_get(made[1])


def game_key(key: Array, place: ArrayLike) -> Array:
    """Return the key of a game's deal (`place` 0) or of its step number `place`, from 1."""
    return jax.random.fold_in(key, place)


@partial(jax.jit, static_argnums=0)
def _deal(functions: SeatsGame, key: Array) -> tuple[Seats, Shown]:
    seats = functions.deal(game_key(key, 0))
    return seats, _show(functions, seats)


@partial(jax.jit, static_argnums=0)
def _play(functions: SeatsGame, seats: Seats, action: Array, key: Array) -> tuple[Seats, Shown]:
    seats = functions.play(seats, action, game_key(key, 1 + seats.packed.step_count))
    return seats, _show(functions, seats)


def _show(functions: SeatsGame, seats: Seats) -> Shown:
    encoded = jnp.stack([functions.look(seats, player) for player in PLAYERS])
    packed = seats.packed
    ends = packed.terminated, packed.truncated
    return Shown(encoded, game.packed_legal_mask(packed), packed.rewards, *ends, packed.current_player)


@jax.jit
def _observe(seats: Seats, player: Array) -> Observation:
    return observe_packed(seats.packed, player)


@jax.jit
def _unpack(seats: Seats) -> State:
    return seats.state
