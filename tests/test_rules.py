"""Rules: defaults, rejections, text; and decks as text.

Contract: Rules.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.helpers import refusals, refused_texts
from tests.oracle import game as oracle
from unojax import cards, init, make_state, parse_agent, parse_position
from unojax import rules as rules_module
from unojax.adapters.encoding import Encoder
from unojax.decks import parse_deck, small_deck
from unojax.rules import Rules, agreed_rules, as_rules, check_plain, check_rules_of_agent, check_same_rules
from unojax.text.rules import rules_in_words


def test_defaults_are_the_rules_of_the_game():
    rules = Rules()
    assert rules.skip_forfeits
    assert (rules.start_card, rules.first_player) == ("non_wild", "zero")
    assert (rules.hand_size, rules.num_cards) == (7, 108)
    assert dict(zip(oracle.CARDS, rules.deck, strict=True)) == oracle.FULL_DECK
    assert (rules.max_steps, rules.step_penalty) == (None, 0)


def test_rules_are_frozen_hashable_equal_by_value_and_shown_by_their_differences():
    assert Rules(hand_size=5) == Rules(hand_size=5) != Rules(hand_size=6)
    an_array: Any = np.array(cards.COPIES)
    assert hash(Rules(deck=an_array)) == hash(Rules())
    with pytest.raises(AttributeError):
        Rules().hand_size = 5
    numbers: Any = {"hand_size": np.int64(5), "max_steps": np.int32(50), "step_penalty": np.float32(0.5)}
    assert Rules(**numbers) == Rules(hand_size=5, max_steps=50, step_penalty=0.5)
    assert json.loads(json.dumps(asdict(Rules(**numbers))))["hand_size"] == 5
    for rules in (Rules(), Rules(hand_size=5, start_card="any"), Rules.official()):
        assert eval(repr(rules), {"Rules": Rules}) == rules
    assert repr(Rules(hand_size=5)) == "Rules(hand_size=5)"


def test_bad_fields_are_refused():
    """The error names the field; the largest hands leave a start card."""
    some = tuple({"R1": 2, "R2": 2, "Y1": 1, "W": 4}.get(name, 0) for name in cards.TYPE_NAMES)
    values: dict[str, Any] = {
        "skip_forfeits": 1,
        "start_card": "wild",
        "first_player": 1,
        "max_steps": 0,
        "max_steps (fraction)": 2.5,
        "max_steps (bool)": True,
        "step_penalty": float("nan"),
        "step_penalty (beyond single precision)": 1e39,
        "step_penalty (text)": "a",
        "hand_size": 50,
        "hand_size (none)": 0,
        "hand_size (float)": 7.0,
        "hand_size (bool)": True,
        "deck": (1, 2),
        "deck (floats)": (1.0,) * 54,
        "deck (text)": "half",
    }
    refusals({name: partial(Rules, **{name.partition(" ")[0]: value}) for name, value in values.items()})
    refusals(
        {
            "[1, 53]": lambda: Rules(hand_size=54, start_card="any"),
            "deck[0] (R0)": lambda: Rules(deck=(2,) * 54),
            "deck[53] (W+4)": lambda: Rules(deck=(1,) * 53 + (-1,)),
            "hand_size": lambda: Rules(deck=some, hand_size=3),
            "hand_size (any start card)": lambda: Rules(deck=some, hand_size=5, start_card="any"),
        }
    )
    # Of 5 coloured cards and 4 wilds, under "non_wild" the hands may get all but one of the coloured ones.
    assert (Rules(deck=some, hand_size=2).hand_size, Rules(deck=some, hand_size=4, start_card="any").hand_size) == (2, 4)


def test_rules_of_one_game_must_agree():
    """Each message says what to change: an argument `rules`, another argument, or the agent."""
    rules, others = Rules(), Rules(hand_size=5, deck=(*Rules().deck[:-1], 3))
    told = "hand_size=5 instead of 7, deck of 107 cards instead of 108; "
    assert agreed_rules(rules, None) == agreed_rules(rules, Rules()) == rules
    refusals(
        {
            told + "the game carries its rules, so leave `rules` out": lambda: agreed_rules(rules, others),
            told + "pass states, observations and beliefs of one game": lambda: check_same_rules(rules, others),
            told + "make the agent for the rules of its games": lambda: check_rules_of_agent(rules, others),
        }
    )


def test_rules_are_passed_by_their_names():
    """Contract: rules by name."""
    take: dict[str, Any] = {
        "make_state": partial(make_state, "R1 W", "G1", "R7"),
        "parse_position": partial(parse_position, "R1,W/G1/-/* R7 0 0 0 - *"),
        "parse_agent": partial(parse_agent, "mc"),
        "init": lambda rules: jax.eval_shape(partial(init, rules=rules), jax.random.key(0)),
    }
    for function in take.values():
        assert function(rules="official").rules == Rules.official()
    refusals(
        {f"default, official, house, rlcard, got 'home' ({name})": partial(call, rules="home") for name, call in take.items()}
    )


def test_rules_as_text():
    found = as_rules("official,hand_size=5,may_draw=false,max_steps=200,step_penalty=0.1,wild_draw_four=any")
    given = {"hand_size": 5, "may_draw": False, "max_steps": 200, "step_penalty": 0.1, "wild_draw_four": "any"}
    assert found == dataclasses.replace(Rules.official(), **given)
    assert as_rules("default,max_steps=none") == as_rules("default,max_steps=None") == Rules()
    assert as_rules("official,stacking=True,may_draw=False") == Rules.official(stacking=True, may_draw=False)
    deck: Any = "colors=2,copies=1,wilds=1"
    assert as_rules(f"house,stacking=false,deck={deck}") == dataclasses.replace(Rules.house(), stacking=False, deck=deck)
    refused_texts(
        as_rules,
        {
            "rules": ["", "hand_size=5"],
            "'hands'": ["official,hands=5"],
            "'stacking'": ["official,stacking"],
            "hand_size": ["official,hand_size=5,hand_size=6", "official,hand_size=many"],
            "stacking must be": ["official,stacking=yes"],
            "start_card": ["default,start_card=none"],
            "tarot": ["default,deck=tarot"],
        },
    )


def test_number_of_choices():
    """Each coloured type, each colour of a wild, and optional other actions."""
    assert Rules().most_choices == Rules().num_choices == 60
    assert Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1).most_choices == 4 + 4 + 4
    assert as_rules("official").most_choices == as_rules("official").num_choices > 60


@pytest.mark.parametrize("name", ["reverse_passes", "points", "hand_size"])
def test_a_field_that_modules_do_not_know_is_refused_or_no_plain_rule(name: str, monkeypatch: pytest.MonkeyPatch):
    """A new field is rejected instead of ignored, until it is in `KNOWN`."""
    assert {field.name for field in fields(Rules)} == rules_module.KNOWN
    monkeypatch.setattr(rules_module, "KNOWN", rules_module.KNOWN - {name})
    assert Rules().has_plain_steps and not Rules().unknown
    rules = Rules(**{name: 5 if name == "hand_size" else True})
    assert rules.unknown == [name] and not rules.has_plain_turns
    refusals(
        {
            f"rules with {name}": lambda: parse_agent("value", rules=rules),
            f"the closed form can't follow rules with {name}": lambda: check_plain(rules, "the closed form"),
            f"the columns do not show rules with {name}": lambda: Encoder(rules=rules),
        }
    )
    assert rules_in_words(rules)["Not described here"] == [f"{name}={getattr(rules, name)!r}."]
    assert "Not described here" not in rules_in_words(Rules())


def test_every_field_changes_the_rules_in_words():
    others: dict[str, Any] = {
        "start_card": "any",
        "hand_size": 5,
        "deck": "numbers",
        "first_player": "random",
        "max_steps": 9,
        "step_penalty": 0.5,
        "play_drawn": "may",
        "wild_draw_four": "last",
        "start_effects": "forfeit",
    }
    for field in fields(Rules):
        rules = Rules(**{field.name: others.get(field.name, not field.default)})
        assert rules_in_words(rules) != rules_in_words(Rules()), field.name


# Decks


def test_small_decks():
    deck = small_deck(colors=2, ranks=(0, 5, 12), copies=2, wilds=1)
    expected = {"R0": 1, "Y0": 1, "R5": 2, "Y5": 2, "R+2": 2, "Y+2": 2, "W": 1, "W+4": 1}
    assert {name: n for name, n in zip(cards.TYPE_NAMES, deck, strict=True) if n} == expected
    assert small_deck() == Rules().deck
    wrong: dict[str, list[Any]] = {"colors": [0, 5], "copies": [0, 3], "wilds": [-1, 5], "ranks": [(13,), (-1,)]}
    refusals({f"{name} ({v})": partial(small_deck, **{name: v}) for name, values in wrong.items() for v in values})


def test_decks_as_text(tmp_path: Path):
    for text, deck in {
        "full": Rules().deck,
        "numbers": small_deck(ranks=range(10), wilds=0),
        "colors=2": small_deck(colors=2),
        "colors=2,ranks=0-5+S,copies=1,wilds=1": small_deck(colors=2, ranks=(0, 1, 2, 3, 4, 5, 10), copies=1, wilds=1),
        "colors=2 ranks=0-5+S copies=1 wilds=1": small_deck(colors=2, ranks=(0, 1, 2, 3, 4, 5, 10), copies=1, wilds=1),
        "ranks=1+2": small_deck(ranks=(1, 2)),
        "ranks=1++2": small_deck(ranks=(1, 12)),
        "ranks=+2": small_deck(ranks=(12,)),
        "ranks=+2+2-3+R+s": small_deck(ranks=(12, 2, 3, 11, 10)),
        "ranks=7++2+1": small_deck(ranks=(7, 12, 1)),
        "wilds=4,ranks=none": small_deck(ranks=()),
    }.items():
        assert parse_deck(text) == deck, text
    nothing: Any = None
    refusals({"deck must be text, got None": lambda: parse_deck(nothing)})
    as_text: Any = "colors=2 ranks=0-5+S copies=1 wilds=1"
    assert Rules(deck=as_text, hand_size=3) == Rules(deck=parse_deck(as_text), hand_size=3)

    path, counts = tmp_path / "deck.json", [t % 2 for t in range(54)]
    # Some editors and shells write a byte order mark.
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_text(json.dumps(counts), encoding=encoding)
        assert parse_deck(str(path)) == tuple(counts)


def test_decks_that_text_does_not_describe(tmp_path: Path):
    refused_texts(
        parse_deck,
        {
            "not understood": ["", "ful", "colors", "colours=2", "colors=2,,wilds=1"],
            "colors": ["colors=2,colors=3", "colors=two", "colors=5"],
            "ranks must be": ["ranks=", "ranks=12", "ranks=1+", "ranks=0-S"],
            "write 3-5": ["ranks=5-3"],
            "nowhere/deck.json": ["nowhere/deck.json"],
        },
    )
    path = tmp_path / "deck.json"
    for content in ("[1, 2]", "{}", json.dumps([1.0] * 54), json.dumps([True] * 54), "no json"):
        path.write_text(content)
        refused_texts(parse_deck, {"deck.json": [str(path)]})


def test_rules_and_their_words_need_no_jax():
    code = "import sys, unojax; from unojax.text.rules import rules_in_words; rules_in_words(unojax.Rules(deck='numbers')); "
    code += "print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
