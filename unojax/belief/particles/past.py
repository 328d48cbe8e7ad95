"""All hands of the past at once: the likelihood of the opponent's plays as a GPU likes it.

`likelihood.log_likelihood` replays the plays one after the other. Here the plays of an account become steps that are all alike,
and a thread takes a few of them, from the hand that the particle held before (`Past.starts`): a few kernels, whatever the number
of plays.
"""

from __future__ import annotations

from functools import reduce
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax.belief.opponents import Opponent, is_packed, models_of
from unojax.belief.particles.accounts import NO_SLOT, RELEASED, ROWS_PER_TURN, Cloud, card_of
from unojax.belief.particles.ledger import Ledger, Plays
from unojax.belief.particles.likelihood import LOG_SCALE, Exchange, Shown, by_type, factor_of, show, start_log_prob
from unojax.bits import Words, empty, map_words
from unojax.device.batching import look_up
from unojax.observation import Observation
from unojax.rules import Rules

_STEPS_PER_BLOCK: Final = ROWS_PER_TURN


class Script(NamedTuple):
    """The plays of a ledger in steps that are all alike: at most two cards acquired, then a play or none. K blocks of B steps.

    Of the slots filled before the first play, the first few (`_num_at_once`) are filled before the first step.

    Attributes:
        first, end: int32[K, B] the slot of the first card acquired, and that after the last one.
        play: int32[K, B] the number of the play.
        is_play: bool[K, B] there is one.
    """

    first: Array
    end: Array
    play: Array
    is_play: Array


class Past(NamedTuple):
    """Hands of N particles in the past.

    Attributes:
        script: the steps.
        shown: the play of each step, [K, B] each.
        num_plays: float32[K], in each block.
        starts: four uint32[K, N], before each block.
        dealt: four uint32[N], the hand as it was dealt, if the ledger knows of a deal.
    """

    script: Script
    shown: Shown
    num_plays: Array
    starts: Words
    dealt: Words


def num_steps(ledger: Ledger, rules: Rules) -> Array:
    """Count the steps of a ledger's script: int32[]."""
    return _timetable(ledger, rules)[1][-1]


def script_of(ledger: Ledger, rules: Rules, length: int) -> Script:
    """Write the script of a ledger whose plays take at most `length` steps (static)."""
    before, ends = _timetable(ledger, rules)
    num_blocks = -(-length // _STEPS_PER_BLOCK)
    step = jnp.arange(num_blocks * _STEPS_PER_BLOCK)
    play = jnp.minimum((ends[None] <= step[:, None]).sum(1, dtype=jnp.int32), len(ends) - 1)
    begins = jnp.where(play > 0, ends[jnp.maximum(play - 1, 0)], 0)
    first = before[play] + 2 * (step - begins)
    is_step = step < ends[-1]
    end = jnp.where(is_step, jnp.minimum(first + 2, ledger.plays.slots_before[play]), 0)
    is_play = is_step & (step == ends[play] - 1)
    return Script(*(field.reshape(num_blocks, -1) for field in (first, end, play, is_play)))


def _timetable(ledger: Ledger, rules: Rules) -> tuple[Array, Array]:
    """Give the slots filled before each play's own, and the number of steps up to each play: int32[T] each."""
    filled = ledger.plays.slots_before
    before = jnp.concatenate([jnp.minimum(filled[:1], _num_at_once(rules)), filled[:-1]])
    steps = jnp.maximum((filled - before + 1) // 2, 1)
    return before, jnp.cumsum(jnp.where(jnp.arange(len(filled)) < ledger.num_plays, steps, 0), dtype=jnp.int32)


def _num_at_once(rules: Rules) -> int:
    return min(rules.hand_size, 8)


def past_of(cloud: Cloud, ledger: Ledger, rules: Rules, length: int) -> Past:
    """Work out the hands before all blocks of plays, which take at most `length` steps (static)."""
    script = script_of(ledger, rules, length)
    plays = Plays(*(rows[script.play] for rows in ledger.plays))

    def first_slots(number: int, end: Array) -> Words:
        slots = range(min(number, len(cloud.labels)))
        return reduce(_xor, (_card_where(cloud.labels[slot], slot < end) for slot in slots), empty(cloud.hand[0]))

    def change(script: Script) -> Words:
        """Collect the cards that come or go in a block, but for those that do both: the sum modulo two."""
        steps = [Script(*(field[i] for field in script)) for i in range(_STEPS_PER_BLOCK)]
        return reduce(_xor, (_xor(_came(cloud, step), _went(cloud, step)) for step in steps))

    # Kept from being fused into what follows, where each block would do it all again.
    changes = lax.optimization_barrier(jax.vmap(change)(Script(*(field[:-1] for field in script))))
    at_first = first_slots(_num_at_once(rules), ledger.plays.slots_before[0])

    block = jnp.arange(len(script.first))
    is_earlier = (block[:, None] > block[:-1])[..., None]

    def starts(changes: Array, at_first: Array) -> Array:
        return at_first ^ lax.reduce_xor(jnp.where(is_earlier, changes, np.uint32(0)), (1,))

    return Past(
        script=script,
        shown=show(plays),
        num_plays=script.is_play.sum(1, dtype=jnp.float32),
        starts=map_words(starts, changes, at_first),
        dealt=first_slots(rules.hand_size, ledger.num_dealt),
    )


def past_log_likelihood(
    past: Past, cloud: Cloud, ledger: Ledger, opponent: Opponent, like: Observation, exchange: Exchange | None = None
) -> Array:
    """Compute the log likelihood (nats) of all plays of the opponent: float32[N] or [K, N]; see `likelihood.log_likelihood`."""
    models = models_of(opponent)

    def seen_from(hand: Words, num_slots: Array) -> Words:
        return hand if exchange is None else exchange.hand(hand, num_slots)

    def of_block(block: tuple[Script, Shown, Array, Words]) -> list[Array]:
        script, shown, num_plays, hand = block
        products = [jnp.ones_like(hand[0], jnp.float32)] * len(models)
        for i in range(_STEPS_PER_BLOCK):
            step, play = jax.tree.map(lambda rows, i=i: rows[i], (script, shown))
            hand = _xor(hand, _came(cloud, step))
            seen = seen_from(hand, play.play.slots_before)
            factors = [factor_of(seen, play, model, like) for model in models]
            products = [p * jnp.where(step.is_play, f, 1.0) for p, f in zip(products, factors, strict=True)]
            hand = _xor(hand, _went(cloud, step))
        return [jnp.log(product) - num_plays * LOG_SCALE for product in products]

    # A model that is not packed unpacks the hands: one block at a time, for the sake of memory.
    over_blocks = jax.vmap(of_block) if is_packed(opponent) else lambda blocks: lax.map(of_block, blocks)
    totals = over_blocks((past.script, past.shown, past.num_plays, past.starts))
    at_start = start_log_prob(seen_from(past.dealt, ledger.num_dealt), ledger)
    return by_type([at_start + total.sum(0) for total in totals], opponent)


def exchanged(past: Past, ledger: Ledger, exchange: Exchange, where: Array) -> Past:
    """Give the past after an exchange in the particles `where` (bool[N])."""
    made = Exchange(exchange.cards, *(jnp.where(where, slot, NO_SLOT) for slot in (exchange.slot, exchange.other)))
    # Slots that are filled when a block begins are those before its first step's.
    starts = jax.vmap(made.hand)(past.starts, past.script.first[:, 0])
    return past._replace(starts=starts, dealt=made.hand(past.dealt, ledger.num_dealt))


def _came(cloud: Cloud, step: Script) -> Words:
    """Collect the cards that are acquired in a step."""
    rows = [look_up(cloud.labels, step.first + i) for i in range(2)]
    return _xor(*(_card_where(row, step.first + i < step.end) for i, row in enumerate(rows)))


def _went(cloud: Cloud, step: Script) -> Words:
    """Collect the card that is played in a step."""
    return _card_where(look_up(cloud.played, step.play), step.is_play)


def _card_where(labels: Array, counts: Array | bool) -> Words:
    return card_of(jnp.where(counts, labels & ~RELEASED, RELEASED))


def _xor(a: Words, b: Words) -> Words:
    return map_words(lambda x, y: x ^ y, a, b)
