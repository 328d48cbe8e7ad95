"""A value function in a search, averaged with rollouts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.helpers import refusals
from tests.value.positions import legal_all, observe_all, random_hands, random_network, random_states
from unojax import cards, parse_agent
from unojax.arena.fingerprint import describe
from unojax.belief.hands import Hands
from unojax.search.agents import Remembered, SearchAgent, monte_carlo
from unojax.search.monte_carlo import Estimate, average, choose
from unojax.value import NetworkConfig, load_network, load_pretrained, outlook_of_hands, save_network, value_plays
from unojax.value.agent import ValueAgent
from unojax.view import view_of

NUM = 24
SETTINGS = {"rollouts": 16, "particles": 8, "policy": "uniform", "opponent": "linear", "keep": 0.0}
jitted_average = jax.jit(average)


def row(values: dict[int, float], size: int = cards.DRAW) -> np.ndarray:
    made = np.zeros((1, size), np.float32)
    made[0, list(values)] = list(values.values())
    return made


def test_averages_by_hand():
    estimate = Estimate(
        value=row({3: 0.5, 7: 0.1}),
        gain=row({7: -0.4}),
        value_error=row({3: 0.2, 7: 0.2}),
        gain_error=row({7: 0.1}),
        num_samples=row({3: 300, 7: 100}).astype(np.int32),
        base=np.array([3], np.int32),
        win=row({3: 0.75, 7: 0.55}),
        win_error=row({3: 0.1, 7: 0.1}),
    )
    legal = row({3: 1, 7: 1}) > 0
    found = jitted_average(estimate, np.where(legal, row({3: -0.3, 7: 0.3}), -np.inf), legal, 100.0)
    # Rollouts have three quarters of the weight for the first play, and half of it for the second one.
    expected = estimate._replace(
        value=row({3: 0.75 * 0.5 - 0.25 * 0.3, 7: 0.5 * 0.1 + 0.5 * 0.3}),
        gain=row({7: 0.5 * -0.4 + 0.5 * 0.6}),
        value_error=row({3: 0.15, 7: 0.1}),
        gain_error=row({7: 0.05}),
        win=row({3: 0.75 * 0.75 + 0.25 * 0.35, 7: 0.5 * 0.55 + 0.5 * 0.65}),
        win_error=row({3: 0.075, 7: 0.05}),
    )
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), found, expected)

    # The base is a choice besides plays: a Wild+4 is accepted or challenged, 60 and 61; both sources prefer the challenge by 0.8.
    def both(accepted: float, challenged: float) -> np.ndarray:
        return row({60: accepted, 61: challenged}, 62)

    estimate = Estimate(
        value=both(-0.4, 0.4),
        gain=both(0.0, 0.8),
        value_error=both(0.05, 0.05),
        gain_error=both(0.0, 0.05),
        num_samples=both(300, 300).astype(np.int32),
        base=np.array([60], np.int32),
        win=both(0.3, 0.7),
        win_error=both(0.025, 0.025),
    )
    legal = both(1, 1) > 0
    found = jitted_average(estimate, np.where(legal, both(-0.2, 0.6), -np.inf), legal, 100.0)
    np.testing.assert_allclose(found.value, both(-0.35, 0.45), atol=1e-6)
    np.testing.assert_allclose(found.gain, both(0.0, 0.8), atol=1e-6)
    assert int(jax.jit(choose)(jax.tree.map(lambda x: np.asarray(x)[0], found), legal[0], 1.0)) == 61


def test_searches_are_equal_if_their_networks_are(tmp_path: Path):
    """Comparing searches finds a compiled search, which contains its network."""

    def search_with(seed: int) -> SearchAgent:
        save_network(tmp_path / "mine.safetensors", random_network(seed, NetworkConfig(width=8)))
        return monte_carlo(**SETTINGS, leaf=str(tmp_path / "mine.safetensors"))

    first, other, again = (search_with(seed) for seed in (1, 2, 1))
    assert first.name == other.name and first != other and describe(first) != describe(other)
    assert first == again and hash(first) == hash(again) and describe(first) == describe(again)


@pytest.mark.slow
def test_the_weight_decides_between_rollouts_and_network():
    """A large weight leaves the network alone, weight 0 the rollouts."""
    states = random_states(0, NUM, deciding=True)
    seen, legal = observe_all(states, states.current_player), legal_all(states)
    packed, weights = random_hands(5, seen, 8)
    hands, keys = Hands(packed, np.log(weights)), jax.random.split(jax.random.key(6), NUM)

    def think(agent: SearchAgent) -> tuple[Estimate, np.ndarray]:
        memory = Remembered(hands, np.zeros(NUM, np.int32))
        return jax.device_get(jax.jit(jax.vmap(agent.think))(keys, memory, seen, legal))

    @jax.jit
    def values(seen, hands: Hands, legal: jax.Array) -> jax.Array:
        return value_plays(load_pretrained(), view_of(seen), outlook_of_hands(view_of(seen), hands), legal)

    estimate, searched = think(monte_carlo(**SETTINGS, leaf="pretrained", weight=1e9))
    of_network = np.asarray(values(seen, hands, searched))
    np.testing.assert_allclose(estimate.value[searched], of_network[searched], atol=1e-5)
    np.testing.assert_array_equal(np.where(searched, estimate.gain, -np.inf).argmax(1), of_network.argmax(1))
    plain, averaged = (think(monte_carlo(**SETTINGS, leaf=leaf, weight=0.0))[0] for leaf in (None, "pretrained"))
    assert searched.any(1).all()
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), averaged, plain)


def test_a_leaf_has_the_discount_of_the_search(tmp_path: Path):
    """Contract: gamma is configurable, and a network's values have it."""
    file = tmp_path / "discounted.safetensors"
    save_network(file, random_network(config=NetworkConfig(width=8, discount=0.9)))
    assert load_network(file).config.discount == 0.9
    search = monte_carlo(leaf=str(file), discount=0.9, **SETTINGS)
    assert monte_carlo(discount=0.9, **SETTINGS).judging_wins().says_wins and not search.says_wins
    assert parse_agent(f"value:network={file}").name == parse_agent(f"value:network={file},discount=none").name
    assert isinstance(parse_agent(f"value:network={file},discount=0.9"), ValueAgent)
    refusals(
        {
            "leaf": search.judging_wins,
            "discount=0.9": lambda: monte_carlo(leaf=str(file), **SETTINGS),
            "discount=1": lambda: parse_agent("value:discount=0.9"),
            "discount (above 1)": lambda: parse_agent("value:discount=2"),
        }
    )
