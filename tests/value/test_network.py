"""`unojax.value.network`: what must hold whatever the numbers are."""

from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.value.positions import SMALL, observe_all, random_hands, random_network, random_states, says
from unojax import bits
from unojax.belief.hands import Hands
from unojax.game import State
from unojax.value import (
    COLOR_COLUMNS,
    MATCH_COLUMNS,
    SHARED_COLUMNS,
    TYPE_COLUMNS,
    Features,
    Network,
    NetworkConfig,
    Outputs,
    features,
    init_network,
    outlook_of_hands,
    outlook_of_unseen,
)
from unojax.view import view_of

init = jax.jit(init_network, static_argnums=1)
PERMUTATIONS = np.array(list(itertools.permutations(range(4))))
"""Row k: where each colour goes."""


def slots_after(goes_to: np.ndarray) -> np.ndarray:
    """int[108]: the slot that each slot becomes. The wild slots of a block are copy numbers and no colours: they stay."""
    slots = np.arange(108).reshape(4, 27)
    moved = slots.copy()
    moved[:, :25] = slots[goes_to, :25]
    return moved.reshape(-1)


def permuted(onehots, goes_to: np.ndarray) -> np.ndarray:
    result = np.zeros_like(onehots)
    result[..., slots_after(goes_to)] = onehots
    return result


@pytest.fixture(scope="module")
def seen_by_all() -> tuple[Features, Outputs]:
    """Features and outputs of 12 positions under each permutation of the colours: [24, 12, ...]."""
    states: State = random_states(11, 12)
    player = jnp.arange(12) % 2
    hands, weights = random_hands(12, observe_all(states, player), 4)
    onehots = np.asarray(bits.unpack(hands))

    @jax.jit
    def look(states: State, onehots: jax.Array) -> tuple[Features, Outputs]:
        view = view_of(observe_all(states, player))
        made = features(view, outlook_of_hands(view, Hands(bits.pack(onehots), jnp.log(jnp.asarray(weights)))))
        return made, random_network()(made)

    rows = [jax.device_get(look(recolored(states, goes_to), permuted(onehots, goes_to))) for goes_to in PERMUTATIONS]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def recolored(states: State, goes_to: np.ndarray) -> State:
    return states.replace(
        **{name: permuted(getattr(states, name), goes_to) for name in ("hands", "deck", "pile")},
        color=goes_to[states.color].astype(np.int8),
    )


def test_the_value_is_the_same_under_all_permutations_of_the_colours(seen_by_all):
    value = seen_by_all[1].value
    np.testing.assert_allclose(value, np.broadcast_to(value[:1], value.shape), atol=1e-6)
    assert np.ptp(value, axis=1).min() > 0.01, "other positions have other values"


def test_the_features_permute_with_the_colours(seen_by_all):
    made = seen_by_all[0]
    for k, goes_to in enumerate(PERMUTATIONS):
        np.testing.assert_allclose(made.color[k][:, goes_to], made.color[0], atol=1e-6)
        np.testing.assert_allclose(made.shared[k], made.shared[0], atol=1e-6)
        np.testing.assert_allclose(made.matches[k][:, goes_to], made.matches[0], atol=1e-6)


def test_the_policy_permutes_with_the_colours(seen_by_all):
    logits = seen_by_all[1].policy_logits.reshape(24, 12, 4, 15)
    for k, goes_to in enumerate(PERMUTATIONS):
        np.testing.assert_allclose(logits[k][:, goes_to], logits[0], atol=2e-6)
    assert np.abs(logits[0][:, 0] - logits[0][:, 1]).max() > 0.01, "colours differ"


def test_the_belief_permutes_with_the_colours(seen_by_all):
    logits = seen_by_all[1].slot_logits
    for k, goes_to in enumerate(PERMUTATIONS):
        np.testing.assert_allclose(logits[k][:, slots_after(goes_to)], logits[0], atol=2e-6)
    assert np.unique(logits[0, 0]).size == 108, "every slot has an output of its own"


def test_the_active_colour_counts(seen_by_all):
    """Nothing would tell the active colour if all colours were only averaged over."""
    made = seen_by_all[0]
    column = COLOR_COLUMNS.index("active colour")
    assert (made.color[..., column].sum(-1) == 1).all()
    other = made.color.copy()
    other[..., column] = np.roll(other[..., column], 1, axis=-1)
    network = random_network()
    assert np.abs(says(network, made).value - says(network, made._replace(color=other)).value).max() > 0.01


def test_an_untrained_network_gives_even_odds_and_prefers_nothing(seen_by_all):
    outputs = says(init(jax.random.key(0), SMALL), seen_by_all[0])
    for numbers in (outputs.value, outputs.policy_logits, outputs.slot_logits):
        assert not np.asarray(numbers).any()
    np.testing.assert_array_equal(outputs.win_prob, np.full((24, 12), 0.5))


def test_untrained_networks_differ_inside():
    one, other = (init(jax.random.key(seed), SMALL).params["color_in"]["kernel"] for seed in (0, 1))
    assert np.abs(np.asarray(one) - np.asarray(other)).min() > 0


def test_values_win_probabilities_and_logits_say_the_same():
    logits = jnp.array([-4.0, -0.5, 0.0, 1.25, 30.0])
    outputs = Outputs(logits)
    for logit, value, win_prob in zip(logits.tolist(), outputs.value.tolist(), outputs.win_prob.tolist(), strict=True):
        assert win_prob == pytest.approx(1 / (1 + math.exp(-logit)), rel=1e-6)
        assert value == pytest.approx(2 * win_prob - 1, abs=1e-6)
    assert outputs.policy_logits is None and outputs.slot_logits is None


def test_leading_axes_are_a_batch(seen_by_all):
    network = random_network()
    together = says(network, seen_by_all[0])
    alone = says(network, jax.tree.map(lambda leaf: leaf[3, 5], seen_by_all[0]))
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(one, other[3, 5], atol=1e-5)
    assert alone.win_logit.shape == () and alone.policy_logits.shape == (60,) and alone.slot_logits.shape == (108,)


@jax.jit
@jax.grad
def gradient_of(network, made):
    outputs = network(made)
    return outputs.win_logit.sum() + outputs.policy_logits[..., 3].sum() + (outputs.slot_logits**2).sum()


@pytest.mark.parametrize("untrained", [True, False])
def test_gradients_are_finite_and_reach_every_parameter(seen_by_all, untrained: bool):
    network = init(jax.random.key(0), SMALL) if untrained else random_network()
    gradient = gradient_of(network, seen_by_all[0])
    flat = jax.tree.flatten_with_path(gradient.params)[0]
    assert all(np.isfinite(leaf).all() for _, leaf in flat)
    if not untrained:
        assert all(np.asarray(leaf).any() for _, leaf in flat), [path for path, leaf in flat if not np.asarray(leaf).any()]


def test_gradients_are_finite_where_nothing_is_left():
    sizes = (4, len(COLOR_COLUMNS)), (len(SHARED_COLUMNS),), (4, len(MATCH_COLUMNS)), (len(TYPE_COLUMNS),)
    everything_zero = Features(*(jnp.zeros((24, 12, *size)) for size in sizes))
    gradient = gradient_of(random_network(), everything_zero)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_heads_are_there_if_asked_for(seen_by_all):
    made = jax.tree.map(lambda leaf: leaf[0, 0], seen_by_all[0])
    for policy, belief in itertools.product((False, True), repeat=2):
        config = NetworkConfig(width=4, policy_head=policy, belief_head=belief)
        outputs = jax.eval_shape(lambda config=config: init_network(jax.random.key(0), config)(made))
        assert (outputs.policy_logits is not None) == policy and (outputs.slot_logits is not None) == belief


@pytest.mark.parametrize("matches", [False, True])
def test_matches_are_looked_at_if_asked_for(seen_by_all, matches: bool):
    network = random_network(config=NetworkConfig(width=8, matches=matches))
    made = seen_by_all[0]
    without = made._replace(matches=np.zeros_like(made.matches))
    difference = np.abs(says(network, made).value - says(network, without).value).max(0)
    assert (difference > 0.001).any() if matches else not difference.any()


@pytest.mark.parametrize("types", [False, True])
def test_types_are_looked_at_if_asked_for(seen_by_all, types: bool):
    network = random_network(config=NetworkConfig(width=8, types=types))
    made = seen_by_all[0]
    like_the_first = made._replace(types=np.broadcast_to(np.eye(len(TYPE_COLUMNS), dtype=np.float32)[0], made.types.shape))
    difference = np.abs(says(network, made).value - says(network, like_the_first).value).max(0)
    assert (difference > 0.001).any() if types else not difference.any()


def shape_of(config: NetworkConfig) -> Network:
    return jax.eval_shape(lambda: init_network(jax.random.key(0), config))


def test_the_number_of_parameters_is_counted():
    network = shape_of(NetworkConfig(width=8, color_layers=1, trunk_layers=1))
    colored, shared = len(COLOR_COLUMNS), len(SHARED_COLUMNS)
    # Encoder with bias; the shared row in twice, without; the pooled means with bias; the last layer.
    assert network.num_params == (colored * 8 + 8) + 2 * shared * 8 + (16 * 8 + 8) + (8 + 1)
    assert NetworkConfig(width=8, color_layers=3, trunk_layers=2) != network.config
    matching = shape_of(NetworkConfig(width=8, color_layers=1, trunk_layers=1, matches=True))
    assert matching.num_params - network.num_params == len(MATCH_COLUMNS) * 8
    telling = shape_of(NetworkConfig(width=8, color_layers=1, trunk_layers=1, types=True))
    assert telling.num_params - network.num_params == 2 * len(TYPE_COLUMNS) * 8
    deeper = shape_of(NetworkConfig(width=8, color_layers=3, trunk_layers=2))
    assert deeper.num_params - network.num_params == 3 * (8 * 8 + 8)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"width": 0}, {"width": 8.0}, {"color_layers": 0}, {"trunk_layers": -1}, {"trunk_layers": True}),
        *({"width": 10**6}, {"color_layers": 10**7}, {"trunk_layers": 65}),
    ],
    ids=str,
)
def test_a_shape_that_is_none_is_a_value_error(wrong: dict):
    (name, value) = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=rf"{name} must be an integer from 1 to \d+, got {value!r}"):
        NetworkConfig(**wrong)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(NetworkConfig) if field.default is False])
@pytest.mark.parametrize("value", ["yes", -1.5, 1, None])
def test_a_part_is_there_or_not(name: str, value: object):
    with pytest.raises(ValueError, match=f"{name} must be true or false, got {value!r}"):
        NetworkConfig(**{name: value})  # type: ignore[arg-type]  # a wrong type is what is tested


def test_networks_of_one_shape_share_a_compiled_program(seen_by_all):
    made = jax.tree.map(lambda leaf: leaf[0, 0], seen_by_all[0])
    traced = []

    @jax.jit
    def value(network, made):
        traced.append(1)
        return network(made).value

    values = {float(value(random_network(seed), made)) for seed in range(3)}
    assert len(values) == 3 and len(traced) == 1


@pytest.mark.slow
def test_the_unseen_outlook_permutes_too():
    states = random_states(13, 6)
    goes_to = np.array([2, 0, 3, 1])

    @jax.jit
    def value(states: State) -> jax.Array:
        view = view_of(observe_all(states, jnp.zeros(6, jnp.int32)))
        return random_network()(features(view, outlook_of_unseen(view))).value

    np.testing.assert_allclose(value(states), value(recolored(states, goes_to)), atol=1e-5)
