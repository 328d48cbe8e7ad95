"""Decisions taken out of recorded games: all of them and no others, with what was true, done and believed."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from unojax import analysis, bits, cards
from unojax.analysis import Decisions, Recorded
from unojax.belief.updaters import ExactFilter, ParticleFilter, UniformFilter
from unojax.decks import small_deck
from unojax.rules import Rules

SMALL = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=3)
PLAYER, NUM_PARTICLES = 1, 512
FILTER = ParticleFilter(NUM_PARTICLES)
# So short that some games have no end in it.
MAX_STEPS = 24


def record_games() -> Recorded:
    return analysis.record(jax.random.key(0), 24, max_steps=MAX_STEPS, rules=SMALL)


@pytest.fixture(scope="module")
def games() -> Recorded:
    return record_games()


@pytest.fixture(scope="module")
def decisions(games: Recorded) -> Decisions:
    return analysis.decisions_of(jax.random.key(1), games, FILTER, player=PLAYER)


def by_hand(games: Recorded) -> list[tuple[int, int]]:
    """Game and step of each decision, from the states alone."""
    states = games.states
    found = []
    for g, t in np.ndindex(games.actions.shape):
        if not states.is_over[g, -1] or states.is_over[g, t] or states.current_player[g, t] != PLAYER or states.penalty[g, t]:
            continue
        held = np.flatnonzero(np.asarray(cards.counts(states.hands[g, t, PLAYER])))
        fits = [k for k in held if k >= 52 or k // 13 == states.color[g, t] or k % 13 == states.top_rank[g, t]]
        # A wild card may declare any of four colours.
        if len(fits) > 1 or any(k >= 52 for k in fits):
            found.append((g, t))
    return found


def test_all_decisions_of_the_games_that_ended(games: Recorded, decisions: Decisions):
    assert 0 < games.states.is_over[:, -1].sum() < len(games.actions)
    places = by_hand(games)
    assert decisions.game.tolist() == [g for g, _ in places]
    assert decisions.action.tolist() == [games.actions[g, t] for g, t in places]
    assert decisions.legal[np.arange(len(places)), decisions.action].all()
    assert (decisions.legal.sum(1) > 1).all()


def test_points_are_those_of_the_player(games: Recorded, decisions: Decisions):
    winner = games.states.winner[decisions.game, -1]
    assert {0, 1} <= set(winner.tolist())
    assert np.array_equal(decisions.points, np.where(winner == -1, 0.5, winner == PLAYER))


def test_hands_are_possible_and_the_truth_is_true(games: Recorded, decisions: Decisions):
    hidden = np.stack([games.states.hands[g, t, 1 - PLAYER] for g, t in by_hand(games)])
    assert np.array_equal(bits.unpack(decisions.truth), hidden)
    believed = np.asarray(cards.counts(bits.unpack(decisions.hands.packed)))
    assert believed.shape == (len(hidden), NUM_PARTICLES, cards.NUM_TYPES)
    assert (believed.sum(-1) == decisions.observation.opponent_count[:, None]).all()
    assert (believed <= np.asarray(decisions.observation.unseen)[:, None]).all()
    assert np.allclose(np.exp(decisions.hands.log_weights).sum(1), 1, atol=1e-4)


@pytest.mark.slow
def test_the_cloud_is_the_belief_of_the_exact_filter(games: Recorded, decisions: Decisions):
    # The filter's error is some 1 / sqrt(512) of a copy, or less; a belief of another position would be far off.
    followed = analysis.track(jax.random.key(1), games, ExactFilter(), player=PLAYER)
    expected = np.stack([followed.expected[g, t] for g, t in by_hand(games)])
    counts = np.asarray(cards.counts(bits.unpack(decisions.hands.packed)))
    believed = np.einsum("dnt,dn->dt", counts, np.exp(decisions.hands.log_weights))
    assert np.abs(believed - expected).mean() < 0.02


@pytest.mark.slow
def test_no_decision_at_all(games: Recorded):
    endless = games._replace(states=dataclasses.replace(games.states, terminated=np.zeros_like(games.states.terminated)))
    with pytest.raises(ValueError, match="there is no decision"):
        analysis.decisions_of(jax.random.key(4), endless, FILTER, player=PLAYER)


def test_any_updater_of_the_device_tells_what_was_believed(games: Recorded, decisions: Decisions):
    """Hands that are drawn from the unseen cards, at the same decisions."""
    uniform = analysis.decisions_of(jax.random.key(1), games, UniformFilter(32), player=PLAYER)
    np.testing.assert_array_equal(uniform.action, decisions.action)
    held = np.asarray(bits.type_counts(uniform.hands.packed))
    assert (held.sum(-1) == np.asarray(uniform.observation.opponent_count)[:, None]).all()
    assert (held <= np.asarray(uniform.observation.unseen)[:, None]).all()
    with pytest.raises(ValueError, match="exact runs on the host"):
        analysis.decisions_of(jax.random.key(1), games, ExactFilter(), player=PLAYER)
