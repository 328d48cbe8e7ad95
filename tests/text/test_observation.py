"""One player's view as text, and the display of states, observations and beliefs."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.helpers import assert_trees_equal, refusals, refused_texts, slow_but
from unojax import cards, text
from unojax.belief import Info, belief_init
from unojax.game import State, init
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.view import view_of

PROGRAMS = 60  # Games and views of seven rule sets.

LINE = "B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *"
look = jax.jit(observe)


def seen_from(line: str, player: int = 0) -> Observation:
    return look(text.parse_position(line), np.int32(player))


def test_an_observation_is_printed_without_the_hidden_hand():
    assert text.format_observation(seen_from(LINE)) == (
        "player 0: player 1 to move, must draw 2\n"
        "  top       R+2 (red)\n"
        "  hand      B7 W\n"
        "  opponent  3 cards\n"
        "  deck      100 cards\n"
        "  pile      R5 R+2 Y5\n"
        "  last      R+2"
    )
    lines = text.format_observation(seen_from("-/Y0/-/* W:G 0 0 0 - 0")).splitlines()
    assert lines[0] == "player 0: the game is over"
    assert [line.split() for line in (*lines[1:3], lines[-1])] == [["top", "W", "(green)"], ["hand", "-"], ["last", "-"]]
    one_card = look(text.make_state("R5 B7", "G1", "R7"), 0)
    assert "  opponent  1 card\n" in text.format_observation(one_card)
    assert_trees_equal(text.parse_observation(text.format_observation(one_card)), one_card)


def line_of(state: State, player: int) -> str:
    """Return the position with a number of cards as the other hand."""
    places, *fields = text.format_position(state).split(" ")
    hands = places.split("/")
    hands[1 - player] = str(int(state.hands[1 - player].sum()))
    return " ".join(["/".join(hands), *fields])


@pytest.mark.parametrize("name", slow_but(["default", "few cards", "rlcard, few cards"], corpus.RULES))
def test_observations_of_random_games_come_back(name: str):
    """From several lines and from one line, also with the top card in the deck."""
    rules, states = corpus.RULES[name], corpus.games(name).states
    places, is_away = corpus.positions(name, 12), ~states.pile.any(-1) & ~states.terminated
    places += [tuple(place) for place in np.argwhere(is_away)[:10]]
    assert is_away.any() == (name == "rlcard, few cards")
    written = set()
    for place in places:
        state = corpus.at(states, place).replace(error=np.uint8(0))
        for player in range(2):
            seen = corpus.at(corpus.views(name, player), place)
            line, lines = line_of(state, player), text.format_observation(seen)
            for shown in (line, lines):
                assert ("~" in shown) == is_away[place]
                assert_trees_equal(jax.device_get(text.parse_observation(shown, rules=rules)), seen)
            written.add(line)
    assert len(written) > 12


def test_a_turn_that_depends_on_more_comes_back():
    """A card just drawn, seen by its player alone; a Wild+4 that may be challenged."""
    rules = Rules.official()
    challenge = "player 0 to move, must draw 4, may challenge (red before)\n"
    for options, says in (
        ({"top": "R7", "drawn": "R5"}, ("player 0 to move, has drawn R5", "player 0 to move, has drawn\n")),
        ({"top": "W+4", "color": "blue", "penalty": 4, "contested": "red"}, (challenge, challenge)),
    ):
        state = text.make_state("R5 G1", "B2 B3", **options, rules=rules)
        for player in range(2):
            seen = look(state, np.int32(player))
            written = text.format_observation(seen)
            assert says[player] in written
            assert_trees_equal(text.parse_observation(written, rules=rules), seen)
            refused_texts(text.parse_observation, {"rules": [written]})


def test_a_top_card_in_the_deck_is_marked():
    for pile in ("-", "R3,Y4", "Y4,B5"):
        seen = text.parse_observation(f"R1,R2/2/{pile}/* ~B5 0 0 5 draw *", rules="rlcard")
        assert int(seen.top_type) == cards.TYPE_NAMES.index("B5") and int(seen.deck_count) == 108 - 4 - int(seen.pile.sum())
        assert text.format_cards(seen.pile) == ("" if pile == "-" else pile.replace(",", " "))
        if "B5" not in pile:
            lines = text.format_observation(seen)
            assert "top       ~B5 (blue)" in lines and f"pile      {pile.replace(',', ' ')}" in lines
            assert_trees_equal(text.parse_observation(lines, rules=Rules.rlcard()), seen)
            refused_texts(text.parse_observation, {"reshuffle_top": [lines]})


def test_rules_may_be_named_and_a_line_is_the_view_of_its_position():
    line = "B7,W/3/R5,Y5/* W+4:R 0 4?G 2 W+4:R *"
    by_name = text.parse_observation(line, rules="official")
    assert_trees_equal(by_name, text.parse_observation(line, rules=Rules.official()))
    refused_texts(partial(text.parse_observation, rules="none"), {"rules": [line]})
    assert_trees_equal(text.parse_observation("B7,W/3/R5,Y5/100 R+2 1 2 2 R+2 *"), seen_from(LINE))


def test_unreadable_observations_are_refused():
    refused_texts(
        text.parse_observation,
        {
            "write a position": [
                *("x", "", "R1/R2/-/* R5 0 0 0 - *", "1/2/-/* R5 0 0 0 - *", "R1/2/-/* R5 0 0 0 -", "R1/2/* R5 0 0 0 - *"),
            ],
            "unfinished": ["R1/2/-/* R5 0 0 0 - 0"],
            "top": ["R1/2/-/* draw 0 0 0 - *"],
            "107 cards": ["R1/107/-/* R5 0 0 0 - *"],
            "1 and 0 cards": ["R1/0/-/* R5 0 0 0 - *"],
            "0 and 2 cards": ["-/2/-/* R5 0 0 0 - *"],
            "3 x R1": ["2/R1,R1,R1/-/* R5 0 0 0 - *", "R1/2/R1/* R1 0 0 0 - *"],
            "deck": ["R1/2/-/7 R5 0 0 0 - *"],
            "player": ["R1/2/-/* R5 2 0 0 - *"],
            "penalty": ["R1/2/-/* R5 0 2 0 - *"],
        },
    )
    lines = text.format_observation(seen_from(LINE))
    contradictions = {
        "write a position": ("player 1 to move", "the game is over"),
        "penalty": ("must draw 2", "must draw 4"),
        "color": ("(red)", "(blue)"),
        "top": ("R5 R+2 Y5", "R5 Y5"),
        "deck": ("100 cards", "99 cards"),
        "hand of player 0": ("B7 W", "B7 Q"),
    }
    assert all(old in lines for old, _ in contradictions.values())
    refused_texts(text.parse_observation, {word: [lines.replace(*change)] for word, change in contradictions.items()})


def test_a_penalty_that_may_be_challenged_names_the_colour_before():
    make = partial(text.make_observation, "R1", "W+4:B", 3, pile="Y+2 R3 W+4", rules=Rules.official(stacking=True))
    for penalty, due, before in ((f"{number}?R", number, cards.COLOR_LETTERS.index("R")) for number in (4, 8)):
        seen = make(penalty=penalty)
        assert (int(seen.penalty), int(seen.contested)) == (due, before)
    # A failed challenge adds two, and a sum with a +2 is no multiple of four.
    assert [int(make(penalty=due).contested) for due in (6, 10)] == [-1, -1]
    refusals({"colour was active before (4)": lambda: make(penalty=4), "colour was active before (8)": lambda: make(penalty=8)})


def test_values_that_are_not_text_are_refused():
    make: Any = text.make_observation
    read: dict[str, Any] = {
        "action": text.parse_action,
        "cards": text.parse_cards,
        "position": text.parse_position,
        "observation": text.parse_observation,
        "top": lambda top: make("R1", top, 3),
        "hand": lambda hand: make(hand, "R0", 3),
        "pile": lambda pile: make("R1", "R0", 3, pile=pile),
    }
    refusals({f"{what} must be text": partial(of, 5) for what, of in read.items()})


def test_states_and_observations_are_told_apart_and_batches_refused():
    state = text.make_state("R1", "R1", "Y+2")
    seen = look(state, 0)
    refusals(
        {
            "format_observation takes an Observation, got State": lambda: text.format_observation(state),
            "format_position takes a State, got Observation": lambda: text.format_position(seen),
            "(1, 108)": lambda: text.format_observation(jax.tree.map(lambda x: np.asarray(x)[None], seen)),
        }
    )


# repr


def test_repr_is_a_line_that_can_be_read_again():
    state = text.parse_position(LINE)
    assert repr(state) == f"<State {LINE}>"
    seen = look(state, 1)
    assert "\n" not in repr(seen)
    assert_trees_equal(text.parse_observation(repr(seen).removeprefix("<Observation ").removesuffix(">")), seen)
    states = corpus.games("default").states
    assert all(len(repr(corpus.at(states, place))) < 450 for place in corpus.positions("default", 12))


def batch(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.stack([x, x]), jax.device_get(tree))


def test_repr_of_batches_traced_and_odd_contents_does_not_raise():
    state = text.make_state("R5", "G1", "R7")
    shown = []
    for displayed in (state, look(state, 0)):
        shown.append(repr(batch(displayed)))
        jax.eval_shape(lambda traced, to=shown: to.append(repr(traced)), displayed)
        odd = [
            displayed.replace(top_rank=99),
            displayed.replace(color=np.int8(-1)),
            displayed.replace(pile="R5"),
            jax.tree.map(lambda x: None, displayed),
            jax.tree.map(lambda x: x.shape, displayed),
            jax.eval_shape(lambda x: x, displayed),
            displayed.replace(rules=None),
        ]
        shown += map(repr, odd)
    assert shown[:2] == ["<State, batch of shape (2,)>", "<State under tracing>"]
    assert all(line.startswith(("<State", "<Observation", "State(", "Observation(")) and len(line) < 450 for line in shown)


def test_repr_of_shapes_beliefs_and_diagnostics():
    """Shapes and dtypes by field instead of values; short beliefs."""
    key = jax.random.key(0)
    state = jax.eval_shape(init, key)
    assert repr(jax.tree.map(lambda x: x.shape, state)).startswith(
        "State(hands=(2, 108), deck=(108,), pile=(108,), top_rank=(), "
    )
    assert repr(state).startswith("State(hands=bool[2,108], deck=bool[108], pile=bool[108], top_rank=int8[], ")
    assert "rewards=float32[2], " in repr(state) and "rules=Rules()" in repr(state)
    many = jax.eval_shape(jax.vmap(lambda key: observe(init(key), 0)), jax.random.split(key, 3))
    assert repr(many).startswith("Observation(player=int8[3], hand=bool[3,108], ")

    seen = seen_from(LINE)
    belief = jax.jit(partial(belief_init, num_particles=64))(seen, key)
    assert repr(belief) == "<Belief of 64 particles, effective sample size 64.0>"
    assert repr(batch(belief)) == "<Belief of 64 particles, batch of shape (2,)>"
    assert repr(jax.eval_shape(lambda: belief)).startswith("Belief(log_weights=float32[64], ")
    info = Info(ess=np.float32(1 / 3))
    assert repr(info).startswith("Info(ess=0.333333, log_evidence=0, depleted=False, ")
    assert repr(jax.tree.map(lambda x: jnp.stack([x, x]), info)).startswith("Info(ess=float32[2], ")
    assert repr(view_of(seen)).startswith("View(hand=(")
