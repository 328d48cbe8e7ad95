"""`unojax play`: a game against a policy or a search, in the terminal."""

from __future__ import annotations

import contextlib
import secrets
import sys
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from unojax.cli.options import POLICY_NAMES, CountOrNone, Flag, RuleOptions, Seed
from unojax.specs import AGENTS


@dataclass(frozen=True)
class Play:
    """Play against a policy or a search, in the terminal."""

    opponent: Annotated[
        str,
        tyro.conf.arg(
            metavar="AGENT",
            help=f"One of: {', '.join((*POLICY_NAMES, *AGENTS))}. Parameters follow a colon: mc:rollouts=1000.",
        ),
    ] = "linear"
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
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        """Play; the exit status is 130 after Ctrl-C."""
        if self.hints == 1:
            raise ValueError("--hints must be at least 2 or none, got 1")
        rules = self.rules.build()
        from rich.console import Console

        from unojax.agents import parse_agent
        from unojax.cli.play_loop import PERSON, Conversation, Record
        from unojax.cli.play_match import Adviser, Match, draw_seat
        from unojax.search.agents import MonteCarloAgent

        agent = parse_agent(self.opponent, rules=rules)
        seed = secrets.randbelow(2**32) if self.seed is None else self.seed
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        animate = sys.stdout.isatty() and console.is_interactive
        with (
            console.status("getting ready; faster next time if JAX_COMPILATION_CACHE_DIR names a folder")
            if animate
            else contextlib.nullcontext()
        ):
            seat = draw_seat(seed) if self.seat == "random" else int(self.seat)
            match = Match(agent, seat=seat, seed=seed, rules=rules)
            match.warm()
            adviser = None if self.hints is None else Adviser(MonteCarloAgent(rollouts=self.hints, rules=rules), seed=seed)
        players = (PERSON, agent.name) if seat == 0 else (agent.name, PERSON)
        conversation = Conversation(
            match,
            agent.name.partition(":")[0],
            read=_read_line,
            console=console,
            adviser=adviser,
            record=None if self.save is None else Record(self.save, players, seed),
            auto_draw=self.auto_draw,
            animate=animate,
        )
        console.print(f"The opponent is {agent.name}; seed {seed}.")
        return conversation.run()


def _read_line(prompt: str) -> str:
    """A line from standard input, with the terminal's editing where there is one."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (from now on `input` lets lines be edited)
    try:
        line = input(prompt)
    except UnicodeDecodeError:
        raise ValueError("That is not text.") from None
    if not sys.stdin.isatty():
        # Nothing has shown what came in: without this, the next words would follow the prompt.
        print(line)
    return line
