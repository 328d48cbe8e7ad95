"""Whole games as rows, one per step, for offline training and analysis: `stream_trajectories`.

The columns:

    game, step       int64 number of the game, int32 of the step in it, both from 0
    player           int8 player to move, the observer of the row
    hand, pile       uint8[54] cards of each type in the mover's hand, and on the pile
    opponent_hand    uint8[54] the hidden hand: a training target that no policy may see
    opponent_count, deck_count   uint8 numbers of cards
    top_rank, color, penalty     uint8 as in `unojax.Observation`
    has_drawn, drawn, contested  bool, int8, int8 as there
    last_action      int8 the action before, -1 at the start
    legal            bool[61], or [62] under rules with challenges, the legal actions
    action           int8 the action taken
    reward           float32 of the mover for this step, as `State.rewards`
    outcome          float32 of the mover in the end: 1 won, -1 lost, 0 neither
    done, truncated  bool the game is over after this step; it was truncated there
    top, move        str the top card, a wild one with the active color, and the action, both as notation: `R5`, `W:B`, `draw`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards
from unojax.decks import is_int
from unojax.device.random_bits import check_key
from unojax.device.shares import ALL, check_share
from unojax.device.static import Argument
from unojax.files.columns import Columns
from unojax.policies import PackedPolicy, Policy, as_policies, distinct
from unojax.rules import Rules, as_rules
from unojax.simulation import Slots, Transitions, check_slots, rollout, start_slots
from unojax.text.notation import format_action

_ROWS: Final = 64
"""Rows of a rollout between two checks for complete games on the host."""
_ACTIONS: Final = np.array([format_action(action) for action in range(cards.NUM_ACTIONS + 1)])
"""Notation of each action, including a challenge."""
_PLAYS: Final = _ACTIONS[: cards.DRAW].reshape(cards.NUM_COLORS, cards.NUM_RANKS)
"""Notation of the card of a color and a rank; of a wild card with the active color."""
_FIELDS: Final = ("state", "observation", "legal_mask", "action", "player", "reward", "terminated", "truncated", "game", "step")


def stream_trajectories(
    key: Array,
    num_games: int,
    policies: Sequence[str | Policy],
    *,
    rules: Rules | str = Rules(),
    batch_size: int = 256,
    share: tuple[int, int] = ALL,
) -> Iterator[Columns]:
    """Yield the module's columns of games of two policies, whole games in order, NumPy.

    The games equal those of `simulate` with the same key. Local devices share a batch if they can divide it equally.

    Args:
        key: A threefry2x32 key (the default kind). Game g uses the random stream (key, g).
        num_games: At least 1.
        policies: Names or policies of player 0 and player 1.
        rules: Rules of the game, or the name of a preset.
        batch_size: Games at a time; changes no result. During a long game, later games are held in memory too.
        share: (part, parts). Play only the games with number % parts == part.

    Raises:
        ValueError: If an argument is out of range, or a policy chose an illegal action.
    """
    check_key(key, "stream_trajectories")
    for name, number in (("num_games", num_games), ("batch_size", batch_size)):
        if not (is_int(number) and number >= 1):
            raise ValueError(f"{name} must be an integer of at least 1, got {number!r}")
    pair = Argument(distinct(as_policies(policies)))
    share = check_share(share, num_games)
    asked = range(num_games)[share.part :: share.parts]
    size = min(batch_size, len(asked))
    slots = start_slots(key, size, rules=as_rules(rules), share=share)
    games = _Games(num_games)
    for first in range(0, len(asked), size):
        batch = asked[first : first + size]
        while not games.are_complete(batch):
            slots, rows = _advance(pair, key, slots)
            games.add(jax.device_get(rows))
            # An illegal action leaves the game unchanged, so it would never end. Env slots also play games beyond the last one.
            check_slots(slots, num_games)
        yield games.take(batch)


@partial(jax.jit, donate_argnames="slots")
def _advance(pair: Argument, key: Array, slots: Slots) -> tuple[Slots, dict[str, Array]]:
    """Advance all env slots and return their columns, [T, B, ...]."""
    policies = [_with_params(policy) for policy in pair.value]
    params = [None] * len(policies)
    slots, rows = rollout(key, policies, params if len(policies) > 1 else None, slots, _ROWS, fields=_FIELDS)
    return slots, _columns(rows)


def _with_params(policy: Policy) -> Any:
    """Adapt a policy to the signature of `rollout`."""
    if isinstance(policy, PackedPolicy):
        return policy
    return lambda params, key, observation, legal_mask: policy(key, observation, legal_mask)


def _columns(rows: Transitions) -> dict[str, Array]:
    seen, state, player = rows.observation, rows.state, rows.player
    assert seen is not None and state is not None and player is not None and rows.reward is not None, "asked for"
    is_first = player == 0
    other_hand = jnp.where(is_first[..., None], state.hands[..., 1, :], state.hands[..., 0, :])
    types = {"hand": seen.hand, "pile": seen.pile, "opponent_hand": other_hand}
    numbers = ("opponent_count", "deck_count", "top_rank", "color", "penalty")
    as_seen = ("has_drawn", "drawn", "contested", "last_action")
    as_played = ("valid", "game", "step", "player", "action", "terminated", "truncated")
    return (
        {name: getattr(rows, name) for name in as_played}
        | {name: cards.counts(of).astype(jnp.uint8) for name, of in types.items()}
        | {name: getattr(seen, name).astype(jnp.uint8) for name in numbers}
        | {name: getattr(seen, name) for name in as_seen}
        | {"legal": rows.legal_mask, "reward": jnp.where(is_first, rows.reward[..., 0], rows.reward[..., 1])}
    )


class _Games:
    """Buffered steps of games on the host."""

    def __init__(self, num_games: int):
        self._held: list[Columns] = []
        self._is_complete = np.zeros(num_games, bool)
        self._is_cut_off = np.zeros(num_games, bool)

    def are_complete(self, batch: range) -> bool:
        return bool(self._is_complete[batch.start : batch.stop : batch.step].all())

    def add(self, rows: Columns) -> None:
        """Add rows of a rollout, [T, B, ...]."""
        asked = rows["game"] < len(self._is_complete)
        for name, games in (("terminated", self._is_complete), ("truncated", self._is_cut_off)):
            games[rows["game"][asked & rows[name]]] = True
        self._is_complete |= self._is_cut_off
        self._held.append({name: column[asked & rows["valid"]] for name, column in rows.items() if name != "valid"})

    def take(self, batch: range) -> Columns:
        """Yield complete games, in order."""
        held = {name: np.concatenate([part[name] for part in self._held]) for name in self._held[0]}
        is_in = held["game"] <= batch[-1]
        self._held = [{name: column[~is_in] for name, column in held.items()}]
        # The rows of a game are already in step order.
        order = np.flatnonzero(is_in)[np.argsort(held["game"][is_in], kind="stable")]
        rows = {name: column[order] for name, column in held.items()}
        number = rows.pop("game").astype(np.int64)
        is_last = np.append(number[1:] != number[:-1], True)
        # Truncation has no mover: the row before is the game's last.
        truncated = is_last & self._is_cut_off[number]
        done = rows.pop("terminated") | truncated
        # The mover is the game's last. Its play of the last card wins, and an impossible draw is won by the smaller hand; the
        # reward does not show the winner, since the cards of a loser may be worth no points.
        smaller = np.sign(rows["opponent_count"].astype(int) - rows["hand"].sum(-1, dtype=int))
        won = np.where(truncated, 0, np.where(rows["action"] == cards.DRAW, smaller, 1))[is_last]
        which = np.cumsum(is_last) - is_last
        same = rows["player"] == rows["player"][is_last][which]
        outcome = np.where(same, won[which], -won[which]).astype(np.float32)
        head = {"game": number, "step": rows.pop("step"), "player": rows.pop("player")}
        text = {"top": _PLAYS[rows["color"], rows["top_rank"]], "move": _ACTIONS[rows["action"]]}
        return head | rows | {"outcome": outcome, "done": done, "truncated": truncated} | text
