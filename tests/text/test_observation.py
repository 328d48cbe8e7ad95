"""What a player sees as text, and how states and observations show themselves."""

from __future__ import annotations

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import play, slow_but
from tests.text.states import NUM_LINES, RULES, observe, one, some_states
from unojax import cards, text
from unojax.belief import belief_init
from unojax.belief.updaters import plain_info
from unojax.decks import small_deck
from unojax.game import State, init
from unojax.rules import Rules
from unojax.view import view_of

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


def test_one_card_is_told_as_one_and_read_back():
    seen = observe(text.make_state("R5 B7", "G1", "R7"), 0)
    shown = text.format_observation(seen)
    assert "  opponent  1 card\n" in shown
    chex.assert_trees_all_equal(text.parse_observation(shown), seen)


# repr


def test_repr_is_a_line_that_can_be_read_again():
    state = text.parse_position("B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *")
    assert repr(state) == "<State B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *>"
    seen = observe(state, 1)
    assert "\n" not in repr(seen)
    chex.assert_trees_all_equal(text.parse_observation(repr(seen).removeprefix("<Observation ").removesuffix(">")), seen)


@pytest.mark.parametrize("name", slow_but(["default"], RULES))
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
    assert all(line.startswith(("<State", "<Observation", "State(", "Observation(")) and len(line) < 450 for line in shown)


def test_shapes_and_types_are_shown_by_field():
    """The usual ways to learn them, which said that a state was a batch, or unusual."""
    key = jax.random.key(0)
    state = init(key)
    assert repr(jax.tree.map(jnp.shape, state)).startswith("State(hands=(2, 108), deck=(108,), pile=(108,), top_rank=(), ")
    shown = repr(jax.eval_shape(init, key))
    assert shown.startswith("State(hands=bool[2,108], deck=bool[108], pile=bool[108], top_rank=int8[], ")
    assert "rewards=float32[2], " in shown and "rules=Rules()" in shown
    many = jax.eval_shape(jax.vmap(lambda key: observe(init(key), 0)), jax.random.split(key, 3))
    assert repr(many).startswith("Observation(player=int8[3], hand=bool[3,108], ")


def test_beliefs_and_diagnostics_are_shown_in_short():
    key = jax.random.key(0)
    belief = belief_init(observe(init(key), 0), key, num_particles=64)
    assert repr(belief) == "<Belief of 64 particles, effective sample size 64.0>"
    assert repr(jax.tree.map(lambda x: jnp.stack([x, x]), belief)) == "<Belief of 64 particles, batch of shape (2,)>"
    assert repr(jax.eval_shape(lambda: belief)).startswith("Belief(log_weights=float32[64], ")
    info = plain_info(ess=1 / 3)
    assert repr(info).startswith("Info(ess=0.333333, log_evidence=0, depleted=False, ")
    assert repr(jax.tree.map(lambda x: jnp.stack([x, x]), info)).startswith("Info(ess=float32[2], ")
    assert repr(view_of(observe(init(key), 0))).startswith("View(hand=(")


def test_a_batch_of_observations_is_refused():
    seen = observe(text.make_state("R1", "R1", "Y+2"), 0)
    with pytest.raises(ValueError, match=r"single one, with hand of shape \(108,\), got \(1, 108\)"):
        text.format_observation(jax.tree.map(lambda x: x[None], seen))


def test_states_and_observations_are_told_apart():
    state = text.make_state("R1", "R1", "Y+2")
    with pytest.raises(ValueError, match=r"format_observation takes an Observation, got State; unojax\.observe gives one"):
        text.format_observation(state)  # type: ignore[arg-type] the bad value is the test
    with pytest.raises(ValueError, match="format_position takes a State, got Observation"):
        text.format_position(observe(state, 0))  # type: ignore[arg-type] the bad value is the test


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"top": "R7", "drawn": "R5"}, ("player 0 to move, has drawn R5", "player 0 to move, has drawn\n")),
        (
            {"top": "W+4", "color": "blue", "penalty": 4, "contested": "red"},
            ("player 0 to move, must draw 4, may challenge (red before)\n",) * 2,
        ),
    ],
    ids=["drawn", "contested"],
)
def test_a_turn_that_depends_on_more_comes_back(options: dict[str, Any], says: tuple[str, str]):
    rules = Rules.official()
    state = text.make_state("R5 G1", "B2 B3", **options, rules=rules)
    for player in range(2):
        seen = observe(state, np.int32(player))
        written = text.format_observation(seen)
        assert says[player] in written
        chex.assert_trees_all_equal(text.parse_observation(written, rules=rules), seen)
    with pytest.raises(ValueError, match=r"needs rules|under rules with such turns"):
        text.parse_observation(written, rules=Rules())


def line_of(state: State, player: int) -> str:
    """The position with the number of the other hand's cards in place of it."""
    places, *fields = text.format_position(state).split(" ")
    hands = places.split("/")
    hands[1 - player] = str(int(state.hands[1 - player].sum()))
    return " ".join(["/".join(hands), *fields])


@pytest.mark.parametrize("name", slow_but(["default"], RULES))
def test_what_players_see_comes_back(name: str):
    rules, states = RULES[name], some_states(name)
    lines = set()
    for index in np.flatnonzero(~(states.terminated | states.truncated))[:12].tolist():
        state = one(states, index)
        for player in range(2):
            seen = observe(state, np.int32(player))
            chex.assert_trees_all_equal(text.parse_observation(text.format_observation(seen), rules=rules), seen)
            line = line_of(state, player)
            chex.assert_trees_all_equal(text.parse_observation(line, rules=rules), seen)
            lines.add(line)
    assert len(lines) > 12


def test_a_top_card_that_went_back_into_the_deck_comes_back():
    """Random games under RLCard's rules, with a deck that runs out often."""
    rules = Rules.rlcard(deck=small_deck(colors=2, ranks=(1, 2, 12), wilds=1), hand_size=3)
    states = play(0, num_steps=60, rules=rules).states
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states)
    is_away = ~(flat.terminated | flat.truncated) & ~flat.pile.any(-1)
    others = ~(flat.terminated | flat.truncated | is_away)
    chosen = [*np.flatnonzero(is_away)[:20], *np.flatnonzero(others)[:: others.sum() // 10]]
    assert is_away.sum() > 20
    for index in chosen:
        state = one(flat, index)
        for player in range(2):
            seen = observe(state, np.int32(player))
            for written in (text.format_observation(seen), line_of(state, player)):
                assert is_away[index] == ("~" in written)
                chex.assert_trees_all_equal(text.parse_observation(written, rules=rules), seen)


@pytest.mark.parametrize("pile", ["-", "R3,Y4", "Y4,B5"])
def test_a_top_card_in_the_deck_is_marked(pile: str):
    seen = text.parse_observation(f"R1,R2/2/{pile}/* ~B5 0 0 5 draw *", rules="rlcard")
    assert int(seen.top_type) == cards.TYPE_NAMES.index("B5") and int(seen.deck_count) == 108 - 4 - int(seen.pile.sum())
    assert text.format_cards(seen.pile) == ("" if pile == "-" else pile.replace(",", " "))
    if "B5" not in pile:
        lines = text.format_observation(seen)
        assert "top       ~B5 (blue)" in lines and f"pile      {pile.replace(',', ' ')}" in lines
        chex.assert_trees_all_equal(text.parse_observation(lines, rules=Rules.rlcard()), seen)
        with pytest.raises(ValueError, match=r"in the deck \('~B5'\) only under rules with reshuffle_top"):
            text.parse_observation(lines)


def test_rules_may_be_named():
    line = "B7,W/3/R5,Y5/* W+4:R 0 4?G 2 W+4:R *"
    chex.assert_trees_all_equal(
        text.parse_observation(line, rules="official"), text.parse_observation(line, rules=Rules.official())
    )
    with pytest.raises(ValueError, match="one of default, official"):
        text.parse_observation(line, rules="none")


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
