"""Boards without a page: the messages to a page, and its clicks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

from comm.base_comm import BaseComm

from unojax import Rules, parse_position
from unojax.decks import parse_deck
from unojax.widget import Board

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)
QUIET = {"opponent": "uniform", "rules": RULES, "show_belief": False, "show_win_probability": False}
"""A game without the parts that take long to compile."""
# Without the particle filter and the linear policy, which take long to compile.
ADVISER = "mc:rollouts=32,belief=unseen,policy=uniform"
MY_TURN = "R0,R2,Y1,W,W+4/Y0,Y2/-/* R3 0 0 0 - *"
"""Player 0 can play R0, R2, W and W+4 on R3."""


class Comm(BaseComm):
    """The channel between a Jupyter kernel and a widget; keeps the widget's messages.

    They are JSON of the Jupyter widget protocol: the first has the whole state, later ones its changes.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self.sent: list[dict[str, Any]] = []
        super().__init__(*args, **kwargs)

    def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any) -> None:
        """Called by the widget for every message."""
        del msg_type, metadata, keys
        assert not buffers, "every message of a board is JSON"
        # A copy through JSON, as a page gets it: later changes of the objects do not show.
        self.sent.append(json.loads(json.dumps(data)))

    def receive(self, data: dict[str, Any]) -> None:
        self.handle_msg({"content": {"data": data}, "buffers": []})

    def click(self, **content: Any) -> None:
        """Receive a click about the last sent position, unless it names another."""
        place = {name: self.states[-1][name] for name in ("game", "turn")}
        self.receive({"method": "custom", "content": place | content})

    @property
    def states(self) -> list[dict[str, Any]]:
        """Return data of the page, in order."""
        return [state for data in self.sent if (state := data.get("state", {}).get("state"))]

    @property
    def notices(self) -> list[str]:
        """Return messages to the person."""
        return [data["content"]["text"] for data in self.sent if data.get("method") == "custom"]


def make(new: Callable[[], Board], channel: type[Comm] = Comm) -> tuple[Board, Any]:
    """Return a board and its channel."""
    with mock.patch("comm.create_comm", channel):
        board = new()
    assert isinstance(board.comm, channel)
    return board, board.comm


def board_at(position: str, **options) -> tuple[Board, Comm]:
    """Return a quiet board at a position, and its channel."""
    return make(lambda: Board(**(QUIET | {"seed": 0, "start": parse_position(position, rules=RULES)} | options)))
