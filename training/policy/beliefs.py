"""Particle beliefs of both players of every lane, which follow the games from one step to the next."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from training.beliefs import BELIEF_CHUNK
from unojax import game, table
from unojax.belief.filters import ParticleFilter
from unojax.belief.hands import Hands
from unojax.belief.history import infer_action
from unojax.belief.particles import Belief
from unojax.device import struct
from unojax.device.batching import for_chosen, update_chosen
from unojax.device.platform import platform
from unojax.device.random_bits import wrap
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.table import Table
from unojax.value.features import Outlook, outlook_of_hands
from unojax.view import View


@struct.dataclass
class Followed:
    """What is carried along in B lanes, one node after the other.

    Attributes:
        filter: of all beliefs; static.
        begun: the tables before the step that is under way.
        beliefs: [B, 2] of each player about the other one; of no meaning before the cards are dealt.
    """

    filter: ParticleFilter = struct.field(pytree_node=False)
    begun: Table
    beliefs: Belief


def nothing_followed(filter: ParticleFilter, tables: Table, rules: Rules) -> Followed:
    """Make room for beliefs in the games at `tables` [B], which are still to be dealt."""

    def begin(tables: Table) -> Belief:
        return filter.init(jax.random.key(0, impl="threefry2x32"), _observe(tables, jnp.uint32(0), rules))

    belief = jax.eval_shape(begin, jax.tree.map(lambda x: x[0], tables))
    return Followed(filter, tables, jax.tree.map(lambda x: jnp.zeros((len(tables.meta), 2, *x.shape), x.dtype), belief))


def follow(
    seed: tuple[Array, Array],
    counter: tuple[Array, Array],
    followed: Followed,
    before: Table,
    move: Array,
    after: Table,
    rules: Rules,
) -> Followed:
    """Follow B lanes over one node.

    A belief begins when the cards are dealt. Each step of either player, a play or a whole draw, conditions it, if the game goes
    on.

    Args:
        seed: two words, of all keys.
        counter: uint32[B] each, what tells the keys of lanes and nodes apart.
        followed: before the node.
        before, move, after: the tables [B] at the node, what is carried out there, uint32[B], and the tables after it.
        rules: static.
    """
    filter, was, now = followed.filter, before.unpack_meta(), after.unpack_meta()
    rests = (table.is_play(move) | table.is_card_drawn(move)) & (now.phase == table.PLAY) & (now.to_draw == 0)
    is_dealt = rests & (was.phase != table.PLAY)
    # Belief v is that of player v % 2 of lane v // 2.
    place = jnp.arange(2 * len(move))
    lane, player = place // 2, (place % 2).astype(jnp.uint32)

    def keys(lane: Array, player: Array) -> Array:
        def one(game: Array, node: Array, player: Array) -> Array:
            return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(wrap(seed), game), node), player)

        return jax.vmap(one)(counter[0][lane], counter[1][lane], player)

    def see(tables: Table, lane: Array, player: Array) -> Observation:
        return jax.vmap(partial(_observe, rules=rules))(jax.tree.map(lambda x: x[lane], tables), player)

    def begin(_: Array, lane: Array, player: Array) -> Belief:
        return jax.vmap(filter.init)(keys(lane, player), see(after, lane, player))

    def update(is_real: Array, beliefs: Belief, lane: Array, player: Array) -> Belief:
        earlier, later = see(followed.begun, lane, player), see(after, lane, player)
        # Without an action nothing changes, and nothing is computed.
        action = jnp.where(is_real, jax.vmap(infer_action)(earlier, later), game.NO_ACTION)
        return jax.vmap(lambda *args: filter.update(*args)[0])(keys(lane, player), beliefs, earlier, action, later)

    chunk = min(len(place), BELIEF_CHUNK[platform()])
    beliefs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), followed.beliefs)
    beliefs = for_chosen(is_dealt[lane], chunk, begin, (lane, player), beliefs)
    beliefs = update_chosen((rests & ~is_dealt)[lane], chunk, update, (lane, player), beliefs)
    beliefs = jax.tree.map(lambda x: x.reshape(-1, 2, *x.shape[1:]), beliefs)
    return Followed(filter, jax.tree.map(partial(jnp.where, rests), after, followed.begun), beliefs)


def outlook_of_movers(followed: Followed, view: View, player: Array) -> Outlook:
    """Sum up what one player of each lane, uint32[B], believes, where its view is `view` [B]."""
    beliefs: Belief = jax.tree.map(lambda x: x[jnp.arange(len(player)), player.astype(jnp.int32)], followed.beliefs)
    return outlook_of_hands(view, jax.vmap(Hands.of)(beliefs), followed.filter.opponent)


def _observe(tables: Table, player: Array, rules: Rules) -> Observation:
    return observe(game.from_table(tables, rules), player)
