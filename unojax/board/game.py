"""A game on a board, independent of its display."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from jax import Array

from unojax import cards, text
from unojax.agents import Memory
from unojax.board import page
from unojax.board.face import Face
from unojax.decks import is_int
from unojax.game import State
from unojax.games.advisor import Advisor, WinEstimate
from unojax.games.gamefile import GameFile, write_game
from unojax.games.session import Session, advice_key
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search import ADVISER_MODEL
from unojax.search.agents import SearchAgent
from unojax.specs import choose_opponent, parse_agent

DEFAULT_ADVISER: Final = f"mc:rollouts=500,model={ADVISER_MODEL}"
_GAMES: Final = 1000
"""Rollouts for a win probability: a standard error of at most 0.016, in some milliseconds."""
_WIN_NOTE: Final = "Share of {games:,} games won if from here {going_on}; what the opponent holds is drawn from the belief"


class BoardGame(Face):
    """Games of a person against an agent, one after the other, for a page."""

    def __init__(
        self,
        opponent: str | None = None,
        *,
        seat: Literal[0, 1] = 0,
        rules: Rules | None = None,
        adviser: str = DEFAULT_ADVISER,
        show_belief: bool = True,
        show_win_probability: bool = True,
    ):
        """Prepare for games; arguments as of `unojax.widget.Board`, or ValueError."""
        if not (is_int(seat) and seat in (0, 1)):
            raise ValueError(f"seat must be 0 or 1, got {seat!r}")
        rules = rules or Rules()
        self._rules, self._seat = rules, int(seat)
        self._shows_belief, self._shows_win_probability = show_belief, show_win_probability
        self._agent = parse_agent(choose_opponent(opponent, rules), rules=rules)
        search = parse_agent(adviser, rules=rules)
        if not isinstance(search, SearchAgent) or search.rollouts.guide is not None:
            raise ValueError(f"adviser must be a flat Monte Carlo search, mc, got {adviser!r}")
        self._search = search
        # The opponent's memory of earlier games, and the inferred opponent type.
        self._last: Memory | None = None
        self._log_types: Array | None = None
        # The first look compiles for a while, so it waits for a page.
        self._is_watched = False
        # The opponent is to move but raised an error.
        self._is_stuck = False

    def begin(self, seed: int | None = None, start: State | None = None) -> None:
        """Deal, or begin at a position. Raises ValueError if the seed is out of range."""
        number = secrets.randbelow(2**32) if seed is None else seed
        if not (is_int(number) and 0 <= number < 2**32):
            raise ValueError(f"seed must be in [0, {2**32 - 1}] or None, got {seed!r}")
        self._take_up(Session(self._agent, seat=self._seat, seed=number, rules=self._rules, start=start, last=self._last))

    def resume(self, saved: GameFile) -> None:
        """Continue a saved game. Raises ValueError if it can't continue."""
        self._take_up(Session.resume(saved, self._agent, last=self._last))

    def number_from(self, other: BoardGame) -> None:
        """Continue the game numbers and the watching state of the board that this one replaces."""
        self._number, self._is_watched = other._number, other._is_watched

    @property
    def rules(self) -> Rules:
        """Rules of the games."""
        return self._rules

    def new_game(self, seed: int | None = None) -> None:
        """Deal again, without a seed another game; inferences carry over."""
        # An agent that failed remembers nothing.
        self._last = None if self._is_stuck else self._session.memory
        self._log_types = self._advisor.learned(self.views)
        self.begin(seed)

    def take_back(self) -> None:
        """Return to the person's last choice; the same moves draw the same cards again."""
        if not self._session.take_back():
            return self.tell("There is nothing to take back.")
        self._forget_wins(self.turn + 1)
        return self._advance()

    def play(self, action: str | int) -> None:
        """Play for the person, as a click would; the opponent answers.

        Args:
            action: Text for `unojax.parse_action` ("R5", "W:B", "draw", which is a pass after a draw), or the action's number.

        Raises:
            ValueError: If it is not the person's turn, or the action is illegal.
        """
        number = text.parse_action(action) if isinstance(action, str) else action
        session = self._session
        num_actions = session.rules.num_actions
        if not (is_int(number) and 0 <= number < num_actions):
            raise ValueError(f"action must be in [0, {num_actions - 1}] or its text, got {action!r}")
        if not self.legal_mask[number]:
            raise ValueError(page.refusal(session, number))
        session.play(int(number))
        self._advance()

    def show_hint(self) -> None:
        """Mark the advised play, with each card's win probability. Raises ValueError out of turn."""
        session = self._session
        if session.is_over or not session.is_my_turn:
            raise ValueError(page.refusal(session, cards.DRAW))
        thought = self._advisor.advise(self.views)
        if thought is None:
            # A single legal play has no probability, and a forced draw no hint.
            only = int(session.legal.argmax())
            self._hint = {} if only == cards.DRAW else page.hint(only, {})
        else:
            tried = np.flatnonzero(thought.tried).tolist() if self._search.says_wins else ()
            self._hint = page.hint(int(thought.advised), {action: float(thought.estimate.win[action]) for action in tried})
        self._show_position()

    @property
    def observation(self) -> Observation:
        """Return the person's current observation, as NumPy."""
        return self._session.view

    @property
    def legal_mask(self) -> np.ndarray:
        """Return the person's legal actions, bool[num_actions]; all False out of turn."""
        session = self._session
        return session.legal if session.is_my_turn and not session.is_over else np.zeros(session.rules.num_actions, bool)

    @property
    def is_over(self) -> bool:
        """Return True if the game is won, drawn or cut off."""
        return self._session.is_over

    @property
    def win_estimate(self) -> WinEstimate | None:
        """Return win probability and belief; None before the first page or `look`."""
        return self._win_estimate

    @property
    def record(self) -> GameFile:
        """Return the game so far with all cards."""
        return self._session.record

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `record` to a file, for `unojax replay`. Raises OSError if it can't be written."""
        write_game(path, self.record)

    def look(self) -> WinEstimate | None:
        """Compute win probability and belief now and after each move; None if neither is shown."""
        self._is_watched = True
        if not (self._shows_belief or self._shows_win_probability):
            return None
        session = self._session
        told = self._advisor.win_estimate(self.views, num_games=_GAMES)
        if session.is_over:
            won = 0.5 if session.winner < 0 else float(session.winner == self._seat)
            told = told._replace(win_probability=np.float32(won), win_error=np.float32(0))
        self._win_estimate = told
        self._note_win(float(told.win_probability))
        self._show_position()
        return told

    def _take_up(self, session: Session) -> None:
        """Show a game, and let the opponent move if it is to move."""
        self._session, steps_before = session, int(session.start.step_count)
        self._advisor = Advisor(self._search, advice_key(session.seed), log_types=self._log_types, steps_before=steps_before)
        self._win_estimate: WinEstimate | None = None
        self._hint: dict[str, Any] = {}
        self._next_number()
        self._advance()

    def _advance(self) -> None:
        """Let the opponent move until the person's turn; if it fails, show that and raise."""
        self._is_stuck = False
        try:
            self._play_on()
        except Exception:
            self._is_stuck = True
            self._show_position()
            raise

    def _play_on(self) -> None:
        session = self._session
        while True:
            self._hint, self._win_estimate = {}, None
            self._show_position()
            if self._is_watched:
                self.look()
            if session.is_over or session.is_my_turn:
                break
            session.play(session.reply())

    def _show_position(self) -> None:
        session, looked = self._session, self._win_estimate
        found = {} if looked is None else page.win_data(looked, page.opened_types(session))
        going_on = self._search.whom_rollouts_follow
        self._show(
            page.board_state(session)
            | {
                "belief": found.get("belief") if self._shows_belief else None,
                "win": found.get("win") if self._shows_win_probability else None,
                "wins": self._wins if self._shows_win_probability else [],
                "canTakeBack": any(seen.is_mine for seen in session.seen),
                "isStuck": self._is_stuck,
                "showsBelief": self._shows_belief,
                "showsWin": self._shows_win_probability,
                "winNote": _WIN_NOTE.format(games=_GAMES, going_on=going_on),
                "hint": self._hint,
                "record": self.record.to_json() if session.is_over else None,
            }
        )

    def hear(self, content: Any) -> None:
        """Answer a new page or a click in it."""
        kind = content.get("kind") if isinstance(content, dict) else None
        try:
            if kind == "shown":
                if self._win_estimate is None:
                    self.look()
                    self._session.warm()
                    if self._shows_win_probability:
                        self._advisor.warm(self.views[0])
            elif kind == "new":
                self.new_game()
            elif kind in page.CLICKS and not self._is_late(content):
                if kind == "hint":
                    self.show_hint()
                elif kind == "back":
                    self.take_back()
                else:
                    self._click(content)
        except Exception as error:
            # Jupyter only logs errors raised here.
            self.tell(f"This went wrong in Python: {error}")
            raise

    def _click(self, content: Any) -> None:
        """Play the clicked action, or explain the refusal."""
        session = self._session
        try:
            action = page.read_click(content)
        except ValueError as error:
            return self.tell(str(error))
        if not self.legal_mask[action : action + 1].any():
            return self.tell(page.refusal(session, action))
        return self.play(action)

    @property
    def views(self) -> list[Observation]:
        """Return the person's observations, from the start on."""
        return self._session.views

    @property
    def positions(self) -> Sequence[State] | Sequence[Observation]:
        """Return the person's views, and once the game is over the positions with all cards."""
        return self._session.replay().states if self.is_over else self.views

    @property
    def turn(self) -> int:
        """Number of actions so far."""
        return len(self._session.steps)
