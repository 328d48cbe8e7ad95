"""The command line `unojax`.

This module, the options and the modules of commands import no JAX, so that help and errors about options come at once. A command
imports the rest when it runs. A ValueError is an error of the user, printed in one line.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from unojax.device.process import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, leave_at_once


def commands() -> dict[str, type[Any]]:
    """Return the commands by name."""
    from unojax.cli import parsing

    return dict(parsing.commands())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line (None: of this process) and return the exit status."""
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
        if not args or args[0] in ("-h", "--help"):
            from unojax.cli.parsing import overview

            print(overview())
            return _flushed(0)
        from unojax.cli.parsing import parse

        if args[0] in commands():
            name = f"unojax {args[0]}"
        return _flushed(_run(parse(args)))
    except KeyboardInterrupt:
        return _complain(name, "stopped", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output has closed it.
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
        # JAX without its device, or a device without memory. The lines after the first are the device's own report.
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
    """Run the command line of this process, and exit at once."""
    # Tracing creates lasting objects; repeated garbage collection takes a tenth of a short command's time.
    gc.set_threshold(100_000)
    leave_at_once(main())


def _flushed(status: int) -> int:
    """Flush buffered output. Raises OSError if it can't be written."""
    sys.stdout.flush()
    return status


def _drop_output() -> None:
    """Discard the rest of the output: Python would report the error again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(command: Any) -> int:
    from unojax.cli import together
    from unojax.cli.targets import check_files
    from unojax.device.compilation_cache import keep_compiled_programs

    check_files(command)
    keep_compiled_programs()
    together.join(command)
    status = command.run()
    together.leave(command, status)
    return status


def _complain(name: str, what: str, status: int) -> int:
    print(f"{name}: {' '.join(what.split())}", file=sys.stderr)
    return status
