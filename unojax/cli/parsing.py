"""Commands in groups by purpose, their overview, and the parser's errors in one line."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, Protocol, get_args, get_type_hints

import tyro
from tyro import _errors

from unojax.cli.options import names_of, typed

_DESCRIPTION: Final = "Two-player UNO with hidden hands, many thousands of games at a time."
_WIDTH: Final = 80
"""Columns of the overview, unless the terminal has fewer."""
_LEAST_WIDTH: Final = 40
_MAX_SUGGESTIONS: Final = 2


class Command(Protocol):
    """A command with its parsed options: a dataclass."""

    def run(self) -> int:
        """Run the command and return the exit status."""
        ...


def groups() -> dict[str, dict[str, type[Command]]]:
    """Return the commands by name, in groups by purpose."""
    from unojax.cli.advise import Advise
    from unojax.cli.agents import ShowAgents
    from unojax.cli.arena import Arena
    from unojax.cli.belief import ShowBelief
    from unojax.cli.evaluate import Evaluate
    from unojax.cli.exploit import Exploit
    from unojax.cli.play import PlayGame
    from unojax.cli.replay import ShowReplay
    from unojax.cli.review import Review
    from unojax.cli.rules import ShowRules
    from unojax.cli.simulate import Simulate
    from unojax.cli.solve import Solve
    from unojax.cli.table import FollowTable

    return {
        "Play": {"play": PlayGame, "table": FollowTable, "advise": Advise, "rules": ShowRules},
        "Look back at a game": {"replay": ShowReplay, "review": Review, "belief": ShowBelief},
        "Many games": {"simulate": Simulate, "arena": Arena, "evaluate": Evaluate, "agents": ShowAgents},
        "Optimal play": {"solve": Solve, "exploit": Exploit},
    }


def commands() -> dict[str, type[Command]]:
    """Return the commands by name, in the order of the overview."""
    return {name: command for group in groups().values() for name, command in group.items()}


def overview() -> str:
    """Return a description of all commands, a line or two each."""
    columns = min(_WIDTH, max(shutil.get_terminal_size().columns, _LEAST_WIDTH))
    rows = ["usage: unojax COMMAND [OPTIONS]", "", *textwrap.wrap(_DESCRIPTION, columns)]
    width = max(map(len, commands()))
    for heading, group in groups().items():
        rows += ["", heading]
        for name, command in group.items():
            # Python omits docstrings with -OO.
            summary = (command.__doc__ or "").partition(".")[0]
            rows += textwrap.wrap(f"  {name:{width}}  {summary}", columns, subsequent_indent=" " * (width + 4)) or [f"  {name}"]
    rows += ["", *textwrap.wrap("unojax COMMAND --help: its options. unojax --version: versions, for bug reports.", columns)]
    return "\n".join(rows)


def parse(args: Sequence[str]) -> Command:
    """Parse a command and its options. SystemExit follows requested help."""
    known, name = commands(), args[0]
    if name not in known:
        raise ValueError(f"there is no command {name!r}{_suggestions([name], list(known))}; the commands: {', '.join(known)}")
    command = known[name]

    def complain(event: _errors.ParseErrorEvent) -> None:
        raise ValueError(f"{_words(event, option_names(command))} (unojax {name} --help lists the options)")

    with _errors.on_parse_error(complain):
        return tyro.cli(command, prog=f"unojax {name}", args=list(args[1:]))


def option_names(command: type[Any]) -> list[str]:
    """Return the options of a command as typed, without its positional arguments."""
    kinds = get_type_hints(command, include_extras=True)
    return [typed(name) for name in names_of(command) if tyro.conf.Positional not in get_args(kinds.get(name))]


def _words(event: _errors.ParseErrorEvent, options: list[str]) -> str:
    match event:
        case _errors.UnrecognizedArgs(tokens=tokens):
            return _unknown(tokens, options)
        case _errors.MissingArgs(missing_arguments=missing, unrecognized_tokens=tokens):
            if tokens:
                return _unknown(tokens, options)
            return f"missing: {', '.join(_name(each.arg) for each in missing)}"
        case _errors.InvalidChoice(argument=argument, value=value, choices=choices):
            allowed = sorted(choice for choice in choices if choice != "None")
            return f"{_name(argument)}: must be one of {', '.join(allowed)}, got {value!r}"
        case _errors.BadValue(argument=argument, reason="too_few_values"):
            return f"{_name(argument)}: a value is missing after it"
        case _errors.InstantiationFailure(argument=argument, message=message):
            # The parser names the option in some messages of its own.
            told = re.sub(r"^.*?: ", "", message) if argument is None else message
            return " ".join(f"{_name(argument)}: {told}".split() if argument is not None else told.split())
        case _errors.BadValue(argument=argument, offending_value=value):
            return f"{_name(argument)}: got {value!r}, which is not allowed"
        case _:
            return f"the options can't be read ({type(event).__name__})"


def _name(argument: Any) -> str:
    """Return an argument as in the help: `--games`, `FILE.json`."""
    if not argument.is_positional():
        return argument.display_name()
    metavar = str(argument.lowered.metavar)
    # For pure choices the parser's name lists them.
    return argument.field.extern_name.upper() if "{" in metavar else metavar


def _unknown(tokens: list[str], options: list[str]) -> str:
    unknown = [token for token in tokens if token.startswith("-")] or tokens
    what = "option" if unknown[0].startswith("-") else "argument"
    return f"unknown {what} {' '.join(unknown)}{_suggestions(unknown, options)}"


def _suggestions(words: list[str], known: list[str]) -> str:
    """Suggest names with the same beginning, or within a typing error."""
    meant = [each for word in words for each in known if len(word) > len("--xx") and each.startswith(word)]
    meant += [each for word in words for each in get_close_matches(word, known, n=_MAX_SUGGESTIONS, cutoff=0.75)]
    return f"; perhaps you meant {' or '.join(dict.fromkeys(meant[:_MAX_SUGGESTIONS]))}" if meant else ""
