"""The bootstrap filter against the exact one, and the report of its depletion."""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.belief.comparing import check_evidence, check_means, check_particles, compare
from tests.belief.games import RULES, VARIANTS, games_of, histories
from tests.belief.models import GUARD, TREMBLING, drawing_opponent
from tests.belief.oracle import THIN
from tests.helpers import counts_of, refusals
from unojax import cards, game
from unojax.belief import uniform_opponent
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.opponents import OpponentModel
from unojax.belief.updaters import BootstrapFilter
from unojax.rules import Rules

PROGRAMS: Final = 250  # in the slow part, several for each rule set

NUM_PARTICLES, NUM_RUNS = 1024, 24
CASES: dict[str, tuple[str, OpponentModel]] = {
    "forfeiting": ("forfeiting", uniform_opponent),
    "forfeiting, policy": ("forfeiting", GUARD),
    "thin": ("thin", uniform_opponent),
    **{name: (name, uniform_opponent) for name in VARIANTS},
    "official, policy": ("official", GUARD),
    "official, callable": ("official", drawing_opponent),
}
QUICK = ("official",)

begin = jax.jit(partial(bootstrap_init, num_particles=64))
update = jax.jit(bootstrap_update)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in QUICK else [pytest.mark.slow, pytest.mark.optimized]) for case in CASES]
)
def test_it_agrees_with_the_exact_filter(case: str) -> None:
    """Contract: the textbook bootstrap filter, for comparison. Its evidence is unbiased; its means have a bias of order 1/N."""
    name, opponent = CASES[case]
    updater, most = BootstrapFilter(NUM_PARTICLES, opponent, "uniform"), 4 if case in QUICK else 10
    compared = [
        compare(updater, steps, num_runs=NUM_RUNS, seed=seed, name=f"{case}, {game}")
        for seed, (game, steps) in enumerate(histories(name, {seat: [*range(seat, most, 2)] for seat in (0, 1)}, 16))
    ]
    check_particles(compared)
    check_means(compared, NUM_PARTICLES, bias=2 / NUM_PARTICLES)
    check_evidence(compared, tolerance=1e-3)
    assert sum(len(c.exactly.expected) for c in compared) > 30


@pytest.mark.slow
def test_a_collapse_on_the_full_deck_is_reported() -> None:
    """The belief restarts uniformly at the current position: right counts, unseen cards, equal weights."""
    views, states, depletions = corpus.views("default", 0), corpus.games("default").states, 0
    for number in range(2):
        seen = [jax.tree.map(lambda x, t=t, i=number: x[i, t], views) for t in range(60)]
        belief = begin(seen[0], jax.random.key(number))
        for t, (before, after) in enumerate(itertools.pairwise(seen)):
            moved = states.step_count[number, t + 1] > states.step_count[number, t]
            action = np.int32(states.last_action[number, t + 1] if moved else game.NO_ACTION)
            belief, info = update(belief, before, action, after, jax.random.fold_in(jax.random.key(number), t))
            assert info.restarted == info.depleted and not info.inconsistent
            weights, hands = np.exp(np.asarray(belief.log_weights)), np.asarray(belief.particles)
            assert weights.sum() == pytest.approx(1.0, abs=1e-4)
            assert (hands.sum(-1) == after.opponent_count).all()
            assert (counts_of(hands) <= Rules().deck - counts_of(after.hand) - counts_of(after.pile)).all()
            if info.depleted:
                depletions += 1
                assert info.ess == 0 and info.log_evidence == -math.inf and np.ptp(weights) == 0
    assert depletions > 2


def test_what_contradicts_itself_changes_nothing() -> None:
    """A wrong action, another player's view, and a belief of another position.

    Without an event nothing changes either, and no flag is set.
    """
    games = games_of(RULES["official"])
    states = games.states
    plays = (games.actions >= 0) & (games.actions < cards.DRAW) & (states.current_player[:, :-1] == 1)
    number, t = games.find(plays & ~states.terminated[:, 1:] & (games.seen[0].opponent_count[:, :-1] > 1))
    before, after, action = games.view(0, number, t), games.view(0, number, t + 1), games.actions[number, t]
    belief, key = begin(before, jax.random.key(0)), jax.random.key(1)
    updated, info = update(belief, before, action, after, key)
    assert not info.inconsistent and (np.asarray(updated.particles).sum(-1) == after.opponent_count).all()
    more = {"opponent_count": before.opponent_count + np.int8(1), "deck_count": before.deck_count - np.int8(1)}
    elsewhere = begin(dataclasses.replace(before, **more), jax.random.key(0))
    for old, wrong, seen, is_wrong in (
        (belief, cards.DRAW, after, True),
        (belief, (action + 1) % 60, after, True),
        (belief, game.NO_ACTION, after, True),
        (belief, action, games.view(1, number, t + 1), True),
        (elsewhere, action, after, True),
        (belief, game.NO_ACTION, before, False),
    ):
        updated, info = update(old, before, np.int32(wrong), seen, key)
        assert bool(info.inconsistent) == is_wrong
        assert not (info.depleted or info.resampled)
        assert info.log_evidence == pytest.approx(0.0, abs=1e-5)
        for a, b in zip(jax.tree.leaves(updated), jax.tree.leaves(old), strict=True):
            np.testing.assert_allclose(a, b, atol=0 if is_wrong else 1e-6)


def test_refusals() -> None:
    view, key = games_of(RULES["official"]).view(0, 3, 0), jax.random.key(0)
    belief = begin(view, key)
    other = dataclasses.replace(view, rules=THIN)

    def call(before=view, action: Any = -1, after=view, **options) -> object:
        return bootstrap_update(belief, before, action, after, key, **options)

    refusals(
        {
            "prior": lambda: bootstrap_init(view, key, prior="flat"),
            "num_particles": lambda: bootstrap_init(view, key, num_particles=0),
            "rules differ": lambda: call(before=other),
            "rules differ (after)": lambda: call(after=other),
            "ess_threshold": lambda: call(ess_threshold=-3.0),
            "action": lambda: call(action=1.0),
            "action (batch)": lambda: call(action=jnp.array([1])),
            "family": lambda: call(opponent=TREMBLING),
        }
    )
