"""Saved games, sufficient to replay and verify a game.

The file is a JSON object with one line for each of its fields:

    format          "unojax game 1"
    rules_version   `unojax.rules.RULES_VERSION` of the program that played
    rules           the fields of `unojax.Rules`; a missing one has its default
    players         the players at seat 0 and at seat 1: "person", or the spec of an agent (`unojax.specs`)
    seed            of the game; null if there was none
    start           the first position (`unojax.format_position`), or one player's first view (`unojax.text.format_view`)
    actions         list of actions (`unojax.parse_action`), draws with the cards drawn, "R5", "W:B", "draw(G3,W)"; for one
                    player's view, list of events (`unojax.games.events`)
    end             the last position
    result          "*" unfinished, "0" or "1" the winner, "=" drawn, "T" truncated by the rules' max_steps
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import jax

from unojax.decks import is_int
from unojax.files import is_special, read_text, write_whole
from unojax.games.replay import Replay, replay
from unojax.games.seen import SeenGame, read_seen, shows_one_hand
from unojax.rules import RULES_VERSION, Rules
from unojax.text import format_position, format_view, parse_position

FORMAT: Final = "unojax game 1"
PERSON: Final = "person"
_FIRST_RULES: Final = ("skip_forfeits", "start_card", "hand_size", "deck", "first_player", "max_steps", "step_penalty")
"""Fields of `Rules` that every file names."""
_FIELDS: Final = ("format", "rules_version", "rules", "players", "seed", "start", "actions", "end", "result")


@dataclass(frozen=True)
class GameFile:
    """The record of a game; the module describes its fields."""

    players: tuple[str, str]
    seed: int | None
    rules: Rules
    start: str
    actions: tuple[str, ...]
    end: str

    @classmethod
    def of(cls, game: Replay | SeenGame, *, players: tuple[str, str], seed: int | None) -> GameFile:
        """Record a game, or one player's view of it, finished or not."""
        if isinstance(game, SeenGame):
            actions = tuple(map(str, game.events))
            start, end = format_view(game.start, steps=game.steps_before), format_view(game.end, steps=game.num_steps)
        else:
            actions = tuple(step.notation(with_cards=True) for step in game.steps)
            start, end = format_position(game.start), format_position(game.end)
        return cls(players, None if seed is None else int(seed), game.start.rules, start, actions, end)

    @property
    def shows_one_hand(self) -> bool:
        """Whether the record is one player's view of the game."""
        return shows_one_hand(self.start)

    @property
    def result(self) -> str:
        """Last field of the end."""
        return self.end[-1:]

    @property
    def seat(self) -> int:
        """Seat of the person in a game against an agent, which `Session.resume` continues.

        Raises:
            ValueError: If it is another game, or has no seed.
        """
        if self.shows_one_hand:
            raise ValueError("it is a game as one player saw it, which unojax table --resume continues")
        if self.seed is None or self.players.count(PERSON) != 1:
            raise ValueError("it is no game of a person against an agent, with a seed")
        return self.players.index(PERSON)

    @property
    def opponent(self) -> str:
        """Spec of the agent in a game against a person. Raises ValueError as `seat`."""
        return self.players[1 - self.seat]

    def replay(self) -> Replay:
        """Replay the game.

        Raises:
            ValueError: If the record can't be read or replayed, ends differently, or is one player's view.
        """
        if self.shows_one_hand:
            raise ValueError("the file holds a game as one player saw it, without the other hand")
        start = parse_position(self.start, rules=self.rules)
        # All drawn cards are named, so this key is unused; otherwise the end would differ.
        game = replay(start, " ".join(self.actions), jax.random.key(0, impl="threefry2x32"))
        if (end := format_position(game.end)) != self.end:
            raise ValueError(f"the actions lead to {end!r}, but the file says that the game ended at {self.end!r}")
        return game

    def seen(self, player: int | None = None) -> SeenGame:
        """Replay the game as `player` saw it. None: the file's view, or the person.

        Raises:
            ValueError: If the record can't be read or replayed, or is the other player's view.
        """
        if not self.shows_one_hand:
            person = self.players.index(PERSON) if PERSON in self.players else 0
            return SeenGame.of(self.replay(), person if player is None else player)
        game = read_seen(self.start, " ".join(self.actions), player, self.rules)
        if (end := format_view(game.end, steps=game.num_steps)) != self.end:
            raise ValueError(f"the events lead to {end!r}, but the file says that the game ended at {self.end!r}")
        return game

    def to_json(self) -> str:
        """Return the text of the file."""
        data = {
            "format": FORMAT,
            "rules_version": RULES_VERSION,
            "rules": asdict(self.rules),
            "players": self.players,
            "seed": self.seed,
            "start": self.start,
            "actions": self.actions,
            "end": self.end,
            "result": self.result,
        }
        lines = (f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in data.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"


def write_game(path: str | os.PathLike[str], game: GameFile) -> None:
    """Write a game to a file, atomically. Raises OSError if it can't be written."""
    write_whole(path, game.to_json())


def read_game(path: str | os.PathLike[str]) -> GameFile:
    """Return the game in a file. `GameFile.replay` checks its actions.

    Raises:
        ValueError: If the file can't be read, is not a saved game, or has rules of another unojax version.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise ValueError(f"can't read {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is no saved game: it is not text") from None
    try:
        return parse_game(text)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def unfinished_game(path: str | os.PathLike[str]) -> GameFile | None:
    """Return the unfinished game in a file; None if the game is over, or the file is missing, empty or a device.

    Raises:
        ValueError: If the file holds something else.
    """
    file = Path(path)
    if is_special(file) or not file.exists() or file.stat().st_size == 0:
        return None
    game = read_game(path)
    return game if game.result == "*" else None


def next_path(path: str) -> str:
    """Return an unused file name: `game-2.json` beside `game.json`, then `game-3.json`."""
    last = Path(path)
    stem, _, end = last.stem.rpartition("-")
    # A longer number is probably a date.
    stem, number = (stem, int(end)) if stem and re.fullmatch("[0-9]{1,3}", end) else (last.stem, 1)
    while (name := last.with_name(f"{stem}-{(number := number + 1)}{last.suffix}")).exists():
        pass
    return str(name)


def parse_game(text: str) -> GameFile:
    """Return the game in the text of a file. Raises ValueError as `read_game`."""
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no saved game: not JSON ({error})") from None
    if not (isinstance(data, dict) and "format" in data):
        raise ValueError(f'this is no saved game: JSON, but no object with "format": "{FORMAT}"')
    if data["format"] != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}, got {data['format']!r}")
    if wrong := set(data) ^ set(_FIELDS):
        what = ", ".join(f"{name!r} is {'unknown' if name in data else 'missing'}" for name in sorted(wrong))
        raise ValueError(f"{what}; a saved game has {', '.join(_FIELDS)}")
    if data["rules_version"] != RULES_VERSION:
        raise ValueError(
            f"the game was played under version {data['rules_version']!r} of the rules, and this unojax plays version "
            f"{RULES_VERSION}; use the version of unojax that saved it"
        )
    players, actions, seed = data["players"], data["actions"], data["seed"]
    if not (_is_texts(players) and len(players) == 2):
        raise ValueError(f"players must be two texts, got {players!r}")
    if not _is_texts(actions):
        raise ValueError(f"actions must be a list of texts, got {actions!r}")
    if not (seed is None or (is_int(seed) and 0 <= seed < 2**32)):
        raise ValueError(f"seed must be null or in [0, {2**32 - 1}], got {seed!r}")
    for name in ("start", "end"):
        if not isinstance(data[name], str):
            raise ValueError(f"{name} must be a position as text, got {data[name]!r}")
    # Terminals show these names, so they must not contain control sequences.
    first, second = (name if name.isprintable() else name.encode("unicode_escape").decode() for name in players)
    game = GameFile((first, second), seed, _read_rules(data["rules"]), data["start"], tuple(actions), data["end"])
    if data["result"] != game.result:
        raise ValueError(f"result is {data['result']!r}, but the end {game.end!r} says {game.result!r}")
    return game


def _read_rules(data: Any) -> Rules:
    names = [field.name for field in fields(Rules)]
    if not (isinstance(data, dict) and set(data) <= set(names) and set(data) >= set(_FIRST_RULES)):
        raise ValueError(f"rules must be an object with {', '.join(names)}, got {data!r}")
    # A field missing from the file did not exist when it was written; its default is how the game was played then.
    if not isinstance(data["deck"], list):
        raise ValueError(f"rules: deck must be a list of copy counts, got {data['deck']!r}")
    try:
        return Rules(**data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"rules: {error}") from None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
