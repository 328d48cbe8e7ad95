"""Observations as text; the notation is that of `unojax.text`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import jax
import numpy as np
from jax import Array

from unojax import cards, game
from unojax.observation import Observation, check_is_observation, observe, winner_of
from unojax.rules import Rules, as_rules
from unojax.text.notation import (
    EMPTY,
    check_text,
    checked_counts,
    format_action,
    format_cards,
    join_cards,
    names_of,
    parse_action,
    parse_cards,
    parse_counts,
    split_cards,
)
from unojax.text.position import (
    AWAY,
    CONTESTED,
    DRAWN,
    DRAWN_CARD,
    UNFINISHED,
    parse_number,
    read_position,
    top_color,
    write_line,
)

_OBSERVATION_HELP: Final = (
    "write a position with the number of the other player's cards in place of one hand, as in 'B7,W/3/R5,Y5/* R+2 1 2 2 R+2 *', "
    "or the lines of format_observation"
)
_OBSERVATION_LINES: Final = re.compile(
    r"player (?P<observer>[01]): player (?P<player>[01]) to move(?P<has_drawn>, has drawn(?: (?P<drawn>\w\S*))?)?"
    r"(?:, must draw (?P<penalty>\d+))?(?:, may challenge \((?P<contested>\w+) before\))? "
    r"top (?P<top>\S+) \((?P<color>\w+)\) hand (?P<hand>.+) opponent (?P<other>\d+) cards? deck (?P<deck>\d+) cards? "
    r"pile (?P<pile>.+) last (?P<last>\S+)"
)

HIDDEN_CARD: Final = "?"
"""A card that the other player has drawn in its own unfinished turn."""
_PENALTY: Final = re.compile(r"(?P<due>\d+)(\?(?P<before>[A-Za-z]+))?", re.ASCII)
_observe = jax.jit(observe)


def format_observation(observation: Observation) -> str:
    """Return one player's view in a few lines for people, readable by `parse_observation`.

    A top card that was reshuffled into the deck is marked, `~R5`.

    Raises:
        ValueError: If it is not an observation, or a batch.
    """
    check_is_observation(observation, "format_observation")
    if np.shape(observation.hand) != (cards.NUM_CARDS,):
        raise ValueError(
            f"observation must be a single one, with hand of shape ({cards.NUM_CARDS},), got {np.shape(observation.hand)}; "
            "take one out of a batch with jax.tree.map(lambda x: x[i], observations)"
        )
    seen = jax.device_get(observation)
    player, last = int(seen.player), int(seen.last_action)
    pile = checked_counts(seen.pile, "pile")
    top_type, color = cards.card_type(int(seen.color), int(seen.top_rank)), cards.COLOR_NAMES[int(seen.color)]
    top = ("" if pile[top_type] else AWAY) + cards.TYPE_NAMES[top_type]
    turn = "the game is over" if seen.terminated else f"player {int(seen.current_player)} to move"
    if seen.has_drawn:
        turn += ", has drawn" + ("" if seen.drawn < 0 else f" {cards.TYPE_NAMES[int(seen.drawn)]}")
    if seen.penalty:
        turn += f", must draw {int(seen.penalty)}"
    if seen.contested >= 0:
        turn += f", may challenge ({cards.COLOR_NAMES[int(seen.contested)]} before)"
    return "\n".join(
        [
            f"player {player}: {turn}",
            f"  top       {top} ({color})",
            f"  hand      {format_cards(seen.hand) or EMPTY}",
            f"  opponent  {_number(seen.opponent_count)}",
            f"  deck      {_number(seen.deck_count)}",
            f"  pile      {' '.join(names_of(pile)) or EMPTY}",
            f"  last      {EMPTY if last == game.NO_ACTION else format_action(last)}",
        ]
    )


def format_view(observation: Observation, *, steps: int = 0) -> str:
    """Return one player's view as one line, readable by `parse_observation`.

    Raises:
        ValueError: If it is not an observation, or a batch.
    """
    format_observation(observation)  # checks it
    seen = jax.device_get(observation)
    mine, theirs = join_cards(cards.count_types(seen.hand)), str(int(seen.opponent_count))
    drawn = "" if not seen.has_drawn else HIDDEN_CARD if seen.drawn < 0 else cards.TYPE_NAMES[int(seen.drawn)]
    result = UNFINISHED
    if seen.terminated:
        winner = winner_of(seen)
        result = DRAWN if winner == game.NO_WINNER else str(winner)
    hands = (mine, theirs) if seen.player == 0 else (theirs, mine)
    return write_line(seen, hands, int(seen.deck_count), drawn, steps, result)


def _number(count: Array) -> str:
    return "1 card" if int(count) == 1 else f"{int(count)} cards"


def make_observation(
    hand: str,
    top: str,
    opponent: int | str,
    *,
    pile: str = "",
    penalty: int | str = 0,
    opponent_begins: bool = False,
    rules: Rules | str = Rules(),
) -> Observation:
    """Return the observation of player 0 from a description by a person at a table.

    Args:
        hand: The player's cards: `R1 RS W`.
        top: The top card, `R0`; a wild card with its declared colour, `W:B`.
        opponent: Number of cards in the other hand.
        pile: Other known cards on the pile; all others count as unseen.
        penalty: Cards that the player to move must draw now: 2 or 4, or more if penalties stack, with the other +2 or Wild+4 in
            `pile`. For a Wild+4 that may be challenged, add the colour before it, `4?R`. 0 or nothing: none.
        opponent_begins: Whether the other player moves next.
        rules: Rules of the game, or the name of a preset.

    Raises:
        ValueError: If a card or number can't be read, or the position is impossible under the rules.
    """
    rules = as_rules(rules)
    if not isinstance(opponent_begins, bool | np.bool_):
        raise ValueError(f"opponent_begins must be True or False, got {opponent_begins!r}")
    top = read_top(top)
    places = [read_cards(hand, "hand"), str(opponent), read_cards(pile, "pile"), "*"]
    return _read(places, [top, str(int(opponent_begins)), _pending(penalty, top, rules), "0", EMPTY, UNFINISHED], 0, rules)


def read_top(top: str) -> str:
    """Return the top card in the notation of positions. Raises ValueError if it is invalid."""
    check_text(top, "top", "R0")
    name = top.strip().upper()
    if name in ("W", "W+4"):
        raise ValueError(f"top must say which colour was declared, as in {name}:B, got {top!r}")
    try:
        is_card = parse_action(name) < cards.DRAW
    except ValueError as error:
        raise ValueError(f"top: {error}") from None
    if not is_card:
        raise ValueError(f"top must be a card, got {top!r}")
    return name


def read_cards(text: str, what: str = "hand") -> str:
    """Return cards in the notation of positions. Raises ValueError, which calls them `what`."""
    check_text(text, what, "R5 YS, W+4")
    names = [word.upper() for word in re.split(r"[\s,]+", text.strip()) if word]
    try:
        parse_cards(" ".join(names))
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return ",".join(names) or EMPTY


def _pending(penalty: int | str, top: str, rules: Rules) -> str:
    """Return a penalty in the notation of positions. Raises ValueError if it is invalid."""
    text = str(penalty).strip() or "0"
    if (found := _PENALTY.fullmatch(text)) is None:
        raise ValueError(
            "penalty must be a number of cards, of a Wild+4 that may be challenged with the colour before it, as in 4?R, "
            f"got {penalty!r}"
        )
    due, can_be_challenged = int(found["due"]), rules.wild_draw_four == "challenge" and top.startswith("W+4")
    # A failed challenge adds two to the penalty of the cards.
    is_of_cards = due > 0 and due % cards.DRAW_OF_RANK[cards.WILD_DRAW_FOUR] == 0
    if can_be_challenged and is_of_cards and found["before"] is None:
        raise ValueError(
            f"penalty must say which colour was active before the Wild+4, as in {due}?R, since it may be challenged, got "
            f"{penalty!r}; if it can't be any more, give a position"
        )
    return text


def parse_observation(text: str, *, rules: Rules | str = Rules()) -> Observation:
    """Read one player's view of an unfinished game.

    Args:
        text: The lines of `format_observation`, or a line of `format_position` with the number of the other player's cards
            instead of one hand, whose steps are ignored.
        rules: Rules of the game, or the name of a preset.

    Raises:
        ValueError: If it has neither form, the position is impossible under the rules, or the game is over.
    """
    rules = as_rules(rules)
    check_text(text, "observation", "B7,W/3/R5,Y5/* R+2 1 2 2 R+2 *")
    words = " ".join(text.split())
    try:
        lines = _OBSERVATION_LINES.fullmatch(words)
        places, fields, observer = _split_view(words.split(" ")) if lines is None else _split_lines(lines)
        seen = _read(places, fields, observer, rules)
        hides_card = lines is not None and lines["has_drawn"] is not None and lines["drawn"] is None
        hides_card |= lines is None and words.split(" ")[2].endswith(DRAWN_CARD + HIDDEN_CARD)
        if hides_card and (seen.current_player == observer or not rules.keeps_account):
            raise ValueError("who has drawn and still moves is the other player, under rules with such turns, or knows the card")
    except ValueError as error:
        raise ValueError(f"observation {text!r}: {error}") from error
    return replace(seen, has_drawn=np.bool_(True)) if hides_card else seen


def _read(places: list[str], fields: list[str], observer: int, rules: Rules) -> Observation:
    places[1 - observer] = _some_hand(places, observer, fields, rules)
    return _observe(read_position(places, *fields, rules=rules), np.int32(observer))


def _split_view(fields: list[str]) -> tuple[list[str], list[str], int]:
    """Split a line into four places, six fields, and the player whose hand is shown."""
    places = fields[0].split("/")
    is_hidden = [place.isdigit() for place in places[:2]]
    if len(fields) != 7 or len(places) != 4 or sum(is_hidden) != 1:
        raise ValueError(_OBSERVATION_HELP)
    if fields[-1] != UNFINISHED:
        raise ValueError(f"the game must be unfinished, *, got result {fields[-1]!r}")
    top, player, *others = fields[1:]
    return places, [top, player.removesuffix(DRAWN_CARD + HIDDEN_CARD), *others], is_hidden.index(False)


def _split_lines(lines: re.Match[str]) -> tuple[list[str], list[str], int]:
    """Do the same with the lines for people, and remove the top card from the pile."""
    top, observer = lines["top"].removeprefix(AWAY), int(lines["observer"])
    away = "" if top == lines["top"] else AWAY
    top_counts, under = parse_counts(top, "top"), split_cards(lines["pile"], "pile")
    if top_counts.sum() != 1 or not (away or (under >= top_counts).all()):
        raise ValueError(f"the top must be a card of the pile, or one that has gone back into the deck, ~{top}; got {top!r}")
    top_type = int(top_counts.argmax())
    color = top_color(top_type, lines["color"])
    top_action = away + format_action(color * cards.NUM_RANKS + int(cards.RANK_OF_TYPE[top_type]))
    hands = (lines["hand"].replace(" ", ","), lines["other"])
    places = [*hands[:: 1 - 2 * observer], join_cards(under if away else under - top_counts), lines["deck"]]
    player = lines["player"] + ("" if lines["drawn"] is None else DRAWN_CARD + lines["drawn"])
    penalty = lines["penalty"] or "0"
    if lines["contested"] is not None:
        penalty += CONTESTED + lines["contested"]
    return places, [top_action, player, penalty, "0", lines["last"], UNFINISHED], observer


def _some_hand(places: list[str], observer: int, fields: list[str], rules: Rules) -> str:
    """Return a possible hand of the other player, with the card written as just drawn."""
    top, (mover, _, drawn) = fields[0], fields[1].partition(DRAWN_CARD)
    hand, under = (
        split_cards(place, name) for place, name in ((places[observer], f"hand of player {observer}"), (places[2], "pile"))
    )
    unseen = np.asarray(rules.deck) - hand - under
    if not top.startswith(AWAY) and (top_action := parse_action(top)) < cards.DRAW:
        unseen[cards.card_type(*divmod(top_action, cards.NUM_RANKS))] -= 1
    names, number = names_of(np.maximum(unseen, 0)), parse_number(places[1 - observer], "the other player's cards")
    if number > len(names):
        raise ValueError(f"the other player can't hold {number} cards: {len(names)} are neither in the own hand nor in the pile")
    if mover == str(1 - observer) and drawn.upper() in names:
        names.insert(0, names.pop(names.index(drawn.upper())))
    return ",".join(names[:number]) or EMPTY
