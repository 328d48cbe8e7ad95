"""Options that several commands share, and the parsing of their values. Imports no JAX until an option needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Optional, TypeVar

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
_MAX_COUNT: Final = 2**31
"""Largest number of games of one key; no device holds as many env slots."""


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


def _read_count_or_none(text: str) -> int | None:
    return None if text.lower() == "none" else _read_count(text)


def _read_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {text!r}") from None


def _read_whole_or_none(text: str) -> int | None:
    return None if text.lower() == "none" else _read_whole(text)


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"must be a number, got {text!r}") from None


def _read_seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise ValueError(f"must be a whole number in [0, {2**32 - 1}], got {text!r}")
    return int(text)


def _spec(read: Callable[[str], _Value], metavar: str) -> tyro.constructors.PrimitiveConstructorSpec[_Value]:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda texts: read(texts[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


Count = Annotated[int, _spec(_read_count, "N")]
CountOrNone = Annotated[Optional[int], _spec(_read_count_or_none, "N|none")]
Whole = Annotated[int, _spec(_read_whole, "N")]
WholeOrNone = Annotated[Optional[int], _spec(_read_whole_or_none, "N|none")]
Seed = Annotated[int, _spec(_read_seed, "N")]
Number = Annotated[float, _spec(_read_number, "X")]
Flag = tyro.conf.FlagCreatePairsOff[bool]
POLICY_HELP: Final = f"Two of: {', '.join(POLICY_NAMES)}; my.py:name is one of your own."
TwoPolicies = Annotated[tuple[str, str], tyro.conf.arg(metavar="A B", help=POLICY_HELP)]
_JSON_HELP: Final = "Write the results to a file too, as a whole or not at all. -: to stdout, in place of the tables."
JsonTarget = Annotated[Optional[str], tyro.conf.arg(metavar="FILE|-", help=_JSON_HELP)]


@cache
def _help_of_rules() -> dict[str, str]:
    """Return the descriptions of the fields in the docstring of `Rules`; empty if Python omits docstrings (-OO)."""
    from unojax.docstrings import read_docstring

    return {name: (meaning[:1].upper() + meaning[1:]).replace("`", "") for name, meaning in read_docstring(Rules)[1].items()}


def _rule_option(name: str, kind: Any, default: Any) -> tuple[Any, Any]:
    """Return the type and the default of the option for a field of `Rules`."""
    told, metavar = _help_of_rules().get(name, ""), None
    if kind == tuple[int, ...]:
        kind, default, metavar = str, "full", "DECK"
    elif kind in (int, int | None):
        kind = Count if kind is int else CountOrNone
    elif kind is float:
        kind = Number
    if any(name in preset.changes for preset in PRESETS.values()):
        # The named rules decide unless the option is given.
        kind, default, told = Optional[kind], None, f"{told} None: as --rules says."
    return Annotated[kind, tyro.conf.arg(help=told, metavar=metavar)], default


def _with_fields_of_rules(cls: type[_Value]) -> type[_Value]:
    """Add an option for each field of `Rules` to a class of options, and make it a dataclass."""
    for field in fields(Rules):
        option, default = _rule_option(field.name, field_types()[field.name], field.default)
        cls.__annotations__[field.name] = option
        setattr(cls, field.name, default)
    return dataclass(frozen=True)(cls)


# Help texts longer than a line are in `arg`, because tyro keeps the line breaks of a docstring.
@_with_fields_of_rules
class RuleOptions:
    """The rules of the game."""

    rules: Annotated[
        Literal[tuple(PRESETS)],  # pyright: ignore[reportInvalidTypeForm]
        tyro.conf.arg(
            help="Rules with a name; other options change them. default: forced play, no playing of a drawn card. official: the "
            "sheet's, with drawing at will, the drawn card playable, challenges of a Wild+4 and points. house: stacking, and "
            "drawing until a card can be played. rlcard: those of RLCard's environment."
        ),
    ] = "default"

    def build(self) -> Rules:
        """Return the rules. Raises ValueError, in the names of the options, if one is out of range."""
        given = {name: value for name in field_types() if (value := getattr(self, name)) is not None}
        # No named rules have a limit; `deck` may be text.
        try:
            return replace(PRESETS[self.rules], **given)
        except ValueError as error:
            raise ValueError(as_options(str(error), field_types())) from None


def as_options(message: str, names: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})) -> str:
    """Replace Python's names in a library error by the user's options: `max_steps` by `--max-steps`.

    Args:
        message: Error message that names one-word arguments at its beginning, in backquotes, or as in `points=True`.
        names: Names of the options' fields.
        renamed: Arguments whose option has another name.
    """
    for name, field in {**{name: name for name in names}, **renamed}.items():
        option = f"--{field.replace('_', '-')}"
        where = rf"(?<![\w.-]){name}\b(=?)" if "_" in name else rf"^{name}\b(=?)|(?<![\w.:,-]){name}(=)"
        message = re.sub(where, lambda found, o=option: o + (" " if found[0].endswith("=") else ""), message).replace(
            f"`{name}`", option
        )
    return message


@contextmanager
def naming_options(command: Any, **renamed: str) -> Iterator[None]:
    """Raise a plain ValueError of the library with the names of a command's options; see `as_options`."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:
            # It has fields, or its own handler.
            raise
        names = [field.name for field in fields(command)]
        raise ValueError(as_options(str(error), [*names, *(field_types() if "rules" in names else ())], renamed)) from error


def get_opponent(text: str) -> Opponent:
    """Return the opponent model of `--opponent-model`. Raises ValueError if it is invalid."""
    from unojax.belief.opponents import parse_opponent

    try:
        return parse_opponent(text)
    except ValueError as error:
        raise ValueError(f"--opponent-model {text!r}: {error}") from None
