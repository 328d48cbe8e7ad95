"""The prior "deal" of all filters: hands right after the deal, against plain Python."""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import combinations

import jax
import numpy as np
import pytest

from tests.helpers import deck_of
from unojax import cards, make_state
from unojax.belief import belief_init, summary
from unojax.belief.bootstrap import bootstrap_init
from unojax.belief.exact import exact_init
from unojax.belief.history import looks_dealt
from unojax.observation import Observation, observe
from unojax.rules import Rules

PROGRAMS = 60  # Beliefs under each kind of start card.

DECK = deck_of("R1 R2 R3 R+2 R+2 W W+4 W+4 W+4")
"""Few cards can be turned up, so that the start card is much evidence."""
NUM_HANDS = 65536
particles, bootstrap = (jax.jit(partial(init, num_particles=NUM_HANDS, prior="deal")) for init in (belief_init, bootstrap_init))
look = jax.jit(summary.count_probs)


START = {"deck": DECK, "hand_size": 2}
COLORED, DRAWN = ("R2 W", "R3 W+4", "R1"), ("R1 R2 W W+4", "R3 W+4", "R+2")
CASES = {
    "coloured start card": (0, COLORED, Rules(**START)),
    "any but Wild+4": (1, COLORED, Rules(start_card="not_draw_four", **START)),
    "two cards drawn by the observer": (0, DRAWN, Rules(start_effects="keep_turn", **START)),
    "two cards drawn by the opponent": (1, DRAWN, Rules(start_effects="keep_turn", **START)),
}
"""Positions right after the deal, from one seat; player 0 has drawn two cards for a +2."""


def hands_behind(seen: Observation) -> dict[tuple[int, ...], float]:
    """Return P(hand of the opponent) over all deals: both hands, the start card, and draws for it.

    Cards of one type are distinguished, so that all deals are equally likely.
    """
    rules, top = seen.rules, int(seen.top_type)
    deck = [t for t, number in enumerate(rules.deck) for _ in range(number)]
    own, num_drawn = cards.count_types(seen.hand), int(seen.hand_count + seen.opponent_count) - 2 * rules.hand_size
    startable = range(cards.WILD_TYPE if rules.start_card == "non_wild" else cards.WILD_DRAW_FOUR_TYPE)
    weights: dict[tuple[int, ...], float] = {}
    for other in combinations(range(len(deck)), rules.hand_size):
        for first in combinations([i for i in range(len(deck)) if i not in other], rules.hand_size):
            rest = [i for i in range(len(deck)) if i not in other + first]
            chance = 1 / max(sum(deck[i] in startable for i in rest), 1)
            for start in (i for i in rest if deck[i] == top):
                for drawn in combinations([i for i in rest if i != start], num_drawn):
                    hands = [np.bincount([deck[i] for i in hand], minlength=54) for hand in (first + drawn, other)]
                    if (hands[int(seen.player)] == own).all():
                        hidden = tuple(hands[1 - int(seen.player)].tolist())
                        weights[hidden] = weights.get(hidden, 0.0) + chance
    total = sum(weights.values())
    return {hand: weight / total for hand, weight in weights.items()}


@pytest.mark.parametrize("case", CASES)
def test_beliefs_know_the_deal(case: str) -> None:
    """Standard deviation of a share of 65,536 hands: below 0.002, weighted below 0.004.

    Later in the game, all filters start from the prior "uniform", uniform over the subsets of the unseen cards.
    """
    seat, (*hands, top), rules = CASES[case]
    seen = jax.device_get(observe(make_state(*hands, top, rules=rules), seat))
    assert looks_dealt(seen)
    ways = hands_behind(seen)
    expected = np.sum([[weight * (np.array(hand) == j) for j in range(5)] for hand, weight in ways.items()], axis=0).T
    exact, uniform = (exact_init(seen, prior=prior).count_probs for prior in ("deal", "uniform"))
    np.testing.assert_allclose(exact, expected, atol=1e-12)
    assert np.abs(uniform - expected).max() > 0.03
    subsets = combinations(np.repeat(np.arange(54), seen.unseen).tolist(), int(seen.opponent_count))
    held = np.array([np.bincount(subset, minlength=54) for subset in subsets])
    np.testing.assert_allclose(uniform, (held[..., None] == np.arange(5)).mean(0), atol=1e-12)
    later = dataclasses.replace(seen, last_action=np.int8(1))
    assert not looks_dealt(later)
    np.testing.assert_array_equal(exact_init(later, prior="deal").count_probs, uniform)
    for begin in (particles, bootstrap):
        for view, probs in ((seen, expected), (later, uniform)):
            found = begin(view, jax.random.key(1))
            np.testing.assert_allclose(look(found), probs, atol=0.015)
            assert view is seen or np.ptp(np.asarray(found.log_weights)) == 0


def test_in_mid_game_nobody_has_drawn_for_the_start_card() -> None:
    """Hands are smaller than those dealt, so the rules for the start card have no effect."""
    rules = [Rules(start_effects=effects, **START) for effects in ("none", "keep_turn")]
    plain, drawn = (exact_init(observe(make_state("R1", "R3", "R2", rules=one), 0), prior="deal") for one in rules)
    np.testing.assert_array_equal(plain.expected_counts, drawn.expected_counts)
