"""`play_game` keeps every position of a game, in order, and follows the policies."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax import Observation, cards, game
from unojax.decks import small_deck
from unojax.games.record import Trajectory, play_game
from unojax.games.replay import play
from unojax.policies import POLICIES, Policy, uniform
from unojax.pomdp import transition_log_prob
from unojax.rules import Rules

RULES = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=3)

NUM_STEPS = 60


@partial(jax.jit, static_argnames="policies")
def play_64(keys: jax.Array, policies: tuple[Policy, Policy]) -> Trajectory:
    """64 games; one program for each pair of policies."""
    return jax.vmap(partial(play_game, policies=policies, num_steps=NUM_STEPS, rules=RULES))(keys)


def test_positions_follow_from_one_another_and_the_last_is_repeated():
    keys = jax.random.split(jax.random.key(1), 64)
    games = play_64(keys, (uniform, uniform))
    before = jax.tree.map(lambda leaf: leaf[:, :-1], games.states)
    after = jax.tree.map(lambda leaf: leaf[:, 1:], games.states)
    actions = np.asarray(games.actions)
    over = np.asarray(before.is_over)
    np.testing.assert_array_equal(actions == game.NO_ACTION, over)
    assert 0 < over.mean() < 1 and not np.asarray(after.error).any()
    log_prob = jax.jit(jax.vmap(jax.vmap(transition_log_prob)))(before, games.actions, after)
    assert np.isfinite(np.asarray(log_prob)).all()
    np.testing.assert_array_equal(np.asarray(after.last_action)[~over], actions[~over])
    for hand in ("hands", "deck", "pile", "winner"):
        np.testing.assert_array_equal(np.asarray(getattr(after, hand))[over], np.asarray(getattr(before, hand))[over])


@pytest.mark.slow
def test_each_player_follows_its_own_policy():
    # Wild cards first and last: whoever holds one and another playable card shows which policy it follows.
    pair = (POLICIES["wilds-first"], POLICIES["keep-wilds"])
    keys = jax.random.split(jax.random.key(2), 64)
    games = play_64(keys, pair)
    before = jax.tree.map(lambda leaf: leaf[:, :-1], games.states)
    masks = np.asarray(jax.jit(jax.vmap(jax.vmap(game.legal_mask)))(before))
    wild = np.arange(61) % 15 >= 13
    both = (masks[..., :60] & wild[:60]).any(-1) & (masks[..., :60] & ~wild[:60]).any(-1) & ~np.asarray(before.is_over)
    played_wild = wild[np.asarray(games.actions)]
    for player, expected in ((0, True), (1, False)):
        mine = both & (np.asarray(before.current_player) == player)
        assert mine.sum() > 20 and (played_wild[mine] == expected).all()


def test_a_game_with_an_illegal_action_is_refused():
    def always_draws(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
        return jnp.int32(cards.DRAW)

    with pytest.raises(ValueError, match="the policy of player 0 chose action 60 in step 0, which is not legal there"):
        play(jax.random.key(3), (always_draws, uniform), rules=Rules())
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 0, got -1"):
        play_game(jax.random.key(3), num_steps=-1)


def test_the_key_decides_the_game():
    actions = np.asarray(play_64(jax.vmap(jax.random.key)(np.arange(64) % 32), (uniform, uniform)).actions)
    np.testing.assert_array_equal(actions[:32], actions[32:])
    assert len(np.unique(actions[:32], axis=0)) > 16
