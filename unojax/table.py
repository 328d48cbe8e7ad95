"""The rules, written once, over a packed table of 108 labelled cards.

A `Table` is nine 32-bit words. Each physical card has an owner, one of deck, hand 0, hand 1 and pile, whose two bits are spread
over two bit planes of four words; the ninth word is bookkeeping. Which physical copy of a type lies where is never looked at by
the rules, and `unojax.game` drops it at the border.

A game is a walk through **nodes** (extensive form with chance). At each node one element of a set is picked: an option of the
mover's, or a card of the deck's. Dealing, turning up the start card, each single card of a draw, and the reshuffle are nodes
too, so one node takes one random word and moves one card:

    DEAL    2 * hand_size chance nodes: a card to player 0, then to player 1
    START   a chance node: the start card
    PLAY    a decision node if the mover may play; else a reshuffle, a card drawn, or the end of a game whose draw is impossible
    OVER_*  a finished game stays as it is

`find_node` says what is to be picked. `resolve` decides everything that follows from the pick and squeezes it into a single
word, the *move*; `commit` carries the move out with a few operations per word. A loop that hands on the move instead of the
table after it pays for the decision once instead of nine times: see `unojax.device.lanes.walk`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards
from unojax.bits import Words
from unojax.rules import Rules

DECK, HAND_0, HAND_1, PILE = range(4)
"""Owners of a card; bit 0 lies in plane `low`, bit 1 in plane `high`."""

DEAL, START, PLAY, OVER_WON_BY_0, OVER_WON_BY_1, OVER_DRAWN = range(6)
"""Phases of a game."""


class _Field(NamedTuple):
    """A bit field of a word."""

    shift: int
    width: int

    def get(self, word: Array) -> Array:
        return (word >> np.uint32(self.shift)) & np.uint32((1 << self.width) - 1)

    def put(self, value: Array) -> Array:
        return value.astype(jnp.uint32) << np.uint32(self.shift)

    @property
    def mask(self) -> np.uint32:
        return np.uint32(((1 << self.width) - 1) << self.shift)

    @property
    def bit(self) -> np.uint32:
        return np.uint32(1 << self.shift)


# The bookkeeping word `meta`.
_RANK: Final = _Field(0, 4)
_COLOR: Final = _Field(4, 2)
_PLAYER: Final = _Field(6, 1)
_PENALTY: Final = _Field(7, 2)
_TO_DRAW: Final = _Field(9, 6)
_PHASE: Final = _Field(15, 3)
_META: Final = np.uint32((1 << 18) - 1)
_WILD_POSITION: Final = 25
# A move is the next `meta` and, above it, what happens to the cards and to the counters of a game.
_POSITION: Final = _Field(18, 5)
_WORD: Final = _Field(23, 2)
_OWNER: Final = _Field(25, 2)
_RESHUFFLE: Final = _Field(27, 1)
_STEP: Final = _Field(28, 1)
_PLAY: Final = _Field(29, 1)
_CHOICE: Final = _Field(30, 1)


class Meta(NamedTuple):
    """The bookkeeping word, unpacked: uint32[...] each.

    Attributes:
        rank: rank 0..14 of the top card.
        color: active colour 0..3.
        player: whose turn it is (or who is being dealt to).
        penalty: cards that the mover must draw for a +2 or Wild+4: 0, 2 or 4.
        to_draw: cards still to come in a draw or deal under way.
        phase: DEAL, START, PLAY or one of OVER_*.
    """

    rank: Array
    color: Array
    player: Array
    penalty: Array
    to_draw: Array
    phase: Array

    def pack(self) -> Array:
        return (
            _RANK.put(self.rank)
            | _COLOR.put(self.color)
            | _PLAYER.put(self.player)
            | _PENALTY.put(self.penalty >> 1)
            | _TO_DRAW.put(self.to_draw)
            | _PHASE.put(self.phase)
        )


IDLE: Final = np.uint32(OVER_DRAWN << _PHASE.shift)
"""A `meta` that stands still whatever the cards."""


class Table(NamedTuple):
    """One game, or a batch of games as arrays of any one shape. `low` and `high` are the owners' bit planes."""

    low: Words
    high: Words
    meta: Array

    def unpack_meta(self) -> Meta:
        m = self.meta
        return Meta(_RANK.get(m), _COLOR.get(m), _PLAYER.get(m), _PENALTY.get(m) << np.uint32(1), _TO_DRAW.get(m), _PHASE.get(m))

    def cards_of(self, owner: int, rules: Rules) -> Words:
        """Find the labelled cards of one of DECK, HAND_0, HAND_1, PILE."""
        low, high = self.low, self.high
        if owner == DECK:
            return deck(self, rules)
        if owner == HAND_0:
            return bits.map_words(lambda a, b: a & ~b, low, high)
        if owner == HAND_1:
            return bits.map_words(lambda a, b: b & ~a, low, high)
        return bits.map_words(lambda a, b: a & b, low, high)


class Node(NamedTuple):
    """Next pick of a game: from which set, and by whom.

    Attributes:
        meta: the unpacked bookkeeping.
        hand: labelled cards of the player to move.
        legal: the mover's playable options (see `bits`); meaningful in phase PLAY with no draw under way.
        deck: the cards that chance picks from.
        hand_count, opponent_count: uint32[...] cards of the mover and of the other player.
        is_decision: the mover picks one of `legal`. Otherwise chance picks one of `deck`, or there is nothing to pick.
        is_reshuffle: the pile goes back into the deck; nothing is picked.
        is_dead_end: the draw is impossible; the game ends here.
        is_over: the game has ended.
    """

    meta: Meta
    hand: Words
    legal: Words
    deck: Words
    hand_count: Array
    opponent_count: Array
    is_decision: Array
    is_reshuffle: Array
    is_dead_end: Array
    is_over: Array


class Picked(NamedTuple):
    """A pick: word index 0..3 (declared colour, or the slot block of a card) and bit position 0..26."""

    word: Array
    position: Array


def pick_of(action: Array) -> Picked:
    """Find a play, uint32[...] 0..59, among the packed options."""
    bit = bits.rank_bit(action % np.uint32(cards.NUM_RANKS))
    return Picked(action // np.uint32(cards.NUM_RANKS), lax.population_count(bit - np.uint32(1)))


def new_table(like: Array, rules: Rules) -> Table:
    """Make tables before the deal, all cards in the deck, with the shape of `like`."""
    zero = jnp.zeros_like(like, jnp.uint32)
    meta = Meta(zero, zero, zero, zero, zero + np.uint32(rules.hand_size), zero + np.uint32(DEAL))
    return Table(bits.empty(like), bits.empty(like), meta.pack())


def deck(table: Table, rules: Rules) -> Words:
    """Find the cards left to draw, those without an owner."""
    return bits.map_words(lambda full, low, high: full & ~(low | high), bits.all_cards(rules.deck), table.low, table.high)


def find_node(table: Table, rules: Rules) -> Node:
    """Find what is to be picked next at each table."""
    meta = table.unpack_meta()
    is_mover_0 = meta.player == 0
    hand = bits.where(is_mover_0, table.cards_of(HAND_0, rules), table.cards_of(HAND_1, rules))
    legal = bits.playable(hand, meta.color, meta.rank)
    stock = deck(table, rules)
    deck_count = bits.count(stock)
    hand_count = bits.count(hand)
    opponent_count = bits.count(bits.map_words(lambda a, b: a ^ b, table.low, table.high)) - hand_count
    pile_count = np.uint32(rules.num_cards) - deck_count - hand_count - opponent_count

    begins_turn = (meta.phase == PLAY) & (meta.to_draw == 0)
    is_decision = begins_turn & (meta.penalty == 0) & (bits.any_of(legal) != 0)
    lacks_cards = begins_turn & ~is_decision & (deck_count < cards_due(meta))
    is_reshuffle = lacks_cards & (pile_count > 1)
    if rules.start_card == "non_wild":
        only = jnp.where(meta.phase == START, bits.COLORED, bits.ALL_SLOTS)
        stock = bits.map_words(lambda w: w & only, stock)
    return Node(
        meta=meta,
        hand=hand,
        legal=legal,
        deck=stock,
        hand_count=hand_count,
        opponent_count=opponent_count,
        is_decision=is_decision,
        is_reshuffle=is_reshuffle,
        is_dead_end=lacks_cards & ~is_reshuffle,
        is_over=meta.phase > PLAY,
    )


def cards_due(meta: Meta) -> Array:
    """Count the cards that the mover draws if it draws: the pending penalty, else one."""
    return jnp.maximum(meta.penalty, np.uint32(1))


def resolve(table: Table, node: Node, pick: Picked, coins: Array, rules: Rules) -> Array:
    """Decide everything that happens at a node, squeezed into one word (uint32[...]) for `commit`.

    Args:
        table, node: the tables and what `find_node` found there.
        pick: the element picked of `node.legal` at a decision, of `node.deck` at a chance node; else ignored.
        coins: uint32[...] random bits, used at START alone: the lowest for the first player, the highest two for the colour of
            a wild.
        rules: static.
    """
    meta, is_decision = node.meta, node.is_decision
    zero, one = np.uint32(0), np.uint32(1)
    picked_rank = bits.rank_at(pick.position)

    # Which card moves: a copy of the type played, the card drawn, or (reshuffle) the top card, which stays behind.
    top_or_played = bits.where(is_decision, node.hand, table.cards_of(PILE, rules))
    copy_word, copy_bit = bits.one_copy(
        top_or_played, jnp.where(is_decision, pick.word, meta.color), jnp.where(is_decision, picked_rank, meta.rank)
    )
    by_type = is_decision | node.is_reshuffle
    moved_word = jnp.where(by_type, copy_word, pick.word)
    copy_position = jnp.minimum(lax.population_count(copy_bit - one), np.uint32(31))
    moved_position = jnp.where(by_type, copy_position, pick.position)

    # A play completes the owner bits of hand 0 (01) or hand 1 (10) to those of the pile (11); a draw sets those of the hand.
    is_start = meta.phase == START
    hand_owner = meta.player + one
    sets = jnp.where(is_start, np.uint32(PILE), jnp.where(is_decision, np.uint32(PILE) ^ hand_owner, hand_owner))
    stands_still = node.is_over | node.is_dead_end | node.is_reshuffle
    sets = jnp.where(stands_still, zero, sets)

    # Draws, deals: how many cards are still to come.
    draws = ~(is_decision | is_start | stands_still)
    begins_draw = draws & (meta.to_draw == 0)
    to_draw = jnp.where(draws, jnp.where(begins_draw, cards_due(meta), meta.to_draw) - one, zero)
    ends_draw = draws & (to_draw == 0)
    is_deal = meta.phase == DEAL
    deals_next = is_deal & ends_draw & (meta.player == 0)
    to_draw = jnp.where(deals_next, np.uint32(rules.hand_size), to_draw)

    # Effects of a play.
    wins = is_decision & (node.hand_count == 1)
    skips = (picked_rank == cards.SKIP) | (picked_rank == cards.REVERSE)
    keeps_turn = is_decision & (wins | skips if rules.skip_forfeits else wins)
    new_penalty = jnp.where(picked_rank == cards.WILD_DRAW_FOUR, np.uint32(4), zero)
    new_penalty = jnp.where(picked_rank == cards.DRAW_TWO, np.uint32(2), new_penalty)
    old_penalty = jnp.where(is_decision | ends_draw, zero, meta.penalty)
    penalty = jnp.where(is_decision & ~wins, new_penalty, old_penalty)
    passes = (is_decision & ~keeps_turn) | ends_draw
    player = meta.player ^ passes.astype(jnp.uint32)

    # The next phase.
    fewer = (node.hand_count < node.opponent_count).astype(jnp.uint32)
    won_by_mover = np.uint32(OVER_WON_BY_0) + meta.player
    won_by_count = np.uint32(OVER_WON_BY_0) + (meta.player ^ fewer ^ one)
    dead_end = jnp.where(node.hand_count == node.opponent_count, np.uint32(OVER_DRAWN), won_by_count)
    phase = jnp.where(is_deal & ends_draw & ~deals_next, np.uint32(START), meta.phase)
    phase = jnp.where(is_start, np.uint32(PLAY), phase)
    phase = jnp.where(wins, won_by_mover, jnp.where(node.is_dead_end, dead_end, phase))

    turns_up = is_decision | is_start
    start_color = jnp.where(picked_rank >= cards.WILD, coins >> np.uint32(30), pick.word)
    first_player = coins & one if rules.first_player == "random" else zero
    after = Meta(
        rank=jnp.where(turns_up, picked_rank, meta.rank),
        color=jnp.where(is_start, start_color, jnp.where(is_decision, pick.word, meta.color)),
        player=jnp.where(is_start, first_player, player),
        penalty=penalty,
        to_draw=to_draw,
        phase=phase,
    ).pack()
    return (
        jnp.where(node.is_over, table.meta, after)
        | _POSITION.put(moved_position)
        | _WORD.put(moved_word)
        | _OWNER.put(sets)
        | _RESHUFFLE.put(node.is_reshuffle)
        | _STEP.put(is_decision | (begins_draw & (meta.phase == PLAY)) | node.is_dead_end)
        | _PLAY.put(is_decision)
        | _CHOICE.put(is_decision & (bits.count(node.legal) > 1))
    )


def commit(table: Table, move: Array) -> Table:
    """Carry out a move of `resolve`: the tables after it."""
    moved = jnp.uint32(1) << _POSITION.get(move)
    word = _WORD.get(move)
    reshuffles = is_reshuffle(move)
    to_low = jnp.where((move & _OWNER.bit) != 0, moved, np.uint32(0))
    to_high = jnp.where((move & (_OWNER.bit << np.uint32(1))) != 0, moved, np.uint32(0))

    def one_color(color: int, low: Array, high: Array) -> tuple[Array, Array]:
        here = word == color
        kept = jnp.where(here, moved, np.uint32(0))
        back_to_deck = jnp.where(reshuffles, low & high & ~kept, np.uint32(0))
        return (
            (low & ~back_to_deck) | jnp.where(here, to_low, np.uint32(0)),
            (high & ~back_to_deck) | jnp.where(here, to_high, np.uint32(0)),
        )

    pairs = [one_color(c, low, high) for c, (low, high) in enumerate(zip(table.low, table.high, strict=True))]
    (l0, h0), (l1, h1), (l2, h2), (l3, h3) = pairs
    return Table((l0, l1, l2, l3), (h0, h1, h2, h3), move & _META)


def visible_part(move: Array, table: Table, player: Array) -> Array:
    """Mask a move in play down to what a player (uint32[...]) sees of it, uint32[...], equal for moves that look the same.

    Which copy of a type moved does not show, nor which card the other player drew. `table` is that before the move.
    """
    is_own_draw = ~is_play(move) & (table.unpack_meta().player == player)
    position, word = _POSITION.get(move), _WORD.get(move)
    first = jnp.where((position >= cards.WILD) & (position < _WILD_POSITION), position - np.uint32(12), position)
    card = _POSITION.put(first) | _WORD.put(jnp.where(position >= _WILD_POSITION, np.uint32(0), word))
    # A card played shows in the bookkeeping after it. Whether there was a choice does not show.
    return (move & ~(_POSITION.mask | _WORD.mask | _CHOICE.mask)) | jnp.where(is_own_draw, card, np.uint32(0))


def stay(table: Table) -> Array:
    """Make the move that changes nothing."""
    return table.meta


def is_reshuffle(move: Array) -> Array:
    """Tell moves that put the pile back into the deck: bool[...]."""
    return (move & _RESHUFFLE.bit) != 0


def is_step(move: Array) -> Array:
    """Tell moves that began a step of the game (a play, a whole draw, or the end by an impossible draw): bool[...]."""
    return (move & _STEP.bit) != 0


def is_play(move: Array) -> Array:
    """Tell moves that are a card played by a player: bool[...]."""
    return (move & _PLAY.bit) != 0


def is_card_drawn(move: Array) -> Array:
    """Tell moves that are a card drawn, dealt or turned up: bool[...]."""
    return ((move & _OWNER.mask) != 0) & ~is_play(move)


def is_choice(move: Array) -> Array:
    """Tell plays with more than one legal action: bool[...]."""
    return (move & _CHOICE.bit) != 0
