"""`unojax record`: whole games, step by step, in a file for offline training and analysis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from unojax.cli.options import Count, Flag, RuleOptions, Seed, TwoPolicies, check_policy_names
from unojax.cli.targets import check_column_target


@dataclass(frozen=True)
class Record:
    """Play games of two policies and keep every step: what was seen, legal, done, and how it ended."""

    out: Annotated[
        str, tyro.conf.arg(metavar="FILE.parquet|npz", help="A row for each step: unojax.games.trajectories says what is in it.")
    ]
    games: Annotated[Count, tyro.conf.arg(help="How many games. Ctrl-C stops, and keeps those that are complete.")] = 1000
    policies: TwoPolicies = ("linear", "linear")
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same games, whatever the batch size.")] = 0
    batch_size: Annotated[Count, tyro.conf.arg(help="Games played at a time.")] = 256
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress bar.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        check_policy_names(self.policies)
        check_column_target("--out", self.out)
