"""A belief on a terminal: a few lines for each turn, or one turn in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from unojax import cards, text
from unojax.games.replay import MAX_STEPS
from unojax.terminal import cards as drawing
from unojax.terminal import tables
from unojax.terminal.cards import whole_percent
from unojax.viz.scene import read_scene
from unojax.viz.words import plays_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unojax.analysis.turns import BeliefTurn, Summary

_NUM_BARS: Final = 12
_BARS_PER_ROW: Final = 3
_BAR: Final = 17
"""Columns of a bar and a blank."""
_FIGURES: Final = 30
"""Columns of the figures to the left of the bars."""


def outcome(turn: BeliefTurn, *, steps: int | None) -> str:
    """Return how the game ended, or that tracking stopped before it, at `steps`."""
    scene = read_scene(turn.observation)
    if scene.result is not None:
        how = "drawn" if scene.winner < 0 else f"won by player {scene.winner}"
    else:
        how = "cut off by --max-steps" if turn.state is not None and turn.state.truncated else "unfinished"
    if how == "unfinished" and steps is None and turn.number == MAX_STEPS:
        how = "unfinished (--steps N follows more turns)"
    return f"{how} after turn {turn.number}"


def compact(turn: BeliefTurn, *, with_truth: bool) -> Group:
    """Return a turn in short. An own play leaves the belief unchanged: one row suffices."""
    belief, seen, width = turn.belief, turn.observation, tables.columns()
    heading = _heading(turn)
    if turn.log_evidence is not None and abs(turn.log_evidence) >= 0.005:
        right = f"ln p {turn.log_evidence:.2f}"
        room = width - len(heading)
        heading.append(right.rjust(room) if len(right) + 2 <= room else f"\n{right.rjust(width)}", style="dim")
    if not seen.opponent_count:
        return Group(heading)
    top = cards.TYPE_NAMES[cards.card_type(int(seen.color), int(seen.top_rank))]
    table = f"top {top} {cards.COLOR_NAMES[int(seen.color)]}, deck {int(seen.deck_count)}"
    holds = f"holds {int(seen.opponent_count)}, can't play {whole_percent(belief.prob_no_playable)} %"
    if turn.seen is not None and turn.seen.is_mine and turn.seen.action < cards.DRAW and not turn.begun_anew:
        return Group(heading, tables.wrapped(f"  {table}; {holds}; all else is as before", 2))
    lacks = " ".join(
        f"{cards.COLOR_LETTERS[c]}{whole_percent(1 - belief.prob_color[c]):>3}" for c in drawing.colors_of(seen.rules)
    )
    figures = (
        table,
        holds,
        f"lacks {lacks}",
        f"ESS {turn.ess:.0f}, {belief.num_distinct} {'hand' if belief.num_distinct == 1 else 'hands'}",
    )
    order = drawing.likeliest(belief.prob_holds, _NUM_BARS)
    lines = [heading]
    if turn.types:
        lines.append(tables.wrapped(f"  player {1 - turn.player} {plays_like(turn.types)}", 2))
    if is_narrow := width < _FIGURES + _BARS_PER_ROW * _BAR - 1:
        lines.append(tables.wrapped(f"  {'; '.join(figures)}", 2))
        rows = drawing.in_columns(order, min(_BARS_PER_ROW, max(1, width // _BAR)))
    else:
        rows = [order[row :: len(figures)] for row in range(len(figures))]
    for row, types in enumerate(rows):
        left = "" if is_narrow else f"  {figures[row]}".ljust(_FIGURES)
        lines.append(Text.assemble(left, *(piece for t in types for piece in (_bar(turn, t, with_truth=with_truth), " "))))
    if turn.begun_anew:
        lines.append(tables.wrapped(f"  restarted from the position alone: {turn.begun_anew}", 2))
    if with_truth and turn.truth is not None:
        besides = [t for t in np.flatnonzero(turn.truth).tolist() if t not in order]
        if besides:
            names = "  also " + "  ".join(f"*{cards.TYPE_NAMES[t]} {whole_percent(belief.prob_holds[t])}" for t in besides)
            lines.append(tables.wrapped(names, 7))
    return Group(*lines)


def legend(player: int, *, with_truth: bool) -> Text:
    marked = f" * marks what player {1 - player} really holds." if with_truth else ""
    words = (
        f"What player {player} can know of player {1 - player}'s hand. Bars: probability in % that it holds the card.{marked} "
        "can't play, lacks: probability in % that it holds no playable card, no card of a colour. ESS: effective number of "
        "particles; hands: how many different ones they are. ln p: log probability of what was seen in the turn."
    )
    return Text(words, style="dim")


def full(turn: BeliefTurn, *, with_truth: bool) -> Group:
    belief, seen = turn.belief, turn.observation
    player, opponent = turn.player, 1 - turn.player
    lacks = (f"{cards.COLOR_NAMES[c]} {100 * (1 - belief.prob_color[c]):.1f} %" for c in drawing.colors_of(seen.rules))
    facts = {
        "Can't play": f"{100 * belief.prob_no_playable:.1f} %, on the present top card",
        "Lacks": ", ".join(lacks),
        "ESS": f"{turn.ess:,.1f} of {tables.count(int(belief.num_hands), 'particle')}, "
        f"{tables.count(int(belief.num_distinct), 'different hand')}",
    }
    if turn.types:
        facts["Type"] = ", ".join(f"{name} {prob:.3f}" for name, prob in turn.types.items())
    if turn.log_evidence is not None:
        facts["Evidence"] = f"{turn.log_evidence:z.3f} nats, log probability of what player {player} saw in this turn"
    if turn.begun_anew:
        facts["Restarted"] = f"from the position alone: {turn.begun_anew}"
    if with_truth and turn.state is not None:
        facts["In fact"] = f"player {opponent} holds {text.format_cards(turn.state.hands[opponent]) or 'no card'}"
        facts["Log score"] = f"{turn.log_score:.3f}, of the uniform belief {turn.uniform_log_score:.3f}"
    title = f"Probability in % that player {opponent} holds a card" + (", * held in fact" if with_truth else "")
    parts: list[RenderableType] = [
        _heading(turn),
        *drawing.view_lines(seen),
        Text(""),
        Text(title, style="bold"),
        _grid(turn, with_truth=with_truth),
        Text(""),
    ]
    per_row = min(_BARS_PER_ROW, max(1, tables.columns() // (_BAR + 7)))
    rows = drawing.in_columns(drawing.likeliest(belief.expected_counts, _NUM_BARS), per_row)
    for types in rows:
        line = Text("")
        for t in types:
            line.append_text(_bar(turn, t, with_truth=with_truth))
            line.append(f" {belief.expected_counts[t]:4.2f}   ", style="dim")
        parts.append(line)
    if rows:
        parts += [Text("Bars: the most expected cards; beside them the expected number of copies.", style="dim"), Text("")]
    return Group(*parts, tables.facts(facts))


def facts(turns: Sequence[BeliefTurn], summary: Summary, *, model: str, particles: int) -> dict[str, str]:
    """Summarize the belief through a game."""
    player, facts = turns[0].player, {}
    if summary.log_score is not None and summary.uniform_log_score is not None:
        facts["Log score"] = (
            f"{summary.log_score:.3f} ({summary.log_score - summary.uniform_log_score:+.3f}: uniform belief "
            f"{summary.uniform_log_score:.3f}), sum over the card types of ln P(copies really held), mean of "
            f"{tables.count(summary.scored, 'turn')}"
        )
    facts["Smallest ESS"] = f"{summary.smallest_ess:,.0f} of {particles:,}, in turn {summary.smallest_ess_turn}"
    if summary.log_evidence is not None:
        facts["Evidence"] = f"ln p {summary.log_evidence:.2f} of all that player {player} saw"
    if summary.begun_anew:
        facts["Restarted"] = f"in turn {', '.join(map(str, summary.begun_anew))}"
    facts["Model"] = f"player {1 - player} is taken for {model}"
    if types := turns[-1].types:
        facts["Model"] = f"player {1 - player} {plays_like(types)}, one of {model}"
    return facts


def _heading(turn: BeliefTurn) -> Text:
    return Text.assemble((f"turn {turn.number}", "bold"), "  ", drawing.turn_words(turn))


def _bar(turn: BeliefTurn, card_type: int, *, with_truth: bool) -> Text:
    """Return a probability in 16 characters."""
    held = with_truth and turn.truth is not None and turn.truth[card_type] > 0
    return Text.assemble(("*" if held else " ", "bold"), drawing.card_bar(card_type, turn.belief.prob_holds[card_type]))


def _grid(turn: BeliefTurn, *, with_truth: bool) -> Group:
    """Return a row for each colour, a column for each rank, and the wild cards below; on a narrow terminal columns of colours."""
    deck = np.asarray(turn.observation.rules.deck)
    unseen = np.asarray(turn.observation.unseen)
    truth = turn.truth if with_truth else None

    def cell(t: int) -> Text:
        if not deck[t]:
            return Text("")
        # A type without unseen cards can't be held.
        value = whole_percent(turn.belief.prob_holds[t]) if unseen[t] else "-"
        return Text(value + ("" if truth is None else "*" if truth[t] else " "))

    ranks = [r for r in range(cards.NUM_COLORED_RANKS) if deck[r : cards.WILD_TYPE : cards.NUM_COLORED_RANKS].any()]
    colors = drawing.colors_of(turn.observation.rules)
    names_of_ranks = [cards.RANK_NAMES[rank] + (" " if with_truth else "") for rank in ranks]
    table = tables.grid("", ("",), names_of_ranks)
    for color in colors:
        name = cards.COLOR_NAMES[color]
        table.add_row(Text(name, style=name), *(cell(color * cards.NUM_COLORED_RANKS + rank) for rank in ranks))
    if tables.least_width(table) > tables.columns():
        table = tables.grid("", ("",), [cards.COLOR_NAMES[color] for color in colors])
        for rank, name in zip(ranks, names_of_ranks, strict=True):
            table.add_row(name, *(cell(color * cards.NUM_COLORED_RANKS + rank) for color in colors))
    wilds = [t for t in (cards.WILD_TYPE, cards.WILD_DRAW_FOUR_TYPE) if deck[t]]
    names = Text("   ".join(f"{cards.TYPE_NAMES[t]} {cell(t).plain.strip()}" for t in wilds), style="bold")
    return Group(table, names) if wilds else Group(table)
