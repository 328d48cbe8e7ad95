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
from unojax import cards, game, pomdp
from unojax.game import Error, State
from unojax.games.record import play_game
from unojax.observation import observe
from unojax.rules import Rules
from unojax.text import format_cards, format_position, make_state, parse_action, parse_position

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


def test_error_bits_stay_and_add_up():
    """The game goes on after a wrong action, and what was wrong is not forgotten."""
    state = make_state("R5 W", "G1", "R7")
    for action, error, steps in ((cards.DRAW, 1, 0), (99, 3, 0), (parse_action("R5"), 3, 1)):
        state = jitted_step(state, np.int32(action), jax.random.key(0))
        assert (state.error, state.step_count) == (error, steps)
    assert Error(int(state.error)) == Error.ILLEGAL_ACTION | Error.ACTION_OUT_OF_RANGE


@pytest.mark.parametrize("action", [1.0, True, np.array([1, 2])], ids=["float", "bool", "array"])
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


def steps_of_positions() -> tuple[State, jax.Array]:
    """Positions for all actions at once: after a step, and their masks."""
    keys = jax.random.split(jax.random.key(0), len(ACTIONS))
    return jax.jit(jax.vmap(lambda state, action, key: (game.step(state, action, key), game.legal_mask(state))))(
        positions(), ACTIONS, keys
    )


def test_jit_and_vmap_agree():
    keys = jax.random.split(jax.random.key(0), len(ACTIONS))
    together, masks = steps_of_positions()
    for index, action in enumerate(ACTIONS):
        one = jax.tree.map(lambda x, i=index: x[i], positions())
        assert_trees_equal(jax.tree.map(lambda x, i=index: x[i], together), jitted_step(one, action, keys[index]))
        np.testing.assert_array_equal(jitted_mask(one), masks[index])


@pytest.mark.slow
def test_without_jit_a_step_is_the_same():
    """Operation by operation this takes seconds, so one position has to do."""
    key = jax.random.split(jax.random.key(0), len(ACTIONS))[LONGEST]
    one = jax.tree.map(lambda x: x[LONGEST], positions())
    assert_trees_equal(game.step(one, ACTIONS[LONGEST], key), jitted_step(one, ACTIONS[LONGEST], key))
    np.testing.assert_array_equal(game.legal_mask(one), jitted_mask(one))


def test_step_keeps_structure_shapes_dtypes_and_weak_types_of_init():
    """So a state can be carried through a scan, and a second call does not compile."""
    key = jax.random.key(0)
    for rules in (Rules(), SHORT):
        start = jax.eval_shape(functools.partial(game.init, rules=rules), key)
        for action in (0, np.int32(0), np.int8(0)):
            assert_shapes_equal(jax.eval_shape(game.step, start, action, key), start)
    start = jax.eval_shape(game.init, key)
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
        **dict.fromkeys(
            ("top_rank", "color", "current_player", "penalty", "winner", "last_action", "drawn", "contested"), ((), "int8")
        ),
    }
    assert {name: (x.shape, str(x.dtype)) for name, x in vars(state).items() if name != "rules"} == expected
    assert state.rules == Rules()


def test_cards_are_conserved_by_type_in_every_step_of_random_games():
    """For each type, hands, deck and pile add up to the deck of the rules, and every set is canonical."""
    states = play(0, num_steps=320, rules=Rules()).states
    sets = np.concatenate([states.hands, states.deck[:, :, None], states.pile[:, :, None]], 2)
    held = counts_of(sets)
    assert (held.sum(2) == cards.COPIES).all()
    np.testing.assert_array_equal(held[..., cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT, sets)
    assert states.terminated[:, -1].any()


# What comes to the border


def test_rules_go_with_the_state():
    """The keyword is accepted; rules that differ are an error and not another game."""
    state, key = make_state("R5 W", "G1", "R7", rules=SKIP_PASSES), jax.random.key(0)
    assert jax.eval_shape(functools.partial(game.init, rules=SHORT), key).rules == SHORT
    takes = {
        "step": functools.partial(game.step, state, 5, key),
        "step_checked": checkify.checkify(functools.partial(game.step_checked, state, 5, key)),
        "legal_mask": functools.partial(game.legal_mask, state),
        "observe": functools.partial(observe, state, 0),
        "transition_log_prob": functools.partial(pomdp.transition_log_prob, state, 5, state),
        "reward": functools.partial(pomdp.reward, state, 5, state),
    }
    for function in takes.values():
        for rules in (None, SKIP_PASSES):
            jax.eval_shape(lambda f=function, r=rules: f(rules=r))
        with pytest.raises(ValueError, match="skip_forfeits=True instead of False"):
            function(rules=Rules())
    with pytest.raises(ValueError, match="hand_size=1 instead of 7, deck of 9 cards instead of 108, max_steps=2"):
        game.step(make_state("R5", "G1", "R7"), 5, key, rules=SHORT)
    with pytest.raises(ValueError, match="skip_forfeits"):
        format_position(state, rules=Rules())
    with pytest.raises(ValueError, match="rules differ"):
        pomdp.transition_log_prob(state, 5, make_state("R5 W", "G1", "R7"))


@pytest.mark.parametrize("size", [1, 2, 108])
def test_a_batch_is_refused_with_the_way_to_map_over_it(size: int):
    """Batches of two states used to show both players' hands as one."""
    state, key = make_state("R5 W", "G1", "R7"), jax.random.key(0)
    states = jax.tree.map(lambda x: jnp.stack([x] * size), state)
    keys = jax.random.split(key, size)
    for name, function in {
        "init": lambda: game.init(keys),
        "step": lambda: game.step(states, 5, key),
        "legal_mask": lambda: game.legal_mask(states),
        "step_checked": lambda: game.step_checked(states, 5, key),
        "observe": lambda: observe(states, 0),
        "transition_log_prob": lambda: pomdp.transition_log_prob(state, 5, states),
        "reward": lambda: pomdp.reward(states, 5, state),
        "play_game": lambda: play_game(keys, num_steps=3),
    }.items():
        with pytest.raises(ValueError, match=rf"{name} takes a single .*jax\.vmap\({name}\)"):
            function()
    for name, function in {
        "step": lambda: game.step(state, jnp.full(size, 5), key),
        "step_checked": lambda: game.step_checked(state, jnp.full(size, 5), key),
        "a single key": lambda: game.step(state, 5, keys),
        "observe": lambda: observe(state, jnp.zeros(size, int)),
    }.items():
        with pytest.raises(ValueError, match=rf"{name}.*jax\.vmap"):
            function()


@pytest.mark.parametrize("key", [0, None, np.zeros(2), jnp.zeros((3, 2), jnp.uint32)], ids=["int", "None", "floats", "raw batch"])
def test_what_is_no_single_key_is_refused(key: Any):
    with pytest.raises(ValueError, match=r"init takes a (random|single) key"):
        game.init(key)
    jax.eval_shape(game.init, jax.random.PRNGKey(0))


def test_what_is_no_state_is_refused():
    with pytest.raises(ValueError, match="step takes a State, got Rules"):
        game.step(Rules(), 5, jax.random.key(0))  # type: ignore[arg-type] that is the test


def test_a_second_call_does_not_compile():
    num_traces = 0

    @jax.jit
    def advance(state: State, key: jax.Array) -> State:
        nonlocal num_traces
        num_traces += 1
        action = jnp.argmax(game.legal_mask(state))
        return game.step(state, action, key)

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
    drawn = draws_of(start)
    in_deck = counts_of(np.asarray(start.deck))
    assert_distributed(drawn.sum(0), in_deck / in_deck.sum())


def draws_of(state: State) -> np.ndarray:
    """int[NUM_SAMPLES, 54]: the cards drawn from one position under many keys."""
    keys = jax.random.split(jax.random.key(4), NUM_SAMPLES)
    after_draw = many_steps(state, np.int32(cards.DRAW), keys)
    player = int(state.current_player)
    return counts_of(after_draw.hands[:, player]) - counts_of(state.hands[player])


@jax.jit
def many_steps(state: State, action: np.int32, keys: jax.Array) -> State:
    """State[N]: one step from one state under N keys."""
    return jax.vmap(lambda key: game.step(state, action, key))(keys)


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
        for row in draws_of(state).tolist()
    )
    assert set(seen) <= set(law)
    assert_distributed([seen[taken] for taken in law], [n / math.comb(len(stock), k) for n in law.values()])


def test_the_statistical_test_notices_a_small_bias():
    """A card drawn one fifth too often in NUM_SAMPLES draws of seven does not pass."""
    biased = np.full(7, NUM_SAMPLES // 7)
    biased[0] += NUM_SAMPLES // 35
    assert scipy.stats.chisquare(biased, np.full(7, biased.sum() / 7)).pvalue < ERROR_PROBABILITY
