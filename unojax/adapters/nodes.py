"""The game as a tree on the host, each drawn card a choice, for extensive-form libraries.

A position is a `unojax.table.Table` as 36 or 40 bytes. Results are cached by position, because tree searches revisit them.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game, table
from unojax.bits import Words
from unojax.device import control
from unojax.game import State
from unojax.rules import Rules
from unojax.table import Picked, Table

_COINS_SHIFT: Final = 30
_MOST_KEPT: Final = 1 << 18
"""Cached looks, and cached picks, about 200 MB in total; a full cache is cleared."""


class Look(NamedTuple):
    """Options at a position.

    Attributes:
        player: Player to move, or player being dealt to.
        is_dealing: The hands are being dealt, or the start card is being turned up.
        is_start: The start card is being turned up.
        is_drawing: Cards of a draw remain.
        is_over: The game has ended.
        rewards: Rewards of both players for a step that led here.
        legal: Actions of the player to move, ascending; valid in play, outside a draw.
        counts: Available cards of the 54 types, one byte each; for a deal or a draw.
        has_colors: Chance chooses the colour of a wild card picked here.
        num_cards: Number of cards in each hand.
        top: Action that plays the top card, `color * 15 + rank`; valid in play.
    """

    player: int
    is_dealing: bool
    is_start: bool
    is_drawing: bool
    is_over: bool
    rewards: tuple[float, float]
    legal: tuple[int, ...]
    counts: bytes
    has_colors: bool
    num_cards: tuple[int, int]
    top: int


class Nodes:
    """Game tree under given rules. An outcome of chance is `type + 54 * coin`, see `coins`."""

    def __init__(self, rules: Rules):
        self.rules = rules
        firsts = (0, 1) if rules.first_player == "random" else (0,)
        has_chance_colors = rules.start_card != "non_wild" or rules.play_drawn == "auto"
        colors = range(cards.NUM_COLORS) if has_chance_colors else (0,)
        self.coins = [color << _COINS_SHIFT | first for color in colors for first in firsts]
        """Random words: colour of a wild card that is turned up or laid by chance, and starting player."""
        self._num_firsts = len(firsts)
        self._looks: dict[bytes, Look] = {}
        self._picks: dict[tuple[bytes, int], bytes] = {}
        self.start = _to_bytes(table.new_table(jnp.uint32(0), rules).words())

    @property
    def num_outcomes(self) -> int:
        """Upper bound of the outcomes, exclusive."""
        return cards.NUM_TYPES * len(self.coins)

    def look(self, position: bytes) -> Look:
        """Return the options at a position."""
        found = self._looks.get(position)
        if found is None:
            found = self._keep(self._looks, position, self._look(position))
        return found

    def state(self, position: bytes) -> State:
        """Return a position as a `State`, NumPy, without the episode's fields."""
        return jax.device_get(_decode(from_bytes(position), self.rules))

    def outcomes(self, position: bytes) -> list[tuple[int, float]]:
        """List the outcomes of a deal or a draw with their probabilities."""
        look = self.look(position)
        outcomes, total = [], sum(look.counts)
        for card, count in enumerate(look.counts):
            if count:
                # The colour matters only if a wild card is turned up or laid; the first player matters only at the start.
                has_color = card >= cards.WILD_TYPE and look.has_colors
                coins = range(0, len(self.coins) if has_color else self._num_firsts, 1 if look.is_start else self._num_firsts)
                share = count / total / len(coins)
                outcomes += [(card + cards.NUM_TYPES * coin, share) for coin in coins]
        return sorted(outcomes)

    def play(self, position: bytes, action: int) -> bytes:
        """Return the position after a legal action; drawn cards are later chance outcomes.

        If `DRAW` is the only legal action, `Look.is_drawing` is False until the first outcome.
        """
        return self._pick(position, action, -1)

    def draw(self, position: bytes, outcome: int) -> bytes:
        """Return the position after a card is dealt, turned up or drawn.

        Raises:
            ValueError: If the outcome is impossible here.
        """
        if outcome < 0 or (position, _code(outcome)) not in self._picks:
            possible = [each for each, _ in self.outcomes(position)]
            if outcome not in possible:
                raise ValueError(f"chance outcome {outcome} is impossible here; possible are {', '.join(map(str, possible))}")
        return self._pick(position, -1, outcome)

    def _look(self, position: bytes) -> Look:
        seen = jax.device_get(_look(from_bytes(position), self.rules))
        phase, to_draw, (first, second) = int(seen.phase), int(seen.to_draw), seen.rewards.tolist()
        return Look(
            player=int(seen.player),
            is_dealing=phase in (table.DEAL, table.START),
            is_start=phase == table.START,
            is_drawing=phase == table.PLAY and to_draw > 0,
            is_over=phase > table.PLAY,
            rewards=(first, second),
            legal=tuple(np.flatnonzero(seen.mask).tolist()),
            counts=seen.counts.astype(np.uint8).tobytes(),
            has_colors=phase == table.START or bool(seen.lays),
            num_cards=tuple(seen.num_cards.tolist()),
            top=int(seen.top),
        )

    def _pick(self, position: bytes, action: int, outcome: int) -> bytes:
        code = action if outcome < 0 else _code(outcome)
        found = self._picks.get((position, code))
        if found is None:
            coin, card = divmod(max(outcome, 0), cards.NUM_TYPES)
            numbers = np.array([action, card, self.coins[coin]], np.int64).astype(np.uint32)
            after = _to_bytes(_pick(from_bytes(position), numbers, self.rules))
            found = self._keep(self._picks, (position, code), after)
        return found

    @staticmethod
    def _keep(kept: dict, key, value):
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[key] = value
        return value

    def __deepcopy__(self, memo: dict) -> Nodes:
        return self


def _code(outcome: int) -> int:
    """Return a negative number for an outcome, because actions are numbered from 0."""
    return -1 - outcome


class _Seen(NamedTuple):
    phase: Array
    player: Array
    to_draw: Array
    rewards: Array
    lays: Array
    mask: Array
    counts: Array
    num_cards: Array
    top: Array


def decode(rows: Array, rules: Rules) -> State:
    """Return a position's words as a `State`; traceable."""
    return game.from_table(Table.of_words(rows), rules)


_decode = partial(jax.jit, static_argnames="rules")(decode)


@partial(jax.jit, static_argnames="rules")
def _look(rows: Array, rules: Rules) -> _Seen:
    tables = Table.of_words(rows)
    node = table.find_node(tables, rules)
    state, rewards = game.from_table(tables, rules), game.rewards_at(tables, rules)
    meta = node.meta
    # Cards of a deal, a penalty or a start card go to the hand.
    is_plain = (meta.phase == table.PLAY) & (meta.penalty == 0) & (tables.unpack_account().keeps_turn == 0)
    lays = is_plain & (rules.play_drawn == "auto")
    seen = meta.phase, meta.player, meta.to_draw, rewards, lays
    top = state.color.astype(jnp.int32) * cards.NUM_RANKS + state.top_rank
    return _Seen(*seen, game.legal_mask(state), bits.type_counts(node.deck), state.hands.sum(-1), top)


@partial(jax.jit, static_argnames="rules")
def _pick(rows: Array, numbers: Array, rules: Rules) -> Array:
    """Play an action, or for 2^32 - 1 pick a card type; then skip nodes without a choice."""
    action, card, coins = numbers
    tables = Table.of_words(rows)
    is_card = action == np.uint32(0xFFFF_FFFF)
    node = table.find_node(tables, rules)
    drawn = _copy_of(node.deck, card)
    played = table.pick_of(action, rules)
    pick = Picked(*(jnp.where(is_card, b, a) for a, b in zip(played, drawn, strict=True)))
    moved = table.commit(tables, table.resolve(tables, node, pick, coins, rules))
    # A forced draw begins without a pick.
    must_draw = ~is_card & ~node.is_decision
    picked = jax.tree.map(partial(jnp.where, must_draw), tables, moved)

    def needs_no_pick(tables: Table) -> Array:
        node = table.find_node(tables, rules)
        return (must_draw | (node.meta.to_draw > 0)) & (node.is_reshuffle | node.is_dead_end)

    def pass_on(tables: Table) -> Table:
        node = table.find_node(tables, rules)
        return table.commit(tables, table.resolve(tables, node, drawn, coins, rules))

    return control.while_loop(needs_no_pick, pass_on, picked).words()


def _copy_of(deck: Words, card: Array) -> Picked:
    """Return a copy of a type, uint32[], in a set of labelled cards."""
    card = card.astype(jnp.int32)
    color, rank = (jnp.asarray(of_type)[card].astype(jnp.uint32) for of_type in (cards.COLOR_OF_TYPE, cards.RANK_OF_TYPE))
    word, bit = bits.one_copy(deck, color, rank)
    return Picked(word, bits.position_of(bit))


def _to_bytes(rows: Array) -> bytes:
    return np.asarray(rows).tobytes()


def from_bytes(position: bytes) -> np.ndarray:
    """Return a position's words, uint32[9 or 10]."""
    return np.frombuffer(position, np.uint32)
