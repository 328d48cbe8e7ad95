"""Games of browser tabs against an agent.

A ValueError refuses a request in words for the person.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from unojax.board.game import DEFAULT_ADVISER, BoardGame
from unojax.decks import DECKS
from unojax.games.gamefile import GameFile
from unojax.rules import PRESETS, Rules, as_rules, field_types
from unojax.specs import choose_opponent, runs_code
from unojax.web.tabs import Send, Tab, Tabs, put_aside

_FIELDS: Final = "fields"
"""Marks the rules of a form as those of its fields instead of a preset."""


@dataclass(frozen=True)
class Defaults:
    """Settings of a first game, and the seconds before each of the opponent's moves is shown."""

    opponent: str | None = None
    seat: int = 0
    seed: int | None = None
    adviser: str = DEFAULT_ADVISER
    rules: Rules = Rules()
    pace: float = 0.8

    command: ClassVar = "play"

    def games(self, folder: Path, send: Send) -> Games:
        return Games(folder, self, send)


class TabGame(BoardGame, Tab):
    """Game of a tab."""

    def __init__(self, name: str, path: Path, send: Send, **options: Any):
        Tab.__init__(self, name, path, send)
        BoardGame.__init__(self, **options)

    def new_game(self, seed: int | None = None) -> None:
        """Deal again; set an unfinished game aside."""
        number, aside = self._number, self.put_aside_unfinished()
        try:
            super().new_game(seed)
        except Exception as error:
            if aside is None:
                raise
            if self._number == number:
                # Nothing was dealt.
                aside.replace(self._path)
                raise
            raise RuntimeError(f"{error}. {_where(aside)}") from error
        self.tell_of(aside)

    def put_aside_unfinished(self) -> Path | None:
        """Set aside the file of a game that will be replaced, if begun and not over."""
        is_begun = any(seen.is_mine for seen in self._session.seen)
        return put_aside(self._path) if is_begun and not self.is_over else None

    def tell_of(self, aside: Path | None) -> None:
        """Show where the game was set aside."""
        if aside is not None:
            self.tell(_where(aside))

    def greet(self) -> None:
        """Send a new page the form of a new game, and the last position."""
        self.send_choices()
        super().greet()

    def send_choices(self) -> None:
        """Send the page opponent, seat and rules for the form of a new game."""
        rules = self._rules
        choices = {
            "opponent": self._agent.name,
            "seat": str(self._seat),
            "preset": rules.name or _FIELDS,
            **asdict(rules),
            "deck": next((name for name, deck in DECKS.items() if deck == rules.deck), "same"),
        }
        self._send(self._name, {"kind": "choices", "choices": choices})


class Games(Tabs[TabGame]):
    """Games of all tabs."""

    def __init__(self, folder: Path, defaults: Defaults, send: Send):
        super().__init__(folder, send)
        self._defaults = defaults

    def begin(self, name: str) -> TabGame:
        defaults = self._defaults
        game = self.keep(name, self._new(name, defaults.opponent, defaults.seat, defaults.rules))
        game.begin(defaults.seed)
        return game

    def resume(self, name: str, saved: GameFile) -> TabGame:
        game = self._new_for(name, saved)
        game.resume(saved)
        return game

    def deal(self, name: str, choices: Any) -> None:
        if not isinstance(choices, dict):
            raise ValueError("choices must be an object")
        now = self.find(name)
        opponent = str(choices.get("opponent", "")).strip()
        if runs_code(opponent) and opponent != self._defaults.opponent:
            raise ValueError(
                f"start with an agent of your own on the command line: unojax play --web --opponent {shlex.quote(opponent)}"
            )
        seed = str(choices.get("seed", "")).strip()
        if seed and not (seed.isascii() and seed.isdigit() and int(seed) < 2**32):
            raise ValueError(f"the seed must be a whole number in [0, {2**32 - 1}], or nothing, got {seed!r}")
        seat = str(choices.get("seat", "0"))
        if seat not in ("0", "1"):
            raise ValueError(f"the seat must be 0 or 1, got {seat!r}")
        rules = read_rules(choices, now.rules)
        # The opponent of a first game may not support other rules.
        able = choose_opponent(None, rules) if opponent == choose_opponent(None, Rules()) else opponent
        game = self._new(name, able, int(seat), rules)
        self._replace(name, now, game, lambda: game.begin(int(seed) if seed else None))
        if able != opponent:
            self.find(name).tell(f"{opponent} does not know these rules, so {able} plays against you.")

    def load(self, name: str, saved: GameFile) -> None:
        now, game = self.find(name), self._new_for(name, saved)
        self._replace(name, now, game, lambda: game.resume(saved))

    def _replace(self, name: str, now: TabGame, game: TabGame, begin: Callable[[], None]) -> None:
        """Replace the current game by another one. If that can't begin, the current game is restored.

        The page shows a game from its deal on, before the opponent has moved.
        """
        game.number_from(now)
        aside = now.put_aside_unfinished()
        try:
            begin()
        except Exception:
            if aside is not None:
                aside.replace(self.path(name))
            now.restore()
            raise
        self.keep(name, game)
        game.send_choices()
        game.tell_of(aside)

    def _new_for(self, name: str, saved: GameFile) -> TabGame:
        """Return a tab for a saved game. Raises ValueError if its opponent is refused."""
        opponent = saved.opponent
        if runs_code(opponent) and opponent != self._defaults.opponent:
            raise ValueError(f"the game is against {opponent}: start unojax play --web --opponent {shlex.quote(opponent)}")
        return self._new(name, opponent, saved.seat, saved.rules)

    def _new(self, name: str, opponent: str | None, seat: int, rules: Rules) -> TabGame:
        options = {"opponent": opponent, "seat": seat, "rules": rules, "adviser": self._defaults.adviser}
        return TabGame(name, self.path(name), self._send, **options)


def _where(aside: Path) -> str:
    return f"The game before is unfinished: loading {str(aside)!r} continues it."


def read_rules(choices: dict[str, Any], now: Rules) -> Rules:
    """Read the rules of a form: a preset or its fields.

    Missing fields come from the present game, or from the defaults if that game uses a preset.
    """
    preset = choices.get("preset", _FIELDS)
    if preset != _FIELDS:
        if not isinstance(preset, str):
            raise ValueError(f"the rules must be one of {', '.join(PRESETS)}, got {preset!r}")
        return as_rules(preset)
    now = Rules() if now.name is not None else now
    deck, hand_size = choices.get("deck", "same"), choices.get("hand_size", now.hand_size)
    decks = DECKS | {"same": now.deck}
    if not isinstance(deck, str) or deck not in decks:
        raise ValueError(f"the deck must be one of {', '.join(decks)}, got {deck!r}")
    if not (isinstance(hand_size, int) or (isinstance(hand_size, str) and hand_size.isascii() and hand_size.isdigit())):
        raise ValueError(f"the number of cards dealt must be a whole number, got {hand_size!r}")
    named = {name: choices[name] for name in field_types() if name in choices}
    return replace(now, **named | {"deck": decks[deck], "hand_size": int(hand_size)})
