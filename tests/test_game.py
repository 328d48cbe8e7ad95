"""The rules one by one, on crafted positions from both seats; then the contract of the functions and the laws of chance."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.experimental import checkify

from tests.helpers import (
    ERROR_PROBABILITY,
    actions,
    after,
    assert_distributed,
    assert_trees_equal,
    counts_of,
    deck_of,
    hand,
    jitted_mask,
    jitted_step,
    legal,
    play,
    seated,
)
from unojax import cards, game
from unojax.game import Error, State
from unojax.rules import Rules
from unojax.text import format_cards, make_state, parse_action, parse_position

SKIP_PASSES = Rules(skip_forfeits=False)
NINE = Rules(deck=deck_of("R1 R2 R3 R4 R5 Y1 Y+2 W W+4"), hand_size=1)
"""Few cards, so that a position can say where each one is."""
SHORT = Rules(deck=NINE.deck, hand_size=1, max_steps=2, step_penalty=0.25)

both_seats = pytest.mark.parametrize("seat", [0, 1])


# What may be played


@both_seats
@pytest.mark.parametrize(
    ("mine", "top", "color", "allowed"),
    [
        ("R5 G7 B1", "R7", None, "R5 G7"),
        ("R5 G5 Y4", "R5", None, "R5 G5"),
        ("R7 BS YR G+2 Y7", "GS", None, "BS G+2"),
        ("R0 R1 R2", "G9", None, "draw"),
        ("W R1", "G9", None, "W:R W:Y W:B W:G"),
        ("W+4 G1", "G9", None, "G1 W+4:R W+4:Y W+4:B W+4:G"),
        ("R5 B5 B+2", "W", "blue", "B5 B+2"),
        ("R5 B5 W", "W+4", "red", "R5 W:R W:Y W:B W:G"),
        ("W W+4", "W", "green", "W:R W:Y W:B W:G W+4:R W+4:Y W+4:B W+4:G"),
        ("Y3 G3", "W", "red", "draw"),
    ],
)
def test_playable_is_the_color_the_rank_or_a_wild(seat: int, mine: str, top: str, color: str | None, allowed: str):
    """Play is forced: Draw is legal only where nothing is playable. A wild top has a colour but no rank."""
    assert legal(seated(seat, mine, "B9", top, color=color)) == actions(allowed)


@both_seats
@pytest.mark.parametrize(("top", "penalty"), [("R+2", 2), ("W+4", 4)])
def test_under_a_penalty_drawing_is_the_only_legal_action(seat: int, top: str, penalty: int):
    """No stacking: not even a +2 or Wild+4 may be played."""
    state = seated(seat, "R+2 R5 W W+4", "B9", top, color="red", penalty=penalty)
    assert legal(state) == {cards.DRAW}
    for action in actions("R+2 R5 W:R W+4:R"):
        tried = jitted_step(state, np.int32(action), jax.random.key(0))
        assert_trees_equal(tried, replace(state, error=jnp.uint8(Error.ILLEGAL_ACTION)))


# What a played card does


@both_seats
@pytest.mark.parametrize("rules", [Rules(), SKIP_PASSES], ids=["skip forfeits", "skip passes"])
@pytest.mark.parametrize(
    ("action", "forfeits", "penalty"),
    [("R5", False, 0), ("RS", True, 0), ("RR", True, 0), ("R+2", False, 2), ("W:B", False, 0), ("W+4:G", False, 4)],
)
def test_effect_of_each_kind_of_card(seat: int, rules: Rules, action: str, forfeits: bool, penalty: int):
    """Skip and Reverse give the mover another turn, or pass it under `skip_forfeits=False`; +2 and Wild+4 leave a penalty."""
    start = seated(seat, f"Y9 {action.partition(':')[0]}", "G1", "R7", rules=rules)
    state = after(start, action, rules=rules)
    assert state.current_player == (seat if forfeits and rules.skip_forfeits else 1 - seat)
    assert state.penalty == penalty
    assert hand(state, seat) == "Y9"
    assert hand(state, 1 - seat) == "G1"
    assert Counter(format_cards(state.pile).split()) == Counter(["R7", action.partition(":")[0]])
    color, rank = divmod(parse_action(action), 15)
    assert (state.color, state.top_rank, state.last_action) == (color, rank, color * 15 + rank)
    assert state.top_type == cards.type_of(color, rank)
    assert (state.terminated, state.winner, state.step_count) == (False, -1, 1)
    np.testing.assert_array_equal(state.deck, start.deck)


@both_seats
def test_a_second_red_5_goes_on_a_red_5(seat: int):
    """The copies are told apart by nothing but their number."""
    state = after(seated(seat, "R5 G1", "Y1 Y2", "R5"), "R5")
    assert format_cards(state.pile) == "R5 R5"
    assert hand(state, seat) == "G1"


@both_seats
@pytest.mark.parametrize("card", ["R5", "R+2", "W", "W+4"])
def test_any_copy_of_a_card_can_be_played(seat: int, card: str):
    """It does not matter that the opponent holds the same card, and that a wild is on the pile too."""
    top = card if card.startswith("W") else "R7"
    start = seated(seat, f"{card} G1", f"{card} G2", top, color="red")
    state = after(start, f"{card}:R" if card.startswith("W") else card)
    assert (hand(state, seat), hand(state, 1 - seat)) == ("G1", f"{card} G2" if card.startswith("R") else f"G2 {card}")
    assert Counter(format_cards(state.pile).split()) == Counter([top, card])


@pytest.mark.parametrize("declared", ["R", "Y", "B", "G"])
def test_a_wild_on_a_wild_declares_anew(declared: str):
    state = after(make_state("W G1", "Y1 Y2", "W", color="red"), f"W:{declared}")
    assert cards.COLOR_LETTERS[state.color] == declared
    assert format_cards(state.pile) == "W W"


def test_the_same_player_moves_again_after_each_skip_and_reverse():
    """With nothing playable left the mover draws in the extra turn, and only then it is the other's."""
    state = after(make_state("RS RR GR Y9", "B1", "R7"), "RS", "RR", "GR")
    assert state.current_player == 0
    assert legal(state) == {cards.DRAW}
    assert after(state, "draw").current_player == 1


# Drawing


@both_seats
def test_a_forced_draw_is_one_card_that_is_not_played(seat: int):
    """The only card left is playable, yet the turn passes."""
    state = seated(seat, "R1", "R2 R3 R4 R5 W W+4", "Y+2", deck="Y1", rules=NINE)
    state = after(state, "draw", rules=NINE)
    assert hand(state, seat) == "R1 Y1"
    assert (state.current_player, state.penalty, state.last_action) == (1 - seat, 0, cards.DRAW)
    assert not state.deck.any()


@both_seats
@pytest.mark.parametrize(("top", "penalty", "deck"), [("Y+2", 2, "R1 R2"), ("W+4", 4, "R1 R2 R3 R4")])
def test_a_penalty_is_drawn_and_the_turn_goes_back(seat: int, top: str, penalty: int, deck: str):
    """As many cards as are pending, none played; the draw counts as one step and the penalty is served."""
    rest = " ".join(name for name in "R3 R4 R5 Y1 W W+4 Y+2".split() if name not in (*deck.split(), top, "R5"))
    state = seated(seat, "R5", rest, top, color="yellow", deck=deck, penalty=penalty, rules=NINE)
    state = after(state, "draw", rules=NINE)
    assert hand(state, seat).split() == sorted([*deck.split(), "R5"])
    assert (state.current_player, state.penalty, state.step_count) == (1 - seat, 0, 1)
    assert (cards.COLOR_LETTERS[state.color], state.top_type) == ("Y", cards.TYPE_NAMES.index(top))


@both_seats
@pytest.mark.parametrize(
    ("top", "penalty", "deck", "pile"),
    [
        ("Y+2", 0, "", "Y1"),
        ("Y+2", 0, "", "Y1 W W+4"),
        ("Y+2", 2, "", "Y1 W W+4"),
        ("Y+2", 2, "Y1", "W"),
        ("W+4", 4, "", "Y1 R2 R3 R4"),
        ("W+4", 4, "Y1", "R2 R3 R4 R5"),
        ("W+4", 4, "Y1 R2 R3", "W"),
    ],
)
def test_a_short_deck_is_filled_from_under_the_top_card_first(seat: int, top: str, penalty: int, deck: str, pile: str):
    """The cards drawn and the cards left are together the old deck and the pile without its top card, which stays."""
    everywhere = f"R1 {top} {deck} {pile}".split()
    rest = " ".join(name for name in "R1 R2 R3 R4 R5 Y1 Y+2 W W+4".split() if name not in everywhere)
    start = seated(seat, "R1", rest, top, color="yellow", deck=deck, pile=pile, penalty=penalty, rules=NINE)
    state = after(start, "draw", rules=NINE)
    assert format_cards(state.pile) == top
    assert hand(state, 1 - seat) == rest
    drawn, left = Counter(hand(state, seat).split()) - Counter(["R1"]), Counter(format_cards(state.deck).split())
    assert drawn + left == Counter(f"{deck} {pile}".split())
    assert drawn.total() == max(penalty, 1)
    assert (state.current_player, state.penalty, state.terminated, state.step_count) == (1 - seat, 0, False, 1)


def test_a_deck_that_just_suffices_is_not_filled():
    """The pile stays where it is as long as the deck has all the cards that are due."""
    state = make_state("R1", "R2 R3 R4 R5 W+4", "Y+2", deck="Y1", pile="W", rules=NINE)
    state = after(state, "draw", rules=NINE)
    assert format_cards(state.pile) == "Y+2 W"
    assert not state.deck.any()


@both_seats
@pytest.mark.parametrize(
    ("mine", "theirs", "top", "penalty", "deck", "pile", "result"),
    [
        ("R1 R2 R3", "R4 R5 Y1 W W+4", "Y+2", 0, "", "", "mine"),
        ("R1 R2 R3 R4", "R5 Y1 W W+4", "Y+2", 0, "", "", "drawn"),
        ("R1 R2 R3 R4 R5", "Y1 W W+4", "Y+2", 0, "", "", "theirs"),
        ("R1 R2", "R3 R4 R5 Y1 W+4", "Y+2", 2, "", "W", "mine"),
        ("R1 R2 R3", "R4 R5 Y1 W+4", "Y+2", 2, "W", "", "mine"),
        ("R1 R2 R3 R4", "R5 Y1 W W+4", "Y+2", 2, "", "", "drawn"),
        ("R1 R2 R3 R4 Y1", "R5 W", "Y+2", 2, "W+4", "", "theirs"),
        ("R1", "R2 R3 R4 R5", "W+4", 4, "Y1", "W Y+2", "mine"),
        ("R1 R2 R3", "R4 R5 Y1", "W+4", 4, "W", "Y+2", "drawn"),
        ("R1 R2 R3 R4", "R5", "W+4", 4, "Y+2 Y1 W", "", "theirs"),
        ("R1 R2 R3 R4", "R5", "W+4", 4, "", "Y+2 Y1 W", "theirs"),
    ],
)
def test_an_impossible_draw_ends_the_game(
    seat: int, mine: str, theirs: str, top: str, penalty: int, deck: str, pile: str, result: str
):
    """Fewer cards in hand win, equal hands draw; nothing is drawn, the pile is back in the deck, player and penalty stay."""
    start = seated(seat, mine, theirs, top, color="yellow", deck=deck, pile=pile, penalty=penalty, rules=NINE)
    state = after(start, "draw", rules=NINE)
    winner = {"mine": seat, "theirs": 1 - seat, "drawn": -1}[result]
    assert (state.terminated, state.truncated, state.winner) == (True, False, winner)
    expected = [0.0, 0.0] if winner < 0 else [1.0 if player == winner else -1.0 for player in (0, 1)]
    assert state.rewards.tolist() == expected
    assert Counter(hand(state, seat).split()) == Counter(mine.split())
    assert Counter(hand(state, 1 - seat).split()) == Counter(theirs.split())
    assert format_cards(state.pile) == top
    assert Counter(format_cards(state.deck).split()) == Counter(f"{deck} {pile}".split())
    assert (state.current_player, state.penalty, state.step_count, state.last_action) == (seat, penalty, 1, cards.DRAW)


# The end


@both_seats
@pytest.mark.parametrize("action", ["R5", "RS", "RR", "R+2", "W:B", "W+4:G"])
def test_the_last_card_wins_at_once_whatever_it_is(seat: int, action: str):
    """Its effect does not come to pass: no penalty is left, and the winner is the player who moved last."""
    state = after(seated(seat, action.partition(":")[0], "G1 G2", "R7"), action)
    assert (state.terminated, state.winner, state.penalty, state.current_player) == (True, seat, 0, seat)
    assert state.rewards.tolist() == ([1.0, -1.0] if seat == 0 else [-1.0, 1.0])


def test_a_finished_game_is_a_fixed_point_with_zero_reward():
    """Every action is legal and ignored, an illegal or impossible number too."""
    won = after(make_state("R5", "G1 G2", "R7"), "R5")
    tied = after(make_state("R1 R2 R3 R4", "R5 Y1 W W+4", "Y+2", deck="", rules=NINE), "draw", rules=NINE)
    cut = after(make_state("R1 R2", "Y1 W W+4", "R3", deck="R4 R5 Y+2", rules=SHORT), "R1", "Y1", rules=SHORT)
    assert cut.truncated
    for state, rules in ((won, Rules()), (tied, NINE), (cut, SHORT)):
        assert jitted_mask(state, rules=rules).all()
        for action in (cards.DRAW, parse_action("G1"), 1000, -1):
            again = jitted_step(state, np.int32(action), jax.random.key(0), rules=rules)
            assert_trees_equal(again, replace(state, rewards=jnp.zeros(2)))


def test_max_steps_truncates_a_game_that_is_not_over_by_then():
    """It is nobody's win and not terminated; the last allowed step still pays its step penalty."""
    start = make_state("R1 R2 R3", "Y1 W W+4", "R4", deck="R5 Y+2", rules=SHORT)
    one = after(start, "R1", rules=SHORT)
    assert (one.truncated, one.is_over) == (False, False)
    two = after(one, "Y1", rules=SHORT)
    assert (two.truncated, two.terminated, two.is_over, two.winner, two.step_count) == (True, False, True, -1, 2)
    assert two.rewards.tolist() == [-0.25, -0.25]


def test_a_win_on_the_last_allowed_step_is_a_win():
    state = after(make_state("R1", "Y1", "R4", pile="R2 R3 R5 Y+2 W W+4", rules=SHORT), "R1", rules=SHORT)
    assert (state.terminated, state.truncated, state.winner) == (True, False, 0)
    state = after(make_state("R1 R2", "Y1", "R4", pile="R3 R5 Y+2 W W+4", rules=SHORT), "R1", "Y1", rules=SHORT)
    assert (state.terminated, state.truncated, state.winner) == (True, False, 1)
    assert state.rewards.tolist() == [-1.0, 1.0]


def test_the_step_penalty_is_paid_by_both_at_each_step_that_does_not_end_the_game():
    state = after(make_state("R1 R2", "Y1 W W+4", "R4", deck="R3 R5 Y+2", rules=SHORT), "R1", rules=SHORT)
    assert state.rewards.tolist() == [-0.25, -0.25]
    state = after(make_state("R1", "Y1 W W+4", "R4", pile="R2 R3 R5 Y+2", rules=SHORT), "R1", rules=SHORT)
    assert state.rewards.tolist() == [1.0, -1.0]


# Wrong actions


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_an_illegal_or_out_of_range_action_only_sets_its_error_bit(dtype: Any):
    """No index is trusted: -1 is not the last action, 61 is not clamped to Draw, 256 does not wrap around to 0."""
    state = replace(make_state("R5 W", "G1", "R7"), rewards=jnp.array([3.0, 4.0]))
    info = np.iinfo(dtype)
    expected = {
        parse_action("G1"): Error.ILLEGAL_ACTION,
        cards.DRAW: Error.ILLEGAL_ACTION,
        **{n: Error.ACTION_OUT_OF_RANGE for n in (-1000, -61, -1, 61, 127, 255, 256, 1000) if info.min <= n <= info.max},
        int(info.max): Error.ACTION_OUT_OF_RANGE,
    }
    tried = jnp.array(list(expected), dtype)
    after_all = jax.vmap(jitted_step, in_axes=(None, 0, None))(state, tried, jax.random.key(0))
    for index, bit in enumerate(expected.values()):
        result = jax.tree.map(lambda x, i=index: x[i], after_all)
        assert_trees_equal(result, replace(state, rewards=jnp.zeros(2), error=jnp.uint8(bit)))


def test_a_python_int_is_an_action():
    state = make_state("R5 W", "G1", "R7")
    assert jitted_step(state, parse_action("R5"), jax.random.key(0)).error == 0
    assert jitted_step(state, 1000, jax.random.key(0)).error == Error.ACTION_OUT_OF_RANGE


def test_error_bits_stay_and_add_up():
    """The game goes on after a wrong action, and what was wrong is not forgotten."""
    state = make_state("R5 W", "G1", "R7")
    for action, error, steps in ((cards.DRAW, 1, 0), (99, 3, 0), (parse_action("R5"), 3, 1)):
        state = jitted_step(state, np.int32(action), jax.random.key(0))
        assert (state.error, state.step_count) == (error, steps)
    assert Error(int(state.error)) == Error.ILLEGAL_ACTION | Error.ACTION_OUT_OF_RANGE


@pytest.mark.parametrize("action", [1.0, True, np.array([1, 2])], ids=["float", "bool", "array"])
def test_an_action_of_another_kind_is_refused_while_tracing(action: Any):
    with pytest.raises(AssertionError):
        game.step(make_state("R5 W", "G1", "R7"), action, jax.random.key(0))


def test_step_checked_raises_where_step_sets_a_bit():
    state = make_state("R5 W", "G1", "R7")
    checked = jax.jit(checkify.checkify(game.step_checked))
    error, result = checked(state, np.int32(parse_action("R5")), jax.random.key(0))
    error.throw()
    assert_trees_equal(result, jitted_step(state, np.int32(parse_action("R5")), jax.random.key(0)))
    for action, message in (
        (cards.DRAW, "action 60 is not legal for player 0 on step 0"),
        (61, r"action must be in 0\.\.60, got 61"),
        (-1, r"action must be in 0\.\.60, got -1"),
    ):
        error, _ = checked(state, np.int32(action), jax.random.key(0))
        with pytest.raises(checkify.JaxRuntimeError, match=message):
            error.throw()


# The contract of the functions


@functools.cache
def positions() -> State:
    """State[6]: positions that take every way through a step, for `NINE`."""
    texts = [
        "R1,R2/R3,W/R4,R5,Y+2,W+4/0 Y1 0 0 0 - *",
        "R2,R3/Y1,W/R4,R5,W+4/1 Y+2 0 0 0 - *",
        "R1,R2/Y1,W/R3,R4,R5,W+4/0 Y+2 0 2 0 - *",
        "R1,R2/Y1,R5/R3/3 W+4:B 1 4 0 - *",
        "R1,R2,R3,R4/R5,Y1,W,W+4/-/0 Y+2 0 0 0 - *",
        "R1,R2/R3,W/R4,R5,Y+2,W+4/0 Y1 0 0 0 - *",
    ]
    return jax.tree.map(lambda *x: jnp.stack(x), *(parse_position(text, rules=NINE) for text in texts))


LONGEST = 3
"""Index of the position that goes through a reshuffle and four cards."""
ACTIONS = np.array([parse_action("R1"), cards.DRAW, cards.DRAW, cards.DRAW, cards.DRAW, 200], np.int32)


def test_jit_no_jit_and_vmap_agree():
    keys = jax.random.split(jax.random.key(0), len(ACTIONS))
    together = jax.jit(jax.vmap(functools.partial(game.step, rules=NINE)))(positions(), ACTIONS, keys)
    masks = jax.vmap(functools.partial(game.legal_mask, rules=NINE))(positions())
    for index, action in enumerate(ACTIONS):
        one = jax.tree.map(lambda x, i=index: x[i], positions())
        jitted = jitted_step(one, action, keys[index], rules=NINE)
        assert_trees_equal(jax.tree.map(lambda x, i=index: x[i], together), jitted)
        if index == LONGEST:
            # Operation by operation this takes seconds, so one position has to do.
            assert_trees_equal(game.step(one, action, keys[index], rules=NINE), jitted)
            np.testing.assert_array_equal(game.legal_mask(one, rules=NINE), masks[index])


def test_step_keeps_structure_shapes_dtypes_and_weak_types_of_init():
    """So a state can be carried through a scan, and a second call does not compile."""
    key = jax.random.key(0)
    start = jax.eval_shape(game.init, key)
    for action in (0, np.int32(0), np.int8(0)):
        for make in (game.step, functools.partial(game.step, rules=SHORT)):
            assert_shapes_equal(jax.eval_shape(make, start, action, key), start)
    assert_shapes_equal(make_state("R5", "G1", "R7"), start)


def assert_shapes_equal(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)


def test_dtypes_and_shapes_are_those_of_the_contract():
    state = jax.eval_shape(game.init, jax.random.key(0))
    expected = {
        "hands": ((2, 108), "bool"),
        "deck": ((108,), "bool"),
        "pile": ((108,), "bool"),
        "rewards": ((2,), "float32"),
        "step_count": ((), "int32"),
        "error": ((), "uint8"),
        **dict.fromkeys(("terminated", "truncated"), ((), "bool")),
        **dict.fromkeys(("top_rank", "color", "current_player", "penalty", "winner", "last_action"), ((), "int8")),
    }
    assert {name: (x.shape, str(x.dtype)) for name, x in vars(state).items()} == expected


def test_cards_are_conserved_by_type_in_every_step_of_random_games():
    """For each type, hands, deck and pile add up to the deck of the rules, and every set is canonical."""
    states = play(0, num_games=300, num_steps=320, rules=Rules()).states
    sets = np.concatenate([states.hands, states.deck[:, :, None], states.pile[:, :, None]], 2)
    held = counts_of(sets)
    assert (held.sum(2) == cards.COPIES).all()
    np.testing.assert_array_equal(held[..., cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT, sets)
    assert states.terminated[:, -1].any()


def test_a_second_call_does_not_compile():
    num_traces = 0

    @jax.jit
    def advance(state: State, key: jax.Array) -> State:
        nonlocal num_traces
        num_traces += 1
        action = jnp.argmax(game.legal_mask(state, rules=NINE))
        return game.step(state, action, key, rules=NINE)

    state = parse_position("R1,R2/R3,W/R4,R5,Y+2,W+4/0 Y1 0 0 0 - *", rules=NINE)
    for seed in range(3):
        state = advance(state, jax.random.key(seed))
    assert (num_traces, state.step_count) == (1, 3)


# Chance


NUM_SAMPLES = 20_000


@functools.cache
def starts(rules: Rules) -> State:
    """State[NUM_SAMPLES]: new games."""
    keys = jax.random.split(jax.random.key(3), NUM_SAMPLES)
    return jax.device_get(jax.jit(jax.vmap(functools.partial(game.init, rules=rules)))(keys))


ANY = Rules(start_card="any", first_player="random")


@pytest.mark.parametrize("rules", [Rules(), ANY], ids=["non_wild", "any"])
def test_a_new_game_is_seven_cards_each_and_one_turned_up(rules: Rules):
    """The start card has no effect and no penalty is pending, whatever it is."""
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
    if rules.first_player == "zero":
        assert (games.current_player == 0).all()


@pytest.mark.parametrize("rules", [Rules(), ANY], ids=["non_wild", "any"])
def test_each_hand_is_a_uniform_deal(rules: Rules):
    """Wilds go to hands as often as they should, though they may not turn up; the hands show no preference among the types."""
    for player in (0, 1):
        held = counts_of(starts(rules).hands[:, player])
        wilds = np.bincount(np.minimum(held[:, 52:].sum(-1), 3), minlength=4)
        law = [math.comb(8, n) * math.comb(100, 7 - n) / math.comb(108, 7) for n in range(3)]
        assert_distributed(wilds, [*law, 1 - sum(law)])
        # Cards of one hand repel each other, so the statistic is smaller than chi-square and a right program fails even less.
        assert_distributed(held.sum(0), cards.COPIES / 108)


def test_the_start_card_is_a_uniform_colored_card_under_non_wild():
    """A Wild or Wild+4 is put back and another card is turned up: never is one on top."""
    assert_distributed(counts_of(starts(Rules()).pile).sum(0), np.where(cards.COLOR_OF_TYPE >= 0, cards.COPIES, 0) / 100)


def test_the_start_card_is_any_card_under_any_and_a_wild_has_a_uniform_color():
    games = starts(ANY)
    assert_distributed(counts_of(games.pile).sum(0), cards.COPIES / 108)
    for rank in (cards.WILD, cards.WILD_DRAW_FOUR):
        assert_distributed(np.bincount(games.color[games.top_rank == rank], minlength=4), np.full(4, 1 / 4))


def test_a_random_first_player_is_a_fair_coin_independent_of_the_color():
    games = starts(ANY)
    is_wild = games.top_rank >= cards.WILD
    assert_distributed(np.bincount(games.current_player, minlength=2), [1 / 2, 1 / 2])
    assert_distributed(np.bincount(games.current_player[is_wild] * 4 + games.color[is_wild], minlength=8), np.full(8, 1 / 8))


def test_one_card_is_drawn_uniformly_over_the_cards_of_the_deck():
    """Two red 5 in the deck are drawn twice as often as one."""
    start = make_state("G1 G2", "Y1 W W", "B7")
    drawn = draws_of(start, Rules())
    in_deck = counts_of(np.asarray(start.deck))
    assert_distributed(drawn.sum(0), in_deck / in_deck.sum())


def draws_of(state: State, rules: Rules) -> np.ndarray:
    """int[NUM_SAMPLES, 54]: the cards drawn from one position under many keys."""
    keys = jax.random.split(jax.random.key(4), NUM_SAMPLES)
    after_draw = many_steps(state, np.int32(cards.DRAW), keys, rules=rules)
    player = int(state.current_player)
    return counts_of(after_draw.hands[:, player]) - counts_of(state.hands[player])


@functools.partial(jax.jit, static_argnames="rules")
def many_steps(state: State, action: np.int32, keys: jax.Array, *, rules: Rules) -> State:
    """State[N]: one step from one state under N keys."""
    return jax.vmap(lambda key: game.step(state, action, key, rules=rules))(keys)


TEN = Rules(deck=deck_of("R1 R1 R2 R2 R3 Y+2 W W W+4 W+4"), hand_size=1)


@pytest.mark.parametrize(
    ("mine", "theirs", "top", "penalty", "deck", "pile"),
    [
        ("R3", "W", "Y+2", 0, "R1 R1 R2 R2 W W+4 W+4", ""),
        ("R3", "W", "Y+2", 2, "R1 R1 R2 R2 W W+4 W+4", ""),
        ("R3", "Y+2", "W+4", 4, "R1 R1 R2 R2 W W W+4", ""),
        ("R3", "W", "Y+2", 0, "", "R1 R1 R2 R2 W W+4 W+4"),
        ("R3", "W", "Y+2", 2, "R1", "R1 R2 R2 W W+4 W+4"),
        ("R3", "Y+2", "W+4", 4, "R1 R2 W", "R1 R2 W W+4"),
    ],
)
def test_draws_are_uniform_over_physical_cards_and_without_replacement(
    mine: str, theirs: str, top: str, penalty: int, deck: str, pile: str
):
    """Every set of k cards comes up as often as there are ways to take it, also when the pile went back into the deck first.

    P(J) = prod_t C(D_t, J_t) / C(|D|, k), the multivariate hypergeometric law.
    """
    state = make_state(mine, theirs, top, color="yellow", penalty=penalty, deck=deck, pile=pile, rules=TEN)
    k = max(penalty, 1)
    stock = f"{deck} {pile}".split()
    law = Counter(tuple(sorted(taken)) for taken in itertools.combinations(stock, k))
    seen = Counter(
        tuple(sorted(itertools.chain.from_iterable([cards.TYPE_NAMES[t]] * n for t, n in enumerate(row) if n)))
        for row in draws_of(state, TEN).tolist()
    )
    assert set(seen) <= set(law)
    assert_distributed([seen[taken] for taken in law], [n / math.comb(len(stock), k) for n in law.values()])


def test_the_statistical_test_notices_a_small_bias():
    """A card drawn one fifth too often in NUM_SAMPLES draws of seven does not pass."""
    biased = np.full(7, NUM_SAMPLES // 7)
    biased[0] += NUM_SAMPLES // 35
    assert scipy.stats.chisquare(biased, np.full(7, biased.sum() / 7)).pvalue < ERROR_PROBABILITY
