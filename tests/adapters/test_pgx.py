"""The pgx environment: pgx's own test, the engine's games, and determinization."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("pgx", reason="pgx is not installed")

import pgx
from pgx._src import api_test

from tests.adapters.engine import RULES, every_rules, play_beside
from tests.helpers import assert_trees_equal, counts_of, refusals, slow_but
from unojax import game
from unojax.adapters.encoding import BeliefKind, Encoder
from unojax.adapters.pgx import Uno
from unojax.observation import observe

PROGRAMS: Final = 320  # pgx's own test runs its operations outside jit; a game of each rule set


def random_action(key: jax.Array, mask: jax.Array) -> jax.Array:
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf), axis=-1)


def test_pgx_api(monkeypatch: pytest.MonkeyPatch):
    # pgx 2.6.0's own `act_randomly` takes axis 1 of a mask that has one axis, an IndexError in JAX 0.10 and later for all games
    # of pgx too; and the test knows no identifiers but those of pgx's games.
    monkeypatch.setattr(api_test, "act_randomly", jax.jit(random_action))
    monkeypatch.setattr(api_test, "EnvId", Literal["unojax_uno"])
    pgx.api_test(Uno(), 2, use_key=True)
    refusals({"key": lambda: Uno().step(jax.eval_shape(Uno().init, jax.random.key(0)), 0)})


@every_rules
def test_games_are_the_engines(name: str):
    """States, masks, rewards and observations agree; one action in thirty is any number."""
    rules = RULES[name]
    env = Uno(rules)
    ours, theirs = play_beside(env.init, env.step, rules, any_number=env.num_actions)
    over = theirs.terminated | theirs.truncated
    was_over = np.pad(over, ((0, 0), (1, 0)))[:, :-1]
    legal = ours.error == 0
    assert 0 < legal.sum() < legal.size and was_over.any()
    at = partial(jax.tree.map, lambda leaf: leaf[legal])
    assert_trees_equal(at(ours), at(theirs._seats.state))
    # After a skip the same player moves again: a search takes the sign of its discount from `current_player`.
    np.testing.assert_array_equal(theirs.current_player[legal], ours.current_player[legal])
    np.testing.assert_array_equal(theirs.rewards[legal], ours.rewards[legal])
    # An illegal action ends the game, with -1 for its player.
    broke = (ours.error != 0) & ~was_over
    assert theirs.terminated[broke].all() and theirs.legal_action_mask[broke].all()
    loser = theirs.current_player[broke]
    np.testing.assert_array_equal(theirs.rewards[broke], np.where(np.arange(2) == loser[:, None], -1.0, 1.0))
    assert (theirs.rewards[was_over] == 0).all()
    encode = jax.jit(jax.vmap(lambda s: (Encoder(rules=rules).encode((), observe(s, s.current_player)), game.legal_mask(s))))
    for given, expected in zip((theirs.observation, theirs.legal_action_mask), encode(at(theirs._seats.state)), strict=True):
        np.testing.assert_array_equal(given[legal], expected)


@pytest.mark.parametrize("belief", slow_but(["none"], ["none", "particles"]))
def test_determinization_keeps_the_view_and_samples_the_hand_from_the_belief(belief: BeliefKind):
    """Means of 2,000 samples are within six standard errors, except once in 1e7 runs."""
    env, num_deals = Uno("official" if belief == "none" else "default", belief=belief), 2000

    @jax.jit
    def seventh_position(key):
        def step(state, key):
            return env.step(state, random_action(key, state.legal_action_mask), key), None

        return jax.lax.scan(step, env.init(key), jax.random.split(key, 7))[0]

    key = jax.random.key(1)
    state = seventh_position(key)
    me = int(state.current_player)
    assert not state.terminated
    deal = jax.jit(lambda state, key: jax.vmap(env.determinize, (None, 0))(state, jax.random.split(key, num_deals)))
    look = jax.jit(jax.vmap(observe, (0, None)), static_argnums=1)
    dealt = deal(state, key)
    everywhere = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (num_deals, *leaf.shape)), jax.device_get(state))
    # By one function for both: the probabilities of a belief may be rounded otherwise in a larger program.
    same, looks = jax.device_get([jax.vmap(env.observe)(states) for states in (everywhere, dealt)])
    dealt, one, other = jax.device_get((dealt, look(dealt._seats.state, me), look(everywhere._seats.state, me)))
    before, after = jax.device_get(state._seats.state), dealt._seats.state
    assert_trees_equal(one, other)
    np.testing.assert_array_equal(looks, same)
    np.testing.assert_array_equal(dealt.observation, everywhere.observation)
    np.testing.assert_array_equal(dealt.legal_action_mask, everywhere.legal_action_mask)
    theirs, unseen = counts_of(after.hands[:, 1 - me]), counts_of(before.hands[1 - me]) + counts_of(before.deck)
    np.testing.assert_array_equal(theirs + counts_of(after.deck), np.broadcast_to(unseen, theirs.shape))
    size = int(before.hands[1 - me].sum())
    assert (theirs.sum(-1) == size).all()
    expected = unseen * size / unseen.sum()
    if belief == "particles":
        memory = jax.device_get(state._seats.memories[me])
        expected = np.exp(memory.log_weights) @ counts_of(memory.particles)
    assert (abs(theirs.mean(0) - expected) <= 6 * theirs.std(0) / num_deals**0.5 + 1e-5).all()


def test_drawings(tmp_path):
    state = jax.jit(Uno().init)(jax.random.key(0))
    state.save_svg(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text().startswith("<svg")
    assert "<svg" in state.to_svg(color_theme="dark")
