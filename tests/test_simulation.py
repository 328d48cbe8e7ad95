"""`simulate` plays exactly the games it is asked for, with the right probabilities, whatever the batch."""

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

from tests.helpers import ERROR_PROBABILITY, deck_of
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
    Collector,
    Counting,
    Finished,
    Games,
    Stream,
    count_games,
    default_batch_size,
    harvest,
    simulate,
)
from unojax.simulation.tally import Tally

NUM_GAMES = 15_000
# Reshuffles, draws of 1, 2 and 4, stalemates won and drawn: everything happens within a few steps.
TINY = "R1 R+2 RS Y1 W W+4 B2"


BATCH = 256
"""Of most runs, so that they share the compiled programs."""


def lowest_action(key: Array, observation: Observation, legal_mask: Array) -> Array:
    """A policy that is no `RulePolicy`."""
    del key, observation
    return legal_mask.argmax()


def checking(key: Array, observation: Observation, legal_mask: Array) -> Array:
    """A uniform policy by protocol that plays an illegal action where what it sees is wrong: `simulate` then fails."""
    legal = observation.legal_mask
    top_matches = (
        (observation.last_action < 0)
        | (observation.last_action == cards.DRAW)
        | (observation.last_action == observation.color * 15 + observation.top_rank)
    )
    fine = (legal == legal_mask).all() & top_matches & observation.is_my_turn
    return jnp.where(fine, uniform(key, observation, legal_mask), 99)


@partial(jax.tree_util.register_dataclass, data_fields=["action"], meta_fields=[])
@dataclass(frozen=True)
class Always:
    """A policy that plays one action, legal or not."""

    action: float

    def __call__(self, key: Array, observation: Observation, legal_mask: Array) -> Array:
        del key, observation, legal_mask
        return jnp.asarray(self.action).astype(jnp.int32)


def same(a: Games, b: Games) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(Games))


@pytest.fixture(scope="module")
def full_deck() -> Games:
    return simulate(jax.random.key(11), 20_000, batch_size=BATCH)


@pytest.mark.parametrize(
    ("skip_forfeits", "start_card"), [(False, "any"), pytest.param(True, "non_wild", marks=pytest.mark.slow)]
)
def test_values_of_a_tiny_game_are_those_of_its_markov_chain(skip_forfeits: bool, start_card: str):
    rules = Rules(deck=deck_of(TINY), hand_size=2, skip_forfeits=skip_forfeits, start_card=start_card)
    variant = Variant(Counter(TINY.split()), 2, skip_forfeits=skip_forfeits, wild_may_start=start_card == "any")
    exact = chain.uniform_play(variant)
    games = simulate(jax.random.key(5), NUM_GAMES, rules=rules)
    assert min(exact.wins) > 0.1 and exact.draws > 0.005 and exact.reshuffles > 0.1, "the example shows too little"
    # Six comparisons, each by a normal approximation with many thousand games.
    sigmas = math.sqrt(2) * _inverse_erfc(ERROR_PROBABILITY / 6)
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


def _inverse_erfc(probability: float) -> float:
    from scipy.special import erfcinv

    return float(erfcinv(probability))


def test_results_do_not_depend_on_the_batch_size():
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12)), hand_size=3)
    few, many = (simulate(jax.random.key(3), 500, rules=rules, batch_size=size) for size in (7, 64))
    assert same(few, many)


@pytest.mark.slow
def test_a_longer_run_begins_with_the_shorter_one(full_deck: Games):
    for num_games in (100, 600):
        assert same(simulate(jax.random.key(11), num_games, batch_size=BATCH), full_deck[:num_games])


def test_another_key_gives_other_games(full_deck: Games):
    assert not same(simulate(jax.random.key(12), 500, batch_size=BATCH), full_deck[:500])


def test_every_complete_game_has_a_result(full_deck: Games):
    assert len(full_deck) == 20_000
    won = full_deck.winner >= 0
    at_zero = np.take_along_axis(full_deck.hand_sizes, np.maximum(full_deck.winner, 0)[:, None].astype(int), 1)[:, 0] == 0
    assert (at_zero | full_deck.stalemate)[won].all()
    assert full_deck.stalemate[~won].all()
    # A hand of seven takes seven plays, and somebody else's turn or a skip between any two.
    assert full_deck.num_steps.min() >= 7
    assert (full_deck.num_choices <= full_deck.num_steps).all() and not full_deck.truncated.any()


def test_policies_by_protocol_see_the_game_and_play_as_the_packed_ones(full_deck: Games):
    """The last action, the own hand and the mask are right; the random words are others, the distribution is the same."""
    games = simulate(jax.random.key(2), 1_500, (checking, checking), batch_size=BATCH)
    # Error probability 2e-9 each.
    for name in ("num_steps", "num_choices"):
        a, b = (getattr(g, name).astype(float) for g in (games, full_deck))
        assert abs(a.mean() - b.mean()) < 6 * math.hypot(a.std() / math.sqrt(len(a)), b.std() / math.sqrt(len(b)))


def test_each_player_follows_its_own_policy():
    strong, weak = POLICIES["scarcest-color"], uniform
    first, second = (simulate(jax.random.key(1), 3_000, pair, batch_size=BATCH) for pair in ((strong, weak), (weak, strong)))
    # 66 % against 34 %; the standard error is a point.
    assert (first.winner == 0).mean() > 0.6 and (second.winner == 1).mean() > 0.6


def test_both_policies_are_asked_and_a_second_run_does_not_compile():
    traced: list[str] = []

    def watching(name: str):
        def policy(key: Array, observation: Observation, legal_mask: Array) -> Array:
            traced.append(name)
            return lowest_action(key, observation, legal_mask)

        return policy

    both = watching("a"), watching("b")
    simulate(jax.random.key(0), 40, both, batch_size=16)
    assert set(traced) == {"a", "b"}
    once = len(traced)
    simulate(jax.random.key(1), 60, both, batch_size=16)
    assert len(traced) == once


def test_max_steps_truncates(full_deck: Games):
    games = simulate(jax.random.key(11), 2_000, max_steps=40, batch_size=BATCH)
    whole = full_deck[:2_000]
    long = whole.num_steps > 40
    assert 0.2 < long.mean() < 0.9
    np.testing.assert_array_equal(games.truncated, long)
    np.testing.assert_array_equal(games.num_steps, np.minimum(whole.num_steps, 40))
    np.testing.assert_array_equal(games.winner, np.where(long, -1, whole.winner))
    assert not games.stalemate[long].any()
    by_rules = simulate(jax.random.key(11), 2_000, rules=Rules(max_steps=40), batch_size=BATCH)
    assert same(games, by_rules)


def test_a_finished_prefix_is_in_order_and_complete(full_deck: Games):
    collector = Collector(50)
    whole = full_deck[:50]
    order = np.random.default_rng(0).permutation(50)
    for index in order[:-1]:
        collector.add(Finished(np.array([index]), whole[index : index + 1]))
        missing = sorted(set(range(50)) - set(order[: collector.num_done].tolist()))
        assert same(collector.prefix(), whole[: missing[0]])
    collector.add(Finished(order[-1:], whole[int(order[-1]) : int(order[-1]) + 1]))
    assert same(collector.prefix(), whole)


def test_results_may_stay_on_the_device():
    here, there = (simulate(jax.random.key(6), 300, batch_size=BATCH, max_steps=60, on_device=where) for where in (False, True))
    assert same(here, there) and here.truncated.any() and (here.winner == 1).any()
    for field in fields(Games):
        assert isinstance(getattr(here, field.name), np.ndarray) and isinstance(getattr(there, field.name), Array)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="options are rules, batch_size, max_steps, share, got lanes"):
        simulate(jax.random.key(0), 4, lanes=3)


def test_a_stream_hands_out_each_game_once():
    collector, index = Collector(1_000), []
    for finished in Stream(jax.random.key(6), 1_000, batch_size=BATCH):
        collector.add(finished)
        index.append(finished.index)
    np.testing.assert_array_equal(np.sort(np.concatenate(index)), np.arange(1_000))
    assert same(collector.prefix(), simulate(jax.random.key(6), 1_000, batch_size=BATCH))


@pytest.mark.parametrize("action", [-1, cards.DRAW, cards.NUM_ACTIONS])
def test_an_illegal_policy_is_named(action: int):
    with pytest.raises(ValueError, match="chose an illegal action in game"):
        simulate(jax.random.key(0), 20, (Always(float(action)), uniform), batch_size=20)


@pytest.mark.parametrize(
    "preference",
    [
        pytest.param(lambda view, legal: bits.map_words(lambda w: w & bits.FIRST_COPIES, legal), id="may leave none"),
        pytest.param(lambda view, legal: bits.map_words(lambda w: w | bits.WILDS, legal), id="adds cards not held"),
    ],
)
def test_a_preference_for_what_is_not_legal_is_named(preference: Preference):
    policy = RulePolicy("strange", "plays what it has not", (preference,))
    with pytest.raises(ValueError, match="strange and uniform chose an illegal action in game"):
        simulate(jax.random.key(0), BATCH, (policy, uniform), batch_size=BATCH)


@pytest.mark.parametrize("rules", [Rules(), Rules.official()], ids=["default", "official"])
def test_preferences_of_ones_own_play_as_those_with_a_name(rules: Rules):
    named = POLICIES["wilds-first"]
    assert isinstance(named, RulePolicy)
    own = RulePolicy("own", "the same", named.preferences)
    one, other = (simulate(jax.random.key(1), BATCH, (policy, uniform), rules=rules, batch_size=BATCH) for policy in (named, own))
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_games": 0}, "num_games must be an integer in"),
        ({"num_games": 2**31 + 1}, "num_games must be an integer in"),
        ({"batch_size": 0}, "batch_size must be None or an integer of at least 1"),
        ({"max_steps": 0}, "max_steps must be None or an integer in"),
        ({"policies": (uniform,)}, "policies must be two, names or callables"),
        ({"policies": "uniform"}, "policies must be two, names or callables"),
        ({"policies": (uniform, 3)}, "policies must be two, names or callables"),
        ({"policies": (uniform, "smart")}, "no policy is called 'smart'; choose one of uniform, .*linear.*play_match"),
        ({"policies": (uniform, PolicyAgent("u", uniform))}, r"is an agent: play it with unojax.play_match, or pass its policy"),
        ({"key": jax.random.key(0, impl="rbg")}, "single threefry2x32 key"),
        ({"key": jax.random.split(jax.random.key(0))}, "simulate takes a single key, got shape"),
        ({"key": 3}, "simulate takes a random key such as jax.random.key"),
        ({"rules": "ofical"}, "rules must be a unojax.Rules or one of default, official, house, rlcard, got 'ofical'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        simulate(**({"key": jax.random.key(0), "num_games": 4} | arguments))


def test_rules_may_be_named_and_numbers_be_numpys():
    named = simulate(jax.random.key(0), np.int64(40), rules="rlcard", batch_size=BATCH)
    assert same(named, simulate(jax.random.key(0), 40, rules=Rules.rlcard(), batch_size=BATCH))


def test_policies_may_be_named():
    by_name, by_policy = (
        simulate(jax.random.key(0), 40, pair, batch_size=BATCH) for pair in (("uniform", "uniform"), (uniform, uniform))
    )
    assert same(by_name, by_policy)


def test_the_default_batch_has_at_most_as_many_lanes_as_games_and_is_a_power_of_two():
    for num_games in (1, 2, 3, 100, 12_345, 10**6, 2**31):
        lanes = default_batch_size(num_games)
        assert lanes & (lanes - 1) == 0 and 1 <= lanes < 2 * num_games
    assert default_batch_size(10**9) == default_batch_size(2 * 10**9)


def test_on_a_gpu_few_games_have_a_lane_each_and_many_share_those_that_fill_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unojax.simulation.run.platform", lambda: "gpu")
    assert [default_batch_size(2**n) for n in (10, 18, 19, 21, 22, 30)] == [2**n for n in (10, 18, 18, 18, 19, 20)]


@pytest.mark.parametrize("max_steps", [9, pytest.param(None, marks=pytest.mark.slow)])
def test_counts_are_those_of_the_games(max_steps: int | None) -> None:
    """Added up on the device, and from the rows of the same games: with stalemates, drawn and cut off games."""
    rules = Rules(deck=deck_of(TINY), hand_size=1)
    games = simulate(jax.random.key(3), 3000, rules=rules, batch_size=BATCH, max_steps=max_steps)
    counted = count_games(jax.random.key(3), 3000, rules=rules, batch_size=BATCH, max_steps=max_steps)
    expected = Tally.of(games)
    assert (expected.drawn > 0) and (expected.stalemates > 0) and (expected.truncated > 0) == (max_steps is not None)
    np.testing.assert_array_equal(counted.lengths, expected.lengths)
    for field in fields(Tally):
        if field.name != "lengths":
            assert getattr(counted, field.name) == getattr(expected, field.name), field.name


@pytest.mark.parametrize("kind", [Counting, Stream])
def test_a_run_that_ends_early_finishes_what_is_begun(full_deck: Games, kind: type) -> None:
    run = kind(jax.random.key(11), NUM_GAMES, batch_size=BATCH)
    parts = [next(run)]
    assert BATCH <= run.num_begun < NUM_GAMES
    run.end_at(run.num_begun)
    parts += list(run)
    tallies = [part if isinstance(part, Tally) else Tally.of(part.games) for part in parts]
    total, expected = sum(tallies, Tally()), Tally.of(full_deck[: run.num_games])
    assert (total.wins, total.steps) == (expected.wins, expected.steps)
    np.testing.assert_array_equal(total.lengths, expected.lengths)


def test_shares_are_the_games_of_a_run(full_deck: Games) -> None:
    """In their order, one by one, and as counts."""
    key, parts = jax.random.key(11), 3
    whole = full_deck[:100]
    tallies = []
    for part in range(parts):
        options: Any = {"batch_size": BATCH, "share": (part, parts)}
        mine = simulate(key, 100, **options)
        for field in fields(Games):
            np.testing.assert_array_equal(getattr(mine, field.name), getattr(whole, field.name)[part::parts])
        tallies.append(count_games(key, 100, **options))
        numbers = np.concatenate([finished.index for finished in Stream(key, 100, **options)])
        assert sorted(numbers) == list(range(part, 100, parts))
    total, expected = sum(tallies, Tally()), Tally.of(whole)
    assert total.to_arrays().keys() == {field.name for field in fields(Tally)}
    for name, values in Tally.from_arrays(total.to_arrays()).to_arrays().items():
        np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ((2, 2), r"share must be \(part, parts\) with 0 <= part < parts, got \(2, 2\)"),
        ((0.5, 2), r"share must be \(part, parts\)"),
        ((3, 4), r"share \(3, 4\) has none of 3 games; ask for more games, or for fewer shares"),
    ],
)
def test_shares_that_are_none_are_refused(share: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(jax.random.key(0), 3, share=share)


def test_counting_tells_of_illegal_actions_and_long_games(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="chose an illegal action in"):
        count_games(jax.random.key(0), 10, (Always(99.0), uniform), batch_size=8)
    monkeypatch.setattr("unojax.simulation.run.LONGEST", 20)
    monkeypatch.setattr(harvest, "LONGEST", 20)
    with pytest.raises(ValueError, match="took 20 steps or more, which are too many to count by length"):
        count_games(jax.random.key(0), 10, batch_size=4)


def test_more_games_at_a_time_than_can_be_added_up_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_size must be at most 8388608 where games are counted, got 8388609"):
        count_games(jax.random.key(0), 2**24, batch_size=2**23 + 1)


def test_the_form_for_a_gpu_gives_the_same_games(full_deck: Games) -> None:
    """Finished games come first there, and calls are made ahead. Last in this file, since programs are forgotten."""
    with tuned_for("gpu"):
        assert same(simulate(jax.random.key(11), 300, batch_size=BATCH), full_deck[:300])
