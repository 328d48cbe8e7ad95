"""Games of a policy network against itself, in env slots with auto-reset: its decisions, with the observation at each."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game, table
from unojax.device.random_bits import uniform_of
from unojax.rules import Rules
from unojax.simulation.rollouts import NODES_PER_CHOICE
from unojax.simulation.slots import (
    Decision,
    Slots,
    Words,
    fresh_slots,
    no_bounds,
    pass_forced,
    play_rows,
    restart,
    words_at,
)
from unojax.table import Node
from unojax.value.features import Features, features, outlook_of_ages, outlook_of_hand
from unojax.value.network import Network
from unojax.view import view_at_node

RULES: Final = Rules()
"""Rules of all training games."""
_UP_TO: Final = np.triu(np.ones((cards.DRAW, cards.DRAW), np.float32))
"""Turns numbers of plays into cumulative sums: on CPU a matrix product is much faster than a cumulative sum."""
_NEVER: Final = -1e9
"""Logit of an illegal play."""


class Rows(NamedTuple):
    """Decisions of B slots at T times, [T, B, ...], and events until the next row.

    Attributes:
        seen: Observation of the player to move, the input of the policy.
        known: The same with the opponent's hand, the input of the critic.
        legal: bool[T, B, 60].
        action: int32[T, B]. Action drawn from the policy.
        log_prob: float32[T, B]. Log probability of that action.
        value: float32[T, B]. The critic's value for the player to move.
        mover: uint32[T, B]. Player to move.
        is_choice: bool[T, B]. The slot has reached a decision. If not, only the next two fields are valid.
        has_ended: bool[T, B]. The game ended before the next row.
        outcome: float32[T, B]. Outcome of that game for player 0: 1, -1, or 0 for a draw.
        num_steps: uint32[T, B]. Transitions of the game before the next row, to its end if it ended.
    """

    seen: Features
    known: Features
    legal: Array
    action: Array
    log_prob: Array
    value: Array
    mover: Array
    is_choice: Array
    has_ended: Array
    outcome: Array
    num_steps: Array


class Horizon(NamedTuple):
    """State after the last row: the critic's value for player 0 at the next decision, if there is one."""

    value: Array
    is_choice: Array


def begin_games(num_slots: int) -> Slots:
    """Begin the games 0 .. num_slots - 1."""
    number = jnp.arange(num_slots, dtype=jnp.uint32)
    return fresh_slots(number, RULES, stride=num_slots, bounds=no_bounds(number))


def play_choices(seed: Words, slots: Slots, actor: Network, critic: Network, num_rows: int) -> tuple[Slots, Rows, Horizon]:
    """Play through about `num_rows` further decisions of each slot.

    Pure. A game depends only on its number, not on other slots, up to rounding in the networks.

    Args:
        seed: Seed of all games.
        slots: [B]. The games.
        actor, critic: Networks that choose plays, and value positions with all cards known.
        num_rows: T, static.
    """

    def choose(slots: Slots) -> Decision:
        node = table.find_node(slots.table, RULES)
        is_choice = node.is_choice
        seen, known = _look(slots, node)
        legal = jax.vmap(game.options_to_mask)(node.legal)
        logits = actor(seen).policy_logits
        assert logits is not None, "an actor has a policy head"
        log_probs = masked_log_probs(logits, legal)
        word = words_at(seed, slots)[0]
        action = _draw(log_probs, legal, word)
        move = table.resolve(slots.table, node, table.pick_of(action.astype(jnp.uint32)), jnp.zeros_like(word), RULES)
        row = {
            "seen": seen,
            "known": known,
            "legal": legal,
            "action": action,
            "log_prob": jnp.take_along_axis(log_probs, action[:, None], -1)[:, 0],
            "value": critic(known).value,
            "mover": node.meta.player,
            "is_choice": is_choice,
        }
        return Decision(jnp.where(is_choice, move, table.stay(slots.table)), row)

    def finish(before: Slots, decision: Decision, after: Slots, rest: None) -> tuple[Slots, None, Rows]:
        meta = after.table.unpack_meta()
        has_ended = meta.is_over
        row = Rows(**decision.seen, has_ended=has_ended, outcome=meta.outcome, num_steps=after.num_steps - before.num_steps)
        return restart(after, has_ended, after.game + np.uint32(after.stride)), rest, row

    # Rows skip forced moves and chance events, up to the next decision.
    forced = partial(pass_forced, key=seed, choices_only=True)
    slots, _, rows = play_rows(slots, None, choose, forced, finish, num_nodes=NODES_PER_CHOICE, num_rows=num_rows)
    node = table.find_node(slots.table, RULES)
    return slots, rows, Horizon(critic(_look(slots, node)[1]).value * sign_of(node.meta.player), node.is_choice)


def masked_log_probs(logits: Array, legal: Array) -> Array:
    """Return log probabilities of the legal plays, float32[..., 60].

    Illegal plays get a large negative number, so that 0 times it is 0.
    """
    return jax.nn.log_softmax(jnp.where(legal, logits, _NEVER))


def sign_of(player: Array) -> Array:
    """Return 1 for player 0, -1 for player 1: float32[...]."""
    return 1.0 - 2.0 * player.astype(jnp.float32)


def _look(slots: Slots, node: Node) -> tuple[Features, Features]:
    """Observe the positions as the players to move, and as an observer of both hands."""
    assert slots.bounds is not None, "games are begun with them"
    view = view_at_node(slots.table, node, RULES)
    outlook = outlook_of_ages(view, jnp.where(node.meta.player == 0, slots.bounds[1], slots.bounds[0]))
    theirs = bits.map_words(lambda low, high, own: (low ^ high) & ~own, slots.table.low, slots.table.high, node.hand)
    return features(view, outlook), features(view, outlook_of_hand(theirs))


def _draw(log_probs: Array, legal: Array, word: Array) -> Array:
    """Draw a legal play by a random word: int32[B]; 0 if there is none."""
    # Adjacent sums can differ by rounding alone, so illegal plays are excluded explicitly.
    sums = jnp.dot(jnp.exp(log_probs), _UP_TO, precision=lax.Precision.HIGHEST)
    reached = jnp.where(legal, sums, 0.0)
    share = uniform_of(word)
    return jnp.argmax(reached > (share * reached.max(1))[:, None], axis=1).astype(jnp.int32)
