"""A game board for notebooks: click a card and play against any agent.

    from unojax.widget import Board

    Board(opponent="linear", seed=0)

Needs the extra `notebook`: `pip install 'unojax[notebook]'`.
"""

from __future__ import annotations

try:
    import anywidget as _anywidget
except ImportError as error:
    raise ImportError("unojax.widget needs anywidget: pip install 'unojax[notebook]'") from error
del _anywidget

from unojax.widget.board import Board

__all__ = ["Board"]
