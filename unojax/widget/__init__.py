"""A game board for notebooks: click a card and play against any agent.

    from unojax.widget import Board

    Board(opponent="linear", seed=0)

Needs the extra `notebook`: `pip install 'unojax[notebook]'`.
"""

from __future__ import annotations

try:
    from unojax.widget.board import Board
except ModuleNotFoundError as error:
    if error.name != "anywidget":
        raise
    raise ModuleNotFoundError("unojax.widget needs anywidget: pip install 'unojax[notebook]'", name=error.name) from error

__all__ = ["Board"]
