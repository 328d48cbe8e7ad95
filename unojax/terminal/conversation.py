"""A game in the terminal: report events, ask the person, save the record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jax import Array
from rich.text import Text

from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.advisor import Advisor
from unojax.games.ahead import Ahead, Job
from unojax.games.gamefile import next_path, write_game
from unojax.games.session import OpponentError, Session, advice_key
from unojax.games.tally import Tally
from unojax.search.agents import SearchAgent
from unojax.specs import short_name
from unojax.terminal import game as view
from unojax.terminal.answers import Command, Options, Wild, Wish, read_color, read_wish
from unojax.terminal.person import COMPILING, WithPerson
from unojax.terminal.tables import count
from unojax.viz.words import YOU


class _Stopped(Exception):
    """The person stopped."""


@dataclass
class Conversation(WithPerson):
    """One game with a person, from the deal or a later position.

    Attributes:
        path: File in which the game is saved; None: not saved.
        auto_draw: Whether forced draws need no Enter.
        ahead: Programs being compiled; None: all are ready.
        offers_rematch: Whether to offer another game.
        tally: Score of the match before this game; None: not shown.
    """

    session: Session
    advisor: Advisor | None = None
    path: str | os.PathLike[str] | None = None
    auto_draw: bool = False
    ahead: Ahead | None = None
    offers_rematch: bool = False
    tally: Tally | None = None

    def __post_init__(self) -> None:
        self.wants_rematch = False
        self.opponent = short_name(self.session.opponent)
        self._names = (YOU, self.opponent) if self.session.seat == 0 else (self.opponent, YOU)

    @property
    def learned(self) -> Array | None:
        """Return `Advisor.learned`."""
        return None if self.advisor is None else self.advisor.learned(self.session.views)

    def run(self) -> int:
        """Play until the game is over or the person stops; return the exit status.

        Raises ValueError if the record can't be written at the start, and OpponentError after saving.
        """
        session = self.session
        if self.path is not None:
            try:
                write_game(self.path, session.record)
            except OSError as error:
                raise ValueError(f"--save: can't write {str(self.path)!r}: {error.strerror}") from None
        status, failure = 0, None
        try:
            self._greet()
            wish = Wish.BACK
            while wish is Wish.BACK:
                while not session.is_over:
                    self._turn()
                self.say(Text(""), *view.hand_rows(session.view, width=self.console.width), view.result(session, self.opponent))
                if self.tally is not None:
                    self.say(view.standing(self.tally.after(session), session, self.opponent))
                wish = self._ask_wish() if self.offers_rematch else Wish.LEAVE
                if wish is Wish.BACK:
                    self._take_back()
            self.wants_rematch = wish is Wish.REMATCH
        except (EOFError, KeyboardInterrupt, OpponentError, _Stopped) as why:
            if not session.is_over:
                self.say(Text(""), Text(f"Stopped: the game is unfinished after {len(session.steps)} turns."))
            status = EXIT_INTERRUPTED if isinstance(why, KeyboardInterrupt) else 0
            failure = why if isinstance(why, OpponentError) else None
        if self._save():
            is_whole = session.is_over and not session.has_given_up
            how = "unojax replay shows it with all cards" if is_whole else "unojax play --resume continues it"
            self.console.print(Text(f"Saved in {self.path}: {how}."), soft_wrap=True)
        if failure is not None:
            raise failure
        return status

    def _greet(self) -> None:
        session = self.session
        moves = "You move" if session.is_my_turn else f"{self.opponent} moves"
        when = "next" if session.steps else "first"
        self.say(Text(f"You are player {session.seat}, against {self.opponent}. {moves} {when}. h: help, ?: advice, q: stop."))
        if session.steps:
            self.say(Text("The game continues. The last actions:"))
            self.say(*(view.move(seen, self._names) for seen in session.seen[-3:]))

    def _turn(self) -> None:
        """Play an action and describe it, or take actions back."""
        session = self.session
        if session.is_my_turn:
            action = self._ask()
        else:
            # A forced action needs none of the agent's programs.
            needed: tuple[Job, ...] = ("moves",) if session.agent_has_choice else ()
            with self._ready(f"{self.opponent} is thinking", *needed):
                action = session.reply()
        if action is None:
            return self._take_back()
        seen = session.play(action)
        if seen is None:
            return None
        self._save()
        return self.say(view.move(seen, self._names))

    def _take_back(self) -> None:
        """Go back to the person's last decision."""
        if taken := self.session.take_back():
            self._save()
            self.say(Text(f"{count(taken, 'action')} taken back."))
        else:
            self.say(Text("There is nothing to take back."))

    def _ask_wish(self) -> Wish:
        try:
            return self.ask("r: rematch, u: take back, Enter: stop> ", read_wish)
        except EOFError:
            self.say(Text(""))
            return Wish.LEAVE

    def _ask(self) -> int | None:
        """Ask the person for an action; None takes the last one back."""
        session = self.session
        options = Options.of(session.view, session.legal)
        turn = len(session.steps) + 1
        self.say(Text(""), view.position(session.view, self.opponent, turn, options, width=self.console.width))
        if options.extra:
            self.say(Text(f"You may also type {options.extra}." if options.types else f"Type {options.extra}."))
        elif not options.types:
            self.say(Text(view.forced(session.view)))
            if self.auto_draw:
                return int(session.legal.argmax())
        prompt = "your play> " if options.types else "your answer> " if options.may_challenge else "Enter draws> "
        while True:
            choice = self.ask(prompt, options.read)
            if isinstance(choice, Wild):
                choice = self._ask_color(choice)
            if isinstance(choice, int):
                return choice
            if choice is Command.BACK:
                return None
            if choice is not None:
                self._obey(choice)

    def _ask_color(self, wild: Wild) -> int | Command | None:
        """Ask for a colour; None to choose another card, or the wish to take the last move back."""
        while True:
            color = self.ask("colour (R, Y, B, G)> ", read_color)
            if color is Command.BACK:
                return Command.BACK
            if isinstance(color, Command):
                self._obey(color)
            else:
                return None if color is None else wild.declare(color)

    def _obey(self, command: Command) -> None:
        session = self.session
        if command is Command.QUIT:
            raise _Stopped
        if command is Command.HELP:
            self.say(view.help_text(session.rules, width=self.console.width))
        elif command is Command.PILE:
            self.say(view.pile(session.view))
        elif self.advisor is None:
            self.say(Text("There is no advice in this game: it was started with --hints none."))
        else:
            needed: tuple[Job, ...] = ("first advice", "advice") if session.steps else ("first advice",)
            with self._ready("thinking", *needed):
                looked, thought = self.advisor.look(session.views), self.advisor.advise(session.views)
            has_acted = not all(seen.is_mine for seen in session.seen)
            self.say(view.advice(looked, thought, session.view, has_acted=has_acted, width=self.console.width))

    @contextmanager
    def _ready(self, what: str, *needed: Job) -> Iterator[None]:
        """Show that the program is computing, once the programs that it needs are compiled."""
        ahead = self.ahead
        if ahead is not None and not ahead.is_ready(*needed):
            with self.working(COMPILING):
                ahead.wait(*needed)
        with self.working(what):
            yield

    def _save(self) -> bool:
        """Save the game if it has a file, and return whether it is saved."""
        path = self.path
        return path is not None and self.keep(path, lambda: write_game(path, self.session.record))


def play_games(session: Session, search: SearchAgent | None, path: str | None, *, auto_draw: bool = False) -> int:
    """Play a game and its rematches; return the exit status as `Conversation.run` does.

    Args:
        session: The first game.
        search: Search behind the advice; its posterior over opponent types carries over. None: no advice.
        path: File of the first game; rematches are saved beside it. None: games are not saved.
        auto_draw: As in `Conversation`.

    Raises:
        ValueError: If a file can't be written.
    """
    log_types, tally = None, Tally()
    while True:
        advisor = None if search is None else Advisor(search, advice_key(session.seed), log_types=log_types)
        ahead = Ahead(session, advisor)
        conversation = Conversation(
            session,
            advisor=advisor,
            path=path,
            auto_draw=auto_draw,
            ahead=ahead,
            offers_rematch=True,
            tally=tally,
        )
        conversation.console.print(f"The opponent is {session.opponent}; seed {session.seed}.")
        try:
            status = conversation.run()
        finally:
            ahead.close()
        if not conversation.wants_rematch:
            return status
        log_types, tally = conversation.learned, tally.after(session)
        session, path = session.rematch(), path and next_path(path)
