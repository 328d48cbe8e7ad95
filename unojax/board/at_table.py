"""A game that others play, entered by clicks."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from unojax import cards
from unojax.board.face import Face
from unojax.board.page import card_and_color
from unojax.games.at_table import Table
from unojax.games.events import cards_due
from unojax.games.gamefile import GameFile
from unojax.games.seen import ImpossibleActionError, SeenGame
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search.pooling import Pooled
from unojax.viz import belief_svg
from unojax.viz.scene import read_scene
from unojax.viz.theme import DARK, LIGHT
from unojax.viz.words import THEY, YOU, capitalized, card_words, move_words, result_words, start_words

Question = Literal["hand", "top", "begins", "event", "draw", "shown"]
_SHOWN: Final = "challenge(...)"
"""Line of the button for a challenge at which the other hand was shown."""
_COLOR_LETTERS: Final[dict[str, str]] = dict(zip(cards.COLOR_NAMES, cards.COLOR_LETTERS, strict=True))
_WIN_NOTE: Final = (
    "Share of 1,000 games won if from here both play on as the rollouts do; the other hand is drawn from the belief"
)


class TableBoard(Face):
    """A table for a page, which first asks for the cards of the deal unless a table is given."""

    def __init__(self, rules: Rules, agent: str, *, seed: int = 0, table: Table | None = None):
        """Prepare the board; arguments as of `Table`."""
        self._rules, self._agent, self._seed = rules, agent, seed
        self.table = table
        self._number, self._picked, self._top = 1, list[str](), ""
        self._asks: Question = "hand" if table is None else "event"
        # Number of the event that the next event replaces.
        self._fixes: int | None = None
        self._wins: list[tuple[int, float]] = []

    def new_table(self) -> None:
        """Ask for another deal under the same rules."""
        self.table, self._asks, self._picked, self._fixes, self._wins = None, "hand", [], None, []
        self._number += 1
        self.show()

    @property
    def record(self) -> GameFile:
        """Return the game from the person's view. Raises ValueError before the deal is complete."""
        if self.table is None:
            raise ValueError("there is no game yet: enter the cards of the deal first")
        return self.table.record

    def hear(self, content: Any) -> None:
        """Answer a new page or a click in it."""
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "new":
            return self.new_table()
        if kind == "shown":
            return self.show()
        if (content.get("game"), content.get("turn")) != (self._number, self._turn):
            # A late or repeated click refers to an earlier position.
            return None
        try:
            self._obey(content)
        except ImpossibleActionError as error:
            self.tell(f"{capitalized(str(error.why))}.")
        except ValueError as error:
            self.tell(f"{capitalized(str(error))}.")
            if self.table is None:
                self.new_table()
        else:
            self.show()
        return None

    def _obey(self, click: dict[str, Any]) -> None:
        kind = click["kind"]
        if kind == "back":
            self._back()
        elif kind == "fix" and self.table is not None:
            number = int(click.get("number", 0))
            if not 1 <= number <= len(self.table.events):
                raise ValueError(f"there is no event {number}")
            self._fixes, self._asks, self._picked = (None if self._fixes == number else number), "event", []
        elif kind == "begins":
            self._deal(opponent_begins=click.get("line") == THEY)
        elif kind == "play":
            color = _COLOR_LETTERS.get(str(click.get("color")), "")
            self._pick(str(click.get("card")), f":{color}" if color else "")
        else:
            self._say({"draw": "draw", "challenge": "challenge"}.get(kind, str(click.get("line", ""))))

    def _pick(self, card: str, color: str) -> None:
        """Use a clicked card as the answer to the current question."""
        if card not in cards.TYPE_NAMES:
            raise ValueError(f"card must be the name of a card, got {card!r}")
        if self._asks == "event":
            return self._say(card + color)
        if self._asks == "top":
            self._top, self._asks = card + color, "begins"
            return None
        self._picked.append(card)
        if self._asks == "hand" and len(self._picked) == self._rules.hand_size:
            self._asks = "top"
        elif self._asks == "draw" and len(self._picked) == cards_due(self._view):
            self._enter(f"draw({','.join(self._picked)})")
        elif self._asks == "shown" and len(self._picked) == int(self._view.opponent_count):
            self._enter(f"challenge({','.join(self._picked)})")
        return None

    def _deal(self, *, opponent_begins: bool) -> None:
        words: dict[str, Any] = {"opponent_begins": opponent_begins, "rules": self._rules}
        self.table = Table(" ".join(self._picked), self._top, **words, agent=self._agent, seed=self._seed)
        self._asks, self._picked = "event", []

    def _say(self, line: str) -> None:
        """Enter an event, after asking for the cards of a draw or a shown hand."""
        if self.table is None:
            raise ValueError("enter the cards of the deal first")
        if line == "draw" and self._view.is_my_turn and cards_due(self._view):
            if "draw" not in self._game.possible():
                raise ValueError("you can't draw here")
            self._asks, self._picked = "draw", []
            return None
        if line == _SHOWN:
            self._asks, self._picked = "shown", []
            return None
        return self._enter(line)

    def _enter(self, line: str) -> None:
        assert self.table is not None
        fixes, self._fixes, self._asks, self._picked = self._fixes, None, "event", []
        if fixes is None:
            self.table.play(line)
        else:
            self.table.correct(fixes, line)
            self._wins = [entry for entry in self._wins if entry[0] < fixes]
        if not self.table.is_explained:
            self.tell("No likely hand explains this after what came before: one of the events may be wrong.")

    def _back(self) -> None:
        """Take back the last picked card, or the last event."""
        if self._picked and self._asks in ("hand", "draw", "shown"):
            self._picked.pop()
        elif self._asks in ("draw", "shown") or self._fixes is not None:
            self._asks, self._fixes = "event", None
        elif self._asks == "top":
            self._asks = "hand"
            self._picked.pop()
        elif self._asks == "begins":
            self._asks = "top"
        elif self.table is not None:
            self.table.undo()
            self._wins = [entry for entry in self._wins if entry[0] <= len(self.table.events)]

    @property
    def _game(self) -> SeenGame:
        """Return the game up to the place of the next event."""
        assert self.table is not None
        game = self.table.game
        return game if self._fixes is None else game.back(len(game.events) - self._fixes + 1)

    @property
    def _view(self) -> Observation:
        return self._game.end

    @property
    def _turn(self) -> int:
        return 0 if self.table is None else len(self.table.events)

    def show(self) -> None:
        self.publish(self._deal_state() if self.table is None else self._table_state(self.table))

    def _deal_state(self) -> dict[str, Any]:
        size, top = self._rules.hand_size, self._top.partition(":")[0]
        says = {
            "hand": f"Which cards were you dealt? {len(self._picked)} of {size}.",
            "top": "Which card was turned up?",
            "begins": "Who moves first, after what that card did?",
        }[self._asks]
        others = (
            [{"kind": "begins", "line": who, "words": f"{who} begin"} for who in (YOU, THEY)] if self._asks == "begins" else []
        )
        left = np.asarray(self._rules.deck) - np.asarray([Counter(self._picked)[name] for name in cards.TYPE_NAMES])
        picker = (
            None if others else [_choice(t, is_open=left[t] > 0, asks_color=self._asks == "top") for t in range(cards.NUM_TYPES)]
        )
        return self._common() | {
            "toMove": YOU,
            "hand": [_held(name, is_playable=False) for name in sorted(self._picked, key=cards.TYPE_NAMES.index)],
            "opponent": {"name": THEY, "count": size, "hand": None},
            "deck": self._rules.num_cards - 2 * size - 1,
            "top": {"card": top or "back", "words": card_words(cards.TYPE_NAMES.index(top)) if top else "no card"},
            "says": says,
            "moves": [{"by": "", "card": False, "words": "The deal."}],
            "others": others,
            "picker": picker,
            "canTakeBack": bool(self._picked),
        }

    def _table_state(self, table: Table) -> dict[str, Any]:
        """Return the state up to the requested event, with belief and advice."""
        game, view = self._game, self._view
        scene, possible = read_scene(view), set(game.possible())
        is_mine, asks_cards = bool(view.is_my_turn), self._asks in ("draw", "shown")
        plays = {line.partition(":")[0] for line in possible}
        looked, pooled = (table.look(), table.advise()) if self._fixes is None else (None, None)
        if looked is not None:
            turn, win = len(table.events), round(float(looked.win_probability), 4)
            if not self._wins or self._wins[-1][0] < turn:
                self._wins.append((turn, win))
        own = [] if asks_cards else ["draw+", "pass", "challenge"]
        lines = [line for line in own if line in possible]
        words = {"draw+": "they draw, and may play it", "pass": "pass", "challenge": "challenge"}
        others = [{"kind": "enter", "line": line, "words": words[line]} for line in lines]
        if is_mine and "challenge" in possible and not asks_cards:
            verdicts = [(f"challenge({how})", f"I challenge, and {how}") for how in ("won", "lost")]
            verdicts.append((_SHOWN, "I challenge, and see their hand …"))
            others = [{"kind": "enter", "line": line, "words": told} for line, told in verdicts] + others[:-1]
        if not view.terminated and not asks_cards:
            others.append({"kind": "enter", "line": "=", "words": "I lost track …", "asks": "How many cards do they hold?"})
        unseen = np.asarray(view.unseen) - np.asarray([Counter(self._picked)[name] for name in cards.TYPE_NAMES])
        picker = None
        if asks_cards:
            picker = [_choice(t, is_open=unseen[t] > 0) for t in range(cards.NUM_TYPES)]
        elif not is_mine and not view.terminated:
            picker = [_choice(t, is_open=name in plays, asks_color=True) for t, name in enumerate(cards.TYPE_NAMES)]
        names = (YOU, THEY) if game.player == 0 else (THEY, YOU)
        return self._common() | {
            "by": None if not table.events else YOU if game.events and bool(game.observations[-2].is_my_turn) else "opponent",
            "toMove": None if view.terminated else YOU if is_mine else "opponent",
            "hand": [_held(name, is_playable=is_mine and not asks_cards and name in plays) for name in _names(view)],
            "opponent": {"name": THEY, "count": int(view.opponent_count), "hand": None},
            "deck": int(view.deck_count),
            "canDraw": "draw" in possible and not asks_cards,
            "isForced": is_mine and possible == {"draw"},
            "others": others,
            "picker": picker,
            "pile": int(np.sum(view.pile)),
            "top": {"card": cards.TYPE_NAMES[scene.top_type], "words": card_words(scene.top_type)},
            "color": cards.COLOR_NAMES[scene.color],
            "penalty": scene.penalty,
            "says": self._says(view, names, None if looked is None else float(looked.belief.prob_no_playable)),
            "won": None,
            "moves": _moves(table.game, names),
            "fixes": self._fixes,
            "belief": None if looked is None else _picture(looked.belief.prob_holds, looked.types),
            "win": None if looked is None else {"now": float(looked.win_probability), "error": float(looked.win_error)},
            "wins": self._wins,
            "canTakeBack": bool(table.events) or self._fixes is not None,
            "hint": _advice(pooled),
            "record": table.record.to_json(),
        }

    def _says(self, view: Observation, names: tuple[str, str], prob_no_playable: float | None) -> str:
        if self._asks == "draw":
            return f"Which {'cards' if cards_due(view) > 1 else 'card'} did you draw? {len(self._picked)} of {cards_due(view)}."
        if self._asks == "shown":
            return f"Which cards did they show? {len(self._picked)} of {int(view.opponent_count)}."
        if self._fixes is not None:
            return f"What happened in move {self._fixes}?"
        if view.terminated:
            return f"{capitalized(result_words(read_scene(view), names))}."
        who = "You are" if view.is_my_turn else "They are"
        can_play = "" if prob_no_playable is None else f" They can play on this with {100 * (1 - prob_no_playable):.0f} %."
        return f"{who} to move.{can_play}"

    def _common(self) -> dict[str, Any]:
        return {
            "game": self._number,
            "turn": self._turn,
            "by": None,
            "opened": None,
            "canDraw": False,
            "isForced": False,
            "pile": 1,
            "color": "red",
            "penalty": 0,
            "won": None,
            "belief": None,
            "win": None,
            "wins": [],
            "isStuck": False,
            "showsBelief": self.table is not None,
            "showsWin": self.table is not None,
            "winNote": _WIN_NOTE,
            "hint": {},
            "record": None,
            "isTable": True,
            "fixes": None,
        }


def _names(view: Observation) -> list[str]:
    return [cards.TYPE_NAMES[t] for t in np.sort(cards.TYPE_OF_SLOT[np.asarray(view.hand)])]


def _held(name: str, *, is_playable: bool) -> dict[str, Any]:
    card_type = cards.TYPE_NAMES.index(name)
    wild = card_type >= cards.WILD_TYPE
    return {"card": name, "words": card_words(card_type), "playable": is_playable, "wild": wild, "isNew": False}


def _choice(card_type: int, *, is_open: bool, asks_color: bool = False) -> dict[str, Any]:
    """Return a card to pick; for a played wild card the page asks for the colour."""
    held = _held(cards.TYPE_NAMES[card_type], is_playable=bool(is_open))
    return held | {"wild": held["wild"] and asks_color}


def _moves(game: SeenGame, names: tuple[str, str]) -> list[dict[str, Any]]:
    moves = [{"by": "", "card": False, "words": start_words(read_scene(game.start), names)}]
    for event, before, after in zip(game.events, game.observations, game.observations[1:], strict=False):
        words = f"You lost track: they hold {int(after.opponent_count)}."
        if event.kind != "count":
            words = move_words(read_scene(before), read_scene(after), names)
            words += f" They showed {_words_of(event.shown)}." if event.shown else ""
        moves.append({"by": YOU if before.is_my_turn else "opponent", "card": event.kind == "play", "words": words})
    return moves


def _words_of(hand: str) -> str:
    """Return the cards of a hand, `R5 Y2`, in words."""
    return ", ".join(card_words(cards.TYPE_NAMES.index(name)) for name in hand.split())


def _advice(pooled: Pooled | None) -> dict[str, Any]:
    """Return the advised play and each card's win probability, a wild one in its best colour."""
    if pooled is None:
        return {}
    card, color = card_and_color(pooled.recommended)
    wins: dict[str, float] = {}
    for play in pooled.plays:
        name, _ = card_and_color(play.action)
        wins[name] = max(wins.get(name, 0.0), round(play.win, 4))
    return {"card": card, "color": color, "wins": wins}


def _picture(prob_holds: Any, types: Any) -> dict[str, str]:
    draw = partial(belief_svg, prob_holds, types=types, tall=True)
    return {theme.name: draw(theme=theme.name) for theme in (LIGHT, DARK)}
