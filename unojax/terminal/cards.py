"""Cards in colour (readable without, by their letters), hands, probabilities and moves."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, SupportsFloat, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from rich.text import Text

from unojax import cards, text
from unojax.games.replay import Step
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.terminal.tables import WIDTH
from unojax.viz.scene import Scene, read_scene
from unojax.viz.words import PLAYERS, CardWord, move_phrase

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
STYLES: Final = (*cards.COLOR_NAMES, "bold")
"""Styles of text about red, yellow, blue, green and wild cards."""
# Black is not bold, because many terminals then show it grey.
_CHIPS: Final = ("bold white on red", "black on yellow", "bold white on blue", "black on green", "bold reverse")

if TYPE_CHECKING:
    from unojax.analysis.turns import TrackedTurn

_Item = TypeVar("_Item")


def style_of(card_type: int) -> str:
    return STYLES[int(cards.COLOR_OF_TYPE[card_type])]


def action_style(name: str) -> str:
    """Return the style of a play, given as text; none for other actions."""
    action = text.parse_action(name)
    return style_of(int(cards.TYPE_OF_PLAY[action])) if action < cards.DRAW else ""


def action_name(name: str, *, has_drawn: bool) -> str:
    """Return an action's name at a position; after drawing a playable card, another draw is a pass."""
    return "pass" if has_drawn and text.parse_action(name) == cards.DRAW else name


def card(card_type: int, *, wide: bool = True) -> Text:
    """Return a card, `wide` if it stands alone."""
    name = cards.TYPE_NAMES[card_type]
    return Text(f" {name} " if wide else name, style=_CHIPS[int(cards.COLOR_OF_TYPE[card_type])])


def color(number: int) -> Text:
    return Text(cards.COLOR_NAMES[number], style=STYLES[number])


def move(before: Scene, after: Scene, names: tuple[str, str] = PLAYERS) -> Text:
    """Describe a move; see `unojax.viz.words.move_phrase`."""
    words = Text()
    for piece in move_phrase(before, after, names):
        if isinstance(piece, str):
            words.append(piece)
        else:
            words.append_text(card(piece.card_type, wide=False) if isinstance(piece, CardWord) else color(piece.color))
    return words.append(".")


def step_words(step: Step, viewer: int) -> Text:
    """Describe an action as a player saw it."""
    before, after = (read_scene(state, 1 if viewer else 0) for state in (step.before, step.after))
    return move(before, after)


def turn_words(turn: TrackedTurn) -> Text:
    """Describe the action of a tracked turn as the player saw it."""
    if turn.seen is None:
        return Text("the start")
    if turn.step is not None:
        return step_words(turn.step, turn.player)
    return move(read_scene(turn.seen.before), read_scene(turn.seen.after))


def view_lines(seen: Observation) -> list[Text]:
    lines = text.format_observation(seen).splitlines()
    return [Text(row) for line in lines for row in textwrap.wrap(line, WIDTH, subsequent_indent=" " * 12)]


def whole_percent(probability: SupportsFloat) -> str:
    """Return at most three characters; `0` and `100` are exact, up to one in 100,000."""
    value = 100 * float(probability)
    # Sums of float32 weights are 1 up to rounding.
    if value <= 1e-3 or value >= 100 - 1e-3:
        return str(round(value))
    return "<1" if value < 0.5 else ">99" if value >= 99.5 else str(round(value))


def bar(share: float, width: int) -> str:
    """Return a share 0..1 in eighths of a character, or in ASCII if stdout needs it."""
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        return ("#" * round(min(share, 1.0) * width)).ljust(width)
    full_cells, rest = divmod(round(min(share, 1.0) * width * 8), 8)
    return ("█" * full_cells + (_EIGHTHS[rest] if rest else "")).ljust(width)


def card_bar(card_type: int, probability: SupportsFloat, *, width: int = 7) -> Text:
    """Return the probability that a hand holds a card."""
    named = f"{cards.TYPE_NAMES[card_type]:<3} {bar(float(probability), width)}"
    return Text.assemble((named, style_of(card_type)), f" {whole_percent(probability):>3}")


def likeliest(values: ArrayLike, number: int) -> list[int]:
    """Return the types of the largest values in descending order, without those of value 0."""
    values = np.asarray(values)
    order = np.argsort(-values, kind="stable")[:number]
    return order[values[order] > 0].tolist()


def likely_cards(prob_holds: ArrayLike, number: int, columns: int, *, width: int = 7) -> list[Text]:
    """Return rows of the likeliest cards, with the probabilities float[54] that a hand holds them.

    Rows have at most `columns` characters.
    """
    probs = np.asarray(prob_holds)
    bars = [card_bar(t, probs[t], width=width) for t in likeliest(probs, number)]
    cell = len(card_bar(0, 0.0, width=width)) + 2
    rows = [Text("  ").join(line) for line in in_columns(bars, max(1, (columns + 2) // cell))]
    for row in rows:
        row.rstrip()
    return rows


def lacking(prob_color: ArrayLike, rules: Rules) -> str:
    """Return the probabilities in per cent that a hand lacks each colour, from float[4] that it holds it."""
    probs = np.asarray(prob_color)
    return ", ".join(f"{cards.COLOR_NAMES[c]} {whole_percent(1 - float(probs[c]))}" for c in colors_of(rules))


def in_columns(items: Sequence[_Item], num_columns: int) -> list[Sequence[_Item]]:
    """Arrange items in columns, filled from top to bottom."""
    num_rows = -(-len(items) // num_columns)
    return [items[row::num_rows] for row in range(num_rows)]


def colors_of(rules: Rules) -> list[int]:
    return sorted({int(c) for c in cards.COLOR_OF_TYPE[np.flatnonzero(rules.deck)]} - {-1})
