"""What the page of a board gets to see, as JSON: built from what the person sees, so that no hidden card can be in it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import numpy as np

from unojax import cards
from unojax.games.session import Advice, Match, Outlook
from unojax.viz import belief_svg
from unojax.viz.card import BACK, card_svg, card_words
from unojax.viz.scene import YOU, capitalized, move_words, read_scene, result_words, start_words
from unojax.viz.svg import element, mark
from unojax.viz.theme import COLOR_PAINTS, DARK, FONT, LIGHT, Theme

_BACK_NAME: Final = "back"
_OPPONENT: Final = "the opponent"
_MARK_SIZE: Final = 24.0


def faces() -> dict[str, str]:
    """SVGs by name: the 54 cards, `back`, and the marks of the four colours."""
    drawn = {name: card_svg(card_type) for card_type, name in enumerate(cards.TYPE_NAMES)}
    middle = _MARK_SIZE / 2
    for color, paint in enumerate(COLOR_PAINTS):
        sign = mark(color, middle, middle + (color == cards.YELLOW), 8.5, paint.body, letter=paint.ink)
        box = f"0 0 {_MARK_SIZE:g} {_MARK_SIZE:g}"
        drawn[cards.COLOR_NAMES[color]] = element("svg", sign, viewBox=box, font_family=FONT, aria_hidden="true")
    return drawn | {_BACK_NAME: card_svg(BACK)}


def style() -> str:
    """The style sheet, with the paints of both themes as variables."""
    sheet = resources.files("unojax.widget").joinpath("board.css").read_text(encoding="utf-8")
    return "\n".join([*(_variables(theme) for theme in (LIGHT, DARK)), sheet])


def _variables(theme: Theme) -> str:
    names = ("panel", "field", "line", "text", "dim", "accent", "on_accent", "alarm", "on_alarm", "truth")
    paints = [f"--{name.replace('_', '-')}:{getattr(theme, name)}" for name in names]
    paints += [f"--{cards.COLOR_NAMES[color]}:{paint.body}" for color, paint in enumerate(COLOR_PAINTS)]
    return f'.unojax-board[data-theme="{theme.name}"]{{color-scheme:{theme.name};--font:{FONT};{";".join(paints)}}}'


def table(match: Match, opponent: str) -> dict[str, Any]:
    """The position and what led there.

    Args:
        match: the game. Nothing but its public parts and the person's own view is looked at before the end; after it, the
            opponent's cards are laid open.
        opponent: how the agent is called.
    """
    scene = read_scene(match.view)
    me, is_mine = match.seat, match.is_my_turn and not match.is_over
    legal = _legal_types(match.legal) if is_mine else frozenset()
    own, other = scene.hands[me], scene.hands[1 - me]
    mover = None if match.is_over else YOU if is_mine else "opponent"
    drawn = _types(match.seen[-1].drawn.split()) if match.seen and match.seen[-1].is_mine else []
    return {
        "turn": len(match.seen),
        "by": None if not match.seen else YOU if match.seen[-1].is_mine else "opponent",
        "toMove": mover,
        "hand": [_held(t, t in legal, t in drawn) for t in own.types or ()],
        "opponent": {"name": opponent, "count": other.count, "hand": _names(_open_hand(match)) if match.is_over else None},
        "deck": scene.deck,
        "canDraw": is_mine and not legal,
        "pile": scene.pile,
        "top": {"card": cards.TYPE_NAMES[scene.top_type], "words": card_words(scene.top_type)},
        "color": cards.COLOR_NAMES[scene.color],
        "penalty": scene.penalty,
        "says": _says(match, can_play=bool(legal)),
        "won": None if not match.is_over or match.winner < 0 else match.winner == me,
        "moves": moves(match),
    }


def moves(match: Match) -> list[dict[str, Any]]:
    """The start and each move, as the person saw it: who made it, whether a card was played, and in words."""
    names = _player_names(match)
    first = read_scene(match.seen[0].before if match.seen else match.view)
    said = [{"by": "", "card": False, "words": start_words(first, names)}]
    for seen in match.seen:
        words = move_words(read_scene(seen.before), read_scene(seen.after), names)
        said.append({"by": YOU if seen.is_mine else "opponent", "card": seen.action != cards.DRAW, "words": words})
    return said


def outlook(told: Outlook | None, match: Match) -> dict[str, Any]:
    """The win probability and the belief over the opponent's cards, drawn in both themes; at the end beside the truth."""
    if told is None:
        return {}
    truth = np.bincount(_open_hand(match), minlength=cards.NUM_TYPES) if match.is_over else None
    drawn = {t.name: belief_svg(told.prob_holds, truth=truth, tall=True, theme=t.name) for t in (LIGHT, DARK)}
    return {"win": round(float(told.win_probability), 4), "error": round(float(told.win_error), 4), "belief": drawn}


def hint(told: Advice, match: Match) -> dict[str, Any]:
    """What a search says of each card: the win probability of playing it (of a wild one, in the best colour), and its advice.

    Where there is one play only, that is advised, and nothing said of it. Nothing at all where there is only a draw.
    """
    wins: dict[str, float] = {}
    if told.thought is None:
        advised = int(match.legal.argmax())
    else:
        advised = int(told.thought.advised)
        for action in np.flatnonzero(told.thought.tried).tolist():
            name, _ = card_and_color(action)
            wins[name] = max(wins.get(name, 0.0), round((1 + float(told.thought.estimate.value[action])) / 2, 4))
    if advised == cards.DRAW:
        return {}
    card, color = card_and_color(advised)
    return {"card": card, "color": color, "wins": wins}


def card_and_color(action: int) -> tuple[str, str | None]:
    """The card of a play 0..59, and the colour that it declares."""
    color, rank = divmod(action, cards.NUM_RANKS)
    if rank >= cards.WILD:
        return cards.RANK_NAMES[rank], cards.COLOR_NAMES[color]
    return cards.TYPE_NAMES[color * cards.NUM_COLORED_RANKS + rank], None


def read_click(click: Mapping[str, Any]) -> int:
    """The action 0..60 that a click on a card (`card`, and for a wild one `color`) or on the deck asks for; it may be illegal.

    Raises:
        ValueError: it names no card or no colour.
    """
    if click.get("kind") == "draw":
        return cards.DRAW
    card, color = click.get("card"), click.get("color")
    if card not in cards.TYPE_NAMES:
        raise ValueError(f"card must be the name of a card, got {card!r}")
    card_type = cards.TYPE_NAMES.index(card)
    if card_type < cards.WILD_TYPE:
        return int(cards.COLOR_OF_TYPE[card_type]) * cards.NUM_RANKS + int(cards.RANK_OF_TYPE[card_type])
    if color not in cards.COLOR_NAMES:
        raise ValueError(f"color must be one of {', '.join(cards.COLOR_NAMES)} for a wild card, got {color!r}")
    return cards.COLOR_NAMES.index(color) * cards.NUM_RANKS + int(cards.RANK_OF_TYPE[card_type])


def refusal(match: Match, action: int) -> str:
    """Why the person can't do this now, in words for the person."""
    if match.is_over:
        return "The game is over."
    if not match.is_my_turn:
        return "It is not your turn."
    view = match.view
    if action == cards.DRAW:
        return "You can play, so you must."
    if view.penalty:
        return f"You must draw {int(view.penalty)} cards: click the deck."
    name, _ = card_and_color(action)
    scene = read_scene(view)
    on = f"{card_words(scene.top_type)}" + (f" ({cards.COLOR_NAMES[scene.color]})" if scene.top_type >= cards.WILD_TYPE else "")
    words = capitalized(card_words(cards.TYPE_NAMES.index(name)))
    hand = scene.hands[match.seat].types or ()
    if cards.TYPE_NAMES.index(name) not in hand:
        return f"You don't hold {card_words(cards.TYPE_NAMES.index(name))}."
    return f"{words} does not go on {on}." + ("" if _legal_types(match.legal) else " Click the deck to draw.")


def _player_names(match: Match) -> tuple[str, str]:
    return (YOU, _OPPONENT) if match.seat == 0 else (_OPPONENT, YOU)


def _says(match: Match, *, can_play: bool) -> str:
    view = match.view
    if match.is_over:
        after = f"after {len(match.seen)} turns"
        if match.was_cut_off:
            return f"The game is cut off {after}."
        return f"{capitalized(result_words(read_scene(view), _player_names(match)))} {after}."
    if not match.is_my_turn:
        return "The opponent is to move."
    if view.penalty:
        return f"You must draw {int(view.penalty)} and lose the turn: click the deck."
    return "Your turn: play a card." if can_play else "You can't play: click the deck to draw."


def _held(card_type: int, is_playable: bool, is_new: bool) -> dict[str, Any]:
    return {
        "card": cards.TYPE_NAMES[card_type],
        "words": card_words(card_type),
        "playable": is_playable,
        "wild": card_type >= cards.WILD_TYPE,
        "isNew": is_new,
    }


def _open_hand(match: Match) -> list[int]:
    """Types of the opponent's cards, for the end of the game."""
    return np.sort(cards.TYPE_OF_SLOT[np.asarray(match.replay().end.hands[1 - match.seat])]).tolist()


def _names(types: list[int]) -> list[str]:
    return [cards.TYPE_NAMES[t] for t in types]


def _types(names: list[str]) -> list[int]:
    return [cards.TYPE_NAMES.index(name) for name in names]


def _legal_types(legal: np.ndarray) -> frozenset[int]:
    return frozenset(cards.TYPE_NAMES.index(card_and_color(a)[0]) for a in np.flatnonzero(legal[: cards.DRAW]).tolist())
