"""`simulate` plays the requested games with the right probabilities, whatever the batch.

Contract: simulate.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from scipy.special import erfcinv

from tests.helpers import ERROR_PROBABILITY, deck_of, refusals
from tests.oracle import chain
from tests.oracle.game import Variant
from unojax import bits, cards
from unojax.agents import PolicyAgent
from unojax.decks import small_deck
from unojax.device.platform import tuned_for
from unojax.observation import Observation
from unojax.policies import POLICIES, Preference, RulePolicy, uniform
from unojax.rules import Rules
from unojax.simulation import (
    Counting,
    Games,
    Stream,
    count_games,
    default_batch_size,
    harvest,
    simulate,
)
from unojax.simulation.tally import Tally

PROGRAMS = 220  # Each policy and kind of results is a set of programs of its own.

KEY = jax.random.key(11)
NUM_GAMES = 8_000
# Reshuffles, draws of 1, 2 and 4, games without a card to draw, won and drawn: everything happens within a few steps.
TINY = "R1 R+2 RS Y1 W W+4 B2"
BATCH = 256
"""Of most runs, so that they share the compiled programs."""


@partial(jax.tree_util.register_dataclass, data_fields=["action"], meta_fields=[])
@dataclass(frozen=True)
class Always:
    """A policy that plays one action, legal or not."""

    action: float

    def __call__(self, key: Array, observation: Observation, legal_mask: Array) -> Array:
        del key, observation, legal_mask
        return jnp.asarray(self.action).astype(jnp.int32)


def assert_same(a: Games | Tally, b: Games | Tally) -> None:
    for field in fields(a):
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name), err_msg=field.name)


@pytest.fixture(scope="module")
def full_deck() -> Games:
    return simulate(KEY, NUM_GAMES, batch_size=BATCH)


@pytest.mark.parametrize(
    ("skip_forfeits", "start_card"), [(False, "any"), pytest.param(True, "non_wild", marks=pytest.mark.slow)]
)
def test_values_of_a_tiny_game_are_those_of_its_markov_chain(skip_forfeits: bool, start_card: str):
    """Six comparisons of means, with `ERROR_PROBABILITY` in all."""
    rules = Rules(deck=deck_of(TINY), hand_size=2, skip_forfeits=skip_forfeits, start_card=start_card)
    variant = Variant(Counter(TINY.split()), 2, skip_forfeits=skip_forfeits, wild_may_start=start_card == "any")
    exact = chain.uniform_play(variant)
    games = simulate(jax.random.key(5), NUM_GAMES, rules=rules)
    assert min(exact.wins) > 0.1 and exact.draws > 0.005 and exact.reshuffles > 0.1, "the example shows too little"
    sigmas = math.sqrt(2) * float(erfcinv(ERROR_PROBABILITY / 6))
    for name, expected, sample in (
        ("player 0 wins", exact.wins[0], games.winner == 0),
        ("player 1 wins", exact.wins[1], games.winner == 1),
        ("drawn", exact.draws, games.winner == -1),
        ("steps", exact.steps, games.num_steps),
        ("choices", exact.choices, games.num_choices),
        ("reshuffles", exact.reshuffles, games.num_reshuffles),
    ):
        error = sample.std() / math.sqrt(NUM_GAMES)
        assert abs(sample.mean() - expected) < sigmas * error, (name, sample.mean(), expected, error)


def test_results_depend_on_the_key_and_the_rules_but_not_on_the_batch_or_names(full_deck: Games):
    """Rules and policies may be named, and numbers may be NumPy's."""
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12)), hand_size=3)
    few, many = (simulate(jax.random.key(3), 300, rules=rules, batch_size=size) for size in (7, 64))
    assert_same(few, many)
    named = simulate(KEY, np.int64(500), ("uniform", "uniform"), rules="default", batch_size=BATCH)
    assert_same(named, full_deck[:500])
    assert (simulate(jax.random.key(12), 500, batch_size=BATCH).num_steps != named.num_steps).any()


def test_every_complete_game_has_a_result(full_deck: Games):
    assert len(full_deck) == NUM_GAMES
    won = full_deck.winner >= 0
    at_zero = np.take_along_axis(full_deck.hand_sizes, np.maximum(full_deck.winner, 0)[:, None].astype(int), 1)[:, 0] == 0
    assert (at_zero | full_deck.stalemate)[won].all()
    assert full_deck.stalemate[~won].all()
    # A hand of seven takes seven plays, and somebody else's turn or a skip between any two.
    assert full_deck.num_steps.min() >= 7
    assert (full_deck.num_choices <= full_deck.num_steps).all() and not full_deck.truncated.any()


def test_each_player_follows_its_own_policy():
    """The stronger one wins 66% of 1,000 games, and less than 58% with probability 1e-7."""
    strong, weak = POLICIES["scarcest-color"], uniform
    first, second = (simulate(jax.random.key(1), 1_000, pair, batch_size=BATCH) for pair in ((strong, weak), (weak, strong)))
    assert (first.winner == 0).mean() > 0.58 and (second.winner == 1).mean() > 0.58


def test_a_second_run_does_not_compile():
    traced: list[str] = []

    def watching(name: str):
        def policy(key: Array, observation: Observation, legal_mask: Array) -> Array:
            traced.append(name)
            return legal_mask.argmax()

        return policy

    both = watching("a"), watching("b")
    simulate(jax.random.key(0), 40, both, batch_size=16)
    assert set(traced) == {"a", "b"}
    once = len(traced)
    simulate(jax.random.key(1), 60, both, batch_size=16)
    assert len(traced) == once


def test_max_steps_truncates_and_results_may_stay_on_the_device(full_deck: Games):
    games = simulate(KEY, 1_000, max_steps=40, batch_size=BATCH, on_device=True)
    assert all(isinstance(getattr(games, field.name), Array) for field in fields(Games))
    games, whole = jax.device_get(games), full_deck[:1_000]
    long = whole.num_steps > 40
    assert 0.2 < long.mean() < 0.9
    np.testing.assert_array_equal(games.truncated, long)
    np.testing.assert_array_equal(games.num_steps, np.minimum(whole.num_steps, 40))
    np.testing.assert_array_equal(games.winner, np.where(long, -1, whole.winner))
    assert not games.stalemate[long].any()
    by_rules = simulate(KEY, 1_000, rules=Rules(max_steps=40), batch_size=BATCH)
    assert isinstance(by_rules.winner, np.ndarray)
    assert_same(games, by_rules)


def test_a_stream_hands_out_each_game_once(full_deck: Games):
    parts = list(Stream(KEY, 1_000, batch_size=BATCH))
    index = np.concatenate([finished.index for finished in parts])
    np.testing.assert_array_equal(np.sort(index), np.arange(1_000))
    streamed = jax.tree.map(lambda *fields: np.concatenate(fields), *[finished.games for finished in parts])
    assert_same(jax.tree.map(lambda field: field[np.argsort(index)], streamed), full_deck[:1_000])


def test_illegal_policies_and_preferences_are_named():
    """An illegal action; preferences that may leave no card, or add cards."""
    for action in (-1, cards.DRAW, cards.NUM_ACTIONS):
        with pytest.raises(ValueError, match="chose an illegal action in game"):
            simulate(jax.random.key(0), 20, (Always(np.float32(action)), uniform), batch_size=20)
    preferences: list[Preference] = [
        lambda view, legal: bits.map_words(lambda w: w & bits.FIRST_COPIES, legal),
        lambda view, legal: bits.map_words(lambda w: w | bits.WILDS, legal),
    ]
    for preference in preferences:
        policy = RulePolicy("strange", "plays cards that it does not hold", (preference,))
        with pytest.raises(ValueError, match="strange and uniform chose an illegal action in game"):
            simulate(jax.random.key(0), BATCH, (policy, uniform), batch_size=BATCH)


@pytest.mark.parametrize("rules", ["default", pytest.param("official", marks=pytest.mark.slow)])
def test_preferences_of_ones_own_play_as_those_with_a_name(rules: str):
    named = POLICIES["wilds-first"]
    assert isinstance(named, RulePolicy)
    own = RulePolicy("own", "the same", named.preferences)
    assert_same(*(simulate(KEY, BATCH, (policy, uniform), rules=rules, batch_size=BATCH) for policy in (named, own)))


def test_bad_arguments_are_refused():
    """Contract: bad input."""
    arguments: dict[str, dict[str, Any]] = {
        "num_games": {"num_games": 0},
        "num_games (too many)": {"num_games": 2**31 + 1},
        "batch_size": {"batch_size": 0},
        "max_steps": {"max_steps": 0},
        "policies": {"policies": (uniform,)},
        "policies (one name)": {"policies": "uniform"},
        "policies (one policy)": {"policies": uniform},
        "policies (a number)": {"policies": (uniform, 3)},
        "a policy takes key, observation and legal mask": {"policies": (uniform, lambda params, key, seen, mask: 0)},
        "'smart'": {"policies": (uniform, "smart")},
        "is an agent": {"policies": (uniform, PolicyAgent("u", uniform))},
        "single threefry2x32 key": {"key": jax.random.key(0, impl="rbg")},
        "simulate takes a single key": {"key": jax.random.split(KEY)},
        "simulate takes a random key": {"key": 3},
        "rules": {"rules": "ofical"},
        "share": {"share": (2, 2)},
        "share (a fraction)": {"share": (0.5, 2)},
        "share (3, 4) has none of 3 games": {"num_games": 3, "share": (3, 4)},
    }
    refusals({name: partial(simulate, **{"key": KEY, "num_games": 4} | given) for name, given in arguments.items()})
    refusals({"batch_size": lambda: count_games(KEY, 2**24, batch_size=2**23 + 1)})
    with pytest.raises(TypeError, match="options are rules, batch_size, max_steps, share, got lanes"):
        simulate(KEY, 4, lanes=3)


def test_the_default_batch_has_at_most_as_many_slots_as_games_and_is_a_power_of_two(monkeypatch: pytest.MonkeyPatch):
    """On a GPU few games have a slot each, and many share as many slots as fill it."""
    for num_games in (1, 2, 3, 100, 12_345, 10**6, 2**31):
        slots = default_batch_size(num_games)
        assert slots & (slots - 1) == 0 and 1 <= slots < 2 * num_games
    assert default_batch_size(10**9) == default_batch_size(2 * 10**9)
    monkeypatch.setattr("unojax.simulation.run.platform", lambda: "gpu")
    assert [default_batch_size(2**n) for n in (10, 18, 19, 21, 22, 30)] == [2**n for n in (10, 18, 18, 18, 19, 20)]


@pytest.mark.parametrize("max_steps", [9, pytest.param(None, marks=pytest.mark.slow)])
def test_counts_are_those_of_the_games(max_steps: int | None) -> None:
    """Summed on the device, and from rows: with stalemates, drawn and truncated games."""
    rules = Rules(deck=deck_of(TINY), hand_size=1)
    games = simulate(jax.random.key(3), 2000, rules=rules, batch_size=BATCH, max_steps=max_steps)
    expected = Tally.of(games)
    assert (expected.drawn > 0) and (expected.stalemates > 0) and (expected.truncated > 0) == (max_steps is not None)
    assert_same(count_games(jax.random.key(3), 2000, rules=rules, batch_size=BATCH, max_steps=max_steps), expected)


@pytest.mark.parametrize("kind", [Counting, Stream])
def test_a_run_that_ends_early_finishes_what_is_begun(full_deck: Games, kind: type) -> None:
    run = kind(KEY, NUM_GAMES, batch_size=BATCH)
    parts = [next(run)]
    assert BATCH <= run.num_begun < NUM_GAMES
    run.end_at(run.num_begun)
    parts += list(run)
    total = sum((part if isinstance(part, Tally) else Tally.of(part.games) for part in parts), Tally())
    assert_same(total, Tally.of(full_deck[: run.num_games]))


def test_shares_are_the_games_of_a_run(full_deck: Games) -> None:
    """In their order, one by one, and as counts."""
    whole, parts, total = full_deck[:100], 3, Tally()
    for part in range(parts):
        options: Any = {"batch_size": BATCH, "share": (part, parts)}
        mine = simulate(KEY, 100, **options)
        for field in fields(Games):
            np.testing.assert_array_equal(getattr(mine, field.name), getattr(whole, field.name)[part::parts])
        total += count_games(KEY, 100, **options)
        numbers = np.concatenate([finished.index for finished in Stream(KEY, 100, **options)])
        assert sorted(numbers) == list(range(part, 100, parts))
    assert_same(total, Tally.of(whole))


def test_counting_refuses_illegal_actions_and_long_games(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="chose an illegal action in"):
        count_games(jax.random.key(0), 10, (Always(np.float32(99)), uniform), batch_size=8)
    monkeypatch.setattr("unojax.simulation.run.LONGEST", 20)
    monkeypatch.setattr(harvest, "LONGEST", 20)
    with pytest.raises(ValueError, match="took 20 steps or more, which are too many to count by length"):
        count_games(jax.random.key(0), 10, batch_size=4)


def test_the_form_for_a_gpu_gives_the_same_games(full_deck: Games) -> None:
    """Finished games come first there, and calls are dispatched ahead."""
    with tuned_for("gpu"):
        assert_same(simulate(KEY, 300, batch_size=BATCH), full_deck[:300])
