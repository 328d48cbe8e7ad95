"""`unojax.value.network`: properties for all parameters."""

from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest

from tests.helpers import refusals
from tests.value.positions import SMALL, observe_all, pack, random_hands, random_network, random_states, says
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

PERMUTATIONS = np.array(list(itertools.permutations(range(4))))
"""Row k: the new number of each colour."""
NUM = 12


def slots_after(new: np.ndarray) -> np.ndarray:
    """Return the new slot of each slot, int[108]. Wild slots, which are copy numbers, stay."""
    slots = np.arange(108).reshape(4, 27)
    moved = slots.copy()
    moved[:, :25] = slots[new, :25]
    return moved.reshape(-1)


def permuted(onehots, new: np.ndarray) -> np.ndarray:
    result = np.zeros_like(onehots)
    result[..., slots_after(new)] = onehots
    return result


def recolored(states: State, new: np.ndarray) -> State:
    return states.replace(
        **{name: permuted(getattr(states, name), new) for name in ("hands", "deck", "pile")},
        color=new[states.color].astype(np.int8),
    )


@jax.jit
def look(states: State, player: jax.Array, hands: Hands) -> tuple[Features, Features]:
    """Return features by weighted hands, and by the uniform belief."""
    view = view_of(observe_all(states, player))
    return features(view, outlook_of_hands(view, hands)), features(view, outlook_of_unseen(view))


@pytest.fixture(scope="module")
def seen_by_all() -> tuple[Features, Features]:
    """Return features of 12 positions under each permutation of the colours, [24, 12, ...]."""
    states, player = random_states(11, NUM), np.arange(NUM) % 2
    hands, weights = random_hands(12, observe_all(states, player), 4)
    onehots, log_weights = np.asarray(bits.unpack(hands)), np.log(weights)
    rows = [
        jax.device_get(look(recolored(states, new), player, Hands(pack(permuted(onehots, new)), log_weights)))
        for new in PERMUTATIONS
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


@pytest.fixture(scope="module")
def made(seen_by_all) -> Features:
    return seen_by_all[0]


def test_outputs_permute_with_the_colours(seen_by_all, made: Features):
    """The value is invariant; features, policy and belief permute."""
    outputs = jax.device_get(says(random_network(), made))
    for value in (outputs.value, np.asarray(says(random_network(), seen_by_all[1]).value)):
        np.testing.assert_allclose(value, np.broadcast_to(value[:1], value.shape), atol=2e-6)
        assert np.ptp(value, axis=1).min() > 0.01, "other positions have other values"
    logits = outputs.policy_logits.reshape(24, NUM, 4, 15)
    for k, new in enumerate(PERMUTATIONS):
        np.testing.assert_allclose(made.color[k][:, new], made.color[0], atol=1e-6)
        np.testing.assert_allclose(made.shared[k], made.shared[0], atol=1e-6)
        np.testing.assert_allclose(made.matches[k][:, new], made.matches[0], atol=1e-6)
        np.testing.assert_allclose(logits[k][:, new], logits[0], atol=2e-6)
        np.testing.assert_allclose(outputs.slot_logits[k][:, slots_after(new)], outputs.slot_logits[0], atol=2e-6)
    assert np.abs(logits[0][:, 0] - logits[0][:, 1]).max() > 0.01, "colours differ"
    assert np.unique(outputs.slot_logits[0, 0]).size == 108, "every slot has a separate output"


def test_the_active_colour_and_the_optional_inputs_count(made: Features):
    """Pooling alone would lose the active colour. Only networks with matches and types read them."""
    column = COLOR_COLUMNS.index("active colour")
    assert (made.color[..., column].sum(-1) == 1).all()
    color = made.color.copy()
    color[..., column] = np.roll(color[..., column], 1, axis=-1)
    first_type = np.broadcast_to(np.eye(len(TYPE_COLUMNS), dtype=np.float32)[0], made.types.shape)
    changes = {"color": color, "matches": np.zeros_like(made.matches), "types": first_type}
    for config in (NetworkConfig(width=8), NetworkConfig(width=8, matches=True), NetworkConfig(width=8, types=True)):
        network = random_network(config=config)
        for name, changed in changes.items():
            difference = np.abs(says(network, made).value - says(network, made._replace(**{name: changed})).value)
            is_read = name == "color" or getattr(config, name)
            assert (difference.max() > 0.001) if is_read else not difference.any(), (config, name)


def test_a_new_network_gives_even_odds_and_prefers_nothing(made: Features):
    one, other = (jax.jit(init_network, static_argnums=1)(jax.random.key(seed), SMALL) for seed in (0, 1))
    outputs = says(one, made)
    for numbers in (outputs.value, outputs.policy_logits, outputs.slot_logits):
        assert not np.asarray(numbers).any()
    np.testing.assert_array_equal(outputs.win_prob, np.full((24, NUM), 0.5))
    assert np.abs(np.asarray(one.params["color_in"]["kernel"]) - other.params["color_in"]["kernel"]).min() > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient_of(one, made)))


def test_values_win_probabilities_and_logits_agree():
    """Contract: V in [-1, 1] for the observer."""
    outputs = Outputs(np.array([-4.0, -0.5, 0.0, 1.25, 30.0], np.float32))
    for logit, value, win_prob in zip(outputs.win_logit.tolist(), outputs.value.tolist(), outputs.win_prob.tolist(), strict=True):
        assert win_prob == pytest.approx(1 / (1 + math.exp(-logit)), rel=1e-6)
        assert value == pytest.approx(2 * win_prob - 1, abs=1e-6) and -1 <= value <= 1
    assert outputs.policy_logits is None and outputs.slot_logits is None


def test_leading_axes_are_a_batch(made: Features):
    together, alone = says(random_network(), made), says(random_network(), jax.tree.map(lambda leaf: leaf[3, 5], made))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other[3, 5], atol=1e-5), alone, together)
    assert alone.win_logit.shape == () and alone.policy_logits.shape == (60,) and alone.slot_logits.shape == (108,)


@jax.jit
@jax.grad
def gradient_of(network, made):
    outputs = network(made)
    return outputs.win_logit.sum() + outputs.policy_logits[..., 3].sum() + (outputs.slot_logits**2).sum()


def test_gradients_are_finite_and_reach_every_parameter(made: Features):
    flat = jax.tree.flatten_with_path(gradient_of(random_network(), made).params)[0]
    wrong = [path for path, leaf in flat if not (np.isfinite(leaf).all() and np.asarray(leaf).any())]
    assert not wrong
    nothing = gradient_of(random_network(), jax.tree.map(np.zeros_like, made))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(nothing))


def shape_of(**config) -> Network:
    return jax.eval_shape(lambda: init_network(jax.random.key(0), NetworkConfig(**config)))


def test_shapes_follow_the_configuration(made: Features):
    one = jax.tree.map(lambda leaf: leaf[0, 0], made)
    for policy, belief in itertools.product((False, True), repeat=2):
        outputs = jax.eval_shape(lambda network: network(one), shape_of(width=4, policy_head=policy, belief_head=belief))
        assert (outputs.policy_logits is not None) == policy and (outputs.slot_logits is not None) == belief
    small = {"width": 8, "color_layers": 1, "trunk_layers": 1}
    number, shared = shape_of(**small).num_params, len(SHARED_COLUMNS)
    # Encoder with bias; the shared row in twice, without; the pooled means with bias; the last layer.
    assert number == (len(COLOR_COLUMNS) * 8 + 8) + 2 * shared * 8 + (16 * 8 + 8) + (8 + 1)
    for part, more in (("matches", len(MATCH_COLUMNS) * 8), ("types", 2 * len(TYPE_COLUMNS) * 8)):
        assert shape_of(**small, **{part: True}).num_params - number == more
    assert shape_of(width=8, color_layers=3, trunk_layers=2).num_params - number == 3 * (8 * 8 + 8)


def test_networks_of_one_shape_share_a_compiled_program(made: Features):
    traced = []

    @jax.jit
    def value(network, made):
        traced.append(1)
        return network(made).value

    values = {float(value(random_network(seed), jax.tree.map(lambda leaf: leaf[0, 0], made))) for seed in range(3)}
    assert len(values) == 3 and len(traced) == 1


def test_refusals():
    numbers = {"width": (0, 8.0, 10**6), "color_layers": (0, 10**7), "trunk_layers": (-1, True, 65)}
    wrong = [(name, value) for name, values in numbers.items() for value in values]
    parts = [field.name for field in dataclasses.fields(NetworkConfig) if field.default is False]
    wrong += [(name, value) for name in parts for value in ("yes", -1.5, 1, None)]
    wrong += [("rules", rules) for rules in ((), ("mine",), ("default", "official"))]
    wrong += [("discount", 0.0), ("discount", 1.5)]
    refusals({f"{name} ({value!r})": lambda name=name, value=value: NetworkConfig(**{name: value}) for name, value in wrong})
