"""`unojax play`: a game against a policy or a search, in the terminal."""

from __future__ import annotations

import contextlib
import secrets
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

import tyro

from unojax.cli.options import AGENT_HELP, CountOrNone, Flag, RuleOptions, Seed
from unojax.specs import DEFAULT_OPPONENT

if TYPE_CHECKING:
    from unojax.agents import Agent
    from unojax.games.gamefile import GameFile
    from unojax.games.session import Session
    from unojax.rules import Rules

_MAX_HINTS: Final = 100_000
"""Rollouts of each play: their results are kept until all are done."""


@dataclass(frozen=True)
class PlayGame:
    """Play against a policy or a search, in the terminal."""

    opponent: Annotated[str, tyro.conf.arg(metavar="AGENT", help=f"One of: {AGENT_HELP}")] = DEFAULT_OPPONENT
    seat: Annotated[
        Literal["0", "1", "random"], tyro.conf.arg(help="Where you sit. Player 0 moves first, unless --first-player is random.")
    ] = "0"
    seed: Annotated[
        Seed | None,
        tyro.conf.arg(
            help="The same seed gives the same deal, and with the same moves the same game. None: another one each time."
        ),
    ] = None
    hints: Annotated[
        CountOrNone,
        tyro.conf.arg(help="How many games the advice (?) plays out for each legal play; at least 2. none: no advice."),
    ] = 500
    auto_draw: Annotated[Flag, tyro.conf.arg(help="Where you can only draw, draw at once, without Enter.")] = False
    save: Annotated[
        str | None,
        tyro.conf.arg(metavar="FILE.json", help="Save the game there, all cards included, after every move. See unojax replay."),
    ] = None
    resume: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="FILE.json",
            help="Go on with an unfinished game that was saved there; it goes on being saved there, or where --save says. "
            "Opponent, seat, seed and rules are those of the game.",
        ),
    ] = None
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        """Play; the exit status is 130 after Ctrl-C."""
        if self.hints is not None and not 2 <= self.hints <= _MAX_HINTS:
            raise ValueError(f"--hints must be in [2, {_MAX_HINTS}] or none, got {self.hints}")
        setup = self._new() if self.resume is None else self._old(self.resume)
        from rich.console import Console

        from unojax.cli.play.loop import Conversation, Record
        from unojax.games.adviser import Adviser
        from unojax.games.gamefile import PERSON
        from unojax.search.agents import monte_carlo
        from unojax.specs import parse_agent

        agent = parse_agent(setup.opponent, rules=setup.rules)
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        animate = sys.stdout.isatty() and console.is_interactive
        waiting = "getting ready; faster the next time"
        with console.status(waiting) if animate else contextlib.nullcontext():
            session = setup.start(agent)
        adviser = None
        if self.hints is not None:
            adviser = Adviser(monte_carlo(rollouts=self.hints, rules=setup.rules), seed=setup.seed)
        path = self.resume if self.save is None else self.save
        players = (PERSON, agent.name) if setup.seat == 0 else (agent.name, PERSON)
        conversation = Conversation(
            session,
            agent.name.partition(":")[0],
            read=_read_line,
            console=console,
            adviser=adviser,
            record=None if path is None else Record(path, players, setup.seed),
            auto_draw=self.auto_draw,
            animate=animate,
        )
        console.print(f"The opponent is {agent.name}; seed {setup.seed}.")
        return conversation.run()

    def _new(self) -> Setup:
        rules = self.rules.build()
        from unojax.games.session import draw_seat

        seed = secrets.randbelow(2**32) if self.seed is None else self.seed
        return Setup(self.opponent, draw_seat(seed) if self.seat == "random" else int(self.seat), seed, rules)

    def _old(self, path: str) -> Setup:
        for name in ("opponent", "seat", "seed", "rules"):
            if getattr(self, name) != getattr(_DEFAULT, name):
                what = "the options of the rules" if name == "rules" else f"--{name}"
                raise ValueError(f"--resume goes on with the opponent, seat, seed and rules of the saved game: leave {what} out")
        from unojax.games.gamefile import PERSON, read_game

        game = read_game(path)
        if game.seed is None or game.players.count(PERSON) != 1:
            raise ValueError(f"--resume: {path!r} is no game of a person against an agent, with a seed")
        if game.result != "*":
            raise ValueError(f"--resume: the game in {path!r} is over; unojax replay shows it")
        seat = game.players.index(PERSON)
        return Setup(game.players[1 - seat], seat, game.seed, game.rules, game)


@dataclass(frozen=True)
class Setup:
    """A game to be played, or to go on with: the opponent's spec, the person's seat, and the past, if there is one."""

    opponent: str
    seat: int
    seed: int
    rules: Rules
    past: GameFile | None = None

    def start(self, agent: Agent) -> Session:
        """Deal, and play the past again, with all programs compiled. Raises ValueError where it does not follow from the seed."""
        from unojax.games.session import Session
        from unojax.text import format_position

        session = Session(agent, seat=self.seat, seed=self.seed, rules=self.rules)
        session.warm()
        if self.past is not None:
            # With the same seed and the same actions the same cards are drawn, and the agent remembers the same.
            past = self.past.replay()
            if format_position(session.start) == self.past.start:
                for step in past.steps:
                    session.play(step.action)
            if format_position(session.replay().end) != self.past.end:
                raise ValueError(
                    "--resume: the deal and the draws of the saved game are not those of its seed, so it can't go on"
                )
        return session


_DEFAULT: Final = PlayGame()


def _read_line(prompt: str) -> str:
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
