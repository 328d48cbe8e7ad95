"""A value function in a search: its values of the plays averaged with the results of whole games."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.value.positions import legal_all, observe_all, random_hands, random_states
from unojax import cards, parse_agent
from unojax.arena.fingerprint import describe
from unojax.belief.hands import Hands
from unojax.search.agents import Remembered, SearchAgent, monte_carlo
from unojax.search.monte_carlo import Estimate, average, choose
from unojax.value import NetworkConfig, init_network, load_network, load_pretrained, outlook_of_hands, save_network, value_plays
from unojax.value.agent import ValueAgent
from unojax.view import view_of

NUM = 24
SETTINGS = {"rollouts": 16, "particles": 8, "policy": "uniform", "opponent": "linear", "keep": 0.0}


def row(values: dict[int, float]) -> jax.Array:
    return jnp.zeros((1, cards.DRAW)).at[0, jnp.array(list(values))].set(jnp.array(list(values.values())))


def test_the_average_by_hand():
    estimate = Estimate(
        value=row({3: 0.5, 7: 0.1}),
        gain=row({7: -0.4}),
        value_error=row({3: 0.2, 7: 0.2}),
        gain_error=row({7: 0.1}),
        num_samples=jnp.zeros((1, cards.DRAW), jnp.int32).at[0, 3].set(300).at[0, 7].set(100),
        base=jnp.array([3], jnp.int32),
        win=row({3: 0.75, 7: 0.55}),
        win_error=row({3: 0.1, 7: 0.1}),
    )
    values = jnp.full((1, cards.DRAW), -jnp.inf).at[0, 3].set(-0.3).at[0, 7].set(0.3)
    legal = values > -jnp.inf
    found = average(estimate, values, legal, 100.0)
    # Three quarters of the first play's value are its rollouts', half of the second one's.
    np.testing.assert_allclose(found.value, row({3: 0.75 * 0.5 - 0.25 * 0.3, 7: 0.5 * 0.1 + 0.5 * 0.3}), atol=1e-6)
    np.testing.assert_allclose(found.gain, row({7: 0.5 * -0.4 + 0.5 * 0.6}), atol=1e-6)
    np.testing.assert_allclose(found.value_error, row({3: 0.15, 7: 0.1}), atol=1e-6)
    np.testing.assert_allclose(found.gain_error, row({7: 0.05}), atol=1e-6)
    np.testing.assert_allclose(found.win, row({3: 0.75 * 0.75 + 0.25 * 0.35, 7: 0.5 * 0.55 + 0.5 * 0.65}), atol=1e-6)
    np.testing.assert_allclose(found.win_error, row({3: 0.075, 7: 0.05}), atol=1e-6)
    np.testing.assert_array_equal(found.num_samples, estimate.num_samples)


def test_the_average_where_the_base_is_a_choice_beside_plays():
    """To let a Wild+4 stand or to challenge it, 60 and 61; both sources say that the challenge is better by 0.8."""

    def of_both(values: list[float]) -> jax.Array:
        return jnp.zeros((1, 62)).at[0, 60:].set(jnp.array(values))

    estimate = Estimate(
        value=of_both([-0.4, 0.4]),
        gain=of_both([0.0, 0.8]),
        value_error=of_both([0.05, 0.05]),
        gain_error=of_both([0.0, 0.05]),
        num_samples=of_both([300, 300]).astype(jnp.int32),
        base=jnp.array([60], jnp.int32),
        win=of_both([0.3, 0.7]),
        win_error=of_both([0.025, 0.025]),
    )
    legal = jnp.arange(62)[None] >= 60
    found = average(estimate, jnp.where(legal, of_both([-0.2, 0.6]), -jnp.inf), legal, 100.0)
    np.testing.assert_allclose(found.value, of_both([-0.35, 0.45]), atol=1e-6)
    np.testing.assert_allclose(found.gain, of_both([0.0, 0.8]), atol=1e-6)
    assert int(choose(jax.tree.map(lambda x: x[0], found), legal[0], 1.0)) == 61


def test_a_search_is_another_one_once_its_file_holds_another_network(tmp_path: Path):
    """What is compiled for a search has the numbers of its network in it, and is found by comparing searches."""

    def search_with(seed: int) -> SearchAgent:
        save_network(tmp_path / "mine.safetensors", init_network(jax.random.key(seed), NetworkConfig(width=8)))
        return monte_carlo(**SETTINGS, leaf=str(tmp_path / "mine.safetensors"))

    first, other, again = (search_with(seed) for seed in (1, 2, 1))
    assert first.name == other.name and first != other and describe(first) != describe(other)
    assert first == again and hash(first) == hash(again) and describe(first) == describe(again)


@pytest.fixture(scope="module")
def decisions():
    """Observations, legal masks and weighted hands of positions of random games, [NUM]."""
    states = random_states(0, NUM, deciding=True)
    seen, legal = observe_all(states, states.current_player), legal_all(states)
    packed, weights = random_hands(5, seen, 8)
    return seen, legal, Hands(packed, jnp.log(weights))


@pytest.fixture(scope="module")
def think(decisions):
    seen, legal, hands = decisions
    keys = jax.random.split(jax.random.key(6), NUM)
    memory = Remembered(hands, jnp.zeros(NUM, jnp.int32))

    def think(agent: SearchAgent) -> tuple[Estimate, np.ndarray]:
        estimate, searched = jax.jit(jax.vmap(agent.think))(keys, memory, seen, legal)
        return estimate, np.asarray(searched)

    return think


@pytest.mark.slow
@pytest.mark.long
def test_no_weight_is_no_network(think):
    agents = (monte_carlo(**SETTINGS, leaf=leaf, weight=0.0) for leaf in (None, "pretrained"))
    (plain, legal), (averaged, _) = map(think, agents)
    assert legal.any(1).all()
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), averaged, plain)


@pytest.mark.slow
def test_all_weight_is_the_network_alone(decisions, think):
    seen, _, hands = decisions
    estimate, searched = think(monte_carlo(**SETTINGS, leaf="pretrained", weight=1e9))

    @jax.jit
    def values(seen, hands: Hands, legal: jax.Array) -> jax.Array:
        outlook = outlook_of_hands(view_of(seen), hands)
        return value_plays(load_pretrained(), view_of(seen), outlook, legal)

    of_network = values(seen, hands, jnp.asarray(searched))
    np.testing.assert_allclose(np.asarray(estimate.value)[searched], np.asarray(of_network)[searched], atol=1e-5)
    np.testing.assert_array_equal(np.where(searched, estimate.gain, -np.inf).argmax(1), np.asarray(of_network).argmax(1))


def test_a_leaf_has_the_discount_of_the_search(tmp_path: Path):
    file = tmp_path / "discounted.safetensors"
    save_network(file, init_network(jax.random.key(0), NetworkConfig(width=8, discount=0.9)))
    assert load_network(file).config.discount == 0.9
    search = monte_carlo(leaf=str(file), discount=0.9, **SETTINGS)
    with pytest.raises(ValueError, match="a leaf's discounted values are no win probabilities; leave leaf or discount out"):
        search.judging_wins()
    assert monte_carlo(discount=0.9, **SETTINGS).judging_wins().says_wins and not search.says_wins
    with pytest.raises(
        ValueError, match=r"discount must be that of network .*, whose values have discount=0\.9, got 1\.0; train"
    ):
        monte_carlo(leaf=str(file), **SETTINGS)
    assert parse_agent(f"value:network={file}").name == parse_agent(f"value:network={file},discount=none").name
    assert isinstance(parse_agent(f"value:network={file},discount=0.9"), ValueAgent)
    with pytest.raises(ValueError, match=r"whose values have discount=1, got 0\.9; train one with"):
        parse_agent("value:discount=0.9")
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\], got 2\.0"):
        parse_agent("value:discount=2")
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\], got 0\.0"):
        NetworkConfig(discount=0.0)
