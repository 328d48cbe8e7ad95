"""The exact filter against a filter over complete positions (`oracle`), hand by hand and step by step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.belief import oracle
from tests.belief.oracle import FORFEITING, PASSING, THIN, Record, play_games
from unojax import cards, game
from unojax.belief import exact, opponents
from unojax.belief.exact import ExactBelief, exact_init, exact_update
from unojax.decks import small_deck
from unojax.observation import Observation, observe
from unojax.rules import Rules

NUM_STEPS = 25


def games(rules: Rules) -> Record:
    return play_games(seed=3, num_games=300, num_steps=NUM_STEPS, rules=rules)


def hand_probs(belief: ExactBelief) -> dict[oracle.Hand, float]:
    counts, probs = belief.hands()
    return {tuple(np.repeat(np.arange(54), c).tolist()): float(p) for c, p in zip(counts, probs, strict=True)}


def assert_same(belief: ExactBelief, worlds: oracle.Worlds, tolerance: float = 1e-12) -> None:
    expected = oracle.hand_probs(worlds)
    got = hand_probs(belief)
    for hand in expected.keys() | got.keys():
        assert got.get(hand, 0.0) == pytest.approx(expected.get(hand, 0.0), abs=tolerance), hand


def true_hand(record: Record, player: int, step: int, lane: int) -> np.ndarray:
    return np.asarray(record.states.hands[step, lane, 1 - player])


def choosy_opponent(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Likes colours of which it holds many and high ranks, and spares wild cards: every action tells about the hand."""
    of_color = (cards.counts(observation.hand)[:52]).reshape(4, 13).sum(-1)
    rank = jnp.arange(15)
    likes = (1.0 + rank) * jnp.where(rank >= 13, 0.1, 1.0) * (1 + of_color[:, None])
    likes = jnp.append(likes.reshape(-1), 1.0) * legal_mask
    return likes / likes.sum()


def choosy_policy(hand: oracle.Hand, action: int, legal: list[int]) -> float:
    def likes(a: int) -> float:
        if a == 60:
            return 1.0
        held = sum(1 for t in hand if t < 52 and t // 13 == a // 15)
        return (1 + a % 15) * (0.1 if a % 15 >= 13 else 1.0) * (1 + held)

    return likes(action) / sum(map(likes, legal))


def events(record: Record, player: int) -> dict[str, np.ndarray]:
    """bool[T, G]: where in the games each kind of event occurs, from the true states."""
    s, happened = record.states, record.happened
    deck, pile = s.deck.sum(-1), s.pile.sum(-1)
    plays, draws = (happened >= 0) & (happened < cards.DRAW), happened == cards.DRAW
    owed, ends = s.penalty[:-1] > 0, s.terminated[1:]
    could_not_play = draws & ~owed
    kinds = {
        "play": plays,
        "draw": could_not_play & ~ends,
        "penalty": draws & owed & ~ends,
        "reshuffle": draws & (pile[1:] < pile[:-1]),
        "draw that empties the deck": draws & ~ends & (deck[1:] == 0),
        "impossible draw": draws & ends,
    }
    mine = s.current_player[:-1] == player
    return {f"{name} by {who}": at & by for name, at in kinds.items() for who, by in (("me", mine), ("opponent", ~mine))}


# Each model and each seat once by `make test`, which has Skips that pass in `test_exact_variants.py`.
QUICK = {("uniform", FORFEITING, 1), ("consistent", THIN, 1), ("choosy", FORFEITING, 0)}


@pytest.mark.parametrize(
    ("model", "rules", "player"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in product(("uniform", "consistent", "choosy"), (FORFEITING, PASSING, THIN), (0, 1))
    ],
)
def test_filter_agrees_with_the_oracle(model: str, rules: Rules, player: int) -> None:
    opponent = {"uniform": opponents.uniform_opponent, "consistent": opponents.consistent_opponent, "choosy": choosy_opponent}[
        model
    ]
    policy = {"uniform": oracle.uniform_policy, "consistent": oracle.consistent_policy, "choosy": choosy_policy}[model]
    record = games(rules)
    happened = record.happened
    # A model that is not built in answers in float32.
    tolerance = 1e-5 if model == "choosy" else 1e-9
    lanes = set()
    for name, occurs in events(record, player).items():
        assert occurs.any(), f"no {name} in the games"
        lanes |= set(np.flatnonzero(occurs.any(0))[:2].tolist())
    for lane in lanes:
        before = record.view(player, 0, lane)
        prior = "deal" if lane % 2 else "uniform"
        belief = exact_init(before, prior=prior)
        worlds = oracle.deal(before, sees_start=prior == "deal")
        assert_same(belief, worlds)
        for step in range(NUM_STEPS):
            after = record.view(player, step + 1, lane)
            action = int(happened[step, lane])
            if action == game.NO_ACTION:
                same, log_evidence = exact_update(belief, before, action, after, opponent=opponent)
                assert same is belief
                assert log_evidence == 0.0
                continue
            belief, log_evidence = exact_update(belief, before, action, after, opponent=opponent)
            worlds, evidence = oracle.update(worlds, action, after, policy=policy, rules=rules)
            assert log_evidence == pytest.approx(math.log(evidence), abs=tolerance)
            assert_same(belief, worlds, tolerance)
            assert belief.log_prob(true_hand(record, player, step + 1, lane)) > -math.inf
            before = after


def test_empty_deck_means_certainty() -> None:
    rules = THIN
    record = games(rules)
    found = np.argwhere((record.states.deck.sum(-1) == 0) & ~record.states.terminated)
    assert len(found)
    step, lane = found[0]
    seen = record.view(0, int(step), int(lane))
    belief = exact_init(seen)
    hand = true_hand(record, 0, step, lane)
    assert belief.entropy == 0.0
    assert belief.log_prob(hand) == 0.0
    np.testing.assert_array_equal(belief.expected_counts, seen.unseen)
    np.testing.assert_array_equal(belief.prob_holds, np.asarray(seen.unseen) > 0)


@pytest.mark.slow
def test_fast_paths_equal_the_model_path() -> None:
    """The built-in models are computed without asking them; disguised, they are asked for every hand."""
    record = games(FORFEITING)
    compared = 0
    for model in (opponents.uniform_opponent, opponents.consistent_opponent):

        def disguised(observation, legal_mask, model=model):
            return model(observation, legal_mask)

        for lane in range(4):
            before = record.view(0, 0, lane)
            belief = exact_init(before)
            for step in range(NUM_STEPS):
                after, action = record.view(0, step + 1, lane), int(record.happened[step, lane])
                fast, log_fast = exact_update(belief, before, action, after, opponent=model)
                slow, log_slow = exact_update(belief, before, action, after, opponent=disguised)
                # The models answer in float32.
                np.testing.assert_allclose(fast.probs, slow.probs, rtol=1e-6, atol=1e-12)
                assert log_fast == pytest.approx(log_slow, abs=1e-6)
                compared += int(before.current_player) == 1 and 0 <= action < cards.DRAW
                belief, before = fast, after
    assert compared > 10


def test_a_model_is_compiled_once() -> None:
    traces = 0

    def counting(observation, legal_mask):
        nonlocal traces
        traces += 1
        return opponents.consistent_opponent(observation, legal_mask)

    record = games(FORFEITING)
    asked = 0
    for lane in range(6):
        before = record.view(0, 0, lane)
        belief = exact_init(before)
        for step in range(NUM_STEPS):
            after, action = record.view(0, step + 1, lane), int(record.happened[step, lane])
            belief, _ = exact_update(belief, before, action, after, opponent=counting)
            asked += int(before.current_player) == 1 and 0 <= action < cards.DRAW
            before = after
    assert asked > 10
    assert traces == 1


def test_summaries_against_the_listed_hands() -> None:
    record = games(FORFEITING)
    belief = exact_init(record.view(0, 0, 0))
    counts, probs = belief.hands()
    assert counts.dtype == np.int8
    assert counts.shape == (len(probs), 54)
    assert (counts.sum(-1) == belief.hand_count).all()
    assert probs.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(belief.expected_counts, probs @ counts, atol=1e-12)
    np.testing.assert_allclose(belief.prob_holds, probs @ (counts > 0), atol=1e-12)
    np.testing.assert_allclose(
        belief.count_probs, [[probs @ (counts[:, t] == j) for j in range(5)] for t in range(54)], atol=1e-12
    )
    assert belief.entropy == pytest.approx(-(probs * np.log(probs)).sum())
    for color, rank, top in ((0, 1, 1), (1, 10, 23), (2, cards.WILD, cards.WILD_TYPE)):
        stuck = [oracle.legal_actions(hand, top, color, penalty=0) == [cards.DRAW] for hand in hand_probs(belief)]
        assert belief.prob_no_playable(color, rank) == pytest.approx(probs @ np.array(stuck))
    for c, p in zip(counts, probs, strict=True):
        assert belief.log_prob(c) == pytest.approx(math.log(p))
        assert belief.log_prob(np.asarray(cards.onehot(c))) == pytest.approx(math.log(p))
    assert belief.log_prob(np.zeros(54, int)) == -math.inf
    not_in_the_deck = np.zeros(54, int)
    not_in_the_deck[30] = belief.hand_count
    assert belief.log_prob(not_in_the_deck) == -math.inf
    too_many = np.zeros(54, int)
    too_many[0], too_many[1] = 5, belief.hand_count - 5
    assert belief.log_prob(too_many) == -math.inf


def test_uniform_prior_by_counting_subsets() -> None:
    seen = games(THIN).view(1, 0, 0)
    physical = np.repeat(np.arange(54), np.asarray(seen.unseen)).tolist()
    subsets = Counter(tuple(sorted(hand)) for hand in combinations(physical, int(seen.opponent_count)))
    total = math.comb(len(physical), int(seen.opponent_count))
    got = hand_probs(exact_init(seen))
    assert got.keys() == subsets.keys()
    for hand, ways in subsets.items():
        assert got[hand] == pytest.approx(ways / total, abs=1e-14)


@pytest.mark.slow
def test_deal_prior_against_dealt_games() -> None:
    """What the engine deals follows the "deal" prior, and visibly not the uniform one.

    6 of 10 cards are wild, and each player gets one card. Chi-square over the opponent's card given the observer's
    hand and the start card; the test fails a correct deal with probability 1e-6. The uniform prior is rejected at the
    same level.
    """
    rules = Rules(deck=small_deck(colors=1, ranks=(1, 2), wilds=3), hand_size=1)
    num_deals = 50_000
    states = jax.jit(jax.vmap(lambda key: game.init(key, rules=rules)))(jax.random.split(jax.random.key(5), num_deals))
    seen = jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda s: observe(s, 0)))(states))
    mine, theirs = (cards.TYPE_OF_SLOT[np.asarray(states.hands[:, i]).argmax(-1)] for i in (0, 1))
    top = seen.color * 13 + seen.top_rank
    statistic, degrees, wrong = 0.0, 0, 0.0
    for own, start in sorted(set(zip(mine.tolist(), top.tolist(), strict=True))):
        chosen = np.flatnonzero((mine == own) & (top == start))
        one = jax.tree.map(lambda x, i=chosen[0]: x[i], seen)
        observed = np.bincount(theirs[chosen], minlength=54)
        for prior in ("deal", "uniform"):
            expected = exact_init(one, prior=prior).expected_counts * len(chosen)
            possible = expected > 0
            assert observed[~possible].sum() == 0
            value = float(((observed - expected)[possible] ** 2 / expected[possible]).sum())
            if prior == "deal":
                statistic, degrees = statistic + value, degrees + int(possible.sum()) - 1
            else:
                wrong += value
    threshold = stats.chi2.isf(1e-6, degrees)
    assert statistic < threshold < wrong


def test_bad_input() -> None:
    record = games(FORFEITING)
    before, after = record.view(0, 0, 0), record.view(0, 1, 0)
    action = int(record.happened[0, 0])
    belief = exact_init(before)
    with pytest.raises(ValueError, match=r"entries, at most 5000000"):
        exact_init(replace(before, rules=Rules()))
    for seen in ((replace(before, rules=PASSING), after), (before, replace(after, rules=PASSING))):
        with pytest.raises(ValueError, match="rules differ"):
            exact_update(belief, seen[0], action, seen[1])
    with pytest.raises(ValueError, match="exact_init takes a single observation"):
        exact_init(jax.tree.map(lambda x: x[0], record.observations[0]))
    with pytest.raises(ValueError, match="prior must be one of"):
        exact_init(before, prior="flat")  # type: ignore[arg-type] the bad value is the test
    with pytest.raises(ValueError, match="does not lead from"):
        exact_update(belief, before, (action + 1) % 61, after)
    with pytest.raises(ValueError, match="not one transition apart"):
        exact_update(belief, before, action, replace(after, deck_count=after.deck_count - np.int8(1)))
    with pytest.raises(ValueError, match="does not show the position"):
        exact_update(belief, replace(before, opponent_count=np.int8(4)), action, after)
    with pytest.raises(ValueError, match=r"color must be in \[0, 3\]"):
        belief.prob_no_playable(4, 0)
    with pytest.raises(ValueError, match=r"bool\[108\] or integer counts\[54\]"):
        belief.log_prob(np.zeros(108))
    step, lane = np.argwhere((record.happened < cards.DRAW) & (record.happened >= 0) & (record.states.current_player[:-1] == 1))[
        0
    ]
    before, after = record.view(0, step, lane), record.view(0, step + 1, lane)
    belief = exact_init(before)
    action = int(record.happened[step, lane])
    with pytest.raises(ValueError, match="no hand of the belief explains"):
        exact_update(belief, before, action, after, opponent=lambda o, legal: jnp.zeros(61))
    with pytest.raises(ValueError, match="finite likelihoods"):
        exact_update(belief, before, action, after, opponent=lambda o, legal: -jnp.ones(61))


def test_the_limit_is_the_documented_one() -> None:
    """13 types with two copies and one with one make 3.2 million hands, which is allowed; one more type is too much."""
    assert 3**13 * 2 < exact.MAX_TABLE < 3**14 * 2
