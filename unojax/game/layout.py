"""Conversion between states and tables, on which the rules operate."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, table
from unojax.bits import Words
from unojax.device import struct
from unojax.device.tracing import traced_once
from unojax.game.state import NO_ACTION, NO_WINNER, NONE, State
from unojax.rules import Rules
from unojax.table import Table, options
from unojax.table.account import Account
from unojax.table.options import Turn


@struct.dataclass
class Packed:
    """A state with its cards in a table: a ninth of the size, for loops that carry many games. Arrays of any one shape.

    Attributes:
        table: The game, in the layout of `to_table`.
        rewards, truncated, step_count, error, last_action: As in `State`.
        rules: Static.
    """

    table: Table
    rewards: Array
    truncated: Array
    step_count: Array
    error: Array
    last_action: Array
    rules: Rules = struct.field(pytree_node=False)

    @property
    def is_over(self) -> Array:
        """bool[...]: terminated or truncated."""
        return self.terminated | self.truncated

    @property
    def terminated(self) -> Array:
        """bool[...]: the game is over."""
        return self.table.unpack_meta().is_over

    @property
    def current_player(self) -> Array:
        """int8[...]: player to move, 0 or 1; at the end of a game, the last mover."""
        return self.table.unpack_meta().player.astype(jnp.int8)

    def unpack(self) -> State:
        """Return the state."""
        kept = {name: getattr(self, name) for name in ("rewards", "truncated", "step_count", "error", "last_action")}
        return from_table(self.table, self.rules, **kept)


def begin_packed(tables: Table, rules: Rules, *, last_action: ArrayLike | None = None) -> Packed:
    """Pack a table with the initial values of the episode's own fields; `last_action` None: no action."""
    episode = _new_episode(tables)
    if last_action is not None:
        episode["last_action"] = jnp.asarray(last_action, jnp.int8)
    return Packed(tables, **episode, rules=rules)


def _new_episode(tables: Table) -> dict[str, Array]:
    """Return the initial values of the fields of a `State` that its table lacks.

    They derive from the table, so that inside `jax.shard_map` they have the type of later values, and callers can begin their own
    loops with them.
    """
    zero, reward = jnp.zeros_like(tables.meta, jnp.int32), jnp.zeros_like(tables.meta, jnp.float32)
    return {
        "rewards": jnp.stack([reward, reward], -1),
        "truncated": zero != 0,
        "step_count": zero,
        "error": zero.astype(jnp.uint8),
        "last_action": jnp.full_like(zero, NO_ACTION, jnp.int8),
    }


def pack_state(state: State) -> Packed:
    """Pack a state, the inverse of `Packed.unpack`."""
    kept = (state.rewards, state.truncated, state.step_count, state.error, state.last_action)
    return Packed(to_table(state), *map(jnp.asarray, kept), rules=state.rules)


def _lay_out(hand_0: Words, hand_1: Words, deck: Words, pile: Words) -> tuple[Words, Words]:
    """Assign labelled copies of canonical sets to the owners in this order: the two planes of a table."""
    in_hands = bits.merge(hand_0, hand_1)
    not_in_pile = bits.merge(in_hands, deck)
    everything = bits.merge(not_in_pile, pile)
    pile = bits.without(everything, not_in_pile)
    hand_1 = bits.without(in_hands, hand_0)
    low, high = (bits.either(hand, pile) for hand in (hand_0, hand_1))
    return low, high


@partial(traced_once, static=("rules",))
def lay_out(tables: Table, rules: Rules) -> Table:
    """Canonicalize a game between two steps, as `to_table` does with its state. Elementwise."""
    owners = (table.HAND_0, table.HAND_1, table.DECK, table.PILE)
    low, high = _lay_out(*(bits.canonical(tables.cards_of(owner, rules)) for owner in owners))
    account = tables.account
    if not isinstance(account, tuple) and rules.wild_draw_four != "challenge":
        account = tables.unpack_account()
        account = account._replace(contested=jnp.zeros_like(account.contested)).pack()
    return Table(low, high, tables.meta, account)


@traced_once
def to_table(state: State) -> Table:
    """Assign labelled cards to a state's sets: copies go to hand 0, hand 1, deck and pile in this order."""
    low, high = _lay_out(*(bits.pack(cards) for cards in (state.hands[0], state.hands[1], state.deck, state.pile)))
    won = jnp.where(state.winner == 0, table.OVER_WON_BY_0, table.OVER_WON_BY_1)
    over = jnp.where(state.winner == NO_WINNER, table.OVER_DRAWN, won)
    meta = table.Meta(
        rank=state.top_rank.astype(jnp.uint32),
        color=state.color.astype(jnp.uint32),
        player=state.current_player.astype(jnp.uint32),
        penalty=state.penalty.astype(jnp.uint32),
        to_draw=jnp.zeros_like(state.penalty, jnp.uint32),
        phase=jnp.where(state.terminated, over, table.PLAY).astype(jnp.uint32),
    )
    if not state.rules.keeps_account:
        return Table(low, high, meta.pack())
    meta = meta._replace(penalty=jnp.minimum(meta.penalty, np.uint32(table.MAX_PENALTY)))
    return Table(low, high, meta.pack(), account_of(state, state.drawn, state.drawn >= 0).pack())


def account_of(seen: Any, drawn: ArrayLike, has_drawn: ArrayLike) -> Account:
    """Return the account of a table from the fields of a state or an observation."""
    zero = jnp.zeros_like(seen.penalty, jnp.uint32)
    return account_at(turn_of(seen, zero, zero, drawn, has_drawn))


def account_at(turn: Turn) -> Account:
    """Return the account of a table from the facts of its mover's turn."""
    zero = jnp.zeros_like(turn.penalty)
    return Account(
        due=turn.penalty,
        drawn_color=jnp.where(turn.has_drawn, turn.drawn_color, zero),
        drawn_rank=jnp.where(turn.has_drawn, turn.drawn_rank, zero),
        has_drawn=turn.has_drawn.astype(jnp.uint32),
        contested=turn.contested,
        keeps_turn=zero,
    )


def from_table(after: Table, rules: Rules, **episode: ArrayLike) -> State:
    """Convert a table to a state. Elementwise.

    `episode` has fields of the state that a table lacks: `rewards`, `truncated`, `step_count`, `error`, `last_action`. Others
    have the initial values of an episode.
    """
    given = _new_episode(after) | episode
    meta = after.unpack_meta()
    hands = [bits.unpack(bits.canonical(after.cards_of(owner, rules))) for owner in (table.HAND_0, table.HAND_1)]
    winner = jnp.where(meta.phase == table.OVER_WON_BY_0, 0, jnp.where(meta.phase == table.OVER_WON_BY_1, 1, NO_WINNER))
    shown = {name: jnp.full_like(meta.penalty, NONE, jnp.int8) for name in ("drawn", "contested")}
    if rules.keeps_account:
        account = after.unpack_account()
        drawn = cards.type_of(account.drawn_color, account.drawn_rank)
        shown["drawn"] = jnp.where(account.has_drawn != 0, drawn, NONE).astype(jnp.int8)
        if rules.wild_draw_four == "challenge":
            shown["contested"] = (account.contested.astype(jnp.int32) - 1).astype(jnp.int8)
    return State(
        hands=jnp.stack(hands, -2),
        deck=bits.unpack(bits.canonical(after.cards_of(table.DECK, rules))),
        pile=bits.unpack(bits.canonical(after.cards_of(table.PILE, rules))),
        top_rank=meta.rank.astype(jnp.int8),
        color=meta.color.astype(jnp.int8),
        current_player=meta.player.astype(jnp.int8),
        penalty=meta.penalty.astype(jnp.int8),
        terminated=meta.is_over,
        truncated=jnp.asarray(given["truncated"], bool),
        winner=winner.astype(jnp.int8),
        rewards=jnp.asarray(given["rewards"], jnp.float32),
        step_count=jnp.asarray(given["step_count"], jnp.int32),
        error=jnp.asarray(given["error"], jnp.uint8),
        last_action=jnp.asarray(given["last_action"], jnp.int8),
        rules=rules,
        **shown,
    )


def turn_of(seen: Any, deck_count: Array, pile_count: Array, drawn: ArrayLike, has_drawn: ArrayLike) -> Turn:
    """Return the facts, apart from the mover's hand, that its options depend on, from a state or an observation."""
    drawn = jnp.maximum(jnp.asarray(drawn, jnp.int32), 0)
    color, rank = jnp.maximum(jnp.asarray(cards.COLOR_OF_TYPE)[drawn], 0), jnp.asarray(cards.RANK_OF_TYPE)[drawn]
    return Turn(
        color=seen.color.astype(jnp.uint32),
        rank=seen.top_rank.astype(jnp.uint32),
        penalty=seen.penalty.astype(jnp.uint32),
        can_draw=options.has_drawable(deck_count.astype(jnp.int32), pile_count.astype(jnp.int32), seen.rules),
        drawn_color=color.astype(jnp.uint32),
        drawn_rank=rank.astype(jnp.uint32),
        has_drawn=jnp.asarray(has_drawn),
        contested=(jnp.asarray(seen.contested, jnp.int32) + 1).astype(jnp.uint32),
    )
