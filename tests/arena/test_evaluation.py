"""Scores on the fixed deals: the rating, and the digest that makes evaluations comparable."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.arena.players import RULES
from tests.helpers import refusals
from unojax import game
from unojax.arena import lanes
from unojax.arena.evaluation import ANCHORS, OPPONENTS, SEED, _rate, digest_deals, evaluate
from unojax.arena.pairs import Pairs
from unojax.arena.ratings import Match, bradley_terry
from unojax.rules import Rules

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "value_arena_cpu.json"


def pairs_of(points: np.ndarray) -> Pairs:
    """Return pairs in which A has these points, float[P, 2]."""
    winner = np.select([points == 1, points == 0], [0, 1], -1).astype(np.int8)
    nothing = np.zeros(points.shape, np.int32)
    return Pairs(np.arange(len(points)), winner, nothing, np.zeros((*points.shape, 2), np.int32), np.zeros(2))


def test_anchors_are_the_measured_ratings():
    measured = {row["name"]: row["rating"] for row in json.loads(RESULTS.read_text())["results"]["agents"]}
    assert set(ANCHORS) == set(OPPONENTS) == set(measured)
    assert pytest.approx({name: rating - measured["uniform"] for name, rating in measured.items()}, abs=0.06) == ANCHORS


def test_ratings():
    """Points drawn with 150 Elo points: within five standard errors, except once in a million runs."""
    rng, true = np.random.default_rng(0), 150.0
    odds = {name: 1 / (1 + 10 ** ((anchor - true) / 400)) for name, anchor in ANCHORS.items()}
    rating, margin = _rate({name: pairs_of((rng.random((4000, 2)) < p).astype(float)) for name, p in odds.items()})
    assert abs(rating - true) < 5 * margin / 1.96
    assert margin == pytest.approx(1.96 * 400 / np.log(10) / np.sqrt(4 * 8000 * 0.23), rel=0.1)
    # With a single opponent, rated or not, only the difference counts.
    points = (np.random.default_rng(1).random((300, 2)) < 0.7).astype(float)
    rating, margin = _rate({"uniform": pairs_of(points)})
    both = bradley_terry(2, [Match(0, 1, np.arange(300), points)])
    assert rating == pytest.approx(float(both.elo[0] - both.elo[1]), abs=1e-3)
    assert margin == pytest.approx(float(2 * both.elo_margin[0]), rel=0.01)


@jax.jit
def deal(key: jax.Array) -> game.State:
    return game.init(lanes.fold(key, lanes._DEAL), rules=RULES)


def test_the_digest_is_of_the_deals():
    key = jax.random.key(SEED, impl="threefry2x32")
    states = [jax.device_get(deal(jax.random.fold_in(key, i))) for i in range(3)]
    digest = hashlib.sha256()
    for name in ("hands", "pile", "color", "current_player"):
        digest.update(np.stack([getattr(state, name) for state in states]).tobytes())
    assert digest_deals(key, 3, rules=RULES) == digest.hexdigest()[:16] != digest_deals(key, 2, rules=RULES)


@pytest.mark.slow
def test_two_evaluations_are_equal():
    rules = Rules(hand_size=2)
    one, two = (evaluate("keep-wilds", ("uniform", "keep-wilds"), games=20, rules=rules) for _ in range(2))
    assert one.rows == two.rows and one.digest == two.digest
    assert [row.second for row in one.rows] == ["uniform"] and one.rating is None
    (row,) = one.rows
    assert sum(row.wins) + row.drawn == row.games == 20


def test_refusals():
    refusals(
        {
            "games": lambda: evaluate("linear", games=3),
            "opponents": lambda: evaluate("linear", opponents=("linear",)),
            "'nobody'": lambda: evaluate("linear", opponents=("nobody",)),
        }
    )
