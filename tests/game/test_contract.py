"""The contract of the functions, and what comes to the border."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.game.few_cards import NINE, SHORT, SKIP_PASSES
from tests.helpers import (
    assert_trees_equal,
    counts_of,
    jitted_mask,
    jitted_step,
    play,
)
from unojax import cards, game, pomdp
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import observe
from unojax.rules import Rules
from unojax.text import format_position, make_state, parse_action, parse_position

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
    """What takes a state has no keyword for them; states of different rules do not belong together."""
    state, key = make_state("R5 W", "G1", "R7", rules=SKIP_PASSES), jax.random.key(0)
    assert jax.eval_shape(functools.partial(game.init, rules=SHORT), key).rules == SHORT
    assert jax.eval_shape(game.step, state, 5, key).rules == jax.eval_shape(observe, state, 0).rules == SKIP_PASSES
    of_states = (
        *(game.step, game.step_checked, game.legal_mask, observe, format_position),
        *(pomdp.transition_log_prob, pomdp.observation_log_prob, pomdp.reward),
    )
    assert not any("rules" in inspect.signature(function).parameters for function in of_states)
    for function in (pomdp.transition_log_prob, pomdp.reward):
        with pytest.raises(ValueError, match="skip_forfeits=True instead of False"):
            function(state, 5, make_state("R5 W", "G1", "R7"))
    with pytest.raises(ValueError, match="hand_size=1 instead of 7, deck of 9 cards instead of 108, max_steps=2"):
        pomdp.reward(make_state("R5", "G1", "R7"), 5, jax.eval_shape(functools.partial(game.init, rules=SHORT), key))


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
