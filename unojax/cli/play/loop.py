"""The conversation of a game: shows what happens, asks the person, keeps the record."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from unojax.cli import EXIT_INTERRUPTED
from unojax.cli.play.command import view as play_view
from unojax.cli.play.input import Command, Options, Wild, read_color
from unojax.games.gamefile import GameFile, write_game
from unojax.games.session import Adviser, Match

_THINKING: Final = "thinking"
_COMPILING: Final = "compiling; faster next time if JAX_COMPILATION_CACHE_DIR names a folder"


class _Stopped(Exception):
    """The person has had enough."""


@dataclass(frozen=True)
class Record:
    """Where a game is saved, and what the file says besides the moves."""

    path: str | os.PathLike[str]
    players: tuple[str, str]
    seed: int


class Conversation:
    """One game with a person, from the deal to the end."""

    def __init__(
        self,
        match: Match,
        opponent: str,
        *,
        read: Callable[[str], str],
        console: Console,
        adviser: Adviser | None = None,
        record: Record | None = None,
        auto_draw: bool = False,
        animate: bool = False,
    ):
        """Args:
        match: the game, at its start or on the way.
        opponent: how the agent is called.
        read: shows a prompt and returns the line that follows; raises EOFError where there is none.
        console: for all else that the person sees.
        adviser: None: no advice.
        record: None: the game is not saved.
        auto_draw: forced draws need no Enter.
        animate: show that the program is thinking; for terminals.
        """
        self._match, self._opponent = match, opponent
        self._read, self._console, self._animate = read, console, animate
        self._adviser, self._record, self._auto_draw = adviser, record, auto_draw
        self._first_view = match.seen[0].before if match.seen else match.view
        self._has_advised = False
        self._names = (play_view.YOU, opponent) if match.seat == 0 else (opponent, play_view.YOU)

    def run(self) -> int:
        """Play until the game is over or the person stops; returns the exit status, 130 after Ctrl-C.

        Raises:
            ValueError: the record can't be written at the start. Later that is only told.
        """
        match = self._match
        if self._record is not None:
            try:
                self._write(self._record)
            except OSError as error:
                raise ValueError(f"--save: can't write {str(self._record.path)!r}: {error.strerror}") from None
        status = 0
        try:
            self._greet()
            while not match.is_over:
                self._say(self._turn())
            result = play_view.result(match.view, match.winner, self._opponent, len(match.seen), cut_off=match.was_cut_off)
            self._say(Text(""), *play_view.hand_rows(match.view), result)
        except (EOFError, _Stopped):
            self._say(Text(""), self._unfinished())
        except KeyboardInterrupt:
            self._say(Text(""), self._unfinished())
            status = EXIT_INTERRUPTED
        if self._record is not None and self._save():
            how = "unojax replay shows it with all cards" if match.is_over else "unojax play --resume goes on with it"
            self._console.print(Text(f"Saved in {self._record.path}: {how}."), soft_wrap=True)
        return status

    def _greet(self) -> None:
        match = self._match
        moves = "You move" if match.is_my_turn else f"{self._opponent} moves"
        when = "next" if match.seen else "first"
        self._say(Text(f"You are player {match.seat}, against {self._opponent}. {moves} {when}. h: help, ?: advice, q: stop."))
        if match.seen:
            self._say(Text("The game goes on. What happened last:"))
            self._say(*(play_view.describe(seen, self._names) for seen in match.seen[-3:]))

    def _unfinished(self) -> Text:
        return Text(f"Stopped: the game is unfinished after {len(self._match.seen)} turns.")

    def _turn(self) -> Text:
        """One action of whoever's turn it is, in words."""
        match = self._match
        if match.is_my_turn:
            action = self._ask()
        else:
            with self._working(f"{self._opponent} is thinking"):
                action = match.reply()
        seen = match.play(action)
        self._save()
        return play_view.describe(seen, self._names)

    def _ask(self) -> int:
        """What the person does."""
        match = self._match
        options = Options.of(match.view, match.legal)
        self._say(Text(""), play_view.position(match.view, self._opponent, len(match.seen) + 1, options))
        if not options.types:
            self._say(Text(play_view.forced(match.view)))
            if self._auto_draw:
                return int(match.legal.argmax())
        prompt = "your play> " if options.types else "Enter draws> "
        while True:
            try:
                choice = options.read(self._read(prompt))
                if isinstance(choice, Wild):
                    choice = self._ask_color(choice)
            except ValueError as error:
                self._say(Text(str(error)))
                continue
            if isinstance(choice, int):
                return choice
            if choice is not None:
                self._obey(choice)

    def _ask_color(self, wild: Wild) -> int | None:
        """The action, or None if another card is to be chosen."""
        while True:
            try:
                color = read_color(self._read("colour (R, Y, B, G)> "))
            except ValueError as error:
                self._say(Text(str(error)))
                continue
            if isinstance(color, Command):
                self._obey(color)
            else:
                return None if color is None else wild.declare(color)

    def _obey(self, command: Command) -> None:
        match = self._match
        if command is Command.QUIT:
            raise _Stopped
        if command is Command.HELP:
            self._say(play_view.help_text(skip_forfeits=match.rules.skip_forfeits))
        elif command is Command.PILE:
            self._say(play_view.pile(match.view))
        elif self._adviser is None:
            self._say(Text("There is no advice in this game: it was started with --hints none."))
        else:
            with self._working(_THINKING if self._has_advised else _COMPILING):
                told = self._adviser.advise(self._first_view, match.seen)
            self._has_advised = True
            self._say(play_view.advice(told, match.view))

    def _working(self, what: str) -> AbstractContextManager[object]:
        return self._console.status(what) if self._animate else contextlib.nullcontext()

    def _say(self, *parts: Text) -> None:
        console = self._console
        with console.capture() as capture:
            console.print(*parts, sep="\n")
        # Where rich breaks a line it leaves the blank.
        console.file.write(re.sub(r"[ ]+$", "", capture.get(), flags=re.MULTILINE))

    def _save(self) -> bool:
        """Write the record, if there is one; whether it was written. A game is not lost for a full disk."""
        if self._record is None:
            return False
        try:
            self._write(self._record)
        except OSError as error:
            # A path is not broken into lines.
            self._console.print(Text(f"The game could not be saved in {self._record.path}: {error.strerror}."), soft_wrap=True)
            return False
        return True

    def _write(self, record: Record) -> None:
        match = self._match
        write_game(record.path, GameFile.of(match.replay(), players=record.players, seed=record.seed, rules=match.rules))
