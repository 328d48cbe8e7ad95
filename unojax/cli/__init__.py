"""The command line `unojax`. This module and the options import neither JAX nor what does, so that help and
complaints about options come at once; a command imports what it needs when it runs."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast

from unojax.cli.status import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, leave_at_once
from unojax.device.small_loops import build_small_loops_whole

if TYPE_CHECKING:
    from unojax.cli.options import RuleOptions

_DESCRIPTION: Final = (
    "Two-player UNO with hidden hands, many thousands of games at a time.\n\n"
    "unojax COMMAND --help: the options of a command. unojax --version: versions, of all that a report needs."
)


class Command(Protocol):
    """A command with its options, as tyro has read them."""

    def run(self) -> int:
        """Carry the command out and return the exit status. Raises ValueError where an option's value is not allowed."""
        ...


class Options(Protocol):
    """Options of a command of several files; `run(options, rules)` of the module `run` beside theirs carries it out."""

    @property
    def rules(self) -> RuleOptions: ...

    def check(self) -> None:
        """Raise ValueError where a value is not allowed, before JAX is imported."""
        ...


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line (None: of this process) and return the exit status. Raises nothing for what a user can do wrong."""
    args = list(sys.argv[1:] if args is None else args)
    name = "unojax"
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for as long as the process lives)
    if sys.stdout is None:
        return _complain(name, "error: there is no standard output to write to", EXIT_ERROR)
    try:
        if args[:1] == ["--version"]:
            from unojax.cli.version import describe

            print(describe())
            return _flushed(0)
        command = _parse(args or ["--help"])
        name = f"unojax {args[0]}"
        return _flushed(_run(command))
    except KeyboardInterrupt:
        return _complain(name, "stopped", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the output has enough.
        _drop_output()
        return EXIT_ERROR
    except OSError as error:
        _drop_output()
        where = "the output" if error.filename is None else repr(str(error.filename))
        return _complain(name, f"error: can't write {where}: {error.strerror or error}", EXIT_ERROR)
    except ValueError as error:
        return _complain(name, f"error: {error}", EXIT_USAGE)
    except MemoryError as error:
        return _complain(name, f"error: not enough memory: {error}", EXIT_ERROR)
    except RuntimeError as error:
        # JAX without its device, or a device without memory. What follows the first line is the device's own report.
        told = str(error).partition("\n")[0]
        if "RESOURCE_EXHAUSTED" in told:
            told += " (the device has too little memory; lower the batch size, or the particles or rollouts of an agent)"
        return _complain(name, f"error: {told}", EXIT_ERROR)
    except SystemExit as exit_:
        # Help has been printed.
        try:
            return _flushed(exit_.code if isinstance(exit_.code, int) else EXIT_ERROR)
        except OSError as error:
            _drop_output()
            return _complain(name, f"error: can't write the output: {error.strerror}", EXIT_ERROR)


def run_process() -> NoReturn:
    """Run the command line of this process, and leave it at once."""
    build_small_loops_whole()
    # Tracing makes objects that stay; looking through them again and again takes a tenth of a short command's time.
    gc.set_threshold(100_000)
    leave_at_once(main())


def _flushed(status: int) -> int:
    """Write out what is buffered. Raises OSError where it can't be written."""
    sys.stdout.flush()
    return status


def _drop_output() -> None:
    """Send what is left of the output nowhere: Python would complain once more when it flushes stdout at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(command: Command | Options) -> int:
    from unojax.cli import targets
    from unojax.device.compilation_cache import keep_compiled_programs

    targets.check_apart(command)
    if hasattr(command, "run"):
        keep_compiled_programs()
        return cast(Command, command).run()
    options = cast(Options, command)
    options.check()
    keep_compiled_programs()
    module = type(options).__module__.removesuffix("command") + "run"
    return import_module(module).run(options, options.rules.build())


def commands() -> dict[str, type]:
    """The commands by their names, in the order of the help: dataclasses whose fields are the options."""
    from unojax.cli.advise.command import Advise
    from unojax.cli.agents import ShowAgents
    from unojax.cli.arena.command import Arena
    from unojax.cli.belief.command import ShowBelief
    from unojax.cli.bench import Bench
    from unojax.cli.evaluate import Evaluate
    from unojax.cli.exploit import Exploit
    from unojax.cli.play.command import PlayGame
    from unojax.cli.record.command import Record
    from unojax.cli.replay import ShowReplay
    from unojax.cli.review.command import Review
    from unojax.cli.rules import ShowRules
    from unojax.cli.simulate.command import Simulate
    from unojax.cli.solve.command import Solve

    found: dict[str, type] = {"simulate": Simulate, "arena": Arena, "advise": Advise, "belief": ShowBelief, "rules": ShowRules}
    found |= {"bench": Bench, "play": PlayGame, "replay": ShowReplay, "review": Review, "record": Record}
    return found | {"solve": Solve, "exploit": Exploit, "evaluate": Evaluate, "agents": ShowAgents}


def _parse(args: list[str]) -> Command | Options:
    import tyro

    known = commands()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(known, prog="unojax", description=_DESCRIPTION, args=args)
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        name = f"unojax {args[0]}" if args[0] in known else "unojax"
        raise ValueError(f"{_condense(said.getvalue())} ({name} --help lists the options)") from None


def _condense(box: str) -> str:
    """Bring to one line tyro's framed report: what is wrong, its suggestions, and no help texts."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    framed = plain.startswith("╭")
    rows = [row.strip("│ ") for row in plain.splitlines() if not row.startswith(("╭", "╰"))]
    sections = [" ".join(section.split()) for section in re.split(r"[─-]{3,}", "\n".join(rows))]
    if not framed and len(sections) > 1:
        # Without the characters for a frame, its title ("Value error") is a section of its own.
        del sections[0]
    what = sections[0].removesuffix(".")
    # There is one level of commands.
    what = re.sub(r" or misplaced| \(applied to [a-z ]+\)| Arguments are applied to the directly preceding .*", "", what)
    meant = [option for s in sections if s.startswith("Perhaps you meant") for option in re.findall(r"--[a-z-]+(?= [A-Z{])", s)]
    meant = [option for option in meant if option not in what.split()]
    if meant:
        what += f"; perhaps you meant {' or '.join(dict.fromkeys(meant))}"
    elif len(sections) > 1 and sections[1].startswith("Available"):
        what += f". {sections[1]}"
    return what


def _complain(name: str, what: str, status: int) -> int:
    print(f"{name}: {' '.join(what.split())}", file=sys.stderr)
    return status
