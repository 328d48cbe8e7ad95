"""Games of a person against an agent, to be dealt or to be gone on with: `Setup`. Host only."""

from __future__ import annotations

from dataclasses import dataclass

from unojax.agents import Agent, Memory
from unojax.games.gamefile import PERSON, GameFile
from unojax.games.session import Session
from unojax.rules import Rules
from unojax.text import format_position


@dataclass(frozen=True)
class Setup:
    """A game to be played: the opponent's spec, the person's seat, the seed, the rules, and the past, if there is one."""

    opponent: str
    seat: int
    seed: int
    rules: Rules
    past: GameFile | None = None

    @classmethod
    def of(cls, game: GameFile) -> Setup:
        """Take a saved game up. Raises ValueError where it is no game of a person against an agent, or has no seed."""
        if game.seed is None or game.players.count(PERSON) != 1:
            raise ValueError("it is no game of a person against an agent, with a seed")
        seat = game.players.index(PERSON)
        return cls(game.players[1 - seat], seat, game.seed, game.rules, game)

    @property
    def rematch(self) -> Setup:
        """The same opponent and rules, the seats swapped, the next seed."""
        return Setup(self.opponent, 1 - self.seat, (self.seed + 1) % 2**32, self.rules)

    def start(self, agent: Agent, last: Memory | None = None) -> Session:
        """Deal, and play the past again. `last` is the agent's memory of the last game, as in `Session`.

        Raises:
            ValueError: the past does not follow from the seed: its actions are impossible, or their draws others.
        """
        session = Session(agent, seat=self.seat, seed=self.seed, rules=self.rules, last=last)
        if self.past is not None:
            # With the same seed and the same actions the same cards are drawn, and the agent remembers the same.
            past = self.past.replay()
            if format_position(session.start) == self.past.start:
                for step in past.steps:
                    session.play(step.action)
            if format_position(session.replay().end) != self.past.end:
                raise ValueError("the deal and the draws of the saved game are not those of its seed, so it can't go on")
        return session

    def players(self, agent: Agent) -> tuple[str, str]:
        """Name who sits where, as a saved game does."""
        return (PERSON, agent.name) if self.seat == 0 else (agent.name, PERSON)
