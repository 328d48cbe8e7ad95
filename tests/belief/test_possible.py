"""The check of hands against the history: the checker against the exact filter, and the particle filter on the full deck."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import pytest

from tests.belief import possible as checker
from tests.belief.oracle import FORFEITING, PASSING, THIN, play_games
from tests.belief.possible import is_possible, read_history
from unojax import game
from unojax.belief.exact import exact_init, exact_update
from unojax.rules import Rules


def hands_of(shape: Sequence[int], types: np.ndarray) -> list[list[int]]:
    """All hands of a joint table of counts, in its order."""
    return [np.repeat(types, counts).tolist() for counts in np.ndindex(*shape)]


@pytest.mark.parametrize(
    "rules",
    [pytest.param(FORFEITING, marks=pytest.mark.slow), pytest.param(PASSING, marks=pytest.mark.slow), THIN],
    ids=["forfeiting", "passing", "thin"],
)
def test_the_checker_agrees_with_the_exact_filter(rules: Rules) -> None:
    """Every hand there is, after every update of some games: possible if and only if the exact filter gives it probability."""
    record = play_games(seed=3, num_games=300, num_steps=25, rules=rules)
    types = np.flatnonzero(np.array(rules.deck))
    shuffled = record.observations[0].pile.sum(-1)
    has_reshuffle = (shuffled[1:] < shuffled[:-1]).any(0)
    lanes = np.concatenate([np.flatnonzero(has_reshuffle)[:2], np.flatnonzero(~has_reshuffle)[:2]])
    possible = impossible = 0
    for player in (0, 1):
        for lane in lanes.tolist():
            belief = exact_init(record.view(player, 0, lane))
            for t in np.flatnonzero(record.happened[:, lane] != game.NO_ACTION).tolist():
                before, after = record.view(player, t, lane), record.view(player, t + 1, lane)
                belief, _ = exact_update(belief, before, int(record.happened[t, lane]), after)
                if after.terminated:
                    break
                views = jax.tree.map(lambda x, lane=lane, t=t: x[: t + 2, lane], record.observations[player])
                history = read_history(views)
                hands = hands_of(belief.probs.shape, types)
                found = np.array([is_possible(hand, history) for hand in hands])
                np.testing.assert_array_equal(found, belief.probs.ravel() > 0, err_msg=f"player {player}, game {lane}, step {t}")
                possible, impossible = possible + int(found.sum()), impossible + int((~found).sum())
    assert min(possible, impossible) > 200


@pytest.mark.slow
def test_no_impossible_hand_in_a_few_games() -> None:
    counts = checker.check(num_games=3, num_particles=16, max_steps=60, seed=1)
    assert counts["games"] == 3 and counts["particles"] == 16 * counts["updates"]
    assert counts["distinct"] > 500 and counts["impossible"] == 0


@pytest.mark.slow
@pytest.mark.long
def test_no_impossible_hand_on_the_full_deck() -> None:
    counts = checker.check(num_games=48, num_particles=32, max_steps=250, seed=1)
    assert counts["impossible"] == 0
    assert counts["distinct"] > 20_000
