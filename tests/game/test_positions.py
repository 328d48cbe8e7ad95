"""The crafted positions of `positions.txt`, from both seats: legal actions, next positions, rewards; and the oracle.

Contract: playable cards; forced play; declared colours; penalties; Skip and Reverse; reshuffle; no card to draw; last card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from tests.game.few_cards import NINE
from tests.helpers import actions, deck_of, legal
from tests.oracle.positions import to_oracle
from unojax.games.replay import DRAW, Step, replay
from unojax.rules import Rules, as_rules
from unojax.text import format_position, parse_position

PROGRAMS = 90  # A legal mask, a step and a draw of named cards for each of the rule sets.

_FEW = {"deck": deck_of("R5 B1 G1 R9 G2"), "hand_size": 1}
NAMED = {
    "nine cards": NINE,
    "two steps, skips pass": Rules(
        deck=deck_of("R1 R2 R3 R4 R5 RS RR Y1 Y+2 W W+4"), hand_size=1, skip_forfeits=False, max_steps=2, step_penalty=0.25
    ),
    "few": Rules(**_FEW),
    "few, may draw": Rules(**_FEW, may_draw=True),
    "few, the top card goes back": Rules(**_FEW, reshuffle_top=True),
}
"""Rules that no text describes, by the names of sections."""


class Row(NamedTuple):
    """A row of `positions.txt`: actions lead from `start`, with these legal actions, to `end`."""

    name: str
    start: str
    legal: str
    played: str
    end: str


def read_sections() -> dict[str, list[Row]]:
    sections: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in Path(__file__).with_name("positions.txt").read_text().splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            rows.append(Row(*(part.strip() for part in line.split(" | "))))
    return sections


SECTIONS = read_sections()


def mirrored(position: str) -> str:
    """Return the position with the seats exchanged."""
    places, top, player, penalty, steps, last, result = position.split()
    first, second, *others = places.split("/")
    other = {"0": "1", "1": "0"}
    places, player = "/".join([second, first, *others]), other[player[0]] + player[1:]
    return " ".join([places, top, player, penalty, steps, last, other.get(result, result)])


def check_row(row: Row, rules: Rules) -> None:
    """Compare the engine and the oracle with a row."""
    start = parse_position(row.start, rules=rules)
    assert legal(start) == actions(row.legal)
    game = replay(start, row.played, jax.random.key(0))
    assert format_position(game.end) == format_position(parse_position(row.end, rules=rules))
    assert not game.end.error
    for step, token in zip(game.steps, tokens(row.played), strict=True):
        told = to_oracle(step.before, rules)
        assert told.legal_actions() == legal(step.before)
        told.step(step.action, *chance(step, token))
        assert vars(told) | {"events": {}} == vars(to_oracle(step.after, rules)) | {"events": {}, "rewards": told.rewards}
        np.testing.assert_allclose(step.after.rewards, told.rewards, rtol=1e-6)


def tokens(played: str) -> Iterator[str]:
    return iter(played.split())


def chance(step: Step, token: str) -> tuple[Counter[str], str | None]:
    """Return the cards that a token names, and the colour of a wild played by chance."""
    draw = DRAW.fullmatch(token)
    names, _, color = draw[1].partition(":") if draw else ("", "", "")
    return Counter(names.split(",") if names else []), color or None


@pytest.mark.parametrize("section", SECTIONS)
def test_crafted_positions(section: str):
    check_section(SECTIONS[section], section.rpartition(" in ")[2])


@pytest.mark.slow
@pytest.mark.parametrize("section", [section for section in SECTIONS if " in " in section])
def test_crafted_positions_under_each_rule_alone(section: str):
    check_section(SECTIONS[section], section.partition(" in ")[0])


def check_section(rows: list[Row], rules: str) -> None:
    """Check rows from both seats, and list the failures by name."""
    for row in rows:
        for seat, each in enumerate((row, row._replace(start=mirrored(row.start), end=mirrored(row.end)))):
            try:
                check_row(each, NAMED[rules] if rules in NAMED else as_rules(rules))
            except (AssertionError, ValueError) as error:
                raise AssertionError(f"{row.name}, player {seat} in the first seat") from error
