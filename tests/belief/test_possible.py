"""Particles on the full deck against the history, by a checker that agrees with the exact filter."""

from __future__ import annotations

from typing import Final

import jax
import numpy as np
import pytest

from tests import corpus
from tests.belief.games import RULES, events, games_of
from tests.belief.possible import is_possible, read_history
from tests.helpers import fold_in_all, slow_but
from unojax import cards
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.history import infer_action
from unojax.belief.updaters import ParticleFilter

PROGRAMS: Final = 80  # in the slow part, several for each rule set


@pytest.mark.parametrize("name", slow_but(["thin"], ["forfeiting", "passing", "thin"]))
def test_the_checker_agrees_with_the_exact_filter(name: str) -> None:
    """A hand is possible if and only if the exact filter gives it probability."""
    games, rules = games_of(RULES[name]), RULES[name]
    types = np.flatnonzero(np.array(rules.deck))
    shuffles = events(games, 0)["reshuffle by me"].any(1)
    chosen = np.concatenate([np.flatnonzero(shuffles)[:2], np.flatnonzero(~shuffles)[:1]])
    possible = impossible = 0
    for seat, number in [*enumerate(chosen[:2].tolist()), (0, int(chosen[2])), (1, int(chosen[0]))]:
        steps, places = games.steps(seat, number), np.flatnonzero(games.actions[number] >= 0).tolist()
        belief = exact_init(steps[0][0])
        for t, (before, action, after) in zip(places, steps, strict=True):
            belief, _ = exact_update(belief, before, action, after)
            if after.terminated:
                break
            history = read_history(jax.tree.map(lambda x, t=t, i=number: x[i, : t + 2], games.seen[seat]))
            hands = [np.repeat(types, counts).tolist() for counts in np.ndindex(*np.array(rules.deck)[types] + 1)]
            found = np.array([is_possible(hand, history) for hand in hands])
            listed = {tuple(np.repeat(np.arange(54), counts).tolist()) for counts in belief.hands()[0]}
            expected = np.array([tuple(hand) in listed for hand in hands])
            np.testing.assert_array_equal(found, expected, err_msg=f"seat {seat}, game {number}, step {t}")
            possible, impossible = possible + int(found.sum()), impossible + int((~found).sum())
    assert min(possible, impossible) > 200


@pytest.mark.slow
@pytest.mark.parametrize(("num_games", "num_steps"), [(3, 60), pytest.param(48, 160, marks=pytest.mark.long)])
def test_no_particle_holds_an_impossible_hand(num_games: int, num_steps: int) -> None:
    """After every update until a restart.

    Contract: it must not collapse.
    """
    updater, views = ParticleFilter(32, prior="uniform"), jax.tree.map(lambda x: x[:num_games], corpus.views("default", 0))
    begin = jax.jit(jax.vmap(updater.init))
    advance = jax.jit(
        jax.vmap(lambda key, belief, before, after: updater.update(key, belief, before, infer_action(before, after), after))
    )
    at = [jax.tree.map(lambda x, t=t: x[:, t], views) for t in range(num_steps + 1)]
    keys = jax.random.split(jax.random.key(1), num_games)
    beliefs, again, distinct = begin(keys, at[0]), np.zeros(num_games, bool), 0
    for t in range(num_steps):
        beliefs, info = advance(fold_in_all(keys, t), beliefs, at[t], at[t + 1])
        assert not info.depleted.any()
        again |= np.asarray(info.restarted)
        hands = np.asarray(beliefs.particles)
        for number in np.flatnonzero(~again & ~at[t + 1].terminated).tolist():
            history = read_history(jax.tree.map(lambda x, t=t, i=number: x[i, : t + 2], views))
            onehots = np.unique(hands[number], axis=0)
            assert all(is_possible(cards.TYPE_OF_SLOT[onehot].tolist(), history) for onehot in onehots), f"game {number}, {t}"
            distinct += len(onehots)
    assert distinct > 150 * num_games
