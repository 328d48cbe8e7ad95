"""`unojax review`: a saved game looked back at: win probability, belief, and what each choice cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, Optional

import tyro

from unojax.cli.options import Count, Flag, JsonTarget, RuleOptions, Seed
from unojax.cli.targets import SAVED_GAME
from unojax.search import DEFAULT_SEARCH, MIN_REPLICATES, REVIEW_REPLICATES, check_replicates


@dataclass(frozen=True)
class Review:
    """Look back at a saved game: how likely the player was to win, what each choice cost."""

    file: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE.json", help="A game that unojax play or unojax table saved.")
    ] = field(metadata=SAVED_GAME)
    player: Annotated[
        Optional[Literal[0, 1]],
        tyro.conf.arg(help="Whose choices are looked at, by what this player could know. By default the person, or player 0."),
    ] = None
    agent: Annotated[
        str, tyro.conf.arg(metavar="SPEC", help="The search that values the plays: mc or tree, with parameters.")
    ] = DEFAULT_SEARCH
    replicates: Annotated[
        Count,
        tyro.conf.arg(help=f"Searches of each choice with fresh samples, at least {MIN_REPLICATES}."),
    ] = REVIEW_REPLICATES
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same figures on the same device.")] = 0
    html: Annotated[
        Optional[str],
        tyro.conf.arg(metavar="FILE.html", help="Write a page to step through the game, with curve and belief beside it."),
    ] = None
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No status line on the terminal.")] = False

    @property
    def rules(self) -> RuleOptions:
        """The default ones: the game brings its own."""
        return RuleOptions()

    def check(self) -> None:
        check_replicates(self.replicates, "--replicates")
