"""All past hands at once: the likelihood of the opponent's choices in the form for a GPU.

The history of a game becomes a **schedule** of uniform steps, four per block, and the blocks of all games form one row. A thread
processes a block, from the hand that the particle held before it (`Past.starts`). So a few kernels suffice for any number of
choices, and short games do not wait for long ones. `likelihood.log_likelihood` replays the choices one after the other.

An exchange of cards changes no hand from before its slots were filled, so a schedule may leave out the records from before a
given slot was filled (`since`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax.belief.opponents import Opponent, is_packed, models_of
from unojax.belief.particles.likelihood import Exchange, LogLikelihood, log_factors, of_types, start_log_prob, without_choices
from unojax.belief.particles.public import Deal, PublicHistory, Record, decode
from unojax.belief.particles.rows import GROUP
from unojax.belief.particles.trajectory import NO_SLOT, RELEASED, Trajectories, as_words, card_of, card_words
from unojax.bits import Words, map_words
from unojax.device.batching import take_rows
from unojax.observation import Observation
from unojax.rules import Rules

STEPS_PER_BLOCK: Final = GROUP
_BLOCKS_PER_GROUP: Final = 16
_UNPACKED_LANES: Final = 2**17


class Schedule(NamedTuple):
    """Histories of C games in K blocks of B uniform steps: at most two cards acquired, then at most one record.

    It begins with the hand at its first record, and ends with the present hand.

    Attributes:
        game: int32[K] the game of each block; blocks of a game are consecutive.
        first, end: int32[K, B] the slot of the first card acquired, and that after the last one.
        record: int32[K, B] the number of the record.
        is_record: bool[K, B] there is one.
        begin, number: int32[C] first block and number of blocks of each game.
    """

    game: Array
    first: Array
    end: Array
    record: Array
    is_record: Array
    begin: Array
    number: Array

    def step(self, i: int) -> Schedule:
        """Return a step of a block's schedule."""
        return self._replace(first=self.first[i], end=self.end[i], record=self.record[i], is_record=self.is_record[i])

    def by_block(self) -> Schedule:
        """Return the schedule with its blocks on the leading axis of every field, for `jax.vmap`."""
        return self._replace(begin=self.game, number=self.game)


class Past(NamedTuple):
    """Past hands of N particles of C games.

    Attributes:
        schedule: Steps, in K blocks.
        place: int32[K] index of each block's game in the tables of labels.
        records: Record of each step, [K, B] each.
        starts: uint32[K, 4, N], hands before each block.
        dealt: uint32[C, 4, N], the hand as it was dealt, if the history includes a deal.
    """

    schedule: Schedule
    place: Array
    records: Record
    starts: Array
    dealt: Array


def num_blocks(history: PublicHistory, since: Array) -> Array:
    """Count the blocks of a game's schedule: int32[]; `since` as for `past_of`."""
    return -(-_steps(history, since)[2].sum(dtype=jnp.int32) // STEPS_PER_BLOCK)


def most_blocks(max_slots: int, max_records: int) -> int:
    """Return the largest number of blocks in a game's schedule."""
    return -(-(max_records + (max_slots + 1) // 2) // STEPS_PER_BLOCK)


def schedule_of(histories: PublicHistory, since: Array, wanted: Array, length: int) -> Schedule:
    """Write the schedule of the `wanted` ones of C games (bool[C]), which have at most `length` blocks (static) together."""
    before, filled, steps = jax.vmap(_steps)(histories, since)
    ends = jnp.cumsum(steps, axis=1, dtype=jnp.int32)
    number = jnp.where(wanted, -(-ends[:, -1] // STEPS_PER_BLOCK), 0)
    index = jnp.arange(len(number))
    begin = jnp.where(index[:, None] > index[None], number[None], 0).sum(1, dtype=jnp.int32)
    block = jnp.arange(length)
    game = jnp.maximum((begin[None] <= block[:, None]).sum(1, dtype=jnp.int32) - 1, 0)
    # Blocks beyond the last one have no steps: they count as later ones of the last game.
    step = STEPS_PER_BLOCK * (block - begin[game])[:, None] + jnp.arange(STEPS_PER_BLOCK)[None]
    filled, ends = filled[game], jnp.where(wanted[:, None], ends, 0)[game]
    record = jnp.minimum((ends[:, None] <= step[..., None]).sum(-1, dtype=jnp.int32), ends.shape[1] - 1)

    def at_record(rows: Array, record: Array) -> Array:
        return jnp.take_along_axis(rows, record, 1, mode="clip")

    begins = jnp.where(record > 0, at_record(ends, record - 1), 0)
    first = at_record(before[game], record) + 2 * (step - begins)
    is_step = step < ends[:, -1:]
    end = jnp.where(is_step, jnp.minimum(first + 2, at_record(filled, record)), 0)
    is_record = is_step & (step == at_record(ends, record) - 1) & (record < histories.num_records[game][:, None])
    return Schedule(game, first, end, jnp.minimum(record, histories.records.shape[1] - 1), is_record, begin, number)


def _steps(history: PublicHistory, since: Array) -> tuple[Array, Array, Array]:
    """Return the slots filled before each record's steps and those before the record, and the number of steps: int32[T + 1] each.

    After the last record, all slots are filled.
    """
    is_record = jnp.arange(history.max_records + 1) < history.num_records
    filled = jnp.where(is_record, jnp.pad(decode(history.records).slots_before, (0, 1)), history.num_slots)
    counts = is_record & (filled > since)
    follows = jnp.concatenate([jnp.zeros(1, bool), counts[:-1]])
    before = jnp.where(follows, jnp.roll(filled, 1), filled)
    return before, filled, jnp.maximum((filled - before + 1) // 2, counts.astype(jnp.int32))


def past_of(
    now: Trajectories, at: Array, histories: PublicHistory, since: Array, rules: Rules, wanted: Array, length: int
) -> Past:
    """Compute the hands before all blocks of records.

    Args:
        now: Trajectories, with labels uint8[G, S, N] and played cards uint8[G, T, N].
        at: int32[C] indices of the games in them.
        histories: Histories of the C games.
        since: int32[C] slots. Records from before a game's slot was filled are left out.
        rules: Rules of all games.
        wanted: bool[C] games to compute.
        length: Largest total number of their blocks; static.
    """
    schedule = schedule_of(histories, since, wanted, length)
    # An index beyond the end belongs to a game that is not wanted.
    at = jnp.minimum(at, len(now.labels) - 1)
    place = at[schedule.game]

    def dealt_cards(num_dealt: Array) -> Array:
        slots = range(min(rules.hand_size, now.labels.shape[1]))
        rows = (now.labels.at[at, slot].get(mode="promise_in_bounds") for slot in slots)
        labels = (_where(row & ~RELEASED, (slot < num_dealt)[:, None]) for slot, row in zip(slots, rows, strict=True))
        return _sum_of_cards(labels).swapaxes(0, 1)

    @jax.vmap
    def change(place: Array, block: Schedule) -> Array:
        """Collect the cards that come or go in a block, except those that do both: the sum modulo two."""
        steps = map(block.step, range(STEPS_PER_BLOCK))
        return _sum_of_cards(label for step in steps for label in (*_came(now, place, step), _went(now, place, step)))

    # Prevent fusion with later operations, where each block would repeat it all.
    before = _sum_before(lax.optimization_barrier(change(place, schedule.by_block())))
    # The present hand, without all changes of its game. Those of earlier games occur twice, so they cancel.
    of_games = before.at[schedule.begin + schedule.number].get(mode="clip") ^ now.hand.at[at].get(mode="promise_in_bounds")
    return Past(
        schedule=schedule,
        place=place,
        records=decode(histories.records[schedule.game[:, None], schedule.record]),
        starts=before[:-1] ^ of_games.at[schedule.game].get(mode="promise_in_bounds"),
        dealt=dealt_cards(histories.deal[:, 0]),
    )


def _sum_before(rows: Array) -> Array:
    """Sum modulo two, for each row of uint32[K, 4, N] and for their end, all earlier rows: uint32[K + 1, 4, N]."""
    number, shape = len(rows) + 1, rows.shape[1:]
    groups = jnp.pad(rows, ((0, -len(rows) % _BLOCKS_PER_GROUP or _BLOCKS_PER_GROUP), (0, 0), (0, 0)))
    groups = groups.reshape(-1, _BLOCKS_PER_GROUP, *shape)

    def earlier(rows: Array) -> Array:
        """Sum up along the axis before the last two."""
        index = jnp.arange(rows.shape[-3])
        is_earlier = (index[:, None] > index[None])[..., None, None]
        return lax.reduce_xor(jnp.where(is_earlier, rows[..., None, :, :, :], np.uint32(0)), (rows.ndim - 2,))

    of_groups = earlier(lax.reduce_xor(groups, (1,)))
    return (earlier(groups) ^ of_groups[:, None]).reshape(-1, *shape)[:number]


def log_likelihoods(
    past: Past,
    now: Trajectories,
    histories: PublicHistory,
    opponent: Opponent,
    like: Observation,
    exchange: Exchange | None = None,
    split: Array | None = None,
) -> list[LogLikelihood]:
    """Compute the log likelihood of all choices of the opponents: [C, N] or [C, K, N] each.

    See `likelihood.log_likelihood`; all arguments are of C games, except `past` and `now`. With slots `split` (int32[C]) there
    are two results: of the choices from before a game's slot was filled, and of the later ones; else one.
    """
    schedule = past.schedule

    def of_block(place: Array, block: Schedule, records: Record, start: Array) -> list[list[LogLikelihood]]:
        hand, seen_by, made, since = as_words(start), *take_rows((like, exchange, split), block.game)
        nothing = without_choices(jnp.zeros(hand[0].shape, jnp.float32), like.rules)
        totals = [[nothing] * len(models_of(opponent))] * (1 if since is None else 2)
        for i in range(STEPS_PER_BLOCK):
            step, record = block.step(i), jax.tree.map(lambda rows, i=i: rows[i], records)
            hand = reduce(_xor, map(card_words, _came(now, place, step)), hand)
            seen, drawn = hand if made is None else made.apply(hand, record.slots_before), None
            if like.rules.keeps_account:
                slot = jnp.maximum(record.slots_before - 1, 0)
                drawn = _row(now.labels, place, slot) & ~RELEASED
                drawn = drawn if made is None else made.label_at(drawn, slot)
            factors = log_factors(seen, drawn, record, opponent, seen_by)
            is_late = None if since is None else record.slots_before > since
            parts = [step.is_record] if is_late is None else [step.is_record & ~is_late, step.is_record & is_late]
            totals = [
                [total.plus(_if(counts, factor)) for total, factor in zip(of_models, factors, strict=True)]
                for of_models, counts in zip(totals, parts, strict=True)
            ]
            hand = _xor(hand, card_words(_went(now, place, step)))
        return totals

    blocks = past.place, schedule.by_block(), past.records, past.starts
    if is_packed(opponent):
        totals = jax.vmap(of_block)(*blocks)
    else:
        # A model that is not packed unpacks the hands, so process a few blocks at a time to save memory.
        some = max(1, _UNPACKED_LANES // past.starts.shape[-1])
        totals = lax.map(lambda block: of_block(*block), blocks, batch_size=some)
    deals = Deal(*histories.deal.T)
    dealt = past.dealt if exchange is None else past.dealt ^ jax.vmap(Exchange.change)(exchange, deals.num_dealt)
    at_start = jax.vmap(lambda hand, deal: start_log_prob(as_words(hand), deal, like.rules))(dealt, deals)
    most = most_blocks(now.labels.shape[1], histories.records.shape[1])
    *early, late = [[_sum_of_games(total, schedule, most) for total in of_models] for of_models in totals]
    # A card that moves may have been dealt.
    late = [without_choices(at_start, like.rules).plus(total) for total in late]
    return [jax.vmap(lambda *of_game: of_types(of_game, opponent))(*of_models) for of_models in (*early, late)]


def _if(counts: Array, factor: LogLikelihood) -> LogLikelihood:
    """Return the log likelihood of a step: 0 and possible unless its record counts."""
    return jax.tree.map(lambda x: jnp.where(counts, x, x.dtype.type(0)), factor)


def _sum_of_games(of_blocks: LogLikelihood, schedule: Schedule, most: int) -> LogLikelihood:
    """Add up the log likelihoods [K, N] of blocks for each game, which has `most` (static) at most: [C, N] each."""
    index = jnp.arange(min(most, len(of_blocks.softened)))
    is_own = (index[None] < schedule.number[:, None])[..., None]

    def own(rows: Array) -> Array:
        rows = rows.at[schedule.begin[:, None] + index[None]].get(mode="clip", wrap_negative_indices=False)
        return jnp.where(is_own, rows, 0.0)

    softened, are_impossible = of_blocks
    # As a number, so that one kernel adds up both.
    number = None if are_impossible is None else own(are_impossible.astype(jnp.float32)).sum(1)
    return LogLikelihood(own(softened).sum(1), None if number is None else number > 0)


def exchanged(past: Past, histories: PublicHistory, exchange: Exchange, where: Array) -> Past:
    """Return the past after an exchange in the particles `where` (bool[C, N])."""
    slot, other = (jnp.where(where, slot, NO_SLOT) for slot in (exchange.slot, exchange.other))
    made = exchange._replace(slot=slot, other=other)

    def start(game: Array, hand: Array, first: Array) -> Array:
        # Slots that are filled when a block begins are those before its first step's.
        return hand ^ take_rows(made, game).change(first)

    starts = jax.vmap(start)(past.schedule.game, past.starts, past.schedule.first[:, 0])
    return past._replace(starts=starts, dealt=past.dealt ^ jax.vmap(Exchange.change)(made, histories.deal[:, 0]))


def _row(table: Array, place: Array, index: Array) -> Array:
    """Return a row of a game's table; the last one for an index beyond it."""
    number = table.shape[1]
    rows = table.reshape(-1, table.shape[2]).at[place * number + jnp.minimum(index, number - 1)]
    return rows.get(mode="promise_in_bounds", wrap_negative_indices=False)


def _came(now: Trajectories, place: Array, step: Schedule) -> tuple[Array, Array]:
    """Return the labels of the cards that are acquired in a step; `RELEASED` for no card."""
    rows = (_row(now.labels, place, step.first + i) & ~RELEASED for i in range(2))
    first, second = (_where(row, step.first + i < step.end) for i, row in enumerate(rows))
    return first, second


def _went(now: Trajectories, place: Array, step: Schedule) -> Array:
    """Return the label of the card that is played in a step; `RELEASED` for no card."""
    return _where(_row(now.played, place, step.record), step.is_record)


def _where(labels: Array, counts: Array) -> Array:
    return jnp.where(counts, labels, RELEASED)


def _sum_of_cards(labels: Iterable[Array]) -> Array:
    """Sum cards modulo two, by their labels [...]: uint32[4, ...]."""
    return reduce(jnp.bitwise_xor, map(card_of, labels))


def _xor(a: Words, b: Words) -> Words:
    return map_words(lambda x, y: x ^ y, a, b)
