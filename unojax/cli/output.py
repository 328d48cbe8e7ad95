"""Results on the terminal and in files, and what both say about the machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import jax
import jaxlib
from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table

import unojax
from unojax.cli.targets import STDOUT
from unojax.files import write_whole
from unojax.files.columns import ColumnFile
from unojax.rules import RULES_VERSION, Rules

STDIN: Final = "-"
COMPILING: Final = "compiling; faster the next time"
_WIDTH: Final = 80
"""Columns of a terminal that says that it has none."""
_FOLDED: Final = 14
"""Columns that a name is folded in at least."""


def show(*parts: RenderableType) -> None:
    """Print results. Numbers stay uncoloured, and brackets are brackets."""
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    # A narrow terminal breaks the lines of a table; rich would leave columns out.
    console.width = max(console.width or _WIDTH, _FOLDED, *map(_least_width, parts))
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    # Rich fills every line up with blanks.
    sys.stdout.write(re.sub(r"[ ]+$", "", capture.get(), flags=re.MULTILINE))


def _least_width(part: RenderableType) -> int:
    """Find the width that a table needs, its columns that may be folded as narrow as their longest word."""
    if isinstance(part, Group):
        return max(map(_least_width, part.renderables), default=0)
    if not isinstance(part, Table):
        return 0
    measuring = Console(width=10_000)
    width = 0
    for column in part.columns:
        measured = [measuring.measure(cell) for cell in (column.header, *column.cells)]
        width += max(m.maximum if column.no_wrap else min(m.maximum, _FOLDED) for m in measured)
    return width + (part.padding[1] + part.padding[3] + 1) * len(part.columns)


def error_console() -> Console:
    """Make a console for progress and notes."""
    return Console(file=sys.stderr, markup=False, highlight=False, emoji=False)


def note(command: str, words: str) -> None:
    """Tell something beside the results, on the error stream."""
    error_console().print(f"unojax {command}: {words}", soft_wrap=True)


def shows_progress(*, quiet: bool) -> bool:
    """Tell whether someone is looking. FORCE_COLOR makes rich take any file for a terminal, so the file is asked."""
    return not quiet and sys.stderr.isatty()


def progress(*, quiet: bool) -> Progress:
    """Make a bar on the error stream that is gone when it is done. Its tasks have a field `done`, said behind the bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"), TimeRemainingColumn())
    return Progress(*columns, console=error_console(), transient=True, disable=not shows_progress(quiet=quiet))


@contextlib.contextmanager
def status(words: str, *, quiet: bool) -> Iterator[Status]:
    """Show a line on the error stream that is gone when it is done."""
    line = Status(words, console=error_console())
    if shows_progress(quiet=quiet):
        line.start()
    try:
        yield line
    finally:
        line.stop()


def grid(title: str) -> Table:
    """Make a table with a rule under its header and nothing else, as wide as its cells."""
    # The box adds a blank of its own between columns.
    options: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
    return Table(title=title, title_justify="left", title_style="bold", **options)


def facts(rows: dict[str, str]) -> Table:
    """Lay out names and what is to be said about them."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, what in rows.items():
        table.add_row(name, what)
    return table


def plus_minus() -> str:
    """Give the sign before an error, as stdout can show it."""
    return "±" if (sys.stdout.encoding or "").lower().startswith("utf") else "+-"


def count(number: int, one: str, many: str | None = None) -> str:
    """Count things: `1 game`, `2,000 games`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def write_json(target: str, data: dict[str, Any]) -> None:
    """Write to stdout for `-`, else to a file as a whole. Raises ValueError where it can't be written."""
    text = json.dumps(data, indent=2, allow_nan=False) + "\n"
    if target == STDOUT:
        sys.stdout.write(text)
    else:
        write_file("--json", target, text)


def write_file(option: str, target: str, content: str | bytes) -> None:
    """Write a file, which is there as a whole or not at all. Raises ValueError where it can't be written."""
    try:
        write_whole(target, content)
    except OSError as error:
        raise ValueError(f"{option}: can't write {target!r}: {error.strerror}") from None


def find_devices() -> list[Any]:
    """List JAX's devices, the one that is used first. Raises RuntimeError where there is none."""
    try:
        return jax.devices()
    except AssertionError:
        # What JAX does where each platform of JAX_PLATFORMS is there, and none has a device.
        asked = os.environ.get("JAX_PLATFORMS", "")
        raise RuntimeError(f"JAX found no device for JAX_PLATFORMS={asked!r}; leave it out, or set it to cpu") from None


def machine() -> dict[str, Any]:
    """Name the device and the versions. Raises RuntimeError where JAX has no device."""
    devices = find_devices()
    return {
        "device": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "cpu_cores": os.cpu_count(),
        },
        "versions": {
            "unojax": unojax.__version__,
            "rules": RULES_VERSION,
            "jax": jax.__version__,
            "jaxlib": jaxlib.version.__version__,
            "python": platform.python_version(),
        },
    }


def machine_facts(about: dict[str, Any]) -> dict[str, str]:
    """Put `machine()` in words."""
    device, versions = about["device"], about["versions"]
    name = device["platform"] if device["kind"] == device["platform"] else f"{device['platform']} ({device['kind']})"
    more = f", the first of {device['count']}" if device["count"] > 1 else ""
    cores = f", {count(device['cpu_cores'], 'core')}" if device["platform"] == "cpu" and device["cpu_cores"] else ""
    return {
        "Device": name + cores + more,
        "Versions": f"unojax {versions['unojax']}, jax {versions['jax']}, Python {versions['python']}",
    }


def player_0_begins(rules: Rules) -> bool:
    """Tell rules under which no lot is drawn, and no start card passes the player over who would begin."""
    return rules.first_player == "zero" and rules.start_effects == "none"


def seats(rules: Rules) -> tuple[str, str]:
    """Head the columns of the two seats."""
    return ("moving first", "moving second") if player_0_begins(rules) else ("as player 0", "as player 1")


def rules_text(rules: Rules) -> str:
    """Name the rules that differ from the defaults: by the name of all of them if they have one."""
    if rules.name is not None:
        return rules.name
    named = (f"deck of {rules.num_cards} cards" if name == "deck" else f"{name}={value}" for name, value in rules.changes.items())
    return ", ".join(named) or "default"


@contextlib.contextmanager
def writing(option: str, target: str) -> Iterator[ColumnFile]:
    """Open a file of columns, which is there at the end of the block. Raises ValueError where it can't be written."""
    try:
        with ColumnFile(target) as file:
            yield file
    except OSError as error:
        raise ValueError(f"{option}: can't write {target!r}: {error.strerror or error}") from None
