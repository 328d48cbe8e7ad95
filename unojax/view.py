"""Views: packed observations of any shape, from observations or tables, for policies and networks."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards, game, table
from unojax.bits import StaticWords, Words
from unojax.device import struct
from unojax.device.tracing import traced_once
from unojax.observation import Observation, check_is_observation
from unojax.rules import Rules
from unojax.table import Node, Table
from unojax.table.account import Account


@struct.dataclass
class View:
    """One player's information at one moment. Arrays of any one shape.

    Copies of a type carry no information: count cards, and never look for a certain copy.

    Attributes:
        hand, pile: The player's own cards; the cards played.
        opponent_count: Number of cards in the opponent's hand, uint32[...].
        rank, color: Rank 0..14 of the top card; active colour 0..3; uint32[...].
        penalty: Cards that the player to move must draw, uint32[...].
        is_own_turn: The player is to move, bool[...].
        rules: Static.
        account: Packed `Account` under `Rules.keeps_account`, which names a card just drawn only to its player; else an empty
            tuple.
    """

    hand: Words
    pile: Words
    opponent_count: Array
    rank: Array
    color: Array
    penalty: Array
    is_own_turn: Array
    rules: Rules = struct.field(pytree_node=False)
    account: Array | tuple[()] = ()

    @property
    def everything(self) -> StaticWords:
        """All cards of the game, constants."""
        return bits.all_cards(self.rules.deck)

    def unpack_account(self) -> Account:
        """Unpack the account; zeros if the rules keep none."""
        return Account.unpack(jnp.zeros_like(self.color) if isinstance(self.account, tuple) else self.account)

    def unseen(self) -> Array:
        """Return the unseen cards of each type, int32[..., 54]."""
        held, played = bits.type_counts(self.hand), bits.type_counts(self.pile)
        return jnp.asarray(cards.along_last(np.asarray(self.rules.deck, np.int32), held.ndim)) - held - played

    def count_unseen(self, word: int, mask: ArrayLike) -> Array:
        """Count the unseen cards of word 0..3, int32[...].

        `mask`, uint32[...], has the bits that count: all copies of a type in that word, or none.
        """
        everything, hand, pile = (
            lax.population_count(jnp.asarray(words[word]) & jnp.asarray(mask)).astype(jnp.int32)
            for words in (self.everything, self.hand, self.pile)
        )
        return everything - hand - pile

    def playable_types(self) -> Array:
        """Return the types playable on the top card, bool[..., 54]."""
        colors, ranks = (cards.along_last(of_type, self.color.ndim + 1) for of_type in (cards.COLOR_OF_TYPE, cards.RANK_OF_TYPE))
        same_color = colors == self.color[..., None].astype(jnp.int8)
        same_rank = ranks == self.rank[..., None].astype(jnp.int8)
        return same_color | same_rank | jnp.asarray(ranks >= cards.WILD)


@traced_once
def view_of(observation: Observation) -> View:
    """Pack an observation. Batched by `vmap` or by leading axes. Raises ValueError for another object."""
    check_is_observation(observation, "view_of")
    rules, account = observation.rules, ()
    if rules.keeps_account:
        account = game.account_of(observation, observation.drawn, observation.has_drawn)
        account = _shown(account, observation.drawn >= 0, rules).pack()
    return View(
        hand=bits.pack(observation.hand),
        pile=bits.pack(observation.pile),
        opponent_count=observation.opponent_count.astype(jnp.uint32),
        rank=observation.top_rank.astype(jnp.uint32),
        color=observation.color.astype(jnp.uint32),
        penalty=observation.penalty.astype(jnp.uint32),
        is_own_turn=observation.is_my_turn,
        rules=rules,
        account=account,
    )


def view_at_node(tables: Table, node: Node, rules: Rules) -> View:
    """Return the view of each table for the player to move at its node."""
    meta, pile = node.meta, tables.cards_of(table.PILE, rules)
    is_own_turn, account = jnp.ones_like(meta.player, bool), tables.account
    if rules.keeps_account:
        account = _shown(tables.unpack_account(), is_own_turn, rules).pack()
    return View(node.hand, pile, node.opponent_count, meta.rank, meta.color, meta.penalty, is_own_turn, rules, account)


def view_of_table(tables: Table, player: Array, rules: Rules) -> View:
    """Return the view of each table for a player, uint32[...] 0 or 1."""
    meta, pile = tables.unpack_meta(), tables.cards_of(table.PILE, rules)
    hands = tables.cards_of(table.HAND_0, rules), tables.cards_of(table.HAND_1, rules)
    hand, other = bits.where(player == 0, *hands), bits.where(player == 0, *hands[::-1])
    is_own_turn, account = meta.player == player, ()
    if rules.keeps_account:
        account = _shown(tables.unpack_account(), is_own_turn, rules).pack()
    return View(hand, pile, bits.count(other), meta.rank, meta.color, meta.penalty, is_own_turn, rules, account)


def _shown(account: Account, is_own: Array, rules: Rules) -> Account:
    """Hide the drawn card if it is not the player's own, and the colour of a Wild+4 that cannot be challenged."""
    color, rank = (jnp.where(is_own, of_card, np.uint32(0)) for of_card in (account.drawn_color, account.drawn_rank))
    contested = account.contested if rules.wild_draw_four == "challenge" else jnp.zeros_like(account.contested)
    return account._replace(drawn_color=color, drawn_rank=rank, contested=contested)
