"""New or resumed games of a person against an agent."""

from __future__ import annotations

from dataclasses import dataclass

from unojax.agents import Agent, Memory
from unojax.games.gamefile import PERSON, GameFile
from unojax.games.session import Session
from unojax.rules import Rules
from unojax.text import format_position


@dataclass(frozen=True)
class Setup:
    """A game to play: opponent's spec, person's seat, seed, rules, and the past if resumed."""

    opponent: str
    seat: int
    seed: int
    rules: Rules
    past: GameFile | None = None

    @classmethod
    def of(cls, game: GameFile) -> Setup:
        """Resume a saved game of a person against an agent.

        Raises:
            ValueError: If it is another game, or has no seed.
        """
        if game.seed is None or game.players.count(PERSON) != 1:
            raise ValueError("it is no game of a person against an agent, with a seed")
        seat = game.players.index(PERSON)
        return cls(game.players[1 - seat], seat, game.seed, game.rules, game)

    @property
    def rematch(self) -> Setup:
        """Same opponent and rules with swapped seats and the next seed."""
        return Setup(self.opponent, 1 - self.seat, (self.seed + 1) % 2**32, self.rules)

    def start(self, agent: Agent, last: Memory | None = None) -> Session:
        """Deal, and replay the past; `last` as in `Session`.

        Raises:
            ValueError: If the past does not follow from the seed: an action is impossible, or a draw differs.
        """
        session = Session(agent, seat=self.seat, seed=self.seed, rules=self.rules, last=last)
        if self.past is not None:
            # The same seed and actions draw the same cards and give the agent the same memory.
            past = self.past.replay()
            if format_position(session.start) == self.past.start:
                for step in past.steps:
                    session.play(step.action)
            if format_position(session.replay().end) != self.past.end:
                raise ValueError("the deal and the draws of the saved game are not those of its seed, so it can't continue")
        return session

    def players(self, agent: Agent) -> tuple[str, str]:
        """Return the players by seat, as in a saved game."""
        return (PERSON, agent.name) if self.seat == 0 else (agent.name, PERSON)
