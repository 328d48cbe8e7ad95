"""All updaters along the same games, on the device and on the host."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.games import games_of
from tests.belief.oracle import FORFEITING
from tests.helpers import counts_of, refusals
from unojax import bits, cards, make_state
from unojax.belief import closed_form, summary
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.hands import Hands
from unojax.belief.opponents import parse_opponent
from unojax.belief.tracking import begin, run_filter, track
from unojax.belief.updaters import (
    BootstrapFilter,
    ClosedFormFilter,
    ColorBoundsFilter,
    ExactFilter,
    Oracle,
    ParticleFilter,
    UniformFilter,
    Updater,
    parse_updater,
)
from unojax.observation import Observation, observe
from unojax.search.agents import monte_carlo

PROGRAMS: Final = 150  # six updaters, each with programs to begin, to update and to look


NUM_UPDATES, NUM_HANDS = 9, 4096
KEY = jax.random.key(4)
DRAWN = [ClosedFormFilter(num_hands=NUM_HANDS), ColorBoundsFilter(NUM_HANDS), UniformFilter(NUM_HANDS)]
ALL = [BootstrapFilter(64), *DRAWN, ExactFilter()]


@pytest.fixture(scope="module")
def steps() -> list[tuple[Observation, int, Observation]]:
    """Return the first transitions of a game in which the opponent can't play, so that bounds are evidence."""
    games = games_of(FORFEITING)
    states = games.states
    draws = (games.actions == cards.DRAW) & (states.penalty[:, :-1] == 0) & (states.current_player[:, :-1] == 1)
    lasts = (games.actions >= 0).sum(1) > NUM_UPDATES
    return games.steps(0, int(np.argmax(np.where(lasts, draws[:, :NUM_UPDATES].sum(1), -1))))[:NUM_UPDATES]


@pytest.fixture(scope="module")
def views(steps: list[tuple[Observation, int, Observation]]) -> list[Observation]:
    return [steps[0][0], *(after for _, _, after in steps)]


@pytest.mark.parametrize("updater", ALL, ids=lambda updater: updater.name)
def test_an_updater_follows_a_game(updater: Updater, views: list[Observation]) -> None:
    """Probabilities of copies add up to the hand, and sampled hands have their shares.

    Shares of 4096 hands are within five standard errors, less than 0.04. An omitted transition is rejected.
    """

    def look(key: jax.Array, belief: Any, seen: Observation) -> tuple[Hands, Any]:
        return updater.hands(key, belief, seen), updater.count_probs(belief, seen)

    look = look if updater.on_host else jax.jit(look)
    for number, (seen, (belief, info)) in enumerate(zip(views, track(updater, KEY, views), strict=True)):
        hands, probs = jax.device_get(look(jax.random.key(number), belief, seen))
        np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-4)
        np.testing.assert_allclose((probs @ np.arange(5)).sum(), int(seen.opponent_count), rtol=1e-3)
        held = counts_of(bits.unpack(hands.packed))
        assert (held.sum(-1) == seen.opponent_count).all() and (held <= np.asarray(seen.unseen)).all()
        if updater in DRAWN:
            np.testing.assert_array_equal(canonical(hands.packed), np.stack(hands.packed))
            np.testing.assert_allclose(hands.log_weights, -np.log(NUM_HANDS), rtol=1e-6)
            np.testing.assert_allclose(by_count(hands), probs, atol=0.04)
        assert (info is None) == (number == 0)
        if info is not None:
            assert 0 < float(info.ess) <= updater.num_particles * (1 + 1e-4) and not (info.depleted or info.inconsistent)
    followed = track(updater, KEY, [views[0], views[1], views[3]])
    next(followed), next(followed)
    with pytest.raises(ValueError, match=r"not one transition apart|does not show the position"):
        next(followed)


by_count = jax.jit(summary.count_probs)
canonical = jax.jit(lambda words: jnp.stack(bits.canonical(words)))
uniform_counts = jax.jit(lambda seen: closed_form.uniform(seen).count_probs)


def test_the_exact_filter_is_that_of_its_functions(steps: list) -> None:
    belief = exact_init(steps[0][0], prior="deal")
    tracked = track(ExactFilter(), KEY, [steps[0][0], *(after for _, _, after in steps)])
    next(tracked)
    for (before, action, after), (followed, info) in zip(steps, tracked, strict=True):
        belief, log_evidence = exact_update(belief, before, action, after)
        assert float(info.log_evidence) == pytest.approx(log_evidence, abs=1e-6)
        np.testing.assert_array_equal(followed.hands()[1], belief.hands()[1])


@pytest.mark.parametrize("updater", [ClosedFormFilter(), ClosedFormFilter(exclude_drawn=True)], ids=lambda updater: updater.name)
def test_the_device_follows_like_the_host(updater: Updater, views: list[Observation]) -> None:
    """Positions beyond the last update are not recorded. Contradictory observations leave the belief unchanged.

    Contract: vmap- and jit-able updates, `before` and `after` one transition apart.
    """
    stacked, num_updates = jax.tree.map(lambda *xs: np.stack(xs), *views), NUM_UPDATES - 2

    def note(out: jax.Array, t: jax.Array, seen: Observation, belief: Any, info: Any) -> jax.Array:
        assert info.ess.shape == ()
        return out.at[t].set(updater.count_probs(belief, seen))

    @jax.jit
    def on_device(key: jax.Array, views: Observation, number: jax.Array) -> jax.Array:
        return run_filter(updater, key, views, number, note, jnp.zeros((NUM_UPDATES + 1, 54, 5)))

    rows = np.asarray(on_device(KEY, stacked, np.int32(num_updates)))
    look = jax.jit(updater.count_probs)
    for t, (belief, _) in enumerate(track(updater, KEY, views[: num_updates + 1])):
        np.testing.assert_allclose(rows[t], look(belief, views[t]), atol=1e-6)
    assert not rows[num_updates + 1 :].any()

    update, belief = jax.jit(updater.update), jax.jit(updater.init)(KEY, views[0])
    for action, after, is_wrong in ((60, views[2], True), (-1, views[1], True), (-1, views[0], False), (7, views[0], False)):
        updated, info = update(KEY, belief, views[0], np.int32(action), after)
        assert bool(info.inconsistent) == is_wrong
        jax.tree.map(np.testing.assert_array_equal, updated, belief)


def test_hands_within_bounds_are_as_likely_as_each_other() -> None:
    """Compare with hands of unseen cards within the bounds; full deck, no bound for green."""
    seen = jax.device_get(observe(make_state("R1 R2 B7 W", "B1 Y4 G3 G5 Y9", "R7", pile="R5 Y5"), 0))
    limits = np.array([1, 3, 2, 31, 0])
    bounds = np.uint32(sum(limit << 5 * kind for kind, limit in enumerate(limits.tolist())))
    kinds = np.where(cards.COLOR_OF_TYPE < 0, 4, cards.COLOR_OF_TYPE)

    def possible(hands: Hands) -> np.ndarray:
        held = counts_of(bits.unpack(jax.device_get(hands.packed)))
        return held[(held @ (kinds[:, None] == np.arange(5)).astype(int) <= limits).all(-1)]

    bounded, uniform = ColorBoundsFilter(2**14), UniformFilter(2**16)
    expected, drawn = possible(jax.jit(uniform.hands)(KEY, (), seen)), possible(jax.jit(bounded.hands)(KEY, bounds, seen))
    assert len(drawn) == 2**14 and 0.05 < len(expected) / 2**16 < 0.5
    count_probs = jax.jit(bounded.count_probs)
    probs, unseen = np.asarray(count_probs(bounds, seen)), uniform_counts(seen)
    for held in (expected, drawn):
        np.testing.assert_allclose((held[..., None] == np.arange(5)).mean(0), probs, atol=0.02)
    assert np.abs(probs - np.asarray(unseen)).max() > 0.05
    # Bounds that no hand of the position keeps say nothing.
    np.testing.assert_allclose(count_probs(np.uint32(0), seen), unseen, atol=1e-5)


def test_particles_leave_every_possible_hand_a_chance(views: list[Observation]) -> None:
    """One particle's weight is spread like the uniform belief."""
    updater = BootstrapFilter(4)
    belief = jax.jit(updater.init)(KEY, views[0])
    found, uniform = jax.jit(updater.count_probs)(belief, views[0]), np.asarray(uniform_counts(views[0]))
    np.testing.assert_allclose(found, (4 * np.asarray(by_count(belief)) + uniform) / 5, atol=1e-6)
    assert (np.asarray(found)[uniform > 0] > 0).all()


def test_exact_hands_are_all_that_are_possible(views: list[Observation]) -> None:
    updater = ExactFilter(parse_opponent("uniform|linear"))
    for seen, (belief, _) in zip(views, track(updater, KEY, views), strict=True):
        hands = jax.device_get(updater.hands(KEY, belief, seen))
        room = hands.log_weights.shape[0]
        assert room & (room - 1) == 0 and hands.log_joint is not None
        joint, held = np.exp(hands.log_joint), counts_of(bits.unpack(hands.packed))
        shares = np.stack([np.exp(hands.log_weights) @ (held == j) for j in range(5)], -1)
        np.testing.assert_allclose(shares, belief.count_probs, atol=1e-5)
        np.testing.assert_allclose(joint.sum(0), np.exp(hands.log_weights), atol=1e-6)
        np.testing.assert_allclose(joint.sum(1), np.exp(belief.log_type_probs), atol=1e-5)
        uniform, linear = np.exp(belief.log_type_probs)
        assert updater.types(belief) == pytest.approx({"uniform": uniform, "linear": linear})


def test_only_observations_of_positions_are_followed(views: list[Observation]) -> None:
    """A batch of views, as `jax.vmap(observe)` gives it, is no sequence of observations."""
    batch: Any = jax.tree.map(lambda *leaves: np.stack(leaves), *views)
    name: Any = "particles"
    refusals(
        {
            "observations must be several": lambda: next(track(UniformFilter(), KEY, batch)),
            "updater must be one of": lambda: next(track(name, KEY, views)),
        }
    )


def test_the_oracle_sees_the_hand() -> None:
    games = games_of(FORFEITING)
    state, updater = jax.tree.map(lambda x: x[0, 0], games.states), Oracle()
    belief, truth = updater.see(state, 0), cards.count_types(games.states.hands[0, 0, 1])
    probs, hands = jax.jit(updater.count_probs)(belief, games.view(0, 0, 0)), updater.hands(KEY, belief, games.view(0, 0, 0))
    np.testing.assert_array_equal(np.asarray(probs).argmax(-1), truth)
    np.testing.assert_array_equal(counts_of(bits.unpack(jax.device_get(hands.packed)))[0], truth)


def test_the_posterior_of_the_types_carries_over_to_the_next_game(views: list[Observation]) -> None:
    start, family = views[0], parse_opponent("uniform|linear")
    for updater in (ParticleFilter(16, family), ExactFilter(family)):
        known = begin(updater, KEY, start, np.log(np.array([0.25, 0.75], np.float32)))
        next_game = updater.next_game if updater.on_host else jax.jit(updater.next_game)
        carried = next_game(KEY, known, start)
        assert updater.types(carried) == pytest.approx({"linear": 0.75, "uniform": 0.25}, abs=1e-5)
    for updater in (ParticleFilter(16), BootstrapFilter(16), *DRAWN):
        first, other = begin(updater, KEY, start), begin(updater, jax.random.key(9), start)
        assert updater.types(first) == {}
        jax.tree.map(np.testing.assert_array_equal, first, jax.jit(updater.next_game)(KEY, other, start))


@pytest.mark.parametrize(
    "belief", ["ages", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bootstrap", "closed", "unseen", "truth"))]
)
def test_a_search_takes_any_of_them(belief: Any, views: list[Observation]) -> None:
    agent = monte_carlo(belief=belief, model="uniform", particles=16, rollouts=8, rules=FORFEITING)
    assert f"belief={belief}" in agent.name
    before, after = next((b, a) for b, a in itertools.pairwise(views) if a.is_my_turn)

    @jax.jit
    def play(before: Observation, after: Observation) -> jax.Array:
        memory = agent.update(KEY, agent.init(KEY, before), before, after.last_action, after)
        return agent.act(KEY, memory, after, after.legal_mask)

    assert after.legal_mask[int(play(before, after))]


def test_a_search_by_the_exact_belief_is_of_the_host(views: list[Observation]) -> None:
    agent = replace(monte_carlo(model="uniform", rollouts=8, rules=FORFEITING), updater=ExactFilter())
    mine = next(seen for seen in views if seen.is_my_turn and seen.legal_mask.sum() > 1)
    memory = agent.init(KEY, mine)
    assert bool(mine.legal_mask[int(agent.act(KEY, memory, mine, mine.legal_mask))])
    refusals(
        {
            "exact filter": lambda: jax.jit(agent.init)(KEY, mine),
            "family": lambda: parse_updater("bootstrap", particles=8, model="uniform|linear"),
            "belief": lambda: parse_updater("flat", particles=8),
            "particles": lambda: parse_updater("closed", particles=0),
            "num_particles": lambda: ParticleFilter(0),
            "num_particles (bootstrap)": lambda: BootstrapFilter(0),
        }
    )
