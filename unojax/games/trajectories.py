"""Whole games as rows, one for each step, for offline training and analysis: `stream_trajectories`.

column           of each row
game, step       int64 number of the game, int32 of the step in it, both from 0
player           int8 who moves; the row is what this player sees, but for `opponent_hand`
hand, pile       uint8[54] cards of each type in the mover's hand, and on the pile
opponent_hand    uint8[54] the hidden hand: a target for training, and nothing that a policy may see
opponent_count, deck_count   uint8 numbers of cards
top_rank, color, penalty     uint8 as in `unojax.Observation`
has_drawn, drawn, contested  bool, int8, int8 as there
last_action      int8 the action before, -1 at the start
legal            bool[61], or [62] under rules with challenges, the legal actions
action           int8 the one made
reward           float32 of the mover for this step, as `State.rewards`
outcome          float32 of the mover in the end: 1 won, -1 lost, 0 neither
done, truncated  bool the game is over after this step; it was cut off there
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards, game
from unojax.decks import is_int
from unojax.device import control, static
from unojax.device.random_bits import check_key
from unojax.device.static import Skeleton
from unojax.files.columns import Columns
from unojax.game import State
from unojax.observation import observe
from unojax.policies import Policy, as_policies, ask, distinct
from unojax.rules import Rules, as_rules

_STEPS: Final = 64
"""Steps between two looks of the host at which games are over."""


def stream_trajectories(
    key: Array, num_games: int, policies: Sequence[str | Policy], *, rules: Rules | str = Rules(), batch_size: int = 256
) -> Iterator[Columns]:
    """Play games of two policies and give all their steps, whole games in their order, a batch of games at a time.

    Args:
        key: game g uses `fold_in(key, g)`, so games are the same whatever the batch size. Consumed.
        num_games: at least 1.
        policies: player p follows `policies[p]`, a name or a policy.
        rules: of the game.
        batch_size: games at a time.

    Yields:
        The columns above, NumPy.

    Raises:
        ValueError: an argument is out of its range, or a policy chose an illegal action.
    """
    check_key(key, "stream_trajectories")
    for name, number in (("num_games", num_games), ("batch_size", batch_size)):
        if not (is_int(number) and number >= 1):
            raise ValueError(f"{name} must be an integer of at least 1, got {number!r}")
    rules = as_rules(rules)
    weights, skeleton = static.split(distinct(as_policies(policies)))
    size = min(batch_size, num_games)
    for first in range(0, num_games, size):
        # A lane too many plays the last game again, of which one is handed out.
        numbers = np.minimum(np.arange(first, first + size), num_games - 1)
        keys, states = _begin(key, numbers, rules=rules)
        parts = []
        while True:
            states, rows = _advance(weights, keys, states, skeleton=skeleton)
            parts.append(jax.device_get(rows))
            # A game stands still at an illegal action, so it would never be over.
            if (wrong := np.flatnonzero(np.asarray(states.error))).size:
                raise ValueError(f"a policy chose an illegal action in game {numbers[wrong[0]]}")
            if np.asarray(states.is_over).all():
                break
        yield _flat(parts, numbers, jax.device_get(states), min(size, num_games - first))


def _flat(parts: list[Columns], numbers: np.ndarray, ends: Any, num_games: int) -> Columns:
    """Lay the steps [T, G] of games that are over out as rows, game after game."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    taken = columns.pop("taken").T[:num_games]
    which, step = np.nonzero(taken)
    rows = {name: values.swapaxes(0, 1)[which, step] for name, values in columns.items()}
    winner, mover = ends.winner[which], rows["player"]
    outcome = np.where(winner < 0, 0, np.where(winner == mover, 1, -1)).astype(np.float32)
    head = {"game": numbers[which].astype(np.int64), "step": step.astype(np.int32)}
    return head | rows | {"outcome": outcome}


@partial(jax.jit, static_argnames="rules")
def _begin(key: Array, numbers: Array, *, rules: Rules) -> tuple[Array, State]:
    pairs = jax.vmap(lambda number: jax.random.split(jax.random.fold_in(key, number)))(numbers)
    return pairs[:, 1], jax.vmap(partial(game.init, rules=rules))(pairs[:, 0])


@partial(jax.jit, static_argnames="skeleton")
def _advance(weights: list[Array], keys: Array, states: State, *, skeleton: Skeleton) -> tuple[State, dict[str, Array]]:
    step = jax.vmap(partial(_step, static.join(weights, skeleton)))
    return control.scan(lambda carry, _: step(keys, carry), states, None, length=_STEPS)


def _step(policies: tuple[Policy, ...], key: Array, state: State) -> tuple[State, dict[str, Array]]:
    key_policy, key_draw = jax.random.split(jax.random.fold_in(key, state.step_count))
    seen, legal = observe(state, state.current_player), game.legal_mask(state)
    action = ask(policies, key_policy, seen, legal)
    after = game.step(state, action, key_draw)
    row = {
        "taken": ~state.is_over,
        "player": state.current_player.astype(jnp.int8),
        "hand": cards.counts(seen.hand).astype(jnp.uint8),
        "pile": cards.counts(seen.pile).astype(jnp.uint8),
        "opponent_hand": cards.counts(state.hands[1 - state.current_player]).astype(jnp.uint8),
        "opponent_count": seen.opponent_count.astype(jnp.uint8),
        "deck_count": seen.deck_count.astype(jnp.uint8),
        "top_rank": seen.top_rank.astype(jnp.uint8),
        "color": seen.color.astype(jnp.uint8),
        "penalty": seen.penalty.astype(jnp.uint8),
        "has_drawn": seen.has_drawn,
        "drawn": seen.drawn.astype(jnp.int8),
        "contested": seen.contested.astype(jnp.int8),
        "last_action": seen.last_action.astype(jnp.int8),
        "legal": legal,
        "action": action.astype(jnp.int8),
        "reward": after.rewards[state.current_player].astype(jnp.float32),
        "done": after.is_over,
        "truncated": after.truncated,
    }
    return after, row
