"""A game or a table on a page, whatever brings it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unojax.board import page
from unojax.game import State
from unojax.games.gamefile import GameFile
from unojax.observation import Observation


class Face:
    """A game or a table on a page: its numbers, its clicks, and the win probabilities so far.

    A widget and a tab each have their own `publish` and `send_words`. Abstract methods raise NotImplementedError because the
    widget's metaclass excludes that of `abc`.
    """

    _number = 0
    """Number of the game on its page, from 1."""

    def publish(self, state: dict[str, Any]) -> None:
        """Send the page its data, see `unojax.board.page.BLANK`."""
        raise NotImplementedError(f"{type(self).__name__} must define publish")

    def send_words(self, content: dict[str, Any]) -> None:
        """Send the page a message."""
        raise NotImplementedError(f"{type(self).__name__} must define send_words")

    def tell(self, words: str) -> None:
        """Show a message beside the table."""
        self.send_words({"kind": "notice", "text": words})

    def hear(self, content: Any) -> None:
        """Answer a new page or a click in it."""
        raise NotImplementedError(f"{type(self).__name__} must define hear")

    @property
    def turn(self) -> int:
        """Number of actions so far."""
        raise NotImplementedError(f"{type(self).__name__} must define turn")

    @property
    def record(self) -> GameFile:
        """Return the game so far, as it is saved. Raises ValueError if there is none yet."""
        raise NotImplementedError(f"{type(self).__name__} must define record")

    @property
    def positions(self) -> Sequence[State] | Sequence[Observation]:
        """Return the positions that the person may see: the own views, and once a game is over all cards."""
        raise NotImplementedError(f"{type(self).__name__} must define positions")

    def _next_number(self) -> None:
        """Begin the curve of another game."""
        self._number += 1
        self._wins: list[tuple[int, float]] = []

    def _show(self, data: dict[str, Any]) -> None:
        """Send the page the data of a position, with the game's numbers."""
        self.publish(page.BLANK | {"game": self._number, "turn": self.turn} | data)

    def _is_late(self, click: dict[str, Any]) -> bool:
        """Return whether a click refers to an earlier position, as a late or repeated one does."""
        return (click.get("game"), click.get("turn")) != (self._number, self.turn)

    def _note_win(self, probability: float) -> None:
        """Add the win probability of this turn to the curve."""
        if not self._wins or self._wins[-1][0] < self.turn:
            self._wins.append((self.turn, round(float(probability), 4)))

    def _forget_wins(self, first: int) -> None:
        """Remove the win probabilities from a turn on."""
        self._wins = [(turn, win) for turn, win in self._wins if turn < first]
