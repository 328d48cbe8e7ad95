"""`unojax.value.features` against plain Python and exact distributions."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import counts_of, jitted_step
from tests.value.positions import observe_all, random_hands, random_states, repeated
from unojax import bits, cards
from unojax.belief.hands import Hands
from unojax.belief.opponents import parse_opponent
from unojax.decks import small_deck
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state
from unojax.value.features import (
    COLOR_COLUMNS,
    MATCH_COLUMNS,
    SHARED_COLUMNS,
    TYPE_COLUMNS,
    Features,
    Outlook,
    _prob_none,
    features,
    outlook_of_hand,
    outlook_of_hands,
    outlook_of_unseen,
)
from unojax.view import View, view_of

NUM, NUM_HANDS = 80, 5
COLORED_RANKS = range(13)


@pytest.fixture(scope="module")
def seen() -> Observation:
    """Return observations of both players in 40 positions, [80]."""
    states = random_states(1, 40)
    return jax.device_get(observe_all(repeated(states, 2), np.tile(np.arange(2), 40)))


@jax.jit
def look(seen: Observation, hands: bits.Words, weights: jax.Array) -> tuple[Outlook, Outlook, Features]:
    """Return the outlook of unseen cards, that of weighted hands, and the features of the latter."""
    view = view_of(seen)
    believed = outlook_of_hands(view, Hands(hands, jnp.log(weights)))
    return outlook_of_unseen(view), believed, features(view, believed)


def fits(card_type: int, color: int, rank: int) -> bool:
    return card_type >= 52 or card_type // 13 == color or card_type % 13 == rank


class Sight:
    """A player's knowledge in plain numbers: counts by type, and the opponent's possible hands."""

    def __init__(self, seen: Observation, index: int, hands: np.ndarray, weights: np.ndarray):
        one = jax.tree.map(lambda leaf: np.asarray(leaf)[index], seen)
        self.own = counts_of(one.hand).tolist()
        pile = counts_of(one.pile).tolist()
        self.unseen = [c - o - p for c, o, p in zip(seen.rules.deck, self.own, pile, strict=True)]
        self.held, self.deck = int(one.opponent_count), int(one.deck_count)
        self.rank, self.color, self.penalty = int(one.top_rank), int(one.color), int(one.penalty)
        self.is_own_turn = int(one.player) == int(one.current_player)
        self.hands = [(counts_of(hand).tolist(), float(weight)) for hand, weight in zip(hands, weights, strict=True)]

    def expected(self, card_type: int) -> float:
        return sum(weight * hand[card_type] for hand, weight in self.hands)

    def prob(self, is_so) -> float:
        return sum(weight for hand, weight in self.hands if is_so(hand))

    def spread(self) -> float:
        total = 0.0
        for t in range(54):
            mean = self.expected(t)
            total += sum(weight * (hand[t] - mean) ** 2 for hand, weight in self.hands)
        return total / (2 * self.held)

    def of_color(self, color: int) -> dict[str, float]:
        names = cards.RANK_NAMES
        at = {rank: 13 * color + rank for rank in COLORED_RANKS}
        columns: dict[str, float] = {}
        for rank, t in at.items():
            columns[f"own {names[rank]}, first copy"] = self.own[t] >= 1
            if rank > 0:
                columns[f"own {names[rank]}, second copy"] = self.own[t] >= 2
            columns[f"unseen {names[rank]} / 2"] = self.unseen[t] / 2
            columns[f"opponent's expected {names[rank]}"] = self.expected(t)
        columns["active colour"] = self.color == color
        columns["own cards / 4"] = sum(self.own[t] for t in at.values()) / 4
        columns["opponent's expected cards / 4"] = sum(self.expected(t) for t in at.values()) / 4
        columns["probability that the opponent has none"] = self.prob(lambda hand: sum(hand[t] for t in at.values()) == 0)
        top = at.get(self.rank)
        columns["own cards of the top rank"] = self.own[top] if top is not None else 0
        columns["opponent's expected cards of the top rank"] = self.expected(top) if top is not None else 0
        return columns

    def matches(self, color: int) -> dict[str, float]:
        columns: dict[str, float] = {}
        for rank in COLORED_RANKS:
            name, others = cards.RANK_NAMES[rank], [13 * c + rank for c in range(4) if c != color]
            columns[f"own {name} in other colours / 2"] = sum(self.own[t] for t in others) / 2
            columns[f"opponent's expected {name} in other colours"] = sum(self.expected(t) for t in others)
            on_it = [t for t in range(54) if fits(t, color, rank)]
            stuck = self.prob(lambda hand, on_it=on_it: not any(hand[t] for t in on_it))
            held = self.own[13 * color + rank] > 0
            columns[f"own {name}: probability that the opponent can play nothing on it"] = stuck if held else 0
        return columns

    def shared(self) -> dict[str, float]:
        columns: dict[str, float] = {}
        for n in range(1, 5):
            columns[f"own wilds, at least {n}"] = self.own[52] >= n
            columns[f"own wild draw fours, at least {n}"] = self.own[53] >= n
        columns["unseen wilds / 4"], columns["unseen wild draw fours / 4"] = self.unseen[52] / 4, self.unseen[53] / 4
        columns["opponent's expected wilds"] = self.expected(52)
        columns["opponent's expected wild draw fours"] = self.expected(53)
        for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 13):
            columns[f"own cards, at least {n}"] = sum(self.own) >= n
            columns[f"opponent's cards, at least {n}"] = self.held >= n
        columns["own cards / 10"], columns["opponent's cards / 10"] = sum(self.own) / 10, self.held / 10
        columns["deck / 100"] = self.deck / 100
        for rank, name in enumerate(cards.RANK_NAMES):
            columns[f"top rank {name}"] = self.rank == rank
        columns["penalty 2"], columns["penalty 4"] = self.penalty == 2, self.penalty == 4
        columns["own turn"] = self.is_own_turn
        playable = [t for t in range(54) if fits(t, self.color, self.rank)]
        columns["own playable cards / 4"] = sum(self.own[t] for t in playable) / 4
        columns["no own card playable"] = sum(self.own[t] for t in playable) == 0
        columns["opponent's expected playable cards / 4"] = sum(self.expected(t) for t in playable) / 4
        columns["probability that the opponent can play nothing"] = self.prob(lambda hand: not any(hand[t] for t in playable))
        columns["spread of the belief"] = self.spread()
        return columns


CRAFTED = {
    "second copies, a pending penalty, the other player's turn": make_state(
        "R5 R5 G0 W W W+4", "B7 B7 YS", "R+2", pile="G5 G5 BS", penalty=2, player=1
    ),
    "a wild on top": make_state("R5 W", "Y3", "W+4", color="blue", pile="W B1 B1", penalty=4),
    "one card each, nothing playable": make_state("R5", "B0", "G7", player=0),
    "a hand of 22": make_state("R1 R2 R3 R4 R5 R6 R7 R8 R9 RS RR R+2 Y0 Y1 W W W W W+4 W+4 W+4 W+4", "G1", "B3"),
}


def compare(made: np.ndarray, columns: tuple[str, ...], plain: dict[str, float]) -> None:
    assert set(plain) == set(columns) and len(columns) == len(plain)
    wrong = {name: (x, plain[name]) for name, x in zip(columns, made.tolist(), strict=True) if abs(x - plain[name]) > 4e-6}
    assert not wrong


def test_each_column_is_what_its_name_says(seen: Observation):
    """In crafted positions, seen by both players, and in random ones."""
    states = jax.tree.map(lambda *leaves: np.repeat(np.stack(leaves), 2, axis=0), *CRAFTED.values())
    states = jax.tree.map(lambda leaf: np.resize(leaf, (NUM, *leaf.shape[1:])), states)
    crafted = jax.device_get(observe_all(states, np.tile(np.arange(2), NUM // 2)))
    for observations, number in ((crafted, 2 * len(CRAFTED)), (seen, NUM)):
        hands, weights = random_hands(number, observations, NUM_HANDS)
        _, believed, made = jax.device_get(look(observations, hands, weights))
        assert made.color.dtype == made.shared.dtype == made.matches.dtype == np.float32
        onehots = np.asarray(bits.unpack(hands))
        for row in range(number):
            sight = Sight(observations, row, onehots[row], weights[row])
            for color in range(4):
                compare(made.color[row, color], COLOR_COLUMNS, sight.of_color(color))
                compare(made.matches[row, color], MATCH_COLUMNS, sight.matches(color))
            compare(made.shared[row], SHARED_COLUMNS, sight.shared())
            # The outlook itself, whatever card is on top later.
            np.testing.assert_allclose(believed.expected[row], [sight.expected(t) for t in range(54)], atol=2e-6)
            for color, rank in np.ndindex(4, 15):
                none = sight.prob(lambda hand, c=color, r=rank: not any(hand[t] for t in range(54) if fits(t, c, r)))
                assert believed.none_playable[row, color, rank] == pytest.approx(none, abs=2e-6), (color, rank)


def test_the_outlook_of_unseen_cards_is_hypergeometric(seen: Observation):
    """Contract: closed forms, P(no playable card) = C(|U|-|N|, k)/C(|U|, k)."""
    outlook = jax.device_get(look(seen, *random_hands(0, seen, NUM_HANDS))[0])
    for row in range(NUM):
        sight = Sight(seen, row, np.zeros((0, 108), bool), np.zeros(0))
        total, held = sum(sight.unseen), sight.held
        of_type = scipy.stats.hypergeom(total, np.array(sight.unseen), held).pmf(np.arange(5)[:, None])
        mean = (of_type * np.arange(5)[:, None]).sum(0)
        np.testing.assert_allclose(outlook.expected[row], mean, rtol=1e-5, atol=1e-7)
        variance = (of_type * (np.arange(5)[:, None] - mean) ** 2).sum()
        assert outlook.spread[row] == pytest.approx(variance / (2 * held), rel=1e-4, abs=1e-6)
        of_color = np.array(sight.unseen[:52]).reshape(4, 13).sum(1)
        none = scipy.stats.hypergeom(total, of_color, held).pmf(0)
        np.testing.assert_allclose(outlook.none_of_color[row], none, rtol=1e-3, atol=1e-6)
        playable = [sum(n for t, n in enumerate(sight.unseen) if fits(t, *top)) for top in np.ndindex(4, 15)]
        none = scipy.stats.hypergeom(total, np.array(playable), held).pmf(0).reshape(4, 15)
        np.testing.assert_allclose(outlook.none_playable[row], none, rtol=1e-3, atol=1e-6)


def test_probability_of_none_is_exact_at_the_edges():
    # (all, of the kind, drawn): C(all - kind, drawn) / C(all, drawn).
    cases = [(10, 0, 3), (10, 10, 1), (10, 3, 7), (10, 3, 8), (1, 1, 1), (93, 25, 7), (0, 0, 0), (100, 30, 40), (101, 8, 51)]
    made = jax.jit(_prob_none)(*(np.array(column) for column in zip(*cases, strict=True)))
    truth = [math.comb(total - kind, n) / math.comb(total, n) for total, kind, n in cases]
    # A float32 of one logarithm each would lose two more digits.
    np.testing.assert_allclose(made, truth, rtol=1e-6)


@jax.jit
def look_at(state: State) -> tuple[View, Outlook, Features, Features]:
    """Return a view of player 0, its outlook and features, and the features given the hidden hand."""
    view = view_of(observe(state, 0))
    outlook = outlook_of_unseen(view)
    return view, outlook, features(view, outlook), features(view, outlook_of_hand(bits.pack(state.hands[1])))


def test_an_opponent_who_holds_all_unseen_cards_is_known_and_no_unseen_card_is_finite():
    rules = Rules(deck=small_deck(colors=1, ranks=(1, 2, 3), wilds=1), hand_size=1)
    state = make_state("R1", "R1 R3 W W+4 R2", "R2", pile="R3", deck="", player=1, rules=rules)
    _, outlook, _, _ = look_at(state)
    np.testing.assert_allclose(outlook.expected, counts_of(state.hands[1]), atol=1e-6)
    np.testing.assert_allclose(outlook.none_of_color, [0, 1, 1, 1], atol=1e-6)
    assert abs(float(outlook.spread)) < 1e-6 and float(outlook.none_playable.max()) < 1e-6
    # After the opponent's last card nothing is unseen.
    last = make_state("R1", "R2", "R1", pile="R2 R3 R3 W W+4", deck="", player=1, rules=rules)
    over = jitted_step(last, np.int32(2), jax.random.key(0))
    assert bool(over.terminated)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(look_at(over)[2:]))


def test_certain_and_repeated_hands(seen: Observation):
    """A hand with all the weight is known, and weights of equal hands add up."""
    hands, weights = random_hands(4, seen, NUM_HANDS)
    known = jax.jit(outlook_of_hand)(tuple(np.asarray(word)[:, 0] for word in hands))
    first = np.eye(NUM_HANDS, dtype=np.float32)[np.zeros(NUM, int)]
    jax.tree.map(np.testing.assert_array_equal, known, look(seen, hands, first)[1])
    # The third hand again instead of the last one, whose weight it gets.
    twice = look(seen, tuple(np.asarray(word)[:, [0, 1, 2, 3, 2]] for word in hands), weights)[1]
    once = weights * np.array([1, 1, 1, 1, 0], np.float32)
    once[:, 2] += weights[:, 4]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), look(seen, hands, once)[1], twice)


def test_types_have_the_marginals_of_the_joint_belief(seen: Observation):
    hands, weights = random_hands(4, seen, NUM_HANDS)
    joint = np.random.default_rng(6).dirichlet(np.ones(len(TYPE_COLUMNS)), (NUM, NUM_HANDS)) * weights[..., None]
    log_joint = np.log(np.swapaxes(joint, 1, 2)).astype(np.float32)
    # Other types of opponents, found by their names; `guard` is none of the family's types.
    chosen, of_type = [4, 0, 2], joint.sum(1)
    few = log_joint[:, chosen] - np.log(of_type[:, chosen].sum(-1))[:, None, None]

    @jax.jit
    def types(hands: bits.Words, log_weights: jax.Array, log_joint: jax.Array, few: jax.Array) -> tuple[jax.Array, ...]:
        view = view_of(seen)
        plain = Hands(hands, log_weights)

        def believed(hands: Hands, opponent: str) -> Outlook:
            return outlook_of_hands(view, hands, parse_opponent(opponent))

        outlook = believed(plain._replace(log_joint=log_joint), "family")
        outlooks = outlook, believed(plain._replace(log_joint=few), "linear|greedy|guard"), believed(plain, "linear+0.5")
        unknown = believed(plain, "family"), outlook_of_unseen(view), outlook_of_hand(view.hand)
        return features(view, outlook).types, *(one.types for one in (*outlooks, *unknown))

    in_features, family, named, single, *unknown = types(hands, np.log(weights), log_joint, few.astype(np.float32))
    np.testing.assert_allclose(family, of_type, rtol=1e-5)
    np.testing.assert_array_equal(in_features, family)
    probs = np.exp(few).sum(-1)
    others = np.repeat(probs[:, 2:] / 6, 6, axis=1)
    np.testing.assert_allclose(named, others + probs[:, [1]] * np.eye(6)[0] + probs[:, [0]] * np.eye(6)[4], rtol=1e-4)
    np.testing.assert_array_equal(single, np.tile(np.eye(6)[5], (NUM, 1)))
    for without_types in (*unknown, look(seen, hands, weights)[1].types):
        np.testing.assert_array_equal(without_types, np.full((NUM, 6), 1 / 6, np.float32))


def test_the_hidden_hand_changes_the_outlook_alone():
    """Contract: features from the observation and the belief only."""
    made = [look_at(make_state("R5 W GS", hand, "R2")) for hand in ("B1 B2 Y3", "W W+4 R9", "R1 R2 R3")]
    for *blind, knowing in made[1:]:
        jax.tree.map(np.testing.assert_array_equal, tuple(blind), made[0][:3])
        changed = {}
        for part, columns in (("shared", SHARED_COLUMNS), ("color", COLOR_COLUMNS), ("matches", MATCH_COLUMNS)):
            differs = np.asarray(getattr(knowing, part)) != np.asarray(getattr(made[0][3], part))
            changed[part] = [columns[c] for c in np.flatnonzero(differs.reshape(-1, len(columns)).any(0))]
        assert changed["shared"] and changed["matches"]
        assert all("opponent's expected" in name or "probability" in name for name in changed["shared"])
        assert all("opponent" in name for name in changed["color"] + changed["matches"])
