"""The POMDP's functions against all next states of every action by the oracle, and against sampled steps.

Contract: transition_log_prob, observation_log_prob, reward; uniform draws.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections import Counter
from math import comb, log
from typing import NamedTuple

import jax
import numpy as np
import pytest

from tests import corpus
from tests.helpers import deck_of, refusals, slow_but
from tests.oracle import game as oracle
from tests.oracle.chain import successors
from tests.oracle.positions import from_oracle, multiset, onehot, random_game, random_position, to_oracle
from unojax import cards, game, pomdp, text
from unojax.decks import small_deck
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules

RULES = {
    "all effects": Rules(deck=small_deck(colors=2, ranks=(0, 1, 10, 12), wilds=1), hand_size=2, step_penalty=0.25),
    "truncated": Rules(deck=small_deck(colors=3, ranks=(0, 11), wilds=1), hand_size=2, max_steps=6, skip_forfeits=False),
    "official": Rules.official(deck=deck_of("R1 R1 RS R+2 Y1 Y2 YR B1 B+2 W W+4 W+4"), hand_size=2),
    "house": Rules.house(deck=deck_of("R1 R1 R+2 R+2 Y1 Y2 Y+2 B1 BS W W+4"), hand_size=2),
    "rlcard": Rules.rlcard(deck=deck_of("R1 R1 RS R+2 Y1 Y2 Y+2 B1 W W W+4"), hand_size=2),
}
ROWS_PER_CALL = 4096
MARKOV_FIELDS = (
    *("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty", "drawn", "contested"),
    *("terminated", "truncated", "winner"),
)


@jax.jit
@jax.vmap
def evaluate(state: State, action: jax.Array, next_state: State) -> tuple[jax.Array, jax.Array]:
    """Return log T and R of a batch of rows."""
    return pomdp.transition_log_prob(state, action, next_state), pomdp.reward(state, action, next_state)


def stack(states: list[State]) -> State:
    names = [name for name in State.__dataclass_fields__ if name != "rules"]
    return states[0].replace(**{name: np.stack([getattr(state, name) for state in states]) for name in names})


def log_probs_and_rewards(rows: list[tuple[State, int, State]]) -> tuple[np.ndarray, np.ndarray]:
    """Return `evaluate` of any number of host rows, in calls of one shape: float32[N], float32[N, 2]."""
    columns = stack([row[0] for row in rows]), np.array([row[1] for row in rows], np.int32), stack([row[2] for row in rows])
    results = []
    for begin in range(0, len(rows), ROWS_PER_CALL):
        take = np.minimum(np.arange(begin, begin + ROWS_PER_CALL), len(rows) - 1)
        results.append(jax.device_get(evaluate(*jax.tree.map(lambda x, take=take: x[take], columns))))
    log_prob, reward = (np.concatenate(parts)[: len(rows)] for parts in zip(*results, strict=True))
    return log_prob, reward


def markov_key(state: State, rules: Rules) -> bytes:
    names = MARKOV_FIELDS if rules.max_steps is None else (*MARKOV_FIELDS, "step_count")
    return b"".join(np.asarray(getattr(state, name)).tobytes() for name in names)


class Enumerated(NamedTuple):
    """Some states of random games with all their legal actions and all next states.

    Attributes:
        rows: State, action, next state.
        probs: Probability of each row, float64[N].
        rewards: Reward of each row, float32[N, 2].
        group: Number of the state and action of a row, int[N].
        draws: Frequency of each kind of draw.
    """

    rows: list[tuple[State, int, State]]
    probs: np.ndarray
    rewards: np.ndarray
    group: np.ndarray
    draws: Counter[str]


@functools.cache
def enumerated(name: str) -> Enumerated:
    rules, rng = RULES[name], random.Random(1)
    rows, probs, group, draws, number = [], [], [], Counter(), 0
    while len(rows) < ROWS_PER_CALL:
        for told in random_game(rules, rng):
            state = from_oracle(told, rules)
            for action in (0, oracle.DRAW) if told.is_over else sorted(told.legal_actions()):
                for after, prob in successors(told, action):
                    rows.append((state, action, from_oracle(after, rules)))
                    probs.append(prob)
                    group.append(number)
                    draws += after.events
                number += 1
    return Enumerated(rows, np.array(probs), np.array([after.rewards for _, _, after in rows]), np.array(group), draws)


@pytest.mark.parametrize("name", slow_but(["all effects", "rlcard"], RULES))
def test_every_next_state_has_its_probability_and_no_other_state_can_follow(name: str):
    """All successors, and some pairs of other states, which are impossible."""
    rules, told = RULES[name], enumerated(name)
    log_prob, reward = log_probs_and_rewards(told.rows)
    np.testing.assert_allclose(log_prob, np.log(told.probs), atol=1e-6)
    np.testing.assert_allclose(np.bincount(told.group, np.exp(log_prob)), 1, atol=1e-5)
    assert told.group.max() > 300
    np.testing.assert_allclose(reward, told.rewards, atol=1e-6)

    rng = np.random.default_rng(3)
    some = (rng.choice(len(told.rows) - 10, 6)[:, None] + np.arange(10)).ravel()
    possible = {(markov_key(s, rules), a, markov_key(t, rules)) for s, a, t in told.rows}
    rows = [(told.rows[i][0], told.rows[i][1], told.rows[j][2]) for i in some for j in some]
    is_possible = np.array([(markov_key(s, rules), a, markov_key(t, rules)) in possible for s, a, t in rows])
    log_prob, _ = log_probs_and_rewards(rows)
    assert 0 < is_possible.sum() < len(rows) / 2
    np.testing.assert_array_equal(np.isfinite(log_prob), is_possible)
    assert np.isneginf(log_prob[~is_possible]).all()


def test_the_enumeration_visits_every_corner_of_the_draws():
    seen = enumerated("all effects").draws + enumerated("truncated").draws
    expected = {
        "truncated",
        *(f"drew {due}" for due in (1, 2, 4)),
        *(f"reshuffled for {due} with {left} left" for due in (1, 2, 4) for left in range(due)),
        *(f"{how} as {due} could not be drawn" for how in ("won", "lost", "tied") for due in (1, 2, 4)),
    }
    assert expected - set(seen) == set()


@pytest.mark.parametrize("name", slow_but(["all effects", "rlcard"], RULES))
def test_each_field_of_the_markov_state_counts_and_the_record_does_not(name: str):
    rules, told = RULES[name], enumerated(name)
    rng = np.random.default_rng(4)
    rows, expected = [], []
    for index in rng.choice(len(told.rows), 100):
        state, action, after = told.rows[index]
        flipped = np.arange(108) == rng.integers(108)
        altered = {
            "hands": after.hands ^ np.stack([flipped, flipped & False])[:: rng.choice([-1, 1])],
            "deck": after.deck ^ flipped,
            "pile": after.pile ^ flipped,
            "top_rank": after.top_rank ^ 1,
            "color": after.color ^ 2,
            "current_player": after.current_player ^ 1,
            "penalty": after.penalty ^ 2,
            "drawn": after.drawn ^ 1,
            "contested": after.contested ^ 1,
            "terminated": ~after.terminated,
            "truncated": ~after.truncated,
            "winner": after.winner + 1,
        }
        assert set(altered) == set(MARKOV_FIELDS)
        if rules.play_drawn == "auto" and action == oracle.DRAW and after.top_rank >= cards.WILD:
            # Laid at once, in a colour that chance gave it.
            del altered["color"]
        rows += [(state, action, after.replace(**{field: value})) for field, value in altered.items()]
        expected += [-np.inf] * len(altered)
        record = {"rewards": after.rewards + 1, "error": after.error ^ 1, "last_action": after.last_action + 1}
        rows.append((state, action, after.replace(**record)))
        rows.append((state, action, after.replace(step_count=after.step_count + 1)))
        expected += [log(told.probs[index]), log(told.probs[index]) if rules.max_steps is None else -np.inf]
    log_prob, _ = log_probs_and_rewards(rows)
    np.testing.assert_allclose(log_prob, expected, atol=1e-6)


@pytest.mark.parametrize("name", slow_but(["all effects", "rlcard"], RULES))
def test_an_illegal_action_and_a_finished_game_change_nothing(name: str):
    rules, told = RULES[name], enumerated(name)
    rng = np.random.default_rng(5)
    rows, is_unchanged = [], []
    for index in rng.choice(len(told.rows), 40):
        state, _, after = told.rows[index]
        known = to_oracle(state, rules)
        for action in {*range(-2, 64)} - (set() if known.is_over else known.legal_actions()):
            rows += [(state, action, state), (state, action, after)]
            is_unchanged += [True, markov_key(state, rules) == markov_key(after, rules)]
    log_prob, reward = log_probs_and_rewards(rows)
    np.testing.assert_array_equal(log_prob, np.where(is_unchanged, 0, -np.inf))
    np.testing.assert_array_equal(reward, 0)
    assert not all(is_unchanged)


def test_a_card_can_only_be_drawn_from_the_deck():
    """The deck is right in each case, but cards went elsewhere."""
    rules = RULES["all effects"]
    state = jax.device_get(text.make_state("R1", "Y1", "R+2", pile="RS", penalty=2, rules=rules))
    drawn = from_oracle(next(successors(to_oracle(state, rules), cards.DRAW))[0], rules)
    gained = drawn.hands[0] & ~state.hands[0]
    to_other_hand = drawn.replace(hands=np.stack([state.hands[0], onehot(multiset(state.hands[1]) + multiset(gained))]))
    to_pile = drawn.replace(hands=state.hands, pile=onehot(multiset(state.pile) + multiset(gained)))
    vanished = drawn.replace(hands=state.hands)
    # The deck is kept, and the opponent's card or the pile's goes to the mover instead.
    robbed = state.replace(hands=np.stack([onehot(Counter(["R1", "Y1"])), np.zeros(108, bool)]), penalty=np.int8(0))
    from_pile = drawn.replace(deck=state.deck, hands=np.stack([onehot(Counter(["R1", "RS", "RS"])), state.hands[1]]))
    after = [drawn, to_other_hand, to_pile, vanished, robbed.replace(current_player=np.int8(1)), from_pile, state]
    log_prob, _ = log_probs_and_rewards([(state, cards.DRAW, s) for s in after])
    assert np.isfinite(log_prob).tolist() == [True] + [False] * 6


def test_known_probabilities_of_draws():
    """Four cards of 100; and no draw without a deck, though choosing from an empty set ends at the last Wild+4."""
    top = {"top": "W+4", "color": "green", "pile": "Y9", "player": 1}
    state = text.make_state("R7 R8 R9", "G1 G2 W", **top, penalty=4)
    ways = {"R5 R5 W W": 1 * 3, "R5 B1 B1 G7": 2 * 1 * 2, "R5 Y3 B0 W+4": 2 * 2 * 1 * 3, "W W W Y9": 1 * 1}
    rows = [(state, 60, text.make_state("R7 R8 R9", f"G1 G2 W {gained}", **top | {"player": 0})) for gained in ways]
    before = text.make_state("R5", "W+4 W+4 W+4 W+4", "Y1")
    rows.append((before, 60, text.make_state("R5", "W+4 W+4 W+4", "Y1", pile="W+4", player=1)))
    log_prob, _ = log_probs_and_rewards(jax.device_get(rows))
    np.testing.assert_allclose(log_prob, [*(log(n / comb(100, 4)) for n in ways.values()), -np.inf], atol=1e-6)


def test_a_wild_laid_at_once_has_one_of_four_colours():
    """Two of three cards left are wild; the drawn one is played in any colour."""
    rules = Rules(deck=deck_of("R7 B3 G1 G2 W W"), hand_size=1, play_drawn="auto")
    state = jax.device_get(text.make_state("B3", "G1", "R7", rules=rules))
    following = jax.device_get(draw_many(state, jax.random.split(jax.random.key(0), 24)))
    rows = [(state, cards.DRAW, jax.tree.map(lambda x, i=i: x[i], following)) for i in range(24)]
    log_prob, _ = log_probs_and_rewards(rows)
    is_wild = following.top_rank == cards.WILD
    assert set(following.color.tolist()) == {0, 1, 2, 3} and not is_wild.all()
    np.testing.assert_allclose(log_prob, np.where(is_wild, log(2 / 3 / 4), log(1 / 3)), atol=1e-6)


@jax.jit
def draw_many(state: State, keys: jax.Array) -> State:
    return jax.vmap(lambda key: game.step(state, cards.DRAW, key))(keys)


def test_every_step_of_the_corpus_is_possible_and_pays_its_rewards():
    """Some actions are illegal or out of range."""
    games = corpus.games("default")
    before, following = (jax.tree.map(lambda x, t=t: x[:32, t : t + 128], games.states) for t in (0, 1))
    actions = games.actions[:32, :128]
    log_prob, reward = jax.device_get(jax.jit(jax.vmap(evaluate))(before, actions, following))
    assert np.isfinite(log_prob).all()
    draws = following.hands.sum((2, 3)) > before.hands.sum((2, 3))
    np.testing.assert_array_equal(log_prob[~draws], 0)
    assert (log_prob[draws] < 0).any()
    np.testing.assert_array_equal(reward, following.rewards)
    assert set(np.unique(reward)) == {-1, 0, 1}
    assert (actions < 0).any() and (actions > 60).any()


@pytest.mark.slow
def test_without_a_batch_and_without_jit_the_numbers_are_the_same():
    told = enumerated("all effects")
    rows = [told.rows[i] for i in np.random.default_rng(7).choice(len(told.rows), 3)]
    rows.append((rows[0][0], rows[0][1], rows[1][2]))
    log_probs, rewards = log_probs_and_rewards(rows)
    jitted = jax.jit(pomdp.transition_log_prob)
    assert [float(jitted(*row)) for row in rows] == log_probs.tolist()
    assert pomdp.transition_log_prob(*rows[0]) == log_probs[0]
    np.testing.assert_array_equal(pomdp.reward(*rows[0]), rewards[0])


@jax.jit
def all_pairs(states: State) -> jax.Array:
    """Return log O(the view of a player in state i | state j), float32[2, N, N]."""

    def pair(player: jax.Array, seen: State, state: State) -> jax.Array:
        return pomdp.observation_log_prob(observe(seen, player), state)

    over_states = jax.vmap(pair, (None, None, 0))
    return jax.vmap(jax.vmap(over_states, (None, 0, None)), (0, None, None))(np.arange(2), states, states)


def test_an_observation_belongs_to_the_states_that_look_like_it():
    """Each random state and its copy with a hidden card swapped look alike to one player only."""
    rules = RULES["all effects"]
    some = [from_oracle(random_position(rules, random.Random(seed)), rules) for seed in range(50)]
    for state in list(some):
        for player in (0, 1):
            hand, deck = multiset(state.hands[player]), multiset(state.deck)
            mine, theirs = next(iter(hand), None), next(iter(deck), None)
            if mine is None or theirs is None:
                continue
            hands = state.hands.copy()
            hands[player] = onehot(hand - Counter([mine]) + Counter([theirs]))
            some.append(state.replace(hands=hands, deck=onehot(deck - Counter([theirs]) + Counter([mine]))))
    log_prob = np.asarray(all_pairs(stack(some)))

    def view(state: State, player: int) -> bytes:
        public = ("pile", "top_rank", "color", "current_player", "penalty", "last_action", "terminated")
        parts = [state.hands[player], state.hands[1 - player].sum(), state.deck.sum(), *(getattr(state, name) for name in public)]
        return b"".join(np.asarray(part).tobytes() for part in parts)

    for player in (0, 1):
        views = np.array([hash(view(state, player)) for state in some])
        np.testing.assert_array_equal(log_prob[player], np.where(views[:, None] == views, 0, -np.inf))
    assert ((log_prob[0] == 0) != (log_prob[1] == 0)).sum() >= 60


def test_only_the_players_of_the_same_rules_observe():
    rules = RULES["all effects"]
    state = text.make_state("R1", "Y1", "R0", rules=rules)
    seen = jax.jit(observe)(state, 0)
    stranger = seen.replace(player=np.int8(2), hand=np.zeros(108, bool), opponent_count=np.int8(1))
    log_prob = jax.jit(pomdp.observation_log_prob)
    assert (log_prob(seen, state), log_prob(stranger, state)) == (0, -np.inf)
    deck = np.array(rules.deck)
    deck[[np.flatnonzero(deck)[0], np.flatnonzero(deck == 0)[0]]] += (-1, 1)
    other = seen.replace(rules=dataclasses.replace(rules, deck=tuple(deck.tolist())))
    refusals(
        {
            "deck of 16 cards instead of 108": lambda: pomdp.observation_log_prob(seen, text.make_state("R1", "Y1", "YS")),
            "deck of 16 cards instead of 16, of other types": lambda: pomdp.observation_log_prob(other, state),
        }
    )
