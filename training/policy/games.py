"""Games of a policy network against itself, in lanes that never idle: its choices, and what was seen at each."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game, table
from unojax.belief import color_bounds
from unojax.device.lanes import walk
from unojax.device.random_bits import threefry
from unojax.rules import Rules
from unojax.table import Node, Picked, Table
from unojax.value.features import Features, features, outlook_of_ages, outlook_of_hand
from unojax.value.network import Network
from unojax.view import view_at_node

RULES: Final = Rules()
"""Rules of all games that are learned from."""
Seed = tuple[Array, Array]
"""Two words, uint32[] each."""
_NODES: Final = 9
"""Nodes that a lane takes from one choice to the next, at most: it is there in seven of eight cases."""
_UP_TO: Final = np.triu(np.ones((cards.DRAW, cards.DRAW), np.float32))
"""Adds up numbers of plays to those of all plays up to each: on CPU a product is much faster than a running sum."""
_NEVER: Final = -1e9
"""The logit of a play that is not legal."""


class Lanes(NamedTuple):
    """B games in progress: uint32[B] each.

    Attributes:
        table: the games.
        game_index: index of the game. The lane's next game has that index plus the number of all lanes.
        node: nodes passed in this game, the counter of its random words.
        ages: what each player has shown, see `unojax.belief.color_bounds`.
        num_steps: transitions of the game since the lane's last row.
    """

    table: Table
    game_index: Array
    node: Array
    ages: tuple[Array, Array]
    num_steps: Array


class Rows(NamedTuple):
    """Positions of B lanes at T times, [T, B, ...].

    Attributes:
        seen: what the player to move knows, the input of the policy.
        known: the same with the opponent's hand, the input of the critic.
        legal: bool[T, B, 60].
        action: int32[T, B] played, drawn from the policy.
        log_prob: float32[T, B] of that action.
        value: float32[T, B] the critic's, for the player to move.
        mover: uint32[T, B] who is to move.
        is_choice: bool[T, B] the lane has come to a choice. If not, only the next two count.
        has_ended: bool[T, B] a game ended since the last row.
        outcome: float32[T, B] of that game, for player 0: 1, -1, or 0 for a drawn game.
        num_steps: uint32[T, B] transitions of the game since the last row, to its end if it ended.
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
    """What follows the last row: the critic's value for player 0 at the next choice if there is one, the end of a game, steps."""

    value: Array
    is_choice: Array
    has_ended: Array
    outcome: Array
    num_steps: Array


def start_lanes(num_lanes: int) -> Lanes:
    """Begin the games 0 .. num_lanes - 1."""
    return _deal(jnp.arange(num_lanes, dtype=jnp.uint32))


def _deal(index: Array) -> Lanes:
    nothing = jnp.full_like(index, color_bounds.NOTHING_SHOWN)
    return Lanes(table.new_table(index, RULES), index, jnp.zeros_like(index), (nothing, nothing), jnp.zeros_like(index))


def play_rows(
    seed: Seed, lanes: Lanes, actor: Network, critic: Network, num_rows: int, num_lanes: int
) -> tuple[Lanes, Rows, Horizon]:
    """Play on, to the next `num_rows` choices of each lane or nearly so.

    Pure. A game is the same for its index whatever the other lanes are, up to rounding in the networks.

    Args:
        seed: of all games.
        lanes: [B] the games.
        actor, critic: choose the plays; value positions with all cards known.
        num_rows: T, static.
        num_lanes: static, of all devices.
    """
    go_on = partial(_next_choice, seed, num_lanes=num_lanes)

    def one_row(carry: tuple[Lanes, Array], _: None) -> tuple[tuple[Lanes, Array], Rows]:
        lanes, has_ended, outcome, num_steps = go_on(*carry)
        node = table.find_node(lanes.table, RULES)
        is_choice = _is_choice(node)
        seen, known = _look(lanes, node)
        legal = jax.vmap(game.options_to_mask)(node.legal)
        logits = actor(seen).policy_logits
        assert logits is not None, "an actor has a policy head"
        log_probs = masked_log_probs(logits, legal)
        word = threefry(seed, (lanes.game_index, lanes.node))[0]
        action = _draw(log_probs, legal, word)
        move = table.resolve(lanes.table, node, table.pick_of(action.astype(jnp.uint32)), jnp.zeros_like(word), RULES)
        row = Rows(
            seen=seen,
            known=known,
            legal=legal,
            action=action,
            log_prob=jnp.take_along_axis(log_probs, action[:, None], -1)[:, 0],
            value=critic(known).value,
            mover=node.meta.player,
            is_choice=is_choice,
            has_ended=has_ended,
            outcome=outcome,
            num_steps=num_steps,
        )
        return (lanes, jnp.where(is_choice, move, table.stay(lanes.table))), row

    carry, rows = lax.scan(one_row, (lanes, table.stay(lanes.table)), None, length=num_rows)
    lanes, has_ended, outcome, num_steps = go_on(*carry)
    node = table.find_node(lanes.table, RULES)
    value = critic(_look(lanes, node)[1]).value * sign_of(node.meta.player)
    return lanes, rows, Horizon(value, _is_choice(node), has_ended, outcome, num_steps)


def masked_log_probs(logits: Array, legal: Array) -> Array:
    """Log probabilities of the legal plays, float32[..., 60]; of the others a large negative number, so that 0 times it is 0."""
    return jax.nn.log_softmax(jnp.where(legal, logits, _NEVER))


def sign_of(player: Array) -> Array:
    """1 for player 0, -1 for player 1: float32[...]."""
    return 1.0 - 2.0 * player.astype(jnp.float32)


def _next_choice(seed: Seed, lanes: Lanes, move: Array, *, num_lanes: int) -> tuple[Lanes, Array, Array, Array]:
    """Carry out a move, then what is forced and what chance decides, to a choice or for some nodes; deal anew where a game ends.

    Returns:
        the lanes; bool[B] a game ended; float32[B] its outcome for player 0; uint32[B] transitions passed.
    """

    def decide(lanes: Lanes) -> Array:
        word, coins = threefry(seed, (lanes.game_index, lanes.node))
        node = table.find_node(lanes.table, RULES)
        pick = Picked(*bits.choose(bits.where(node.is_decision, node.legal, node.deck), word))
        return jnp.where(_is_choice(node), table.stay(lanes.table), table.resolve(lanes.table, node, pick, coins, RULES))

    lanes = lanes._replace(num_steps=jnp.zeros_like(lanes.num_steps))
    lanes = walk(lanes, move, lambda _, lanes, move: decide(lanes), _carry_out, num_nodes=_NODES)
    phase = lanes.table.unpack_meta().phase
    has_ended = phase > table.PLAY
    outcome = jnp.where(phase == table.OVER_WON_BY_0, 1.0, jnp.where(phase == table.OVER_WON_BY_1, -1.0, 0.0))
    fresh = _deal(lanes.game_index + np.uint32(num_lanes))
    return jax.tree.map(partial(jnp.where, has_ended), fresh, lanes), has_ended, outcome, lanes.num_steps


def _is_choice(node: Node) -> Array:
    return node.is_decision & (bits.count(node.legal) > 1)


def _carry_out(lanes: Lanes, move: Array) -> Lanes:
    after = table.commit(lanes.table, move)
    was, now = lanes.table.unpack_meta(), after.unpack_meta()
    kind = jnp.where(now.rank >= cards.WILD, np.uint32(color_bounds.WILDS), now.color)
    plays, draws = table.is_play(move), table.is_card_drawn(move) & (was.phase == table.PLAY)
    could_not_play = (was.penalty == 0) & (was.to_draw == 0)

    def tell(player: int, shown: Array) -> Array:
        drawn = color_bounds.after_draw(shown, 1, could_not_play, was.color)
        moved = jnp.where(plays, color_bounds.after_play(shown, kind), jnp.where(draws, drawn, shown))
        return jnp.where(was.player == player, moved, shown)

    first, second = lanes.ages
    moves = move != table.stay(lanes.table)
    shown = tell(0, first), tell(1, second)
    num_steps = lanes.num_steps + table.is_step(move).astype(jnp.uint32)
    return lanes._replace(table=after, node=lanes.node + moves.astype(jnp.uint32), ages=shown, num_steps=num_steps)


def _look(lanes: Lanes, node: Node) -> tuple[Features, Features]:
    """Show the positions to the players to move, and to who sees both hands."""
    view = view_at_node(lanes.table, node, RULES)
    outlook = outlook_of_ages(view, jnp.where(node.meta.player == 0, lanes.ages[1], lanes.ages[0]))
    theirs = bits.map_words(lambda low, high, own: (low ^ high) & ~own, lanes.table.low, lanes.table.high, node.hand)
    return features(view, outlook), features(view, outlook_of_hand(theirs))


def _draw(log_probs: Array, legal: Array, word: Array) -> Array:
    """Draw a legal play by a random word: int32[B]; 0 where there is none."""
    # Sums can differ from their neighbours by rounding alone: an illegal play has no share of its own.
    sums = jnp.dot(jnp.exp(log_probs), _UP_TO, precision=lax.Precision.HIGHEST)
    reached = jnp.where(legal, sums, 0.0)
    share = (word >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24)
    return jnp.argmax(reached > (share * reached.max(1))[:, None], axis=1).astype(jnp.int32)
