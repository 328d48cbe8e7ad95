"""Deals equal those of `simulate`; card worths on synthetic results; declared colours."""

from __future__ import annotations

from typing import Final

import jax
import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, deck_of, refusals
from unojax import cards, legal_mask, make_state, observe, simulate
from unojax.analysis import card_worth, deal_hands, declare, declaring
from unojax.decks import small_deck
from unojax.policies import RulePolicy
from unojax.rules import Rules
from unojax.text import format_action

PROGRAMS: Final = 70  # deals and games of three rule sets


FULL_DECK = np.asarray(cards.COPIES, int)


def test_deals_are_those_of_the_games() -> None:
    """With one card each, player 0 wins in the first step if and only if its card is playable on the start card."""
    rules = Rules(deck=deck_of("R1 R2 R3 Y1 Y2 Y3 B1 B2 G4 G5 W"), hand_size=1)
    key, num_games = jax.random.key(5), 3000
    games = simulate(key, num_games, rules=rules)
    hands, top = deal_hands(key, num_games, rules=rules)
    assert hands.shape == (num_games, 2, cards.NUM_TYPES)
    own = hands[:, 0].argmax(1)
    color, rank = np.asarray(cards.COLOR_OF_TYPE), np.asarray(cards.RANK_OF_TYPE)
    playable = (color[own] == color[top]) | (rank[own] == rank[top]) | (own >= cards.WILD_TYPE)
    assert np.array_equal(playable, (games.num_steps == 1) & (games.winner == 0))
    assert 0 < playable.mean() < 1
    few = deal_hands(key, 300, rules=rules)
    assert np.array_equal(few.hands, hands[:300]) and np.array_equal(few.top, top[:300])


@pytest.fixture(scope="module")
def hands() -> np.ndarray:
    """Return the hands of 10,000 deals, whose types have the right frequencies (chi-squared)."""
    hands, top = deal_hands(jax.random.key(2), 10_000)
    assert (hands.sum(2) == 7).all() and top.max() < cards.WILD_TYPE
    assert (hands.sum(1) + (np.arange(cards.NUM_TYPES) == top[:, None]) <= FULL_DECK).all()
    colored = FULL_DECK[: cards.WILD_TYPE]
    seen = np.bincount(top, minlength=cards.WILD_TYPE)
    assert scipy.stats.chisquare(seen, colored / colored.sum() * len(top)).pvalue > ERROR_PROBABILITY
    return hands


def test_worth_of_cards_that_decide_a_linear_game(hands: np.ndarray) -> None:
    """A wild card adds 3 points in 100 to its holder's chance, and a 9 subtracts one.

    The reference is the mean number card, and some of those are nines.
    """
    own, theirs = (cards.RANK_OF_TYPE == cards.WILD), (cards.RANK_OF_TYPE == 9)
    chance = 0.5 + 0.03 * (hands[:, 0] @ own) - 0.01 * (hands[:, 0] @ theirs) - 0.05 * (hands[:, 1] @ own)
    worth = card_worth(hands, chance)
    average = -0.01 * (hands[:, 0] @ theirs).sum() / hands[:, 0, cards.RANK_OF_TYPE < 10].sum()
    for rank, value in ((cards.WILD, 0.03), (9, -0.01), (3, 0.0)):
        assert worth.own[rank] == pytest.approx(value - average)
    assert worth.opponent[cards.WILD] == pytest.approx(-0.05)
    assert worth.opponent[9] == pytest.approx(0, abs=1e-9)


def test_errors_of_worths_are_of_the_right_size(hands: np.ndarray) -> None:
    """For coin tosses all worths are 0, and their squared z-scores are chi-squared."""
    random, total = np.random.default_rng(3), 0.0
    for _ in range(8):
        worth = card_worth(hands, random.integers(0, 2, len(hands)).astype(float))
        numbers, cov = np.r_[10:15, 25:30], worth.covariance
        values = np.concatenate([worth.own, worth.opponent])[numbers]
        total += values @ np.linalg.solve(cov[np.ix_(numbers, numbers)], values)
    assert ERROR_PROBABILITY < scipy.stats.chi2.sf(total, 80) < 1 - ERROR_PROBABILITY
    assert worth.estimate(12, opponent=True).standard_error == pytest.approx(np.sqrt(cov[27, 27]))
    weights = np.zeros(30)
    weights[[13, 28]] = 1, -1
    contrast = worth.contrast(weights)
    assert contrast.value == pytest.approx(worth.own[13] - worth.opponent[13])
    assert contrast.standard_error == pytest.approx(np.sqrt(cov[13, 13] + cov[28, 28] - 2 * cov[13, 28]))


def test_types_that_a_deck_lacks_have_no_worth() -> None:
    """The worth of a wild card, 3 points in 100, is still found."""
    hands = deal_hands(jax.random.key(5), 3000, rules=Rules(deck=small_deck(ranks=range(10), wilds=2))).hands
    worth = card_worth(hands, 0.5 + 0.03 * (hands[:, 0] @ (cards.RANK_OF_TYPE == cards.WILD)))
    assert worth.own[cards.WILD] == pytest.approx(0.03)
    lacks = [cards.SKIP, cards.REVERSE, cards.DRAW_TWO]
    assert np.isnan(worth.own[lacks]).all() and np.isfinite(np.delete(worth.own, lacks)).all()
    weights = np.zeros(30)
    weights[[cards.WILD, cards.WILD_DRAW_FOUR]] = 1, -1
    assert worth.contrast(weights).value == pytest.approx(worth.own[cards.WILD] - worth.own[cards.WILD_DRAW_FOUR])


def test_declared_color() -> None:
    """Blue is most held, green is not held, yellow is on the pile, and red is active."""
    state = make_state("W B1 B2 B3 Y1 R2", "G5", "R9", pile="Y3 Y4 Y5 R1 R3", player=0)
    seen, legal = observe(state, 0), legal_mask(state)
    for score, declared in (
        (declaring.held, "W:B"),
        (lambda view: -declaring.held(view), "W:G"),
        (declaring.not_seen, "W:G"),
        (declaring.is_active, "W:R"),
    ):
        policy = RulePolicy("test", "wild cards by score", (declare(score),))
        plays = {format_action(int(action)) for action in np.flatnonzero(policy.action_probs(seen, legal))}
        # The coloured play stays as likely as a declaration.
        assert plays == {declared, "R2"}


def test_refusals(hands: np.ndarray) -> None:
    hands, points = hands[:100], np.zeros(100)
    wilds_alone = np.tile(2 * (np.arange(cards.NUM_TYPES) == cards.WILD_TYPE), (5, 2, 1))
    refusals(
        {
            "num_games": lambda: deal_hands(jax.random.key(0), 0),
            "rules": lambda: deal_hands(jax.random.key(1), 5, rules="homely"),
            "hands": lambda: card_worth(hands[:, :1], points),
            "hands (points)": lambda: card_worth(hands, points[1:]),
            "same size": lambda: card_worth(hands + np.eye(100, 54, dtype=int)[:, None], points),
            "never dealt to player 0": lambda: card_worth(hands[:1], points[:1]),
            "number cards": lambda: card_worth(wilds_alone, np.zeros(5)),
        }
    )
    named = deal_hands(jax.random.key(1), 5, rules="default")
    assert np.array_equal(named.hands, deal_hands(jax.random.key(1), 5).hands)
