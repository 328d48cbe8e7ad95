"""All hands of the past at once: the likelihood of the opponent's plays as a GPU likes it.

`likelihood.log_likelihood` replays the plays one after the other. Here the plays of an account become steps that are all alike,
four of them a block, and the blocks of all games stand in one row, as many as each game has. A thread takes a block, from the
hand that the particle held before (`Past.starts`). So it takes a few kernels, whatever the number of plays, and short games don't
wait for long ones.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax.belief.opponents import Opponent, is_packed, models_of
from unojax.belief.particles.accounts import NO_SLOT, RELEASED, ROWS_PER_TURN, Cloud, card_of
from unojax.belief.particles.ledger import Ledger, Plays, as_words
from unojax.belief.particles.likelihood import LOG_SCALE, Exchange, Shown, by_type, factor_of, show, start_log_prob
from unojax.bits import Words, map_words
from unojax.device.batching import take_rows
from unojax.observation import Observation
from unojax.rules import Rules

STEPS_PER_BLOCK: Final = ROWS_PER_TURN
_BLOCKS_PER_GROUP: Final = 16
_UNPACKED_LANES: Final = 2**17


class Script(NamedTuple):
    """The plays of C games in steps that are all alike: at most two cards acquired, then a play or none. K blocks of B steps.

    Of the slots filled before the first play, the first few (`_num_at_once`) are filled before the first step.

    Attributes:
        game: int32[K] the game of each block, whose blocks follow one another.
        first, end: int32[K, B] the slot of the first card acquired, and that after the last one.
        play: int32[K, B] the number of the play.
        is_play: bool[K, B] there is one.
        begin, number: int32[C] the first block of each game, and how many it has.
    """

    game: Array
    first: Array
    end: Array
    play: Array
    is_play: Array
    begin: Array
    number: Array


class Past(NamedTuple):
    """Hands of N particles of C games in the past.

    Attributes:
        script: the steps, in K blocks.
        place: int32[K] the place of each block's game among the tables of labels.
        shown: the play of each step, [K, B] each.
        num_plays: float32[K], in each block.
        starts: four uint32[K, N], before each block.
        dealt: four uint32[C, N], the hand as it was dealt, if the ledger knows of a deal.
    """

    script: Script
    place: Array
    shown: Shown
    num_plays: Array
    starts: Words
    dealt: Words


def num_blocks(ledger: Ledger, rules: Rules) -> Array:
    """Count the blocks of a game's script: int32[]."""
    return (_steps(ledger, rules)[1].sum(dtype=jnp.int32) + (STEPS_PER_BLOCK - 1)) // STEPS_PER_BLOCK


def most_blocks(max_slots: int, max_plays: int) -> int:
    """Count the blocks that the script of a game can have at most."""
    return -(-(max_plays + (max_slots + 1) // 2) // STEPS_PER_BLOCK)


def script_of(ledgers: Ledger, rules: Rules, wanted: Array, length: int) -> Script:
    """Write the script of those of C games that are `wanted` (bool[C]), which have at most `length` blocks (static) together."""
    before, ends = jax.vmap(partial(_timetable, rules=rules))(ledgers)
    number = jnp.where(wanted, -(-ends[:, -1] // STEPS_PER_BLOCK), 0)
    index = jnp.arange(len(number))
    begin = jnp.where(index[:, None] > index, number, 0).sum(1, dtype=jnp.int32)
    block = jnp.arange(length)
    game = jnp.maximum((begin <= block[:, None]).sum(1, dtype=jnp.int32) - 1, 0)
    # Blocks beyond the last one have no steps: they count as later ones of the last game.
    step = STEPS_PER_BLOCK * (block - begin[game])[:, None] + jnp.arange(STEPS_PER_BLOCK)
    filled, ends = ledgers.plays.slots_before[game], jnp.where(wanted[:, None], ends, 0)[game]
    play = jnp.minimum((ends[:, None] <= step[..., None]).sum(-1, dtype=jnp.int32), ends.shape[1] - 1)

    def at_play(rows: Array, play: Array) -> Array:
        return jnp.take_along_axis(rows, play, 1, mode="clip")

    begins = jnp.where(play > 0, at_play(ends, play - 1), 0)
    first = at_play(before[game], play) + 2 * (step - begins)
    is_step = step < ends[:, -1:]
    end = jnp.where(is_step, jnp.minimum(first + 2, at_play(filled, play)), 0)
    is_play = is_step & (step == at_play(ends, play) - 1)
    return Script(game, first, end, play, is_play, begin, number)


def _timetable(ledger: Ledger, rules: Rules) -> tuple[Array, Array]:
    """Give the slots filled before each play's own, and the number of steps up to each play: int32[T] each."""
    before, steps = _steps(ledger, rules)
    return before, jnp.cumsum(steps, dtype=jnp.int32)


def _steps(ledger: Ledger, rules: Rules) -> tuple[Array, Array]:
    """Give the slots filled before each play's own, and the number of its steps: int32[T] each."""
    filled = ledger.plays.slots_before
    before = jnp.concatenate([jnp.minimum(filled[:1], _num_at_once(rules)), filled[:-1]])
    steps = jnp.maximum((filled - before + 1) // 2, 1)
    return before, jnp.where(jnp.arange(len(filled)) < ledger.num_plays, steps, 0)


def _num_at_once(rules: Rules) -> int:
    return min(rules.hand_size, 8)


def past_of(cloud: Cloud, at: Array, ledgers: Ledger, rules: Rules, wanted: Array, length: int) -> Past:
    """Work out the hands before all blocks of plays.

    Args:
        cloud: of it the labels uint8[G, S, N] and uint8[G, T, N] the cards of plays.
        at: int32[C] the places of the games among them.
        ledgers: of the C games.
        rules: of all games.
        wanted: bool[C] the games that matter.
        length: static; of blocks, which they have at most together.
    """
    script = script_of(ledgers, rules, wanted, length)
    # A place beyond the end is that of a game that nobody wants.
    at = jnp.minimum(at, len(cloud.labels) - 1)
    place = at[script.game]
    plays = Plays(*(rows[script.game[:, None], script.play] for rows in ledgers.plays))

    def first_slots(number: int, end: Array) -> Words:
        rows = (cloud.labels.at[at, slot].get(mode="promise_in_bounds") for slot in range(min(number, cloud.labels.shape[1])))
        return reduce(_xor, (_card_where(row, (slot < end)[:, None]) for slot, row in enumerate(rows)))

    @jax.vmap
    def change(place: Array, script: Script) -> Words:
        """Collect the cards that come or go in a block, but for those that do both: the sum modulo two."""
        steps = (_step(script, i) for i in range(STEPS_PER_BLOCK))
        return reduce(_xor, (_xor(_came(cloud, place, step), _went(cloud, place, step)) for step in steps))

    of_blocks = script._replace(begin=script.game, number=script.game)
    # Kept from being fused into what follows, where each block would do it all again.
    changes = lax.optimization_barrier(change(place, of_blocks))
    before = _sum_before(jnp.stack(changes))

    def starts(at_first: Array, before: Array) -> Array:
        # What came and went in earlier games is there twice: it goes out.
        of_games = before.at[script.begin].get(mode="clip") ^ at_first
        return before ^ of_games.at[script.game].get(mode="promise_in_bounds")

    at_first = first_slots(_num_at_once(rules), ledgers.plays.slots_before[:, 0])
    return Past(
        script=script,
        place=place,
        shown=show(plays),
        num_plays=script.is_play.sum(1, dtype=jnp.float32),
        starts=map_words(starts, at_first, as_words(before)),
        dealt=first_slots(rules.hand_size, ledgers.num_dealt),
    )


def _sum_before(rows: Array) -> Array:
    """Add up modulo two the earlier ones of rows uint32[4, K, N], for each of them."""
    num_sets, number, width = rows.shape
    groups = jnp.pad(rows, ((0, 0), (0, -number % _BLOCKS_PER_GROUP), (0, 0))).reshape(num_sets, -1, _BLOCKS_PER_GROUP, width)

    def earlier(rows: Array) -> Array:
        index = jnp.arange(rows.shape[-2])
        is_earlier = (index[:, None] > index)[..., None]
        return lax.reduce_xor(jnp.where(is_earlier, rows[..., None, :, :], np.uint32(0)), (rows.ndim - 1,))

    of_groups = earlier(lax.reduce_xor(groups, (2,)))
    return (earlier(groups) ^ of_groups[:, :, None]).reshape(num_sets, -1, width)[:, :number]


def past_log_likelihood(
    past: Past, cloud: Cloud, ledgers: Ledger, opponent: Opponent, like: Observation, exchange: Exchange | None = None
) -> Array:
    """Compute the log likelihood (nats) of all plays of the opponents: float32[C, N] or [C, K, N].

    See `likelihood.log_likelihood`; all but `past` and `cloud` are of C games.
    """
    models, script = models_of(opponent), past.script

    def of_block(place: Array, script: Script, shown: Shown, num_plays: Array, hand: Words) -> list[Array]:
        seen_by = take_rows(like, script.game)
        made = take_rows(exchange, script.game)
        products = [jnp.ones_like(hand[0], jnp.float32)] * len(models)
        for i in range(STEPS_PER_BLOCK):
            step, play = _step(script, i), jax.tree.map(lambda rows, i=i: rows[i], shown)
            hand = _xor(hand, _came(cloud, place, step))
            seen = hand if made is None else made.hand(hand, play.play.slots_before)
            factors = [factor_of(seen, play, model, seen_by) for model in models]
            products = [p * jnp.where(step.is_play, f, 1.0) for p, f in zip(products, factors, strict=True)]
            hand = _xor(hand, _went(cloud, place, step))
        return [jnp.log(product) - num_plays * LOG_SCALE for product in products]

    of_blocks = script._replace(begin=script.game, number=script.game)
    blocks = past.place, of_blocks, past.shown, past.num_plays, past.starts
    if is_packed(opponent):
        totals = jax.vmap(of_block)(*blocks)
    else:
        # A model that is not packed unpacks the hands: a few blocks at a time, for the sake of memory.
        some = max(1, _UNPACKED_LANES // past.starts[0].shape[-1])
        totals = lax.map(lambda block: of_block(*block), blocks, batch_size=some)
    dealt = past.dealt if exchange is None else jax.vmap(Exchange.hand)(exchange, past.dealt, ledgers.num_dealt)
    at_start = jax.vmap(partial(start_log_prob, rules=like.rules))(dealt, ledgers)
    most = most_blocks(cloud.labels.shape[1], ledgers.plays.action.shape[1])
    of_games = [at_start + _sum_of_games(total, script, most) for total in totals]
    return jax.vmap(lambda *of_game: by_type(of_game, opponent))(*of_games)


def _sum_of_games(rows: Array, script: Script, most: int) -> Array:
    """Add up rows float32[K, N] of blocks for each game, which has `most` (static) at most: float32[C, N]."""
    index = jnp.arange(min(most, len(rows)))
    own = rows.at[script.begin[:, None] + index].get(mode="clip")
    return jnp.where((index < script.number[:, None])[..., None], own, 0.0).sum(1)


def exchanged(past: Past, ledgers: Ledger, exchange: Exchange, where: Array) -> Past:
    """Give the past after an exchange in the particles `where` (bool[C, N])."""
    made = Exchange(exchange.cards, *(jnp.where(where, slot, NO_SLOT) for slot in (exchange.slot, exchange.other)))

    def start(game: Array, hand: Words, first: Array) -> Words:
        # Slots that are filled when a block begins are those before its first step's.
        return take_rows(made, game).hand(hand, first)

    starts = jax.vmap(start)(past.script.game, past.starts, past.script.first[:, 0])
    return past._replace(starts=starts, dealt=jax.vmap(Exchange.hand)(made, past.dealt, ledgers.num_dealt))


def _step(script: Script, i: int) -> Script:
    """Take a step of a block's script."""
    return script._replace(first=script.first[i], end=script.end[i], play=script.play[i], is_play=script.is_play[i])


def _row(table: Array, place: Array, index: Array) -> Array:
    """Take a row of a game's table; the last one for an index beyond it."""
    number = table.shape[1]
    return table.reshape(-1, table.shape[2]).at[place * number + jnp.minimum(index, number - 1)].get(mode="promise_in_bounds")


def _came(cloud: Cloud, place: Array, step: Script) -> Words:
    """Collect the cards that are acquired in a step."""
    rows = [_row(cloud.labels, place, step.first + i) for i in range(2)]
    return _xor(*(_card_where(row, step.first + i < step.end) for i, row in enumerate(rows)))


def _went(cloud: Cloud, place: Array, step: Script) -> Words:
    """Collect the card that is played in a step."""
    return _card_where(_row(cloud.played, place, step.play), step.is_play)


def _card_where(labels: Array, counts: Array | bool) -> Words:
    return card_of(jnp.where(counts, labels & ~RELEASED, RELEASED))


def _xor(a: Words, b: Words) -> Words:
    return map_words(lambda x, y: x ^ y, a, b)
