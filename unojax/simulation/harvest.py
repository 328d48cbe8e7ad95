"""The device's side of `unojax.simulate`: rows of slots, whose finished games are returned or counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, PartitionSpec

from unojax import bits, game, table
from unojax.device.lanes import NO_WALK, refill
from unojax.device.mesh import AXIS, spread
from unojax.device.platform import Platform
from unojax.device.static import Argument
from unojax.policies import PackedPolicy, Policy, ask
from unojax.rules import Rules
from unojax.simulation.slots import (
    Decision,
    Slots,
    Words,
    fresh_slots,
    is_cut_off,
    move_by,
    pick_action,
    pick_packed,
    play_rows,
    restart,
    words_at,
)
from unojax.table.account import Field as BitField

NODES_PER_BLOCK: Final = 16
"""Nodes between two checks for finished games. A longer row idles more (half a row per game of some 120 nodes); a shorter one
checks more often.
"""
BLOCKS_PER_CALL: Final = 8
MOST_COUNTED: Final = 2**23
"""Largest number of slots whose choices in a call add up in 32 bits, low bytes and the rest apart. Each slot adds the call's
nodes, and up to 255 from before.
"""
LONGEST: Final = 2**14
"""Steps of a game up to which lengths are counted on the device."""


class Results(NamedTuple):
    """Results of finished games, uint32[B] each; `game_index` is 2^32 - 1 for slots without one."""

    game_index: Array
    num_steps: Array
    num_choices: Array
    num_reshuffles: Array
    phase: Array
    hand_0: Array
    hand_1: Array
    illegal: Array


class FinishedFirst(NamedTuple):
    """Results of a call in one row, the `number` finished games first, int32[D] of each device."""

    results: Results
    number: Array


class Counts(NamedTuple):
    """Counts over the games that finished in a call: uint32[] each as in `Tally`, except the last three.

    Attributes:
        illegal: Games in which a policy chose an illegal action.
        choices, reshuffles: uint32[2] sums of the low byte and of the higher bytes, because 32 bits may be too few.
        lengths: uint32[LONGEST + 1] games by number of steps; longer ones count as the last.
    """

    games: Array
    wins_0: Array
    wins_1: Array
    stalemates: Array
    drawn: Array
    truncated: Array
    illegal: Array
    choices: Array
    reshuffles: Array
    lengths: Array


class Kept(NamedTuple):
    """Results of all games of a run in their order, uint32[G] each; `ending` holds the bit fields below."""

    num_steps: Array
    num_choices: Array
    num_reshuffles: Array
    ending: Array


PHASE: Final = BitField(0, 3)
HAND_0: Final = BitField(3, 7)
HAND_1: Final = BitField(10, 7)
"""Of `Kept.ending`: the phase that a game ended in, and the cards left in the hands."""


class Progress(NamedTuple):
    """Counts of a call whose results are kept: uint32[] each.

    Attributes:
        games: Games that finished.
        illegal: Finished games in which a policy chose an illegal action.
        first_illegal: Number of one of these.
    """

    games: Array
    illegal: Array
    first_illegal: Array


class Limits(NamedTuple):
    """Numbers that may vary without recompiling: uint32[] each.

    Attributes:
        num_games: Games of a run.
        max_steps: Limit of steps; ignored unless truncation is compiled in.
        part, parts: Only games whose number is `part` modulo `parts` are played.
    """

    num_games: Array
    max_steps: Array
    part: Array
    parts: Array


class Part(NamedTuple):
    """Games of one of several devices: those whose index in the share is `device` modulo `num_devices`.

    Attributes:
        device: uint32[] number of the device.
        num_devices: Static.
    """

    device: Any
    num_devices: int

    def number_of(self, index: Array, limits: Limits) -> Array:
        """Return the game numbers, uint32[...], of the device's own indices; `NO_WALK` stays."""
        place = index * np.uint32(self.num_devices) + self.device
        return jnp.where(index == NO_WALK, NO_WALK, place * limits.parts + limits.part)

    def index_of(self, number: Array, limits: Limits) -> Array:
        """Invert `number_of`; `NO_WALK` becomes an index beyond all games."""
        stride = np.uint32(self.num_devices) * limits.parts
        return jnp.where(number == NO_WALK, NO_WALK, number // stride)

    def size(self, limits: Limits) -> Array:
        """Count the games of the device: uint32[]."""
        stride = np.uint32(self.num_devices) * limits.parts
        first = self.number_of(jnp.uint32(0), limits)
        return (jnp.maximum(limits.num_games, first) - first + stride - np.uint32(1)) // stride


def start_run(
    batch_size: int, limits: Limits, policies: tuple[Policy, ...], rules: Rules, num_devices: int = 1
) -> tuple[Slots, Array]:
    """Start slots at games 0 .. batch_size - 1; also return the number of games begun on each device, uint32[D]."""
    on_each = batch_size // num_devices
    index = jnp.arange(on_each, dtype=jnp.uint32)
    parts = [Part(np.uint32(device), num_devices) for device in range(num_devices)]
    number = jnp.concatenate([part.number_of(index, limits) for part in parts])
    number = jnp.where(number < limits.num_games, number, NO_WALK)
    counts = dict.fromkeys(("num_choices", "num_reshuffles"), jnp.zeros_like(number))
    last_action = None if _all_packed(policies) else jnp.full_like(number, game.NO_ACTION, jnp.int8)
    slots = fresh_slots(number, rules, last_action=last_action, **counts)
    # Every leaf needs its own buffer, because the run donates them.
    begun = jnp.full(num_devices, on_each, jnp.uint32)
    slots = jax.tree.map(jnp.copy, slots)
    return spread((slots, begun), num_devices) if num_devices > 1 else (slots, begun)


Gather = Literal["hand out", "count", "keep"]
"""Destination of the results of finished games."""


@partial(jax.jit, static_argnames=("truncates", "gather", "on", "mesh"), donate_argnames=("slots", "kept"))
def advance_slots(
    slots: Slots,
    next_index: Array,
    seed: Words,
    limits: Limits,
    policies: Argument,
    kept: Kept | None = None,
    *,
    truncates: bool,
    gather: Gather,
    on: Platform,
    mesh: Mesh | None = None,
) -> tuple[Slots, Array, Results | FinishedFirst | Counts | Progress, Kept | None]:
    """Advance all slots by `NODES_PER_BLOCK * BLOCKS_PER_CALL` nodes.

    Return the games that finished, uint32[blocks, B] (on a GPU uint32[blocks * B], `FinishedFirst`), count them, or write them
    to their places in `kept`. `policies` are one for each player, or one for both. Each device of a mesh deals its own games
    (`Part`); `next_index`, counts and progress have an axis of devices.
    """
    how = {"truncates": truncates, "gather": gather, "on": on}
    if mesh is None:
        return _advance(slots, next_index, seed, limits, policies, kept, Part(np.uint32(0), 1), **how)

    def of_device(slots: Slots, next_index: Array, kept: Kept | None, seed: Words, limits: Limits, policies: Argument) -> Any:
        device = lax.axis_index(AXIS).astype(jnp.uint32)
        return _advance(slots, next_index, seed, limits, policies, kept, Part(device, mesh.size), **how)

    split, whole = PartitionSpec(AXIS), PartitionSpec()
    of_results = PartitionSpec(None, AXIS) if gather == "hand out" and on == "cpu" else split
    program = jax.shard_map(
        of_device,
        mesh=mesh,
        in_specs=(split, split, split, whole, whole, whole),
        out_specs=(split, split, of_results, split),
    )
    return program(slots, next_index, kept, seed, limits, policies)


def _advance(
    slots: Slots,
    next_index: Array,
    seed: Words,
    limits: Limits,
    policies: Argument,
    kept: Kept | None,
    part: Part,
    *,
    truncates: bool,
    gather: Gather,
    on: Platform,
) -> tuple[Slots, Array, Any, Kept | None]:
    """Run `advance_slots` on one device."""
    decide = partial(choose_moves, seed=seed, limits=limits, policies=policies.value, truncates=truncates)

    def finish(_: Slots, decision: Decision, after: Slots, rest: tuple[Array, Any]) -> Any:
        del decision
        next_index, gathered = rest
        after, next_index, results = _harvest(after, next_index, limits, truncates, part)
        if gather == "hand out":
            return after, (next_index, None), results
        if gather == "count":
            return after, (next_index, _count(gathered, results)), None
        return after, (next_index, _keep(gathered, results, partial(part.index_of, limits=limits))), None

    none: Any = {"hand out": None, "count": _no_counts(), "keep": (kept, _no_progress())}[gather]
    slots, (next_index, gathered), results = play_rows(
        slots,
        (next_index[0], none),
        lambda slots: Decision(decide(slots)),
        lambda index, slots, move: decide(slots),
        finish,
        num_nodes=NODES_PER_BLOCK,
        num_rows=BLOCKS_PER_CALL,
    )
    if gather == "hand out":
        return slots, next_index[None], _finished_first(results) if on == "gpu" else results, None
    if gather == "keep":
        kept, gathered = gathered
    return slots, next_index[None], jax.tree.map(lambda x: x[None], gathered), kept


def make_kept(num_games: int, num_devices: int = 1) -> Kept:
    """Allocate the results of a run, on each device for a power of two of games, so that similar runs share their program.

    A game's place is its index on the device.
    """
    room = 1 << (-(-num_games // num_devices) - 1).bit_length()
    kept = Kept(*(jnp.zeros(room * num_devices, jnp.uint32) for _ in Kept._fields))
    return spread(kept, num_devices) if num_devices > 1 else kept


def in_order(kept: Kept, num_devices: int) -> Kept:
    """Put the results of all devices in the order of the games."""
    return jax.tree.map(lambda field: field.reshape(num_devices, -1).T.reshape(-1), kept)


def _no_progress() -> Progress:
    zero = jnp.zeros((), jnp.uint32)
    return Progress(zero, zero, zero)


def _keep(so_far: tuple[Kept, Progress], results: Results, index_of: Callable[[Array], Array]) -> tuple[Kept, Progress]:
    """Write the finished games of a block to their places."""
    kept, progress = so_far
    ended = results.game_index != NO_WALK
    ending = PHASE.put(results.phase) | HAND_0.put(results.hand_0) | HAND_1.put(results.hand_1)
    fields = Kept(results.num_steps, results.num_choices, results.num_reshuffles, ending)

    place = index_of(results.game_index)

    def put(into: Array, field: Array) -> Array:
        return into.at[place].set(field, mode="drop", unique_indices=True)

    illegal = ended & (results.illegal != 0)
    first = jnp.where(illegal, results.game_index, NO_WALK).min()
    return jax.tree.map(put, kept, fields), Progress(
        games=progress.games + ended.sum(dtype=jnp.uint32),
        illegal=progress.illegal + illegal.sum(dtype=jnp.uint32),
        first_illegal=jnp.where(progress.illegal > 0, progress.first_illegal, first),
    )


def _finished_first(results: Results) -> FinishedFirst:
    """Move the results of finished games to the front, in one row, so that the host fetches only these."""
    flat = jax.tree.map(jnp.ravel, results)
    ended = flat.game_index != NO_WALK
    so_far = jnp.cumsum(ended, dtype=jnp.int32)
    place = jnp.where(ended, so_far - 1, len(ended))

    def put(field: Array) -> Array:
        return jnp.full_like(field, NO_WALK).at[place].set(field, mode="drop", unique_indices=True)

    return FinishedFirst(jax.tree.map(put, flat), so_far[-1:])


def _no_counts() -> Counts:
    """Return counts of no games."""
    zero, pair = jnp.zeros((), jnp.uint32), jnp.zeros(2, jnp.uint32)
    others = dict.fromkeys(set(Counts._fields) - {"choices", "reshuffles", "lengths"}, zero)
    return Counts(choices=pair, reshuffles=pair, lengths=jnp.zeros(LONGEST + 1, jnp.uint32), **others)


def _count(counts: Counts, results: Results) -> Counts:
    """Add the finished games of a block."""
    ended = results.game_index != NO_WALK
    phase, truncated = results.phase, ended & (results.phase == table.PLAY)
    stalemate = ended & ~truncated & (results.hand_0 > 0) & (results.hand_1 > 0)

    def number(where: Array) -> Array:
        return where.sum(dtype=jnp.uint32)

    def total(of: Array) -> Array:
        of = jnp.where(ended, of, np.uint32(0))
        return jnp.stack([part.sum(dtype=jnp.uint32) for part in (of & np.uint32(0xFF), of >> np.uint32(8))])

    length = jnp.where(ended, jnp.minimum(results.num_steps, np.uint32(LONGEST)), np.uint32(LONGEST + 1)).astype(jnp.int32)
    more = Counts(
        games=number(ended),
        wins_0=number(ended & (phase == table.OVER_WON_BY_0)),
        wins_1=number(ended & (phase == table.OVER_WON_BY_1)),
        stalemates=number(stalemate),
        drawn=number(ended & (phase == table.OVER_DRAWN)),
        truncated=number(truncated),
        illegal=number(ended & (results.illegal != 0)),
        choices=total(results.num_choices),
        reshuffles=total(results.num_reshuffles),
        lengths=jnp.zeros_like(counts.lengths).at[length].add(np.uint32(1), mode="drop"),
    )
    return jax.tree.map(jnp.add, counts, more)


def choose_moves(slots: Slots, seed: Words, limits: Limits, policies: tuple[Policy, ...], truncates: bool) -> Array:
    """Choose a move (see `unojax.table`) at each slot's node, for `carry_out`."""
    word, coins = words_at(seed, slots)
    node = table.find_node(slots.table, slots.rules)
    if _all_packed(policies):
        packed: tuple[Any, ...] = policies
        pick, is_illegal = pick_packed(packed, slots, node, word)
    else:
        pick, is_illegal = pick_action(_ask(policies, slots, (word, coins)), node, word, slots.rules)
    stands_still = slots.game == NO_WALK
    if truncates:
        stands_still |= is_cut_off(slots, limits.max_steps)
    return move_by(slots, node, pick, coins, is_illegal, stands_still)


def _all_packed(policies: tuple[Policy, ...]) -> bool:
    return all(isinstance(policy, PackedPolicy) for policy in policies)


def _ask(policies: tuple[Policy, ...], slots: Slots, words: Words) -> Array:
    """Call policies through the protocol: int32[B]."""

    def ask_one(one: Slots, words: Words) -> Array:
        key = jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")
        return ask(policies, key, one.observation, one.legal_mask)

    return jax.vmap(ask_one)(slots, words)


def _harvest(slots: Slots, next_index: Array, limits: Limits, truncates: bool, part: Part) -> tuple[Slots, Array, Results]:
    """Return the results of finished games and start the next games in their slots."""
    meta = slots.table.unpack_meta()
    ended = meta.is_over | slots.illegal
    if truncates:
        ended |= is_cut_off(slots, limits.max_steps)
    ended &= slots.game != NO_WALK
    assert slots.num_choices is not None and slots.num_reshuffles is not None, "a run counts them"
    results = Results(
        game_index=jnp.where(ended, slots.game, NO_WALK),
        num_steps=slots.num_steps,
        num_choices=slots.num_choices,
        num_reshuffles=slots.num_reshuffles,
        phase=meta.phase,
        hand_0=bits.count(slots.table.cards_of(table.HAND_0, slots.rules)),
        hand_1=bits.count(slots.table.cards_of(table.HAND_1, slots.rules)),
        illegal=slots.illegal.astype(jnp.uint32),
    )
    index, next_index = refill(ended, next_index, part.size(limits))
    return restart(slots, ended, part.number_of(index, limits)), next_index, results
