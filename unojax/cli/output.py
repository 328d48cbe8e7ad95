"""Output of commands: tables or JSON, progress, notes, and the machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status

import unojax
from unojax.cli.targets import STDOUT
from unojax.files import write_whole
from unojax.rules import RULES_VERSION, Rules
from unojax.terminal.tables import count, show

if TYPE_CHECKING:
    from unojax.agents import Agent
    from unojax.files.columns import ColumnFile

STDIN: Final = "-"


@dataclass(frozen=True)
class Device:
    """The device of a command.

    Attributes:
        platform: JAX's platform: `cpu` or `gpu`.
        kind: Device name that JAX reports.
        count: Number of JAX devices; games run on the first.
        cpu_cores: Number of CPU cores of the machine.
    """

    platform: str
    kind: str
    count: int
    cpu_cores: int | None


@dataclass(frozen=True)
class Versions:
    """Versions that results may depend on.

    Attributes:
        unojax: Version of the package.
        rules: `unojax.rules.RULES_VERSION`: it changes when the same keys and actions give another game.
        jax: Version of JAX.
        jaxlib: Version of jaxlib, JAX's compiled part.
        python: Version of the interpreter.
    """

    unojax: str
    rules: int
    jax: str
    jaxlib: str
    python: str


@dataclass(frozen=True)
class Setting:
    """Rules and machine of a command.

    Attributes:
        rules: All fields of `unojax.Rules`; `deck` is the number of copies of each of the 54 card types.
        device: Device of the results.
        versions: Versions of the software.
    """

    rules: Rules
    device: Device
    versions: Versions


def report(
    command: str,
    json_target: str | None,
    tables: Callable[[], Sequence[RenderableType]],
    results: Callable[[], Any],
    setting: Setting | None = None,
) -> None:
    """Print tables, unless JSON goes to stdout, and write the results as JSON if asked.

    Args:
        command: Name of the command.
        json_target: File for the JSON; `-`: stdout.
        tables: Function that returns the tables.
        results: Function that returns the dataclass which `reports.reports` names for the command.
        setting: Rules and machine, if the results depend on them.
    """
    if json_target != STDOUT and (shown := tables()):
        show(*shown)
    if json_target is not None:
        about = {} if setting is None else to_json(setting)
        write_json(json_target, {"command": command} | to_json(results()) | about)


def to_json(value: Any) -> Any:
    """Return values of JSON: dataclasses become objects, tuples and arrays lists."""
    if is_dataclass(value):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: to_json(each) for field, each in pairs if not (each is None and may_be_absent(field))}
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def may_be_absent(field: Field[Any]) -> bool:
    """Return whether JSON lacks the field if it is None."""
    return field.metadata.get("may_be_absent", False)


def write_json(target: str, data: dict[str, Any]) -> None:
    """Write to stdout for `-`, else to a file."""
    text = json.dumps(data, indent=2, allow_nan=False) + "\n"
    if target == STDOUT:
        sys.stdout.write(text)
    else:
        write_file("--json", target, text)


def write_file(option: str, target: str, content: str | bytes) -> None:
    """Write a file, atomically. Raises ValueError if it can't be written."""
    try:
        write_whole(target, content)
    except OSError as error:
        raise ValueError(f"{option}: can't write {target!r}: {error.strerror}") from None


@contextlib.contextmanager
def writing(option: str, target: str) -> Iterator[ColumnFile]:
    """Open a file of columns, which appears at the end of the block, or ValueError."""
    from unojax.files.columns import ColumnFile

    try:
        with ColumnFile(target) as file:
            yield file
    except OSError as error:
        raise ValueError(f"{option}: can't write {target!r}: {error.strerror or error}") from None


def error_console() -> Console:
    """Return a console for progress and notes."""
    return Console(file=sys.stderr, markup=False, highlight=False, emoji=False)


def note(command: str, words: str) -> None:
    """Print a note on the error stream."""
    error_console().print(f"unojax {command}: {words}", soft_wrap=True)


def note_agents(command: str, agents: Sequence[Agent]) -> None:
    """Note which agents see the opponent's hand."""
    from unojax.agents import sees_hidden_hand

    for agent in agents:
        if sees_hidden_hand(agent):
            note(command, f"{agent.name} sees the opponent's hand: its results are an oracle baseline, which no player can reach")


def note_faults(command: str, agents: Sequence[Agent]) -> dict[str, list[str]]:
    """Note the agents' errors so far, and return them by agent."""
    from unojax.agents import faults_of

    faults = {agent.name: faults_of(agent) for agent in agents}
    for name, lines in faults.items():
        for line in lines:
            note(command, f"{name} lost games by its own fault: {line}")
    return faults


def shows_progress(*, quiet: bool) -> bool:
    """Return whether a person watches."""
    return not quiet and sys.stderr.isatty()


@contextlib.contextmanager
def progress(*, quiet: bool, verb: str = "playing", total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar that disappears when done; yield `show(done, words, total=)`."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True, disable=not shows_progress(quiet=quiet)) as bar:
        task = bar.add_task("compiling", total=total, words="")

        def show(done: int, words: str, total: int | None = total) -> None:
            bar.update(task, description=verb, total=total, completed=done, words=words)

        yield show


@contextlib.contextmanager
def status(words: str, *, quiet: bool) -> Iterator[Status]:
    """Show a line that disappears when done."""
    line = Status(words, console=error_console())
    if shows_progress(quiet=quiet):
        line.start()
    try:
        yield line
    finally:
        line.stop()


def find_devices() -> list[Any]:
    """Return JAX's devices, the default one first. Raises RuntimeError if there is none."""
    import jax

    try:
        return jax.devices()
    except (AssertionError, AttributeError):
        # From JAX if each platform of JAX_PLATFORMS exists but has no device; the second one if Python omits assertions (-O).
        asked = os.environ.get("JAX_PLATFORMS", "")
        raise RuntimeError(f"JAX found no device for JAX_PLATFORMS={asked!r}; leave it out, or set it to cpu") from None


def setting_of(rules: Rules) -> Setting:
    """Return rules, device and versions."""
    devices = find_devices()
    import jax
    import jaxlib

    return Setting(
        rules=rules,
        device=Device(devices[0].platform, devices[0].device_kind, len(devices), os.cpu_count()),
        versions=Versions(
            unojax=unojax.__version__,
            rules=RULES_VERSION,
            jax=jax.__version__,
            jaxlib=jaxlib.version.__version__,
            python=platform.python_version(),
        ),
    )


def setting_facts(setting: Setting) -> dict[str, str]:
    device, versions = setting.device, setting.versions
    name = device.platform if device.kind == device.platform else f"{device.platform} ({device.kind})"
    more = f", {device.count} of them" if device.count > 1 else ""
    cores = f", {count(device.cpu_cores, 'core')}" if device.platform == "cpu" and device.cpu_cores else ""
    return {
        "Device": name + cores + more,
        "Versions": f"unojax {versions.unojax}, jax {versions.jax}, Python {versions.python}",
    }
