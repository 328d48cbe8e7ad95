"""Cards, actions and whole positions as text. Host only: strings and NumPy arrays, and `ValueError` for what can't be read.

Cards are written `R5`, `YS` (skip), `BR` (reverse), `G+2`, `W`, `W+4`. An action is written as the card played, for `W` and
`W+4` with the declared colour (`W:R`, `W+4:B`), or `draw`. Reading ignores case.

A position is one line of seven fields, in the spirit of chess's FEN:

    position = places " " top " " player " " penalty " " steps " " last " " result
    places   = cards "/" cards "/" cards "/" deck       hand of player 0, of player 1, the pile under its top card, the deck
    cards    = card { "," card } | "-"                  sorted by type; "-" is the empty set
    deck     = number | "*"                             how many cards it holds: all that the others leave of the game's
    top      = action other than draw                   the top card, a wild with the active colour
    player   = "0" | "1"                                who moves next; in a finished game, who moved last
    penalty  = "0" | "2" | "4"                          cards that the player must draw
    steps    = number                                   steps so far
    last     = action | "-"                             the last legal action; "-" before the first
    result   = "*" | "0" | "1" | "=" | "T"              unfinished, won by 0, won by 1, drawn, truncated by `rules.max_steps`

For example, two cards against three, and player 1 must draw two for the red +2:

    B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *

The deck is no more than its size because the rules and the other places tell what is in it; the size then shows rules that don't
fit, and `*` is for lines written by hand. Every field of a `State` comes back from its line except `rewards` and `error`, which
describe the transitions before and come back as 0.

What one player sees of an unfinished game is written in the same way (`parse_observation`), the other hand as the number of its
cards:

    B7,W/3/R5,Y5/100 R+2 1 2 2 R+2 *
"""

from __future__ import annotations

import re
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from unojax import cards, game
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules, is_int

_TYPE_OF_NAME: Final = {name: t for t, name in enumerate(cards.TYPE_NAMES)}
_CARD_HELP: Final = (
    "a card is a colour R, Y, B or G and 0-9, S (skip), R (reverse) or +2, as in R5, YS, BR, G+2; or W or W+4 without a colour"
)
_ACTION_HELP: Final = "an action is a card (R5, YS, BR, G+2), a wild with the declared colour (W:R, W+4:B), or draw"
_POSITION_HELP: Final = (
    "'hand0/hand1/pile-under-the-top/deck top player penalty steps last result', as in 'B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 2 R+2 *'"
)
_OBSERVATION_HELP: Final = (
    "write a position with the number of the other player's cards in place of one hand, as in 'B7,W/3/R5,Y5/* R+2 1 2 2 R+2 *', "
    "or the lines of format_observation"
)
_OBSERVATION_LINES: Final = re.compile(
    r"player (?P<observer>[01]): player (?P<player>[01]) to move(?:, must draw (?P<penalty>\d+))? "
    r"top (?P<top>\S+) \((?P<color>\w+)\) hand (?P<hand>.+) opponent (?P<other>\d+) cards deck (?P<deck>\d+) cards "
    r"pile (?P<pile>.+) last (?P<last>\S+)"
)
_EMPTY: Final = "-"
_UNFINISHED, _WON_BY_0, _WON_BY_1, _DRAWN, _TRUNCATED = _RESULTS = tuple("*01=T")
_PENALTY_OF_RANK: Final = {cards.DRAW_TWO: 2, cards.WILD_DRAW_FOUR: 4}
_MAX_STEP_COUNT: Final = 2**31 - 1

_observe = jax.jit(observe, static_argnames="rules")


def parse_cards(text: str) -> np.ndarray:
    """Read cards separated by blanks or commas, `"R5 YS, W+4"`: canonical one-hot, bool[108]. The empty text is the empty set.

    Raises:
        ValueError: a name is unknown, or a card comes more often than there are copies.
    """
    return _onehot(_parse_counts(text))


def format_cards(onehot: ArrayLike) -> str:
    """Write a set of cards, sorted by type: `"R5 YS W+4"`. The empty set is the empty text.

    Args:
        onehot: canonical one-hot, bool[108].

    Raises:
        ValueError: it is anything else.
    """
    return " ".join(_names(_counts(onehot, "cards")))


def parse_action(text: str) -> int:
    """Read an action: `"R5"`, `"W:R"`, `"draw"` to 0..60.

    Raises:
        ValueError: it is none; a wild without a declared colour, or a coloured card with one.
    """
    name, colon, letter = text.strip().upper().partition(":")
    if name == "DRAW" and not colon:
        return cards.DRAW
    if name not in _TYPE_OF_NAME:
        raise ValueError(f"unknown action {text!r}: {_ACTION_HELP}")
    color, rank = int(cards.COLOR_OF_TYPE[_TYPE_OF_NAME[name]]), int(cards.RANK_OF_TYPE[_TYPE_OF_NAME[name]])
    if color >= 0:
        if colon:
            raise ValueError(f"action {text!r} declares a colour for a coloured card, which has its own: write {name}")
        return color * cards.NUM_RANKS + rank
    if len(letter) != 1 or letter not in cards.COLOR_LETTERS:
        choices = ", ".join(f"{name}:{c}" for c in cards.COLOR_LETTERS)
        raise ValueError(f"action {text!r} must declare one of the four colours: write one of {choices}")
    return cards.COLOR_LETTERS.index(letter) * cards.NUM_RANKS + rank


def format_action(action: int) -> str:
    """Write an action 0..60 as `parse_action` reads it.

    Raises:
        ValueError: it is not in that range.
    """
    if not is_int(action) or not 0 <= action < cards.NUM_ACTIONS:
        raise ValueError(f"action must be an integer in [0, {cards.DRAW}], got {action!r}")
    if action == cards.DRAW:
        return "draw"
    color, rank = divmod(int(action), cards.NUM_RANKS)
    letter, name = cards.COLOR_LETTERS[color], cards.RANK_NAMES[rank]
    return f"{name}:{letter}" if rank >= cards.WILD else letter + name


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
    rules: Rules = Rules(),
) -> State:
    """Set up an unfinished game as if it began there: no steps so far, no last action.

    Args:
        hand0, hand1: the players' cards, as `parse_cards` reads them. Neither may be empty: a player without cards has won.
        top: the top card of the pile.
        color: active colour, a name such as "red" or its letter. Needed for a wild top; else the top card's own or None.
        pile: the other cards of the pile, those under the top card.
        deck: the cards left to draw; None: all that is left of `rules.deck`.
        player: who moves next, 0 or 1.
        penalty: cards that this player must draw: 2 for a +2 on top, 4 for a Wild+4, or 0 if they have been drawn.
        rules: what the game is played under. Hands, top, pile and deck must add up to `rules.deck` exactly.

    Raises:
        ValueError: an argument is out of its range, or they contradict each other.
    """
    top_counts = _parse_counts(top, "top")
    if top_counts.sum() != 1:
        raise ValueError(f"top must be exactly one card, got {top!r}")
    top_type = int(top_counts.argmax())
    hands = np.stack([_parse_counts(hand0, "hand0"), _parse_counts(hand1, "hand1")])
    under = _parse_counts(pile, "pile")
    state = _checked_state(
        hands=hands,
        under=under,
        top_rank=int(cards.RANK_OF_TYPE[top_type]),
        color=_top_color(top_type, color),
        player=player,
        penalty=penalty,
        rules=rules,
    )
    if deck is not None:
        left, given = _counts(state.deck, "deck"), _parse_counts(deck, "deck")
        if (wrong := np.flatnonzero(left != given)).size:
            t = wrong[0]
            raise ValueError(
                f"hands, top, pile and deck must add up to rules.deck: deck must hold {left[t]} x {cards.TYPE_NAMES[t]}, "
                f"got {given[t]}; pass deck=None for all that is left"
            )
    return state


def format_position(state: State, *, rules: Rules = Rules()) -> str:
    """Write a whole position as one line, see the module's grammar.

    Raises:
        ValueError: it is a batch of states, or a game with another deck than `rules.deck`.
    """
    if np.shape(state.hands) != (2, cards.NUM_CARDS):
        raise ValueError(
            f"state must be a single one, with hands of shape (2, {cards.NUM_CARDS}), got {np.shape(state.hands)}; "
            "take one out of a batch with jax.tree.map(lambda x: x[i], states)"
        )
    state = jax.device_get(state)
    hand0, hand1, deck = (
        _counts(c, name) for c, name in zip((*state.hands, state.deck), ("hands[0]", "hands[1]", "deck"), strict=True)
    )
    under = _counts(state.pile, "pile")
    if not np.array_equal(hand0 + hand1 + deck + under, rules.deck):
        raise ValueError("the state's cards do not add up to rules.deck; pass the rules that the game is played under")
    top_type = _type_of(int(state.color), int(state.top_rank))
    if under[top_type] == 0:
        raise ValueError(f"the state's top card {cards.TYPE_NAMES[top_type]} is not in its pile")
    under[top_type] -= 1
    if state.truncated:
        result = _TRUNCATED
    elif state.terminated:
        result = _DRAWN if state.winner == game.NO_WINNER else str(int(state.winner))
    else:
        result = _UNFINISHED
    places = "/".join([*(",".join(_names(c)) or _EMPTY for c in (hand0, hand1, under)), str(int(deck.sum()))])
    top = format_action(int(state.color) * cards.NUM_RANKS + int(state.top_rank))
    last = _EMPTY if state.last_action == game.NO_ACTION else format_action(int(state.last_action))
    return f"{places} {top} {int(state.current_player)} {int(state.penalty)} {int(state.step_count)} {last} {result}"


def parse_position(text: str, *, rules: Rules = Rules()) -> State:
    """Read a position that `format_position` wrote, or one written by hand.

    Raises:
        ValueError: it is not of that form, or no game under these rules can stand like this.
    """
    fields = text.split()
    places = fields[0].split("/") if fields else []
    if len(fields) != 7 or len(places) != 4:
        raise ValueError(f"position {text!r} must have seven fields, the first of four places: {_POSITION_HELP}")
    try:
        return _read_position(places, *fields[1:], rules=rules)
    except ValueError as error:
        raise ValueError(f"position {text!r}: {error}") from error


def _read_position(
    places: list[str], top: str, player: str, penalty: str, steps: str, last: str, result: str, *, rules: Rules
) -> State:
    hand0, hand1, under = (
        _parse_counts("" if place == _EMPTY else place, name)
        for place, name in zip(places[:3], ("hand of player 0", "hand of player 1", "pile"), strict=True)
    )
    top_action = parse_action(top)
    if top_action == cards.DRAW:
        raise ValueError("the top must be a card, got 'draw'")
    color, top_rank = divmod(top_action, cards.NUM_RANKS)
    state = _checked_state(
        hands=np.stack([hand0, hand1]),
        under=under,
        top_rank=top_rank,
        color=color,
        player=_number(player, "player"),
        penalty=_number(penalty, "penalty"),
        step_count=_number(steps, "steps"),
        last_action=game.NO_ACTION if last == _EMPTY else parse_action(last),
        result=result.upper(),
        rules=rules,
    )
    left = int(state.deck.sum())
    if places[3] != "*" and _number(places[3], "deck") != left:
        raise ValueError(
            f"the deck must hold the {left} cards that hands and pile leave of rules.deck, got {places[3]}; write * for all "
            "that is left, or pass the rules that the game is played under"
        )
    return state


def format_observation(observation: Observation) -> str:
    """What one player sees, in a few lines for people.

    Raises:
        ValueError: it is a batch of observations.
    """
    if np.shape(observation.hand) != (cards.NUM_CARDS,):
        raise ValueError(
            f"observation must be a single one, with hand of shape ({cards.NUM_CARDS},), got {np.shape(observation.hand)}; "
            "take one out of a batch with jax.tree.map(lambda x: x[i], observations)"
        )
    seen = jax.device_get(observation)
    player, last = int(seen.player), int(seen.last_action)
    top, color = cards.TYPE_NAMES[_type_of(int(seen.color), int(seen.top_rank))], cards.COLOR_NAMES[int(seen.color)]
    turn = "the game is over" if seen.terminated else f"player {int(seen.current_player)} to move"
    return "\n".join(
        [
            f"player {player}: {turn}" + (f", must draw {int(seen.penalty)}" if seen.penalty else ""),
            f"  top       {top} ({color})",
            f"  hand      {format_cards(seen.hand) or _EMPTY}",
            f"  opponent  {int(seen.opponent_count)} cards",
            f"  deck      {int(seen.deck_count)} cards",
            f"  pile      {format_cards(seen.pile)}",
            f"  last      {_EMPTY if last == game.NO_ACTION else format_action(last)}",
        ]
    )


def parse_observation(text: str, *, rules: Rules = Rules()) -> Observation:
    """Read what one player sees of an unfinished game.

    Args:
        text: the lines of `format_observation`; or one line as of `format_position` with the number of the other player's cards
            in place of one hand. The steps of such a line are not part of what comes back.
        rules: what the game is played under.

    Raises:
        ValueError: it is of neither form, no game under these rules can stand like this, or the game is over.
    """
    words = " ".join(text.split())
    try:
        lines = _OBSERVATION_LINES.fullmatch(words)
        places, fields, observer = _split_view(words.split(" ")) if lines is None else _split_lines(lines)
        places[1 - observer] = _some_hand(places, observer, fields[0], rules)
        state = _read_position(places, *fields, rules=rules)
    except ValueError as error:
        raise ValueError(f"observation {text!r}: {error}") from error
    return _observe(state, np.int32(observer), rules=rules)


def _split_view(fields: list[str]) -> tuple[list[str], list[str], int]:
    """The four places, the other six fields, and the player who sees the one hand that is not a number."""
    places = fields[0].split("/")
    is_hidden = [place.isdigit() for place in places[:2]]
    if len(fields) != 7 or len(places) != 4 or sum(is_hidden) != 1:
        raise ValueError(_OBSERVATION_HELP)
    if fields[-1] != _UNFINISHED:
        raise ValueError(f"the game must be unfinished, *, got result {fields[-1]!r}")
    return places, fields[1:], is_hidden.index(False)


def _split_lines(lines: re.Match[str]) -> tuple[list[str], list[str], int]:
    """The same of the lines for people, with the top card taken off the pile."""
    top, color, observer = lines["top"], lines["color"], int(lines["observer"])
    top_counts, under = _parse_counts(top, "top"), _parse_counts(lines["pile"], "pile")
    if top_counts.sum() != 1 or (under < top_counts).any():
        raise ValueError(f"the top must be a card of the pile, got {top!r}")
    top_type = int(top_counts.argmax())
    color = _top_color(top_type, color)
    top_action = format_action(color * cards.NUM_RANKS + int(cards.RANK_OF_TYPE[top_type]))
    hands = (lines["hand"].replace(" ", ","), lines["other"])
    places = [*hands[:: 1 - 2 * observer], ",".join(_names(under - top_counts)) or _EMPTY, lines["deck"]]
    return places, [top_action, lines["player"], lines["penalty"] or "0", "0", lines["last"], _UNFINISHED], observer


def _some_hand(places: list[str], observer: int, top: str, rules: Rules) -> str:
    """Cards that the other player may hold, as many as there are; which ones, an observation does not tell."""
    hand, under = (
        _parse_counts("" if place == _EMPTY else place, name)
        for place, name in ((places[observer], f"hand of player {observer}"), (places[2], "pile"))
    )
    unseen = np.asarray(rules.deck) - hand - under
    if (top_action := parse_action(top)) != cards.DRAW:
        unseen[_type_of(*divmod(top_action, cards.NUM_RANKS))] -= 1
    names, number = _names(np.maximum(unseen, 0)), _number(places[1 - observer], "the other player's cards")
    if number > len(names):
        raise ValueError(f"the other player can't hold {number} cards: {len(names)} are neither in the own hand nor in the pile")
    return ",".join(names[:number]) or _EMPTY


def _checked_state(
    *,
    hands: np.ndarray,
    under: np.ndarray,
    top_rank: int,
    color: int,
    player: int,
    penalty: int,
    rules: Rules,
    step_count: int = 0,
    last_action: int = game.NO_ACTION,
    result: str = _UNFINISHED,
) -> State:
    """The state with these counts (int[2, 54] hands, int[54] pile under the top), if a game can stand like this."""
    if not is_int(player) or player not in (0, 1):
        raise ValueError(f"player must be 0 or 1, got {player!r}")
    pile = under.copy()
    pile[_type_of(color, top_rank)] += 1
    deck = np.asarray(rules.deck) - hands.sum(0) - pile
    if (short := np.flatnonzero(deck < 0)).size:
        t = short[0]
        raise ValueError(
            f"hands, top and pile hold {rules.deck[t] - deck[t]} x {cards.TYPE_NAMES[t]}, but rules.deck has {rules.deck[t]}"
        )
    allowed = (0, _PENALTY_OF_RANK[top_rank]) if top_rank in _PENALTY_OF_RANK else (0,)
    if not is_int(penalty) or penalty not in allowed:
        name = cards.TYPE_NAMES[_type_of(color, top_rank)]
        raise ValueError(
            f"penalty must be {' or '.join(map(str, allowed))} under a top card {name} (2 needs a +2, 4 a W+4), got {penalty!r}"
        )
    if step_count > _MAX_STEP_COUNT:
        raise ValueError(f"steps must be at most {_MAX_STEP_COUNT}, got {step_count}")
    state = State(
        hands=jnp.asarray(np.stack([_onehot(hands[0]), _onehot(hands[1])])),
        deck=jnp.asarray(_onehot(deck)),
        pile=jnp.asarray(_onehot(pile)),
        top_rank=jnp.int8(top_rank),
        color=jnp.int8(color),
        current_player=jnp.int8(player),
        penalty=jnp.int8(penalty),
        terminated=jnp.bool_(result in (_WON_BY_0, _WON_BY_1, _DRAWN)),
        truncated=jnp.bool_(result == _TRUNCATED),
        winner=jnp.int8(int(result) if result in (_WON_BY_0, _WON_BY_1) else game.NO_WINNER),
        rewards=jnp.zeros(2, jnp.float32),
        step_count=jnp.int32(step_count),
        error=jnp.uint8(0),
        last_action=jnp.int8(last_action),
    )
    _check_result(state, result, rules)
    return state


def _check_result(state: State, result: str, rules: Rules) -> None:
    """Raise `ValueError` if a game with these cards can't be unfinished, or over in this way."""
    if result not in _RESULTS:
        raise ValueError(f"result must be * (unfinished), 0 or 1 (the winner), = (drawn) or T (truncated), got {result!r}")
    steps, limit = int(state.step_count), rules.max_steps
    if result == _TRUNCATED and steps != limit:
        raise ValueError(f"a game is truncated at rules.max_steps={limit} steps exactly, or never if None; got {steps} steps")
    if limit is not None and steps > limit - (result == _UNFINISHED):
        raise ValueError(f"with rules.max_steps={limit} a game with {steps} steps is over, got result {result!r}")

    player, penalty = int(state.current_player), int(state.penalty)
    sizes = np.asarray(state.hands).sum(-1)
    if not sizes.all():
        winner = int(sizes.argmin())
        if sizes.any() and result == str(winner) and player == winner and penalty == 0:
            return
        raise ValueError(
            f"the hands hold {sizes[0]} and {sizes[1]} cards: a player without cards has won, as the last who moved and with no "
            f"penalty; got result {result!r}, player {player} and penalty {penalty}; unfinished games need a card in both hands"
        )
    if result in (_UNFINISHED, _TRUNCATED):
        return

    by_count = _DRAWN if sizes[0] == sizes[1] else str(int(sizes.argmin()))
    if result != by_count:
        raise ValueError(
            f"where no draw is possible, fewer cards win: hands of {sizes[0]} and {sizes[1]} cards have result {by_count}, "
            f"got {result}"
        )
    deck_count, pile_count, due = int(state.deck.sum()), int(state.pile.sum()), max(penalty, 1)
    mask = game.hand_legal_mask(state.hands[player], state.color, state.top_rank, state.penalty)
    if deck_count >= due or pile_count > 1 or not mask[cards.DRAW]:
        raise ValueError(
            f"result {result} with cards in both hands needs a draw that is due and impossible, and the pile back in the deck: "
            f"got a draw of {due} from a deck of {deck_count}, {pile_count - 1} cards under the top one"
            + ("" if mask[cards.DRAW] else f", and player {player} can play")
        )


def _top_color(top_type: int, color: str | None) -> int:
    """Active colour 0..3 for a top card and what the caller said of it."""
    own = int(cards.COLOR_OF_TYPE[top_type])
    name = cards.TYPE_NAMES[top_type]
    if color is None:
        if own < 0:
            raise ValueError(f"color must be one of {', '.join(cards.COLOR_NAMES)} for the wild top card {name}, got None")
        return own
    word = color.strip().lower() if isinstance(color, str) else color
    matches = [c for c, long in enumerate(cards.COLOR_NAMES) if word in (long, long[0])]
    if not matches:
        raise ValueError(f"color must be one of {', '.join(cards.COLOR_NAMES)} (or the letter) or None, got {color!r}")
    if own not in (-1, matches[0]):
        raise ValueError(f"color of the top card {name} is {cards.COLOR_NAMES[own]}, got {color!r}; leave color out")
    return matches[0]


def _parse_counts(text: str, what: str = "cards") -> np.ndarray:
    """Copies of each type in a list of card names: int[54]."""
    if not isinstance(text, str):
        raise ValueError(f"{what} must be text such as 'R5 YS, W+4', got {text!r}")
    counts = np.zeros(cards.NUM_TYPES, int)
    for name in re.split(r"[\s,]+", text.upper()):
        if not name:
            continue
        if name not in _TYPE_OF_NAME:
            raise ValueError(f"unknown card {name!r} in {what}: {_CARD_HELP}")
        counts[_TYPE_OF_NAME[name]] += 1
    if (many := np.flatnonzero(counts > cards.COPIES)).size:
        t = many[0]
        raise ValueError(f"{counts[t]} x {cards.TYPE_NAMES[t]} in {what}, but there are only {cards.COPIES[t]}")
    return counts


def _counts(onehot: ArrayLike, what: str) -> np.ndarray:
    """Copies of each type in a canonical one-hot: int[54]."""
    array = np.asarray(onehot)
    if array.shape != (cards.NUM_CARDS,) or array.dtype != bool:
        raise ValueError(f"{what} must be bool[{cards.NUM_CARDS}], got {array.dtype}{list(array.shape)}")
    counts = np.bincount(cards.TYPE_OF_SLOT[array], minlength=cards.NUM_TYPES)
    if not np.array_equal(_onehot(counts), array):
        raise ValueError(
            f"{what} must be canonical: the lower copies of a type first; cards.onehot(cards.counts(...)) makes it so"
        )
    return counts


def _onehot(counts: np.ndarray) -> np.ndarray:
    """Canonical one-hot of a multiset: int[54] to bool[108]."""
    return counts[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT


def _names(counts: np.ndarray) -> list[str]:
    return [cards.TYPE_NAMES[t] for t in np.repeat(np.arange(cards.NUM_TYPES), counts)]


def _type_of(color: int, rank: int) -> int:
    return rank + 39 if rank >= cards.WILD else color * 13 + rank


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{what} must be a number, got {text!r}")
    return int(text)


def describe(position: State | Observation) -> str:
    """Write a position in one short line, a batch or one under tracing too: what `repr` shows."""
    what = type(position).__name__
    shape = np.shape(position.current_player)
    if isinstance(position.current_player, jax.core.Tracer):
        return f"<{what} under tracing>"
    if shape:
        return f"<{what} batch of shape {shape}>"
    line = format_position(position) if isinstance(position, State) else " | ".join(format_observation(position).split("\n"))
    return f"<{what} {line}>"
