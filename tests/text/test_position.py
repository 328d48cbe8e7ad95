"""Positions as text: what is read, what is refused, and that everything comes back."""

from __future__ import annotations

import functools
import re

import chex
import jax
import numpy as np
import pytest

from tests.helpers import deck_of, slow_but
from tests.text.states import NUM_LINES, RULES, TINY, one, shown, slots, some_states
from unojax import cards, game, text
from unojax.decks import small_deck
from unojax.game import State
from unojax.games.replay import replay
from unojax.rules import Rules

STACKED = Rules(stacking=True)

# make_state


def test_a_made_state_holds_what_was_asked_for():
    state = jax.device_get(text.make_state("R5 W", "G+2 YS YS", "R+2", pile="B1 B2", player=1, penalty=2))
    assert shown(state.hands[0]) == slots("R5", "W")
    assert shown(state.hands[1]) == slots("G+2", "YS", "YS")
    assert shown(state.pile) == slots("R+2", "B1", "B2")
    counts = [np.asarray(cards.counts(c)) for c in (*state.hands, state.pile, state.deck)]
    np.testing.assert_array_equal(sum(counts), cards.COPIES)
    assert (state.top_rank, state.color, state.current_player, state.penalty) == (12, 0, 1, 2)
    assert (state.terminated, state.truncated, state.winner) == (False, False, -1)
    assert (state.step_count, state.error, state.last_action) == (0, 0, -1)
    assert state.rewards.tolist() == [0, 0]


@pytest.mark.parametrize("made", [text.make_state("R5", "G1", "R+2"), text.parse_position("R5/G1/-/* R2 0 0 9 R2 *")])
def test_made_states_have_the_structure_of_dealt_ones(made: State):
    dealt = jax.eval_shape(functools.partial(game.init, rules=Rules()), jax.random.key(0))
    chex.assert_trees_all_equal_shapes_and_dtypes(made, dealt)
    assert jax.tree.map(lambda x: x.aval.weak_type, made) == jax.tree.map(lambda x: x.weak_type, dealt)


@pytest.mark.parametrize(("color", "expected"), [("red", 0), ("Yellow", 1), ("b", 2), (" G ", 3)])
def test_the_colour_of_a_wild_top_is_a_name_or_a_letter(color: str, expected: int):
    assert text.make_state("R5", "G1", "W", color=color).color == expected


def test_a_coloured_top_may_be_told_its_own_colour():
    assert text.make_state("R5", "G1", "B7", color="blue").color == 2


def test_the_deck_may_be_spelt_out():
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2), wilds=1), hand_size=1)
    told = text.make_state("R1", "R1", "Y2", pile="Y2 W", deck="W+4, R2 R2 Y1 Y1", rules=rules)
    chex.assert_trees_all_equal(told, text.make_state("R1", "R1", "Y2", pile="Y2 W", rules=rules))
    assert text.format_cards(told.deck) == "R2 R2 Y1 Y1 W+4"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hand0": ""}, "hold 0 and 1 cards: a player without cards has won"),
        ({"hand1": " "}, "a player without cards has won"),
        ({"hand0": "", "hand1": ""}, "a player without cards has won"),
        ({"hand0": "R5 Q"}, "unknown card 'Q' in hand0"),
        ({"hand1": "Q"}, "unknown card 'Q' in hand1"),
        ({"pile": "Q"}, "unknown card 'Q' in pile"),
        ({"deck": "Q"}, "unknown card 'Q' in deck"),
        ({"top": "Q"}, "unknown card 'Q' in top"),
        ({"top": ""}, "top must be exactly one card, got ''"),
        ({"top": "R1 R2"}, "top must be exactly one card, got 'R1 R2'"),
        ({"top": "W"}, "color must be one of red, yellow, blue, green for the wild top card W, got None"),
        ({"top": "W", "color": "pink"}, "color must be one of red.*got 'pink'"),
        ({"top": "W", "color": 2}, "color must be one of red.*got 2"),
        ({"color": "green"}, "color of the top card R7 is red, got 'green'"),
        ({"hand0": "R7", "pile": "R7"}, "hold 3 x R7, but rules.deck has 2"),
        ({"hand0": "G0", "hand1": "G0"}, "hold 2 x G0, but rules.deck has 1"),
        ({"rules": TINY}, "hold 1 x R5, but rules.deck has 0"),
        ({"deck": "R1"}, "deck must hold 1 x R0, got 0"),
        ({"player": 2}, "player must be 0 or 1, got 2"),
        ({"player": True}, "player must be 0 or 1, got True"),
        ({"penalty": 2}, "penalty must be 0 under a top card R7.*got 2"),
        ({"penalty": 1, "top": "R+2"}, "penalty must be 0 or 2 .*got 1"),
        ({"penalty": 4, "top": "R+2"}, "penalty must be 0 or 2 .*got 4$"),
        ({"penalty": 4, "top": "R+2", "rules": STACKED}, r"0 or 2 .*got 4; they add up .* name every other \+2 there$"),
        ({"penalty": 8, "top": "R+2", "pile": "Y+2 G+2", "rules": STACKED}, r"0 or 2 or 4 or 6 .*got 8; .*every other \+2"),
        ({"penalty": 3, "top": "R+2", "pile": "Y+2", "rules": STACKED}, "0 or 2 or 4 .*got 3$"),
        ({"penalty": 8, "top": "W+4", "color": "red", "rules": STACKED}, r"0 or 4 .*got 8; .*every other W\+4 there$"),
        ({"penalty": 2, "rules": STACKED}, "penalty must be 0 under a top card R7.*got 2$"),
        ({"penalty": 2, "top": "W+4", "color": "red"}, "penalty must be 0 or 4 .*got 2"),
        ({"penalty": 4, "top": "W", "color": "red"}, "penalty must be 0 under"),
        ({"penalty": 2.0, "top": "R+2"}, r"penalty must be 0 or 2 .*got 2\.0"),
    ],
)
def test_contradictions_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        text.make_state(**{"hand0": "R5", "hand1": "G1", "top": "R7"} | arguments)


# Positions


@pytest.mark.parametrize("name", slow_but(["default"], RULES))
def test_positions_of_random_games_come_back(name: str):
    rules, states = RULES[name], some_states(name)
    lines = [text.format_position(one(states, i)) for i in range(NUM_LINES)]
    read = jax.device_get([text.parse_position(line, rules=rules) for line in lines])
    read = jax.tree.map(lambda *x: np.stack(x), *read)
    chex.assert_trees_all_equal(read, states.replace(rewards=np.zeros_like(states.rewards)))
    assert lines == [text.format_position(one(read, i)) for i in range(NUM_LINES)]


@pytest.mark.parametrize(
    ("start", "actions", "rules"),
    [
        # The pile is back in the deck, with the +2 that the penalty adds up.
        (
            "R1,Y+2/R2,R3,R4,B1,B2/-/* R+2 0 2 0 - *",
            "Y+2 draw",
            Rules(stacking=True, deck=deck_of("R1 R2 R3 R4 R+2 Y+2 B1 B2"), hand_size=2),
        ),
        # Who goes on drawing holds what was drawn, and could have played it.
        (
            "R1/Y5,G3/-/1 R2 0 0 0 - *",
            "draw draw",
            Rules(may_draw=True, draw_until_playable=True, deck=deck_of("R1 R2 G3 B4 Y5"), hand_size=1),
        ),
    ],
)
def test_the_end_of_a_game_comes_back(start: str, actions: str, rules: Rules):
    end = replay(text.parse_position(start, rules=rules), actions, jax.random.key(0)).end
    line = text.format_position(end)
    assert end.terminated and line.split()[-1] in ("0", "1", "=")
    read = jax.device_get(text.parse_position(line, rules=rules))
    chex.assert_trees_all_equal(read, end.replace(rewards=np.zeros_like(end.rewards)))


@pytest.mark.slow
def test_the_random_games_show_every_result_and_penalty():
    lines = [text.format_position(one(some_states(name), i)).split() for name in RULES for i in range(NUM_LINES)]
    assert {line[-1] for line in lines} == set("*01=T")
    assert {(line[3], line[-1]) for line in lines} >= {("2", "*"), ("4", "*"), ("2", "="), ("4", "="), ("2", "T")}


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *", Rules()),
        ("R1,R1,W/G+2/-/103 W+4:Y 0 0 0 - *", Rules()),
        ("-/Y0,W/R5/104 W+4:G 0 0 15 W+4:G 0", Rules()),
        ("Y0/-/R5/105 B7 1 0 15 B7 1", Rules()),
        ("R1/R+2,Y1,W,W+4/-/0 Y+2 0 2 9 Y+2 0", TINY),
        ("R1,W/R+2,Y1/-/1 W+4:B 1 4 9 draw =", TINY),
        ("R5/G1/-/105 B7 0 0 3 draw T", Rules(max_steps=3)),
    ],
)
def test_known_positions(line: str, rules: Rules):
    assert text.format_position(text.parse_position(line, rules=rules)) == line
    loose = re.sub(r"/\d+ ", "/* ", line.lower()).replace(" ", "  ")
    assert text.format_position(text.parse_position(loose, rules=rules)) == line


def test_the_example_of_the_grammar_is_what_it_says():
    line = next(line.strip() for line in text.__doc__.splitlines() if line.startswith("    B7"))
    state = text.parse_position(line)
    assert text.format_position(state) == line
    assert state.hands.sum(-1).tolist() == [2, 3]
    made = text.make_state("B7 W", "Y0 G4 W+4", "R+2", pile="R5 Y5", player=1, penalty=2)
    chex.assert_trees_all_equal(made.replace(step_count=state.step_count, last_action=state.last_action), state)
    assert (int(state.step_count), int(state.last_action)) == (2, text.parse_action("R+2"))


@pytest.mark.parametrize(
    ("line", "rules", "message"),
    [
        ("", Rules(), "must have seven fields"),
        ("R5/G1/-/105 B7 0 0 3 draw", Rules(), "must have seven fields"),
        ("R5/G1/105 B7 0 0 3 draw *", Rules(), "the first of four places"),
        ("R5/X1/-/105 B7 0 0 3 draw *", Rules(), "unknown card 'X1' in hand of player 1"),
        ("R5/G1/W:R/105 B7 0 0 3 draw *", Rules(), "unknown card 'W:R' in pile"),
        ("R5/G1/-/105 draw 0 0 3 draw *", Rules(), "the top must be a card"),
        ("R5/G1/-/105 W 0 0 3 draw *", Rules(), "declare"),
        ("R5/G1/-/104 B7 0 0 3 draw *", Rules(), r"must hold the 105 cards .*got 104; write \*"),
        ("R5/G1/-/-3 B7 0 0 3 draw *", Rules(), "deck must be a number, got '-3'"),
        ("B7,B7/G1/-/* B7 0 0 3 draw *", Rules(), "hold 3 x B7"),
        ("R5/G1/-/105 B7 2 0 3 draw *", Rules(), "player must be 0 or 1, got 2"),
        ("R5/G1/-/105 B7 x 0 3 draw *", Rules(), "player must be a number, got 'x'"),
        ("R5/G1/-/105 B7 0 4 3 draw *", Rules(), "penalty must be 0 under"),
        ("R5/G1/-/105 B7 0 0 -3 draw *", Rules(), "steps must be a number, got '-3'"),
        ("R5/G1/-/105 B7 0 0 2147483648 draw *", Rules(), "steps must be at most 2147483647"),
        ("R5/G1/-/105 B7 0 0 3 pass *", Rules(), "unknown action 'pass'"),
        ("R5/G1/-/105 B7 0 0 3 challenge *", Rules(), "there is no challenge under these rules"),
        ("R5/G1/-/105 B7 0 0 3 draw 2", Rules(), "result must be .*got '2'"),
        ("R5/G1/-/105 B7 0 0 3 draw *0", Rules(), "result must be"),
        # Truncation
        ("R5/G1/-/105 B7 0 0 3 draw T", Rules(), "truncated at rules.max_steps=None"),
        ("R5/G1/-/105 B7 0 0 3 draw T", Rules(max_steps=4), "truncated at rules.max_steps=4"),
        ("R5/G1/-/105 B7 0 0 3 draw *", Rules(max_steps=3), "with rules.max_steps=3 a game with 3 steps is over"),
        ("-/G1/-/* B7 0 0 4 B7 0", Rules(max_steps=3), "with rules.max_steps=3 a game with 4 steps is over"),
        # Won by the last card
        ("-/G1/-/106 B7 0 0 3 B7 *", Rules(), "0 and 1 cards: a player without cards has won"),
        ("-/G1/-/106 B7 0 0 3 B7 T", Rules(max_steps=3), "a player without cards has won"),
        ("-/G1/-/106 B7 0 0 3 B7 1", Rules(), "got result '1', player 0"),
        ("-/G1/-/106 B7 1 0 3 B7 0", Rules(), "got result '0', player 1"),
        ("-/G1/-/106 B+2 0 2 3 B+2 0", Rules(), "and penalty 2"),
        ("-/-/-/107 B7 0 0 3 B7 0", Rules(), "hold 0 and 0 cards"),
        # Over because no card could be drawn
        ("R5/G1/-/105 B7 0 0 3 draw =", Rules(), "got a draw of 1 from a deck of 105, 0 cards under the top one$"),
        ("R1/R+2,Y1,W,W+4/-/0 Y+2 0 2 9 Y+2 1", TINY, "hands of 1 and 4 cards have result 0, got 1"),
        ("R1/R+2,Y1,W,W+4/-/0 Y+2 0 2 9 Y+2 =", TINY, "have result 0, got ="),
        ("R1/Y1/R+2,W,W+4/0 Y+2 0 2 9 Y+2 =", TINY, "from a deck of 0, 3 cards under the top one$"),
        ("Y1/R1,R+2,W,W+4/-/0 Y+2 0 0 9 draw 0", TINY, "and player 0 can play$"),
    ],
)
def test_impossible_positions_are_refused(line: str, rules: Rules, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        text.parse_position(line, rules=rules)
    assert repr(line) in str(caught.value)


def test_only_a_state_of_its_rules_is_written():
    state = text.make_state("R1", "R1", "Y+2", rules=RULES["draws without end"])
    with pytest.raises(ValueError, match="do not add up to the deck of its rules"):
        text.format_position(state.replace(rules=Rules()))
    with pytest.raises(ValueError, match=r"single one, with hands of shape \(2, 108\), got \(1, 2, 108\)"):
        text.format_position(jax.tree.map(lambda x: x[None], state))
    with pytest.raises(ValueError, match="top card R5 is not in its pile"):
        text.format_position(text.make_state("R1", "R1", "Y+2").replace(top_rank=5, color=0))
