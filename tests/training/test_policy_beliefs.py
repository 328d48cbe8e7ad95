"""The particle beliefs in the lanes of policy training, against filters that follow the same games by themselves."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from training.policy.beliefs import follow, nothing_followed
from training.policy.games import RULES, play_rows, start_lanes
from unojax import bits, game, table
from unojax.belief.filters import ParticleFilter
from unojax.belief.hands import Hands
from unojax.belief.history import infer_action, is_one_step
from unojax.belief.opponents import parse_opponent
from unojax.device.random_bits import wrap
from unojax.observation import observe
from unojax.table.options import Picked
from unojax.value.features import features, outlook_of_hands
from unojax.value.network import NetworkConfig, init_network
from unojax.view import view_of

FILTER = ParticleFilter(8, parse_opponent("uniform|guard"), max_slots=128, max_plays=48)
SEED = jnp.uint32(3), jnp.uint32(4)
LANES, NODES = 4, 100
PLAYERS = jnp.arange(2, dtype=jnp.uint32)


@jax.jit
@partial(jax.vmap, in_axes=(0, None))
@partial(jax.vmap, in_axes=(None, 0))
def see(tables, player):
    """What each player sees of the tables: [LANES, 2]."""
    return observe(game.from_table(tables, RULES), player)


@pytest.mark.slow
def test_they_follow_each_step():
    """Begun after the deal, and conditioned once on each play and each whole draw."""

    @jax.jit
    def one_node(key, tables, number, followed):
        node = table.find_node(tables, RULES)
        words = jax.random.bits(key, (LANES,), jnp.uint32)
        pick = Picked(*bits.choose(bits.where(node.is_decision, node.legal, node.deck), words))
        move = table.resolve(tables, node, pick, words, RULES)
        after = table.commit(tables, move)
        counter = jnp.arange(LANES, dtype=jnp.uint32), jnp.full(LANES, number)
        return after, follow(SEED, counter, followed, tables, move, after, RULES)

    @jax.jit
    def expect(number, beliefs, before, after):
        def one(lane, player, belief, before, after):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(wrap(SEED), lane), number), player)
            updated, info = FILTER.update(key, belief, before, infer_action(before, after), after)
            return FILTER.init(key, after), updated, ~info.inconsistent & is_one_step(before, after)

        of_players = jax.vmap(one, (None, 0, 0, 0, 0))
        return jax.vmap(of_players, (0, None, 0, 0, 0))(jnp.arange(LANES), PLAYERS, beliefs, before, after)

    tables = start_lanes(LANES).table
    followed = nothing_followed(FILTER, tables, RULES)
    expected, rested, is_dealt = followed.beliefs, tables, np.zeros(LANES, bool)
    steps = draws = 0
    for number, key in enumerate(jax.random.split(jax.random.key(1), NODES)):
        tables, followed = one_node(key, tables, jnp.uint32(number), followed)
        meta = jax.device_get(tables.unpack_meta())
        # In play, no card of a draw is still to come, and some card is elsewhere than when a step was last over.
        words = zip((*tables.low, *tables.high), (*rested.low, *rested.high), strict=True)
        moved = np.any([np.asarray(a != b) for a, b in words], 0)
        is_over = moved & (meta.phase == table.PLAY) & (meta.to_draw == 0) & ~np.asarray(is_reshuffled(rested, tables))
        begun, updated, is_step = expect(jnp.uint32(number), expected, see(rested, PLAYERS), see(tables, PLAYERS))
        begins, goes_on = is_over & ~is_dealt, is_over & is_dealt
        assert np.asarray(is_step)[goes_on].all()
        expected = choose(begins, begun, choose(goes_on, updated, expected))
        rested, is_dealt = choose(is_over, tables, rested), is_dealt | is_over
        steps, draws = steps + goes_on.sum(), draws + (meta.to_draw > 0).sum()
        assert_trees_equal(choose(is_dealt, followed.beliefs, expected), expected)
    assert steps > 100 and draws > 10


def is_reshuffled(before, after):
    """The pile is back in the deck and no card has been drawn yet."""
    piles, *hands = (
        [bits.count(tables.cards_of(owner, RULES)) for tables in (before, after)]
        for owner in (table.PILE, table.HAND_0, table.HAND_1)
    )
    return (piles[1] < piles[0]) & (hands[0][0] == hands[0][1]) & (hands[1][0] == hands[1][1])


def choose(where, new, old):
    """Take the new lanes where it is said so."""
    return jax.tree.map(lambda a, b: jnp.where(np.reshape(where, (-1, *[1] * (a.ndim - 1))), a, b), new, old)


@pytest.mark.slow
@pytest.mark.long
def test_the_policy_sees_them():
    """At a choice the network reads what the player to move believes, and nothing of what ages tell."""
    actor = init_network(jax.random.key(0), NetworkConfig(width=8, policy_head=True))
    critic = init_network(jax.random.key(1), NetworkConfig(width=8))
    play = jax.jit(partial(play_rows, every=0, num_rows=1, num_lanes=LANES))

    @jax.jit
    @jax.vmap
    def shown(tables, beliefs):
        state = game.from_table(tables, RULES)
        view = view_of(observe(state, state.current_player))
        belief = jax.tree.map(lambda x: x[state.current_player.astype(int)], beliefs)
        return features(view, outlook_of_hands(view, Hands.of(belief), FILTER.opponent)), game.legal_mask(state).sum() > 1

    lanes, seen = start_lanes(LANES, FILTER), 0
    for _ in range(12):
        expected, is_choice = jax.device_get(shown(lanes.table, lanes.followed.beliefs))
        meta = jax.device_get(lanes.table.unpack_meta())
        stands = is_choice & (meta.phase == table.PLAY) & (meta.to_draw == 0)
        lanes, rows, _ = play(SEED, lanes, actor, critic, None)
        for a, b in zip(rows.seen, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a)[0, stands], b[stands], atol=1e-5)
        seen += stands.sum()
    assert seen > 20
