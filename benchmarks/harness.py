"""Measurement harness: options of a run, rows of figures with their environment, and a file that collects rows.

A benchmark is a function that yields its tasks, registered by `@benchmark(NAME, OPTION=DEFAULT, ...)`:

    @benchmark("deal", games=1024)
    def deal(config: Config) -> Iterator[Task]:
        yield Task({"games": config.games}, lambda: {"deals_per_second": ...})

`python -m benchmarks NAME` runs it. A row whose settings are already in the file of `--json` is not measured again, so the same
command resumes a stopped run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from unojax.analysis.calibration import calibrate
from unojax.analysis.estimates import Measure
from unojax.device.compilation_cache import keep_compiled_programs
from unojax.device.platform import available_cores
from unojax.files import write_whole
from unojax.rules import RULES_VERSION

REPOSITORY: Final = Path(__file__).resolve().parent.parent


# -- Options ---------------------------------------------------------------------------------------------------------------------


def _option(default: Any, help: str, least: float = 1) -> Any:
    return field(default=default, metadata={"help": help, "least": least})


@dataclass(frozen=True)
class Config:
    """Options of a run. Each benchmark offers those for which it has a default, and `json` and `cached`.

    Sizes are written `1024,4096` or `2^10..2^13`, by factors of two.
    """

    games: int = _option(2000, "games of each row")
    agents: tuple[str, ...] = _option((), "agents; OPPONENT in one stands for the name of its opponent")
    opponents: tuple[str, ...] = _option((), "opponents")
    decks: tuple[str, ...] = _option((), "decks or rules, by name")
    models: tuple[str, ...] = _option((), "opponent models, compared with the first")
    batch_sizes: tuple[int, ...] = _option((), "games or decisions in a call")
    onehot_sizes: tuple[int, ...] = _option((), "games in a call of the one-hot functions")
    particles: tuple[int, ...] = _option((1024,), "particles of a belief")
    rollouts: int = _option(1000, "rollouts of each play")
    runs: int = _option(8, "runs of the judge at each decision, an even number", least=2)
    calls: int = _option(8, "calls of a repeat")
    single: int = _option(64, "positions or decisions for one at a time")
    steps: int = _option(3, "steps of policy improvement")
    max_steps: int = _option(400, "longer games are cut off there")
    seat: int = _option(0, "seat of the observer", least=0)
    seed: int = _option(0, "seed of everything random", least=0)
    repeats: int = _option(5, "timed runs of each program")
    workers: int = _option(0, "batches or games side by side; 0: one for each core", least=0)
    scale: float = _option(1.0, "share of the full batch sizes", least=0.0)
    budget: float = _option(0.0, "seconds of each part; 0: its own", least=0.0)
    network: str = _option("", "'pretrained' or a file")
    known: bool = _option(True, "measure the searches that know their opponent too")
    peer: bool = _option(True, "measure the other library too")
    peer_python: str = _option("", "a Python that has the other library; by default one is made in .cache/")
    compile_only: bool = _option(False, "compile for an NVIDIA H100 that need not be there")
    programs: tuple[str, ...] = _option((), "programs to compile; default: all")
    parts: tuple[str, ...] = _option((), "parts to measure; default: all")
    cached: bool = _option(False, "keep compiled programs; stated compile times mean nothing then")
    json: Path | None = field(default=None, metadata={"help": "add the rows to this file, and measure none that is there"})

    def __post_init__(self) -> None:
        for one in fields(self):
            values = getattr(self, one.name)
            for value in values if isinstance(values, tuple) else (values,):
                if isinstance(value, int | float) and not isinstance(value, bool) and value < one.metadata["least"]:
                    name = one.name.replace("_", "-")
                    raise ValueError(f"--{name} must be at least {one.metadata['least']}, got {value}")

    def settings(self, *names: str) -> dict[str, Any]:
        """Return some of the options, by name."""
        return {name: getattr(self, name) for name in names}


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read `"1024,4096"` or `"2^10..2^13"` (by factors of two) as sizes.

    Raises:
        ValueError: If the text has another form or a size below 1.
    """
    try:
        if ".." in text:
            low, high = (_power(part) for part in text.split(".."))
            sizes = tuple(1 << e for e in range(low.bit_length() - 1, high.bit_length()))
        else:
            sizes = tuple(_power(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes must look like 1024,4096 or 2^10..2^17, got {text!r}")
    return sizes


def _power(text: str) -> int:
    base, _, exponent = text.strip().partition("^")
    return int(base) ** int(exponent) if exponent else int(base)


def even(number: int, name: str = "games") -> int:
    """Return an even number.

    Raises:
        ValueError: If it is odd.
    """
    if number % 2:
        raise ValueError(f"--{name} must be even, got {number}: each deal is played twice")
    return number


# -- Benchmarks and rows ---------------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """One row to measure: its settings, which identify it in a file, and the function that returns its figures."""

    settings: dict[str, Any]
    measure: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        benchmark: Name of the benchmark.
        settings: Settings of the task.
        environment: Versions, device, commit, date, load. See `environment`.
        figures: Results by name. Rates are `{"median", "min", "max"}`, estimates `{"mean", "standard_error"}`.
    """

    benchmark: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    figures: dict[str, Any]


class Benchmark(NamedTuple):
    """A registered benchmark: its name, its subject, and the defaults of its options."""

    name: str
    tasks: Callable[[Config], Iterable[Task]]
    defaults: dict[str, Any]


BENCHMARKS: Final[dict[str, Benchmark]] = {}
"""Registry, by name."""


def benchmark(name: str, **defaults: Any) -> Callable[[Callable[[Config], Iterable[Task]]], Benchmark]:
    """Register a function, with its options and their defaults."""

    def enter(tasks: Callable[[Config], Iterable[Task]]) -> Benchmark:
        BENCHMARKS[name] = Benchmark(name, tasks, defaults)
        return BENCHMARKS[name]

    return enter


def read_rows(path: Path | None) -> list[Row]:
    """Return the rows of a file; empty if the file does not exist.

    Raises:
        ValueError: If the file has other content.
    """
    if path is None or not path.exists():
        return []
    try:
        return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} holds no rows of a benchmark: choose another file or remove it") from None


def write_rows(path: Path | None, rows: Sequence[Row]) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part. None: write nothing."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"rows": [asdict(row) for row in rows]}, indent=1, allow_nan=False) + "\n")


def run(which: Benchmark, config: Config) -> list[Row]:
    """Measure the rows that the file lacks, print each, and return all rows of the file. Ctrl-C keeps the finished ones."""
    jax.config.update("jax_enable_compilation_cache", config.cached)
    if config.cached:
        keep_compiled_programs()
    rows = read_rows(config.json)
    try:
        for task in which.tasks(config):
            # As in JSON, which turns tuples into lists.
            settings = json.loads(json.dumps(task.settings))
            if not any((row.benchmark, row.settings) == (which.name, settings) for row in rows):
                circumstances = environment()
                rows.append(Row(which.name, settings, circumstances, task.measure()))
                show(rows[-1])
                write_rows(config.json, rows)
    except KeyboardInterrupt:
        print("stopped; finished rows are kept" if config.json else "stopped", file=sys.stderr)
    return read_rows(config.json) or rows


def main(name: str, argv: Sequence[str] | None = None) -> list[Row]:
    """Run a benchmark by its name, with options as on a command line."""
    which = BENCHMARKS[name]
    about = (sys.modules[which.tasks.__module__].__doc__ or "") if which.tasks.__doc__ is None else which.tasks.__doc__
    parser = argparse.ArgumentParser(f"python -m benchmarks {name}", description=about.split("\n")[0])
    for one in fields(Config):
        if one.name in (*which.defaults, "cached", "json"):
            _add(parser, one.name, which.defaults.get(one.name, one.default), one.metadata["help"])
    try:
        return run(which, Config(**vars(parser.parse_args(argv))))
    except ValueError as error:
        parser.error(str(error))


def _add(parser: argparse.ArgumentParser, name: str, default: Any, help: str) -> None:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default, help=help)
    elif name in ("batch_sizes", "onehot_sizes", "particles"):
        shown = ",".join(map(str, default))
        parser.add_argument(flag, type=_sizes, default=default, metavar="SIZES", help=f"{help} (default: {shown})")
    elif isinstance(default, tuple):
        shown = f" (default: {' '.join(default)})" if default else ""
        parser.add_argument(flag, nargs="+", action=_Tuple, default=default, metavar="NAME", help=help + shown)
    else:
        kind = Path if name == "json" else type(default)
        parser.add_argument(flag, type=kind, default=default, help=help + (f" (default: {default})" if default else ""))


class _Tuple(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, tuple(values))


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return parse_sizes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# -- Circumstances ---------------------------------------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """Return the factors of a figure other than the code: device, versions, date, commit, load of the machine."""
    device = jax.devices()[0]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "rules_version": RULES_VERSION,
        "backend": jax.default_backend(),
        "device": device.device_kind,
        "device_count": jax.device_count(),
        "cpu_model": _cpu_model(),
        "cpu_cores": available_cores(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def _commit() -> str:
    def git(*args: str) -> str:
        return subprocess.run(["git", *args], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", "unojax", "benchmarks") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu_model() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# -- Times -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """Seconds of several runs of the same work: wall-clock time, and CPU time of this process on all cores."""

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]

    def rates(self, unit: str, amount: float) -> dict[str, Any]:
        """Return the work per second and per CPU second: the median over the runs, the slowest and the fastest."""
        return {
            f"{unit}_per_second": spread(amount / np.array(self.seconds)),
            f"{unit}_per_cpu_second": spread(amount / np.maximum(self.cpu_seconds, 1e-9)),
        }


class Program(NamedTuple):
    """A program to time: `run` is timed and receives the result of `prepare`, which is not timed."""

    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None


def time_in_turns(programs: Mapping[str, Program | Callable[[], Any]], repeats: int) -> tuple[dict[str, Timing], dict[str, Any]]:
    """Time programs in turns, so that a busy machine slows all of them equally; the first run of each does not count.

    Returns:
        Times, and the last result of each program.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    results: dict[str, Any] = {}
    for _ in range(repeats + 1):
        for name, program in programs.items():
            run, given = (program.run, program.prepare()) if isinstance(program, Program) else (lambda _, p=program: p(), None)
            results.pop(name, None)
            wall, cpu = time.perf_counter(), time.process_time()
            results[name] = jax.block_until_ready(run(given))
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: Timing(*map(tuple, zip(*runs[1:], strict=True))) for name, runs in times.items()}, results


def repeat(run: Callable[[], Any], repeats: int) -> tuple[Timing, Any]:
    """Time one program; see `time_in_turns`."""
    times, results = time_in_turns({"": run}, repeats)
    return times[""], results[""]


def stopwatch(run: Callable[[], Any]) -> tuple[float, Any]:
    """Time a call until its arrays are computed; return the seconds and its result."""
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - start, result


def compile_timed(function: Any, *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """Trace and compile a jitted function for these arguments; return the seconds and the compiled program."""
    start = time.perf_counter()
    compiled = function.lower(*args, **kwargs).compile()
    return time.perf_counter() - start, compiled


def time_alone(function: Callable[..., Any], inputs: Sequence[tuple[Any, ...]], repeats: int) -> dict[str, Any]:
    """Time a function on one input after the other, from the call to the result: quantiles over the inputs' median times."""
    compile_seconds, program = compile_timed(jax.jit(function), *inputs[0])
    seconds = [np.median(repeat(lambda given=given: program(*given), repeats)[0].seconds) for given in inputs]
    milliseconds = {name: float(1e3 * np.quantile(seconds, q)) for name, q in (("median", 0.5), ("95 percent", 0.95))}
    return {"compile_seconds": compile_seconds, "milliseconds": milliseconds}


def spread(values: Any) -> dict[str, float]:
    """Return the median, minimum and maximum."""
    values = np.asarray(values, np.float64)
    return {"median": float(np.median(values)), "min": float(values.min()), "max": float(values.max())}


def estimate(measure: Measure) -> dict[str, float]:
    """Return an estimate with its error."""
    return {"mean": measure.value, "standard_error": measure.standard_error}


def calibration(predicted: np.ndarray, happened: np.ndarray, counted: np.ndarray) -> dict[str, Any]:
    """Compare probabilities with outcomes, in all and by ten bins, as `unojax.analysis.calibrate` does."""
    found = calibrate(predicted, happened, counted)
    rows = zip(found.number.tolist(), found.predicted.tolist(), found.observed, found.surplus, strict=True)
    return {
        "mean_absolute_error": found.mean_absolute_error,
        "bins": [
            {
                "number": number,
                "predicted": mean,
                "observed": observed.value,
                "surplus": surplus.value,
                "standard_error": surplus.standard_error,
            }
            for number, mean, observed, surplus in rows
        ],
    }


def ratio(ours: Timing, theirs: Timing) -> dict[str, float]:
    """Return the speed of the first program relative to the second, turn by turn."""
    return spread(np.array(theirs.seconds) / np.array(ours.seconds))


def program_bytes(compiled: Any) -> int:
    """Return the device memory of a program: arguments, results and temporaries; a reused buffer counts once."""
    memory = compiled.memory_analysis()
    total = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return int(total - memory.alias_size_in_bytes)


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return a fingerprint of results, to compare two runs."""
    h = hashlib.sha256()
    for array in arrays:
        h.update(f"{array.dtype.str}{array.shape}".encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:16]


# -- What is printed -------------------------------------------------------------------------------------------------------------


def show(row: Row) -> None:
    """Print a row: its settings, and its figures that are numbers or words."""
    shown = ", ".join(f"{name} {value}" for name, value in row.settings.items())
    table = Table(show_header=False)
    for name, text in _lines(row.figures, ""):
        table.add_row(name, text)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"{row.benchmark}: {shown}", highlight=False)
    console.print(table)


def _lines(figures: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in figures.items():
        title = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping) and value.keys() == {"median", "min", "max"}:
            yield title, f"{si(value['median'])}  ({si(value['min'])} .. {si(value['max'])})"
        elif isinstance(value, Mapping) and value.keys() == {"mean", "standard_error"}:
            yield title, f"{value['mean']:.4f} ± {value['standard_error']:.4f}"
        elif isinstance(value, Mapping):
            yield from _lines(value, f"{title}, ")
        elif isinstance(value, float):
            yield title, si(value)
        elif not isinstance(value, list | tuple):
            yield title, str(value)


def si(value: float) -> str:
    """Format a number in three digits with k, M or G."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"
