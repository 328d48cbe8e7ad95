"""All successors of many tables: the nodes of `unojax.table` with every pick.

Copies of a type are one pick, and the cards of a draw are picked in a fixed order of types, so each multiset occurs once. Its
probability, prod_t C(n_t, d_t) / C(n, k), is a product over picks: the m-th card of its type and j-th of the draw contributes

    (copies of the type left / m) (j / cards left).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, table
from unojax.rules import Rules
from unojax.table import Picked, Table

WORDS: Final = 9
"""Words per table."""
NUM_PLACES: Final = cards.NUM_CARDS
"""Places in the order of picks: `word * 27 + position` of a type's first copy."""

_CHUNKS: Final = (1 << 11, 1 << 15)
"""Numbers of tables for which programs are compiled."""
_IS_DECISION: Final = np.uint8(1 << 7)
_EVERY_COLOR: Final = (1, 1, 1, 1)


class Lanes(NamedTuple):
    """Tables on the host, each at some point within a step.

    Attributes:
        rows: The tables, uint32[N, 9].
        origin: Index of the table at the start of the step, int64[N].
        option: Option picked there, uint8[N].
        action: Public action of the step, 0..60, int8[N].
        prob: Probability of the cards drawn in the step.
        drawn: These cards as a number, equal for equal multisets, int64[N].
        place: Place of the type drawn last, the smallest allowed for the next card of the draw, uint8[N].
        repeats: Cards of that type in the current draw, uint8[N].
        so_far: Cards in the current draw, uint8[N].
    """

    rows: np.ndarray
    origin: np.ndarray
    option: np.ndarray
    action: np.ndarray
    prob: np.ndarray
    drawn: np.ndarray
    place: np.ndarray
    repeats: np.ndarray
    so_far: np.ndarray

    @classmethod
    def begin(cls, rows: np.ndarray) -> Lanes:
        """Begin a step at each table."""
        n = len(rows)
        none = np.zeros(n, np.uint8)
        return cls(rows, np.arange(n), none, np.full(n, cards.DRAW, np.int8), np.ones(n), np.zeros(n, int), none, none, none)

    @classmethod
    def join(cls, parts: list[Lanes]) -> Lanes:
        """Concatenate lanes."""
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, zip(*parts, strict=True)))

    def take(self, index: np.ndarray) -> Lanes:
        """Select lanes."""
        return Lanes(*(field[index] for field in self))

    @property
    def size(self) -> int:
        """N."""
        return len(self.rows)


class Picks(NamedTuple):
    """Picks that led to the M children of an expansion.

    Attributes:
        parent: Index of the expanded lane, int64[M].
        goes_on: The step, or the deal, needs another pick, bool[M].
        is_card: A card was drawn, dealt or turned up, bool[M].
        place: Place of that card's type, uint8[M].
        is_wild: It is a Wild or Wild+4, bool[M].
    """

    parent: np.ndarray
    goes_on: np.ndarray
    is_card: np.ndarray
    place: np.ndarray
    is_wild: np.ndarray


def meta_of(rows: np.ndarray) -> table.Meta:
    """Return the bookkeeping of tables, uint32[N] each."""
    word = rows[:, WORDS - 1]
    return Table((word,) * 4, (word,) * 4, word).unpack_meta()  # pyright: ignore[reportArgumentType]


class Expander:
    """Expands tables.

    Args:
        rules: Rules of the game.
        merge_colors: As in `enumerate_game`.
    """

    def __init__(self, rules: Rules, *, merge_colors: bool):
        self.rules = rules
        self.color_weights = stand_ins(rules) if merge_colors else _EVERY_COLOR
        # No program uses the number of steps.
        self._static = {"rules": replace(rules, max_steps=None)}
        self._allowed = np.array([bits.ALL_SLOTS if weight else bits.COLORED for weight in self.color_weights], np.uint32)

    def undealt(self) -> Lanes:
        """Return one lane before the deal."""
        return Lanes.begin(np.asarray(table.new_table(jnp.zeros(1, jnp.uint32), self.rules).words()))

    def look(self, lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of picks in each lane, uint8[N], and its decisions, bool[N].

        Without a pick (a reshuffle, an impossible draw) there is one successor.
        """
        told = np.empty(lanes.size, np.uint8)
        for here, (rows, place) in _chunks(lanes.rows, lanes.place):
            told[here] = np.asarray(_look(rows, place, self._allowed, **self._static))[: here.stop - here.start]
        return told & ~_IS_DECISION, (told & _IS_DECISION) != 0

    def expand(self, lanes: Lanes, counts: np.ndarray, coins: int = 0) -> tuple[Lanes, Picks]:
        """Make all picks, `counts` of `look`, in each lane. `coins`: see `table.resolve`."""
        parent = np.repeat(np.arange(lanes.size), counts)
        ends = np.cumsum(counts, dtype=np.int64)
        nth = (np.arange(len(parent)) - np.repeat(ends - counts, counts)).astype(np.uint8)
        return self.pick(lanes, parent, nth, coins)

    def pick(self, lanes: Lanes, parent: np.ndarray, nth: np.ndarray, coins: int = 0) -> tuple[Lanes, Picks]:
        """Make the nth pick, uint8[M], in each lane of `parent`, int64[M]."""
        before = lanes.take(parent)
        rows, told = np.empty_like(before.rows), np.empty(len(parent), np.uint32)
        for here, chunk in _chunks(before.rows, before.place, nth):
            after, word = _pick(*chunk, np.uint32(coins), self._allowed, **self._static)
            rows[here], told[here] = (np.asarray(array)[: here.stop - here.start] for array in (after, word))

        place, copies, stock = ((told >> shift & 127).astype(np.uint8) for shift in (0, 7, 14))
        is_decision, is_card, goes_on, same_draw, is_wild = ((told >> shift & 1).astype(bool) for shift in range(21, 26))
        repeats = np.where((before.so_far > 0) & (place == before.place), before.repeats, 0) + 1
        so_far = before.so_far + 1
        factor = (copies / repeats) * (so_far / np.maximum(stock, 1))
        children = Lanes(
            rows=rows,
            origin=before.origin,
            option=np.where(is_decision, nth, before.option),
            action=np.where(is_decision, place, before.action).astype(np.int8),
            prob=before.prob * np.where(is_card, factor, 1.0),
            drawn=np.where(is_card, before.drawn * NUM_PLACES + place, before.drawn),
            place=np.where(same_draw, place, 0).astype(np.uint8),
            repeats=np.where(same_draw, repeats, 0).astype(np.uint8),
            so_far=np.where(same_draw, so_far, 0).astype(np.uint8),
        )
        return children, Picks(parent, goes_on, is_card, place, is_wild)

    def start_coins(self) -> list[tuple[int, bool, float]]:
        """Return the coins of a start: number, use for coloured cards, probability for a wild."""
        firsts = (0, 1) if self.rules.first_player == "random" else (0,)
        return [
            (color << 30 | first, color == 0, weight / cards.NUM_COLORS / len(firsts))
            for color, weight in enumerate(self.color_weights)
            for first in firsts
            if weight > 0 and (color == 0 or self.rules.start_card == "any")
        ]


def stand_ins(rules: Rules) -> tuple[int, int, int, int]:
    """Return how many colours each colour represents if the missing ones are merged."""
    lacking = [c for c in range(cards.NUM_COLORS) if not any(rules.deck[c * 13 : c * 13 + 13])]
    w0, w1, w2, w3 = (1 if c not in lacking else len(lacking) if c == lacking[0] else 0 for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


def _chunks(*arrays: np.ndarray) -> Iterator[tuple[slice, list[np.ndarray]]]:
    """Cut arrays into pieces of compiled sizes; pad the last one with its first element."""
    n = len(arrays[0])
    size = _CHUNKS[0] if n <= 8 * _CHUNKS[0] else _CHUNKS[-1]
    for start in range(0, n, size):
        here = slice(start, min(start + size, n))
        missing = size - (here.stop - start)
        yield (
            here,
            [np.concatenate([a[here], np.broadcast_to(a[:1], (missing, *a.shape[1:]))]) if missing else a[here] for a in arrays],
        )


def _options(node: table.Node, place: Array, allowed: Array) -> bits.Words:
    """Return the possible picks: the mover's options, types of the next card, or one bit."""
    kinds = bits.types(node.deck)
    is_pick = ~(node.is_decision | node.is_reshuffle | node.is_dead_end)
    options = []
    for word, (legal, kind) in enumerate(zip(node.legal, kinds, strict=True)):
        first = jnp.clip(place.astype(jnp.int32) - cards.SLOTS_PER_COLOR * word, 0, 31).astype(jnp.uint32)
        # Wild cards are picked by the first word only.
        at_hand = bits.ALL_SLOTS if word == 0 else bits.COLORED
        cards_to_come = kind & at_hand & (bits.ALL_SLOTS << first)
        nothing = np.uint32(1 if word == 0 else 0)
        options.append(jnp.where(node.is_decision, legal & allowed[word], jnp.where(is_pick, cards_to_come, nothing)))
    return options[0], options[1], options[2], options[3]


@partial(jax.jit, static_argnames="rules")
def _look(rows: Array, place: Array, allowed: Array, *, rules: Rules) -> Array:
    """Return the number of picks, with a bit for decisions, uint8[N]."""
    node = table.find_node(Table.of_words(rows), rules)
    return bits.count(_options(node, place, allowed)).astype(jnp.uint8) | jnp.where(node.is_decision, _IS_DECISION, np.uint8(0))


@partial(jax.jit, static_argnames="rules")
def _pick(rows: Array, place: Array, nth: Array, coins: Array, allowed: Array, *, rules: Rules) -> tuple[Array, Array]:
    """Make one pick at each table; also return the input of `Expander.pick`, uint32[N]."""
    tables = Table.of_words(rows)
    node = table.find_node(tables, rules)
    word, position = bits.nth(_options(node, place, allowed), nth.astype(jnp.uint32))
    rank = bits.rank_at(position)
    copy_word, copy_bit = bits.one_copy(node.deck, word, rank)
    copy_position = bits.position_of(copy_bit)
    pick = Picked(
        jnp.where(node.is_decision, word, copy_word),
        jnp.where(node.is_decision, position, jnp.minimum(copy_position, np.uint32(cards.SLOTS_PER_COLOR - 1))),
    )
    move = table.resolve(tables, node, pick, jnp.broadcast_to(coins, rank.shape), rules)
    after = table.commit(tables, move)

    meta = after.unpack_meta()
    is_card = table.is_card_drawn(move)
    goes_on = (meta.phase < table.PLAY) | (meta.to_draw > 0) | table.is_reshuffle(move)
    same_draw = is_card & (meta.to_draw > 0) & (meta.player == node.meta.player)
    copies = bits.count(bits.both(node.deck, bits.type_mask(word, rank)))
    what = jnp.where(
        node.is_decision, word * np.uint32(cards.NUM_RANKS) + rank, word * np.uint32(cards.SLOTS_PER_COLOR) + position
    )
    told = what | copies << np.uint32(7) | bits.count(node.deck) << np.uint32(14)
    for shift, flag in enumerate((node.is_decision, is_card, goes_on, same_draw, rank >= cards.WILD), 21):
        told |= flag.astype(jnp.uint32) << np.uint32(shift)
    return after.words(), told
