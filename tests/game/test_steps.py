"""Finished games, rewards, and illegal or invalid actions; `test_positions.py` has the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import checkify

from tests.game.few_cards import NINE, SHORT
from tests.helpers import after, assert_trees_equal, jitted_mask, jitted_step, refusals
from unojax import cards, game
from unojax.game import Error, State
from unojax.game.steps import single_action
from unojax.text import make_state, parse_action

KEY = jax.random.key(0)


def test_a_finished_game_is_a_fixed_point_with_zero_reward():
    """Every action is legal and ignored, even an invalid number.

    Contract: finished games.
    """
    won = after(make_state("R5", "G1 G2", "R7"), "R5")
    tied = after(make_state("R1 R2 R3 R4", "R5 Y1 W W+4", "Y+2", deck="", rules=NINE), "draw")
    cut = after(make_state("R1 R2", "Y1 W W+4", "R3", deck="R4 R5 Y+2", rules=SHORT), "R1", "Y1")
    assert won.terminated and tied.terminated and cut.truncated
    for state in (won, tied, cut):
        assert jitted_mask(state).all()
        for action in (cards.DRAW, parse_action("G1"), 1000, -1):
            assert_trees_equal(jitted_step(state, np.int32(action), KEY), replace(state, rewards=np.zeros(2, np.float32)))


def test_rewards_are_of_the_end_and_the_step_penalty_of_each_step_before_it():
    """Including the last allowed step.

    Contract: rewards.
    """
    for start, played, rewards in (
        (make_state("R5", "G1 G2", "R7"), ["R5"], [1, -1]),
        (make_state("R5 R6", "R8", "R7"), ["R5", "R8"], [-1, 1]),
        (make_state("R5 R6", "R8", "R7"), ["R5"], [0, 0]),
        (make_state("R1 R2 R3 R4", "R5 Y1 W W+4", "Y+2", deck="", rules=NINE), ["draw"], [0, 0]),
        (make_state("R1 R2", "Y1 W W+4", "R4", deck="R3 R5 Y+2", rules=SHORT), ["R1"], [-0.25, -0.25]),
        (make_state("R1 R2", "Y1 W W+4", "R4", deck="R3 R5 Y+2", rules=SHORT), ["R1", "Y1"], [-0.25, -0.25]),
        (make_state("R1", "Y1 W W+4", "R4", pile="R2 R3 R5 Y+2", rules=SHORT), ["R1"], [1, -1]),
    ):
        assert after(start, *played).rewards.tolist() == rewards


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_an_illegal_or_out_of_range_action_only_sets_its_error_bit(dtype: Any):
    """-1 is not the last action, 61 is not clamped to Draw, 256 does not wrap around to 0.

    Contract: error bits.
    """
    state = jax.device_get(replace(make_state("R5 W", "G1", "R7"), rewards=np.array([3, 4], np.float32)))
    info = np.iinfo(dtype)
    expected = {
        parse_action("G1"): Error.ILLEGAL_ACTION,
        cards.DRAW: Error.ILLEGAL_ACTION,
        **{n: Error.ACTION_OUT_OF_RANGE for n in (-1000, -61, -1, 61, 127, 255, 256, 1000) if info.min <= n <= info.max},
        int(info.max): Error.ACTION_OUT_OF_RANGE,
    }
    for number, bit in expected.items():
        if dtype == np.int32:
            result = jitted_step(state, dtype(number), KEY)
            assert_trees_equal(result, replace(state, rewards=np.zeros(2, np.float32), error=np.uint8(bit)))
        else:
            error, step_count, last_action, rewards = bookkeeping(state, dtype(number))
            assert (error, step_count, last_action, rewards.tolist()) == (bit, 0, -1, [0, 0])


@jax.jit
def bookkeeping(state: State, action: jax.Array) -> tuple[jax.Array, ...]:
    """Return the fields that every step changes: they compile faster than a whole step."""
    after = game.step(state, action, KEY)
    return after.error, after.step_count, after.last_action, after.rewards


def test_integers_of_any_size_and_library_are_actions():
    """Truncated to 32 bits, the large ones would be legal plays."""
    state = make_state("R5 R0", "B2", "R9")
    assert jitted_step(state, parse_action("R5"), KEY).error == 0
    for action in (2**32 + 5, np.int64(2**32 + 5), np.uint64(2**63 + 5), np.array(2**32 + 5), -(2**40), 2**31, 1000):
        tried = jitted_step(state, single_action(action, "step"), KEY)
        assert int(tried.error) == Error.ACTION_OUT_OF_RANGE and int(tried.hands[0].sum()) == 2


def test_actions_of_another_kind_are_refused_while_tracing():
    state = make_state("R5 W", "G1", "R7")
    kinds = {"float": 1.0, "bool": True, "array": np.array([1, 2]), "text": "R5"}
    refusals({f"action ({kind})": lambda action=action: game.step(state, action, KEY) for kind, action in kinds.items()})


def test_error_bits_stay_and_add_up():
    """The game continues after a wrong action, and the bits stay."""
    state = make_state("R5 W", "G1", "R7")
    for action, error, steps in ((cards.DRAW, 1, 0), (99, 3, 0), (parse_action("R5"), 3, 1)):
        state = jitted_step(state, np.int32(action), KEY)
        assert (state.error, state.step_count) == (error, steps)
    assert Error(int(state.error)) == Error.ILLEGAL_ACTION | Error.ACTION_OUT_OF_RANGE


def test_step_checked_raises_where_step_sets_a_bit():
    """Contract: checkify."""
    state = make_state("R5 W", "G1", "R7")
    checked = jax.jit(checkify.checkify(game.step_checked))
    error, result = checked(state, np.int32(parse_action("R5")), KEY)
    error.throw()
    assert_trees_equal(result, jitted_step(state, np.int32(parse_action("R5")), KEY))
    for action, message in (
        (cards.DRAW, "action 60 is not legal for player 0 on step 0"),
        (61, r"action must be in 0\.\.60, got 61"),
        (-1, r"action must be in 0\.\.60, got -1"),
    ):
        error, _ = checked(state, np.int32(action), KEY)
        with pytest.raises(checkify.JaxRuntimeError, match=message):
            error.throw()
