"""The pgx environment: pgx's own test, the engine's states, and who moves when."""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("pgx", reason="pgx is not installed")

import pgx
from pgx._src import api_test

from tests.adapters.variants import VARIANTS
from tests.helpers import assert_trees_equal
from unojax import game
from unojax.adapters.encoding import Encoder
from unojax.adapters.pgx import Uno
from unojax.observation import observe
from unojax.rules import Rules


def random_action(key: jax.Array, mask: jax.Array) -> jax.Array:
    """One of the legal actions, of a game or of a batch."""
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf), axis=-1)


def test_pgx_api(monkeypatch: pytest.MonkeyPatch):
    # pgx 2.6.0's own `act_randomly` takes axis 1 of a mask that has one axis, an IndexError in JAX 0.10 and later for all games
    # of pgx too; and the test knows no identifiers but those of pgx's games.
    monkeypatch.setattr(api_test, "act_randomly", jax.jit(random_action))
    monkeypatch.setattr(api_test, "EnvId", Literal["unojax_uno"])
    pgx.api_test(Uno(), 2, use_key=True)


@pytest.mark.parametrize("rules", VARIANTS)
def test_games_are_the_engines(rules: Rules):
    """64 games of 60 steps, one action in thirty any number: the same states, masks, rewards and observations."""
    env = Uno(rules)

    def one_step(carry, key):
        ours, theirs = carry
        key_legal, key_any, key_which, key_step = jax.random.split(key, 4)
        anything = jax.random.randint(key_any, (), 0, env.num_actions)
        wild = jax.random.bernoulli(key_which, 1 / 30)
        action = jnp.where(wild, anything, random_action(key_legal, theirs.legal_action_mask))
        was_over = theirs.terminated | theirs.truncated
        ours = game.step(ours, action, key_step)
        theirs = env.step(theirs, action, key_step)
        return (ours, theirs), (ours, theirs, was_over)

    def one_game(key):
        key_init, key_steps = jax.random.split(key)
        start = game.init(key_init, rules=rules), env.init(key_init)
        return jax.lax.scan(one_step, start, jax.random.split(key_steps, 60))[1]

    ours, theirs, was_over = jax.device_get(jax.jit(jax.vmap(one_game))(jax.random.split(jax.random.key(0), 64)))
    legal = ours.error == 0
    assert 0 < legal.sum() < legal.size and was_over.any()
    at = partial(jax.tree.map, lambda leaf: leaf[legal])
    assert_trees_equal(at(ours), at(theirs._seats.state))
    np.testing.assert_array_equal(theirs.current_player[legal], ours.current_player[legal])
    np.testing.assert_array_equal(theirs.rewards[legal], ours.rewards[legal])
    # An illegal action: the end, -1 for who played it.
    broke = (ours.error != 0) & ~was_over
    assert theirs.terminated[broke].all() and theirs.legal_action_mask[broke].all()
    loser = theirs.current_player[broke]
    np.testing.assert_array_equal(theirs.rewards[broke], np.where(np.arange(2) == loser[:, None], -1.0, 1.0))
    assert (theirs.rewards[was_over] == 0).all()
    encode = jax.jit(jax.vmap(lambda s: Encoder().encode((), observe(s, s.current_player))))
    np.testing.assert_array_equal(theirs.observation[legal], encode(at(theirs._seats.state)))


def test_the_same_player_moves_after_a_skip():
    """What a search reads the sign of a discount from."""
    env, skip = Uno(), 10
    keys = jax.random.split(jax.random.key(0), 256)
    states = jax.jit(jax.vmap(env.init))(keys)
    can = states.legal_action_mask[:, skip]
    after = jax.jit(jax.vmap(env.step))(states, jnp.full(256, skip), keys)
    assert can.sum() > 3
    np.testing.assert_array_equal(after.current_player[can], states.current_player[can])
    number = 5
    can = states.legal_action_mask[:, number]
    after = jax.jit(jax.vmap(env.step))(states, jnp.full(256, number), keys)
    np.testing.assert_array_equal(after.current_player[can], 1 - states.current_player[can])


def test_a_step_needs_a_key():
    env = Uno()
    with pytest.raises(ValueError, match="needs a key"):
        env.step(jax.eval_shape(env.init, jax.random.key(0)), 0)


def test_drawings(tmp_path):
    state = jax.jit(Uno(Rules(hand_size=2)).init)(jax.random.key(0))
    state.save_svg(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text().startswith("<svg")
    assert "<svg" in state.to_svg(color_theme="dark")
