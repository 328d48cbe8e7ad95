"""The contract of the functions, and rejected arguments."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.game.few_cards import NINE, SHORT
from tests.helpers import assert_trees_equal, counts_of, jitted_mask, jitted_step, refusals
from unojax import cards, game, pomdp
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import observe
from unojax.rules import Rules
from unojax.text import format_position, make_state, parse_action, parse_position

KEY = jax.random.key(0)
POSITIONS = {
    "R1,R2/R3,W/R4,R5,Y+2,W+4/0 Y1 0 0 0 - *": parse_action("R1"),
    "R2,R3/Y1,W/R4,R5,W+4/1 Y+2 0 0 0 - *": cards.DRAW,
    "R1,R2/Y1,W/R3,R4,R5,W+4/0 Y+2 0 2 0 - *": cards.DRAW,
    "R1,R2/Y1,R5/R3/3 W+4:B 1 4 0 - *": cards.DRAW,
    "R1,R2,R3,R4/R5,Y1,W,W+4/-/0 Y+2 0 0 0 - *": cards.DRAW,
    "R1,R2/R3,W/R4,R5,Y+2,W+4/0 Y1 0 0 0 - * ": 200,
}
"""Positions of `NINE` and actions: together they take every way through a step."""
LONGEST = 3
"""Index of the position that goes through a reshuffle and four cards."""


def test_jit_and_vmap_agree():
    """Contract: pure functions."""
    states = [jax.device_get(parse_position(text, rules=NINE)) for text in POSITIONS]
    actions = np.array([*POSITIONS.values()], np.int32)
    keys = jax.random.split(KEY, len(actions))
    both = jax.jit(jax.vmap(lambda state, action, key: (game.step(state, action, key), game.legal_mask(state))))
    together = jax.device_get(both(jax.tree.map(lambda *x: np.stack(x), *states), actions, keys))
    for index, state in enumerate(states):
        alone = jitted_step(state, actions[index], keys[index]), jitted_mask(state)
        assert_trees_equal(jax.tree.map(lambda x, i=index: x[i], together), jax.device_get(alone))


@pytest.mark.slow
def test_without_jit_a_step_is_the_same():
    """One position, because single operations take seconds."""
    text, action = [*POSITIONS.items()][LONGEST]
    state = parse_position(text, rules=NINE)
    assert_trees_equal(game.step(state, action, KEY), jitted_step(state, np.int32(action), KEY))
    np.testing.assert_array_equal(game.legal_mask(state), jitted_mask(state))


def test_step_keeps_structure_shapes_dtypes_and_weak_types_of_init():
    """A state can thus be carried through a scan, and a second call does not compile."""
    for rules in (Rules(), SHORT):
        start = jax.eval_shape(functools.partial(game.init, rules=rules), KEY)
        assert start.rules == rules
        for action in (0, np.int32(0), np.int8(0)):
            assert_shapes_equal(jax.eval_shape(game.step, start, action, KEY), start)
    start = jax.eval_shape(game.init, KEY)
    for made in (make_state("R5", "G1", "R+2"), parse_position("R5/G1/-/* R2 0 0 9 R2 *")):
        assert_shapes_equal(made, start)


def assert_shapes_equal(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)


def test_fields_of_a_state():
    """Contract: fields of State."""
    state = jax.eval_shape(game.init, KEY)
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


@pytest.mark.parametrize("name", ["default", "few cards"])
def test_cards_are_conserved_by_type_in_every_step_of_random_games(name: str):
    """Contract: conservation of cards; canonical one-hot."""
    states = corpus.games(name).states
    sets = np.concatenate([states.hands, states.deck[:, :, None], states.pile[:, :, None]], 2)
    held = counts_of(sets)
    assert (held.sum(2) == np.array(corpus.RULES[name].deck)).all()
    np.testing.assert_array_equal(held[..., cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT, sets)


def test_rules_go_with_the_state():
    """States of different rules are rejected.

    Contract: rules of a state.
    """
    passes = make_state("R5 W", "G1", "R7", rules=Rules(skip_forfeits=False))
    assert jax.eval_shape(game.step, passes, 5, KEY).rules == jax.eval_shape(observe, passes, 0).rules == passes.rules
    of_states = (
        *(game.step, game.step_checked, game.legal_mask, observe, format_position),
        *(pomdp.transition_log_prob, pomdp.observation_log_prob, pomdp.reward),
    )
    assert not any("rules" in inspect.signature(function).parameters for function in of_states)
    default, short = make_state("R5 W", "G1", "R7"), jax.eval_shape(functools.partial(game.init, rules=SHORT), KEY)
    refusals(
        {
            "skip_forfeits=True instead of False": lambda: pomdp.transition_log_prob(passes, 5, default),
            "skip_forfeits=True instead of False (reward)": lambda: pomdp.reward(passes, 5, default),
            "hand_size=1 instead of 7, deck of 9 cards instead of 108, max_steps=2": lambda: pomdp.reward(default, 5, short),
        }
    )


@pytest.mark.parametrize("size", [1, 2, 108])
def test_a_batch_is_refused_with_the_way_to_map_over_it(size: int):
    """A batch of two states could show both players' hands as one.

    Contract: no batches.
    """

    def batch(tree: Any) -> Any:
        return jax.tree.map(lambda x: np.stack([x] * size), tree)

    state = jax.device_get(make_state("R5 W", "G1", "R7"))
    seen = jax.device_get(jax.jit(observe)(state, 0))
    states, keys = batch(state), jax.random.split(KEY, size)
    of_batches = {
        "init": lambda: game.init(keys),
        "step": lambda: game.step(states, 5, KEY),
        "legal_mask": lambda: game.legal_mask(states),
        "step_checked": lambda: game.step_checked(states, 5, KEY),
        "observe": lambda: observe(states, 0),
        "transition_log_prob": lambda: pomdp.transition_log_prob(state, 5, states),
        "reward": lambda: pomdp.reward(states, 5, state),
        "observation_log_prob": lambda: pomdp.observation_log_prob(batch(seen), state),
        "observe (in observation_log_prob)": lambda: pomdp.observation_log_prob(seen, states),
        "play_game": lambda: play_game(keys, num_steps=3),
        "step (action)": lambda: game.step(state, np.full(size, 5), KEY),
        "step_checked (action)": lambda: game.step_checked(state, np.full(size, 5), KEY),
        "step (key)": lambda: game.step(state, 5, keys),
        "observe (player)": lambda: observe(state, np.zeros(size, int)),
    }
    refusals({f"jax.vmap({name.partition(' ')[0]}) ({name})": call for name, call in of_batches.items()})


def test_other_arguments_are_refused():
    """Keys of any kind are accepted; other values raise with the function's name."""
    jax.eval_shape(game.init, jax.random.PRNGKey(0))
    kinds = {"int": 0, "None": None, "floats": np.zeros(2), "raw batch": np.zeros((3, 2), np.uint32)}
    refusals(
        {f"init takes a ({name})": lambda key=key: game.init(key) for name, key in kinds.items()}
        | {"step takes a State, got Rules": lambda: game.step(Rules(), 5, KEY)}
    )
    state, wrong = game.init(KEY), dict[str, Any](text="0", nothing=None)
    refusals(
        {f"action must be an integer 0..60, got ({name})": lambda no=no: game.step(state, no, KEY) for name, no in wrong.items()}
        | {f"player must be 0 or 1, got ({name})": lambda no=no: observe(state, no) for name, no in wrong.items()}
    )


def test_a_second_call_does_not_compile():
    num_traces = 0

    @jax.jit
    def advance(state: State, key: jax.Array) -> State:
        nonlocal num_traces
        num_traces += 1
        return game.step(state, jnp.argmax(game.legal_mask(state)), key)

    state = parse_position("R1,R2/R3,W/R4,R5,Y+2,W+4/0 Y1 0 0 0 - *", rules=NINE)
    for seed in range(3):
        state = advance(state, jax.random.key(seed))
    assert (num_traces, state.step_count) == (1, 3)
