"""How a belief looks on a terminal: a few lines for each turn, or one turn in full."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from unojax import cards, text
from unojax.cli import output

if TYPE_CHECKING:
    from unojax.cli.belief.turns import Turn
    from unojax.games.replay import Step

_WIDTH: Final = 80
_NUM_BARS: Final = 12
_BARS_PER_ROW: Final = 3
_BAR_WIDTH: Final = 7
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_STYLES: Final = (*cards.COLOR_NAMES, "bold")
"""Of red, yellow, blue, green and wild cards. The letters in the names say the same."""


def describe(step: Step, observer: int) -> str:
    """What happened, in words, as the observer sees it."""
    who = f"player {step.mover}"
    if not step.is_draw:
        name, _, color = text.format_action(step.action).partition(":")
        declares = f", declares {cards.COLOR_NAMES[step.action // cards.NUM_RANKS]}" if color else ""
        return f"{who} plays {name}{declares}" + (" and wins" if step.after.terminated else "")
    if not step.drawn:
        return f"{who} can't draw, too few cards are left: the game ends"
    number = len(step.drawn.split())
    what = step.drawn if step.mover == observer else output.count(number, "card")
    shuffles = " (reshuffle)" if step.reshuffled else ""
    if step.before.penalty:
        return f"{who} draws the penalty: {what}{shuffles}"
    return f"{who} can't play and draws {what}{shuffles}"


def outcome(turn: Turn) -> str:
    """How the game stands after a turn."""
    after = turn.state
    if after.terminated:
        how = "drawn" if after.winner < 0 else f"won by player {int(after.winner)}"
    else:
        how = "cut off by --max-steps" if after.truncated else "unfinished"
    return f"{how} after turn {turn.number}"


def compact(turn: Turn, *, with_truth: bool) -> Group:
    """A heading, four rows of figures and bars, and the cards held that have no bar.

    After the observer's own play the hand is believed to be what it was, and one row will do.
    """
    look, seen = turn.look, turn.observation
    heading = _heading(turn)
    if turn.log_evidence is not None and abs(turn.log_evidence) >= 0.005:
        right = f"ln p {turn.log_evidence:.2f}"
        heading.append(right.rjust(max(_WIDTH - len(heading), len(right) + 2)), style="dim")
    if not seen.opponent_count:
        return Group(heading)
    top = f"top {cards.TYPE_NAMES[_top_type(turn)]} {cards.COLOR_NAMES[int(seen.color)]}, deck {int(seen.deck_count)}"
    holds = f"holds {int(seen.opponent_count)}, can't play {percent(look.prob_no_playable)} %"
    if turn.step is not None and turn.step.mover == turn.player and not turn.step.is_draw and not turn.begun_anew:
        return Group(heading, Text(f"  {top}; {holds}; all else is as before"))
    figures = (
        top,
        holds,
        "lacks " + " ".join(f"{cards.COLOR_LETTERS[c]}{percent(1 - look.prob_color[c]):>3}" for c in _colors(turn)),
        f"ESS {turn.ess:.0f}, {look.num_distinct} {'hand' if look.num_distinct == 1 else 'hands'}",
    )
    order = np.argsort(-look.prob_holds, kind="stable")[:_NUM_BARS]
    order = order[look.prob_holds[order] > 0]
    lines = [heading]
    for row, figure in enumerate(figures):
        line = Text(f"  {figure:<28}")
        # Down the columns, so that the likeliest come first in the first one.
        for t in order[row :: len(figures)]:
            line.append_text(_bar(turn, int(t), with_truth=with_truth))
            line.append(" ")
        lines.append(line)
    if turn.begun_anew:
        lines.append(Text(f"  begun anew from the position alone: {turn.begun_anew}"))
    if with_truth:
        besides = [t for t in np.flatnonzero(turn.truth).tolist() if t not in order]
        if besides:
            names = "  also " + "  ".join(f"*{cards.TYPE_NAMES[t]} {percent(look.prob_holds[t])}" for t in besides)
            lines += [Text(row) for row in textwrap.wrap(names, _WIDTH, subsequent_indent=" " * 7)]
    return Group(*lines)


def legend(player: int, *, with_truth: bool) -> Text:
    """What the figures mean."""
    marked = f" * marks what player {1 - player} really holds." if with_truth else ""
    words = (
        f"What player {player} can know of player {1 - player}'s hand. Bars: probability in % that it holds the card.{marked} "
        "can't play, lacks: probability in % that it holds no playable card, no card of a colour. ESS: effective number of "
        "particles; hands: how many different ones they are. ln p: log probability of what was seen in the turn."
    )
    return Text(words, style="dim")


def full(turn: Turn, *, with_truth: bool) -> Group:
    """Everything about one turn."""
    look, seen = turn.look, turn.observation
    player, opponent = turn.player, 1 - turn.player
    facts = {
        "Can't play": f"{100 * look.prob_no_playable:.1f} %, on the present top card",
        "Lacks": ", ".join(f"{cards.COLOR_NAMES[c]} {100 * (1 - look.prob_color[c]):.1f} %" for c in _colors(turn)),
        "ESS": f"{turn.ess:,.1f} of {output.count(turn.num_particles, 'particle')}, "
        f"{output.count(int(look.num_distinct), 'different hand')}",
    }
    if turn.log_evidence is not None:
        facts["Evidence"] = f"{turn.log_evidence:z.3f} nats, log probability of what player {player} saw in this turn"
    if turn.begun_anew:
        facts["Begun anew"] = f"from the position alone: {turn.begun_anew}"
    if with_truth:
        facts["In fact"] = f"player {opponent} holds {text.format_cards(turn.state.hands[opponent]) or 'no card'}"
        facts["Log score"] = f"{turn.log_score:.3f}, of the uniform belief {turn.uniform_log_score:.3f}"
    title = f"Probability in % that player {opponent} holds a card" + (", * held in fact" if with_truth else "")
    view = [
        row
        for line in text.format_observation(seen).splitlines()
        for row in textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 12)
    ]
    parts: list[RenderableType] = [
        _heading(turn),
        *map(Text, view),
        Text(""),
        Text(title, style="bold"),
        _grid(turn, with_truth=with_truth),
        Text(""),
    ]
    order = np.argsort(-look.expected_counts, kind="stable")[:_NUM_BARS]
    order = order[look.prob_holds[order] > 0]
    rows = -(-len(order) // _BARS_PER_ROW)
    for row in range(rows):
        line = Text("")
        for t in order[row::rows]:
            line.append_text(_bar(turn, int(t), with_truth=with_truth))
            line.append(f" {look.expected_counts[t]:4.2f}   ", style="dim")
        parts.append(line)
    if rows:
        parts += [Text("Bars: the most expected cards; beside them the expected number of copies.", style="dim"), Text("")]
    return Group(*parts, output.facts(facts))


def percent(probability: float) -> str:
    """At most three characters; `0` and `100` are exact, up to one in 100,000."""
    value = 100 * float(probability)
    # Sums of float32 weights are 1 up to rounding.
    if value <= 1e-3 or value >= 100 - 1e-3:
        return str(round(value))
    return "<1" if value < 0.5 else ">99" if value >= 99.5 else str(round(value))


def bar(share: float, width: int) -> str:
    """A bar for a share 0..1, in eighths of a character, or in ASCII where standard output takes nothing else."""
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        return ("#" * round(min(share, 1.0) * width)).ljust(width)
    full_cells, rest = divmod(round(min(share, 1.0) * width * 8), 8)
    return ("█" * full_cells + (_EIGHTHS[rest] if rest else "")).ljust(width)


def _heading(turn: Turn) -> Text:
    what = "the start" if turn.step is None else describe(turn.step, turn.player)
    return Text.assemble((f"turn {turn.number}", "bold"), f"  {what}")


def _bar(turn: Turn, card_type: int, *, with_truth: bool) -> Text:
    """16 characters: mark, name, bar, per cent."""
    probability = float(turn.look.prob_holds[card_type])
    style = _STYLES[int(cards.COLOR_OF_TYPE[card_type])]
    held = with_truth and turn.truth[card_type] > 0
    return Text.assemble(
        ("*" if held else " ", "bold"),
        (f"{cards.TYPE_NAMES[card_type]:<3} {bar(probability, _BAR_WIDTH)}", style),
        f" {percent(probability):>3}",
    )


def _grid(turn: Turn, *, with_truth: bool) -> Group:
    """A row for each colour and a column for each rank; the wild cards in a last row."""
    deck = np.asarray(turn.observation.rules.deck)
    unseen = np.asarray(turn.observation.unseen)

    def cell(t: int) -> Text:
        if not deck[t]:
            return Text("")
        # A type of which no card is unseen can't be held.
        value = percent(turn.look.prob_holds[t]) if unseen[t] else "-"
        return Text(value + ("*" if with_truth and turn.truth[t] else " " if with_truth else ""))

    ranks = [r for r in range(cards.NUM_COLORED_RANKS) if deck[r : cards.WILD_TYPE : cards.NUM_COLORED_RANKS].any()]
    table = output.grid("")
    table.add_column("")
    for rank in ranks:
        table.add_column(cards.RANK_NAMES[rank] + (" " if with_truth else ""), justify="right", no_wrap=True)
    for color in _colors(turn):
        name = cards.COLOR_NAMES[color]
        table.add_row(Text(name, style=name), *(cell(color * cards.NUM_COLORED_RANKS + rank) for rank in ranks))
    wilds = [t for t in (cards.WILD_TYPE, cards.WILD_DRAW_FOUR_TYPE) if deck[t]]
    names = Text("   ".join(f"{cards.TYPE_NAMES[t]} {cell(t).plain.strip()}" for t in wilds), style="bold")
    return Group(table, names) if wilds else Group(table)


def _colors(turn: Turn) -> list[int]:
    """The colours of which the deck has cards."""
    return sorted({int(c) for c in cards.COLOR_OF_TYPE[np.flatnonzero(turn.observation.rules.deck)]} - {-1})


def _top_type(turn: Turn) -> int:
    color, rank = int(turn.observation.color), int(turn.observation.top_rank)
    return int(cards.type_of(color, rank))
