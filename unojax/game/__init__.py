"""The game as pure functions of one unbatched `State`: `init`, `legal_mask`, `step`. Batch them with `vmap`.

The rules themselves are in `unojax.table`. This package converts states, checks actions, and adds the fields of an
episode: rewards, truncation, errors.
"""

from unojax.game.layout import Packed, account_at, account_of, begin_packed, from_table, lay_out, pack_state, to_table, turn_of
from unojax.game.masks import (
    actions_to_options,
    hand_legal_mask,
    options_to_actions,
    options_to_mask,
    turn_legal_mask,
)
from unojax.game.state import NO_ACTION, NO_WINNER, NONE, Error, State, check_state
from unojax.game.steps import (
    GivenCards,
    init,
    init_packed,
    legal_mask,
    packed_legal_mask,
    rewards_at,
    step,
    step_checked,
    step_packed,
    step_packed_with,
    step_with,
)

__all__ = ["NONE", "NO_ACTION", "NO_WINNER", "Error", "GivenCards", "Packed", "State", "account_at", "account_of"]
__all__ += ["actions_to_options", "begin_packed", "check_state", "from_table", "hand_legal_mask", "init", "init_packed"]
__all__ += ["lay_out", "legal_mask", "options_to_actions", "options_to_mask", "pack_state", "packed_legal_mask"]
__all__ += ["rewards_at", "step", "step_checked", "step_packed", "step_packed_with", "step_with", "to_table"]
__all__ += ["turn_legal_mask", "turn_of"]
