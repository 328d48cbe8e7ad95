"""Cards, positions and moves in words.

`names` are those of player 0 and player 1; `YOU` is addressed as *you*.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from unojax import cards
from unojax.game import NO_ACTION, NO_WINNER
from unojax.games.seen import PLAYERS
from unojax.observation import Observation
from unojax.viz.scene import Scene, drawn_types, read_scene

YOU: Final = "you"
"""Name of a player addressed as *you*."""
THEY: Final = "they"
"""Name of the other player, if one is addressed as *you*."""

_RANK_WORDS: Final = (*"0123456789", "skip", "reverse", "+2")


class CardWord(NamedTuple):
    """Card type within a phrase."""

    card_type: int


class ColorWord(NamedTuple):
    """Colour 0..3 within a phrase."""

    color: int


Phrase = list[str | CardWord | ColorWord]
"""Text whose cards and colours can be drawn in a separate style."""


def card_words(card_type: int) -> str:
    """Return a card's spoken name: `red 5`, `green skip`, `Wild+4`."""
    if card_type >= cards.WILD_TYPE:
        return "Wild" if card_type == cards.WILD_TYPE else "Wild+4"
    color, rank = divmod(card_type, cards.NUM_COLORED_RANKS)
    return f"{cards.COLOR_NAMES[color]} {_RANK_WORDS[rank]}"


def count_words(count: int) -> str:
    """Return a number of cards in words: `1 card`, `7 cards`."""
    return f"{count} card" if count == 1 else f"{count} cards"


def action_words(action: int) -> str:
    """Return an action in words: `red 5`, `Wild, declares green`, `draw`; for -1 `none yet`."""
    if action == NO_ACTION:
        return "none yet"
    if action == cards.DRAW:
        return "draw"
    if action == cards.CHALLENGE:
        return "challenge"
    card_type = int(cards.TYPE_OF_PLAY[action])
    declares = f", declares {cards.COLOR_NAMES[action // cards.NUM_RANKS]}" if card_type >= cards.WILD_TYPE else ""
    return card_words(card_type) + declares


def top_words(scene: Scene, *, notation: bool = False) -> str:
    """Return the top card: `red 5`, `Wild (green)`. `notation`: `R5`, `W (green)`."""
    color = f" ({cards.COLOR_NAMES[scene.color]})" if scene.top_type >= cards.WILD_TYPE else ""
    return _name(scene.top_type, notation=notation) + color


def start_words(scene: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """Describe the first position of a record."""
    return f"{capitalized(card_words(scene.top_type))} is on top. {capitalized(turn_words(scene, names))}."


def turn_words(scene: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """Return the player to move, or the result of the game, in words."""
    if scene.result is not None:
        return result_words(scene, names)
    return f"{names[scene.player]} {'to move, ' if scene.may_answer else ''}{due_words(scene)}"


def due_words(scene: Scene) -> str:
    """Return the task of the player to move: `to move`, `must draw 2`, or optional `2 to draw`."""
    if not scene.penalty:
        return "to move"
    return f"{scene.penalty} to draw" if scene.may_answer else f"must draw {scene.penalty}"


def why_not(view: Observation, playable: Collection[int], card_type: int, *, notation: bool = False) -> str:
    """Explain to the player to move why a card can't be played now, without a full stop.

    Args:
        view: Observation of that player.
        playable: Card types that can be played.
        card_type: Type of the card, not among those.
        notation: Names cards as `R5` instead of `red 5`.
    """
    scene, rules, name = read_scene(view), view.rules, _name(card_type, notation=notation)
    if card_type not in (scene.hands[scene.near].types or ()):
        return f"You don't hold {name}"
    if scene.penalty:
        if playable:
            like = _RANK_WORDS[cards.DRAW_TWO] if view.top_rank == cards.DRAW_TWO else _name(scene.top_type, notation=notation)
            return f"Only another {like} can be played on the penalty"
        if view.contested >= 0:
            return f"You can only draw {count_words(scene.penalty)} or challenge the Wild+4"
        return f"You must draw {count_words(scene.penalty)}"
    if scene.has_drawn:
        if not playable:
            return "You continue drawing until a card can be played"
        return f"Only {_name(int(view.drawn), notation=notation)}, just drawn, can be played"
    if card_type == cards.WILD_DRAW_FOUR_TYPE and rules.wild_draw_four == "no_color":
        return f"{name} needs a hand without {cards.COLOR_NAMES[scene.color]}"
    if card_type == cards.WILD_DRAW_FOUR_TYPE and rules.wild_draw_four == "last":
        return f"{name} can't be played while another card can"
    color, rank = cards.COLOR_OF_TYPE[card_type], cards.RANK_OF_TYPE[card_type]
    if rank >= cards.WILD or color == scene.color or rank == view.top_rank:
        return f"{capitalized(name)} can't be played under these rules"
    return f"{capitalized(name)} does not match {top_words(scene, notation=notation)}"


def result_words(scene: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """Return the result of the game in words. Raises ValueError if it is not over."""
    if scene.result is None:
        raise ValueError("the game is not over")
    if scene.winner == NO_WINNER:
        return scene.result
    return f"{names[scene.winner]} {_verb('win', names[scene.winner])}"


def move_phrase(before: Scene, after: Scene, names: tuple[str, str] = PLAYERS) -> Phrase:
    """Describe the move between two positions, seen by the same viewer, without a full stop."""
    mover = before.player
    who, hand = names[mover], after.hands[mover]
    phrase: Phrase = [f"{capitalized(who) if _is_plural(who) else who} "]
    # A move at the rules' step limit is described like any other.
    num_laid = 0
    has_ended = after.result is not None and not after.is_cut_off
    if after.last_action == cards.CHALLENGE:
        verdict = "and is wrong" if after.player == mover else "and is right"
        phrase.append(f"{_verb('challenge', who)} the Wild+4 {verdict if not _is_plural(who) else verdict.replace('is', 'are')}")
    elif after.last_action == cards.DRAW:
        if number := hand.count - before.hands[mover].count:
            drawn: Phrase = []
            for card_type in drawn_types(before.hands[mover], hand):
                drawn += [", ", CardWord(card_type)]
            phrase += [f"{_verb('draw', who)} ", *(drawn[1:] or ["a card" if number == 1 else count_words(number)])]
            phrase.append(" as the penalty" if before.penalty else "" if before.may_draw else ", unable to play")
        elif before.lays_drawn and not has_ended:
            num_laid = 1
            phrase += [f"{_verb('draw', who)} and {_verb('lay', who)} ", CardWord(after.top_type)]
        elif before.has_drawn and not has_ended:
            phrase.append("pass" if _is_plural(who) else "passes")
        else:
            phrase.append("can't draw, too few cards are left")
        if after.pile - num_laid < before.pile:
            phrase.append("; the pile goes back into the deck first")
    else:
        card_type = int(cards.TYPE_OF_PLAY[after.last_action])
        phrase += [f"{_verb('play', who)} ", CardWord(card_type)]
        if card_type >= cards.WILD_TYPE:
            phrase += [f" and {_verb('declare', who)} ", ColorWord(after.color)]
        if after.winner == mover:
            return [*phrase, f" and {_verb('win', who)}"]
        if hand.count == 1:
            phrase.append(", one card left")
        if after.player == mover and after.result is None:
            phrase.append(f", and {_verb('move', who)} again")
    return phrase if after.result is None else [*phrase, f"; {result_words(after, names)}"]


def move_words(before: Scene, after: Scene, names: tuple[str, str] = PLAYERS, *, notation: bool = False) -> str:
    """Return `move_phrase` as a plain sentence; `notation` names cards as `R5`."""

    def word(piece: str | CardWord | ColorWord) -> str:
        if isinstance(piece, CardWord):
            return _name(piece.card_type, notation=notation)
        return cards.COLOR_NAMES[piece.color] if isinstance(piece, ColorWord) else piece

    return capitalized("".join(map(word, move_phrase(before, after, names)))) + "."


_LEAST_SHARE: Final = 0.1
"""Less likely types of opponents are not named, except for the likeliest type."""


def plays_like(types: Mapping[str, float], *, is_prior: bool = False) -> str:
    """Return the opponent's likeliest types: `plays like linear 0.83, uniform 0.12`.

    These are the likeliest one and at most two more above the threshold; empty without types. `is_prior`: they are only assumed.
    """
    first, *others = sorted(types, key=lambda name: -types[name])[:3] or [""]
    named = [first, *(name for name in others if types[name] >= _LEAST_SHARE)]
    verb = "is assumed to play like" if is_prior else "plays like"
    return f"{verb} " + ", ".join(f"{name} {types[name]:.2f}" for name in named) if types else ""


def capitalized(words: str) -> str:
    """Capitalize the first letter and leave the others unchanged."""
    return words[:1].upper() + words[1:]


def _name(card_type: int, *, notation: bool) -> str:
    return cards.TYPE_NAMES[card_type] if notation else card_words(card_type)


def _verb(stem: str, who: str) -> str:
    return stem if _is_plural(who) else f"{stem}s"


def _is_plural(who: str) -> bool:
    return who in (YOU, THEY)
