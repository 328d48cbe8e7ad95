"""Matches of several rounds."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import seated
from unojax import Rules, play_rounds
from unojax.arena import Batch, play_batches
from unojax.arena.match import _card_points
from unojax.arena.rounds import MAX_ROUNDS, Matches
from unojax.specs import parse_agent

RULES = Rules(points=True, hand_size=3)
KEY = jax.random.key(5)


def test_points_are_those_of_the_cards_left() -> None:
    state = seated(0, "R1", "R5 YS W+4 G0", "B9", rules=RULES)
    lost = [dataclasses.replace(state, winner=jnp.int8(winner)) for winner in (0, 1, -1)]
    lanes: Any = SimpleNamespace(state=jax.tree.map(lambda *leaves: jnp.stack(leaves), *lost))
    np.testing.assert_array_equal(_card_points(lanes), [5 + 20 + 50 + 0, 1, 0])


def test_matches_are_rounds_added_up() -> None:
    agents = parse_agent("scarcest-color"), parse_agent("uniform")
    matches = play_rounds(KEY, agents, 3, rules=RULES, target=120, batch_size=8, workers=1)
    assert len(matches) == 3
    for pair in range(3):
        for which in (0, 1):
            scores, number = [0, 0], 0
            while max(scores) < 120:
                batch = Batch(agents, np.array([pair * MAX_ROUNDS + number]))
                ((_, played),) = play_batches(KEY, [batch], rules=RULES, batch_size=8, workers=1)
                # The seats change from round to round.
                game = (number + which) % 2
                if (winner := int(played.winner[0, game])) >= 0:
                    scores[winner] += int(played.card_points[0, game])
                number += 1
            assert matches.scores[pair, which].tolist() == scores
            assert int(matches.num_rounds[pair, which]) == number
            assert int(matches.winner[pair, which]) == int(np.argmax(scores))


def test_equal_agents_play_the_same_match_twice() -> None:
    matches = play_rounds(KEY, ("uniform", "uniform"), 4, rules=RULES, target=100, batch_size=8, workers=1)
    np.testing.assert_array_equal(matches.scores[:, 0], matches.scores[:, 1, ::-1])
    assert len(np.unique(matches.scores)) > 3
    np.testing.assert_array_equal(matches.points.sum(1), 1.0)


def test_matches_are_swapped_and_joined_with_all_that_they_have() -> None:
    matches = play_rounds(KEY, ("scarcest-color", "uniform"), 2, rules=RULES, target=60, batch_size=8, workers=1)
    other = matches.swapped()
    for which in (0, 1):
        np.testing.assert_array_equal(other.scores[:, which], matches.scores[:, 1 - which, ::-1])
        np.testing.assert_array_equal(other.num_rounds[:, which], matches.num_rounds[:, 1 - which])
    later = dataclasses.replace(matches, index=matches.index + 2)
    joined = Matches.join([later, matches])
    np.testing.assert_array_equal(joined.index, np.arange(4))
    np.testing.assert_array_equal(joined.scores, np.concatenate([matches.scores] * 2))
    assert len(Matches.join([])) == 0 and Matches.join([]).scores.shape == (0, 2, 2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rules": Rules()}, "points"),
        ({"target": 0}, "target"),
        ({"num_pairs": 0}, "num_pairs"),
        ({"batch_size": 3}, "even"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_input(options: dict[str, Any], told: str) -> None:
    options = {"rules": RULES, "num_pairs": 2} | options
    with pytest.raises(ValueError, match=told):
        play_rounds(KEY, ("uniform", "uniform"), cast(int, options.pop("num_pairs")), **options)
