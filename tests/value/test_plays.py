"""`unojax.value.plays` against positions valued one by one, after real steps of the game."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import seated
from tests.value.positions import (
    legal_all,
    observe_all,
    random_hands,
    random_network,
    random_states,
    step_all,
    values_of,
)
from unojax import bits, cards
from unojax.belief.hands import Hands
from unojax.game import State
from unojax.observation import Observation
from unojax.value import Outlook, features, outlook_of_hand, outlook_of_hands, outlook_of_unseen
from unojax.view import view_of

NUM = 32
NETWORK = random_network()
BELIEFS = ("unseen", "hands", "known")


@pytest.fixture(scope="module")
def states() -> State:
    """30 decisions, and two with a last card to play, by either player."""
    last = [seated(seat, "R7", "B3 B4", "R2") for seat in (0, 1)]
    found = random_states(21, NUM - 2, deciding=True)
    return jax.tree.map(lambda leaf, *ends: np.concatenate([leaf, np.stack(ends)]), found, *last)


@pytest.fixture(scope="module")
def seen(states: State) -> Observation:
    return observe_all(states, jnp.asarray(states.current_player, jnp.int32))


@jax.jit
def outlooks(seen: Observation, hands, weights, true_hands) -> dict[str, Outlook]:
    view = view_of(seen)
    found = outlook_of_unseen(view), outlook_of_hands(view, Hands(hands, jnp.log(weights))), outlook_of_hand(true_hands)
    return dict(zip(BELIEFS, found, strict=True))


@pytest.fixture(scope="module")
def believed(states: State, seen: Observation) -> dict[str, Outlook]:
    """By kind of belief, what each mover believes: [32]."""
    return outlooks(seen, *beliefs(states, seen))


def beliefs(states: State, seen: Observation):
    theirs = np.asarray(states.hands)[np.arange(NUM), 1 - states.current_player]
    return *random_hands(22, seen, 6), bits.pack(theirs)


@jax.jit
def value_seen(seen: Observation, outlook: Outlook) -> jax.Array:
    return NETWORK(features(view_of(seen), outlook)).value


@pytest.mark.parametrize("belief", BELIEFS)
def test_plays_are_worth_what_the_positions_after_them_are(states, seen, believed, belief: str):
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    values = np.asarray(values_of(NETWORK, seen, believed[belief], legal))
    assert (values[~legal] == -np.inf).all()
    mover = jnp.asarray(states.current_player, jnp.int32)
    num_compared = 0
    for round_ in range(legal.sum(1).max()):
        # The next legal play of each decision, the last one again where there are no more.
        action = np.array([np.flatnonzero(row)[min(round_, row.sum() - 1)] for row in legal])
        after = step_all(states, jnp.asarray(action, jnp.int32))
        assert not np.asarray(after.error ^ states.error).any()
        seen_after = observe_all(after, mover)
        # The opponent's hand is what it was, so it can be believed of the position after the play, too.
        afresh = outlooks(seen_after, *beliefs(states, seen))[belief]
        truth = np.where(after.terminated, 1.0, value_seen(seen_after, afresh))
        np.testing.assert_allclose(values[np.arange(NUM), action], truth, atol=2e-5)
        num_compared += len(set(action.tolist()))
    assert num_compared > 30
    assert np.ptp(values[legal]) > 0.05, "plays differ"


def test_the_value_after_a_play_is_one_transition_away(states, seen, believed):
    """Under a discount, all but plays that win at once are worth so much less."""
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    discounted = replace(NETWORK, config=replace(NETWORK.config, discount=0.8))
    whole, less = (np.asarray(values_of(network, seen, believed["unseen"], legal))[legal] for network in (NETWORK, discounted))
    np.testing.assert_allclose(less, np.where(whole == 1.0, 1.0, 0.8 * whole), atol=1e-6)
    assert (whole == 1.0).sum() == 2


def test_a_play_that_wins_at_once_is_worth_1(seen, believed):
    legal = np.zeros((NUM, cards.DRAW), bool)
    legal[-2:, 7] = True
    values = np.asarray(values_of(NETWORK, seen, believed["unseen"], legal))
    assert (values[-2:, 7] == 1.0).all()
    assert (values[~legal] == -np.inf).all()


@pytest.mark.slow
def test_the_chunk_changes_no_result(states, seen, believed):
    """Agents have all plays in one chunk, `test_agent.py`."""
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    assert legal.sum() > 30 and legal.sum() % 16
    one, other = (values_of(NETWORK, seen, believed["hands"], legal, chunk=size) for size in (16, 7))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_decision_is_worth_the_same_among_any_others(states, seen, believed):
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    whole = np.asarray(values_of(NETWORK, seen, believed["unseen"], legal))
    some = legal.copy()
    some[::2] = False
    part = np.asarray(values_of(NETWORK, seen, believed["unseen"], some))
    np.testing.assert_allclose(part[1::2], whole[1::2], atol=1e-5)
    assert (part[::2] == -np.inf).all()
    assert (np.asarray(values_of(NETWORK, seen, believed["unseen"], np.zeros_like(legal))) == -np.inf).all()
