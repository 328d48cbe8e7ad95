"""The conversation at a table: read a line, pass it to the `Table`, show the result."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from unojax import cards
from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.at_table import Table
from unojax.games.events import LOST, WON
from unojax.games.seen import ImpossibleActionError
from unojax.terminal import table as view
from unojax.terminal.conversation import COMPILING
from unojax.terminal.entries import HELP, Command, Input, read_input
from unojax.terminal.tables import without_trailing_blanks


@dataclass
class TableConversation:
    """A game tracked in a terminal; `read`, `console`, `animate` as in `Conversation`.

    Attributes:
        table: The game.
        path: File in which the game is saved; None: not saved.
    """

    table: Table
    read: Callable[[str], str]
    console: Console
    path: str | None = None
    animate: bool = False

    def run(self) -> int:
        """Track the game until the person stops; return the exit status, 130 after Ctrl-C."""
        self._warmed = ThreadPoolExecutor(1, "compiling").submit(self.table.warm)
        self._save()
        self._say(*view.events(self.table.game)[-3:])
        self._show()
        status = 0
        while True:
            try:
                entered = read_input(self.read(f"{len(self.table.events) + 1} {view.turn(self.table)}> "))
                if entered.command is Command.QUIT:
                    break
                self._obey(entered)
            except ImpossibleActionError as error:
                self._say(Text(f"{str(error.why)[:1].upper()}{str(error.why)[1:]}."))
            except ValueError as error:
                self._say(Text(str(error)))
            except EOFError:
                self._say(Text(""))
                break
            except KeyboardInterrupt:
                self._say(Text(""))
                status = EXIT_INTERRUPTED
                break
        if self.path is not None:
            self.console.print(Text(f"Saved in {self.path}: unojax table --resume continues it."), soft_wrap=True)
        return status

    def _obey(self, entered: Input) -> None:
        table, number, before = self.table, entered.number, len(self.table.events)
        if entered.command is None:
            table.play(entered.rest)
            self._say(*(view.event(table.game, n + 1) for n in range(before, len(table.events))))
            if table.events[before:] and not table.is_explained:
                self._say(Text("No likely hand explains this after what came before: check it (u takes it back)."))
        elif entered.command is Command.UNDO:
            table.undo(1 if number is None else number)
        elif entered.command is Command.CORRECT:
            table.correct(before if number is None else number, entered.rest)
            self._say(*view.events(table.game)[max((number or before) - 1, 0) :])
        elif entered.command is Command.WHAT_IF:
            # A bare number is no card, because cards begin with their colour.
            branch = table.after(entered.rest)
            self._say(*view.events(branch.game)[before:])
            return self._show(branch)
        elif entered.command is Command.LIST:
            return self._say(*view.events(table.game))
        elif entered.command is Command.HELP:
            return self._say(Text(HELP))
        self._save()
        return self._show()

    def _show(self, table: Table | None = None) -> None:
        """Show the belief, and the advice if there is a choice."""
        table, width = table or self.table, self.console.width
        with self._working():
            self._warmed.result()
            looked = table.look()
        self._say(*view.state(table, looked, width=width))
        with self._working():
            pooled = table.advise()
        if pooled is not None:
            self._say(*view.advice(pooled, table.view, width=width))

    def _working(self) -> AbstractContextManager[object]:
        what = "computing" if self._warmed.done() else COMPILING
        return self.console.status(what) if self.animate else nullcontext()

    def _say(self, *parts: Text) -> None:
        if not parts:
            return
        with self.console.capture() as capture:
            self.console.print(*parts, sep="\n")
        self.console.file.write(without_trailing_blanks(capture.get()))

    def _save(self) -> None:
        """Write the file. A full disk must not lose the game."""
        if self.path is None:
            return
        try:
            self.table.save(self.path)
        except OSError as error:
            self.console.print(Text(f"The game could not be saved in {self.path}: {error.strerror}."), soft_wrap=True)


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
