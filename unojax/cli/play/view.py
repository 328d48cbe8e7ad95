"""How a game looks to a person on a terminal: positions, moves in words, advice, help. It sees observations only.

Cards are drawn in their colour and with the letters of the card notation, so that no colour is needed to read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.text import Text

from unojax import cards, text
from unojax.cli import output
from unojax.cli.belief.view import bar, percent
from unojax.cli.play.input import Options, top_type, type_of_action
from unojax.observation import Observation

if TYPE_CHECKING:
    from unojax.games.session import Advice, Seen, Thought

WIDTH: Final = 80
YOU: Final = "you"
"""The name of a player who is spoken to."""

# Black is not bold: many terminals make it grey then.
_CHIPS: Final = ("bold white on red", "black on yellow", "bold white on blue", "black on green", "bold reverse")
_STYLES: Final = (*cards.COLOR_NAMES, "bold")
"""Of red, yellow, blue, green and wild cards: as a card, and as text."""
LABEL: Final = 12
"""Columns on the left of what a row is about."""
_CELL: Final = 6
_PER_ROW: Final = (WIDTH - LABEL) // _CELL
_NUM_BARS: Final = 12
_BARS_PER_ROW: Final = 3

HELP: Final = """\
R5       play that card. Colours: R red, Y yellow, B blue, G green. Ranks: 0-9,
         S skip, R reverse, +2. W and W+4 are the wild cards.
W:B      play a wild card and make blue the active colour. W alone asks for it.
3        play the card with the number 3 under it.
Enter    draw, where you can't play.
?        advice from what you have seen: how likely each play is to win, and
         what the opponent may hold. Advised (*) is what a rule of thumb would
         play, unless another play wins more often by a standard error.
p        the cards on the pile.
h        this help.
q        stop. There is no way to take a move back.
You must play if you can: a card of the active colour, of the rank of the top
card, or a wild card. Else you draw one card, and the turn passes. After +2 or
W+4 the other player draws and loses the turn; """


def help_text(*, skip_forfeits: bool) -> Text:
    """What can be typed, and the rules in brief."""
    again = "after S or R you move again." if skip_forfeits else "S and R have no effect."
    return Text(f"{HELP}{again}\nunojax rules: all the rules.")


def card(card_type: int) -> Text:
    """A card."""
    return Text(f" {cards.TYPE_NAMES[card_type]} ", style=_CHIPS[int(cards.COLOR_OF_TYPE[card_type])])


def card_words(names: str) -> Text:
    """Cards from their notation, `R5 W`, for a sentence."""
    types = [cards.TYPE_NAMES.index(name) for name in names.split()]
    return Text(" ").join(Text(cards.TYPE_NAMES[t], style=_CHIPS[int(cards.COLOR_OF_TYPE[t])]) for t in types)


def position(view: Observation, opponent: str, number: int, options: Options | None = None) -> Text:
    """The table and the person's hand, with a number under each card that can be played."""
    color = int(view.color)
    holds = f"{opponent} holds {output.count(int(view.opponent_count), 'card')}"
    public = f"{holds}, deck {int(view.deck_count)}, pile {int(np.sum(view.pile))}"
    head = Text.assemble((f"turn {number}".ljust(LABEL), "bold"), public)
    top = Text.assemble("top".ljust(LABEL), card(top_type(view)), "  ", (cards.COLOR_NAMES[color], _STYLES[color]))
    return Text("\n").join([head, top, *hand_rows(view, options)])


def hand_rows(view: Observation, options: Options | None = None, label: str = "your hand") -> list[Text]:
    """A hand in rows of cards, each with a row of numbers under it if there is something to choose."""
    held = np.sort(cards.TYPE_OF_SLOT[np.asarray(view.hand)]).tolist()
    if not held:
        return [Text(f"{label.ljust(LABEL)} -")]
    rows = []
    for first in range(0, len(held), _PER_ROW):
        above, below = Text(label if first == 0 else ""), Text()
        for column, card_type in enumerate(held[first : first + _PER_ROW]):
            above.append(" " * (LABEL + column * _CELL - len(above))).append_text(card(card_type))
            if options and card_type in options.types:
                below.append(" " * (LABEL + column * _CELL + 1 - len(below)))
                below.append(str(options.types.index(card_type) + 1), style="bold")
        rows.append(above)
        if below.plain:
            rows.append(below)
    return rows


def describe(seen: Seen, names: Sequence[str]) -> Text:
    """What happened, in words, as the observer saw it.

    Args:
        seen: the action.
        names: of player 0 and player 1; `YOU` is spoken to.
    """
    who = names[seen.mover]
    you = who == YOU
    words = Text(f"{who[:1].upper() if you else who[:1]}{who[1:]} ")
    if seen.action == cards.DRAW:
        return _describe_draw(seen, words, you=you)
    words.append("play " if you else "plays ").append_text(card_words(cards.TYPE_NAMES[type_of_action(seen.action)]))
    color, rank = divmod(seen.action, cards.NUM_RANKS)
    if rank >= cards.WILD:
        words.append(f" and {'declare' if you else 'declares'} ").append(cards.COLOR_NAMES[color], style=_STYLES[color])
    left = int(np.sum(seen.after.hand)) if seen.is_mine else int(seen.after.opponent_count)
    if left == 1:
        words.append(", one card left")
    if left and not seen.after.terminated and int(seen.after.current_player) == seen.mover:
        words.append(f", and {'move' if you else 'moves'} again")
    return words.append(".")


def _describe_draw(seen: Seen, words: Text, *, you: bool) -> Text:
    if not seen.num_drawn:
        return words.append("can't draw: too few cards are left.")
    words.append(f"{'draw' if you else 'draws'} ")
    if seen.is_mine:
        words.append_text(card_words(seen.drawn))
    else:
        words.append("a card" if seen.num_drawn == 1 else f"{seen.num_drawn} cards")
    words.append(" as the penalty" if seen.before.penalty else ", unable to play")
    return words.append("; the pile goes back into the deck first." if seen.reshuffled else ".")


def forced(view: Observation) -> str:
    """Why the person has no choice."""
    if view.penalty:
        return f"You must draw {int(view.penalty)} cards and lose the turn."
    return "You hold no card that can be played: you draw one."


def result(view: Observation, winner: int, opponent: str, number: int, *, cut_off: bool) -> Text:
    """How the game ended."""
    after = f"after {output.count(number, 'turn')}"
    mine, theirs = int(np.sum(view.hand)), int(view.opponent_count)
    if cut_off:
        words = f"The game is cut off {after}, without a winner."
    elif winner < 0:
        words = f"The game is drawn {after}: no cards are left to draw, and both hold {mine}."
    else:
        words = f"{'You win' if winner == int(view.player) else f'{opponent} wins'} {after}"
        words += f": no cards are left to draw, and you hold {mine} to {theirs}." if mine and theirs else "."
    return Text(words, style="bold")


def pile(view: Observation) -> Text:
    """The cards on the pile by colour, without an order."""
    held = np.sort(cards.TYPE_OF_SLOT[np.asarray(view.pile)]).tolist()
    rows = [Text(f"The pile, {output.count(len(held), 'card')}, sorted:")]
    for color in (*range(cards.NUM_COLORS), -1):
        names = [cards.TYPE_NAMES[t] for t in held if cards.COLOR_OF_TYPE[t] == color]
        if names:
            rows.append(Text("  " + " ".join(names), style=_STYLES[color]))
    return Text("\n").join(rows)


def advice(told: Advice, view: Observation) -> Text:
    """The advised play, how likely each play is to win, and what the opponent may hold."""
    rows = [Text("There is nothing to choose.")] if told.thought is None else _plays(told.thought)
    lacks = ", ".join(
        f"{cards.COLOR_NAMES[c]} {percent(1 - float(told.prob_color[c]))}"
        for c in range(cards.NUM_COLORS)
        if any(view.rules.deck[c * cards.NUM_COLORED_RANKS : (c + 1) * cards.NUM_COLORED_RANKS])
    )
    no_playable = percent(float(told.prob_no_playable))
    rows.append(Text(f"What the opponent may hold, probability in %. No card to play on this top: {no_playable}."))
    rows.append(Text(f"No card at all of {lacks}."))
    return Text("\n").join([*rows, *_bars(told)])


def _plays(told: Thought) -> list[Text]:
    """The advised play, then the best first, in two columns: hardly more than ten rows, however full of wild cards the hand."""
    value, error = np.asarray(told.estimate.value), np.asarray(told.estimate.value_error)
    plays = sorted(np.flatnonzero(told.tried).tolist(), key=lambda action: (action != int(told.advised), -value[action]))
    number = int(told.estimate.num_samples[plays[0]])
    rows = [
        Text.assemble(
            "Advice: ",
            (text.format_action(int(told.advised)), "bold"),
            f". Win probability in % (standard error), {number:,} games of each play:",
        )
    ]
    height = -(-len(plays) // 2)
    for row in range(height):
        line = Text()
        for action in plays[row::height]:
            probability = min(max((1 + float(value[action])) / 2, 0.0), 1.0)
            style = _STYLES[int(cards.COLOR_OF_TYPE[type_of_action(action)])]
            line.append("*" if action == int(told.advised) else " ", style="bold")
            line.append(f"{text.format_action(action):<6}{bar(probability, 16)}", style=style)
            line.append(f" {100 * probability:5.1f} ({50 * float(error[action]):.1f})".ljust(15))
        line.rstrip()
        rows.append(line)
    return rows


def _bars(told: Advice) -> list[Text]:
    holds = np.asarray(told.prob_holds)
    order = np.argsort(-holds, kind="stable")[:_NUM_BARS]
    order = order[holds[order] > 0]
    rows = []
    height = -(-len(order) // _BARS_PER_ROW)
    for row in range(height):
        line = Text()
        for t in order[row::height]:
            style = _STYLES[int(cards.COLOR_OF_TYPE[t])]
            line.append(f" {cards.TYPE_NAMES[t]:<4}{bar(float(holds[t]), 14)}", style=style)
            line.append(f" {percent(float(holds[t])):>3}  ")
        line.rstrip()
        rows.append(line)
    return rows
