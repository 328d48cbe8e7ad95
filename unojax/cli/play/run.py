"""Games in the terminal: deal or go on, talk, and play again."""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import sys
from pathlib import Path

from rich.console import Console

from unojax.cli import targets
from unojax.cli.play.advice import read_adviser
from unojax.cli.play.command import PlayGame
from unojax.cli.play.loop import Conversation, Record
from unojax.files import is_special
from unojax.files.own import is_own, split_own
from unojax.games.advisor import Advisor
from unojax.games.ahead import Ahead
from unojax.games.gamefile import read_game
from unojax.games.session import advice_key, draw_seat
from unojax.games.setup import Setup
from unojax.rules import Rules
from unojax.specs import choose_opponent, parse_agent, runs_code


def run(request: PlayGame, rules: Rules) -> int:
    if request.web:
        from unojax.cli.play.web import serve

        return serve(request, rules)
    setup = _deal(request, rules) if request.resume is None else _resume(request.resume, request.opponent)
    path = request.resume if request.save is None else request.save
    if path is not None:
        targets.check_target("--save", path)
        if request.resume is None or Path(path).resolve() != Path(request.resume).resolve():
            _check_no_game_is_lost(path)
    agent, search = parse_agent(setup.opponent, rules=setup.rules), read_adviser(request, setup.rules)
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    last, log_types = None, None
    while True:
        try:
            session = setup.start(agent, last)
        except ValueError as error:
            raise ValueError(f"--resume: {error}") from None
        advisor = None if search is None else Advisor(search, advice_key(setup.seed), log_types=log_types)
        ahead = Ahead(session, advisor)
        conversation = Conversation(
            session,
            _called(agent.name),
            read=read_line,
            console=console,
            advisor=advisor,
            record=None if path is None else Record(path, setup.players(agent), setup.seed),
            auto_draw=request.auto_draw,
            animate=sys.stdout.isatty() and console.is_interactive,
            ahead=ahead,
            offers_rematch=True,
        )
        console.print(f"The opponent is {agent.name}; seed {setup.seed}.")
        try:
            status = conversation.run()
        finally:
            ahead.close()
        if not conversation.wants_rematch:
            return status
        # What the two found out about each other goes on.
        last, log_types = session.memory, conversation.learned
        setup, path = setup.rematch, path and _next_path(path)


def _deal(request: PlayGame, rules: Rules) -> Setup:
    seed = secrets.randbelow(2**32) if request.seed is None else request.seed
    opponent = choose_opponent(request.opponent, rules)
    return Setup(opponent, draw_seat(seed) if request.seat == "random" else int(request.seat), seed, rules)


def _resume(path: str, opponent: str | None) -> Setup:
    game = read_game(path)
    try:
        setup = Setup.of(game)
    except ValueError as error:
        raise ValueError(f"--resume: {path!r}: {error}") from None
    if game.result != "*":
        raise ValueError(f"--resume: the game in {path!r} is over; unojax replay shows it")
    if opponent not in (None, setup.opponent):
        raise ValueError(f"--resume goes on against the opponent of the saved game, {setup.opponent}: leave --opponent out")
    if runs_code(setup.opponent) and opponent != setup.opponent:
        how = f"--opponent {shlex.quote(setup.opponent)}"
        raise ValueError(f"--resume: the game in {path!r} is against an agent that runs code of its own; to run it, add {how}")
    return setup


def _check_no_game_is_lost(path: str) -> None:
    """Raise ValueError where there is what the next deal must not be written over: anything but a game that is over."""
    file = Path(path)
    if is_special(file) or not file.exists() or file.stat().st_size == 0:
        return
    try:
        is_unfinished = read_game(path).result == "*"
    except ValueError as error:
        raise ValueError(f"--save: {error}; it is not written over: give another name") from None
    if is_unfinished:
        raise ValueError(
            f"--save: the game in {path!r} is unfinished: unojax play --resume {shlex.quote(path)} goes on with it; "
            "for another game give another name"
        )


def _next_path(path: str) -> str:
    """Name a file that is not there yet: `game-2.json` beside `game.json`, `game-3.json` beside that."""
    last = Path(path)
    stem, _, end = last.stem.rpartition("-")
    # A number of more digits is a date, say.
    stem, number = (stem, int(end)) if stem and re.fullmatch("[0-9]{1,3}", end) else (last.stem, 1)
    while (name := last.with_name(f"{stem}-{(number := number + 1)}{last.suffix}")).exists():
        pass
    return str(name)


def _called(spec: str) -> str:
    """Say what an agent is called, without its parameters: `value`, `my.py:clever`."""
    if not is_own(spec):
        return spec.partition(":")[0]
    path, _, name = split_own(spec)[0].rpartition(":")
    return f"{Path(path).name}:{name}"


def read_line(prompt: str) -> str:
    """Read a line from standard input, with the terminal's editing where there is one."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (from now on `input` lets lines be edited)
    try:
        line = input(prompt)
    except UnicodeDecodeError:
        raise ValueError("That is not text.") from None
    if not sys.stdin.isatty():
        # Nothing has shown what came in: without this, the next words would follow the prompt.
        encoding = sys.stdout.encoding or "utf-8"
        print(line.encode(encoding, "replace").decode(encoding))
    return line
