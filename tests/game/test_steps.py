"""The rules one by one, on crafted positions from both seats."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from tests.game.few_cards import NINE, SHORT, SKIP_PASSES
from tests.helpers import (
    actions,
    after,
    assert_trees_equal,
    hand,
    jitted_mask,
    jitted_step,
    legal,
    seated,
)
from unojax import cards, game
from unojax.game import Error, State
from unojax.game.steps import single_action
from unojax.rules import Rules
from unojax.text import format_cards, make_state, parse_action

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
    state = after(start, action)
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
    state = after(state, "draw")
    assert hand(state, seat) == "R1 Y1"
    assert (state.current_player, state.penalty, state.last_action) == (1 - seat, 0, cards.DRAW)
    assert not state.deck.any()


@both_seats
@pytest.mark.parametrize(("top", "penalty", "deck"), [("Y+2", 2, "R1 R2"), ("W+4", 4, "R1 R2 R3 R4")])
def test_a_penalty_is_drawn_and_the_turn_goes_back(seat: int, top: str, penalty: int, deck: str):
    """As many cards as are pending, none played; the draw counts as one step and the penalty is served."""
    rest = " ".join(name for name in "R3 R4 R5 Y1 W W+4 Y+2".split() if name not in (*deck.split(), top, "R5"))
    state = seated(seat, "R5", rest, top, color="yellow", deck=deck, penalty=penalty, rules=NINE)
    state = after(state, "draw")
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
    state = after(start, "draw")
    assert format_cards(state.pile) == top
    assert hand(state, 1 - seat) == rest
    drawn, left = Counter(hand(state, seat).split()) - Counter(["R1"]), Counter(format_cards(state.deck).split())
    assert drawn + left == Counter(f"{deck} {pile}".split())
    assert drawn.total() == max(penalty, 1)
    assert (state.current_player, state.penalty, state.terminated, state.step_count) == (1 - seat, 0, False, 1)


def test_a_deck_that_just_suffices_is_not_filled():
    """The pile stays where it is as long as the deck has all the cards that are due."""
    state = make_state("R1", "R2 R3 R4 R5 W+4", "Y+2", deck="Y1", pile="W", rules=NINE)
    state = after(state, "draw")
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
    state = after(start, "draw")
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
    tied = after(make_state("R1 R2 R3 R4", "R5 Y1 W W+4", "Y+2", deck="", rules=NINE), "draw")
    cut = after(make_state("R1 R2", "Y1 W W+4", "R3", deck="R4 R5 Y+2", rules=SHORT), "R1", "Y1")
    assert cut.truncated
    for state in (won, tied, cut):
        assert jitted_mask(state).all()
        for action in (cards.DRAW, parse_action("G1"), 1000, -1):
            again = jitted_step(state, np.int32(action), jax.random.key(0))
            assert_trees_equal(again, replace(state, rewards=jnp.zeros(2)))


def test_max_steps_truncates_a_game_that_is_not_over_by_then():
    """It is nobody's win and not terminated; the last allowed step still pays its step penalty."""
    start = make_state("R1 R2 R3", "Y1 W W+4", "R4", deck="R5 Y+2", rules=SHORT)
    one = after(start, "R1")
    assert (one.truncated, one.is_over) == (False, False)
    two = after(one, "Y1")
    assert (two.truncated, two.terminated, two.is_over, two.winner, two.step_count) == (True, False, True, -1, 2)
    assert two.rewards.tolist() == [-0.25, -0.25]


def test_a_win_on_the_last_allowed_step_is_a_win():
    state = after(make_state("R1", "Y1", "R4", pile="R2 R3 R5 Y+2 W W+4", rules=SHORT), "R1")
    assert (state.terminated, state.truncated, state.winner) == (True, False, 0)
    state = after(make_state("R1 R2", "Y1", "R4", pile="R3 R5 Y+2 W W+4", rules=SHORT), "R1", "Y1")
    assert (state.terminated, state.truncated, state.winner) == (True, False, 1)
    assert state.rewards.tolist() == [-1.0, 1.0]


def test_the_step_penalty_is_paid_by_both_at_each_step_that_does_not_end_the_game():
    state = after(make_state("R1 R2", "Y1 W W+4", "R4", deck="R3 R5 Y+2", rules=SHORT), "R1")
    assert state.rewards.tolist() == [-0.25, -0.25]
    state = after(make_state("R1", "Y1 W W+4", "R4", pile="R2 R3 R5 Y+2", rules=SHORT), "R1")
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
    for number, bit in expected.items():
        if dtype == np.int32:
            result = jitted_step(state, dtype(number), jax.random.key(0))
            assert_trees_equal(result, replace(state, rewards=jnp.zeros(2), error=jnp.uint8(bit)))
        else:
            error, step_count, last_action, rewards = bookkeeping(state, dtype(number))
            assert (error, step_count, last_action, rewards.tolist()) == (bit, 0, -1, [0, 0])


@jax.jit
def bookkeeping(state: State, action: jax.Array) -> tuple[jax.Array, ...]:
    """What shows whether a step was taken: compiles faster than a whole step."""
    after = game.step(state, action, jax.random.key(0))
    return after.error, after.step_count, after.last_action, after.rewards


def test_a_python_int_is_an_action():
    state = make_state("R5 W", "G1", "R7")
    assert jitted_step(state, parse_action("R5"), jax.random.key(0)).error == 0
    assert jitted_step(state, 1000, jax.random.key(0)).error == Error.ACTION_OUT_OF_RANGE


@pytest.mark.parametrize("action", [2**32 + 5, np.int64(2**32 + 5), np.uint64(2**63 + 5), np.array(2**32 + 5), -(2**40), 2**31])
def test_an_integer_that_no_program_can_hold_is_out_of_range(action: Any):
    """In 32 bits the first ones would be legal plays."""
    state = make_state("R5 R0", "B2", "R9")
    after = jitted_step(state, single_action(action, "step"), jax.random.key(0))
    assert int(after.error) == Error.ACTION_OUT_OF_RANGE and int(after.hands[0].sum()) == 2


def test_error_bits_stay_and_add_up():
    """The game goes on after a wrong action, and what was wrong is not forgotten."""
    state = make_state("R5 W", "G1", "R7")
    for action, error, steps in ((cards.DRAW, 1, 0), (99, 3, 0), (parse_action("R5"), 3, 1)):
        state = jitted_step(state, np.int32(action), jax.random.key(0))
        assert (state.error, state.step_count) == (error, steps)
    assert Error(int(state.error)) == Error.ILLEGAL_ACTION | Error.ACTION_OUT_OF_RANGE


@pytest.mark.parametrize("action", [1.0, True, np.array([1, 2]), "R5"], ids=["float", "bool", "array", "text"])
def test_an_action_of_another_kind_is_refused_while_tracing(action: Any):
    with pytest.raises(ValueError, match="action"):
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
