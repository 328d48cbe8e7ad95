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

from tests.adapters.engine import EVERY_RULES, on_the_device
from tests.helpers import assert_trees_equal
from unojax import cards, game
from unojax.adapters.encoding import BeliefKind, Encoder
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


@pytest.mark.parametrize("rules", EVERY_RULES)
def test_games_are_the_engines(rules: Rules):
    """One action in thirty being any number: the same states, masks, rewards and observations."""
    env = Uno(rules)
    ours, theirs = on_the_device(env.init, env.step, rules, any_number=env.num_actions)
    over = theirs.terminated | theirs.truncated
    was_over = np.pad(over, ((0, 0), (1, 0)))[:, :-1]
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
    states = at(theirs._seats.state)
    encode = jax.jit(jax.vmap(lambda s: (Encoder(rules=rules).encode((), observe(s, s.current_player)), game.legal_mask(s))))
    for given, expected in zip((theirs.observation, theirs.legal_action_mask), encode(states), strict=True):
        np.testing.assert_array_equal(given[legal], expected)


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


@pytest.mark.parametrize(
    ("rules", "belief"),
    [(Rules(), "none"), (Rules.official(), "none"), pytest.param(Rules(), "particles", marks=pytest.mark.slow)],
)
def test_determinized(rules: Rules, belief: BeliefKind):
    """Who moves sees what it saw, and the opponent holds one of the hands that it may hold, as often as it should."""
    env, num_deals = Uno(rules, belief=belief), 2000
    state, key = jax.jit(env.init)(jax.random.key(0)), jax.random.key(1)
    step = jax.jit(env.step)
    for turn in range(7):
        state = step(state, random_action(jax.random.fold_in(key, turn), state.legal_action_mask), jax.random.fold_in(key, turn))
    dealt = jax.jit(jax.vmap(env.determinize, (None, 0)))(state, jax.random.split(key, num_deals))
    me, before, after = int(state.current_player), state._seats.state, dealt._seats.state
    assert not state.terminated
    everywhere = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_deals, *leaf.shape)), state)
    looks = jax.vmap(env.observe)(dealt)
    np.testing.assert_array_equal(looks, everywhere.observation)
    np.testing.assert_array_equal(dealt.observation, everywhere.observation)
    np.testing.assert_array_equal(dealt.legal_action_mask, everywhere.legal_action_mask)
    look = jax.vmap(observe, (0, None))
    assert_trees_equal(look(after, me), look(everywhere._seats.state, me))
    theirs = cards.counts(after.hands[:, 1 - me])
    unseen = cards.counts(before.hands[1 - me]) + cards.counts(before.deck)
    np.testing.assert_array_equal(theirs + cards.counts(after.deck), np.broadcast_to(unseen, theirs.shape))
    size = int(theirs[0].sum())
    assert size == int(before.hands[1 - me].sum())
    if belief == "particles":
        memory = state._seats.memories[me]
        expected = jnp.exp(memory.log_weights) @ cards.counts(memory.particles)
    else:
        expected = unseen * size / unseen.sum()
    # Means of bounded numbers, each within six standard errors of what it should be: by chance less than once in 1e7 runs.
    error = theirs.std(0) / num_deals**0.5
    assert (abs(theirs.mean(0) - expected) <= 6 * error + 1e-5).all()


def test_a_step_needs_a_key():
    env = Uno()
    with pytest.raises(ValueError, match="needs a key"):
        env.step(jax.eval_shape(env.init, jax.random.key(0)), 0)


def test_drawings(tmp_path):
    state = jax.jit(Uno(Rules(hand_size=2)).init)(jax.random.key(0))
    state.save_svg(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text().startswith("<svg")
    assert "<svg" in state.to_svg(color_theme="dark")
