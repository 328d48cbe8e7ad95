"""Advice on a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from unojax import cards
from unojax.terminal import cards as drawing
from unojax.terminal import tables
from unojax.terminal.tables import percent
from unojax.text import parse_action

if TYPE_CHECKING:
    from unojax.belief.summary import BeliefSummary
    from unojax.observation import Observation
    from unojax.search.agents import SearchAgent
    from unojax.search.pooling import Pooled


def belief(figures: BeliefSummary, seen: Observation, num_bars: int) -> Group:
    """Return the likeliest cards of the other hand, and for each colour P(no card)."""
    title = f"Probability in % that player {1 - int(seen.player)} holds a card"
    rows = [Text(title, style="bold")] if num_bars else []
    rows += [Text.assemble("  ", row) for row in drawing.likely_cards(figures.prob_holds, num_bars, tables.columns() - 2)]
    lacking = f"  no card of a colour, in %: {drawing.lacking(figures.prob_color, seen.rules)}"
    return Group(*rows, tables.wrapped(lacking, 4), "")


def plays(pooled: Pooled, agent: SearchAgent, *, has_drawn: bool) -> Group:
    """Return the table of plays, and the advice in words."""
    title = f"Wins in % ({tables.plus_minus()} standard error)"
    table = tables.grid(title, ("", "play"), ("wins", "to best", "rollouts"))
    table.add_column("", overflow="fold")
    for play in pooled.plays:
        table.add_row(
            ">" if play.action == pooled.recommended else "",
            Text(drawing.action_name(play.action, has_drawn=has_drawn), style=drawing.action_style(play.action)),
            percent(play.win, play.win_error),
            percent(-play.behind, play.behind_error, sign=True) if play is not pooled.plays[0] else "",
            f"{play.rollouts:,}",
            f"{agent.policies[0].name} alone" if play.action == pooled.own else "",
        )
    words = textwrap.wrap(_words(pooled, agent, has_drawn=has_drawn), tables.WIDTH)
    return Group(table, "", *(Text(row, style="bold") for row in words), "")


def no_choice(seen: Observation) -> str:
    if not seen.is_my_turn:
        return f"Player {int(seen.current_player)} is to move."
    return f"Draw {int(seen.penalty)}: the penalty leaves no choice." if seen.penalty else "Draw: no card in hand can be played."


def _words(pooled: Pooled, agent: SearchAgent, *, has_drawn: bool) -> str:
    chosen = next(play for play in pooled.plays if play.action == pooled.recommended)
    name, policy = drawing.action_name(chosen.action, has_drawn=has_drawn), f"the policy {agent.policies[0].name}"
    advice = f"Play {name}" if parse_action(chosen.action) < cards.DRAW else name.capitalize()
    if len(pooled.plays) == 1:
        return f"{advice}: no other play is legal."
    if chosen.action != pooled.own:
        gained = percent(chosen.gain, chosen.gain_error, sign=True)
        return f"{advice}: {gained} points to {drawing.action_name(pooled.own, has_drawn=has_drawn)}, which {policy} would play."
    if chosen is pooled.plays[0]:
        return f"{advice}, as {policy} would."
    errors = "a standard error" if agent.keep == 1 else f"{agent.keep:g} standard errors"
    return f"{advice}, as {policy} would: no other play is better by more than {errors}."
