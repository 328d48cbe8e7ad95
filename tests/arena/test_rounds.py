"""Matches of several rounds."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np

from tests.arena.players import BATCH, RULES, SCARCEST, UNIFORM
from tests.helpers import refusals, seated
from unojax import Rules, play_rounds
from unojax.arena import Batch, play_batches
from unojax.arena.lanes import MatchLanes, results
from unojax.arena.rounds import MAX_ROUNDS, Matches
from unojax.game import pack_state

KEY = jax.random.key(5)
SIZES: dict[str, Any] = {"rules": RULES, "batch_size": BATCH, "workers": 1}
play = partial(play_rounds, KEY, target=120, **SIZES)


def test_points_are_those_of_the_cards_left():
    state = seated(0, "R1", "R5 YS W+4 G0", "B9", rules=RULES)
    over = [dataclasses.replace(state, winner=np.int8(winner), terminated=np.bool_(winner >= 0)) for winner in (0, 1, -1)]
    games = jax.jit(jax.vmap(pack_state))(jax.tree.map(lambda *leaves: np.stack(leaves), *over))
    winner, points = results(MatchLanes(games, *[np.zeros(3)] * 3))
    np.testing.assert_array_equal(winner, [0, 1, -1])
    np.testing.assert_array_equal(points, [5 + 20 + 50 + 0, 1, 0])


def test_matches_are_rounds_added_up():
    agents = SCARCEST, UNIFORM
    matches = play(agents, 3)
    assert len(matches) == 3
    for pair, which in np.ndindex(3, 2):
        scores, number = [0, 0], 0
        while max(scores) < 120:
            batch = Batch(agents, np.array([pair * MAX_ROUNDS + number]))
            ((_, played),) = play_batches(KEY, [batch], **SIZES)
            # The seats alternate between rounds.
            game = (number + which) % 2
            if (winner := int(played.winner[0, game])) >= 0:
                scores[winner] += int(played.card_points[0, game])
            number += 1
        assert matches.scores[pair, which].tolist() == scores
        assert int(matches.num_rounds[pair, which]) == number
        assert int(matches.winner[pair, which]) == int(np.argmax(scores))

    other = matches.swapped()
    np.testing.assert_array_equal(other.scores, matches.scores[:, ::-1, ::-1])
    np.testing.assert_array_equal(other.num_rounds, matches.num_rounds[:, ::-1])
    joined = Matches.join([dataclasses.replace(matches, index=matches.index + 3), matches])
    np.testing.assert_array_equal(joined.index, np.arange(6))
    np.testing.assert_array_equal(joined.scores, np.concatenate([matches.scores] * 2))
    assert len(Matches.join([])) == 0 and Matches.join([]).scores.shape == (0, 2, 2)


def test_equal_agents_play_the_same_match_twice():
    matches = play((UNIFORM, UNIFORM), 4)
    np.testing.assert_array_equal(matches.scores[:, 0], matches.scores[:, 1, ::-1])
    assert len(np.unique(matches.scores)) > 3
    np.testing.assert_array_equal(matches.points.sum(1), 1.0)


def test_refusals():
    def call(num_pairs: int = 2, **options: Any) -> Matches:
        return play((UNIFORM, UNIFORM), num_pairs, **options)

    refusals(
        {
            "rules": lambda: call(rules=Rules()),
            "target": lambda: call(target=0),
            "num_pairs": lambda: call(0),
            "batch_size": lambda: call(batch_size=3),
            "workers": lambda: call(workers=0),
        }
    )
