"""Data for the page of a board, as JSON.

It derives from the person's observations, so it can't contain a hidden card.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib import resources
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from unojax import cards
from unojax.games.advisor import WinEstimate
from unojax.games.session import Session
from unojax.observation import Observation
from unojax.viz import belief_svg
from unojax.viz.card import BACK, card_svg
from unojax.viz.scene import drawn_types, read_scene
from unojax.viz.svg import NAMESPACE, element, mark
from unojax.viz.theme import COLOR_PAINTS, DARK, FONT, LIGHT, Theme, css_variables
from unojax.viz.words import YOU, capitalized, card_words, move_words, result_words, start_words, why_not

_BACK_NAME: Final = "back"
_OPPONENT: Final = "the opponent"
_DRAW: Final = "draw"
_CHALLENGE: Final = "challenge"
CLICKS: Final = ("play", _DRAW, _CHALLENGE, "hint", "back")
"""Kinds of clicks that refer to a position."""
_MARK_SIZE: Final = 24.0
_NO_WORDS: Final[Mapping[int, str]] = MappingProxyType({})
BLANK: Final[dict[str, Any]] = {
    **dict.fromkeys(("by", "toMove", "opened", "picker", "won", "record", "belief", "win", "fixes")),
    **dict.fromkeys(("canDraw", "isForced", "canTakeBack", "isStuck", "isTable", "showsBelief", "showsWin"), False),
    "pile": 1,
    "color": "red",
    "penalty": 0,
    "others": [],
    "wins": [],
    "winNote": "",
    "hint": {},
}
"""What a page is sent, if there is nothing else to send."""


def faces() -> dict[str, str]:
    """Return the SVG files of the 54 cards, `back`, and the four colours' marks, by name."""
    drawn = {name: card_svg(card_type) for card_type, name in enumerate(cards.TYPE_NAMES)}
    middle = _MARK_SIZE / 2
    for color, paint in enumerate(COLOR_PAINTS):
        sign = mark(color, middle, middle + (color == cards.YELLOW), 8.5, paint.body, letter=paint.ink)
        box = f"0 0 {_MARK_SIZE:g} {_MARK_SIZE:g}"
        drawn[cards.COLOR_NAMES[color]] = element("svg", sign, xmlns=NAMESPACE, viewBox=box, font_family=FONT)
    return drawn | {_BACK_NAME: card_svg(BACK)}


def script() -> str:
    """Return the script of the board, a module with `render({model, el})`."""
    return resources.files("unojax.board").joinpath("board.js").read_text(encoding="utf-8")


def style() -> str:
    """Return the style sheet, with the paints of both themes."""
    sheet = resources.files("unojax.board").joinpath("board.css").read_text(encoding="utf-8")
    return "\n".join([*(_variables(theme) for theme in (LIGHT, DARK)), sheet])


def _variables(theme: Theme) -> str:
    names = ("panel", "field", "line", "text", "dim", "accent", "on_accent", "alarm", "on_alarm", "truth")
    colors = ";".join(f"--{cards.COLOR_NAMES[color]}:{paint.body}" for color, paint in enumerate(COLOR_PAINTS))
    variables = f"{css_variables(theme, names)};{colors}"
    return f'.unojax-board[data-theme="{theme.name}"]{{color-scheme:{theme.name};{variables}}}'


def board_state(session: Session) -> dict[str, Any]:
    """Return the position and its moves; the opponent's cards only after the end."""
    view, me, is_mine = session.view, session.seat, session.is_my_turn and not session.is_over
    last = session.seen[-1] if session.seen else None
    own = read_scene(view).hands[me]
    drawn = drawn_types(read_scene(last.before).hands[me], own) if last and last.is_mine else []
    said = moves(session.views, _player_names(session))
    if session.has_given_up:
        words = ": ".join(["The opponent gives up", *session.faults]) + "."
        said.append({"by": "opponent", "card": False, "words": words})
    opened = opened_types(session)
    return view_state(view, session.opponent, _legal_types(session.legal) if is_mine else (), drawn, opened) | {
        "by": None if last is None else YOU if last.is_mine else "opponent",
        "toMove": None if session.is_over else YOU if is_mine else "opponent",
        "opened": None if opened is None else [card_words(t) for t in opened],
        "canDraw": is_mine and not _may_pass(session) and bool(session.legal[cards.DRAW]),
        "isForced": is_mine and int(session.legal.sum()) == 1,
        "others": _others(session) if is_mine else [],
        "says": _says(session),
        "won": None if not session.is_over or session.winner < 0 else session.winner == me,
        "moves": said,
    }


def view_state(
    view: Observation,
    opponent: str,
    playable: Collection[int],
    drawn: Collection[int] = (),
    opened: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the cards of a view.

    Args:
        view: The person's view.
        opponent: Name of the other player.
        playable, drawn: Types of the person's cards that can be clicked, and of those just drawn.
        opened: Types in the other hand; None: hidden.
    """
    scene = read_scene(view)
    own, other = scene.hands[scene.near], scene.hands[1 - scene.near]
    shown = None if opened is None else [cards.TYPE_NAMES[t] for t in opened]
    return {
        "hand": [held(t, is_playable=t in playable, is_new=t in drawn) for t in own.types or ()],
        "opponent": {"name": opponent, "count": other.count, "hand": shown},
        "deck": scene.deck,
        "pile": scene.pile,
        "top": {"card": cards.TYPE_NAMES[scene.top_type], "words": card_words(scene.top_type)},
        "color": cards.COLOR_NAMES[scene.color],
        "penalty": scene.penalty,
    }


def held(card_type: int, *, is_playable: bool, is_new: bool = False) -> dict[str, Any]:
    """Return a card that may be clicked. For a wild one the page asks for the colour."""
    return {
        "card": cards.TYPE_NAMES[card_type],
        "words": card_words(card_type),
        "playable": is_playable,
        "wild": card_type >= cards.WILD_TYPE,
        "isNew": is_new,
    }


def moves(views: Sequence[Observation], names: tuple[str, str], said: Mapping[int, str] = _NO_WORDS) -> list[dict[str, Any]]:
    """Return the start and each move between the person's views; `said` has the words of other events, by their numbers."""
    told = [{"by": "", "card": False, "words": start_words(read_scene(views[0]), names)}]
    for number, (before, after) in enumerate(pairwise(views), 1):
        is_card = number not in said and int(after.last_action) < cards.DRAW
        words = said[number] if number in said else move_words(read_scene(before), read_scene(after), names)
        told.append({"by": YOU if before.is_my_turn else "opponent", "card": is_card, "words": words})
    return told


def win_data(looked: WinEstimate, opened: Sequence[int] | None = None) -> dict[str, Any]:
    """Return win probability and belief, drawn in both themes; with the types in the other hand if known."""
    truth = None if opened is None else np.bincount(opened, minlength=cards.NUM_TYPES)
    picture = partial(belief_svg, looked.belief.prob_holds, truth=truth, types=looked.types, tall=True)
    return {
        "win": {"now": round(float(looked.win_probability), 4), "error": round(float(looked.win_error), 4)},
        "belief": {theme.name: picture(theme=theme.name) for theme in (LIGHT, DARK)},
    }


def opened_types(session: Session) -> tuple[int, ...] | None:
    """Return the types in the opponent's hand; None before the end."""
    return read_scene(session.replay().end).hands[1 - session.seat].types if session.is_over else None


def hint(advised: int, win_of: Mapping[int, float]) -> dict[str, Any]:
    """Return the advised action, and the win probability of each card, which is that of its best colour, or other action."""
    card, color = card_and_color(advised)
    wins: dict[str, float] = {}
    for action, win in win_of.items():
        name, _ = card_and_color(action)
        wins[name] = max(wins.get(name, 0.0), round(win, 4))
    return {"card": card, "color": color, "wins": wins}


def card_and_color(action: int) -> tuple[str, str | None]:
    """Return the card of a play 0..59 and its declared colour, or another action."""
    if action >= cards.DRAW:
        return (_DRAW if action == cards.DRAW else _CHALLENGE), None
    color, rank = divmod(action, cards.NUM_RANKS)
    return cards.TYPE_NAMES[cards.card_type(color, rank)], cards.COLOR_NAMES[color] if rank >= cards.WILD else None


def read_click(click: Mapping[str, Any]) -> int:
    """Return a click on a card or the deck, to pass or to challenge, as an action 0..61.

    A card is `card`, and for a wild one `color`. The action may be illegal.

    Raises:
        ValueError: If the click names no card or no colour.
    """
    if click.get("kind") in (_DRAW, _CHALLENGE):
        return cards.DRAW if click["kind"] == _DRAW else cards.CHALLENGE
    card, color = click.get("card"), click.get("color")
    if card not in cards.TYPE_NAMES:
        raise ValueError(f"card must be the name of a card, got {card!r}")
    card_type = cards.TYPE_NAMES.index(card)
    number = int(cards.COLOR_OF_TYPE[card_type])
    if number < 0:
        if color not in cards.COLOR_NAMES:
            raise ValueError(f"color must be one of {', '.join(cards.COLOR_NAMES)} for a wild card, got {color!r}")
        number = cards.COLOR_NAMES.index(color)
    return number * cards.NUM_RANKS + int(cards.RANK_OF_TYPE[card_type])


def refusal(session: Session, action: int) -> str:
    """Explain why an action can't be done now."""
    if session.is_over:
        return "The game is over."
    if not session.is_my_turn:
        return "It is not your turn."
    view = session.view
    if action == cards.CHALLENGE:
        return "There is no Wild+4 to challenge."
    if action == cards.DRAW:
        return "You can play, so you must."
    why = why_not(view, _legal_types(session.legal), int(cards.TYPE_OF_PLAY[action]))
    if session.legal.sum() > 1 or not session.legal[cards.DRAW]:
        return f"{why}."
    return f"{why}: click the deck." if view.penalty else f"{why}. Click the deck to draw."


def _player_names(session: Session) -> tuple[str, str]:
    return (YOU, _OPPONENT) if session.seat == 0 else (_OPPONENT, YOU)


def _may_pass(session: Session) -> bool:
    """Return whether a draw is a pass, and not another card."""
    return bool(session.view.has_drawn and session.legal[: cards.DRAW].any())


def _others(session: Session) -> list[dict[str, str]]:
    """Return the actions other than playing and drawing from the deck: the click, and words."""
    others = [{"kind": _DRAW, "words": "pass"}] if _may_pass(session) else []
    return [*others, {"kind": _CHALLENGE, "words": _CHALLENGE}] if session.legal[cards.CHALLENGE :].any() else others


def _says(session: Session) -> str:
    view = session.view
    if session.is_over:
        after = f"after {len(session.steps)} turn{'s' * (len(session.steps) != 1)}"
        if session.has_given_up:
            return f"The opponent gives up {after}: you win."
        if session.was_cut_off:
            return f"The game is cut off {after}."
        points = f", {session.card_points} points" if session.rules.points and session.winner >= 0 else ""
        return f"{capitalized(result_words(read_scene(view), _player_names(session)))} {after}{points}."
    if not session.is_my_turn:
        return "The opponent is to move."
    legal, can_play = session.legal, bool(session.legal[: cards.DRAW].any())
    if view.penalty and not legal[cards.DRAW]:
        return f"You must play a card on the penalty of {int(view.penalty)}."
    if view.penalty:
        ways = ["play a card on it"] * can_play + [_CHALLENGE] * bool(legal[cards.CHALLENGE :].any())
        must = "" if ways else "You must "
        return capitalized(f"{must}draw {int(view.penalty)} and lose the turn: click the deck{', or '.join(['', *ways])}.")
    if _may_pass(session):
        return "Play the card that you drew, or pass."
    if not can_play:
        return "You can't play: click the deck to draw."
    return f"Your turn: play a card{', or draw one' if legal[cards.DRAW] else ''}."


def _legal_types(legal: np.ndarray) -> frozenset[int]:
    return frozenset(cards.TYPE_OF_PLAY[legal[: cards.DRAW]].tolist())
