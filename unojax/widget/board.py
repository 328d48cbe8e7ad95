"""The board as a widget."""

from __future__ import annotations

from typing import Any, Literal

import anywidget
import traitlets

from unojax.board import page
from unojax.board.game import DEFAULT_ADVISER, BoardGame
from unojax.game import State
from unojax.rules import Rules, agreed_rules, as_rules
from unojax.viz import position_svg


class Board(BoardGame, anywidget.AnyWidget):
    """Game of UNO against an agent, played by clicks in a notebook.

    Beside the table are the person's win probability and the belief over the opponent's hand. The page receives no hidden card
    before the end of the game.

        board = Board(opponent="mc:rollouts=200", seed=3)
        board                      # the last value of a cell: shows itself
        board.save("game.json")    # for `unojax replay`
    """

    _esm = page.script()
    _css = page.style()

    state = traitlets.Dict().tag(sync=True)
    """Data that the page draws; see `unojax.board.page`."""
    faces = traitlets.Dict().tag(sync=True)
    """Drawings of cards and colours."""
    theme = traitlets.Enum(("auto", "light", "dark"), "auto").tag(sync=True)
    """Theme of the page; "auto" follows the notebook."""
    pace = traitlets.Float(0.8, min=0.0, max=10.0).tag(sync=True)
    """Seconds before each of the opponent's moves is shown."""

    def __init__(
        self,
        opponent: str | None = None,
        *,
        seat: Literal[0, 1] = 0,
        seed: int | None = None,
        rules: Rules | str | None = None,
        start: State | None = None,
        adviser: str = DEFAULT_ADVISER,
        show_belief: bool = True,
        show_win_probability: bool = True,
        theme: Literal["auto", "light", "dark"] = "auto",
        pace: float = 0.8,
    ):
        """Deal a game.

        Args:
            opponent: Spec of an agent, see `unojax.specs`. None: `value`, or a search if its network does not support the rules.
            seat: Seat of the person. Player 0 moves first, unless the rules choose at random or a start card skips the turn.
            seed: Random seed: the same seed and moves give the same game. None: another game each time.
            rules: Rules of the game, or a preset ("official", "house", "rlcard"). None: those of `start`, or the default ones.
            start: Initial position of the first game, instead of a deal.
            adviser: Spec of a flat Monte Carlo search for belief, win probability and hints.
            show_belief: Draws the probability that the opponent holds each card.
            show_win_probability: Shows the person's win probability, also in hints.
            theme: Theme of the page; "auto" follows the notebook.
            pace: Seconds before each of the opponent's moves is shown.

        Raises:
            ValueError: If an argument is out of range, or `start` has other rules.
        """
        if theme not in ("auto", "light", "dark"):
            raise ValueError(f"theme must be 'auto', 'light' or 'dark', got {theme!r}")
        if not 0 <= pace <= 10:
            raise ValueError(f"pace must be in [0, 10] seconds, got {pace!r}")
        rules = None if rules is None else as_rules(rules)
        rules = agreed_rules(start.rules, rules) if start is not None else rules or Rules()
        BoardGame.__init__(
            self,
            opponent,
            seat=seat,
            rules=rules,
            adviser=adviser,
            show_belief=show_belief,
            show_win_probability=show_win_probability,
        )
        anywidget.AnyWidget.__init__(self, faces=page.faces(), theme=theme, pace=pace)
        self.on_msg(lambda _, content, buffers: self.hear(content))
        self.begin(seed, start)

    def publish(self, state: dict[str, Any]) -> None:
        """Send the page its data, numbered.

        Traitlets drops unchanged values, and a second hint may equal the first.
        """
        self.state = state | {"sent": self.state.get("sent", 0) + 1}

    def send_words(self, content: dict[str, Any]) -> None:
        self.send(content)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the widget, or a picture of the position if no widget can be shown."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return data | {"image/svg+xml": str(position_svg(self._session.view))}, metadata
