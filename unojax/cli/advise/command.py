"""`unojax advise`: what to play in a position, from what the player to move can know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Optional

import tyro

from unojax.cli.options import CountOrNone, Flag, JsonTarget, RuleOptions, Seed, Whole
from unojax.games.question import check_effort, check_words
from unojax.search import ADVISE_REPLICATES, DEFAULT_SEARCH

_MAX_BARS: Final = 54


@dataclass(frozen=True)
class Advise:
    """Say what to play in a position, and how likely each play is to win."""

    position: Annotated[
        tyro.conf.Positional[Optional[str]],
        tyro.conf.arg(
            metavar="POSITION",
            help="What the player to move sees: unojax.format_position's line with the number of the other player's cards in "
            "place of that hand, 'B7,R2,W/3/Y5/* R5 0 0 0 - *', or the lines of unojax.format_observation. Of a line with both "
            "hands the other one is not looked at. -: read from standard input. Or say --hand, --top and --opponent.",
        ),
    ] = None
    hand: Annotated[
        Optional[str], tyro.conf.arg(metavar="CARDS", help="The player's cards, in place of POSITION: 'R1 RS W'.")
    ] = None
    top: Annotated[
        Optional[str],
        tyro.conf.arg(metavar="CARD", help="The top card of the pile: R0; a wild one with the declared colour: W:B."),
    ] = None
    opponent: Annotated[CountOrNone, tyro.conf.arg(help="How many cards the other player holds.")] = None
    pile: Annotated[
        str, tyro.conf.arg(metavar="CARDS", help="The cards under the top one, as far as they are known: 'R2 G2 GS'.")
    ] = ""
    penalty: Annotated[
        str,
        tyro.conf.arg(
            metavar="N|N?COLOR",
            help="The cards that the player must draw now, after a +2 or Wild+4: 2, 4, or more where penalties add up (name the "
            "other +2 or Wild+4 with --pile). Of a Wild+4 that may be challenged with the colour that was active before it: "
            "'4?R'.",
        ),
    ] = ""
    opponent_begins: Annotated[Flag, tyro.conf.arg(help="The other player moves first after --hand, --top and --opponent.")] = (
        False
    )
    history: Annotated[
        str,
        tyro.conf.arg(
            metavar="ACTIONS",
            help="What was played since POSITION, separated by blanks: R5, YS, W:B (wild, colour), draw(R5,W) for cards that the "
            "player drew and draw for a draw of the other, draw+ if that left its turn open, pass, challenge, challenge(won) or "
            "challenge(lost) for the player's own. The advice is for the position after it, and what the other player did tells "
            "about the hidden hand.",
        ),
    ] = ""
    player: Annotated[
        Optional[Literal[0, 1]],
        tyro.conf.arg(help="Who is advised, where POSITION has both hands. By default the player to move in the end."),
    ] = None
    agent: Annotated[
        str,
        tyro.conf.arg(
            metavar="SPEC",
            help="The search: mc or tree, with parameters as in mc:rollouts=4000,policy=guard,belief=unseen,model=uniform.",
        ),
    ] = DEFAULT_SEARCH
    replicates: Annotated[
        CountOrNone,
        tyro.conf.arg(help=f"Repeat the search N times with fresh samples and pool them. By default {ADVISE_REPLICATES}."),
    ] = None
    seconds: Annotated[
        Optional[float], tyro.conf.arg(metavar="S", help="Repeat the search for so long instead, compiling not counted.")
    ] = None
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed and replicates give the same advice on the same device.")] = 0
    bars: Annotated[Whole, tyro.conf.arg(help="Show the N cards that the other player most likely holds.")] = 12
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No status line on the terminal.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        check_effort(self.replicates, self.seconds, "--")
        if not 0 <= self.bars <= _MAX_BARS:
            raise ValueError(f"--bars must be in [0, {_MAX_BARS}], got {self.bars}")
        check_words(self.position, vars(self), "--")
