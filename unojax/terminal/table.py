"""A table: events, the belief, the advice."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.text import Text

from unojax import cards
from unojax.terminal import cards as drawing
from unojax.terminal.cards import whole_percent
from unojax.terminal.game import hand_rows
from unojax.terminal.tables import count, plus_minus
from unojax.viz.scene import read_scene
from unojax.viz.words import THEY, YOU, capitalized, plays_like, result_words

if TYPE_CHECKING:
    from unojax.games.advisor import WinEstimate
    from unojax.games.at_table import Table
    from unojax.games.seen import SeenGame
    from unojax.observation import Observation
    from unojax.search.pooling import Pooled, PooledPlay

_NUM_BARS: Final = 12
_PLAY_CELL: Final = 27
_MOST_COLUMNS: Final = 120


def names_of(game: SeenGame) -> tuple[str, str]:
    """Return the players' names; the observer is "you"."""
    return (YOU, THEY) if game.player == 0 else (THEY, YOU)


def event(game: SeenGame, number: int) -> Text:
    """Describe event `number`, from 1."""
    what, before, after = game.events[number - 1], game.observations[number - 1], game.observations[number]
    head = Text(f"{number:>3}  ", style="dim")
    if what.kind == "count":
        return head.append(f"You lost track: they hold {count(int(after.opponent_count), 'card')}.")
    head.append_text(drawing.move(read_scene(before), read_scene(after), names_of(game)))
    return head.append(f" They showed {what.shown}.") if what.shown else head


def events(game: SeenGame) -> list[Text]:
    return [event(game, number) for number in range(1, len(game.events) + 1)] or [Text("Nothing has happened yet.")]


def state(table: Table, looked: WinEstimate, *, width: int) -> list[Text]:
    """Return top card, own hand, belief over the other hand, win probability."""
    view, width = table.view, min(width, _MOST_COLUMNS)
    if table.is_over:
        return [Text(capitalized(result_words(read_scene(view), names_of(table.game))) + ".", style="bold")]
    top = Text.assemble("top ", drawing.card(cards.card_type(int(view.color), int(view.top_rank))))
    if view.top_rank >= cards.WILD:
        top.append(" ").append_text(drawing.color(int(view.color)))
    top.append(f"  they hold {int(view.opponent_count)}, deck {int(view.deck_count)}, pile {int(np.sum(view.pile))}")
    return [top, *hand_rows(view, width=width), *belief(looked, view, width=width, has_acted=_has_acted(table)), wins(looked)]


def _has_acted(table: Table) -> bool:
    """Return whether the other player has acted."""
    return not all(before.is_my_turn for before in table.game.observations[:-1])


def belief(looked: WinEstimate, view: Observation, *, width: int, has_acted: bool) -> list[Text]:
    """Return the belief: can they play, colours, likeliest cards, opponent type."""
    figures = looked.belief
    can_play = f"can they play on this? {whole_percent(1 - float(figures.prob_no_playable))} %"
    words = f"{capitalized(can_play)}  No card of: {drawing.lacking(figures.prob_color, view.rules)} %."
    if looked.types:
        plays = plays_like(looked.types, is_prior=not has_acted)
        words += f" They {plays.replace('is assumed', 'are assumed', 1).replace('plays', 'play', 1)}."
    bars = drawing.likely_cards(figures.prob_holds, _NUM_BARS, width)
    return [*(Text(row) for row in textwrap.wrap(words, width)), *bars]


def wins(looked: WinEstimate) -> Text:
    chance = f"{whole_percent(looked.win_probability)} {plus_minus()} {100 * float(looked.win_error):.0f} %"
    return Text.assemble("You win ", (chance, "bold"), " if both play on as the rollouts do.")


def advice(pooled: Pooled, view: Observation, *, width: int) -> list[Text]:
    """Return each play's win probability and cost, the best first."""
    has_drawn, width = bool(view.has_drawn), min(width, _MOST_COLUMNS)
    name = drawing.action_name(pooled.recommended, has_drawn=has_drawn)
    if len(pooled.plays) == 1:
        return [Text.assemble("Play ", (name, "bold"), ": no other play is legal.")]
    rows = [Text.assemble("Play ", (name, "bold"), f". Wins in % ({plus_minus()} standard error), and what each play costs:")]
    cells = [_play(play, pooled.recommended, has_drawn=has_drawn) for play in pooled.plays]
    for line in drawing.in_columns(cells, max(1, width // _PLAY_CELL)):
        row = Text("").join(line)
        row.rstrip()
        rows.append(row)
    return rows


def _play(play: PooledPlay, recommended: str, *, has_drawn: bool) -> Text:
    name = drawing.action_name(play.action, has_drawn=has_drawn)
    cost = "" if play.behind == 0 else f"{-100 * play.behind:z.1f}"
    figures = f"{100 * play.win:5.1f} {plus_minus()} {100 * play.win_error:.1f} {cost:>6}"
    cell = Text(">" if play.action == recommended else " ", style="bold").append(f"{name:<9}", drawing.action_style(play.action))
    cell.append(figures)
    cell.pad_right(_PLAY_CELL - len(cell))
    return cell


def prompt(table: Table) -> str:
    """Return the prompt: number of the next event, the player, and the cards due; after the end, how to stop."""
    if table.is_over:
        return "the game is over (q stops, u takes back)> "
    who, due = "you" if table.is_my_turn else "they", int(table.view.penalty)
    return f"{len(table.events) + 1} {who}{f', {due} to draw' if due else ''}> "
