"""The person at a terminal: the common parts of two conversations. Imports no JAX."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from rich.console import Console
from rich.text import Text

from unojax.terminal.tables import without_trailing_blanks

_Answer = TypeVar("_Answer")

COMPILING: Final = "compiling; faster the next time"


def console_of_stdout() -> Console:
    """Return a console that changes no output."""
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False)


def read_line(prompt: str) -> str:
    """Read a line from standard input, with the terminal's editing if available."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  the import alone makes `input` edit lines
    try:
        line = input(prompt)
    except UnicodeDecodeError:
        raise ValueError("That is not text.") from None
    if not sys.stdin.isatty():
        # The input was not echoed, so the next output would otherwise follow the prompt.
        encoding = sys.stdout.encoding or "utf-8"
        print(line.encode(encoding, "replace").decode(encoding))
    return line


@dataclass(kw_only=True)
class WithPerson:
    """A conversation with a person.

    Attributes:
        read: Function that shows a prompt and returns the next line; raises EOFError at the end of input.
        console: Console for all other output.
        animate: Whether to show that the program is computing.
    """

    read: Callable[[str], str] = read_line
    console: Console = field(default_factory=console_of_stdout)
    animate: bool = field(default_factory=lambda: sys.stdout.isatty() and console_of_stdout().is_interactive)

    def say(self, *parts: Text) -> None:
        """Print paragraphs."""
        if parts:
            with self.console.capture() as capture:
                self.console.print(*parts, sep="\n")
            self.console.file.write(without_trailing_blanks(capture.get()))

    def ask(self, prompt: str, understand: Callable[[str], _Answer]) -> _Answer:
        """Ask until an answer is understood; a ValueError tells the person why one is not."""
        while True:
            try:
                return understand(self.read(prompt))
            except ValueError as error:
                self.say(Text(str(error)))

    def working(self, what: str) -> AbstractContextManager[object]:
        """Show what the program is doing."""
        return self.console.status(what) if self.animate else contextlib.nullcontext()

    def keep(self, path: str | os.PathLike[str], write: Callable[[], None]) -> bool:
        """Write a file and return True, or report the reason. A full disk must not lose the game."""
        try:
            write()
        except OSError as error:
            # A path must not be broken into lines.
            self.console.print(Text(f"The game could not be saved in {path}: {error.strerror}."), soft_wrap=True)
            return False
        return True
