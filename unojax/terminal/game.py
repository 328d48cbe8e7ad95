"""A game from a person's view, by observations only."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.text import Text

from unojax import cards
from unojax.observation import Observation
from unojax.rules import MATCH_POINTS, Rules
from unojax.terminal import cards as drawing
from unojax.terminal.answers import Options
from unojax.terminal.cards import card, whole_percent
from unojax.terminal.tables import WIDTH, count, legend
from unojax.text import format_action
from unojax.text.rules import rules_in_words
from unojax.viz.scene import read_scene
from unojax.viz.words import plays_like

if TYPE_CHECKING:
    from unojax.belief.tracking import Look
    from unojax.games.advisor import Thought
    from unojax.games.seen import Seen
    from unojax.games.session import Session
    from unojax.games.tally import Tally

LABEL: Final = 12
"""Columns for the label of a row."""
_CELL: Final = 6
_NUM_BARS: Final = 12

_PLAYS: Final = {
    "R5": "play that card. Colours: R red, Y yellow, B blue, G green. Ranks: 0-9, S skip, R reverse, +2. W and W+4 are the wild "
    "cards.",
    "W:B": "play a wild card and make blue the active colour. W alone asks for it.",
    "3": "play the card with the number 3 under it.",
    "Enter": "draw, where you can't play, or take a penalty.",
}
_COMMANDS: Final = {
    "?": "advice from what you have seen: how likely each play is to win, and what the opponent may hold. Advised (*) is what a "
    "rule of thumb would play, unless another play wins more often by a quarter of a standard error.",
    "u": "take your last choice back. The same moves draw the same cards again.",
    "pile": "the cards on the pile; p too, where it does not pass.",
    "h": "this help.",
    "q": "stop.",
}


def help_text(rules: Rules, *, width: int = WIDTH) -> Text:
    """Explain input and play under these rules."""
    width = min(width, WIDTH)
    inputs = dict(_PLAYS)
    if rules.may_draw:
        inputs["d"] = "draw, though you can play."
    if rules.play_drawn == "may":
        inputs["p"] = "pass, after a draw."
    if rules.wild_draw_four == "challenge":
        inputs["c"] = "challenge the W+4 that you would draw for."
    rows = legend(inputs | _COMMANDS, width)
    sections = rules_in_words(rules)
    for heading in ("Turn", "Effects"):
        for sentences in sections.get(heading, []):
            rows += textwrap.wrap(sentences, width)
    return Text("\n".join([*rows, *textwrap.wrap("unojax rules, with the options of the game: all the rules.", width)]))


def position(view: Observation, opponent: str, number: int, options: Options | None = None, *, width: int = WIDTH) -> Text:
    """Return the table and the hand, with a number under each playable card."""
    color = int(view.color)
    holds = f"{opponent} holds {count(int(view.opponent_count), 'card')}"
    public = f"{holds}, deck {int(view.deck_count)}, pile {int(np.sum(view.pile))}"
    head = Text.assemble((f"turn {number}".ljust(LABEL), "bold"), public)
    top = Text.assemble("top".ljust(LABEL), card(cards.card_type(color, int(view.top_rank))), "  ", drawing.color(color))
    return Text("\n").join([head, top, *hand_rows(view, options, width=width)])


def hand_rows(view: Observation, options: Options | None = None, label: str = "your hand", *, width: int = WIDTH) -> list[Text]:
    """Return rows of cards, each over a row of numbers if there is a choice."""
    held = np.sort(cards.TYPE_OF_SLOT[np.asarray(view.hand)]).tolist()
    if not held:
        return [Text(f"{label.ljust(LABEL)} -")]
    rows, per_row = [], max(1, (min(width, WIDTH) - LABEL) // _CELL)
    for first in range(0, len(held), per_row):
        above, below = Text(label if first == 0 else ""), Text()
        for column, card_type in enumerate(held[first : first + per_row]):
            above.append(" " * (LABEL + column * _CELL - len(above))).append_text(card(card_type))
            if options and card_type in options.types:
                below.append(" " * (LABEL + column * _CELL + 1 - len(below)))
                below.append(str(options.types.index(card_type) + 1), style="bold")
        rows.append(above)
        if below.plain:
            rows.append(below)
    return rows


def move(seen: Seen, names: tuple[str, str]) -> Text:
    """Describe an action; `names` as in `unojax.viz.words.move_phrase`."""
    return drawing.move(read_scene(seen.before), read_scene(seen.after), names)


def forced(view: Observation) -> str:
    """Return why the person has no choice."""
    if view.penalty:
        return f"You must draw {int(view.penalty)} cards and lose the turn."
    return "You hold no card that can be played: you draw one."


def result(session: Session, opponent: str) -> Text:
    view, winner, after = session.view, session.winner, f"after {count(len(session.steps), 'turn')}"
    mine, theirs = int(np.sum(view.hand)), int(view.opponent_count)
    if session.has_given_up:
        words = "\n".join([f"{opponent} gives up {after}: you win.", *(f"Its fault: {line}" for line in session.faults)])
    elif session.was_cut_off:
        words = f"The game is cut off {after}, without a winner."
    elif winner < 0:
        words = f"The game is drawn {after}: no cards are left to draw, and both hold {mine}."
    else:
        words = f"{'You win' if winner == int(view.player) else f'{opponent} wins'} {after}"
        words += f": no cards are left to draw, and you hold {mine} to {theirs}." if mine and theirs else "."
    return Text(words, style="bold")


def standing(tally: Tally, session: Session, opponent: str) -> Text:
    """Return the score of a match: points, if the rules have them, games and matches."""
    names = ("You", opponent)
    rows = []
    if session.rules.points:
        if session.winner >= 0:
            rows.append(f"The cards left in the loser's hand count {count(session.card_points, 'point')}.")
        mine, theirs = tally.points
        rows.append(f"Points: {names[0]} {mine}, {names[1]} {theirs}; {MATCH_POINTS} win the match.")
        if max(tally.points) >= MATCH_POINTS:
            rows.append("You win the match." if mine > theirs else f"{opponent} wins the match.")
    rows.append("Games won: " + ", ".join(f"{name} {number}" for name, number in zip(names, tally.games, strict=True)) + ".")
    if sum(tally.matches):
        rows.append(
            "Matches won: " + ", ".join(f"{name} {number}" for name, number in zip(names, tally.matches, strict=True)) + "."
        )
    return Text("\n".join(rows))


def pile(view: Observation) -> Text:
    """Return the pile by colour, without an order."""
    held = np.sort(cards.TYPE_OF_SLOT[np.asarray(view.pile)]).tolist()
    rows = [Text(f"The pile, {count(len(held), 'card')}, sorted:")]
    for color in (*range(cards.NUM_COLORS), -1):
        names = [cards.TYPE_NAMES[t] for t in held if cards.COLOR_OF_TYPE[t] == color]
        if names:
            rows.append(Text("  " + " ".join(names), style=drawing.STYLES[color]))
    return Text("\n").join(rows)


def advice(looked: Look, thought: Thought | None, view: Observation, *, has_acted: bool = True, width: int = WIDTH) -> Text:
    """Return the advised play, the plays' win probabilities, and the likely other hand."""
    rows = [Text("There is nothing to choose.")]
    if thought is not None:
        rows = _plays(thought, view, 2 if width >= WIDTH else 1)
    no_playable = whole_percent(float(looked.belief.prob_no_playable))
    rows.append(Text(f"What the opponent may hold, probability in %. No card to play on this top: {no_playable}."))
    rows.append(Text(f"No card at all of {drawing.lacking(looked.belief.prob_color, view.rules)}."))
    if looked.types:
        rows.append(Text(f"The opponent {plays_like(looked.types, is_prior=not has_acted)}."))
    bars = drawing.likely_cards(looked.belief.prob_holds, _NUM_BARS, min(width, WIDTH) - 1, width=14)
    return Text("\n").join([*rows, *(Text.assemble(" ", row) for row in bars)])


def _plays(told: Thought, view: Observation, num_columns: int) -> list[Text]:
    """Return the advised play, then the best ones; in two columns, about ten rows.

    Under a step penalty, returns are no win probabilities, and are shown unchanged.
    """
    is_return, advised, estimate = view.rules.step_penalty != 0, int(told.advised), told.estimate
    value, error = np.asarray(estimate.value), np.asarray(estimate.value_error)
    plays = sorted(np.flatnonzero(told.tried).tolist(), key=lambda action: (action != advised, -value[action]))
    texts = {action: format_action(action) for action in plays}
    names = {action: drawing.action_name(text, has_drawn=bool(view.has_drawn)) for action, text in texts.items()}
    width = max(6, 1 + max(map(len, names.values())))
    number = int(told.estimate.num_samples[plays[0]])
    rows = [
        Text.assemble(
            "Advice: ",
            (names[advised], "bold"),
            f". {'Mean return' if is_return else 'Win probability in %'} (standard error), {number:,} games of each play:",
        )
    ]
    for actions in drawing.in_columns(plays, num_columns):
        line = Text()
        for action in actions:
            win = float(estimate.win[action])
            figures = f" {100 * win:5.1f} ({100 * float(estimate.win_error[action]):.1f})"
            if is_return:
                win = min(max((1 + float(value[action])) / 2, 0.0), 1.0)
                figures = f" {float(value[action]):+.3f} ({float(error[action]):.3f})"
            line.append("*" if action == advised else " ", style="bold")
            line.append(names[action].ljust(width) + drawing.bar(win, 22 - width), style=drawing.action_style(texts[action]))
            line.append(figures.ljust(15))
        line.rstrip()
        rows.append(line)
    return rows
