"""`unojax solve`: the equilibrium of a game with a small deck, to any precision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, Optional

import tyro

from unojax.cli.options import Count, Flag, JsonTarget, RuleOptions

Game = Annotated[
    Literal["tiny", "small", "medium", "rules"],
    tyro.conf.arg(
        help="A game of 8, 9 or 11 cards, with a thousand, 170 thousand or 2.5 million information states, or that of --deck, "
        "--hand-size and --max-steps."
    ),
]


@dataclass(frozen=True)
class Solve:
    """Find optimal play of a game with a small deck, and what it is worth."""

    game: tyro.conf.Positional[Game] = "small"
    variant: Annotated[Literal["cfr+", "dcfr", "cfr"], tyro.conf.arg(help="Of counterfactual regret minimisation.")] = "cfr+"
    iterations: Annotated[Count, tyro.conf.arg(help="Iterations at most, those of --state included.")] = 1000
    tolerance: Annotated[
        float,
        tyro.conf.arg(metavar="X", help="Stop at this exploitability: what both players could gain by better play, on average."),
    ] = 1e-4
    state: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.npz",
            help="Keep the run in a file, strategies included, and go on from what is there. Ctrl-C stops and keeps it too.",
        ),
    ] = None
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress bar.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        if not 0 <= self.tolerance < float("inf"):
            raise ValueError(f"--tolerance must be a number of at least 0, got {self.tolerance}")
        check_game(self.game, self.rules)


def check_game(game: str, rules: RuleOptions) -> None:
    """Raise ValueError if a game that has cards of its own is given others."""
    default = RuleOptions()
    given = [f"--{name.replace('_', '-')}" for name in ("deck", "hand_size") if getattr(rules, name) != getattr(default, name)]
    if game != "rules" and given:
        raise ValueError(f"the game {game!r} has a deck and hands of its own; leave {given[0]} out, or name the game rules")
