"""Options of the games that a value network learns from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from training.checks import check_options, is_not_negative, is_positive, is_share
from unojax.belief.opponents import Opponent, parse_opponent
from unojax.belief.updaters import ParticleFilter
from unojax.policies import POLICIES
from unojax.rules import Rules, as_rules
from unojax.value.pretrained import PRETRAINED

SELF: Final = "self"
"""As an opponent: the network itself."""
_MAX_SLOTS: Final = 128
_MAX_PLAYS: Final = 48
"""Capacity of the beliefs under rules with plain steps, under others the default; a game that outgrows it begins its belief anew,
which happens to one game in a hundred."""


@dataclass(frozen=True)
class SelfPlay:
    """Options of the games that the network plays.

    Attributes:
        rules: of the games, by their name in `unojax.rules.PRESETS`. What is learned is to win; points count for nothing.
        opponents: of the network, in turn: "self", names of policies, or networks that stay as they are and play greedily:
            "pretrained" or files. Games against one network alone teach to exploit it.
        belief: "particles", or "unseen": any unseen card is as likely as another.
        particles: of each belief. They take most of the time of the games.
        model: how beliefs take the other player to choose, one model or several types, see `parse_opponent`.
        temperature: the network's plays are drawn from softmax(values / temperature); 0: the best one.
        explore: probability of a uniformly random play instead.
        max_steps: games are learned from up to here.
        search: rollouts of each legal play at the network's choices, whose returns teach it the differences between plays; 0:
            none. Hands are drawn from the belief; with "unseen" it is the true one, which averages out over games. Where the
            belief tells types of opponents apart, a type is drawn with each hand, and the opponent follows it in the rollout.
        follow_search: play the search's best play, and not the network's.
        search_weight: a search that is followed is averaged with the network's own values, which count as so many rollouts.
    """

    rules: str = "default"
    opponents: tuple[str, ...] = (SELF, SELF, "linear", "linear", "linear", "uniform", "uniform", "scarcest-color")
    belief: Literal["particles", "unseen"] = "particles"
    particles: int = 32
    model: str = "family"
    temperature: float = 0.0
    explore: float = 0.03
    max_steps: int = 192
    search: int = 48
    follow_search: bool = False
    search_weight: float = 0.0

    def __post_init__(self) -> None:
        check_options(self, "play.", "explore", is_share, "must be in [0, 1]")
        check_options(self, "play.", "temperature search search_weight", is_not_negative, "can't be negative")
        check_options(self, "play.", "particles max_steps", is_positive, "must be at least 1")
        as_rules(self.rules)
        parse_opponent(self.model)
        if not self.opponents:
            raise ValueError("play.opponents must name at least one")
        for name in filter(is_network, self.opponents):
            if name != PRETRAINED and not Path(name).is_file():
                names = f"{SELF!r} or one of {', '.join(POLICIES)}, {PRETRAINED!r} or a network's file"
                raise ValueError(f"play.opponents must be {names}, got {name!r}")
        if self.search_weight and not self.follow_search:
            raise ValueError("play.search_weight needs a search that is followed: --play.follow-search")
        if self.follow_search and not self.search:
            raise ValueError("play.follow_search needs a search: --play.search 8, for example")

    @property
    def game_rules(self) -> Rules:
        """The rules, without points."""
        return replace(as_rules(self.rules), points=False)

    @property
    def filter(self) -> ParticleFilter | None:
        """The particle filter of either player; None if any unseen card is as likely as another."""
        if self.belief == "unseen":
            return None
        max_plays = _MAX_PLAYS if self.game_rules.has_plain_steps else None
        return ParticleFilter(self.particles, parse_opponent(self.model), max_slots=_MAX_SLOTS, max_plays=max_plays)

    @property
    def opponent(self) -> Opponent | None:
        """What beliefs take the other player for; None without beliefs."""
        return None if self.filter is None else self.filter.opponent


def is_network(opponent: str) -> bool:
    """Tell whether an opponent is a network that stays as it is."""
    return opponent != SELF and opponent not in POLICIES
