"""All hands of the past at once: the likelihood of the opponent's plays as a GPU likes it.

`likelihood.log_likelihood` replays the plays one after the other. Here the plays of an account become steps that are all alike,
the hands at all steps are worked out together, and then all factors of the likelihood are: a few kernels, whatever the number of
plays.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from unojax.belief.opponents import OpponentModel, PackedOpponent
from unojax.belief.particles.accounts import NO_SLOT, RELEASED, ROWS_PER_TURN, Cloud, capacity_for, card_of
from unojax.belief.particles.ledger import Ledger, Plays, as_words
from unojax.belief.particles.likelihood import LOG_SCALE, Exchange, Shown, factor_of, show, start_log_prob
from unojax.bits import Words
from unojax.observation import Observation
from unojax.rules import Rules

_ROWS_PER_BLOCK: Final = 8


class Script(NamedTuple):
    """The plays of a ledger in steps that are all alike: at most two cards acquired, then a play or none. J steps.

    Of the slots filled before the first play, the first few (`_num_at_once`) are filled before the first step.

    Attributes:
        first, end: int32[J] the slot of the first card acquired, and that after the last one.
        play: int32[J] the number of the play.
        is_play: bool[J] there is one.
    """

    first: Array
    end: Array
    play: Array
    is_play: Array


class Past(NamedTuple):
    """Hands of N particles in the past.

    Attributes:
        script: the steps.
        shown: the play of each step, [J] each.
        hands: four uint32[J, N], before each step's play.
        dealt: four uint32[N], the hand as it was dealt, if the ledger knows of a deal.
    """

    script: Script
    shown: Shown
    hands: Words
    dealt: Words


def num_steps(ledger: Ledger, rules: Rules) -> Array:
    """Count the steps of a ledger's script: int32[]."""
    return _timetable(ledger, rules)[1][-1]


def script_of(ledger: Ledger, rules: Rules, length: int) -> Script:
    """Write the script of a ledger whose plays take at most `length` steps (static)."""
    before, ends = _timetable(ledger, rules)
    step = jnp.arange(capacity_for(length))
    play = jnp.minimum((ends[None] <= step[:, None]).sum(1, dtype=jnp.int32), len(ends) - 1)
    begins = jnp.where(play > 0, ends[jnp.maximum(play - 1, 0)], 0)
    first = before[play] + 2 * (step - begins)
    is_step = step < ends[-1]
    end = jnp.where(is_step, jnp.minimum(first + 2, ledger.plays.slots_before[play]), 0)
    return Script(first, end, play, is_step & (step == ends[play] - 1))


def _timetable(ledger: Ledger, rules: Rules) -> tuple[Array, Array]:
    """Give the slots filled before each play's own, and the number of steps up to each play: int32[T] each."""
    filled = ledger.plays.slots_before
    before = jnp.concatenate([jnp.minimum(filled[:1], _num_at_once(rules)), filled[:-1]])
    steps = jnp.maximum((filled - before + 1) // 2, 1)
    return before, jnp.cumsum(jnp.where(jnp.arange(len(filled)) < ledger.num_plays, steps, 0), dtype=jnp.int32)


def _num_at_once(rules: Rules) -> int:
    return min(rules.hand_size, 8)


def past_of(cloud: Cloud, ledger: Ledger, rules: Rules, length: int) -> Past:
    """Work out the hands at all plays, which take at most `length` steps (static)."""
    script = script_of(ledger, rules, length)
    plays = Plays(*(rows[script.play] for rows in ledger.plays))

    def cards_of(labels: Array, counts: Array) -> Words:
        return card_of(jnp.where(counts, labels & ~RELEASED, RELEASED))

    def first_slots(number: int, end: Array) -> Words:
        labels = cloud.labels[:number]
        words = cards_of(labels, (jnp.arange(len(labels)) < end)[:, None])
        return as_words(jnp.stack([lax.reduce_or(word, (0,)) for word in words]))

    # A card comes or goes where it changes the hand: the hand at a step is the sum, modulo two, of the changes up to then.
    rows = [cloud.labels.at[script.first + i].get(mode="clip") for i in range(2)]
    came = [cards_of(row, (script.first + i < script.end)[:, None]) for i, row in enumerate(rows)]
    played = cloud.played.at[script.play].get(mode="clip")
    went = cards_of(played, script.is_play[:, None])
    start = first_slots(_num_at_once(rules), ledger.plays.slots_before[0])

    def change(a: Array, b: Array, gone: Array, start: Array) -> Array:
        return a ^ b ^ jnp.concatenate([start[None], gone[:-1]])

    hands = _running_xor(jnp.stack([change(*words) for words in zip(*came, went, start, strict=True)], 1))
    return Past(script, show(plays), as_words(jnp.moveaxis(hands, 1, 0)), first_slots(rules.hand_size, ledger.num_dealt))


def _running_xor(rows: Array) -> Array:
    """Xor each row with all rows before it: uint32[J, ...]."""
    if len(rows) <= _ROWS_PER_BLOCK:
        return jnp.stack(list(accumulate(rows, jnp.bitwise_xor)))
    padded = jnp.pad(rows, ((0, -len(rows) % _ROWS_PER_BLOCK), *[(0, 0)] * (rows.ndim - 1)))
    blocks = padded.reshape(-1, _ROWS_PER_BLOCK, *rows.shape[1:])
    within = list(accumulate((blocks[:, i] for i in range(_ROWS_PER_BLOCK)), jnp.bitwise_xor))
    # Kept from being fused into what follows, where each row would do it all again.
    inside, totals = lax.optimization_barrier((jnp.stack(within, 1), within[-1]))
    before = jnp.concatenate([jnp.zeros_like(totals[:1]), _running_xor(totals)[:-1]])
    return (inside ^ before[:, None]).reshape(-1, *rows.shape[1:])[: len(rows)]


def past_log_likelihood(
    past: Past, ledger: Ledger, opponent: OpponentModel, like: Observation, exchange: Exchange | None = None
) -> Array:
    """Compute the log likelihood (nats) of all plays of the opponent: float32[N]; see `likelihood.log_likelihood`."""
    script = past.script

    def of_step(shown: Shown, is_play: Array, hand: Words) -> Array:
        before = hand if exchange is None else exchange.hand(hand, shown.play.slots_before)
        return jnp.where(is_play, factor_of(before, shown, opponent, like), 1.0)

    if isinstance(opponent, PackedOpponent):
        factors = jax.vmap(of_step)(past.shown, script.is_play, past.hands)
    else:
        # Such a model unpacks the hands: one step at a time, for the sake of memory.
        factors = lax.map(lambda step: of_step(*step), (past.shown, script.is_play, past.hands))
    by_turn = factors.reshape(-1, ROWS_PER_TURN, factors.shape[-1])
    numbers = script.is_play.reshape(-1, ROWS_PER_TURN).sum(1, dtype=jnp.float32)
    product = by_turn[:, 0]
    for offset in range(1, ROWS_PER_TURN):
        product = product * by_turn[:, offset]
    dealt = past.dealt if exchange is None else exchange.hand(past.dealt, ledger.num_dealt)
    return start_log_prob(dealt, ledger) + (jnp.log(product) - numbers[:, None] * LOG_SCALE).sum(0)


def exchanged(past: Past, ledger: Ledger, exchange: Exchange, where: Array) -> Past:
    """Give the past after an exchange in the particles `where` (bool[N])."""
    made = Exchange(exchange.cards, *(jnp.where(where, slot, NO_SLOT) for slot in (exchange.slot, exchange.other)))
    hands = jax.vmap(made.hand)(past.hands, past.shown.play.slots_before)
    return past._replace(hands=hands, dealt=made.hand(past.dealt, ledger.num_dealt))
