"""Games that a policy network plays against itself, in lanes that never idle: choices, and what came of them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game, table
from unojax.belief import ages
from unojax.device.lanes import walk
from unojax.device.random_bits import threefry
from unojax.rules import Rules
from unojax.table import Node, Table
from unojax.value.features import Features, features, outlook_of_hand, outlook_of_ages
from unojax.value.network import Network
from unojax.view import view_at_node

RULES: Final = Rules()


class Lanes(NamedTuple):
    table: Table
    game_index: Array
    node: Array
    ages: tuple[Array, Array]


class Choices(NamedTuple):
    """Rows [T, B]."""

    seen: Features
    known: Features
    legal: Array
    action: Array
    log_prob: Array
    value: Array
    mover: Array
    is_ready: Array
    has_ended: Array
    outcome: Array


def start(num_lanes: int) -> Lanes:
    index = jnp.arange(num_lanes, dtype=jnp.uint32)
    return _fresh(index)


def _fresh(index: Array) -> Lanes:
    nothing = jnp.full_like(index, ages.NOTHING_SHOWN)
    return Lanes(table.new_table(index, RULES), index, jnp.zeros_like(index), (nothing, nothing))


def _walk_forced(lanes: Lanes, seed: tuple[Array, Array], num_nodes: int) -> Lanes:
    def decide(lanes: Lanes) -> Array:
        word, coins = threefry(seed, (lanes.game_index, lanes.node))
        node = table.find_node(lanes.table, RULES)
        options = bits.where(node.is_decision, node.legal, node.deck)
        move = table.resolve(lanes.table, node, table.Picked(*bits.choose(options, word)), coins, RULES)
        return jnp.where(_is_choice(node), table.stay(lanes.table), move)

    return walk(lanes, decide(lanes), lambda i, lanes, move: decide(lanes), _carry_out, num_nodes=num_nodes)


def _is_choice(node: Node) -> Array:
    return node.is_decision & (bits.count(node.legal) > 1)


def _carry_out(lanes: Lanes, move: Array) -> Lanes:
    moves = move != table.stay(lanes.table)
    after = table.commit(lanes.table, move)
    return Lanes(
        after, lanes.game_index, lanes.node + moves.astype(jnp.uint32), follow_ages(lanes.ages, lanes.table, after, move)
    )


def follow_ages(both, before: Table, after: Table, move: Array):
    was, now = before.unpack_meta(), after.unpack_meta()
    kind = jnp.where(now.rank >= cards.WILD, np.uint32(ages.WILDS), now.color)
    plays, draws = table.is_play(move), table.is_card_drawn(move) & (was.phase == table.PLAY)

    def one(player, word):
        drew = ages.after_draw(word, 1, (was.penalty == 0) & (was.to_draw == 0), was.color)
        new = jnp.where(plays, ages.after_play(word, kind), jnp.where(draws, drew, word))
        return jnp.where(was.player == player, new, word)

    return one(0, both[0]), one(1, both[1])


def look(lanes: Lanes, node: Node) -> tuple[Features, Features]:
    tables = lanes.table
    view = view_at_node(tables, node, RULES)
    shown = jnp.where(node.meta.player == 0, lanes.ages[1], lanes.ages[0])
    theirs = bits.map_words(lambda a, b, own: (a ^ b) & ~own, tables.low, tables.high, node.hand)
    return features(view, outlook_of_ages(view, shown)), features(view, outlook_of_hand(theirs))


def masked_log_probs(logits: Array, legal: Array) -> Array:
    return jax.nn.log_softmax(jnp.where(legal, logits, -1e9))


def play(
    lanes: Lanes, key: Array, actor: Network, critic: Network, num_rows: int, num_nodes: int, seed
) -> tuple[Lanes, Choices, Array]:
    num = len(lanes.node)

    def advance(lanes):
        lanes = _walk_forced(lanes, seed, num_nodes)
        phase = lanes.table.unpack_meta().phase
        ended = phase > table.PLAY
        outcome = jnp.where(phase == table.OVER_WON_BY_0, 1.0, jnp.where(phase == table.OVER_WON_BY_1, -1.0, 0.0))
        fresh = _fresh(lanes.game_index + np.uint32(num))
        return jax.tree.map(partial(jnp.where, ended), fresh, lanes), ended, outcome

    def one_row(lanes: Lanes, key: Array):
        lanes, ended, outcome = advance(lanes)
        node = table.find_node(lanes.table, RULES)
        ready = _is_choice(node)
        seen, known = look(lanes, node)
        legal = jax.vmap(game.options_to_mask)(node.legal)
        log_probs = masked_log_probs(actor(seen).policy_logits, legal)
        value = critic(known).value
        u = jax.random.uniform(key, (num, 1))
        cum = jnp.cumsum(jnp.exp(log_probs), -1)
        action = jnp.minimum((cum < u * cum[:, -1:]).sum(-1), 59)
        move = table.resolve(lanes.table, node, table.pick_of(action.astype(jnp.uint32)), jnp.zeros_like(lanes.node), RULES)
        lanes = _carry_out(lanes, jnp.where(ready, move, table.stay(lanes.table)))
        log_prob = jnp.take_along_axis(log_probs, action[:, None], -1)[:, 0]
        return lanes, Choices(seen, known, legal, action, log_prob, value, node.meta.player, ready, ended, outcome)

    lanes, rows = lax.scan(one_row, lanes, jax.random.split(key, num_rows))
    lanes, ended, outcome = advance(lanes)
    node = table.find_node(lanes.table, RULES)
    _, known = look(lanes, node)
    last = critic(known).value * (1.0 - 2.0 * node.meta.player)
    return lanes, rows, (ended, outcome, _is_choice(node), last)


def advantages(rows: Choices, last, trace: float):
    """GAE in player 0's eyes, over the choices of both; [T, B] for the mover, and whether there is one."""
    ended, outcome, is_ready, value = last
    sign = 1.0 - 2.0 * rows.mover.astype(jnp.float32)
    v0 = rows.value * sign
    next_v = jnp.where(ended, outcome, value)
    known = ended | is_ready

    def back(carry, row):
        next_v, next_adv, known = carry
        v, ready, ended, outcome = row
        adv = next_v - v + trace * next_adv
        out = (jnp.where(ready, adv, 0.0), ready & known)
        next_v, next_adv, known = (
            jnp.where(ready, v, next_v),
            jnp.where(ready, jnp.where(known, adv, 0.0), next_adv),
            known | ready,
        )
        next_v, next_adv, known = jnp.where(ended, outcome, next_v), jnp.where(ended, 0.0, next_adv), known | ended
        return (next_v, next_adv, known), out

    _, (adv, ok) = lax.scan(
        back, (next_v, jnp.zeros_like(next_v), known), (v0, rows.is_ready, rows.has_ended, rows.outcome), reverse=True
    )
    return adv * sign, ok
