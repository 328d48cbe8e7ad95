"""A game that others play, entered by clicks."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, Literal

import numpy as np

from unojax import cards
from unojax.board import page
from unojax.board.face import Face
from unojax.games.at_table import Table, first_hands
from unojax.games.events import cards_due
from unojax.games.gamefile import GameFile
from unojax.games.seen import ImpossibleActionError, SeenGame
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.text import parse_action
from unojax.viz.scene import read_scene
from unojax.viz.words import THEY, YOU, capitalized, card_words, move_words, result_words

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
        self._begin(table)

    def _begin(self, table: Table | None) -> None:
        """Continue a table, or ask for a deal."""
        self.table, self._picked, self._top = table, list[str](), ""
        # Number of cards that the person holds at first: those dealt, and any that the start card added.
        self._first_hand = self._rules.hand_size
        self._asks: Question = "hand" if table is None else "event"
        # Number of the event that the next event replaces.
        self._fixes: int | None = None
        self._next_number()

    def new_table(self) -> None:
        """Ask for another deal under the same rules."""
        self._begin(None)
        self.show()

    @property
    def record(self) -> GameFile:
        """Return the game from the person's view. Raises ValueError before the deal is complete."""
        return self._entered.record

    def hear(self, content: Any) -> None:
        """Answer a new page or a click in it."""
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "new":
            return self.new_table()
        if kind == "shown":
            return self.show()
        if self._is_late(content):
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
            self._begin_turn(opponent_begins=click.get("line") == THEY)
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
        if self._asks == "hand" and len(self._picked) == self._first_hand:
            if self._top:
                self._deal(opponent_begins=False)
            else:
                self._asks = "top"
        elif self._asks == "draw" and len(self._picked) == cards_due(self._view):
            self._enter(f"draw({','.join(self._picked)})")
        elif self._asks == "shown" and len(self._picked) == int(self._view.opponent_count):
            self._enter(f"challenge({','.join(self._picked)})")
        return None

    def _begin_turn(self, *, opponent_begins: bool) -> None:
        """Deal; first ask for the cards that the person drew because of the start card."""
        top_rank = int(cards.RANK_OF_TYPE[cards.TYPE_NAMES.index(self._top.partition(":")[0])])
        self._first_hand, _ = first_hands(top_rank, opponent_begins, self._rules)
        if len(self._picked) < self._first_hand:
            self._asks = "hand"
        else:
            self._deal(opponent_begins=opponent_begins)

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
            self._forget_wins(fixes)
        if not self.table.is_explained:
            self.tell("No likely hand explains this after what came before: one of the events may be wrong.")

    def _back(self) -> None:
        """Take back the last picked card, or the last event."""
        if self._asks == "hand" and self._top and len(self._picked) == self._rules.hand_size:
            self._asks = "begins"
        elif self._picked and self._asks in ("hand", "draw", "shown"):
            self._picked.pop()
        elif self._asks in ("draw", "shown") or self._fixes is not None:
            self._asks, self._fixes = "event", None
        elif self._asks == "top":
            self._asks = "hand"
            self._picked.pop()
        elif self._asks == "begins":
            self._asks, self._top, self._first_hand = "top", "", self._rules.hand_size
        elif self.table is not None:
            self.table.undo()
            self._forget_wins(self.turn + 1)

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
    def turn(self) -> int:
        """Number of events so far."""
        return 0 if self.table is None else len(self.table.events)

    @property
    def positions(self) -> tuple[Observation, ...]:
        """Return the person's views. Raises ValueError before the deal is complete."""
        return self._entered.game.observations

    @property
    def _entered(self) -> Table:
        """Return the table. Raises ValueError before the deal is complete."""
        if self.table is None:
            raise ValueError("there is no game yet: enter the cards of the deal first")
        return self.table

    def show(self) -> None:
        self._show({"isTable": True} | (self._deal_state() if self.table is None else self._table_state(self.table)))

    def _deal_state(self) -> dict[str, Any]:
        size, top = self._rules.hand_size, self._top.partition(":")[0]
        drawn, number = len(self._picked) - size, self._first_hand - size
        says = {
            "hand": f"Which cards did you draw because of it? {drawn} of {number}."
            if top
            else f"Which cards were you dealt? {len(self._picked)} of {size}.",
            "top": "Which card was turned up?",
            "begins": "Who moves first, after what that card did?",
        }[self._asks]
        others = (
            [{"kind": "begins", "line": who, "words": f"{who} begin"} for who in (YOU, THEY)] if self._asks == "begins" else []
        )
        left = np.asarray(self._rules.deck) - np.asarray([Counter([*self._picked, top])[name] for name in cards.TYPE_NAMES])
        picker = (
            None if others else [_choice(t, is_open=left[t] > 0, asks_color=self._asks == "top") for t in range(cards.NUM_TYPES)]
        )
        return {
            "toMove": YOU,
            "hand": [page.held(t, is_playable=False) for t in sorted(map(cards.TYPE_NAMES.index, self._picked))],
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
        possible = set(game.possible())
        is_mine, asks_cards = bool(view.is_my_turn), self._asks in ("draw", "shown")
        plays = {t for t, name in enumerate(cards.TYPE_NAMES) if any(line.partition(":")[0] == name for line in possible)}
        looked, pooled = (table.look(), table.advise()) if self._fixes is None else (None, None)
        if looked is not None:
            self._note_win(float(looked.win_probability))
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
            picker = [_choice(t, is_open=t in plays, asks_color=True) for t in range(cards.NUM_TYPES)]
        names = (YOU, THEY) if game.player == 0 else (THEY, YOU)
        found = {} if looked is None else page.win_data(looked)
        wins = {} if pooled is None else {parse_action(play.action): play.win for play in pooled.plays}
        return (
            page.view_state(view, THEY, plays if is_mine and not asks_cards else ())
            | found
            | {
                "by": None if not table.events else YOU if game.events and bool(game.observations[-2].is_my_turn) else "opponent",
                "toMove": None if view.terminated else YOU if is_mine else "opponent",
                "canDraw": "draw" in possible and not asks_cards,
                "isForced": is_mine and possible == {"draw"},
                "others": others,
                "picker": picker,
                "says": self._says(view, names, None if looked is None else float(looked.belief.prob_no_playable)),
                "moves": _moves(table.game, names),
                "fixes": self._fixes,
                "wins": self._wins,
                "winNote": _WIN_NOTE,
                "showsBelief": True,
                "showsWin": True,
                "canTakeBack": bool(table.events) or self._fixes is not None,
                "hint": {} if pooled is None else page.hint(parse_action(pooled.recommended), wins),
                "record": table.record.to_json(),
            }
        )

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


def _choice(card_type: int, *, is_open: bool, asks_color: bool = False) -> dict[str, Any]:
    """Return a card to pick; for a played wild card the page asks for the colour."""
    card = page.held(card_type, is_playable=bool(is_open))
    return card | {"wild": card["wild"] and asks_color}


def _moves(game: SeenGame, names: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the start and each event: moves, lost counts and shown hands."""
    said, views = dict[int, str](), game.observations
    for number, event in enumerate(game.events, 1):
        if event.kind == "count":
            said[number] = f"You lost track: they hold {int(views[number].opponent_count)}."
        elif event.shown:
            hand = ", ".join(card_words(cards.TYPE_NAMES.index(name)) for name in event.shown.split())
            said[number] = f"{move_words(read_scene(views[number - 1]), read_scene(views[number]), names)} They showed {hand}."
    return page.moves(views, names, said)
