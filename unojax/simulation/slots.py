"""Env slots: games side by side on the device, taken from node to node. `simulate` and `rollout` are made of `play_rows`.

A *row* is what happens to a slot between two looks at it: a decision at its first node, then further nodes. The random words of
node t of game g are Threefry(key, (g, t)): a game depends on keys and its number alone, not on its slot or on other games.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game, table
from unojax.belief import color_bounds
from unojax.device import control, struct
from unojax.device.lanes import walk
from unojax.device.random_bits import threefry
from unojax.game.layout import begin_packed
from unojax.observation import Observation, observe_packed
from unojax.policies import POLICIES, LinearPolicy, LookaheadPolicy, PackedPolicy, narrow
from unojax.rules import Rules
from unojax.table import Node, Picked, Table
from unojax.table.layout import META_BITS, RESHUFFLE_FIELD
from unojax.view import View, view_at_node, view_of_table

ILLEGAL: Final = np.uint32(1 << 31)
"""Set in a move, above what `unojax.table` uses, and then in `Slots.status`, where a policy's answer was illegal."""

Words = tuple[Array, Array]
"""The two words of a key or of random bits: uint32[...] each."""
_Rest = TypeVar("_Rest")


@struct.dataclass
class Slots:
    """B games in progress, one for each env slot. Every leaf has the leading axis B, so that slots are split like any batch.

    Attributes:
        table: the games, packed (see `unojax.table`).
        game: uint32[B] number of the game. The slot's next game has that number plus `stride`.
        node: uint32[B] nodes passed in this game, the counter of its random words.
        num_steps: uint32[B] steps of this game so far, a draw of several cards being one.
        status: uint32[B] the highest bit is set once a policy has chosen an illegal action (see `illegal`); the bit
            `table.layout.RESHUFFLE_FIELD` if the last node was a reshuffle.
        rules: static.
        stride: number of all slots that share the numbers, those of other devices and processes included; static.
        num_choices, num_reshuffles: uint32[B] as in `Games`; None if they are not counted.
        last_action: int8[B] as in `State`; None if no policy looks at it.
        key: words of the key of deals and draws, uint32[B] each; None if the caller keeps it.
        memory: what the agents of both players remember, [B, ...]; None without agents.
        bounds: what each player has shown of its hand (`unojax.belief.color_bounds`), uint32[B] each; None if nobody asks.
    """

    table: Table
    game: Array
    node: Array
    num_steps: Array
    status: Array
    rules: Rules = struct.field(pytree_node=False)
    stride: int = struct.field(pytree_node=False, default=0)
    num_choices: Array | None = None
    num_reshuffles: Array | None = None
    last_action: Array | None = None
    key: Words | None = None
    memory: Any = None
    bounds: Words | None = None

    def __len__(self) -> int:
        return self.game.shape[-1]

    @property
    def illegal(self) -> Array:
        """bool[B]: a policy has chosen an illegal action; the slot stands still from then on."""
        return self.status >= ILLEGAL

    @property
    def player(self) -> Array:
        """int8[B]: who moves next."""
        return self.table.unpack_meta().player.astype(jnp.int8)

    @property
    def view(self) -> View:
        """What the player to move sees, packed."""
        return view_of_table(self.table, self.table.unpack_meta().player, self.rules)

    @property
    def observation(self) -> Observation:
        """What the player to move sees, one-hot."""
        return observe_tables(self.table, self.last_action, self.player, self.rules)

    @property
    def legal_mask(self) -> Array:
        """bool[B, 61]: the legal actions of the player to move; [B, 62] with challenges."""
        return game.options_to_actions(table.find_node(self.table, self.rules).options, rules=self.rules)


def fresh_slots(number: Array, rules: Rules, **kept: Any) -> Slots:
    """Make slots at the beginning of games, uint32[B], nothing dealt yet; `kept` are further fields of `Slots`."""
    zero = jnp.zeros_like(number)
    return Slots(table.new_table(number, rules), number, zero, zero, zero, rules, **kept)


def restart(slots: Slots, ended: Array, number: Array) -> Slots:
    """Begin the games with some numbers, uint32[B], in the slots that have ended, bool[B]."""
    kept = {name: getattr(slots, name) for name in ("key", "memory")}
    counts = {
        name: None if getattr(slots, name) is None else jnp.zeros_like(number) for name in ("num_choices", "num_reshuffles")
    }
    last_action = None if slots.last_action is None else jnp.full_like(slots.last_action, game.NO_ACTION)
    bounds = None if slots.bounds is None else no_bounds(number)
    bare = replace(slots, key=None, memory=None)
    fresh = fresh_slots(number, slots.rules, stride=slots.stride, last_action=last_action, bounds=bounds, **counts)
    restarted = jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, bare)
    return replace(restarted, **kept)


def no_bounds(number: Array) -> Words:
    """Give the bounds of two players who have shown nothing."""
    nothing = jnp.full_like(number, color_bounds.NOTHING_SHOWN)
    return nothing, nothing


class Decision(NamedTuple):
    """What is decided on at the first node of a row.

    Attributes:
        move: uint32[B] see `unojax.table`.
        seen: what else the row is to show; None if nothing.
    """

    move: Array
    seen: Any = None


def play_rows(
    slots: Slots,
    rest: _Rest,
    begin: Callable[[Slots], Decision],
    decide: Callable[[Array, Slots, Array], Array],
    finish: Callable[[Slots, Decision, Slots, _Rest], tuple[Slots, _Rest, Any]],
    *,
    num_nodes: int,
    num_rows: int,
    ahead: bool = False,
) -> tuple[Slots, _Rest, Any]:
    """Play rows in all slots: the loop under everything that plays packed games with auto-reset.

    Args:
        slots: the games; what does not change within a row, keys and memories, stays outside of the walk.
        rest: any pytree, carried along.
        begin: `begin(slots)` decides at the first node of a row.
        decide: `decide(index, slots, move)` gives the move at node 1, 2, ... of a row, as in `unojax.device.lanes.walk`.
        finish: `finish(before, decision, after, rest)` restarts what has ended, and gives what the row shows.
        num_nodes: of a row, static.
        num_rows: static.
        ahead: static; decide on a row at the end of the one before. XLA on CPU then computes a decision once, where it would
            compute it anew for each array that follows from it; a row of several nodes does without.

    Returns:
        the slots, the rest, and what the rows show, [num_rows, ...].
    """

    def one_row(carry: tuple[Slots, _Rest, Decision | None], _: None) -> tuple[tuple[Slots, _Rest, Decision | None], Any]:
        before, rest, decision = carry
        decision = begin(before) if decision is None else decision
        bare = replace(before, key=None, memory=None)
        after = walk(bare, decision.move, decide, carry_out, num_nodes=num_nodes)
        after, rest, row = finish(before, decision, replace(after, key=before.key, memory=before.memory), rest)
        return (after, rest, begin(after) if ahead else None), row

    first = begin(slots) if ahead else None
    (slots, rest, _), rows = control.scan(one_row, (slots, rest, first), None, length=num_rows)
    return slots, rest, rows


def carry_out(slots: Slots, move: Array) -> Slots:
    """Take every slot one node further."""
    before, after = slots.table, table.commit(slots.table, move)
    changes: dict[str, Any] = {}
    if slots.num_choices is not None:
        changes["num_choices"] = slots.num_choices + table.is_choice(move).astype(jnp.uint32)
    if slots.num_reshuffles is not None:
        changes["num_reshuffles"] = slots.num_reshuffles + table.is_reshuffle(move).astype(jnp.uint32)
    if slots.last_action is not None:
        changes["last_action"] = jnp.where(table.is_step(move), action_of_move(before, move), slots.last_action)
    if slots.bounds is not None:
        changes["bounds"] = _bounds_after(slots.bounds, before, after, move)
    return replace(
        slots,
        table=after,
        node=slots.node + (move != table.stay(before)).astype(jnp.uint32),
        num_steps=slots.num_steps + table.is_step(move).astype(jnp.uint32),
        status=(slots.status & ILLEGAL) | (move & (ILLEGAL | RESHUFFLE_FIELD.bit)),
        **changes,
    )


def _bounds_after(bounds: Words, before: Table, after: Table, move: Array) -> Words:
    was, now = before.unpack_meta(), after.unpack_meta()
    kind = jnp.where(now.rank >= cards.WILD, np.uint32(color_bounds.WILDS), now.color)
    draws = table.is_card_drawn(move) & (was.phase == table.PLAY)
    could_not_play = (was.penalty == 0) & (was.to_draw == 0)

    def of_player(player: int, shown: Array) -> Array:
        drawn = color_bounds.after_draw(shown, 1, could_not_play, was.color)
        moved = jnp.where(table.is_play(move), color_bounds.after_play(shown, kind), jnp.where(draws, drawn, shown))
        return jnp.where(was.player == player, moved, shown)

    return of_player(0, bounds[0]), of_player(1, bounds[1])


def action_of_move(before: Table, move: Array) -> Array:
    """Tell the action of a move that begins a step: int8[...]."""
    meta = before._replace(meta=move & META_BITS).unpack_meta()
    played = (meta.color * np.uint32(cards.NUM_RANKS) + meta.rank).astype(jnp.int8)
    action = jnp.where(table.is_play(move), played, np.int8(cards.DRAW))
    if isinstance(before.account, tuple):
        return action
    return jnp.where(table.is_challenge(before, move), np.int8(cards.CHALLENGE), action)


def is_turn(slots: Slots) -> Array:
    """Tell the slots where a step is to begin: bool[B]. The reshuffle before a draw is part of the draw's step."""
    meta = slots.table.unpack_meta()
    return (meta.phase == table.PLAY) & (meta.to_draw == 0) & ((slots.status & RESHUFFLE_FIELD.bit) == 0)


def is_cut_off(slots: Slots, max_steps: Array | int) -> Array:
    """Tell the slots whose game has had so many steps and is not over: bool[B]."""
    meta = slots.table.unpack_meta()
    return (meta.phase == table.PLAY) & (meta.to_draw == 0) & (slots.num_steps >= np.uint32(0) + max_steps)


def pick_packed(policies: tuple[PackedPolicy, ...], slots: Slots, node: Node, word: Array) -> tuple[Picked, Array | None]:
    """Pick what the policies of the players or chance choose at a node; also whether a choice was illegal, None: never."""
    view = view_at_node(slots.table, node, slots.rules)
    options = [narrow(policy, view, node.legal) for policy in policies]
    narrowed = bits.where(node.meta.player == 0, options[0], options[-1])
    pick = Picked(*bits.choose(bits.where(node.is_decision, narrowed, node.deck), word))
    if all(map(_is_built_in, policies)):
        return pick, None
    strange = bits.map_words(lambda chosen, legal: chosen & ~legal, narrowed, node.legal)
    return pick, node.is_decision & ((bits.any_of(strange) != 0) | (bits.any_of(narrowed) == 0))


def _is_built_in(policy: PackedPolicy) -> bool:
    """Tell a policy of this package, which narrows legal options down and leaves some, from one that has to be checked."""
    return type(policy) in (LinearPolicy, LookaheadPolicy) or any(policy is one for one in POLICIES.values())


def pick_action(action: Array, node: Node, word: Array, rules: Rules) -> tuple[Picked, Array]:
    """Pick the options that actions, int[B], stand for, or what chance chooses; also whether an action was illegal."""
    in_range = (action >= 0) & (action < (rules.num_actions if rules.draw_is_option else cards.DRAW))
    played = table.pick_of(jnp.where(in_range, action, 0).astype(jnp.uint32), rules)
    drawn = Picked(*bits.choose(node.deck, word))
    pick = Picked(*(jnp.where(node.is_decision, a, b) for a, b in zip(played, drawn, strict=True)))
    return pick, node.is_decision & ~(in_range & bits.contains(node.legal, pick.word, pick.position))


def move_by(slots: Slots, node: Node, pick: Picked, coins: Array, is_illegal: Array | None, stands_still: Array) -> Array:
    """Give the move that follows from a pick; none where a slot stands still, and a mark where a choice was illegal."""
    move = table.resolve(slots.table, node, pick, coins, slots.rules)
    if is_illegal is not None:
        move = jnp.where(is_illegal, table.stay(slots.table) | ILLEGAL, move)
    return jnp.where(stands_still | slots.illegal, table.stay(slots.table), move)


def words_at(key: Words, slots: Slots) -> Words:
    """Make the two random words of each slot's node."""
    return threefry(key, (slots.game, slots.node))


def observe_tables(tables: Table, last_action: Array | None, player: Array, rules: Rules) -> Observation:
    """Show each table to a player, int8[...]; elementwise."""
    assert last_action is not None, "kept where somebody looks at it"
    return observe_packed(begin_packed(tables, rules, last_action=last_action), player)


def pass_forced(index: Any, slots: Slots, move: Any, *, key: Words, choices_only: bool) -> Array:
    """Give the move at a node where nobody is asked; a slot where a player is to act, or that is cut off, stands still."""
    del index, move
    node = table.find_node(slots.table, slots.rules)
    word, coins = words_at(key, slots)
    waits = is_turn(slots)
    if choices_only:
        waits &= node.is_decision & (bits.count(node.legal) > 1)
    if slots.rules.max_steps is not None:
        waits |= is_cut_off(slots, slots.rules.max_steps)
    pick = Picked(*bits.choose(bits.where(node.is_decision, node.legal, node.deck), word))
    return move_by(slots, node, pick, coins, None, stands_still=waits)


def deal(slots: Slots, key: Words, num_nodes: int) -> Slots:
    """Pass the first nodes of games, static, or all before the first turn if there are fewer."""

    def finish(before: Slots, decision: Decision, after: Slots, rest: None) -> tuple[Slots, None, None]:
        del before, decision
        return after, rest, None

    def by_chance(index: Any, slots: Slots, move: Any) -> Array:
        return pass_forced(index, slots, move, key=key, choices_only=False)

    slots, _, _ = play_rows(
        slots, None, lambda slots: Decision(by_chance(0, slots, None)), by_chance, finish, num_nodes=num_nodes, num_rows=1
    )
    return slots
