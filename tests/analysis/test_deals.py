"""Deals belong to the games that `simulate` plays, and worths say what they should on data made up for it."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, deck_of
from unojax import cards, simulate
from unojax.analysis import card_worth, deal_hands
from unojax.decks import small_deck
from unojax.rules import Rules

FULL_DECK = np.asarray(cards.COPIES, int)


def test_deals_are_those_of_the_games():
    # With one card each, and no card that lets a player move again, player 0 wins with the first step if and only if its card is
    # playable on the start card.
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


def test_deals_are_hands_of_the_deck():
    hands, top = deal_hands(jax.random.key(0), 20_000)
    assert (hands.sum(2) == 7).all()
    dealt = hands.sum(1) + (np.arange(cards.NUM_TYPES) == top[:, None])
    assert (dealt <= FULL_DECK).all()
    assert top.max() < cards.WILD_TYPE
    # Every type turns up as often as its copies say: chi-squared, over the coloured start cards.
    seen = np.bincount(top, minlength=cards.WILD_TYPE)
    expected = FULL_DECK[: cards.WILD_TYPE] / FULL_DECK[: cards.WILD_TYPE].sum() * len(top)
    assert scipy.stats.chisquare(seen, expected).pvalue > ERROR_PROBABILITY


def test_deals_do_not_depend_on_their_number():
    few, many = deal_hands(jax.random.key(1), 10), deal_hands(jax.random.key(1), 300)
    assert np.array_equal(few.hands, many.hands[:10]) and np.array_equal(few.top, many.top[:10])


def test_rules_go_by_their_names():
    assert np.array_equal(
        deal_hands(jax.random.key(1), 5, rules="house").hands, deal_hands(jax.random.key(1), 5, rules=Rules.house()).hands
    )
    with pytest.raises(ValueError, match="rules must be"):
        deal_hands(jax.random.key(1), 5, rules="homely")


def test_bad_number_of_deals():
    with pytest.raises(ValueError, match=r"num_games must be an integer in \[1, .*got 0"):
        deal_hands(jax.random.key(0), 0)


@pytest.fixture(scope="module")
def hands() -> np.ndarray:
    return deal_hands(jax.random.key(2), 10_000).hands


def test_worth_of_cards_that_decide_a_linear_game(hands: np.ndarray):
    # A wild card adds 3 points in 100 to its holder's chance, and a 9 takes one away; nothing else counts.
    own, theirs = (cards.RANK_OF_TYPE == cards.WILD), (cards.RANK_OF_TYPE == 9)
    chance = 0.5 + 0.03 * (hands[:, 0] @ own) - 0.01 * (hands[:, 0] @ theirs) - 0.05 * (hands[:, 1] @ own)
    worth = card_worth(hands, chance)
    nines = (hands[:, 0] @ theirs).sum() / hands[:, 0, cards.RANK_OF_TYPE < 10].sum()
    # Of the number cards, so many are nines: on average they are below a number card that is none.
    average = -0.01 * nines
    assert worth.own[cards.WILD] == pytest.approx(0.03 - average)
    assert worth.own[9] == pytest.approx(-0.01 - average)
    assert worth.own[3] == pytest.approx(0 - average)
    assert worth.opponent[cards.WILD] == pytest.approx(-0.05)
    assert worth.opponent[9] == pytest.approx(0, abs=1e-9)


def test_errors_of_worths_are_of_the_right_size(hands: np.ndarray):
    # Results by the toss of a coin: 8 times 10 worths, all 0. Their squares in units of the error are chi-squared, about.
    random = np.random.default_rng(3)
    squares = []
    for _ in range(8):
        worth = card_worth(hands, random.integers(0, 2, len(hands)).astype(float))
        numbers = np.r_[10:15, 25:30]
        values = np.concatenate([worth.own, worth.opponent])[numbers]
        squares.append(values @ np.linalg.solve(worth.covariance[np.ix_(numbers, numbers)], values))
        assert worth.estimate(12, opponent=True).standard_error == pytest.approx(np.sqrt(worth.covariance[27, 27]))
    total = sum(squares)
    assert ERROR_PROBABILITY < scipy.stats.chi2.sf(total, 10 * len(squares)) < 1 - ERROR_PROBABILITY


def test_contrast_of_worths(hands: np.ndarray):
    worth = card_worth(hands, np.random.default_rng(4).random(len(hands)))
    weights = np.zeros(30)
    weights[[13, 28]] = 1, -1
    contrast = worth.contrast(weights)
    assert contrast.value == pytest.approx(worth.own[13] - worth.opponent[13])
    cov = worth.covariance
    assert contrast.standard_error == pytest.approx(np.sqrt(cov[13, 13] + cov[28, 28] - 2 * cov[13, 28]))


def test_what_a_deck_lacks_has_no_worth():
    """And changes nothing: with a wild card worth 3 points in 100, that is what is found."""
    rules = Rules(deck=small_deck(ranks=range(10), wilds=2))
    hands = deal_hands(jax.random.key(5), 3000, rules=rules).hands
    worth = card_worth(hands, 0.5 + 0.03 * (hands[:, 0] @ (cards.RANK_OF_TYPE == cards.WILD)))
    assert worth.own[cards.WILD] == pytest.approx(0.03)
    lacks = [cards.SKIP, cards.REVERSE, cards.DRAW_TWO]
    assert np.isnan(worth.own[lacks]).all() and np.isfinite(np.delete(worth.own, lacks)).all()
    weights = np.zeros(30)
    weights[[cards.WILD, cards.WILD_DRAW_FOUR]] = 1, -1
    assert worth.contrast(weights).value == pytest.approx(worth.own[cards.WILD] - worth.own[cards.WILD_DRAW_FOUR])
    with pytest.raises(ValueError, match="from the number cards, and none was dealt"):
        card_worth(np.tile(2 * (np.arange(cards.NUM_TYPES) == cards.WILD_TYPE), (5, 2, 1)), np.zeros(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, p: (h[:, :1], p), "hands must be int"),
        (lambda h, p: (h, p[1:]), "hands must be int"),
        (lambda h, p: (h + np.eye(len(h), 54, dtype=int)[:, None], p), "same size"),
        (lambda h, p: (h[:1], p[:1]), "was never dealt to player 0"),
    ],
)
def test_bad_data(hands: np.ndarray, change, message: str):
    with pytest.raises(ValueError, match=message):
        card_worth(*change(hands[:100], np.zeros(100)))
