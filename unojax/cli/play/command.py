"""`unojax play`: games against a policy or a search, in the terminal or in the browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Optional

import tyro

from unojax.cli.options import AGENT_HELP, CountOrNone, Flag, RuleOptions, Seed, Whole

_MAX_HINTS: Final = 100_000
"""Rollouts of each play: their results are kept until all are done."""


@dataclass(frozen=True)
class PlayGame:
    """Play against a policy or a search, in the terminal or in the browser."""

    opponent: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="AGENT",
            help=f"One of: {AGENT_HELP} None: value, or a search under rules that its network does not know.",
        ),
    ] = None
    seat: Annotated[
        Literal["0", "1", "random"],
        tyro.conf.arg(help="Where you sit. Player 0 moves first, unless the rules draw lots or a start card passes it over."),
    ] = "0"
    seed: Annotated[
        Optional[Seed],
        tyro.conf.arg(
            help="The same seed gives the same deal, and with the same moves the same game. None: another one each time."
        ),
    ] = None
    hints: Annotated[
        CountOrNone,
        tyro.conf.arg(help="How many games the advice (?) plays out for each legal play; at least 2. none: no advice."),
    ] = 500
    opponent_model: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="MODEL",
            help="How the advice takes the opponent to choose, as in unojax belief --opponent-model. With several types, as in "
            "uniform|linear or family, it says what the opponent plays like, and a rematch goes on from there. none: as ever.",
        ),
    ] = None
    auto_draw: Annotated[Flag, tyro.conf.arg(help="Where you can only draw, draw at once, without Enter.")] = False
    save: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json",
            help="Save the game there, all cards included, after every move, and a rematch beside it. No unfinished game is "
            "written over. See unojax replay.",
        ),
    ] = None
    resume: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json",
            help="Go on with an unfinished game that was saved there; it goes on being saved there, or where --save says. "
            "Opponent, seat, seed and rules are those of the game.",
        ),
    ] = None
    web: Annotated[
        Flag,
        tyro.conf.arg(
            help="Play in the browser: a page from this machine, for this machine alone. Games are kept, whatever is closed or "
            "stopped."
        ),
    ] = False
    port: Annotated[Whole, tyro.conf.arg(help="Where the page is served, with --web. 0: any that is free.")] = 8377
    browser: Annotated[bool, tyro.conf.arg(help="Open the page in the browser, with --web.")] = True
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    @property
    def adviser(self) -> str | None:
        """The spec of the search behind the advice; None if there is to be none."""
        if self.hints is None:
            return None
        return f"mc:rollouts={self.hints}" + (f",model={self.opponent_model}" if self.opponent_model is not None else "")

    def check(self) -> None:
        if self.hints is not None and not 2 <= self.hints <= _MAX_HINTS:
            raise ValueError(f"--hints must be in [2, {_MAX_HINTS}] or none, got {self.hints}")
        if not 0 <= self.port < 2**16:
            raise ValueError(f"--port must be in [0, {2**16 - 1}], got {self.port}")
        if self.web and (self.save is not None or self.resume is not None or self.hints is None or self.auto_draw):
            raise ValueError(
                "with --web leave --save, --resume, --auto-draw and --hints none out: the page saves and loads games"
            )
        if not self.web and (self.port != PlayGame.port or not self.browser):
            raise ValueError("--port and --no-browser are about the page: add --web, or leave them out")
        if self.hints is None and self.opponent_model is not None:
            raise ValueError("--opponent-model is about the advice, and with --hints none there is none: leave one of them out")
        if self.resume is not None:
            default = PlayGame()
            for name in ("seat", "seed", "rules"):
                if getattr(self, name) != getattr(default, name):
                    what = "the options of the rules" if name == "rules" else f"--{name}"
                    kept = "--resume goes on with the opponent, seat, seed and rules of the saved game"
                    raise ValueError(f"{kept}: leave {what} out")
