"""The interface between a board and the page that shows it."""

from __future__ import annotations

from typing import Any


class Face:
    """Way from a board to its page; a widget and a tab each have their own.

    The methods raise NotImplementedError because the widget's metaclass excludes that of `abc`.
    """

    def publish(self, state: dict[str, Any]) -> None:
        """Send the page its data, see `unojax.board.page`."""
        raise NotImplementedError(f"{type(self).__name__} must define publish")

    def send_words(self, content: dict[str, Any]) -> None:
        """Send the page a message."""
        raise NotImplementedError(f"{type(self).__name__} must define send_words")

    def tell(self, words: str) -> None:
        """Show a message beside the table."""
        self.send_words({"kind": "notice", "text": words})
