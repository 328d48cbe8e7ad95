"""How option values are read, and that the options are those of the library."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
import tyro

from unojax import POLICIES, Rules, cards, small_deck
from unojax.cli import options
from unojax.cli.options import RuleOptions
from unojax.rules import PRESETS
from unojax.specs import POLICY_NAMES


def test_rule_options_are_the_fields_of_rules():
    assert [f.name for f in fields(RuleOptions)] == ["rules", *(f.name for f in fields(Rules))]
    assert RuleOptions().build() == Rules()


@pytest.mark.parametrize("name", ["start_card", "first_player", "play_drawn", "wild_draw_four", "start_effects"])
def test_rule_options_offer_the_choices_of_rules(name: str):
    def choices(cls: type) -> set[str]:
        hint = get_type_hints(cls)[name]
        # Options that are as the named rules say unless they are given may be None.
        literal = next((part for part in get_args(hint) if get_args(part)), hint)
        return set(get_args(literal))

    assert choices(RuleOptions) == choices(Rules)
    assert len(choices(Rules)) > 1


@pytest.mark.parametrize("name", PRESETS)
def test_rules_have_names_and_other_options_change_them(name: str):
    assert tyro.cli(RuleOptions, args=["--rules", name]).build() == PRESETS[name]
    changed = tyro.cli(RuleOptions, args=["--rules", name, "--hand-size", "5", "--stacking", "False"]).build()
    assert changed == dataclasses.replace(PRESETS[name], hand_size=5, stacking=False)
    # A value that is the default of the default rules is given too.
    given = tyro.cli(RuleOptions, args=["--rules", name, "--start-card", "non_wild", "--start-effects", "none"]).build()
    assert given == dataclasses.replace(PRESETS[name], start_card="non_wild", start_effects="none")


def test_every_rule_option_reaches_the_rules():
    args = ["--no-skip-forfeits", "--start-card", "any", "--hand-size", "3", "--first-player", "random", "--max-steps", "1e3"]
    assert tyro.cli(RuleOptions, args=[*args, "--step-penalty", "0.25", "--deck", "numbers"]).build() == Rules(
        skip_forfeits=False,
        start_card="any",
        hand_size=3,
        first_player="random",
        max_steps=1000,
        step_penalty=0.25,
        deck=small_deck(ranks=range(10), wilds=0),
    )
    args = ["--may-draw", "True", "--play-drawn", "may", "--draw-until-playable", "True", "--wild-draw-four", "no_color"]
    args += ["--stacking", "True", "--start-effects", "keep_turn", "--reverse-passes", "True", "--reshuffle-top", "True"]
    assert tyro.cli(RuleOptions, args=[*args, "--points", "True"]).build() == Rules(
        may_draw=True,
        play_drawn="may",
        draw_until_playable=True,
        wild_draw_four="no_color",
        stacking=True,
        start_effects="keep_turn",
        reverse_passes=True,
        reshuffle_top=True,
        points=True,
    )


def test_policy_names_are_those_of_the_library():
    assert tuple(POLICIES) == POLICY_NAMES


def test_deck_file_with_too_many_copies(tmp_path):
    path = tmp_path / "deck.json"
    path.write_text(json.dumps([2, *cards.COPIES.tolist()[1:]]))
    with pytest.raises(ValueError, match=r"--deck\[0\] \(R0\) must be in \[0, 1\], got 2"):
        RuleOptions(deck=str(path)).build()


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("1e6", 10**6), ("1_000", 1000), ("2.5e3", 2500), ("2147483648", 2**31)])
def test_counts(text: str, value: int):
    assert options._read_count(text) == value


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "1e-3", "many", "", "inf", "nan", "2147483649", "1e400"])
def test_count_errors(text: str):
    with pytest.raises(ValueError, match="must be"):
        options._read_count(text)
