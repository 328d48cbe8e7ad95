"""Options that several commands share, and how their values are read. Imports no JAX until an option needs it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Optional, TypeVar

import tyro

from unojax.files.own import is_own
from unojax.specs import AGENTS, POLICY_NAMES, parse_policy

if TYPE_CHECKING:
    from unojax.belief.opponents import Opponent
    from unojax.policies import Policy
    from unojax.rules import Rules

_Value = TypeVar("_Value")

AGENT_HELP: Final = (
    f"{', '.join((*POLICY_NAMES, *AGENTS))}. Parameters follow a colon: mc:rollouts=1000,belief=unseen. "
    "my.py:name is one of your own. unojax agents says what each is."
)
_MAX_COUNT: Final = 2**31
"""Most games that one key numbers, and more lanes than any device holds."""


def _read_count(text: str) -> int:
    """A whole number from 1 to 2^31; `1e6` and `1_000_000` are the same."""
    try:
        value = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not number.is_integer():
            raise ValueError(f"must be a whole number such as 100000 or 1e5, got {text!r}") from None
        value = int(number)
    if not 1 <= value <= _MAX_COUNT:
        raise ValueError(f"must be in [1, {_MAX_COUNT}], got {text}")
    return value


def read_count(option: str, text: str) -> int:
    """Read one of several whole numbers of an option. Raises ValueError that names the option."""
    try:
        return _read_count(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _read_count_or_none(text: str) -> int | None:
    return None if text.lower() == "none" else _read_count(text)


def _read_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {text!r}") from None


def _read_whole_or_none(text: str) -> int | None:
    return None if text.lower() == "none" else _read_whole(text)


def _read_seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise ValueError(f"must be a whole number in [0, {2**32 - 1}], got {text!r}")
    return int(text)


def _spec(read: Callable[[str], _Value], metavar: str) -> tyro.constructors.PrimitiveConstructorSpec[_Value]:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda texts: read(texts[0]),
        is_instance=lambda value: value is None or isinstance(value, int),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


Count = Annotated[int, _spec(_read_count, "N")]
CountOrNone = Annotated[Optional[int], _spec(_read_count_or_none, "N|none")]
Whole = Annotated[int, _spec(_read_whole, "N")]
WholeOrNone = Annotated[Optional[int], _spec(_read_whole_or_none, "N|none")]
Seed = Annotated[int, _spec(_read_seed, "N")]
Flag = tyro.conf.FlagCreatePairsOff[bool]
POLICY_HELP: Final = f"Two of: {', '.join(POLICY_NAMES)}; my.py:name is one of your own."
TwoPolicies = Annotated[tuple[str, str], tyro.conf.arg(metavar="A B", help=POLICY_HELP)]
_JSON_HELP: Final = "Write the results to a file too, as a whole or not at all. -: to stdout, in place of the tables."
JsonTarget = Annotated[Optional[str], tyro.conf.arg(metavar="FILE|-", help=_JSON_HELP)]


_AS_NAMED: Final = "None: as --rules says."


# Help texts stand in `arg` wherever they need more than a line: tyro keeps the line breaks of a docstring.
@dataclass(frozen=True)
class RuleOptions:
    """The rules of the game."""

    rules: Annotated[
        Literal["default", "official", "house", "rlcard"],
        tyro.conf.arg(
            help="Rules with a name; other options change them. default: forced play, no playing of a drawn card. official: the "
            "sheet's, with drawing at will, the drawn card playable, challenges of a Wild+4 and points. house: stacking, and "
            "drawing until a card can be played. rlcard: those of RLCard's environment."
        ),
    ] = "default"
    skip_forfeits: Annotated[
        bool,
        tyro.conf.arg(help="Skip and Reverse make the same player move again; with --no-skip-forfeits they just pass the turn."),
    ] = True
    start_card: Annotated[
        Optional[Literal["non_wild", "any", "not_draw_four"]],
        tyro.conf.arg(
            help="What may be turned up at the start. non_wild: a Wild or Wild+4 goes back and another card is turned up. any: "
            f"it stays, and the active colour is random. not_draw_four: a Wild stays, a Wild+4 goes back. {_AS_NAMED}"
        ),
    ] = None
    hand_size: Annotated[Count, tyro.conf.arg(help="Cards dealt to each player.")] = 7
    deck: Annotated[
        str,
        tyro.conf.arg(
            metavar="DECK",
            help="The cards in the game. full: all 108. numbers: 0-9 alone, 76 cards. A part of the full deck, such as "
            "colors=2,ranks=0-5+S,copies=1,wilds=1: the first 2 of red, yellow, blue, green; of each the ranks 0 to 5 and Skip "
            "(0-9, S skip, R reverse, +2, joined by +; or none); at most 1 copy of each card; 1 Wild and 1 Wild+4. What is not "
            "named stays full. FILE.json: a list of 54 copy counts, 13 for each colour, then Wild and Wild+4.",
        ),
    ] = "full"
    first_player: Annotated[
        Literal["zero", "random"], tyro.conf.arg(help="Who moves first. zero: player 0. random: either player, by a fair coin.")
    ] = "zero"
    max_steps: Annotated[CountOrNone, tyro.conf.arg(help="Cut a game off after N steps, without a winner.")] = None
    step_penalty: Annotated[
        float, tyro.conf.arg(metavar="X", help="Taken from both players' rewards at each step that does not end the game.")
    ] = 0.0
    may_draw: Annotated[Optional[bool], tyro.conf.arg(help=f"A player may draw although it could play. {_AS_NAMED}")] = None
    play_drawn: Annotated[
        Optional[Literal["no", "may", "auto"]],
        tyro.conf.arg(
            help="What becomes of a card just drawn. no: the turn passes. may: it may be played in the same turn. auto: a wild "
            f"or a card of the active colour is laid at once. {_AS_NAMED}"
        ),
    ] = None
    draw_until_playable: Annotated[
        Optional[bool], tyro.conf.arg(help=f"A player who draws goes on until a card can be played. {_AS_NAMED}")
    ] = None
    wild_draw_four: Annotated[
        Optional[Literal["any", "no_color", "last", "challenge"]],
        tyro.conf.arg(
            help="When a Wild+4 may be played. any: always. no_color: without a card of the active colour. last: if nothing else "
            f"can be. challenge: always, but the next player may challenge it. {_AS_NAMED}"
        ),
    ] = None
    stacking: Annotated[
        Optional[bool],
        tyro.conf.arg(help=f"A +2 may be answered with a +2, a Wild+4 with a Wild+4; penalties add up. {_AS_NAMED}"),
    ] = None
    start_effects: Annotated[
        Optional[Literal["none", "forfeit", "keep_turn"]],
        tyro.conf.arg(
            help="What an action card turned up at the start does. none: nothing. forfeit: Skip and Reverse pass the first "
            f"player over, +2 is its penalty. keep_turn: the same, but who draws still moves. {_AS_NAMED}"
        ),
    ] = None
    reverse_passes: Annotated[
        Optional[bool], tyro.conf.arg(help=f"Reverse just passes the turn, where Skip forfeits it. {_AS_NAMED}")
    ] = None
    reshuffle_top: Annotated[
        Optional[bool], tyro.conf.arg(help=f"The top card goes back into the deck with the pile. {_AS_NAMED}")
    ] = None
    points: Annotated[Optional[bool], tyro.conf.arg(help=f"A game is worth the points in the loser's hand. {_AS_NAMED}")] = None

    def build(self) -> Rules:
        """Make the rules. Raises ValueError where an option is out of its range, or the deck can't be read."""
        from unojax.rules import PRESETS

        # What rules with a name differ in is None unless it is given.
        given: dict[str, Any] = asdict(self) | {"deck": parse_deck(self.deck)}
        preset = PRESETS[given.pop("rules")]
        return replace(preset, **{name: value for name, value in given.items() if value is not None})


_DECK_HELP: Final = "use full, numbers, parts such as colors=2,ranks=0-5+S,copies=1,wilds=1, or FILE.json with 54 copy counts"
_RANKS: Final = {**{str(rank): rank for rank in range(10)}, "S": 10, "R": 11, "+2": 12}
_RANK_ITEM: Final = r"(?:\d-\d|\d|[SRsr]|\+2)"


def parse_deck(text: str) -> tuple[int, ...]:
    """Read the copies of each of the 54 card types from a value of `--deck`. Raises ValueError where it can't be read."""
    from unojax.rules import Rules, small_deck

    if text == "full":
        return Rules().deck
    if text == "numbers":
        return small_deck(ranks=range(10), wilds=0)
    if text.endswith(".json"):
        return _read_deck_file(Path(text))
    parts: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in ("colors", "ranks", "copies", "wilds"):
            raise ValueError(f"--deck {text!r}: {part!r} is not understood; {_DECK_HELP}")
        if name in parts:
            raise ValueError(f"--deck {text!r}: {name} is given twice; {_DECK_HELP}")
        if name == "ranks":
            parts[name] = _parse_ranks(text, value)
        elif re.fullmatch(r"[0-9]", value):
            parts[name] = int(value)
        else:
            raise ValueError(f"--deck {text!r}: {name} must be a one-digit number, got {value!r}; {_DECK_HELP}")
    try:
        return small_deck(**parts)
    except ValueError as error:
        raise ValueError(f"--deck {text!r}: {error}") from None


def _parse_ranks(text: str, value: str) -> list[int]:
    if value == "none":
        return []
    # A plus between two ranks separates them; "+2" has one of its own, so "1+2" is one and two, "1++2" one and draw two.
    if not re.fullmatch(rf"{_RANK_ITEM}(?:\+{_RANK_ITEM})*", value):
        raise ValueError(
            f"--deck {text!r}: ranks must be 0-9, S, R and +2 joined by +, such as 0-5+S or 7++2, or none, got {value!r}"
        )
    ranks: set[int] = set()
    for item in re.findall(rf"({_RANK_ITEM})(?:\+|$)", value):
        if "-" in item:
            first, last = int(item[0]), int(item[2])
            if first > last:
                raise ValueError(f"--deck {text!r}: the range {item} runs backwards; write {last}-{first}")
            ranks.update(range(first, last + 1))
        else:
            ranks.add(_RANKS[item.upper()])
    return sorted(ranks)


def _read_deck_file(path: Path) -> tuple[int, ...]:
    try:
        deck = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"--deck: can't read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"--deck: {str(path)!r} is not JSON: {error}") from None
    if not (isinstance(deck, list) and len(deck) == 54 and all(type(n) is int for n in deck)):
        raise ValueError(
            f"--deck: {str(path)!r} must hold a JSON list of 54 whole numbers, 13 for each colour, then Wild and Wild+4"
        )
    return tuple(deck)


def check_policy_names(names: Sequence[str]) -> None:
    """Raise ValueError for names that no policy has, before anything slow is done; what is one's own is looked at when it is
    loaded."""
    for name in names:
        if name not in POLICY_NAMES and not is_own(name):
            raise ValueError(f"no policy is called {name!r}; choose one of {', '.join(POLICY_NAMES)}, or your own: my.py:name")


def get_policies(names: tuple[str, str]) -> tuple[Policy, Policy]:
    """Look two policies up."""
    first, second = map(_get_policy, names)
    # Two loads of one policy are one.
    return first, first if names[0] == names[1] else second


def _get_policy(spec: str) -> Policy:
    """Look a policy up; one of one's own is named where it fails, or returns no action.

    Raises:
        ValueError: there is none, or a packed one of one's own can't be hashed.
    """
    policy = parse_policy(spec)
    if not is_own(spec):
        return policy
    from unojax.device import static
    from unojax.device.blame import blamed_on
    from unojax.device.returned import one_integer
    from unojax.policies import PackedPolicy

    if isinstance(policy, PackedPolicy):
        # Games ask packed policies by other methods than the call, so it stays what it is.
        static.split(policy)
        return policy

    def choose(key: Any, observation: Any, legal_mask: Any) -> Any:
        with blamed_on(f"policy {spec}"):
            action = policy(key, observation, legal_mask)
        return one_integer(action, f"policy {spec}")

    choose.__name__ = spec
    return choose


def get_opponent(text: str) -> Opponent:
    """Make the opponent that `--opponent-model` names. Raises ValueError where it names none."""
    from unojax.belief.opponents import parse_opponent

    try:
        return parse_opponent(text)
    except ValueError as error:
        raise ValueError(f"--opponent-model {text!r}: {error}") from None
