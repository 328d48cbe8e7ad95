"""Summaries of weighted hands against plain counting."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from tests.helpers import counts_of, refusals
from unojax import bits, cards
from unojax.belief import summary
from unojax.belief.hands import Hands
from unojax.text import parse_cards

HANDS = "R5 R5 YS W", "R5 W W W W+4", "G0 B7", "R5 R5 YS W", "Y1 Y2", "W W W W"
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.25, 0.0, 0.15])
ONEHOTS = np.stack([parse_cards(hand) for hand in HANDS])
COUNTS = counts_of(ONEHOTS)


def hands_of(onehots: np.ndarray, weights: np.ndarray) -> Hands:
    with np.errstate(divide="ignore"):
        return Hands(jax.device_get(pack(onehots)), np.log(weights).astype(np.float32))


@pytest.fixture(scope="module")
def belief() -> Hands:
    return hands_of(ONEHOTS, WEIGHTS)


pack = jax.jit(bits.pack)
FUNCTIONS = {
    function: jax.jit(function)
    for function in (
        summary.count_probs,
        summary.expected_counts,
        summary.prob_holds,
        summary.prob_color,
        summary.entropy,
        summary.num_distinct,
    )
}
prob_no_playable = jax.jit(summary.prob_no_playable)


def test_summaries(belief: Hands) -> None:
    of_color = (COUNTS[:, :52].reshape(-1, 4, 13).sum(-1) > 0).T @ WEIGHTS
    distinct = np.array([0.35, 0.2, 0.3, 0.15])
    expected = {
        summary.count_probs: [[WEIGHTS @ (COUNTS[:, t] == j) for j in range(5)] for t in range(54)],
        summary.expected_counts: WEIGHTS @ COUNTS,
        summary.prob_holds: WEIGHTS @ (COUNTS > 0),
        summary.prob_color: of_color,
        summary.entropy: -(distinct * np.log(distinct)).sum(),
        summary.num_distinct: 4,
    }
    for function, value in expected.items():
        np.testing.assert_allclose(FUNCTIONS[function](belief), value, atol=1e-6, err_msg=function.__name__)
    # "G0 B7" is the only hand of positive weight without a wild card.
    for top, stuck in {"R1": 0.3, "Y7": 0.0, "B5": 0.0, "R0": 0.0, "W": 0.3, "W+4": 0.3}.items():
        card_type = cards.TYPE_NAMES.index(top)
        color, rank = max(int(cards.COLOR_OF_TYPE[card_type]), 0), int(cards.RANK_OF_TYPE[card_type])
        assert prob_no_playable(belief, color, rank) == pytest.approx(stuck, abs=1e-6), top
    truth = cards.count_types(ONEHOTS[0])
    probs = np.asarray(FUNCTIONS[summary.count_probs](belief))
    assert summary.log_score(probs, truth) == pytest.approx(sum(math.log(probs[t, truth[t]]) for t in range(54)))


def test_distinct_hands() -> None:
    """Hands that differ in one word are distinct; equal hands are one, with entropy 0."""
    singles = np.stack([parse_cards(name) for name in ("R5", "Y5", "B5", "G5", "G5", "G5")])
    for onehots, number in ((singles, 4), (ONEHOTS[[0] * 6], 1)):
        hands = hands_of(onehots, np.array([0.25, 0.25, 0.25, 0.1, 0.1, 0.05]))
        assert FUNCTIONS[summary.num_distinct](hands) == number
        assert FUNCTIONS[summary.entropy](hands) == pytest.approx(math.log(number), abs=1e-6)


def test_probabilities_stay_below_one() -> None:
    """Equal float32 weights of many particles can sum to more than 1."""
    n = 4096
    packed = tuple(np.broadcast_to(w, n) for w in pack(parse_cards("R5 W W")))
    belief = Hands(packed, np.full(n, -np.log(n), np.float32) + np.float32(1e-5))
    assert np.exp(belief.log_weights).sum() > 1
    probs = np.asarray(jax.jit(summary.count_probs)(belief))
    assert ((probs >= 0) & (probs <= 1)).all()
    assert FUNCTIONS[summary.prob_holds](belief)[cards.WILD_TYPE] == 1 and FUNCTIONS[summary.prob_color](belief)[0] == 1


def test_most_likely_hands(belief: Hands) -> None:
    likely, everything = (summary.most_likely_hands(belief, n) for n in (3, 100))
    np.testing.assert_allclose(likely.probs, [0.35, 0.3, 0.2], atol=1e-6)
    np.testing.assert_array_equal(likely.hands, ONEHOTS[[0, 2, 1]])
    # A hand of weight zero is not among them.
    assert everything.hands.shape == (4, 108) and everything.probs.sum() == pytest.approx(1.0, abs=1e-6)


def test_refusals(belief: Hands) -> None:
    batch = jax.tree.map(lambda x: np.stack([x, x]), belief)
    of_batch = jax.vmap(summary.count_probs)(batch)
    np.testing.assert_allclose(of_batch[1], FUNCTIONS[summary.count_probs](belief), rtol=1e-6)
    refusals(
        {"n ": lambda: summary.most_likely_hands(belief, -2), "unbatched": lambda: summary.most_likely_hands(batch, 2)}
        | {f"the belief ({f.__name__})": lambda f=f: f(batch) for f in FUNCTIONS}
        | {"the belief": lambda: summary.prob_no_playable(batch, 0, 5)}
        | {f"must have weighted hands ({f.__name__})": lambda f=f: f(HANDS) for f in FUNCTIONS}
    )
