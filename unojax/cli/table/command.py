"""`unojax table`: a game that others play, followed at a real table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

import tyro

from unojax.cli.options import CountOrNone, Flag, RuleOptions, Seed
from unojax.cli.targets import SAVED_GAME
from unojax.search import TABLE_SEARCH


@dataclass(frozen=True)
class FollowTable:
    """Follow a game at a real table: enter what happens, and see what the other player may hold and what to play."""

    hand: Annotated[
        Optional[str], tyro.conf.arg(metavar="CARDS", help="Your cards: 'R1 RS W'. None: the command asks for them.")
    ] = None
    top: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="CARD", help="The top card of the pile: R0; a wild one with the active colour: W:B. None: as above."
        ),
    ] = None
    opponent_begins: Annotated[Flag, tyro.conf.arg(help="The other player moves first.")] = False
    opponent: Annotated[
        CountOrNone,
        tyro.conf.arg(help="How many cards the other player holds, to begin in the midst of a game. None: as many as are dealt."),
    ] = None
    pile: Annotated[
        str, tyro.conf.arg(metavar="CARDS", help="With --opponent: the cards under the top one, as far as they are known.")
    ] = ""
    penalty: Annotated[
        str, tyro.conf.arg(metavar="N|N?COLOR", help="With --opponent: cards to be drawn now, as in unojax advise --penalty.")
    ] = ""
    save: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json", help="Save the game there after every event, as you saw it. An older one is replaced."
        ),
    ] = None
    resume: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json", help="Resume a game that was saved there; it is saved there again, or where --save says."
        ),
    ] = field(default=None, metadata=SAVED_GAME)
    agent: Annotated[
        str, tyro.conf.arg(metavar="SPEC", help="The search behind belief and advice: mc or tree, with parameters.")
    ] = TABLE_SEARCH
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same figures on the same device.")] = 0
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        default = FollowTable()
        if self.resume is not None:
            names = ("hand", "top", "opponent_begins", "opponent", "pile", "penalty", "seed", "rules")
            if given := [name for name in names if getattr(self, name) != getattr(default, name)]:
                what = "options of the rules" if given[0] == "rules" else f"--{given[0].replace('_', '-')}"
                raise ValueError(f"--resume brings start, seed and rules of the saved game: remove {what}")
        elif self.opponent is None and (self.pile or self.penalty):
            raise ValueError("--pile and --penalty belong to the midst of a game: add --opponent")
