"""The particle filter against the exact filter in random games of small decks, and invariants of particles."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.belief.comparing import (
    Comparison,
    check_efficiency,
    check_evidence,
    check_means,
    check_particles,
    compare,
)
from tests.belief.games import RULES, VARIANTS, covering, histories
from tests.belief.models import GUARD, THREE, TREMBLING, choosy_opponent, drawing_opponent
from tests.belief.oracle import THIN
from unojax.belief import Family, consistent_opponent, uniform_opponent
from unojax.belief.history import Prior
from unojax.belief.opponents import Opponent, PolicyOpponent
from unojax.belief.updaters import ParticleFilter
from unojax.policies import POLICIES

PROGRAMS: Final = 400  # in the slow part, several for each rule set

NUM_PARTICLES, NUM_RUNS = 256, 40
FEW_PARTICLES, FEW_RUNS = 128, 24
"""Of the cases that `make test` runs."""
CAPACITY: dict[str, Any] = {"max_slots": 64, "max_plays": 48}

WITH_CHOICES = Family(
    (uniform_opponent, GUARD, PolicyOpponent(POLICIES["linear"])), ("uniform", "guard", "linear"), (1.0, 1.0, 2.0)
)
CASES: dict[str, tuple[str, Opponent, Prior]] = {
    "uniform": ("forfeiting", uniform_opponent, "uniform"),
    "few cards": ("thin", uniform_opponent, "uniform"),
    "consistent": ("passing", consistent_opponent, "uniform"),
    "policy, as dealt": ("forfeiting", GUARD, "deal"),
    "callable": ("passing", choosy_opponent, "uniform"),
    **{name: (name, uniform_opponent, "uniform") for name in VARIANTS},
    "official, policy": ("official", GUARD, "uniform"),
    "official, callable": ("official", drawing_opponent, "uniform"),
    "types, as dealt": ("forfeiting", TREMBLING, "deal"),
    "types, few cards": ("thin", THREE, "uniform"),
    "types, official": ("official", WITH_CHOICES, "uniform"),
    "types, no wild+4 beside the colour": ("no wild+4 beside the colour", WITH_CHOICES, "uniform"),
}
QUICK = ("few cards", "official")
SLOW = ("policy, as dealt", "types, as dealt")


def marks_of(case: str) -> list[pytest.MarkDecorator]:
    if case in QUICK:
        return []
    # Likelihoods of hands by models take longer to compute than to compile well.
    return [pytest.mark.slow, pytest.mark.optimized, *([] if case in SLOW else [pytest.mark.long])]


@pytest.mark.parametrize("case", [pytest.param(case, marks=marks_of(case)) for case in CASES])
def test_particles_agree_with_the_exact_filter(case: str) -> None:
    """Contract: it agrees with the exact filter within Monte Carlo error, and does not collapse."""
    name, opponent, prior = CASES[case]
    num_particles, num_runs = (FEW_PARTICLES, FEW_RUNS) if case in QUICK else (NUM_PARTICLES, NUM_RUNS)
    updater = ParticleFilter(num_particles, opponent, prior, **CAPACITY)
    compared = [
        compare(updater, steps, num_runs=num_runs, seed=seed, name=f"{case}, {game}")
        for seed, (game, steps) in enumerate(histories(name, {seat: covering(RULES[name], seat) for seat in (0, 1)}))
    ]
    check_particles(compared)
    has_types = isinstance(opponent, Family)
    check_means(compared, num_particles, bias=2 / num_particles if has_types else 2e-5)
    check_evidence(compared, tolerance=1e-3 if has_types else 1e-4)
    if has_types:
        assert any(np.ptp(c.exactly.types[-1]) > 0.2 for c in compared)
    else:
        check_efficiency(compared, num_particles)
    if RULES[name] is THIN:
        assert sum(map(num_certain, compared))


def num_certain(c: Comparison) -> int:
    """Check that all particles are the hand if the exact filter knows it; return the number of such positions."""
    certain = np.flatnonzero(c.exactly.variance.sum(-1) < 1e-9)
    for t in certain:
        np.testing.assert_allclose(
            c.track.expected[:, t], np.broadcast_to(c.exactly.expected[t], c.track.expected[:, t].shape), atol=1e-5
        )
        assert (c.track.hands[:, t] == c.track.hands[0, t, 0]).all(), c.name
    return len(certain)
