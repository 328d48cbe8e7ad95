"""`unojax belief`: what one player can know of the other's hand, turn by turn through one game."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Optional

import tyro

from unojax.cli.options import (
    POLICY_HELP,
    Count,
    CountOrNone,
    Flag,
    JsonTarget,
    RuleOptions,
    Seed,
    WholeOrNone,
    check_policy_names,
)
from unojax.cli.targets import SAVED_GAME

_MAX_PARTICLES: Final = 2**20


@dataclass(frozen=True)
class ShowBelief:
    """Show what one player can know of the other's hand, turn by turn through a game."""

    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same game, and on the same device the same belief.")] = 0
    belief_seed: Annotated[
        Optional[Seed],
        tyro.conf.arg(
            help="Another one gives other particles for the same game: how far apart such beliefs are is the error of each. "
            "None: the seed of the game."
        ),
    ] = None
    policies: Annotated[
        tuple[str, str],
        tyro.conf.arg(metavar="A B", help=f"Who plays as player 0 and as player 1. {POLICY_HELP}"),
    ] = ("uniform", "uniform")
    player: Annotated[Literal[0, 1], tyro.conf.arg(help="The player whose knowledge is shown.")] = 0
    particles: Annotated[Count, tyro.conf.arg(help="Hypothetical hands that the belief is made of.")] = 1024
    opponent_model: Annotated[
        str,
        tyro.conf.arg(
            metavar="MODEL",
            help="How the other player is thought to choose. uniform: any legal action. consistent: nothing is concluded from a "
            "play but that the card was held. Or a policy with the probability that it acts at random instead, as in guard+0.05, "
            "which is also meant by guard. Or several, as in uniform|guard*2|linear: it is found out which of them it is, the "
            "second being twice as likely at first. family, minimax: lists that are ready made.",
        ),
    ] = "uniform"
    start: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="POSITION",
            help="Begin here instead of with a deal; needs --actions. Written as unojax.format_position does: "
            "'B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 0 - *'.",
        ),
    ] = None
    actions: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="ACTIONS",
            help="What is played from --start, separated by blanks: R5, YS, G+2, W:B (wild, colour), W+4:R, draw. The cards of a "
            "draw, of either player, can be named, as in draw(R5,W); else they are random.",
        ),
    ] = None
    game: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json",
            help="Follow a game that unojax play or unojax table saved, under its own rules. A game of unojax table is followed "
            "as its player saw it, without the truth.",
        ),
    ] = field(default=None, metadata=SAVED_GAME)
    steps: Annotated[
        CountOrNone,
        tyro.conf.arg(
            help="Stop after N turns; a game of policies, if nothing is said, after 1,000. A turn is a play or a whole draw."
        ),
    ] = None
    turn: Annotated[
        WholeOrNone,
        tyro.conf.arg(help="Show turn N alone and in full. Before the first turn of a game it is turn 0."),
    ] = None
    hide_truth: Annotated[Flag, tyro.conf.arg(help="Leave the other player's real hand out.")] = False
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No status line on the terminal.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def check(self) -> None:
        check_policy_names(self.policies)
        if (self.start is None) != (self.actions is None):
            raise ValueError("--start and --actions need each other: a position, and what is played from it")
        if self.game is not None and (self.start is not None or self.rules != RuleOptions()):
            raise ValueError(
                "--game has a start, actions and rules of its own: leave --start, --actions and those of the rules out"
            )
        if self.policies != ("uniform", "uniform") and not (self.start is None and self.game is None):
            raise ValueError("--policies play a new game, but with --start or --game all actions are given: leave one out")
        if self.turn is not None and self.turn < 0:
            raise ValueError(f"--turn must be at least 0, the start, got {self.turn}")
        if self.particles > _MAX_PARTICLES:
            raise ValueError(f"--particles must be at most {_MAX_PARTICLES}, got {self.particles}")
