"""Rows of a rollout: a few words during play, a fifth of the size of one-hots, and the fields of a trajectory afterwards.

The words of a row are two arrays, so that a GPU stores it with two kernels.
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
"""Possible fields of a trajectory; see `Transitions`."""

_VALID: Final = BitField(0, 1)
_TERMINATED: Final = BitField(1, 1)
_TRUNCATED: Final = BitField(2, 1)
_PLAYER: Final = BitField(3, 1)
_ACTION: Final = BitField(4, 7)
"""Bit fields of the first outcome word of a row."""
_LAST_ACTION: Final = BitField(18, 7)
"""Bit field of a table's `meta`, above the table's own. Stored plus one, since it is -1 at the start of a game."""
_OF_CARDS: Final = frozenset(("observation", "view", "legal_mask", "state"))
"""Fields that are made of a table."""
_SHOW_LAST_ACTION: Final = frozenset(("observation", "state"))
"""Those fields of tables that show the previous action."""


@struct.dataclass
class Transitions:
    """A trajectory of B slots over T rows, [T, B, ...]. Fields that were not requested are None.

    Rows that are not `valid` show no decision, but still carry rewards and ends that follow an earlier decision.

    Attributes:
        valid: bool[T, B] a player acted in this row.
        extras: The policy's pytree of extras; None without extras.
        observation, view: Information of the player to move, one-hot or packed.
        legal_mask: bool[T, B, 61] its legal actions; [T, B, 62] with challenges.
        state: All cards, including the hidden hand: for critics and targets, not for policies. The episode's own
            fields (`rewards`, `truncated`, `step_count`, `error`) are as at the start of a game.
        action: int8[T, B] action taken.
        player: int8[T, B] acting player, 0 or 1.
        reward: float32[T, B, 2] rewards of both players from the row's decision to the next row.
        terminated: bool[T, B] the game ended between the row's decision and the next row.
        truncated: bool[T, B] `Rules.max_steps` cut the game off here. Neither player acts in this row; bootstrap from the value
            of its observation, the last of the game.
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
        before: Words known at the row's decision. Stored separately, they are read before a GPU replaces them.
        outcome: Words known at its end.
    """

    before: Array | None
    outcome: Array


def pack_row(fields: Sequence[Field], before: Slots, move: Array, acts: Array, cut_off: Array, after: Slots) -> Row:
    """Pack the words that the fields need.

    Args:
        fields: Fields of the trajectory.
        before, after: Slots at the row's decision, and after the row before new deals.
        move: uint32[B] move of the decision.
        acts, cut_off: bool[B] a player acts in the row; the game is cut off there.
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
    terminated = after.table.unpack_meta().is_over
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
    # Separate buffers; otherwise a GPU would copy the slots to make these words after the row.
    outcome = lax.optimization_barrier(outcome)
    return Row(jnp.stack(known) if known else None, jnp.stack(outcome))


def _rewards(before: Slots, after: Slots, terminated: Array) -> Array:
    """Sum the rewards of a row's steps, float32[2, B]: the final reward, and the penalty for each earlier step."""
    rules = before.rules
    rewards = jnp.where(terminated, game.rewards_at(after.table, rules), np.float32(0))
    if rules.step_penalty:
        num_penalties = (after.num_steps - before.num_steps).astype(jnp.int32) - terminated
        rewards -= np.float32(rules.step_penalty) * num_penalties
    return rewards


def unpack_rows(rows: Row, extras: Any, fields: Sequence[Field], rules: Rules) -> Transitions:
    """Compute the fields of a trajectory from the words of its rows, uint32[T, W, B] each."""
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
    """Compute the fields that depend on tables, [T, B]."""
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
