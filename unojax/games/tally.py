"""Score of a match between a person and an agent, over a game and its rematches."""

from __future__ import annotations

from dataclasses import dataclass

from unojax.games.session import Session
from unojax.rules import MATCH_POINTS


@dataclass(frozen=True)
class Tally:
    """Games and points so far, the person's first.

    Attributes:
        games: Games won by each. A drawn or truncated game counts for neither.
        points: Points in the current match to `MATCH_POINTS`; 0 under rules without points.
        matches: Matches won by each. The points restart at 0 after a match.
    """

    games: tuple[int, int] = (0, 0)
    points: tuple[int, int] = (0, 0)
    matches: tuple[int, int] = (0, 0)

    def after(self, session: Session) -> Tally:
        """Return the tally with a finished game added."""
        if session.winner < 0:
            return self
        won = session.winner == session.seat
        start = (0, 0) if max(self.points) >= MATCH_POINTS else self.points
        points = _add(start, won, session.card_points if session.rules.points else 0)
        return Tally(
            games=_add(self.games, won, 1),
            points=points,
            matches=_add(self.matches, won, int(max(points) >= MATCH_POINTS)),
        )


def _add(pair: tuple[int, int], to_person: bool, amount: int) -> tuple[int, int]:
    mine, theirs = pair
    return (mine + amount, theirs) if to_person else (mine, theirs + amount)
