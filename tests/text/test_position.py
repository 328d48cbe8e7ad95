"""Positions as text: parsed, rejected, and round-tripped.

Contract: make_state; text of positions.
"""

from __future__ import annotations

import functools
import re
from functools import partial

import jax
import numpy as np
import pytest

from tests import corpus
from tests.helpers import assert_trees_equal, deck_of, refusals, refused_texts, slow_but
from unojax import cards, text
from unojax.decks import small_deck
from unojax.game import State
from unojax.games.replay import replay
from unojax.rules import Rules

TINY = Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1, start_card="any")
STACKED = Rules(stacking=True)


def test_a_made_state_holds_the_given_cards():
    state = jax.device_get(text.make_state("R5 W", "G+2 YS YS", "R+2", pile="B1 B2", player=1, penalty=2))
    sets = [text.format_cards(cards) for cards in (*state.hands, state.pile)]
    assert sets == ["R5 W", "YS YS G+2", "R+2 B1 B2"]
    np.testing.assert_array_equal(sum(cards.count_types(c) for c in (*state.hands, state.pile, state.deck)), cards.COPIES)
    assert (state.top_rank, state.color, state.current_player, state.penalty) == (12, 0, 1, 2)
    assert (state.terminated, state.truncated, state.winner) == (False, False, -1)
    assert (state.step_count, state.error, state.last_action) == (0, 0, -1)
    assert state.rewards.tolist() == [0, 0]


def test_colours_and_decks_of_made_states():
    """A wild top needs a colour, a name or a letter; a coloured one may have its own; a deck may be given."""
    for color, expected in {"red": 0, "Yellow": 1, "b": 2, " G ": 3}.items():
        assert text.make_state("R5", "G1", "W", color=color).color == expected
    assert text.make_state("R5", "G1", "B7", color="blue").color == 2
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2), wilds=1), hand_size=1)
    spelt = text.make_state("R1", "R1", "Y2", pile="Y2 W", deck="W+4, R2 R2 Y1 Y1", rules=rules)
    assert_trees_equal(spelt, text.make_state("R1", "R1", "Y2", pile="Y2 W", rules=rules))
    assert text.format_cards(spelt.deck) == "R2 R2 Y1 Y1 W+4"


def test_contradictions_are_refused():
    def make(**arguments) -> partial[State]:
        return partial(text.make_state, **{"hand0": "R5", "hand1": "G1", "top": "R7"} | arguments)

    plus_two, wild_four = {"top": "R+2"}, {"top": "W+4", "color": "red"}
    refusals(
        {
            "hold 0 and 1 cards": make(hand0=""),
            "hold 1 and 0 cards": make(hand1=" "),
            "hold 0 and 0 cards": make(hand0="", hand1=""),
            **{f"'Q' in {name}": make(**{name: "R6 Q"}) for name in ("hand0", "hand1", "pile", "deck", "top")},
            "top": make(top=""),
            "top (two)": make(top="R1 R2"),
            "color": make(top="W"),
            "color (unknown)": make(top="W", color="pink"),
            "color (number)": make(top="W", color=2),
            "color (of another card)": make(color="green"),
            "3 x R7": make(hand0="R7", pile="R7"),
            "2 x G0": make(hand0="G0", hand1="G0"),
            "1 x R5": make(rules=TINY),
            "deck": make(deck="R1"),
            "player": make(player=2),
            "player (bool)": make(player=True),
            "penalty": make(penalty=2),
            "penalty (of a +2, one)": make(penalty=1, **plus_two),
            "penalty (of a +2, four)": make(penalty=4, **plus_two),
            "penalty (float)": make(penalty=2.0, **plus_two),
            "penalty (of a Wild+4)": make(penalty=2, **wild_four),
            "penalty (of a Wild)": make(penalty=4, top="W", color="red"),
            "penalty (stacked, but one +2)": make(penalty=4, rules=STACKED, **plus_two),
            "penalty (stacked, more than there are)": make(penalty=8, pile="Y+2 G+2", rules=STACKED, **plus_two),
            "penalty (stacked, odd)": make(penalty=3, pile="Y+2", rules=STACKED, **plus_two),
            "penalty (stacked, one Wild+4)": make(penalty=8, rules=STACKED, **wild_four),
            "penalty (stacked, a number)": make(penalty=2, rules=STACKED),
        }
    )
    assert text.make_state("R5", "G1", "R+2", pile="Y+2 G+2", penalty=6, rules=STACKED).penalty == 6


@functools.cache
def some_states(name: str) -> State:
    """Return endings and other positions of the corpus, without rewards and errors, which text omits."""
    places = np.concatenate([corpus.endings(name)[:40], corpus.moments(name)[::37][:60]])
    states = corpus.at(corpus.games(name).states, places)
    return states.replace(rewards=np.zeros_like(states.rewards), error=np.zeros_like(states.error))


def unstack(states: State) -> list[State]:
    return [jax.tree.map(lambda x, i=i: x[i], states) for i in range(len(states.penalty))]


@pytest.mark.parametrize("name", slow_but(["default", "few cards", "limited"], corpus.RULES))
def test_positions_of_random_games_come_back(name: str):
    lines = [text.format_position(state) for state in unstack(some_states(name))]
    read = [jax.device_get(text.parse_position(line, rules=corpus.RULES[name])) for line in lines]
    assert_trees_equal(jax.tree.map(lambda *x: np.stack(x), *read), some_states(name))
    assert lines == [text.format_position(state) for state in read]


def test_the_random_games_have_every_result_and_penalty():
    lines = [text.format_position(state).split() for name in ("few cards", "limited") for state in unstack(some_states(name))]
    assert {line[-1] for line in lines} == set("*01=T")
    assert {line[3].partition("?")[0] for line in lines} >= {"0", "2", "4", "6"}
    assert any("?" in line[3] for line in lines) and any("+" in line[2] for line in lines)


@pytest.mark.parametrize(
    ("start", "actions", "rules"),
    [
        # The pile is back in the deck, with the +2 that the penalty adds up.
        (
            "R1,Y+2/R2,R3,R4,B1,B2/-/* R+2 0 2 0 - *",
            "Y+2 draw",
            Rules(stacking=True, deck=deck_of("R1 R2 R3 R4 R+2 Y+2 B1 B2"), hand_size=2),
        ),
        # A player who continues to draw holds the drawn card, and could have played it.
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
    assert_trees_equal(read, end.replace(rewards=np.zeros_like(end.rewards)))


def test_known_positions():
    for line, rules in {
        "B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *": Rules(),
        "R1,R1,W/G+2/-/103 W+4:Y 0 0 0 - *": Rules(),
        "-/Y0,W/R5/104 W+4:G 0 0 15 W+4:G 0": Rules(),
        "Y0/-/R5/105 B7 1 0 15 B7 1": Rules(),
        "R1/R+2,Y1,W,W+4/-/0 Y+2 0 2 9 Y+2 0": TINY,
        "R1,W/R+2,Y1/-/1 W+4:B 1 4 9 draw =": TINY,
        "R5/G1/-/105 B7 0 0 3 draw T": Rules(max_steps=3),
    }.items():
        assert text.format_position(text.parse_position(line, rules=rules)) == line
        loose = re.sub(r"/\d+ ", "/* ", line.lower()).replace(" ", "  ")
        assert text.format_position(text.parse_position(loose, rules=rules)) == line


def test_the_example_of_the_grammar_is_the_position_that_it_describes():
    line = next(line.strip() for line in text.__doc__.splitlines() if line.startswith("    B7"))
    state = text.parse_position(line)
    assert text.format_position(state) == line
    made = text.make_state("B7 W", "Y0 G4 W+4", "R+2", pile="R5 Y5", player=1, penalty=2)
    assert_trees_equal(made.replace(step_count=state.step_count, last_action=state.last_action), state)
    assert (int(state.step_count), int(state.last_action)) == (2, text.parse_action("R+2"))


REFUSED = {
    Rules(): {
        "seven fields": ["", "R5/G1/-/105 B7 0 0 3 draw"],
        "four places": ["R5/G1/105 B7 0 0 3 draw *"],
        "hand of player 1": ["R5/X1/-/105 B7 0 0 3 draw *"],
        "pile": ["R5/G1/W:R/105 B7 0 0 3 draw *"],
        "top": ["R5/G1/-/105 draw 0 0 3 draw *"],
        "declare": ["R5/G1/-/105 W 0 0 3 draw *"],
        "deck": ["R5/G1/-/104 B7 0 0 3 draw *", "R5/G1/-/-3 B7 0 0 3 draw *"],
        "3 x B7": ["B7,B7/G1/-/* B7 0 0 3 draw *"],
        "player": ["R5/G1/-/105 B7 2 0 3 draw *", "R5/G1/-/105 B7 x 0 3 draw *"],
        "penalty": ["R5/G1/-/105 B7 0 4 3 draw *"],
        "steps": ["R5/G1/-/105 B7 0 0 -3 draw *", "R5/G1/-/105 B7 0 0 2147483648 draw *"],
        "action": ["R5/G1/-/105 B7 0 0 3 pass *"],
        "challenge": ["R5/G1/-/105 B7 0 0 3 challenge *"],
        "result": ["R5/G1/-/105 B7 0 0 3 draw 2", "R5/G1/-/105 B7 0 0 3 draw *0"],
        # Won by the last card.
        "0 and 1 cards": ["-/G1/-/106 B7 0 0 3 B7 *"],
        "player 0": ["-/G1/-/106 B7 0 0 3 B7 1"],
        "player 1": ["-/G1/-/106 B7 1 0 3 B7 0"],
        "penalty 2": ["-/G1/-/106 B+2 0 2 3 B+2 0"],
        "0 and 0 cards": ["-/-/-/107 B7 0 0 3 B7 0"],
        # Over because no card could be drawn.
        "a deck of 105": ["R5/G1/-/105 B7 0 0 3 draw ="],
        "max_steps=None": ["R5/G1/-/105 B7 0 0 3 draw T"],
    },
    Rules(max_steps=4): {"max_steps=4": ["R5/G1/-/105 B7 0 0 3 draw T"]},
    Rules(max_steps=3): {
        "max_steps=3": ["R5/G1/-/105 B7 0 0 3 draw *", "-/G1/-/* B7 0 0 4 B7 0"],
        "without cards": ["-/G1/-/106 B7 0 0 3 B7 T"],
    },
    TINY: {
        "result 0, got 1": ["R1/R+2,Y1,W,W+4/-/0 Y+2 0 2 9 Y+2 1"],
        "result 0, got =": ["R1/R+2,Y1,W,W+4/-/0 Y+2 0 2 9 Y+2 ="],
        "3 cards under the top": ["R1/Y1/R+2,W,W+4/0 Y+2 0 2 9 Y+2 ="],
        "player 0 can play": ["Y1/R1,R+2,W,W+4/-/0 Y+2 0 0 9 draw 0"],
    },
}


@pytest.mark.parametrize("rules", REFUSED, ids=str)
def test_impossible_positions_are_refused(rules: Rules):
    refused_texts(partial(text.parse_position, rules=rules), REFUSED[rules])
    with pytest.raises(ValueError, match="'R5/G1/-/99 B7 0 0 3 draw"):
        text.parse_position("R5/G1/-/99 B7 0 0 3 draw *", rules=Rules())


def test_only_a_state_of_its_rules_is_written():
    state = text.make_state("R1", "R1", "Y+2")
    refusals(
        {
            "deck of its rules": lambda: text.format_position(state.replace(rules=TINY)),
            "(1, 2, 108)": lambda: text.format_position(jax.tree.map(lambda x: np.asarray(x)[None], state)),
            "top card R5": lambda: text.format_position(state.replace(top_rank=5, color=0)),
        }
    )
