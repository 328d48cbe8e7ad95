"""`unojax rules`, and the options that change the rules."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import get_args, get_type_hints

import numpy as np
import tyro

from tests.helpers import actions, refusals
from unojax import POLICIES, Rules, cards, legal_mask, make_state, small_deck
from unojax.cli import options
from unojax.cli.options import RuleOptions
from unojax.decks import parse_deck
from unojax.rules import PRESETS
from unojax.specs import POLICY_NAMES
from unojax.text.rules import rules_in_words


def in_words(rules: Rules) -> str:
    return " ".join(sentence for section in rules_in_words(rules).values() for sentence in section)


def legal_under(rules: Rules, mine: str, top: str, **others) -> set[int]:
    return set(np.flatnonzero(legal_mask(make_state(mine, "B1 B2", top, rules=rules, **others))).tolist())


def test_each_option_changes_the_words(run_text):
    default = " ".join(run_text("rules").split())
    for args, loses, gains in (
        ("--no-skip-forfeits", "the same player moves again", "Skip or Reverse has no effect"),
        ("--start-card any", "goes back and another card", "may be turned up; the active colour is then any of the four"),
        ("--hand-size 5", "dealt 7 cards", "dealt 5 cards"),
        ("--deck numbers", "108 cards", "76 cards"),
        ("--first-player random", "Player 0 moves first", "A fair coin decides which player moves first"),
        ("--max-steps 50", "", "not over after 50 steps"),
        ("--step-penalty 0.25", "", "both players' rewards are -0.25"),
    ):
        changed = " ".join(run_text("rules", *args.split()).split())
        assert gains in changed and gains not in default, args
        assert loses in default and (not loses or loses not in changed), args


def test_words_on_a_penalty_are_those_of_the_engine():
    """A +2 turned up counts; a Wild+4 that may be challenged need not be answered by another."""
    house, free = Rules.house(), Rules(stacking=True, wild_draw_four="challenge")
    assert "draws 2 cards and forfeits the turn; if it can, it must instead play another +2" in in_words(house)
    assert legal_under(house, "G+2 R1", "R+2", penalty=2) == actions("G+2")
    assert "it may instead play another Wild+4" in in_words(free)
    assert "if it can, it must instead play another +2" in in_words(free)
    assert actions("draw W+4:R challenge") <= legal_under(free, "W+4 R1", "W+4", color="R", penalty=4, contested="B")


def test_only_cards_of_the_deck_have_words(run_text):
    phrases = ("Wild or Wild+4", "Skip or Reverse", "After Skip the", "After +2", "After Wild+4")
    for deck, expected in (
        ("full", {"Wild or Wild+4", "Skip or Reverse", "After +2", "After Wild+4"}),
        ("numbers", set()),
        ("ranks=0-9+S,wilds=0", {"After Skip the"}),
        ("ranks=0-9++2,wilds=1", {"Wild or Wild+4", "After +2", "After Wild+4"}),
    ):
        text = in_words(Rules(deck=parse_deck(deck)))
        assert {phrase for phrase in phrases if phrase in text} == expected
        assert expected or not re.search(r"Wild|Skip|Reverse|\+2", text)
    no_draw_four = list(Rules().deck)
    no_draw_four[cards.WILD_DRAW_FOUR_TYPE] = 0
    text = in_words(Rules(deck=tuple(no_draw_four)))
    assert "A Wild goes back" in text and "Wild+4" not in text
    lines = [line.split() for line in run_text(*"rules --deck colors=2,ranks=0-1+S,wilds=3 --hand-size 2".split()).splitlines()]
    rows = "The 16 cards", "0 1 S sum", "red 1 2 2 5", "yellow 1 2 2 5", "wild 3 Wild, 3 Wild+4"
    assert all(row.split() in lines for row in rows) and not any(line[:1] in (["blue"], ["green"]) for line in lines)


def test_options_are_the_fields_of_the_rules():
    fields = [field.name for field in dataclasses.fields(Rules)]
    assert [field.name for field in dataclasses.fields(RuleOptions)] == ["rules", *fields]
    assert RuleOptions().build() == Rules()

    def choices(cls: type, name: str) -> set[str]:
        hint = get_type_hints(cls)[name]
        # An option may be None if the named rules decide.
        return set(get_args(next((part for part in get_args(hint) if get_args(part)), hint)))

    for name in ("start_card", "first_player", "play_drawn", "wild_draw_four", "start_effects"):
        assert choices(RuleOptions, name) == choices(Rules, name) and len(choices(Rules, name)) > 1
    assert tuple(POLICIES) == POLICY_NAMES


def parsed(line: str) -> Rules:
    return tyro.cli(RuleOptions, args=line.split()).build()


def test_options_reach_the_rules_and_change_named_ones():
    line = "--no-skip-forfeits --start-card any --hand-size 3 --first-player random --max-steps 1e3"
    one = {"skip_forfeits": False, "start_card": "any", "hand_size": 3, "first_player": "random", "max_steps": 1000}
    assert parsed(f"{line} --step-penalty 0.25 --deck numbers") == Rules(
        **one, step_penalty=0.25, deck=small_deck(ranks=range(10), wilds=0)
    )
    flags = ("may_draw", "draw_until_playable", "stacking", "reverse_passes", "reshuffle_top", "points")
    other = {"play_drawn": "may", "wild_draw_four": "no_color", "start_effects": "keep_turn"} | dict.fromkeys(flags, True)
    line = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in other.items())
    assert parsed(line) == Rules(**other)
    assert {"deck", "step_penalty", *one, *other} == {field.name for field in dataclasses.fields(Rules)}
    for name, preset in PRESETS.items():
        assert parsed(f"--rules {name}") == preset
        changed = dataclasses.replace(preset, hand_size=5, stacking=False)
        assert parsed(f"--rules {name} --hand-size 5 --stacking False") == changed
        # A value that is the default of the default rules is given too.
        given = dataclasses.replace(preset, start_card="non_wild", start_effects="none")
        assert parsed(f"--rules {name} --start-card non_wild --start-effects none") == given


def test_counts_and_deck_files(tmp_path):
    counts = {"1": 1, "1e6": 10**6, "1_000": 1000, "2.5e3": 2500, "2147483648": 2**31}
    assert {text: options._read_count(text) for text in counts} == counts
    bad = ("0", "-3", "1.5", "1e-3", "many", "", "inf", "nan", "2147483649", "1e400")
    path = tmp_path / "deck.json"
    path.write_text(json.dumps([2, *cards.COPIES.tolist()[1:]]))
    refusals(
        {f"must be ({text})": lambda text=text: options._read_count(text) for text in bad}
        | {"--deck[0]": lambda: RuleOptions(deck=str(path)).build()}
    )
