"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Optional,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import tyro

from unojax.rules import PRESETS, Rules, field_types
from unojax.specs import AGENTS, POLICY_NAMES

if TYPE_CHECKING:
    from unojax.belief.opponents import Opponent

_Value = TypeVar("_Value")

AGENT_HELP: Final = (
    f"{', '.join((*POLICY_NAMES, *AGENTS))}. Parameters follow a colon: mc:rollouts=1000,belief=unseen. "
    "my.py:name is one of your own. unojax agents says what each is."
)
_ABOUT: Final = "arg"
"""Key in the metadata of an option with the arguments of `tyro.conf.arg`."""
IS_SAVED_GAME: Final = "is_saved_game"
"""Key in the metadata of an option: it names a saved game."""
_MAX_COUNT: Final = 2**31
"""Largest number of games of one key; no device holds as many env slots."""


def _read_count(text: str) -> int:
    """Read a whole number; `1e6` and `1_000_000` are the same."""
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


def _read_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {text!r}") from None


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"must be a number, got {text!r}") from None


def _read_seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise ValueError(f"must be a whole number in [0, {2**32 - 1}], got {text!r}")
    return int(text)


def _or_none(read: Callable[[str], _Value]) -> Callable[[str], _Value | None]:
    return lambda text: None if text.lower() == "none" else read(text)


def _spec(read: Callable[[str], _Value], metavar: str) -> tyro.constructors.PrimitiveConstructorSpec[_Value]:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda texts: read(texts[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float | str),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


def _one_of(values: Mapping[str, _Value]) -> tyro.constructors.PrimitiveConstructorSpec[_Value]:
    """Read one of some words, which the help lists. Case does not matter."""

    def read(text: str) -> _Value:
        if text.lower() not in values:
            raise ValueError(f"must be one of {', '.join(sorted(values))}, got {text!r}")
        return values[text.lower()]

    return _spec(read, f"{{{','.join(values)}}}")


Count = Annotated[int, _spec(_read_count, "N")]
CountOrNone = Annotated[Optional[int], _spec(_or_none(_read_count), "N|none")]
Whole = Annotated[int, _spec(_read_whole, "N")]
WholeOrNone = Annotated[Optional[int], _spec(_or_none(_read_whole), "N|none")]
PlayerOrNone = Annotated[Optional[Literal[0, 1]], _one_of({"0": 0, "1": 1, "none": None})]
Seed = Annotated[int, _spec(_read_seed, "N")]
SeedOrNone = Annotated[Optional[int], _spec(_or_none(_read_seed), "N|none")]
Number = Annotated[float, _spec(_read_number, "X")]
Flag = tyro.conf.FlagCreatePairsOff[bool]
POLICY_HELP: Final = f"Two of: {', '.join(POLICY_NAMES)}; my.py:name is one of your own."
TwoPolicies = Annotated[tuple[str, str], tyro.conf.arg(metavar="A B", help=POLICY_HELP)]
_JSON_HELP: Final = "Write the results to a file too. -: to stdout, instead of the tables."
Quiet = Annotated[Flag, tyro.conf.arg(help="No progress on the terminal.")]
JsonTarget = Annotated[Optional[str], tyro.conf.arg(metavar="FILE|-", help=_JSON_HELP)]


def option(
    default: Any = MISSING, help: str = "", metavar: str | None = None, *, hint: str | None = None, is_saved_game: bool = False
) -> Any:
    """Return the field of a command's option, whose type is its annotation.

    Args:
        default: Default value; an option without one is required.
        help: Description, with special values at its end.
        metavar: Stands for the value in the help; None: what the type says.
        hint: Stands for the default value in the help; None: the value itself.
        is_saved_game: Whether the option names a saved game, which is read.
    """
    # A metavar of several required values says so itself.
    if default is MISSING and metavar is not None and "..." in metavar:
        hint = ""
    about = tyro.conf.arg(help=help, metavar=metavar, help_behavior_hint=hint)
    return field(default=default, metadata={_ABOUT: about, IS_SAVED_GAME: is_saved_game})


@dataclass_transform(frozen_default=True)
def command(cls: type[_Value]) -> type[_Value]:
    """Make a class a frozen dataclass whose fields are options, for the parser."""
    made = dataclass(frozen=True)(cls)
    kinds = get_type_hints(made, include_extras=True)
    for each in fields(cast(Any, made)):
        if _ABOUT in each.metadata:
            made.__annotations__[each.name] = Annotated[kinds[each.name], each.metadata[_ABOUT]]
    return made


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "." * bool(text)


def _with_fields_of_rules(*, at_length: bool) -> Callable[[type[_Value]], type[_Value]]:
    """Add an option for each field of `Rules`, described in full or by one sentence."""
    from unojax.docstrings import read_docstring

    # Empty if Python omits docstrings (-OO).
    meanings = read_docstring(Rules)[1]

    def extend(cls: type[_Value]) -> type[_Value]:
        for each in fields(Rules):
            kind, default, metavar, hint = field_types()[each.name], each.default, None, None
            help = meanings.get(each.name, "").replace("`", "")
            help = help[:1].upper() + help[1:]
            if kind == tuple[int, ...]:
                kind, default, metavar = str, "full", "DECK"
            elif kind in (int, int | None):
                kind = Count if kind is int else CountOrNone
            elif kind is float:
                kind = Number
            if any(each.name in preset.changes for preset in PRESETS.values()):
                # The named rules decide unless the option is given.
                words = {"true": True, "false": False} if kind is bool else {word: word for word in get_args(kind)}
                kind, default, hint = Annotated[Optional[kind], _one_of(words)], None, "(default: as --rules says)"
            cls.__annotations__[each.name] = kind
            setattr(cls, each.name, option(default, help if at_length else _first_sentence(help), metavar, hint=hint))
        return cls

    return extend


@command
@_with_fields_of_rules(at_length=False)
class RuleOptions:
    """The rules of the game; unojax rules --help describes them at length."""

    rules: Literal[tuple(PRESETS)] = option(  # pyright: ignore[reportInvalidTypeForm]
        "default",
        "Rules with a name, which the other options change. default: forced play, no playing of a drawn card. official: the "
        "sheet's, with drawing at will, the drawn card playable, challenges of a Wild+4 and points. house: stacking, and "
        "drawing until a card can be played. rlcard: those of RLCard's environment.",
    )

    def build(self) -> Rules:
        """Return the rules. An error names the options."""
        given = {name: value for name in field_types() if (value := getattr(self, name)) is not None}
        # No named rules have a limit; `deck` may be text.
        try:
            return replace(PRESETS[self.rules], **given)
        except ValueError as error:
            raise ValueError(as_options(str(error), field_types())) from None


@command
@_with_fields_of_rules(at_length=True)
class DescribedRuleOptions(RuleOptions):
    """The rules of the game."""


RuleFields = tyro.conf.OmitArgPrefixes[RuleOptions]
"""Type of a command's options of the rules; the default is `RuleOptions()`."""


def names_of(options: type[Any]) -> list[str]:
    """Return the fields of a class of options, and of the groups of options in it."""
    parts = ((name, kind, is_dataclass(kind)) for name, kind in get_type_hints(options).items())
    return [name for own, kind, is_group in parts for name in (names_of(cast(Any, kind)) if is_group else [own])]


def given(options: Any, *names: str) -> list[str]:
    """Return which of these options differ from their defaults, as typed."""
    changed = (each.name for each in fields(options) if each.name in names and getattr(options, each.name) != each.default)
    return ["the options of the rules" if name == "rules" else typed(name) for name in changed]


def typed(name: str) -> str:
    """Return an option as typed: `--max-steps` for `max_steps`."""
    return f"--{name.replace('_', '-')}"


def as_options(message: str, names: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})) -> str:
    """Replace Python's names in a library error by options: `max_steps` by `--max-steps`.

    Args:
        message: Error message that names one-word arguments at its beginning, in backquotes, or as in `points=True`.
        names: Names of the options' fields.
        renamed: Arguments whose option has another name.
    """
    for name, own in {**{name: name for name in names}, **renamed}.items():
        option = typed(own)
        where = rf"(?<![\w.-]){name}\b" if "_" in name else rf"^{name}\b|(?<![\w.:,-]){name}(?==)"
        message = re.sub(rf"(?:{where})(=?)|`{name}`", lambda found, o=option: o + (" " if found[1] else ""), message)
    return message


@contextmanager
def naming_options(command: Any, **renamed: str) -> Iterator[None]:
    """Raise a plain ValueError of the library in the names of a command's options."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:
            # It has fields, or its own handler.
            raise
        raise ValueError(as_options(str(error), names_of(type(command)), renamed)) from error


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Begin the message of a ValueError with an option or a file that it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def get_opponent(text: str) -> Opponent:
    """Return the opponent model of `--opponent-model`."""
    from unojax.belief.opponents import parse_opponent

    with blaming(f"--opponent-model {text!r}"):
        return parse_opponent(text)
