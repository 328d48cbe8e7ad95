"""Both seats of a game for the self-play adapters."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

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

_Tree = TypeVar("_Tree")

PLAYERS: Final = (0, 1)
_REMEMBERS: Final = 1 << 30
"""Constant folded into an encoder's keys, far from the counters of the draws, which use a step's key."""


def play_or_lose(before: Packed, action: Array, key: Array) -> Packed:
    """Play an action as `unojax.step` does; an illegal one loses the game. Consumes `key`."""
    after = game.step_packed(before, action, key)
    loser, is_wrong = before.current_player, (after.error != 0) & ~before.is_over
    lost = jnp.where(np.arange(2) == loser, jnp.float32(-1.0), jnp.float32(1.0))
    ended, rewards = table.concede(after.table, loser, is_wrong), jnp.where(is_wrong, lost, after.rewards)
    # In separate buffers: XLA on CPU would repeat the step for every column of the arrays derived from it.
    return lax.optimization_barrier(replace(after, table=ended, rewards=rewards))


def as_action(action: Any, num_actions: int) -> int:
    """Return an action, legal or not, as an integer. Raises ValueError unless it is an integer in [0, num_actions)."""
    try:
        index = operator.index(action)
    except TypeError:
        raise ValueError(f"an action must be one integer, got {action!r}") from None
    if not 0 <= index < num_actions:
        raise ValueError(f"an action must be in [0, {num_actions - 1}], got {index}")
    return index


@struct.dataclass
class Seats:
    """A game, and the encoder's memory of each player. All functions are pure and unbatched.

    Keys and actions give the states of `unojax.init` and `unojax.step`, bit by bit.
    """

    packed: Packed
    memories: tuple[Any, Any]
    encoder: Encoder = struct.field(pytree_node=False)

    @property
    def state(self) -> State:
        """The game as a state."""
        return self.packed.unpack()

    def play(self, action: ArrayLike, key: Array) -> Seats:
        """Play an action by `play_or_lose`. Consumes `key`."""
        return _play(self, jnp.asarray(action), key)

    def look(self, player: ArrayLike) -> Array:
        """Return a player's encoded observation, [encoder.size]."""
        player = jnp.asarray(player)
        return self.encoder.encode(self._memory(player), observe_packed(self.packed, player))

    def determinize(self, key: Array) -> Seats:
        """Resample the opponent's hand, by `Encoder.sample_hand`, and the deck. Consumes `key`.

        The observation of the player to move is unchanged; the opponent's memory restarts.
        """
        hand_key, memory_key = jax.random.split(key)
        state = self.state
        me = state.current_player
        seen = observe_packed(self.packed, me)
        dealt = determinize(self.encoder.sample_hand(hand_key, self._memory(me), seen), seen)
        packed = game.pack_state(replace(state, hands=dealt.hands, deck=dealt.deck))
        begun = self.encoder.init(memory_key, observe_packed(packed, 1 - me))
        first, second = (
            jax.tree.map(lambda old, new, player=player: jnp.where(me == player, old, new), memory, begun)
            for player, memory in enumerate(self.memories)
        )
        return replace(self, packed=packed, memories=(first, second))

    def _memory(self, player: Array) -> Any:
        return jax.tree.map(lambda first, second: jnp.where(player == 0, first, second), *self.memories)


@partial(traced_once, static=("encoder",))
def deal(key: Array, *, encoder: Encoder) -> Seats:
    """Begin a game under an encoder's rules. Consumes `key`."""
    packed = game.init_packed(key, encoder.rules)
    first, second = (encoder.init(_key(key, player), observe_packed(packed, jnp.int8(player))) for player in PLAYERS)
    return Seats(packed, (first, second), encoder)


@traced_once
def _play(seats: Seats, action: Array, key: Array) -> Seats:
    before, after = seats.packed, play_or_lose(seats.packed, action, key)

    def updated(player: int) -> Any:
        seen, result = (observe_packed(packed, jnp.int8(player)) for packed in (before, after))
        return seats.encoder.update(_key(key, player), seats.memories[player], seen, after.last_action, result)

    return replace(seats, packed=after, memories=(updated(0), updated(1)))


def _key(key: Array, player: int) -> Array:
    return jax.random.fold_in(key, _REMEMBERS + player)


class Shown(NamedTuple):
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
        self.encoder = encoder
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
        self._keep(_deal(self._game_key, encoder=self.encoder))

    def play(self, action: Any) -> None:
        """Play an action by `play_or_lose`. Raises ValueError as `as_action` does."""
        action = as_action(action, len(self.shown.mask))
        self._keep(_next(self.seats, np.int32(action), self._game_key))

    def observation(self, player: int) -> Observation:
        """Return a player's observation, NumPy."""
        return _fetch(_observe(self.seats, np.int8(player)))

    def state(self) -> State:
        """Return the whole position, NumPy."""
        return _fetch(_unpack(self.seats))

    def _keep(self, made: tuple[Seats, Shown]) -> None:
        self.seats, self.shown = made[0], _fetch(made[1])


def _fetch(tree: _Tree) -> _Tree:
    """Return arrays as NumPy. `jax.device_get` takes longer than a step of one game on a CPU."""
    return jax.tree.map(np.asarray, tree)


def game_key(key: Array, place: ArrayLike) -> Array:
    """Return the key of a game's deal (`place` 0) or of its step number `place`, from 1."""
    return jax.random.fold_in(key, place)


@partial(jax.jit, static_argnames="encoder")
def _deal(key: Array, *, encoder: Encoder) -> tuple[Seats, Shown]:
    return _show(deal(game_key(key, 0), encoder=encoder))


@jax.jit
def _next(seats: Seats, action: Array, key: Array) -> tuple[Seats, Shown]:
    return _show(seats.play(action, game_key(key, 1 + seats.packed.step_count)))


def _show(seats: Seats) -> tuple[Seats, Shown]:
    encoded, packed = jnp.stack([seats.look(player) for player in PLAYERS]), seats.packed
    ends = packed.terminated, packed.truncated
    return seats, Shown(encoded, game.packed_legal_mask(packed), packed.rewards, *ends, packed.current_player)


_observe = jax.jit(lambda seats, player: observe_packed(seats.packed, player))
_unpack = jax.jit(lambda seats: seats.state)
