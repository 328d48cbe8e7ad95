"""The conversation at a table: read a line, pass it to the `Table`, show the result."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from rich.text import Text

from unojax import cards
from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.at_table import Table
from unojax.games.events import LOST, WON
from unojax.games.seen import ImpossibleActionError
from unojax.terminal import table as view
from unojax.terminal.entries import HELP, Command, Input, read_beginner, read_input
from unojax.terminal.person import COMPILING, WithPerson
from unojax.terminal.tables import WIDTH, legend
from unojax.text.observation import read_cards, read_top
from unojax.viz.words import capitalized


@dataclass
class TableConversation(WithPerson):
    """A game tracked in a terminal.

    Attributes:
        table: The game.
        path: File in which the game is saved; None: not saved.
    """

    table: Table
    path: str | None = None

    def run(self) -> int:
        """Track the game until the person stops; return the exit status, 130 after Ctrl-C."""
        self._warmed = ThreadPoolExecutor(1, "compiling").submit(self.table.warm)
        self._save()
        self.say(*view.events(self.table.game)[-3:])
        self._show()
        status = 0
        while True:
            try:
                entered = read_input(self.read(view.prompt(self.table)))
                if entered.command is Command.QUIT:
                    break
                self._obey(entered)
            except ImpossibleActionError as error:
                self.say(Text(f"{str(error.why)[:1].upper()}{str(error.why)[1:]}."))
            except ValueError as error:
                self.say(Text(str(error)))
            except EOFError:
                self.say(Text(""))
                break
            except KeyboardInterrupt:
                self.say(Text(""))
                status = EXIT_INTERRUPTED
                break
        if self.path is not None:
            how = "review shows the cost of your choices" if self.table.is_over else "table --resume continues it"
            self.console.print(Text(f"Saved in {self.path}: unojax {how}."), soft_wrap=True)
        return status

    def _obey(self, entered: Input) -> None:
        table, number, before = self.table, entered.number, len(self.table.events)
        if entered.command is None:
            table.play(entered.rest)
            self.say(*(view.event(table.game, n + 1) for n in range(before, len(table.events))))
            if table.events[before:] and not table.is_explained:
                self.say(Text("No likely hand explains this after what came before: check it (u takes it back)."))
        elif entered.command is Command.UNDO:
            table.undo(1 if number is None else number)
        elif entered.command is Command.CORRECT:
            if number is None and not before:
                raise ValueError("Nothing has happened yet that could be corrected.")
            table.correct(before if number is None else number, entered.rest)
            self.say(*view.events(table.game)[max((number or before) - 1, 0) :])
        elif entered.command is Command.WHAT_IF:
            # A bare number is no card, because cards begin with their colour.
            branch = table.after(entered.rest)
            self.say(*view.events(branch.game)[before:])
            return self._show(branch)
        elif entered.command is Command.LIST:
            return self.say(*view.events(table.game))
        elif entered.command is Command.HELP:
            return self.say(Text("\n".join(legend(HELP, min(self.console.width, WIDTH)))))
        self._save()
        return self._show()

    def _show(self, table: Table | None = None) -> None:
        """Show the belief, and the advice if there is a choice."""
        table, width = table or self.table, self.console.width
        with self._computing():
            self._warmed.result()
            looked = table.look()
        self.say(*view.state(table, looked, width=width))
        with self._computing():
            pooled = table.advise()
        if pooled is not None:
            self.say(*view.advice(pooled, table.view, width=width))

    def _computing(self) -> AbstractContextManager[object]:
        return self.working("computing" if self._warmed.done() else COMPILING)

    def _save(self) -> None:
        if (path := self.path) is not None:
            self.keep(path, lambda: self.table.save(path))


class Begin(Protocol):
    """Function that sets up a table from the answers of `ask_for_table`."""

    def __call__(self, hand: str, top: str, *, opponent_begins: bool) -> Table: ...


def ask_for_table(
    begin: Begin, hand: str | None, top: str | None, *, opponent_begins: bool, person: WithPerson | None = None
) -> Table | None:
    """Ask a person for the hand, the top card and who begins, and set up the table.

    If the answers contradict each other or the rules, the person reads why and answers all questions again.

    Args:
        begin: Sets up the table.
        hand, top: Known answers; None: the person is asked.
        opponent_begins: Whether the other player is known to begin. If not, the question for the top card includes this one.
        person: The person who answers. None: at the terminal.

    Returns:
        The table; None if the person stopped.
    """
    person = person or WithPerson()
    while True:
        try:
            mine = person.ask("your cards> ", read_cards) if hand is None else hand
            turned_up, they_begin = top, opponent_begins
            if turned_up is None:
                turned_up = person.ask("top card> ", read_top)
                they_begin = opponent_begins or person.ask("who begins, you or they (y, t)> ", read_beginner)
            return begin(mine, turned_up, opponent_begins=they_begin)
        except ValueError as error:
            person.say(Text(f"{capitalized(str(error))}."))
        except EOFError:
            person.say(Text(""))
            return None


def words_of(table: Table) -> tuple[str, ...]:
    """Return the words that an entry may hold next: events, and what an own challenge showed."""
    possible = table.possible()
    if not (table.is_my_turn and "challenge" in possible):
        return possible
    unseen = np.flatnonzero(table.view.unseen).tolist()
    return (*possible, WON, LOST, *(cards.TYPE_NAMES[t] for t in unseen))


def complete_words(words: Callable[[], tuple[str, ...]]) -> None:
    """Complete these words with the Tab key, if the terminal can."""
    with suppress(ImportError):
        import readline

        def complete(start: str, number: int) -> str | None:
            matches = [word for word in words() if word.lower().startswith(start.lower())]
            return matches[number] if number < len(matches) else None

        readline.set_completer(complete)
        readline.set_completer_delims(" ;,()")
        readline.parse_and_bind("tab: complete")
