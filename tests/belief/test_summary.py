"""Summaries of a cloud of hands against plain counting, one hand at a time."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import counts_of
from unojax import bits, cards
from unojax.belief import summary
from unojax.belief.hands import Hands
from unojax.text import parse_cards

HANDS = "R5 R5 YS W", "R5 W W W W+4", "G0 B7", "R5 R5 YS W", "Y1 Y2", "W W W W"
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.25, 0.0, 0.15])


@pytest.fixture(scope="module")
def belief() -> Hands:
    onehots = np.stack([parse_cards(hand) for hand in HANDS])
    with np.errstate(divide="ignore"):
        return Hands(bits.pack(onehots), jnp.asarray(np.log(WEIGHTS), jnp.float32))


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return counts_of(np.stack([parse_cards(hand) for hand in HANDS]))


def test_marginals(belief: Hands, counts: np.ndarray) -> None:
    by_count = [[WEIGHTS @ (counts[:, t] == j) for j in range(5)] for t in range(54)]
    np.testing.assert_allclose(jax.jit(summary.count_probs)(belief), by_count, atol=1e-6)
    np.testing.assert_allclose(jax.jit(summary.expected_counts)(belief), WEIGHTS @ counts, atol=1e-6)
    np.testing.assert_allclose(jax.jit(summary.prob_holds)(belief), WEIGHTS @ (counts > 0), atol=1e-6)
    of_color = (counts[:, :52].reshape(-1, 4, 13).sum(-1) > 0).T @ WEIGHTS
    np.testing.assert_allclose(jax.jit(summary.prob_color)(belief), of_color, atol=1e-6)


@pytest.mark.parametrize(
    ("top", "color", "stuck"),
    # "G0 B7" is the only hand of positive weight without a wild card.
    [("R1", 0, 0.3), ("Y7", 1, 0.0), ("B5", 2, 0.0), ("R0", 0, 0.0), ("W", 1, 0.3), ("W+4", 3, 0.0)],
)
def test_prob_no_playable(belief: Hands, top: str, color: int, stuck: float) -> None:
    rank = int(cards.RANK_OF_TYPE[cards.TYPE_NAMES.index(top)])
    assert summary.prob_no_playable(belief, color, rank) == pytest.approx(stuck, abs=1e-6)


def test_distinct_hands_and_entropy(belief: Hands) -> None:
    probs = np.array([0.35, 0.2, 0.3, 0.15])
    assert jax.jit(summary.num_distinct)(belief) == 4
    assert jax.jit(summary.entropy)(belief) == pytest.approx(-(probs * np.log(probs)).sum(), abs=1e-6)
    all_equal = Hands(bits.map_words(lambda w: jnp.broadcast_to(w[0], 6), belief.packed), belief.log_weights)
    assert summary.num_distinct(all_equal) == 1
    assert summary.entropy(all_equal) == pytest.approx(0.0, abs=1e-6)


def test_hands_that_differ_in_a_single_word_are_distinct() -> None:
    names = ["R5", "Y5", "B5", "G5"]
    cloud = Hands(bits.pack(np.stack([parse_cards(name) for name in names])), jnp.full(4, -math.log(4.0)))
    assert summary.num_distinct(cloud) == 4
    assert summary.entropy(cloud) == pytest.approx(math.log(4.0), abs=1e-6)


def test_probabilities_stay_below_one() -> None:
    """Equal float32 weights of many particles may add up to more than 1."""
    n = 4096
    packed = bits.map_words(lambda w: jnp.broadcast_to(w, n), bits.pack(parse_cards("R5 W W")))
    cloud = Hands(packed, jnp.full(n, -np.log(n), jnp.float32) + 1e-5)
    assert jnp.exp(cloud.log_weights).sum() > 1
    probs = np.asarray(summary.count_probs(cloud))
    assert (probs >= 0).all()
    assert (probs <= 1).all()
    assert summary.prob_holds(cloud)[cards.WILD_TYPE] == 1
    assert summary.prob_color(cloud)[0] == 1


def test_most_likely_hands(belief: Hands) -> None:
    likely = summary.most_likely_hands(belief, 3)
    np.testing.assert_allclose(likely.probs, [0.35, 0.3, 0.2], atol=1e-6)
    for hand, expected in zip(likely.hands, (HANDS[0], HANDS[2], HANDS[1]), strict=True):
        np.testing.assert_array_equal(hand, parse_cards(expected))
    # A hand of weight zero is not among them.
    everything = summary.most_likely_hands(belief, 100)
    assert everything.hands.shape == (4, 108)
    assert everything.probs.sum() == pytest.approx(1.0, abs=1e-6)


def test_log_score(belief: Hands) -> None:
    probs = np.asarray(summary.count_probs(belief))
    truth = cards.count_types(parse_cards("R5 R5 YS W"))
    assert summary.log_score(probs, truth) == pytest.approx(sum(math.log(probs[t, truth[t]]) for t in range(54)))


def test_functions_batch(belief: Hands) -> None:
    twice = jax.tree.map(lambda x: jnp.stack([x, x]), belief)
    for function in (summary.count_probs, summary.prob_color, summary.entropy, summary.num_distinct):
        np.testing.assert_allclose(jax.vmap(function)(twice)[1], function(belief), rtol=1e-6)


def test_bad_input(belief: Hands) -> None:
    with pytest.raises(ValueError, match="n must be at least 1, got -2"):
        summary.most_likely_hands(belief, -2)
    batch = jax.tree.map(lambda x: x[None], belief)
    with pytest.raises(ValueError, match="must be unbatched"):
        summary.most_likely_hands(batch, 2)
    for function in (summary.count_probs, summary.expected_counts, summary.prob_color, summary.entropy, summary.num_distinct):
        with pytest.raises(ValueError, match=r"the belief must be a single one, .* map over a batch with jax\.vmap"):
            function(batch)
    with pytest.raises(ValueError, match="the belief must be a single one"):
        summary.prob_no_playable(batch, 0, 5)
