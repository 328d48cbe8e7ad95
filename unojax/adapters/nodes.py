"""The game as a tree on the host, each drawn card a choice, for extensive-form libraries.

A position is a `unojax.table.Table` as 36 or 40 bytes. Results are cached by position, because tree searches revisit them.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

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
"""Cached facts, and cached picks, about 200 MB in total."""


class NodeFacts(NamedTuple):
    """Facts about a position: numbers of Python, or arrays while they are computed.

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

    player: Any
    is_dealing: Any
    is_start: Any
    is_drawing: Any
    is_over: Any
    rewards: Any
    legal: Any
    counts: Any
    has_colors: Any
    num_cards: Any
    top: Any


class Nodes:
    """Game tree under given rules. An outcome of chance is `type + 54 * coin`, see `coins`.

    Attributes:
        facts: Function that returns the `NodeFacts` of a position.
        coins: Random words: colour of a wild card that is turned up or laid by chance, and starting player.
        start: Position before the deal.
    """

    def __init__(self, rules: Rules):
        self.rules = rules
        firsts = (0, 1) if rules.first_player == "random" else (0,)
        has_chance_colors = rules.start_card != "non_wild" or rules.play_drawn == "auto"
        colors = range(cards.NUM_COLORS) if has_chance_colors else (0,)
        self.coins = [color << _COINS_SHIFT | first for color in colors for first in firsts]
        self._num_firsts = len(firsts)
        self.facts = lru_cache(_MOST_KEPT)(self._facts)
        self._after = lru_cache(_MOST_KEPT)(self._pick)
        self.start = _to_bytes(table.new_table(jnp.uint32(0), rules).words())

    @property
    def num_outcomes(self) -> int:
        """Upper bound of the outcomes, exclusive."""
        return cards.NUM_TYPES * len(self.coins)

    def state(self, position: bytes) -> State:
        """Return a position as a `State`, NumPy, without the episode's fields."""
        return jax.device_get(_decode(from_bytes(position), self.rules))

    def outcomes(self, position: bytes) -> list[tuple[int, float]]:
        """List the outcomes of a deal or a draw with their probabilities."""
        facts = self.facts(position)
        outcomes, total = [], sum(facts.counts)
        for card, count in enumerate(facts.counts):
            if count:
                coins = self._coins_of(card, facts)
                outcomes += [(card + cards.NUM_TYPES * coin, count / total / len(coins)) for coin in coins]
        return sorted(outcomes)

    def play(self, position: bytes, action: int) -> bytes:
        """Return the position after a legal action; drawn cards are later chance outcomes.

        If `DRAW` is the only legal action, `NodeFacts.is_drawing` is False until the first outcome.
        """
        return self._after(position, action, 0, 0)

    def draw(self, position: bytes, outcome: int) -> bytes:
        """Return the position after a card is dealt, turned up or drawn.

        Raises:
            ValueError: If the outcome is impossible here.
        """
        facts, (coin, card) = self.facts(position), divmod(outcome, cards.NUM_TYPES)
        if not facts.counts[card] or coin not in self._coins_of(card, facts):
            possible = ", ".join(str(each) for each, _ in self.outcomes(position))
            raise ValueError(f"chance outcome {outcome} is impossible here; possible are {possible}")
        return self._after(position, -1, card, self.coins[coin])

    def _coins_of(self, card: int, facts: NodeFacts) -> range:
        """Return the coins that matter: the colour if the wild card is turned up or laid, the first player at the start."""
        has_color = card >= cards.WILD_TYPE and facts.has_colors
        return range(0, len(self.coins) if has_color else self._num_firsts, 1 if facts.is_start else self._num_firsts)

    def _facts(self, position: bytes) -> NodeFacts:
        plain = NodeFacts(*(np.asarray(field).tolist() for field in _facts(from_bytes(position), self.rules)))
        legal, counts = tuple(np.flatnonzero(plain.legal).tolist()), bytes(plain.counts)
        return plain._replace(rewards=tuple(plain.rewards), legal=legal, counts=counts, num_cards=tuple(plain.num_cards))

    def _pick(self, position: bytes, action: int, card: int, coin: int) -> bytes:
        numbers = np.array([action, card, coin], np.int64).astype(np.uint32)
        return _to_bytes(_pick(from_bytes(position), numbers, self.rules))

    def __deepcopy__(self, memo: dict) -> Nodes:
        return self

    def __reduce__(self) -> tuple[type[Nodes], tuple[Rules]]:
        """Omit what is cached from the pickle."""
        return Nodes, (self.rules,)


def decode(rows: Array, rules: Rules) -> State:
    """Return a position's words as a `State`; traceable."""
    return game.from_table(Table.of_words(rows), rules)


_decode = partial(jax.jit, static_argnames="rules")(decode)


@partial(jax.jit, static_argnames="rules")
def _facts(rows: Array, rules: Rules) -> NodeFacts:
    """Return the facts as arrays: bool[num_actions] `legal`, int[54] `counts`."""
    tables = Table.of_words(rows)
    node = table.find_node(tables, rules)
    state, meta = game.from_table(tables, rules), node.meta
    # Cards of a deal, a penalty or a start card go to the hand.
    is_plain = (meta.phase == table.PLAY) & (meta.penalty == 0) & (tables.unpack_account().keeps_turn == 0)
    is_start = meta.phase == table.START
    return NodeFacts(
        player=meta.player,
        is_dealing=is_start | (meta.phase == table.DEAL),
        is_start=is_start,
        is_drawing=(meta.phase == table.PLAY) & (meta.to_draw > 0),
        is_over=meta.phase > table.PLAY,
        rewards=game.rewards_at(tables, rules),
        legal=game.legal_mask(state),
        counts=bits.type_counts(node.deck),
        has_colors=is_start | is_plain & (rules.play_drawn == "auto"),
        num_cards=state.hands.sum(-1),
        top=state.color.astype(jnp.int32) * cards.NUM_RANKS + state.top_rank,
    )


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
