"""`unojax arena`: agents against each other in pairs of games with the same deal, and how strong each is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

import tyro

from unojax.cli.options import AGENT_HELP, Count, CountOrNone, Flag, JsonTarget, RuleOptions, Seed


@dataclass(frozen=True)
class Arena:
    """Let agents play each other: who wins how often, and how strong each is."""

    agents: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="AGENT AGENT [AGENT ...]", help_behavior_hint="", help=f"Two or more of: {AGENT_HELP}"),
    ]
    games: Annotated[
        Count,
        tyro.conf.arg(
            help="Games of each two agents, an even number: with every deal they play two, the seats swapped. Ctrl-C stops and "
            "shows what is complete."
        ),
    ] = 4000
    to: Annotated[
        CountOrNone,
        tyro.conf.arg(
            metavar="POINTS",
            help="Play matches of several rounds to so many points, 500 say, under rules with --points (official has them); the "
            "games above are matches then. none: single games.",
        ),
    ] = None
    series: Annotated[
        Count,
        tyro.conf.arg(
            help="Play so many deals in a row, through which agents remember what they found out about each other (those that "
            "know types of opponents, as mc and value). 1: each game is begun anew."
        ),
    ] = 1
    adjust: Annotated[
        CountOrNone,
        tyro.conf.arg(
            metavar="ROLLOUTS",
            help="Take the luck out of the scores by so many rollouts of each estimate, 256 say: what the agents' decisions are "
            "worth in place of who won, for intervals half as wide as those of independent games, if agents play well. none: "
            "only results count.",
        ),
    ] = None
    seed: Annotated[
        Seed,
        tyro.conf.arg(
            help="The same seed gives the same games, whatever the workers, the batch size (but for tree) and the device."
        ),
    ] = 0
    batch_size: Annotated[
        CountOrNone,
        tyro.conf.arg(help="Games in progress at a time for each worker, an even number. none: what suits the device."),
    ] = None
    workers: Annotated[
        CountOrNone, tyro.conf.arg(help="Batches in progress at a time. none: one for each CPU core, or 1 with a GPU.")
    ] = None
    results: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.jsonl",
            help="Append each complete batch to a file, as a line. What is in the file already is not played again, so that a "
            "stopped run can go on and a finished one can be given more games or agents.",
        ),
    ] = None
    plot: Annotated[
        Optional[str], tyro.conf.arg(metavar="FILE.svg|png", help="Draw the scores and the ratings; needs matplotlib.")
    ] = None
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress bar.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        if len(self.agents) < 2:
            raise ValueError(f"give two or more agents, got {' '.join(self.agents) or 'none'}")
        if self.games % 2:
            raise ValueError(f"--games must be an even number, since every deal is played twice, got {self.games}")
        if self.games % (2 * self.series):
            raise ValueError(f"--games must be a multiple of {2 * self.series}, two for each deal of a series, got {self.games}")
        for name, is_used in (("--series", self.series > 1), ("--adjust", self.adjust is not None)):
            if is_used and (self.to is not None or self.results is not None):
                raise ValueError(f"{name} is about single games, and they are not kept: leave --to and --results out")
        if self.to is not None and self.results is not None:
            raise ValueError("--results keeps single games; leave it out with --to")
        if self.batch_size is not None and self.batch_size % 2:
            raise ValueError(f"--batch-size must be an even number, since every deal is played twice, got {self.batch_size}")
