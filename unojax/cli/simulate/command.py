"""`unojax simulate`: who wins how often, over many games of two policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, Optional

import tyro

from unojax.cli.options import (
    Count,
    CountOrNone,
    Flag,
    JsonTarget,
    RuleOptions,
    Seed,
    TwoPolicies,
    check_policy_names,
)
from unojax.cli.targets import check_column_target


@dataclass(frozen=True)
class Simulate:
    """Play many games of two policies: who wins how often, how long they take."""

    games: Annotated[
        Count,
        tyro.conf.arg(
            help="How many games, every one of them played to its end. 1e6 is 1000000. Ctrl-C stops and shows what is complete."
        ),
    ] = 100_000
    policies: TwoPolicies = ("scarcest-color", "uniform")
    seats: Annotated[
        Literal["balanced", "as-given"],
        tyro.conf.arg(
            help="balanced: A is player 0 in half of the games and B in the other half, with random numbers of its own. "
            "as-given: A is player 0 in all games, which are those of unojax.simulate(jax.random.key(SEED), N, (A, B))."
        ),
    ] = "balanced"
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same games, whatever the batch size and the device.")] = 0
    batch_size: Annotated[CountOrNone, tyro.conf.arg(help="Games in progress at a time. none: what suits the device.")] = None
    out: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.parquet|npz",
            help="Write a row for each game too, for pandas and the like: who sat where, winner, steps, choices, reshuffles, "
            "cards left. The rows come as the games end; the column game numbers them.",
        ),
    ] = None
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress bar.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        check_policy_names(self.policies)
        if self.out is not None:
            check_column_target("--out", self.out)
