"""`unojax.value.features` against plain Python, exact distributions, and the game itself."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import counts_of, seated
from tests.value.positions import RULES, legal_all, observe_all, random_hands, random_states, repeated, step_all, views_of
from unojax import bits, cards, game
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
    after_plays,
    features,
    outlook_of_hand,
    outlook_of_hands,
    outlook_of_unseen,
)
from unojax.view import View, view_of, view_of_table

NUM_HANDS = 5
COLORED_RANKS = range(13)


@pytest.fixture(scope="module")
def seen() -> Observation:
    """What either player sees of 40 positions: [80]."""
    states = random_states(1, 40)
    return jax.device_get(observe_all(repeated(states, 2), np.tile(np.arange(2), 40)))


@jax.jit
def look(seen: Observation, hands: bits.Words, weights: jax.Array) -> tuple[Outlook, Outlook, Features]:
    view = view_of(seen)
    believed = outlook_of_hands(view, Hands(hands, jnp.log(weights)))
    return outlook_of_unseen(view), believed, features(view, believed)


@jax.jit
def see(state: State, player: jax.Array) -> Observation:
    return observe(state, player)


def fits(card_type: int, color: int, rank: int) -> bool:
    """The card may be played on a top card of this active colour and rank."""
    return card_type >= 52 or card_type // 13 == color or card_type % 13 == rank


class Sight:
    """What a player knows, in plain numbers: counts by type, and the opponent's possible hands."""

    def __init__(self, seen: Observation, index: int, hands: np.ndarray, weights: np.ndarray):
        one = jax.tree.map(lambda leaf: np.asarray(leaf)[index], seen)
        self.own = counts_of(one.hand).tolist()
        pile = counts_of(one.pile).tolist()
        self.unseen = [c - o - p for c, o, p in zip(seen.rules.deck, self.own, pile, strict=True)]
        self.held = int(one.opponent_count)
        self.deck = int(one.deck_count)
        self.rank, self.color, self.penalty = int(one.top_rank), int(one.color), int(one.penalty)
        self.is_own_turn = int(one.player) == int(one.current_player)
        self.hands = [(counts_of(hand).tolist(), float(weight)) for hand, weight in zip(hands, weights, strict=True)]

    def expected(self, card_type: int) -> float:
        return sum(weight * hand[card_type] for hand, weight in self.hands)

    def can_play(self, card_type: int) -> bool:
        return fits(card_type, self.color, self.rank)

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
        playable = [t for t in range(54) if self.can_play(t)]
        columns["own playable cards / 4"] = sum(self.own[t] for t in playable) / 4
        columns["no own card playable"] = sum(self.own[t] for t in playable) == 0
        columns["opponent's expected playable cards / 4"] = sum(self.expected(t) for t in playable) / 4
        columns["probability that the opponent can play nothing"] = self.prob(lambda hand: not any(hand[t] for t in playable))
        columns["spread of the belief"] = self.spread()
        return columns


def test_the_columns_have_names_of_their_own_and_the_features_their_number(seen: Observation):
    everything = (COLOR_COLUMNS, SHARED_COLUMNS, MATCH_COLUMNS)
    assert all(len(set(columns)) == len(columns) for columns in everything)
    made = jax.eval_shape(look, seen, *random_hands(0, seen, NUM_HANDS))[2]
    assert made.color.shape == (80, 4, len(COLOR_COLUMNS)) and made.shared.shape == (80, len(SHARED_COLUMNS))
    assert made.matches.shape == (80, 4, len(MATCH_COLUMNS))
    assert made.color.dtype == made.shared.dtype == made.matches.dtype == jnp.float32


CRAFTED = {
    "second copies, a pending penalty, the other player's turn": lambda: make_state(
        "R5 R5 G0 W W W+4", "B7 B7 YS", "R+2", pile="G5 G5 BS", penalty=2, player=1
    ),
    "a wild on top": lambda: make_state("R5 W", "Y3", "W+4", color="blue", pile="W B1 B1", penalty=4),
    "one card each, nothing playable": lambda: make_state("R5", "B0", "G7", player=0),
    "a hand of fifteen": lambda: make_state("R1 R2 R3 R4 R5 R6 R7 R8 R9 RS RR R+2 Y0 Y1 W W W W W+4 W+4 W+4 W+4", "G1", "B3"),
}


def test_each_column_of_crafted_positions_is_what_its_name_says():
    seen = [see(make(), player) for make in CRAFTED.values() for player in (0, 1)]
    many = jax.tree.map(lambda *leaves: np.resize(np.stack(leaves), (80, *leaves[0].shape)), *seen)
    check_columns(many, range(len(seen)), seed=2)


def test_each_column_of_random_positions_is_what_its_name_says(seen: Observation):
    check_columns(seen, range(80), seed=3)


def compare(made: np.ndarray, columns: tuple[str, ...], plain: dict[str, float]) -> None:
    assert set(plain) == set(columns)
    wrong = {name: (x, plain[name]) for name, x in zip(columns, made.tolist(), strict=True) if abs(x - plain[name]) > 4e-6}
    assert not wrong


def check_columns(seen: Observation, rows, seed: int) -> None:
    hands, weights = random_hands(seed, seen, NUM_HANDS)
    _, believed, made = jax.device_get(look(seen, hands, weights))
    onehots = np.asarray(bits.unpack(hands))
    for row in rows:
        sight = Sight(seen, row, onehots[row], weights[row])
        for color in range(4):
            compare(made.color[row, color], COLOR_COLUMNS, sight.of_color(color))
            compare(made.matches[row, color], MATCH_COLUMNS, sight.matches(color))
        compare(made.shared[row], SHARED_COLUMNS, sight.shared())
        # The outlook itself, and what is to come of it whatever is laid on top.
        np.testing.assert_allclose(believed.expected[row], [sight.expected(t) for t in range(54)], atol=2e-6)
        for color, rank in ((color, rank) for color in range(4) for rank in range(15)):
            none = sight.prob(lambda hand, c=color, r=rank: not any(hand[t] for t in range(54) if fits(t, c, r)))
            assert believed.none_playable[row, color, rank] == pytest.approx(none, abs=2e-6), (color, rank)


def test_the_outlook_of_unseen_cards_is_hypergeometric(seen: Observation):
    unseen_outlook = jax.device_get(look(seen, *random_hands(0, seen, NUM_HANDS))[0])
    for row in range(80):
        sight = Sight(seen, row, np.zeros((0, 108), bool), np.zeros(0))
        total, held = sum(sight.unseen), sight.held
        of_type = scipy.stats.hypergeom(total, np.array(sight.unseen), held).pmf(np.arange(5)[:, None])
        mean = (of_type * np.arange(5)[:, None]).sum(0)
        np.testing.assert_allclose(unseen_outlook.expected[row], mean, rtol=1e-5, atol=1e-7)
        variance = (of_type * (np.arange(5)[:, None] - mean) ** 2).sum()
        assert unseen_outlook.spread[row] == pytest.approx(variance / (2 * held), rel=1e-4, abs=1e-6)
        for color in range(4):
            none = scipy.stats.hypergeom(total, sum(sight.unseen[13 * color : 13 * color + 13]), held).pmf(0)
            assert unseen_outlook.none_of_color[row, color] == pytest.approx(none, rel=1e-3, abs=1e-6)
        tops = [(color, rank) for color in range(4) for rank in range(15)]
        playable = [sum(n for t, n in enumerate(sight.unseen) if fits(t, *top)) for top in tops]
        none = scipy.stats.hypergeom(total, np.array(playable), held).pmf(0).reshape(4, 15)
        np.testing.assert_allclose(unseen_outlook.none_playable[row], none, rtol=1e-3, atol=1e-6)


def test_an_opponent_with_all_unseen_cards_is_known():
    rules = Rules(deck=small_deck(colors=1, ranks=(1, 2, 3), wilds=1), hand_size=1)
    state = make_state("R1", "R1 R3 W W+4 R2", "R2", pile="R3", deck="", rules=rules)
    seen = observe(state, 0)
    outlook = jax.jit(lambda seen: outlook_of_unseen(view_of(seen)))(seen)
    np.testing.assert_allclose(outlook.expected, counts_of(state.hands[1]), atol=1e-6)
    np.testing.assert_allclose(outlook.none_of_color, [0, 1, 1, 1], atol=1e-6)
    assert abs(float(outlook.spread)) < 1e-6 and float(outlook.none_playable.max()) < 1e-6


def test_no_card_unseen_gives_finite_numbers():
    rules = Rules(deck=small_deck(colors=1, ranks=(1, 2), wilds=0), hand_size=1)
    state = make_state("R1", "R2", "R1", pile="R2", deck="", rules=rules)

    # After the opponent's last card nothing is unseen.
    @jax.jit
    def after_it(state: State) -> tuple[State, Features]:
        over = game.step(state.replace(current_player=jnp.int8(1)), 2, jax.random.key(0))
        view = view_of(observe(over, 0))
        return over, features(view, outlook_of_unseen(view))

    over, made = after_it(state)
    assert bool(over.terminated)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(made))


def test_one_hand_that_is_certain_is_a_known_hand(seen: Observation):
    (w0, w1, w2, w3), _ = random_hands(4, seen, NUM_HANDS)
    first = tuple(np.asarray(word)[:, 0] for word in (w0, w1, w2, w3))
    known = jax.jit(outlook_of_hand)(first)
    # All weight on the first of the hands.
    believed = look(seen, (w0, w1, w2, w3), np.eye(NUM_HANDS, dtype=np.float32)[np.zeros(80, int)])[1]
    for one, other in zip(known, believed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_types_are_as_likely_as_belief_and_hands_say_together(seen: Observation):
    hands, weights = random_hands(4, seen, NUM_HANDS)
    joint = np.random.default_rng(6).dirichlet(np.ones(len(TYPE_COLUMNS)), (80, NUM_HANDS)) * weights[..., None]
    log_joint = np.log(np.swapaxes(joint, 1, 2)).astype(np.float32)
    view, family = view_of(seen), parse_opponent("family")
    told = Hands(hands, jnp.log(weights), log_joint)
    believed = jax.jit(lambda hands: outlook_of_hands(view, hands, family))(told)
    np.testing.assert_allclose(believed.types, joint.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(features(view, believed).types, believed.types)
    # By their names, whatever else the belief tells apart; `guard` is none of the family's types.
    few = told._replace(log_joint=log_joint[:, [4, 0, 2]] - np.log(joint.sum(1)[:, [4, 0, 2]].sum(-1))[:, None, None])
    probs = np.exp(few.log_joint).sum(-1)
    named = outlook_of_hands(view, few, parse_opponent("linear|greedy|guard")).types
    others = np.repeat(probs[:, 2:] / 6, 6, axis=1)
    np.testing.assert_allclose(named, others + probs[:, [1]] * np.eye(6)[0] + probs[:, [0]] * np.eye(6)[4], rtol=1e-4)
    single = Hands(hands, jnp.log(weights))
    np.testing.assert_array_equal(
        outlook_of_hands(view, single, parse_opponent("linear+0.5")).types, np.tile(np.eye(6)[5], (80, 1))
    )
    no_types = outlook_of_hands(view, Hands(hands, jnp.log(weights)), family)
    for untold in (no_types, look(seen, hands, weights)[1], outlook_of_unseen(view), outlook_of_hand(view.hand)):
        np.testing.assert_array_equal(untold.types, np.full((80, 6), 1 / 6, np.float32))


def test_weights_of_hands_that_are_alike_add_up(seen: Observation):
    hands, weights = random_hands(5, seen, NUM_HANDS)
    # The third hand once more in place of the last one, whose weight it gets.
    order = np.array([0, 1, 2, 3, 2])
    twice = look(seen, tuple(np.asarray(word)[:, order] for word in hands), weights)[1]
    once = weights * np.array([1, 1, 1, 1, 0], np.float32)
    once[:, 2] += weights[:, 4]
    for one, other in zip(look(seen, hands, once)[1], twice, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.fixture(scope="module")
def plays() -> tuple[State, np.ndarray, Observation, Observation, State]:
    """Every legal play of 150 decisions, filled up to 900: the position, the play, what the mover sees before and after it."""
    states = random_states(6, 150, deciding=True)
    # The end of the game, too: the last card, by either player.
    last = [seated(seat, "R7", "B3 B4", "R2") for seat in (0, 1)] + [seated(seat, "W+4", "B3 B4", "R2") for seat in (0, 1)]
    states = jax.tree.map(lambda leaf, *ends: np.concatenate([leaf, np.stack(ends)]), states, *last)
    decision, action = np.nonzero(np.asarray(legal_all(states))[:, : cards.DRAW])
    assert len(action) < 1500
    filling = np.zeros(1500 - len(action), int)
    decision, action = np.append(decision, decision[filling]), np.append(action, action[filling])
    states = jax.tree.map(lambda leaf: leaf[decision], states)
    after = step_all(states, jnp.asarray(action, jnp.int32))
    assert not np.asarray(after.error ^ states.error).any()
    mover = jnp.asarray(states.current_player, jnp.int32)
    return states, action, observe_all(states, mover), observe_all(after, mover), after


after_all = jax.jit(after_plays)


def test_the_position_after_a_play_is_that_of_the_game(plays):
    states, action, before, seen_after, after = plays
    assert set(states.current_player.tolist()) == {0, 1}
    assert set(action % 15) == set(range(15)), "every rank is played"
    position, is_won = after_all(views_of(before), jnp.asarray(action, jnp.int32))
    truth = views_of(seen_after)
    for name in ("opponent_count", "rank", "color", "penalty", "is_own_turn"):
        np.testing.assert_array_equal(getattr(position, name), getattr(truth, name), err_msg=name)
    for name in ("hand", "pile"):
        counted = counts_of(bits.unpack(bits.canonical(getattr(position, name))))
        np.testing.assert_array_equal(counted, counts_of(bits.unpack(getattr(truth, name))), err_msg=name)
    np.testing.assert_array_equal(position.unseen(), seen_after.unseen)
    np.testing.assert_array_equal(is_won, after.terminated & (after.winner == states.current_player))
    assert np.asarray(is_won).sum() >= 4


def test_the_features_after_a_play_are_those_of_the_game(plays):
    _, action, before, seen_after, _ = plays

    @jax.jit
    def of(view: View) -> Features:
        return features(view, outlook_of_unseen(view))

    view, _ = after_all(views_of(before), jnp.asarray(action, jnp.int32))
    for one, other in zip(of(view), of(views_of(seen_after)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_under_other_rules_a_skip_only_passes_the_turn():
    for rules, is_own_turn in ((Rules(skip_forfeits=False), False), (RULES, True)):
        view = view_of(see(make_state("RS R1", "B1", "R2", rules=rules), 0))
        assert bool(after_all(view, jnp.int32(cards.SKIP))[0].is_own_turn) == is_own_turn


def test_what_a_player_sees_of_a_table_is_the_position_it_observes():
    states = random_states(7, 60)
    tables = jax.jit(jax.vmap(game.to_table))(states)
    of_table = jax.jit(partial(view_of_table, rules=RULES))
    for player in (0, 1):
        found = of_table(tables, np.full(60, player, np.uint32))
        truth = views_of(observe_all(states, np.full(60, player)))
        for name in ("opponent_count", "rank", "color", "penalty", "is_own_turn"):
            np.testing.assert_array_equal(getattr(found, name), getattr(truth, name), err_msg=name)
        for name in ("hand", "pile"):
            labelled = bits.unpack(bits.canonical(getattr(found, name)))
            np.testing.assert_array_equal(counts_of(labelled), counts_of(bits.unpack(getattr(truth, name))), err_msg=name)


def test_the_hidden_hand_shows_in_the_outlook_alone():
    mine, others = "R5 W GS", ("B1 B2 Y3", "W W+4 R9", "R1 R2 R3")

    @jax.jit
    def look_at(state: State) -> tuple[View, Features, Features]:
        view, held = view_of(observe(state, 0)), bits.pack(state.hands[1])
        return view, features(view, outlook_of_unseen(view)), features(view, outlook_of_hand(held))

    made = [look_at(make_state(mine, hand, "R2")) for hand in others]
    for position, blind, knowing in made[1:]:
        for one, other in zip(jax.tree.leaves((position, blind)), jax.tree.leaves(made[0][:2]), strict=True):
            np.testing.assert_array_equal(one, other)
        # What the outlook brings is marked by name.
        changed = (np.asarray(knowing.shared) != np.asarray(made[0][2].shared)).nonzero()[0]
        assert len(changed) and all(
            "opponent's expected" in SHARED_COLUMNS[c] or "probability" in SHARED_COLUMNS[c] for c in changed
        )
        changed = (np.asarray(knowing.color) != np.asarray(made[0][2].color)).any(0).nonzero()[0]
        assert all("opponent" in COLOR_COLUMNS[c] for c in changed)
        changed = (np.asarray(knowing.matches) != np.asarray(made[0][2].matches)).any(0).nonzero()[0]
        assert len(changed) and all("opponent" in MATCH_COLUMNS[c] for c in changed)


def test_probability_of_none_is_exact_at_the_edges():
    # (all, of the kind, drawn): C(all - kind, drawn) / C(all, drawn).
    cases = [(10, 0, 3), (10, 10, 1), (10, 3, 7), (10, 3, 8), (1, 1, 1), (93, 25, 7), (0, 0, 0), (100, 30, 40), (101, 8, 51)]
    made = jax.jit(_prob_none)(*(jnp.asarray(column) for column in zip(*cases, strict=True)))
    truth = [math.comb(total - kind, n) / math.comb(total, n) for total, kind, n in cases]
    # A float32 of one logarithm each would lose two digits more.
    np.testing.assert_allclose(made, truth, rtol=1e-6)
