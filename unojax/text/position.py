"""Whole positions as text; the grammar is in `unojax.text`."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from unojax import cards, game
from unojax.decks import is_int
from unojax.game import State
from unojax.observation import Observation
from unojax.rules import Rules, as_rules
from unojax.text.notation import (
    EMPTY,
    check_text,
    checked_counts,
    format_action,
    join_cards,
    parse_action,
    parse_counts,
    split_cards,
)

_POSITION_HELP: Final = (
    "'hand0/hand1/pile-under-the-top/deck top player penalty steps last result', as in 'B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 2 R+2 *'"
)
UNFINISHED, _WON_BY_0, _WON_BY_1, DRAWN, _TRUNCATED = _RESULTS = tuple("*01=T")
AWAY, DRAWN_CARD, CONTESTED = "~+?"
_MAX_STEP_COUNT: Final = 2**31 - 1

_legal_mask = jax.jit(game.legal_mask)


class _Turn(NamedTuple):
    """Facts of a turn; `drawn` and `contested` as in `State`."""

    player: int
    penalty: int
    drawn: int = game.NONE
    contested: int = game.NONE


def make_state(
    hand0: str,
    hand1: str,
    top: str,
    *,
    color: str | None = None,
    pile: str = "",
    deck: str | None = None,
    player: int = 0,
    penalty: int = 0,
    rules: Rules | str = Rules(),
    drawn: str | None = None,
    contested: str | None = None,
) -> State:
    """Return an unfinished game as if it began there: no steps so far, no last action.

    Args:
        hand0, hand1: The players' cards, as in `parse_cards`. Neither may be empty: a player without cards has won.
        top: Top card of the pile.
        color: Active colour, a name such as "red" or its letter; required for a wild top.
        pile: Other cards of the pile.
        deck: Cards left to draw. None: all other cards of `rules.deck`.
        player: Player to move next, 0 or 1.
        penalty: Cards that this player must draw: 2 for a +2 on top, 4 for a Wild+4, or 0 after the draw. More if penalties
            stack, with the other such cards in `pile`, or after a failed challenge.
        rules: Rules of the game, or the name of a preset. Hands, top, pile and deck must add up to its deck exactly.
        drawn: Card that the player has drawn in an unfinished turn.
        contested: Colour before the pending Wild+4, if it may be challenged.

    Raises:
        ValueError: If an argument is out of range, or they contradict each other.
    """
    rules, top_type = as_rules(rules), _one_card(top, "top")
    hands = np.stack([parse_counts(hand0, "hand0"), parse_counts(hand1, "hand1")])
    under = parse_counts(pile, "pile")
    top_rank, color_index = int(cards.RANK_OF_TYPE[top_type]), top_color(top_type, color)
    drawn_type = game.NONE if drawn is None else _one_card(drawn, "drawn")
    contested_color = game.NONE if contested is None else _color(contested, "contested")
    turn = _Turn(player, penalty, drawn_type, contested_color)
    state = _checked_state(hands, under, top_rank, color_index, turn, rules)
    if deck is not None:
        left, given = checked_counts(state.deck, "deck"), parse_counts(deck, "deck")
        if (wrong := np.flatnonzero(left != given)).size:
            t = wrong[0]
            raise ValueError(
                f"hands, top, pile and deck must add up to rules.deck: deck must hold {left[t]} x {cards.TYPE_NAMES[t]}, "
                f"got {given[t]}; pass deck=None for all that is left"
            )
    return state


def format_position(state: State) -> str:
    """Return a whole position as one line.

    Raises:
        ValueError: If it is not a state, a batch, or its cards are not those of its rules.
    """
    if not isinstance(state, State):
        raise ValueError(f"format_position takes a State, got {type(state).__name__}")
    rules = state.rules
    if np.shape(state.hands) != (2, cards.NUM_CARDS):
        raise ValueError(
            f"state must be a single one, with hands of shape (2, {cards.NUM_CARDS}), got {np.shape(state.hands)}; "
            "take one out of a batch with jax.tree.map(lambda x: x[i], states)"
        )
    state = jax.device_get(state)
    hand0, hand1, deck = (
        checked_counts(c, name) for c, name in zip((*state.hands, state.deck), ("hands[0]", "hands[1]", "deck"), strict=True)
    )
    under = checked_counts(state.pile, "pile")
    if not np.array_equal(hand0 + hand1 + deck + under, rules.deck):
        raise ValueError("the state's cards do not add up to the deck of its rules")
    top_type = cards.card_type(int(state.color), int(state.top_rank))
    if under[top_type] == 0 and not rules.reshuffle_top:
        raise ValueError(f"the state's top card {cards.TYPE_NAMES[top_type]} is not in its pile")
    if state.truncated:
        result = _TRUNCATED
    elif state.terminated:
        result = DRAWN if state.winner == game.NO_WINNER else str(int(state.winner))
    else:
        result = UNFINISHED
    drawn = "" if state.drawn < 0 else cards.TYPE_NAMES[int(state.drawn)]
    return write_line(state, (join_cards(hand0), join_cards(hand1)), int(deck.sum()), drawn, int(state.step_count), result)


def write_line(position: State | Observation, hands: tuple[str, str], deck: int, drawn: str, steps: int, result: str) -> str:
    """Return a position on one line, from its public fields and these texts; `drawn` is empty if no card has been drawn."""
    under, top_type = cards.count_types(position.pile).astype(int), cards.card_type(int(position.color), int(position.top_rank))
    away = position.rules.reshuffle_top and under[top_type] == 0
    under[top_type] -= not away
    places = "/".join([*hands, join_cards(under), str(deck)])
    top = (AWAY if away else "") + format_action(int(position.color) * cards.NUM_RANKS + int(position.top_rank))
    player = str(int(position.current_player)) + (DRAWN_CARD + drawn if drawn else "")
    contested = "" if position.contested < 0 else CONTESTED + cards.COLOR_LETTERS[int(position.contested)]
    last = EMPTY if position.last_action == game.NO_ACTION else format_action(int(position.last_action))
    return f"{places} {top} {player} {int(position.penalty)}{contested} {steps} {last} {result}"


def parse_position(text: str, *, rules: Rules | str = Rules()) -> State:
    """Read a position of `format_position`, or one written by hand.

    Raises:
        ValueError: If it has another form, or is impossible under the rules.
    """
    check_text(text, "position", "B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 2 R+2 *")
    fields = text.split()
    places = fields[0].split("/") if fields else []
    if len(fields) != 7 or len(places) != 4:
        raise ValueError(f"position {text!r} must have seven fields, the first of four places: {_POSITION_HELP}")
    try:
        return read_position(places, *fields[1:], rules=as_rules(rules))
    except ValueError as error:
        raise ValueError(f"position {text!r}: {error}") from error


def read_position(
    places: list[str], top: str, player: str, penalty: str, steps: str, last: str, result: str, *, rules: Rules
) -> State:
    """Read the parts of a position.

    Raises:
        ValueError: As in `parse_position`.
    """
    hand0, hand1, under = (
        split_cards(place, name) for place, name in zip(places[:3], ("hand of player 0", "hand of player 1", "pile"), strict=True)
    )
    away, top_action = top.startswith(AWAY), parse_action(top.removeprefix(AWAY))
    if top_action >= cards.DRAW:
        raise ValueError(f"the top must be a card, got {top!r}")
    if away and not rules.reshuffle_top:
        raise ValueError(f"the top card is in the deck ({top!r}) only under rules with reshuffle_top")
    color, top_rank = divmod(top_action, cards.NUM_RANKS)
    who_moves, has_drawn, drawn = player.partition(DRAWN_CARD)
    penalty, has_contested, contested = penalty.partition(CONTESTED)
    who, due, num_steps = (parse_number(n, name) for n, name in ((who_moves, "player"), (penalty, "penalty"), (steps, "steps")))
    turn = _Turn(
        who,
        due,
        _one_card(drawn, "the card drawn") if has_drawn else game.NONE,
        _color(contested, "the contested colour") if has_contested else game.NONE,
    )
    last_action = game.NO_ACTION if last == EMPTY else parse_action(last)
    hands = np.stack([hand0, hand1])
    past = {"step_count": num_steps, "last_action": last_action, "result": result.upper()}
    state = _checked_state(hands, under, top_rank, color, turn, rules, away=away, **past)
    left = int(np.asarray(state.deck).sum())
    if places[3] != "*" and parse_number(places[3], "deck") != left:
        raise ValueError(
            f"the deck must hold the {left} cards that hands and pile leave of rules.deck, got {places[3]}; write * for all "
            "that is left, or pass the rules that the game is played under"
        )
    return state


def _checked_state(
    hands: np.ndarray,
    under: np.ndarray,
    top_rank: int,
    color: int,
    turn: _Turn,
    rules: Rules,
    *,
    away: bool = False,
    step_count: int = 0,
    last_action: int = game.NO_ACTION,
    result: str = UNFINISHED,
) -> State:
    """Return the state with int[2, 54] hands and int[54] pile under the top, if possible."""
    player, penalty = turn.player, turn.penalty
    if not is_int(player) or player not in (0, 1):
        raise ValueError(f"player must be 0 or 1, got {player!r}")
    pile = under.copy()
    pile[cards.card_type(color, top_rank)] += not away
    deck = np.asarray(rules.deck) - hands.sum(0) - pile
    if (short := np.flatnonzero(deck < 0)).size:
        t = short[0]
        raise ValueError(
            f"hands, top and pile hold {rules.deck[t] - deck[t]} x {cards.TYPE_NAMES[t]}, but rules.deck has {rules.deck[t]}"
        )
    # If no draw is possible, the pile is back in the deck, with the cards played on the pending penalty.
    lain = pile + deck if result in (_WON_BY_0, _WON_BY_1, DRAWN) else pile
    allowed = _penalties(top_rank, lain, rules)
    if not is_int(penalty) or penalty not in allowed:
        name, wanted, hint = cards.TYPE_NAMES[cards.card_type(color, top_rank)], " or ".join(map(str, allowed)), ""
        if rules.stacking and is_int(penalty) and penalty > max(allowed) > 0:
            hint = f"; they add up by the cards on the pile: name every other {'+2' if top_rank < cards.WILD else 'W+4'} there"
        raise ValueError(f"penalty must be {wanted} under a top card {name} (2 needs a +2, 4 a W+4), got {penalty!r}{hint}")
    if last_action >= rules.num_actions:
        raise ValueError(f"there is no {format_action(last_action)} under these rules, for the last action")
    if step_count > _MAX_STEP_COUNT:
        raise ValueError(f"steps must be at most {_MAX_STEP_COUNT}, got {step_count}")
    fields: dict[str, Any] = {
        "hands": cards.onehot_of(hands),
        "deck": cards.onehot_of(deck),
        "pile": cards.onehot_of(pile),
        "top_rank": np.int8(top_rank),
        "color": np.int8(color),
        "current_player": np.int8(player),
        "penalty": np.int8(penalty),
        "terminated": np.bool_(result in (_WON_BY_0, _WON_BY_1, DRAWN)),
        "truncated": np.bool_(result == _TRUNCATED),
        "winner": np.int8(int(result) if result in (_WON_BY_0, _WON_BY_1) else game.NO_WINNER),
        "rewards": np.zeros(2, np.float32),
        "step_count": np.int32(step_count),
        "error": np.uint8(0),
        "last_action": np.int8(last_action),
        "drawn": np.int8(turn.drawn),
        "contested": np.int8(turn.contested),
    }
    state = State(**fields, rules=rules)
    _check_result(state, result)
    _check_turn(state)
    return jax.device_put(state)


def _check_result(state: State, result: str) -> None:
    """Raise ValueError if a game with these cards can't be unfinished, or end in this way."""
    if result not in _RESULTS:
        raise ValueError(f"result must be * (unfinished), 0 or 1 (the winner), = (drawn) or T (truncated), got {result!r}")
    steps, limit = int(state.step_count), state.rules.max_steps
    if result == _TRUNCATED and steps != limit:
        raise ValueError(f"a game is truncated at rules.max_steps={limit} steps exactly, or never if None; got {steps} steps")
    if limit is not None and steps > limit - (result == UNFINISHED):
        raise ValueError(f"with rules.max_steps={limit} a game with {steps} steps is over, got result {result!r}")

    player, penalty = int(state.current_player), int(state.penalty)
    sizes = state.hands.sum(-1)
    if not sizes.all():
        winner = int(sizes.argmin())
        if sizes.any() and result == str(winner) and player == winner and penalty == 0:
            return
        raise ValueError(
            f"the hands hold {sizes[0]} and {sizes[1]} cards: a player without cards has won, as the last who moved and with no "
            f"penalty; got result {result!r}, player {player} and penalty {penalty}; unfinished games need a card in both hands"
        )
    if result in (UNFINISHED, _TRUNCATED):
        return

    by_count = DRAWN if sizes[0] == sizes[1] else str(int(sizes.argmin()))
    if result != by_count:
        raise ValueError(
            f"where no draw is possible, fewer cards win: hands of {sizes[0]} and {sizes[1]} cards have result {by_count}, "
            f"got {result}"
        )
    deck_count, pile_count, due = int(state.deck.sum()), int(state.pile.sum()), max(penalty, 1)
    if steps == 0 and state.rules.start_effects == "keep_turn":
        due = max(due, cards.DRAW_OF_RANK[int(state.top_rank)])
    mask = _legal_mask(dataclasses.replace(state, terminated=np.bool_(False)))
    # With `draw_until_playable` the mask is no evidence: it depends on the drawn card, which a finished game does not store.
    may_draw = bool(mask[cards.DRAW]) or state.rules.draw_until_playable
    if deck_count >= due or pile_count > (not state.rules.reshuffle_top) or not may_draw:
        raise ValueError(
            f"result {result} with cards in both hands needs a draw that is due and impossible, and the pile back in the deck: "
            f"got a draw of {due} from a deck of {deck_count}, {pile_count - 1} cards under the top one"
            + ("" if may_draw else f", and player {player} can play")
        )


def _penalties(top_rank: int, pile: np.ndarray, rules: Rules) -> tuple[int, ...]:
    """Return the penalties that can be pending on a pile int[54]."""
    of_card = cards.DRAW_OF_RANK[top_rank]
    if not of_card:
        return (0,)
    added_up = max(int(pile[cards.RANK_OF_TYPE == top_rank].sum()), 1) if rules.stacking else 1
    penalties = [of_card * n for n in range(1, added_up + 1)]
    if rules.wild_draw_four == "challenge" and top_rank == cards.WILD_DRAW_FOUR:
        penalties += [penalty + 2 for penalty in penalties]
    return (0, *sorted(penalties))


def _check_turn(state: State) -> None:
    """Raise ValueError if the rules exclude a position's drawn card or contested colour."""
    rules, player, penalty = state.rules, int(state.current_player), int(state.penalty)
    if state.contested >= 0 and not (
        rules.wild_draw_four == "challenge" and state.top_rank == cards.WILD_DRAW_FOUR and penalty and penalty % 4 == 0
    ):
        raise ValueError(
            "a contested colour needs rules with challenges, a Wild+4 on top and its penalty of 4 cards (or a multiple) pending, "
            f"got wild_draw_four={rules.wild_draw_four!r} and penalty {penalty}"
        )
    if state.drawn < 0:
        return
    name = cards.TYPE_NAMES[int(state.drawn)]
    if not cards.count_types(state.hands[player])[int(state.drawn)]:
        raise ValueError(f"player {player} has drawn {name} and must hold it")
    may_play, goes_on = rules.play_drawn == "may", rules.draw_until_playable
    plays = int(_legal_mask(state).sum()) > 1
    if penalty or not (plays if may_play and not goes_on else may_play or goes_on) or state.terminated:
        raise ValueError(
            f"the turn can't continue after {name} was drawn: that needs rules with play_drawn='may' and a card that may be "
            "played, or draw_until_playable and one that may not, and no penalty"
        )


def _one_card(text: str, what: str) -> int:
    """Read the type of a single card. Raises ValueError, which calls it `what`."""
    counts = parse_counts(text, what)
    if counts.sum() != 1:
        raise ValueError(f"{what} must be exactly one card, got {text!r}")
    return int(counts.argmax())


def _color(text: str, what: str) -> int:
    """Read a colour, a name or a letter. Raises ValueError, which calls it `what`."""
    word = text.strip().lower() if isinstance(text, str) else text
    matches = [c for c, long in enumerate(cards.COLOR_NAMES) if word in (long, long[0])]
    if not matches:
        raise ValueError(f"{what} must be one of {', '.join(cards.COLOR_NAMES)} (or the letter) or None, got {text!r}")
    return matches[0]


def top_color(top_type: int, color: str | None) -> int:
    """Return the active colour 0..3 for a top card and the caller's colour.

    Raises:
        ValueError: If the colour is invalid, not the card's, or missing for a wild.
    """
    own = int(cards.COLOR_OF_TYPE[top_type])
    name = cards.TYPE_NAMES[top_type]
    if color is None and own < 0:
        raise ValueError(f"color must be one of {', '.join(cards.COLOR_NAMES)} for the wild top card {name}, got None")
    if color is None:
        return own
    said = _color(color, "color")
    if own not in (-1, said):
        raise ValueError(f"color of the top card {name} is {cards.COLOR_NAMES[own]}, got {color!r}; leave color out")
    return said


def parse_number(text: str, what: str) -> int:
    """Read a number. Raises ValueError, which calls it `what`."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{what} must be a number, got {text!r}")
    return int(text)
