"""Env slots: games side by side on the device, advanced node by node (see `unojax.table`).

A *row* is the part of a slot's game between two checks: a decision at its first node, then further nodes.
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
"""Flag of an illegal action in a move, above the bits of `unojax.table`, and then in `Slots.status`."""

Words = tuple[Array, Array]
"""The two words of a key or of random bits: uint32[...] each."""
_Rest = TypeVar("_Rest")


@struct.dataclass
class Slots:
    """B games in progress, one for each env slot. Every leaf has the leading axis B, so that slots are split like any batch.

    Attributes:
        table: Games, packed (see `unojax.table`).
        game: uint32[B] number of the game. The slot's next game has that number plus `stride`.
        node: uint32[B] nodes passed in this game, the counter of its random words.
        num_steps: uint32[B] steps of this game so far, as in `Games`.
        status: uint32[B] `ILLEGAL` after an illegal action of a policy; `RESHUFFLE_FIELD` after a reshuffle.
        rules: Static.
        stride: Number of all slots that share the game numbers, on all devices and processes; static.
        num_choices, num_reshuffles: uint32[B] as in `Games`; None if not counted.
        last_action: int8[B] as in `State`; None if no policy needs it.
        key: Words of the key of deals and draws, uint32[B] each; None if the caller keeps it.
        memory: Memories of both players' agents, [B, ...]; None without agents.
        bounds: Colour-count bounds of each player (`unojax.belief.color_bounds`), uint32[B] each; None if not needed.
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
        """bool[B]: a policy has chosen an illegal action; the slot stops from then on."""
        return self.status >= ILLEGAL

    @property
    def player(self) -> Array:
        """int8[B]: player to move."""
        return self.table.unpack_meta().player.astype(jnp.int8)

    @property
    def view(self) -> View:
        """View of the player to move, packed."""
        return view_of_table(self.table, self.table.unpack_meta().player, self.rules)

    @property
    def observation(self) -> Observation:
        """Observation of the player to move, one-hot."""
        return observe_tables(self.table, self.last_action, self.player, self.rules)

    @property
    def legal_mask(self) -> Array:
        """bool[B, 61]: the legal actions of the player to move; [B, 62] with challenges."""
        return game.options_to_actions(table.find_node(self.table, self.rules).options, rules=self.rules)


def fresh_slots(number: Array, rules: Rules, **kept: Any) -> Slots:
    """Make slots at the beginning of games, uint32[B], before any deal; `kept` are further fields of `Slots`."""
    zero = jnp.zeros_like(number)
    return Slots(table.new_table(number, rules), number, zero, zero, zero, rules, **kept)


def restart(slots: Slots, ended: Array, number: Array) -> Slots:
    """Begin the games with given numbers, uint32[B], in the slots that have ended, bool[B]."""
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
    """Return the bounds of two players who have revealed nothing."""
    nothing = jnp.full_like(number, color_bounds.NOTHING_SHOWN)
    return nothing, nothing


class Decision(NamedTuple):
    """Decision at the first node of a row: its move, uint32[B] (see `unojax.table`), and further data for the row's output."""

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
    """Play rows in all slots: the common loop of packed games with auto-reset.

    Args:
        slots: Games. Keys and memories, which a row does not change, stay outside of the walk.
        rest: Any pytree, carried along.
        begin: `begin(slots)` decides at the first node of a row.
        decide: `decide(index, slots, move)` returns the move at node 1, 2, ... of a row, as in `unojax.device.lanes.walk`.
        finish: `finish(before, decision, after, rest)` restarts ended games, and returns the row's output.
        num_nodes, num_rows: Static.
        ahead: Static; decide on a row at the end of the one before. XLA on a CPU then computes a decision of a single node once,
            instead of again for each array that depends on it.

    Returns:
        The slots, the rest, and the outputs of the rows, [num_rows, ...].
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
    """Apply the moves of all slots, uint32[B] as from `table.resolve`."""
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
    """Return the action of a move that begins a step: int8[...]."""
    meta = before._replace(meta=move & META_BITS).unpack_meta()
    played = (meta.color * np.uint32(cards.NUM_RANKS) + meta.rank).astype(jnp.int8)
    action = jnp.where(table.is_play(move), played, np.int8(cards.DRAW))
    if isinstance(before.account, tuple):
        return action
    return jnp.where(table.is_challenge(before, move), np.int8(cards.CHALLENGE), action)


def is_turn(slots: Slots) -> Array:
    """Return whether a step is to begin in each slot: bool[B]. The reshuffle before a draw is part of the draw's step."""
    return slots.table.unpack_meta().begins_step & ((slots.status & RESHUFFLE_FIELD.bit) == 0)


def is_cut_off(slots: Slots, max_steps: Array | int) -> Array:
    """Return whether each slot's game has reached the limit of steps and is not over: bool[B]."""
    return slots.table.unpack_meta().begins_step & (slots.num_steps >= np.uint32(0) + max_steps)


def pick_packed(policies: tuple[PackedPolicy, ...], slots: Slots, node: Node, word: Array) -> tuple[Picked, Array | None]:
    """Pick the choice of the players' policies or of chance at a node; also return whether it was illegal (None: never)."""
    view = view_at_node(slots.table, node, slots.rules)
    options = [narrow(policy, view, node.legal) for policy in policies]
    narrowed = bits.where(node.meta.player == 0, options[0], options[-1])
    pick = Picked(*bits.choose(bits.where(node.is_decision, narrowed, node.deck), word))
    if all(map(_is_built_in, policies)):
        return pick, None
    strange = bits.map_words(lambda chosen, legal: chosen & ~legal, narrowed, node.legal)
    return pick, node.is_decision & ((bits.any_of(strange) != 0) | (bits.any_of(narrowed) == 0))


def _is_built_in(policy: PackedPolicy) -> bool:
    """Return whether a policy is of this package: those never return an illegal choice, while others have to be checked."""
    return type(policy) in (LinearPolicy, LookaheadPolicy) or any(policy is one for one in POLICIES.values())


def pick_action(action: Array, node: Node, word: Array, rules: Rules) -> tuple[Picked, Array]:
    """Pick the options of actions, int[B], or a choice of chance; also return whether an action was illegal."""
    in_range = (action >= 0) & (action < (rules.num_actions if rules.draw_is_option else cards.DRAW))
    played = table.pick_of(jnp.where(in_range, action, 0).astype(jnp.uint32), rules)
    drawn = Picked(*bits.choose(node.deck, word))
    pick = Picked(*(jnp.where(node.is_decision, a, b) for a, b in zip(played, drawn, strict=True)))
    return pick, node.is_decision & ~(in_range & bits.contains(node.legal, pick.word, pick.position))


def move_by(slots: Slots, node: Node, pick: Picked, coins: Array, is_illegal: Array | None, stands_still: Array) -> Array:
    """Return the move that follows from a pick: no change in a stopped slot, and a flag for an illegal choice."""
    move = table.resolve(slots.table, node, pick, coins, slots.rules)
    if is_illegal is not None:
        move = jnp.where(is_illegal, table.stay(slots.table) | ILLEGAL, move)
    return jnp.where(stands_still | slots.illegal, table.stay(slots.table), move)


def words_at(key: Words, slots: Slots) -> Words:
    """Compute the two random words of each slot's node."""
    return threefry(key, (slots.game, slots.node))


def observe_tables(tables: Table, last_action: Array | None, player: Array, rules: Rules) -> Observation:
    """Return the view of each table for a player, int8[...]; elementwise."""
    assert last_action is not None, "kept where somebody looks at it"
    return observe_packed(begin_packed(tables, rules, last_action=last_action), player)


def pass_forced(index: Any, slots: Slots, move: Any, *, key: Words, choices_only: bool) -> Array:
    """Return the move at a node without a decision; a slot whose player is to act, or that is cut off, stands still."""
    del index, move
    node = table.find_node(slots.table, slots.rules)
    word, coins = words_at(key, slots)
    waits = is_turn(slots)
    if choices_only:
        waits &= node.is_choice
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
