"""`unojax.value.plays` against positions evaluated one by one, after real steps."""

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
    pack,
    random_hands,
    random_network,
    random_states,
    step_all,
    values_of,
)
from unojax import cards
from unojax.belief.hands import Hands
from unojax.game import State
from unojax.observation import Observation
from unojax.value import Outlook, features, outlook_of_hand, outlook_of_hands, outlook_of_unseen
from unojax.view import view_of

NUM = 32
NETWORK = random_network()


@pytest.fixture(scope="module")
def states() -> State:
    """Return 30 decisions, and two with a last card to play, by either player."""
    last = [seated(seat, "R7", "B3 B4", "R2") for seat in (0, 1)]
    found = random_states(21, NUM - 2, deciding=True)
    return jax.tree.map(lambda leaf, *ends: np.concatenate([leaf, np.stack(ends)]), found, *last)


@pytest.fixture(scope="module")
def seen(states: State) -> Observation:
    return observe_all(states, np.asarray(states.current_player, np.int32))


@pytest.fixture(scope="module")
def hands(states: State, seen: Observation):
    """Return weighted hands, and the true one."""
    theirs = np.asarray(states.hands)[np.arange(NUM), 1 - states.current_player]
    return *random_hands(22, seen, 6), pack(theirs)


@jax.jit
def look(seen: Observation, hands, weights, true_hands) -> tuple[dict[str, Outlook], dict[str, jax.Array]]:
    """Return outlooks by kind of belief, and the values of the positions."""
    view = view_of(seen)
    outlooks = {
        "unseen": outlook_of_unseen(view),
        "hands": outlook_of_hands(view, Hands(hands, jnp.log(weights))),
        "known": outlook_of_hand(true_hands),
    }
    return outlooks, {name: NETWORK(features(view, outlook)).value for name, outlook in outlooks.items()}


@pytest.fixture(scope="module")
def outlooks(seen: Observation, hands) -> dict[str, Outlook]:
    return look(seen, *hands)[0]


def test_plays_have_the_values_of_the_positions_after_them(states: State, seen, hands, outlooks):
    """Contract: V after a play (afterstates)."""
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    values = {belief: np.asarray(values_of(NETWORK, seen, outlook, legal)) for belief, outlook in outlooks.items()}
    mover, compared = np.asarray(states.current_player, np.int32), 0
    for number in range(legal.sum(1).max()):
        # The next legal play of each decision, or the last one again.
        action = np.array([np.flatnonzero(row)[min(number, row.sum() - 1)] for row in legal], np.int32)
        after = step_all(states, action)
        assert not np.asarray(after.error ^ states.error).any()
        # The opponent's hand stays, so the belief is one of the position after the play, too.
        _, truth = look(observe_all(after, mover), *hands)
        for belief, of_plays in values.items():
            expected = np.where(after.terminated, 1.0, truth[belief])
            np.testing.assert_allclose(of_plays[np.arange(NUM), action], expected, atol=2e-5, err_msg=belief)
        compared += len(set(action.tolist()))
    assert compared > 30
    for of_plays in values.values():
        assert (of_plays[~legal] == -np.inf).all() and np.ptp(of_plays[legal]) > 0.05, "plays differ"
        assert (of_plays[-2:, 7] == 1.0).all(), "the last card wins"


def test_a_play_is_one_transition(states: State, seen, outlooks):
    """A discount multiplies all values except those of wins."""
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    discounted = replace(NETWORK, config=replace(NETWORK.config, discount=0.8))
    whole, less = (np.asarray(values_of(network, seen, outlooks["unseen"], legal))[legal] for network in (NETWORK, discounted))
    np.testing.assert_allclose(less, np.where(whole == 1.0, 1.0, 0.8 * whole), atol=1e-6)
    assert (whole == 1.0).sum() == 2


def test_a_decision_has_the_same_values_among_others(states: State, seen, outlooks):
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    whole, some = np.asarray(values_of(NETWORK, seen, outlooks["unseen"], legal)), legal.copy()
    some[::2] = False
    part = np.asarray(values_of(NETWORK, seen, outlooks["unseen"], some))
    np.testing.assert_allclose(part[1::2], whole[1::2], atol=1e-5)
    assert (part[::2] == -np.inf).all()
    assert (np.asarray(values_of(NETWORK, seen, outlooks["unseen"], np.zeros_like(legal))) == -np.inf).all()


@pytest.mark.slow
def test_the_chunk_changes_no_result(states: State, seen, outlooks):
    """`test_agent.py` has all plays in one chunk."""
    legal = np.asarray(legal_all(states))[:, : cards.DRAW]
    assert legal.sum() > 30 and legal.sum() % 16
    one, other = (values_of(NETWORK, seen, outlooks["hands"], legal, chunk=size) for size in (16, 7))
    np.testing.assert_allclose(one, other, atol=1e-5)
