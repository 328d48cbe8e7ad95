"""The laws of chance: deals, start cards and draws.

Contract: deal; uniform draws.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter

import jax
import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, assert_distributed, counts_of, deck_of
from unojax import cards, game
from unojax.game import State
from unojax.rules import Rules
from unojax.text import make_state

NUM_SAMPLES = 20_000
ANY = Rules(start_card="any", first_player="random")


@functools.cache
def starts(rules: Rules) -> State:
    """Return new games, State[NUM_SAMPLES]."""
    keys = jax.random.split(jax.random.key(3), NUM_SAMPLES)
    return jax.device_get(jax.jit(jax.vmap(functools.partial(game.init, rules=rules)))(keys))


@pytest.mark.parametrize("rules", [Rules(), ANY], ids=["non_wild", "any"])
def test_a_new_game_is_a_uniform_deal_of_seven_cards_each_and_one_turned_up(rules: Rules):
    """The start card has no effect and no penalty. Hands are uniform over types, wilds included."""
    games = starts(rules)
    total = counts_of(games.hands).sum(1) + counts_of(games.deck) + counts_of(games.pile)
    assert (total == cards.COPIES).all()
    assert (games.hands.sum(-1) == 7).all()
    assert (games.pile.sum(-1) == 1).all()
    top_type = np.where(games.top_rank >= cards.WILD, games.top_rank + 39, games.color * 13 + games.top_rank)
    assert (counts_of(games.pile).argmax(-1) == top_type).all()
    for name, value in {"penalty": 0, "winner": -1, "last_action": -1, "step_count": 0, "error": 0, "rewards": 0}.items():
        assert (getattr(games, name) == value).all()
    assert not (games.terminated | games.truncated).any()
    for player in (0, 1):
        held = counts_of(games.hands[:, player])
        wilds = np.bincount(np.minimum(held[:, 52:].sum(-1), 3), minlength=4)
        law = [math.comb(8, n) * math.comb(100, 7 - n) / math.comb(108, 7) for n in range(3)]
        assert_distributed(wilds, [*law, 1 - sum(law)])
        # Cards of one hand repel each other, so the statistic is smaller than chi-square and a right program fails even less.
        assert_distributed(held.sum(0), cards.COPIES / 108)


def test_start_cards_and_first_players():
    """A wild that is put back is never on top; a wild on top has a uniform colour.

    Player 0 moves first and owes no cards, or a fair coin decides, independent of the colour.
    """
    is_colored = cards.COLOR_OF_TYPE >= 0
    no_wild_draw_four = np.arange(cards.NUM_TYPES) != cards.WILD_DRAW_FOUR_TYPE
    for rules, may_start, wilds in (
        (Rules(), is_colored, ()),
        (ANY, np.ones(cards.NUM_TYPES, bool), (cards.WILD, cards.WILD_DRAW_FOUR)),
        (Rules.rlcard(), no_wild_draw_four, (cards.WILD,)),
    ):
        games, copies = starts(rules), np.where(may_start, cards.COPIES, 0)
        assert_distributed(counts_of(games.pile).sum(0), copies / copies.sum())
        for rank in wilds:
            assert_distributed(np.bincount(games.color[games.top_rank == rank], minlength=4), np.full(4, 1 / 4))
        if rules.first_player == "zero":
            assert (games.current_player[games.top_rank < cards.SKIP] == 0).all()
        else:
            is_wild = games.top_rank >= cards.WILD
            assert_distributed(np.bincount(games.current_player, minlength=2), [1 / 2, 1 / 2])
            both = games.current_player[is_wild] * 4 + games.color[is_wild]
            assert_distributed(np.bincount(both, minlength=8), np.full(8, 1 / 8))
    plain = starts(Rules())
    assert (plain.current_player == 0).all() and (plain.penalty == 0).all()


def draws_of(state: State) -> np.ndarray:
    """Return the cards drawn from one position under many keys, int[NUM_SAMPLES, 54]."""
    keys = jax.random.split(jax.random.key(4), NUM_SAMPLES)
    player = int(state.current_player)
    return counts_of(hands_after_draws(state, keys)[:, player]) - counts_of(state.hands[player])


@jax.jit
def hands_after_draws(state: State, keys: jax.Array) -> jax.Array:
    return jax.vmap(lambda key: game.step(state, cards.DRAW, key).hands)(keys)


TEN = Rules(deck=deck_of("R1 R1 R2 R2 R3 Y+2 W W W+4 W+4"), hand_size=1)


def test_draws_are_uniform_over_physical_cards_and_without_replacement():
    """Also after a reshuffle: P(J) = prod_t C(D_t, J_t) / C(|D|, k), the multivariate hypergeometric law."""
    for mine, theirs, top, penalty, deck, pile in (
        ("R3", "W", "Y+2", 0, "R1 R1 R2 R2 W W+4 W+4", ""),
        ("R3", "W", "Y+2", 2, "R1 R1 R2 R2 W W+4 W+4", ""),
        ("R3", "Y+2", "W+4", 4, "R1 R1 R2 R2 W W W+4", ""),
        ("R3", "W", "Y+2", 0, "", "R1 R1 R2 R2 W W+4 W+4"),
        ("R3", "W", "Y+2", 2, "R1", "R1 R2 R2 W W+4 W+4"),
        ("R3", "Y+2", "W+4", 4, "R1 R2 W", "R1 R2 W W+4"),
    ):
        state = make_state(mine, theirs, top, color="yellow", penalty=penalty, deck=deck, pile=pile, rules=TEN)
        k = max(penalty, 1)
        stock = f"{deck} {pile}".split()
        law = Counter(tuple(sorted(taken)) for taken in itertools.combinations(stock, k))
        seen = Counter(
            tuple(sorted(itertools.chain.from_iterable([cards.TYPE_NAMES[t]] * n for t, n in enumerate(row) if n)))
            for row in draws_of(state).tolist()
        )
        assert set(seen) <= set(law)
        assert_distributed([seen[taken] for taken in law], [n / math.comb(len(stock), k) for n in law.values()])


@pytest.mark.slow
def test_one_card_is_drawn_uniformly_from_the_full_deck():
    """Two red 5 are drawn twice as often as one."""
    start = make_state("G1 G2", "Y1 W W", "B7")
    in_deck = counts_of(np.asarray(start.deck))
    assert_distributed(draws_of(start).sum(0), in_deck / in_deck.sum())


def test_the_statistical_test_notices_a_small_bias():
    """A card drawn one fifth too often in NUM_SAMPLES draws of seven fails."""
    biased = np.full(7, NUM_SAMPLES // 7)
    biased[0] += NUM_SAMPLES // 35
    assert scipy.stats.chisquare(biased, np.full(7, biased.sum() / 7)).pvalue < ERROR_PROBABILITY
