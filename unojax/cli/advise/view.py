"""How advice looks on a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from unojax import cards, text
from unojax.cli import output
from unojax.cli.belief.view import bar, percent

if TYPE_CHECKING:
    from unojax.cli.advise.search import Advice, Belief, Play
    from unojax.observation import Observation
    from unojax.search.agents import SearchAgent

_WIDTH: Final = 80
_BARS_PER_ROW: Final = 4
_BAR_WIDTH: Final = 7
_STYLES: Final = (*cards.COLOR_NAMES, "bold")
"""Of red, yellow, blue, green and wild cards. The letters in the names say the same."""


def position(seen: Observation) -> Group:
    """What the player to move sees."""
    lines = text.format_observation(seen).splitlines()
    return Group(*(Text(row) for line in lines for row in textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 12)), "")


def belief(what: Belief, seen: Observation, num_bars: int) -> Group:
    """The likeliest cards of the other hand, with their probabilities, and the colours."""
    other = 1 - int(seen.player)
    order = np.argsort(-what.prob_holds, kind="stable")[:num_bars]
    order = order[what.prob_holds[order] > 0]
    num_rows = -(-len(order) // _BARS_PER_ROW)
    parts: list[RenderableType] = []
    if num_bars:
        parts.append(Text(f"Probability in % that player {other} holds a card", style="bold"))
    for row in range(num_rows):
        line = Text("  ")
        # Down the columns, so that the likeliest come first in the first one.
        for t in order[row::num_rows].tolist():
            probability = float(what.prob_holds[t])
            line.append(f"{cards.TYPE_NAMES[t]:<3} {bar(probability, _BAR_WIDTH)}", style=_STYLES[int(cards.COLOR_OF_TYPE[t])])
            line.append(f" {percent(probability):>3}    ")
        parts.append(line)
    colors = sorted({int(c) for c in cards.COLOR_OF_TYPE[np.flatnonzero(seen.rules.deck)]} - {-1})
    lacks = ", ".join(f"{cards.COLOR_NAMES[c]} {percent(1 - what.prob_color[c])} %" for c in colors)
    return Group(*parts, Text(f"  no card of a colour: {lacks}"), "")


def plays(advice: Advice, agent: SearchAgent) -> Group:
    """The table, and the advice in words."""
    table = output.grid(title=f"Wins in % ({output.plus_minus()} standard error)")
    table.add_column("", no_wrap=True)
    table.add_column("play", no_wrap=True)
    for heading in ("wins", "to best", "rollouts"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for play in advice.plays:
        table.add_row(
            ">" if play.action == advice.recommended else "",
            Text(text.format_action(play.action), style=_style(play.action)),
            _percents(play.win, play.win_error),
            _percents(-play.behind, play.behind_error, sign=True) if play is not advice.plays[0] else "",
            f"{play.rollouts:,}",
            f"{agent.policy} alone" if play.action == advice.own else "",
        )
    words = textwrap.wrap(_words(advice, agent), _WIDTH)
    return Group(table, "", *(Text(row, style="bold") for row in words), "")


def forced_draw(seen: Observation) -> str:
    """Why there is nothing to choose."""
    return f"Draw {int(seen.penalty)}: the penalty leaves no choice." if seen.penalty else "Draw: no card in hand can be played."


def _words(advice: Advice, agent: SearchAgent) -> str:
    chosen = _play(advice, advice.recommended)
    name, policy = text.format_action(chosen.action), f"the policy {agent.policy}"
    if len(advice.plays) == 1:
        return f"Play {name}: no other play is legal."
    if chosen.action != advice.own:
        gained = _percents(chosen.gain, chosen.gain_error, sign=True)
        return f"Play {name}: {gained} points to {text.format_action(advice.own)}, which {policy} would play."
    if chosen is advice.plays[0]:
        return f"Play {name}, as {policy} would."
    errors = "a standard error" if agent.keep == 1 else f"{agent.keep:g} standard errors"
    return f"Play {name}, as {policy} would: no other play is better by more than {errors}."


def _play(advice: Advice, action: int) -> Play:
    return next(play for play in advice.plays if play.action == action)


def _percents(value: float, error: float, *, sign: bool = False) -> str:
    """`63.2 ± 0.4`, with a second decimal where the error is below a tenth of a point."""
    decimals = 1 if error == 0 or error >= 0.001 else 2
    return f"{100 * value:{'+' if sign else ''}z.{decimals}f} {output.plus_minus()} {100 * error:.{decimals}f}"


def _style(action: int) -> str:
    color, rank = divmod(action, cards.NUM_RANKS)
    return "bold" if rank >= cards.WILD else cards.COLOR_NAMES[color]
