"""The probability of an observation: of all pairs of states those that look alike to a player, told by plain comparison."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle.positions import from_oracle, multiset, onehot, random_position
from unojax import pomdp, text
from unojax.decks import small_deck
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules

RULES = Rules(deck=small_deck(colors=2, ranks=(0, 1, 10, 12), wilds=1), hand_size=2, step_penalty=0.25)


@jax.jit
def all_pairs(states: State) -> jax.Array:
    """log O(what a player sees of state i | state j): float32[2, N, N]."""

    def pair(player: jax.Array, seen: State, state: State) -> jax.Array:
        return pomdp.observation_log_prob(observe(seen, player), state)

    over_states = jax.vmap(pair, (None, None, 0))
    return jax.vmap(jax.vmap(over_states, (None, 0, None)), (0, None, None))(jnp.arange(2), states, states)


def test_an_observation_belongs_to_the_states_that_look_like_it():
    """Random states beside themselves with a hidden card swapped, so that many pairs look alike to one player only."""
    some = [from_oracle(random_position(RULES, random.Random(seed)), RULES) for seed in range(50)]
    for state in list(some):
        for player in (0, 1):
            hand, deck = multiset(state.hands[player]), multiset(state.deck)
            mine, theirs = next(iter(hand), None), next(iter(deck), None)
            if mine is None or theirs is None:
                continue
            hands = state.hands.copy()
            hands[player] = onehot(hand - Counter([mine]) + Counter([theirs]))
            some.append(state.replace(hands=hands, deck=onehot(deck - Counter([theirs]) + Counter([mine]))))
    log_prob = np.asarray(all_pairs(jax.tree.map(lambda *x: np.stack(x), *some)))

    def view(state: State, player: int) -> bytes:
        public = ("pile", "top_rank", "color", "current_player", "penalty", "last_action", "terminated")
        parts = [state.hands[player], state.hands[1 - player].sum(), state.deck.sum(), *(getattr(state, name) for name in public)]
        return b"".join(np.asarray(part).tobytes() for part in parts)

    for player in (0, 1):
        views = np.array([hash(view(state, player)) for state in some])
        np.testing.assert_array_equal(log_prob[player], np.where(views[:, None] == views, 0, -np.inf))
    assert ((log_prob[0] == 0) != (log_prob[1] == 0)).sum() >= 60


def test_nobody_but_the_players_observes():
    state = text.make_state("R1", "Y1", "B1")
    seen = jax.jit(observe)(state, 0)
    stranger = seen.replace(player=jnp.int8(2), hand=jnp.zeros(108, bool), opponent_count=jnp.int8(1))
    log_prob = jax.jit(pomdp.observation_log_prob)
    assert log_prob(seen, state) == 0
    assert log_prob(stranger, state) == -jnp.inf


def test_an_observation_under_other_rules_is_refused():
    state = text.make_state("R1", "Y1", "YS", rules=RULES)
    seen = jax.jit(observe)(state, 0)
    with pytest.raises(ValueError, match=r"rules differ .*deck of 16 cards instead of 108"):
        pomdp.observation_log_prob(seen, text.make_state("R1", "Y1", "YS"))
    deck = np.array(RULES.deck)
    deck[[np.flatnonzero(deck)[0], np.flatnonzero(deck == 0)[0]]] += (-1, 1)
    other = dataclasses.replace(RULES, deck=tuple(deck.tolist()))
    with pytest.raises(ValueError, match=r"deck of 16 cards instead of 16, of other types"):
        pomdp.observation_log_prob(seen.replace(rules=other), state)
