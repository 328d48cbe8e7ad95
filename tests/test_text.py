"""Cards, actions and positions as text: what is read, what is refused, and that everything comes back."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import play
from unojax import cards, game, observation, text
from unojax.game import State
from unojax.rules import Rules, small_deck

TINY = Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1, start_card="any")
RULES = {
    "default": Rules(),
    "truncated": Rules(start_card="any", first_player="random", max_steps=40, step_penalty=0.1),
    "draws without end": Rules(deck=small_deck(colors=3, ranks=(1, 12), wilds=2), hand_size=4, start_card="any"),
}
# The sizes of other modules, so that they share the compiled programs.
NUM_STEPS = {"default": 320, "truncated": 45}
NUM_LINES = 120


@functools.cache
def some_states(name: str) -> State:
    """States of random games, and all the kinds of endings: fields [NUM_LINES, ...]."""
    states = play(0, num_steps=NUM_STEPS.get(name, 160), rules=RULES[name]).states
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states)
    flat = flat.replace(error=np.zeros_like(flat.error))
    over = flat.terminated | flat.truncated
    # A game fills up with copies of its last state; take the first, and as many unfinished ones.
    ends = np.flatnonzero(over & ~np.roll(over, 1))
    # Some with a penalty pending among them.
    ends = np.concatenate([ends[flat.penalty[ends] > 0][: NUM_LINES // 6], ends])[: NUM_LINES // 3]
    others = np.random.default_rng(0).choice(np.flatnonzero(~over), NUM_LINES - len(ends))
    return jax.tree.map(lambda x: x[np.concatenate([ends, others])], flat)


observe = jax.jit(observation.observe)


def one(states: State, index: int) -> State:
    return jax.tree.map(lambda x: x[index], states)


def slots(*names: str) -> set[tuple[str, int]]:
    """Card names to (name, copy) pairs: what a canonical one-hot of these cards must show."""
    return {(name, names[:i].count(name)) for i, name in enumerate(names)}


def shown(onehot: np.ndarray) -> set[tuple[str, int]]:
    return {(cards.TYPE_NAMES[cards.TYPE_OF_SLOT[s]], int(cards.COPY_OF_SLOT[s])) for s in np.flatnonzero(onehot)}


# Cards


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("R5 YS BR G+2 W W+4", ("R5", "YS", "BR", "G+2", "W", "W+4")),
        ("r5,ys, br ,g+2;w;w+4".replace(";", "\t"), ("R5", "YS", "BR", "G+2", "W", "W+4")),
        ("W W R7 W R7 W", ("W", "W", "W", "W", "R7", "R7")),
        ("", ()),
        (" , ", ()),
    ],
)
def test_cards_are_read_as_a_canonical_onehot(line: str, names: tuple[str, ...]):
    onehot = text.parse_cards(line)
    assert onehot.dtype == bool
    assert onehot.shape == (108,)
    assert shown(onehot) == slots(*names)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("R5 X3", "unknown card 'X3'.*colour R, Y, B or G"),
        ("R", "unknown card 'R'"),
        ("R10", "unknown card 'R10'"),
        ("R-5", "unknown card"),
        ("W:R", "unknown card 'W:R'"),
        ("R0 B5 r0", "2 x R0.*only 1"),
        ("G9 G9 G9", "3 x G9.*only 2"),
        ("W+4 W+4 W+4 W+4 W+4", r"5 x W\+4.*only 4"),
        (5, "must be text.*got 5"),
    ],
)
def test_unreadable_cards_are_refused(line: str, message: str):
    with pytest.raises(ValueError, match=message):
        text.parse_cards(line)


def test_cards_are_written_sorted_by_type():
    assert text.format_cards(text.parse_cards("W+4 W G0 B1 Y+2 YS R9 R1 R9 W")) == "R1 R9 R9 YS Y+2 B1 G0 W W W+4"
    assert text.format_cards(np.zeros(108, bool)) == ""
    assert text.format_cards(jnp.ones(108, bool)).split().count("W") == 4


@pytest.mark.parametrize(
    ("onehot", "message"),
    [
        (np.zeros(54, bool), r"must be bool\[108\], got bool\[54\]"),
        (np.zeros((2, 108), bool), r"got bool\[2, 108\]"),
        (np.zeros(108, int), r"got int64\[108\]"),
        (np.arange(108) == cards.SLOTS_OF_TYPE[5, 1], "canonical"),
    ],
)
def test_only_canonical_onehots_are_written(onehot: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        text.format_cards(onehot)


# Actions


def test_every_action_comes_back():
    lines = [text.format_action(action) for action in range(62)]
    assert [text.parse_action(line) for line in lines] == list(range(62))
    assert [text.parse_action(f" {line.lower()} ") for line in lines] == list(range(62))
    assert len(set(lines)) == 62


@pytest.mark.parametrize(
    ("line", "action"),
    [("R0", 0), ("R5", 5), ("YS", 25), ("BR", 41), ("G+2", 57), ("W:R", 13), ("W+4:B", 44), ("W+4:G", 59), ("draw", 60)],
)
def test_known_actions(line: str, action: int):
    assert text.parse_action(line) == action
    assert text.format_action(np.int32(action)) == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pass", "unknown action 'pass'.*or challenge"),
        ("", "unknown action ''"),
        ("draw:R", "unknown action"),
        ("R5 R5", "unknown action"),
        ("W", "W.*declare one of the four colours: write one of W:R, W:Y, W:B, W:G"),
        ("W+4:", r"declare.*W\+4:R"),
        ("W:X", "declare"),
        ("W:RY", "declare"),
        ("R5:R", "write R5"),
        ("R5:", "write R5"),
    ],
)
def test_unreadable_actions_are_refused(line: str, message: str):
    with pytest.raises(ValueError, match=message):
        text.parse_action(line)


@pytest.mark.parametrize("number", [0, 5, 60])
@pytest.mark.parametrize("kind", [np.int8, np.uint32, np.int64, np.array, jnp.int8, jnp.asarray])
def test_integers_of_any_library_are_written(number: int, kind: Callable[[int], Any]):
    assert text.format_action(kind(number)) == text.format_action(number)


def test_an_action_found_in_a_mask_is_written():
    state = text.make_state("R5 G1", "G2", "R7")
    assert text.format_action(jax.jit(game.legal_mask)(state).argmax()) == "R5"


ODD = [-1, 62, 5.0, True, "5", None, np.True_, np.float32(5), np.array([5]), np.arange(3)]
ODD += [jnp.array(True), jnp.float32(5), jnp.array([5])]


@pytest.mark.parametrize("action", ODD, ids=str)
def test_only_actions_are_written(action: Any):
    with pytest.raises(ValueError, match=r"action must be an integer in \[0, 61\], got"):
        text.format_action(action)


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
        ({"penalty": 4, "top": "R+2"}, "penalty must be 0 or 2 .*got 4"),
        ({"penalty": 2, "top": "W+4", "color": "red"}, "penalty must be 0 or 4 .*got 2"),
        ({"penalty": 4, "top": "W", "color": "red"}, "penalty must be 0 under"),
        ({"penalty": 2.0, "top": "R+2"}, r"penalty must be 0 or 2 .*got 2\.0"),
    ],
)
def test_contradictions_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        text.make_state(**{"hand0": "R5", "hand1": "G1", "top": "R7"} | arguments)


# Positions


@pytest.mark.parametrize("name", RULES)
def test_positions_of_random_games_come_back(name: str):
    rules, states = RULES[name], some_states(name)
    lines = [text.format_position(one(states, i)) for i in range(NUM_LINES)]
    read = jax.device_get([text.parse_position(line, rules=rules) for line in lines])
    read = jax.tree.map(lambda *x: np.stack(x), *read)
    chex.assert_trees_all_equal(read, states.replace(rewards=np.zeros_like(states.rewards)))
    assert lines == [text.format_position(one(read, i)) for i in range(NUM_LINES)]


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


def test_a_state_is_written_under_its_own_rules_only():
    state = text.make_state("R1", "R1", "Y+2", rules=RULES["draws without end"])
    assert text.format_position(state) == text.format_position(state, rules=RULES["draws without end"])
    with pytest.raises(ValueError, match="rules differ"):
        text.format_position(state, rules=Rules())
    with pytest.raises(ValueError, match="do not add up to the deck of its rules"):
        text.format_position(state.replace(rules=Rules()))
    with pytest.raises(ValueError, match=r"single one, with hands of shape \(2, 108\), got \(1, 2, 108\)"):
        text.format_position(jax.tree.map(lambda x: x[None], state))
    with pytest.raises(ValueError, match="top card R5 is not in its pile"):
        text.format_position(text.make_state("R1", "R1", "Y+2").replace(top_rank=5, color=0))


# Observations


def test_an_observation_is_printed_without_the_hidden_hand():
    state = text.parse_position("B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *")
    assert text.format_observation(observe(state, 0)) == (
        "player 0: player 1 to move, must draw 2\n"
        "  top       R+2 (red)\n"
        "  hand      B7 W\n"
        "  opponent  3 cards\n"
        "  deck      100 cards\n"
        "  pile      R5 R+2 Y5\n"
        "  last      R+2"
    )


def test_an_observation_of_a_finished_game_and_of_a_wild_top():
    lines = text.format_observation(observe(text.parse_position("-/Y0/-/* W:G 0 0 0 - 0"), 0)).splitlines()
    assert lines[0] == "player 0: the game is over"
    assert lines[1].split() == ["top", "W", "(green)"]
    assert lines[2].split() == ["hand", "-"]
    assert lines[-1].split() == ["last", "-"]


# repr


def test_repr_is_a_line_that_can_be_read_again():
    state = text.parse_position("B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *")
    assert repr(state) == "<State B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *>"
    seen = observe(state, 1)
    assert "\n" not in repr(seen)
    chex.assert_trees_all_equal(text.parse_observation(repr(seen).removeprefix("<Observation ").removesuffix(">")), seen)


@pytest.mark.parametrize("name", RULES)
def test_repr_of_states_of_random_games_is_short(name: str):
    for index in range(0, NUM_LINES, 10):
        assert len(repr(one(some_states(name), index))) < 450


def test_repr_of_batches_traced_and_odd_contents_does_not_raise():
    state = text.make_state("R5", "G1", "R7")
    seen = observe(state, 0)
    shown = []
    for what in (state, seen):
        shown.append(repr(jax.tree.map(lambda x: jnp.stack([x, x]), what)))
        jax.eval_shape(lambda traced, to=shown: to.append(repr(traced)), what)
        odd = [
            what.replace(top_rank=99),
            what.replace(color=np.int8(-1)),
            what.replace(pile="R5"),
            jax.tree.map(lambda x: None, what),
            jax.tree.map(lambda x: x.shape, what),
            jax.eval_shape(lambda x: x, what),
            what.replace(rules=None),
        ]
        shown += map(repr, odd)
    assert shown[:2] == ["<State, batch of shape (2,)>", "<State under tracing>"]
    assert all(line.startswith(("<State", "<Observation")) and len(line) < 450 for line in shown)


def test_a_batch_of_observations_is_refused():
    seen = observe(text.make_state("R1", "R1", "Y+2"), 0)
    with pytest.raises(ValueError, match=r"single one, with hand of shape \(108,\), got \(1, 108\)"):
        text.format_observation(jax.tree.map(lambda x: x[None], seen))


@pytest.mark.parametrize("name", RULES)
def test_what_players_see_comes_back(name: str):
    rules, states = RULES[name], some_states(name)
    lines = set()
    for index in np.flatnonzero(~(states.terminated | states.truncated))[:12].tolist():
        state = one(states, index)
        for player in range(2):
            seen = observe(state, np.int32(player))
            chex.assert_trees_all_equal(text.parse_observation(text.format_observation(seen), rules=rules), seen)
            fields = text.format_position(state).split(" ")
            places = fields[0].split("/")
            places[1 - player] = str(int(seen.opponent_count))
            line = " ".join(["/".join(places), *fields[1:]])
            chex.assert_trees_all_equal(text.parse_observation(line, rules=rules), seen)
            lines.add(line)
    assert len(lines) > 12


def test_a_line_of_an_observation_is_what_it_says():
    seen = text.parse_observation("B7,W/3/R5,Y5/100 R+2 1 2 2 R+2 *")
    chex.assert_trees_all_equal(seen, observe(text.parse_position("B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *"), 0))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x", "observation 'x': write a position with the number of the other player's cards in place of one hand"),
        ("", "write a position with the number"),
        ("R1/R2/-/* R5 0 0 0 - *", "write a position with the number"),
        ("1/2/-/* R5 0 0 0 - *", "write a position with the number"),
        ("R1/2/-/* R5 0 0 0 -", "write a position with the number"),
        ("R1/2/* R5 0 0 0 - *", "write a position with the number"),
        ("R1/2/-/* R5 0 0 0 - 0", "must be unfinished"),
        ("R1/2/-/* draw 0 0 0 - *", "the top must be a card"),
        ("R1/107/-/* R5 0 0 0 - *", "can't hold 107 cards: 106 are neither in the own hand nor in the pile"),
        ("R1/0/-/* R5 0 0 0 - *", "the hands hold 1 and 0 cards"),
        ("-/2/-/* R5 0 0 0 - *", "the hands hold 0 and 2 cards"),
        ("2/R1,R1,R1/-/* R5 0 0 0 - *", "3 x R1 in hand of player 1"),
        ("R1/2/R1/* R1 0 0 0 - *", "hands, top and pile hold 3 x R1"),
        ("R1/2/-/7 R5 0 0 0 - *", "deck must hold the 104 cards"),
        ("R1/2/-/* R5 2 0 0 - *", "player must be 0 or 1"),
        ("R1/2/-/* R5 0 2 0 - *", "penalty must be 0"),
    ],
)
def test_unreadable_observations_are_refused(line: str, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        text.parse_observation(line)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("player 1 to move", "the game is over", "write a position"),
        ("must draw 2", "must draw 4", "penalty must be 0 or 2"),
        ("(red)", "(blue)", "color of the top card R+2 is red"),
        ("R5 R+2 Y5", "R5 Y5", "the top must be a card of the pile"),
        ("100 cards", "99 cards", "deck must hold the 100 cards"),
        ("B7 W", "B7 Q", "unknown card 'Q' in hand of player 0"),
    ],
)
def test_contradictory_lines_of_an_observation_are_refused(old: str, new: str, message: str):
    lines = text.format_observation(observe(text.parse_position("B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *"), 0))
    assert old in lines
    with pytest.raises(ValueError, match=re.escape(message)):
        text.parse_observation(lines.replace(old, new))
