"""Rows of a rollout: a few words while games are played, and the fields of a trajectory afterwards.

Cards stay packed inside the loop, a fifth of the size of one-hots. The words of a row are two arrays, so that a GPU stores it
with two kernels. The fields are made of all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import game, table
from unojax.device import struct
from unojax.game import State
from unojax.game.layout import begin_packed
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.simulation.slots import Slots, action_of_move, observe_tables
from unojax.table import Table
from unojax.table.account import Field as BitField
from unojax.table.layout import META_BITS, new_table
from unojax.view import View, view_of_table

Field = Literal[
    "observation", "view", "legal_mask", "state", "action", "player", "reward", "terminated", "truncated", "game", "step"
]
"""What a trajectory can show; see `Transitions`."""

_VALID: Final = BitField(0, 1)
_TERMINATED: Final = BitField(1, 1)
_TRUNCATED: Final = BitField(2, 1)
_PLAYER: Final = BitField(3, 1)
_ACTION: Final = BitField(4, 7)
"""Of the first word of what came of a row."""
_LAST_ACTION: Final = BitField(18, 7)
"""Of a table's `meta`, above what the table uses. Stored plus one, since it is -1 at the start of a game."""
_OF_CARDS: Final = frozenset(("observation", "view", "legal_mask", "state"))
"""Fields that are made of a table."""
_SHOW_LAST_ACTION: Final = frozenset(("observation", "state"))
"""Fields of these that show the action before."""


@struct.dataclass
class Transitions:
    """A trajectory of B slots over T rows, [T, B, ...]. What was not asked for is None.

    Rows that are not `valid` show no decision. They still carry the rewards and ends that come after an earlier decision.

    Attributes:
        valid: bool[T, B] a player acted in this row.
        extras: what the policy returned beside its action; None if nothing.
        observation, view: what the player to move sees, one-hot or packed.
        legal_mask: bool[T, B, 61] its legal actions; [T, B, 62] with challenges.
        state: all cards, the hidden hand too: for critics and targets, and nothing that a policy may see. The episode's own
            fields (`rewards`, `truncated`, `step_count`, `error`) are as at the start of a game.
        action: int8[T, B] played.
        player: int8[T, B] who acted, 0 or 1.
        reward: float32[T, B, 2] rewards of both players since the row's decision, until the next row.
        terminated: bool[T, B] the game ended since the row's decision, until the next row.
        truncated: bool[T, B] `Rules.max_steps` cut the game off here. Nobody acts in this row; its observation is the last of the
            game, and its value the one to bootstrap from.
        game: uint32[T, B] number of the game.
        step: int32[T, B] steps of the game before this one.
    """

    valid: Array
    extras: Any = None
    observation: Observation | None = None
    view: View | None = None
    legal_mask: Array | None = None
    state: State | None = None
    action: Array | None = None
    player: Array | None = None
    reward: Array | None = None
    terminated: Array | None = None
    truncated: Array | None = None
    game: Array | None = None
    step: Array | None = None


class Row(NamedTuple):
    """Words of a row, uint32[W, B] each, W no larger than the fields need; None without any.

    Attributes:
        before: those known at the row's decision. Stored by themselves, they are read before a GPU replaces them.
        outcome: those known at its end.
    """

    before: Array | None
    outcome: Array


def pack_row(fields: Sequence[Field], before: Slots, move: Array, acts: Array, cut_off: Array, after: Slots) -> Row:
    """Pack what the fields are made of.

    Args:
        fields: of the trajectory.
        before: the slots at the row's decision.
        move: uint32[B] of the decision.
        acts, cut_off: bool[B] a player acts in the row; the game is cut off there.
        after: the slots after the row, before any is dealt anew.
    """
    known = []
    if _OF_CARDS & set(fields):
        tables = before.table
        if _SHOW_LAST_ACTION & set(fields):
            assert before.last_action is not None, "kept in the slots of rollouts"
            tables = tables._replace(meta=tables.meta | _LAST_ACTION.put(before.last_action + 1))
        known += jax.tree.leaves(tables)
    if "game" in fields:
        known.append(before.game)
    if "step" in fields:
        known.append(before.num_steps)
    terminated = after.table.unpack_meta().phase > table.PLAY
    flags = _VALID.put(acts)
    if "terminated" in fields:
        flags |= _TERMINATED.put(terminated)
    if "truncated" in fields:
        flags |= _TRUNCATED.put(cut_off)
    if "player" in fields:
        flags |= _PLAYER.put(before.player)
    if "action" in fields:
        flags |= _ACTION.put(action_of_move(before.table, move))
    outcome = [flags]
    if "reward" in fields:
        outcome += list(lax.bitcast_convert_type(_rewards(before, after, terminated), jnp.uint32))
    # In buffers of their own, or a GPU would copy the slots to make these words after the row.
    outcome = lax.optimization_barrier(outcome)
    return Row(jnp.stack(known) if known else None, jnp.stack(outcome))


def _rewards(before: Slots, after: Slots, terminated: Array) -> Array:
    """Add up the rewards of a row's steps, float32[2, B]: that of the end, and the penalty for each step before it."""
    rules = before.rules
    rewards = jnp.where(terminated, game.rewards_at(after.table, rules), np.float32(0))
    if rules.step_penalty:
        num_penalties = (after.num_steps - before.num_steps).astype(jnp.int32) - terminated
        rewards -= np.float32(rules.step_penalty) * num_penalties
    return rewards


def unpack_rows(rows: Row, extras: Any, fields: Sequence[Field], rules: Rules) -> Transitions:
    """Make the fields of a trajectory of the words of its rows, uint32[T, W, B] each."""
    flags = rows.outcome[:, 0]
    shown: dict[str, Any] = {"valid": _VALID.get(flags) != 0, "extras": extras}
    if "terminated" in fields:
        shown["terminated"] = _TERMINATED.get(flags) != 0
    if "truncated" in fields:
        shown["truncated"] = _TRUNCATED.get(flags) != 0
    if "player" in fields:
        shown["player"] = _PLAYER.get(flags).astype(jnp.int8)
    if "action" in fields:
        shown["action"] = _ACTION.get(flags).astype(jnp.int8)
    if "reward" in fields:
        shown["reward"] = lax.bitcast_convert_type(jnp.moveaxis(rows.outcome[:, 1:3], 1, -1), jnp.float32)
    known = [] if rows.before is None else [rows.before[:, index] for index in range(rows.before.shape[1])]
    if _OF_CARDS & set(fields):
        tables = jax.tree.unflatten(jax.tree.structure(new_table(flags, rules)), known[: 9 + rules.keeps_account])
        shown |= _show_cards(tables, fields, rules)
        known = known[9 + rules.keeps_account :]
    if "game" in fields:
        shown["game"], known = known[0], known[1:]
    if "step" in fields:
        shown["step"] = known[0].astype(jnp.int32)
    return Transitions(**shown)


def _show_cards(tables: Table, fields: Sequence[Field], rules: Rules) -> dict[str, Any]:
    """Make the fields that are made of tables, [T, B]."""
    shown: dict[str, Any] = {}
    last_action = _LAST_ACTION.get(tables.meta).astype(jnp.int8) - 1
    tables = tables._replace(meta=tables.meta & META_BITS)
    player = tables.unpack_meta().player
    if "view" in fields:
        shown["view"] = view_of_table(tables, player, rules)
    if "observation" in fields:
        shown["observation"] = observe_tables(tables, last_action, player.astype(jnp.int8), rules)
    if "state" in fields:
        shown["state"] = begin_packed(tables, rules, last_action=last_action).unpack()
    if "legal_mask" in fields:
        options = lax.optimization_barrier(table.find_node(tables, rules).options)
        shown["legal_mask"] = game.options_to_actions(options, rules=rules)
    return shown
