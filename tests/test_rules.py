"""What may vary, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import asdict, fields
from typing import Any

import jax
import numpy as np
import pytest

from tests.oracle import game as oracle
from unojax import cards, init, make_state, parse_agent, parse_position
from unojax import rules as rules_module
from unojax.decks import small_deck
from unojax.rules import Rules, as_rules, check_plain


def test_defaults_are_the_rules_of_the_game():
    rules = Rules()
    assert rules.skip_forfeits
    assert (rules.start_card, rules.first_player) == ("non_wild", "zero")
    assert (rules.hand_size, rules.num_cards) == (7, 108)
    assert dict(zip(oracle.CARDS, rules.deck, strict=True)) == oracle.FULL_DECK
    assert rules.max_steps is None
    assert rules.step_penalty == 0


def test_rules_are_frozen_hashable_and_equal_by_value():
    assert Rules(hand_size=5) == Rules(hand_size=5) != Rules(hand_size=6)
    an_array: Any = np.array(cards.COPIES)
    assert hash(Rules(deck=an_array)) == hash(Rules())
    with pytest.raises(AttributeError):
        Rules().hand_size = 5  # type: ignore[misc] that it is frozen is the test


BAD = {
    "skip_forfeits must be True or False, got 1": {"skip_forfeits": 1},
    "start_card must be one of ('non_wild', 'any', 'not_draw_four'), got 'wild'": {"start_card": "wild"},
    "first_player must be one of ('zero', 'random'), got 1": {"first_player": 1},
    "max_steps must be None or an integer in [1, 2147483647], got 0": {"max_steps": 0},
    "max_steps must be None or an integer in [1, 2147483647], got 2.5": {"max_steps": 2.5},
    "max_steps must be None or an integer in [1, 2147483647], got True": {"max_steps": True},
    "step_penalty must be a finite number of single precision, got nan": {"step_penalty": float("nan")},
    "step_penalty must be a finite number of single precision, got 1e+39": {"step_penalty": 1e39},
    "step_penalty must be a finite number of single precision, got 'a'": {"step_penalty": "a"},
    "hand_size must be an integer in [1, 49] for a deck with 100 coloured cards": {"hand_size": 50},
    "hand_size must be an integer in [1, 53] for a deck with 108 cards": {"hand_size": 54, "start_card": "any"},
    "(two hands and the start card), got 0": {"hand_size": 0},
    "(two hands and the start card), got 7.0": {"hand_size": 7.0},
    "(two hands and the start card), got True": {"hand_size": True},
    "deck must be 54 integer copy counts, one per card type, got (1, 2)": {"deck": (1, 2)},
    "deck must be 54 integer copy counts": {"deck": (1.0,) * 54},
    "deck[0] (R0) must be in [0, 1], got 2": {"deck": (2,) * 54},
    "deck[53] (W+4) must be in [0, 4], got -1": {"deck": (1,) * 53 + (-1,)},
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_field_is_refused_with_what_came_and_what_is_allowed(message: str):
    fields: dict[str, Any] = BAD[message]
    with pytest.raises(ValueError, match=re.escape(message)):
        Rules(**fields)


TAKES_RULES = {
    "make_state": lambda rules: make_state("R1 W", "G1", "R7", rules=rules).rules,
    "parse_position": lambda rules: parse_position("R1,W/G1/-/* R7 0 0 0 - *", rules=rules).rules,
    "parse_agent": lambda rules: parse_agent("mc", rules=rules).rules,
    "init": lambda rules: init(jax.random.key(0), rules=rules).rules,
}


@pytest.mark.parametrize("name", TAKES_RULES)
def test_rules_go_by_their_names(name: str):
    take: Any = TAKES_RULES[name]
    assert take("official") == Rules.official()
    with pytest.raises(ValueError, match=r"rules must be a unojax\.Rules or one of default, official, house, rlcard, got 'home'"):
        take("home")


def test_numbers_of_numpy_become_pythons():
    rules = Rules(hand_size=np.int64(5), max_steps=np.int32(50), step_penalty=np.float32(0.5))
    assert rules == Rules(hand_size=5, max_steps=50, step_penalty=0.5)
    assert json.loads(json.dumps(asdict(rules)))["hand_size"] == 5


@pytest.mark.parametrize(("start_card", "largest"), [("non_wild", 2), ("any", 4)])
def test_the_largest_hands_leave_a_start_card(start_card: Any, largest: int):
    """A deck of 5 coloured cards and 4 wilds: under "non_wild" the hands may get all but one of the coloured ones."""
    deck = tuple({"R1": 2, "R2": 2, "Y1": 1, "W": 4}.get(name, 0) for name in cards.TYPE_NAMES)
    assert Rules(deck=deck, start_card=start_card, hand_size=largest).hand_size == largest
    with pytest.raises(ValueError, match="hand_size"):
        Rules(deck=deck, start_card=start_card, hand_size=largest + 1)


def test_small_deck_holds_what_it_was_asked_for():
    deck = small_deck(colors=2, ranks=(0, 5, 12), copies=2, wilds=1)
    expected = {"R0": 1, "Y0": 1, "R5": 2, "Y5": 2, "R+2": 2, "Y+2": 2, "W": 1, "W+4": 1}
    assert {name: n for name, n in zip(cards.TYPE_NAMES, deck, strict=True) if n} == expected
    assert small_deck() == Rules().deck


def test_choices_at_a_time():
    """Each coloured type and each colour of a wild, and the actions beside plays where there is a choice of them."""
    assert Rules().most_choices == Rules().num_choices == 60
    assert Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1).most_choices == 4 + 4 + 4
    official = as_rules("official")
    assert official.most_choices == official.num_choices > 60


@pytest.mark.parametrize(
    "arguments",
    [{"colors": 0}, {"colors": 5}, {"copies": 3}, {"copies": 0}, {"wilds": -1}, {"wilds": 5}, {"ranks": (13,)}, {"ranks": (-1,)}],
)
def test_small_deck_refuses_what_is_out_of_range(arguments: dict[str, Any]):
    (name,) = arguments
    with pytest.raises(ValueError, match=name):
        small_deck(**arguments)


@pytest.mark.parametrize("rules", [Rules(), Rules(hand_size=5, start_card="any"), Rules.official()])
def test_rules_show_what_differs_from_the_default_and_are_read_back(rules: Rules):
    assert eval(repr(rules), {"Rules": Rules}) == rules
    assert repr(Rules(hand_size=5)) == "Rules(hand_size=5)"


def test_every_field_is_known_to_all_modules():
    """A new field is refused where it would be answered in silence, until its author has looked there (see `KNOWN`)."""
    assert {field.name for field in fields(Rules)} == rules_module.KNOWN


@pytest.mark.parametrize("name", ["reverse_passes", "points", "hand_size"])
def test_a_field_that_modules_do_not_know_is_refused_or_no_plain_rule(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules_module, "KNOWN", rules_module.KNOWN - {name})
    assert Rules().has_plain_steps and not Rules().unknown
    rules = Rules(**{name: 5 if name == "hand_size" else True})
    assert rules.unknown == [name] and not rules.has_plain_turns
    with pytest.raises(ValueError, match=f"was not trained for rules with {name}"):
        parse_agent("value", rules=rules)
    with pytest.raises(ValueError, match=f"the closed form can't follow rules with {name}="):
        check_plain(rules, "the closed form")


def test_rules_as_text():
    found = as_rules("official,hand_size=5,may_draw=false,max_steps=200,step_penalty=0.1,wild_draw_four=any")
    given = {"hand_size": 5, "may_draw": False, "max_steps": 200, "step_penalty": 0.1, "wild_draw_four": "any"}
    assert found == dataclasses.replace(Rules.official(), **given)
    assert as_rules("default,max_steps=none") == Rules()
    assert as_rules("house,stacking=false,deck=colors=2,copies=1,wilds=1") == dataclasses.replace(
        Rules.house(), stacking=False, deck="colors=2,copies=1,wilds=1"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "rules must be a unojax.Rules or one of default"),
        ("hand_size=5", "one of default, .*, got 'hand_size=5'; other fields follow a name after commas: official,hand_size=5"),
        ("official,hands=5", "'hands' is no field of the rules; fields are skip_forfeits, "),
        ("official,stacking", "'stacking' is no field=value"),
        ("official,hand_size=5,hand_size=6", "'hand_size' is given twice"),
        ("official,hand_size=many", "rules 'official,hand_size=many': hand_size must be .* got 'many'"),
        ("official,stacking=yes", "stacking must be True or False, got 'yes'"),
        ("default,start_card=none", "start_card must be .* got 'none'"),
        ("default,deck=tarot", "rules 'default,deck=tarot': .*tarot"),
    ],
)
def test_rules_that_text_does_not_describe(text: str, says: str):
    with pytest.raises(ValueError, match=says):
        as_rules(text)
