"""Widget around a person's game, `unojax.games.session.Session`. Rules and thinking stay in Python; the page draws and clicks."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any, Final, Literal

import anywidget
import numpy as np
import traitlets

from unojax import cards, text
from unojax.game import State
from unojax.games.adviser import Adviser, Outlook
from unojax.games.gamefile import PERSON, GameFile, write_game
from unojax.games.session import Session
from unojax.observation import Observation
from unojax.rules import Rules, agreed_rules, is_int
from unojax.search.agents import SearchAgent
from unojax.specs import DEFAULT_OPPONENT, parse_agent
from unojax.viz import position_svg
from unojax.widget import page

_GAMES: Final = 1000
"""Games played out for a win probability: a standard error of at most 0.016, in some milliseconds."""
_WIN_NOTE: Final = (
    "Share of {games:,} games won if from here both play as the policy {policy}; what the opponent holds is drawn from the belief"
)


class Board(anywidget.AnyWidget):
    """Game of UNO against an agent, to be played by clicks in a notebook.

    Beside the table: how likely the person is to win, and what the opponent may hold, both from what the person saw. The page
    never gets a hidden card before the game is over.

        board = Board(opponent="mc:rollouts=200", seed=3)
        board                      # the last value of a cell: shows itself
        board.save("game.json")    # for `unojax replay`
    """

    _esm = Path(__file__).with_name("board.js")
    _css = page.style()

    state = traitlets.Dict().tag(sync=True)
    """Data that the page draws; see `unojax.widget.page`."""
    faces = traitlets.Dict().tag(sync=True)
    """Drawings of cards and colours."""
    theme = traitlets.Enum(("auto", "light", "dark"), "auto").tag(sync=True)
    """Theme of the page; "auto" follows the notebook."""
    pace = traitlets.Float(0.8, min=0.0, max=10.0).tag(sync=True)
    """Seconds before each of the opponent's moves is shown."""

    def __init__(
        self,
        opponent: str = DEFAULT_OPPONENT,
        *,
        seat: Literal[0, 1] = 0,
        seed: int | None = None,
        rules: Rules | None = None,
        start: State | None = None,
        adviser: str = "mc:rollouts=500",
        show_belief: bool = True,
        show_win_probability: bool = True,
        theme: Literal["auto", "light", "dark"] = "auto",
        pace: float = 0.8,
    ):
        """Deal a game.

        Args:
            opponent: the spec of an agent, see `unojax.specs`.
            seat: the person's; player 0 moves first, unless the rules draw lots.
            seed: the same seed and moves give the same game; None: another one each time.
            rules: of the game; None: those of `start`, or the default ones.
            start: begin with this position instead of a deal; only the first game does.
            adviser: the flat Monte Carlo search that knows what the person saw, as the spec of an agent: its belief is drawn, its
                rollout policies play for the win probability, and it gives the hints.
            show_belief: draw how likely the opponent is to hold each card.
            show_win_probability: show how likely the person is to win; hints too.
            theme: of the page; "auto" follows the notebook.
            pace: seconds before each of the opponent's moves is shown.

        Raises:
            ValueError: an argument is out of its range, or `start` is under other rules.
        """
        if not (is_int(seat) and seat in (0, 1)):
            raise ValueError(f"seat must be 0 or 1, got {seat!r}")
        if theme not in ("auto", "light", "dark"):
            raise ValueError(f"theme must be 'auto', 'light' or 'dark', got {theme!r}")
        if not 0 <= pace <= 10:
            raise ValueError(f"pace must be in [0, 10] seconds, got {pace!r}")
        rules = agreed_rules(start.rules, rules) if start is not None else rules or Rules()
        self._rules, self._seat = rules, int(seat)
        self._shows_belief, self._shows_win_probability = show_belief, show_win_probability
        self._agent = parse_agent(opponent, rules=rules)
        search = parse_agent(adviser, rules=rules)
        if not isinstance(search, SearchAgent) or search.search.tree is not None:
            raise ValueError(f"adviser must be a flat Monte Carlo search, mc, got {adviser!r}")
        self._search = search
        # A discount or a price of steps is in the values of the plays too.
        self._says_wins = search.search.discount == 1 and not rules.step_penalty
        self._number = 0
        # A look takes a while to compile at first: it waits until there is someone to see it.
        self._is_watched = False
        super().__init__(faces=page.faces(), theme=theme, pace=pace)
        self.on_msg(self._on_message)
        self._deal(seed, start)
        self._advance()

    def new_game(self, seed: int | None = None) -> None:
        """Deal again, without a seed another game each time; what was played is lost unless it was saved."""
        self._deal(seed, None)
        self._advance()

    def play(self, action: str | int) -> None:
        """Play for the person, as a click would; the opponent answers.

        Args:
            action: as `unojax.parse_action` reads it ("R5", "W:B", "draw"), or its number 0..60.

        Raises:
            ValueError: it is not the person's turn, or the action is not legal.
        """
        number = text.parse_action(action) if isinstance(action, str) else action
        if not (is_int(number) and 0 <= number < cards.NUM_ACTIONS):
            raise ValueError(f"action must be in [0, {cards.NUM_ACTIONS - 1}] or its text, got {action!r}")
        session = self._session
        if session.is_over or not session.is_my_turn or not session.legal[number]:
            raise ValueError(page.refusal(session, number))
        session.play(int(number))
        self._advance()

    def show_hint(self) -> None:
        """Mark the play that a search advises, and say how likely each card is to win. Raises ValueError out of turn."""
        session = self._session
        if session.is_over or not session.is_my_turn:
            raise ValueError(page.refusal(session, cards.DRAW))
        self._hint = page.hint(self._adviser.advise(self._first_view, session.seen), session, says_wins=self._says_wins)
        self._show()

    @property
    def observation(self) -> Observation:
        """View of the person now, as NumPy."""
        return self._session.view

    @property
    def legal_mask(self) -> np.ndarray:
        """bool[61]: legal actions of the person; none while it is not the person's turn."""
        session = self._session
        return session.legal if session.is_my_turn and not session.is_over else np.zeros(cards.NUM_ACTIONS, bool)

    @property
    def is_over(self) -> bool:
        """The game is won, drawn or cut off."""
        return self._session.is_over

    @property
    def outlook(self) -> Outlook | None:
        """Win probability and belief beside the table; None before there is a page, or a `look`."""
        return self._outlook

    @property
    def record(self) -> GameFile:
        """Game so far with all its cards, the opponent's too."""
        players = (PERSON, self._agent.name) if self._seat == 0 else (self._agent.name, PERSON)
        return GameFile.of(self._session.replay(), players=players, seed=self._seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `record` to a file, for `unojax replay`; an unfinished game too. Raises OSError where it can't be written."""
        write_game(path, self.record)

    def look(self) -> Outlook | None:
        """Bring win probability and belief up to date, now and from now on, as the page does when it appears; None if neither is
        shown."""
        self._is_watched = True
        if not (self._shows_belief or self._shows_win_probability):
            return None
        session = self._session
        told = self._adviser.outlook(self._first_view, session.seen, num_games=_GAMES)
        if session.is_over:
            won = 0.5 if session.winner < 0 else float(session.winner == self._seat)
            told = told._replace(win_probability=np.float32(won), win_error=np.float32(0))
        self._outlook = told
        if not self._wins or self._wins[-1][0] < len(session.seen):
            self._wins.append((len(session.seen), round(float(told.win_probability), 4)))
        self._show()
        return told

    def _deal(self, seed: int | None, start: State | None) -> None:
        number = secrets.randbelow(2**32) if seed is None else seed
        if not (is_int(number) and 0 <= number < 2**32):
            raise ValueError(f"seed must be in [0, {2**32 - 1}] or None, got {seed!r}")
        self._session, self._seed = Session(self._agent, seat=self._seat, seed=number, rules=self._rules, start=start), number
        self._session.warm()
        self._first_view = self._session.view
        self._adviser = Adviser(self._search, seed=self._seed)
        self._outlook: Outlook | None = None
        self._wins: list[tuple[int, float]] = []
        self._hint: dict[str, Any] = {}
        self._number += 1

    def _advance(self) -> None:
        """Show the position, and let the opponent move until it is the person's turn."""
        session = self._session
        while True:
            self._hint, self._outlook = {}, None
            self._show()
            if self._is_watched:
                self.look()
            if session.is_over or session.is_my_turn:
                break
            session.play(session.reply())

    def _show(self) -> None:
        """Send the page its data."""
        session = self._session
        told = page.outlook_data(self._outlook, session)
        self.state = page.board_state(session, self._agent.name) | {
            "game": self._number,
            "belief": told["belief"] if told and self._shows_belief else None,
            "win": {"now": told["win"], "error": told["error"]} if told and self._shows_win_probability else None,
            "wins": self._wins if self._shows_win_probability else [],
            "showsBelief": self._shows_belief,
            "showsWin": self._shows_win_probability,
            "winNote": _WIN_NOTE.format(games=_GAMES, policy=self._search.policies[0].name),
            "hint": self._hint,
            "record": self.record.to_json() if session.is_over else None,
        }

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:
        """Answer a page that has appeared, or a click in it."""
        del buffers
        kind = content.get("kind") if isinstance(content, dict) else None
        try:
            if kind == "shown":
                if self._outlook is None and self.look() is not None:
                    self._adviser.warm(self._first_view)
            elif kind == "new":
                self.new_game()
            # A click that comes late, or twice, is about a position that is no more.
            elif kind in ("play", "draw", "hint") and (content.get("game"), content.get("turn")) == self._place:
                if kind == "hint":
                    self.show_hint()
                else:
                    self._click(content)
        except Exception as error:
            # Jupyter only logs what is raised here.
            self._tell(f"This went wrong in Python: {error}")
            raise

    def _click(self, content: Any) -> None:
        """Play what was clicked, or say why not."""
        session = self._session
        try:
            action = page.read_click(content)
        except ValueError as error:
            return self._tell(str(error))
        if session.is_over or not session.is_my_turn or not session.legal[action]:
            return self._tell(page.refusal(session, action))
        return self.play(action)

    def _tell(self, words: str) -> None:
        self.send({"kind": "notice", "text": words})

    @property
    def _place(self) -> tuple[int, int]:
        """Number of the game on this board, and of the turn in it."""
        return self._number, len(self._session.seen)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the widget; where none can be shown, such as in a saved notebook, the position as a picture."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return data | {"image/svg+xml": str(position_svg(self._session.view))}, metadata
