"""Measuring helpers that all benchmarks share: repeats, spread, what it ran on, and JSON written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from rich.console import Console

from unojax.device.platform import available_cores
from unojax.files import write_whole
from unojax.rules import RULES_VERSION

REPOSITORY: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Timing:
    """Wall-clock seconds of several runs of the same work."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    def rate(self, amount: float) -> dict[str, float]:
        """Amount of work per second: the median over the runs, and the slowest and fastest of them."""
        return {
            "median": amount / self.median,
            "min": amount / max(self.seconds),
            "max": amount / min(self.seconds),
        }


def stopwatch(run: Callable[[], Any]) -> tuple[float, Any]:
    """Time a call until its arrays are computed; seconds, and what it returned."""
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - start, result


def repeat(run: Callable[[], Any], repeats: int) -> tuple[Timing, Any]:
    """Time `run` that many times, and return what the last run returned. Compile before: the first run counts like any other."""
    seconds, result = [], None
    for _ in range(repeats):
        elapsed, result = stopwatch(run)
        seconds.append(elapsed)
    return Timing(tuple(seconds)), result


def compile_timed(function: Any, *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """Trace and compile a jitted function for these arguments; seconds, and the compiled program."""
    start = time.perf_counter()
    compiled = function.lower(*args, **kwargs).compile()
    return time.perf_counter() - start, compiled


def without_compilation_cache() -> None:
    """Turn JAX's persistent cache off, so that stated compile times are those of compiling."""
    jax.config.update("jax_enable_compilation_cache", False)


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Fingerprint results, to tell whether two runs computed the same."""
    h = hashlib.sha256()
    for array in arrays:
        h.update(f"{array.dtype.str}{array.shape}".encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:16]


def environment() -> dict[str, Any]:
    """Describe what a number depends on besides the code: device, versions, date, commit, load of the machine."""
    device = jax.devices()[0]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "rules_version": RULES_VERSION,
        "dtype": "uint32 words (packed), bool and int8 (one-hot)",
        "backend": jax.default_backend(),
        "device": device.device_kind,
        "device_count": jax.device_count(),
        "cpu_model": _cpu_model(),
        "cpu_cores": available_cores(),
        "load_average": _load_average(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def write_json(path: str | os.PathLike[str] | None, content: Any) -> None:
    """Write a JSON file as a whole: a reader sees the old file or the new one, never a part. None: write nothing."""
    if path is None:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def resume(path: Path | None, fresh: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Go on with what an earlier run of the same benchmark left in a file, or begin with `fresh` if there is none.

    The environments of earlier runs stay, in `earlier_environments`.

    Args:
        path: of the file; None: nothing is kept.
        fresh: what a first run begins with: `benchmark`, `environment`, its settings, and no results.
        settings: names in `fresh` that must be as they were.

    Raises:
        SystemExit: the file has results of another benchmark or of other settings.
    """
    if path is None or not path.exists():
        return fresh
    before = json.loads(path.read_text(encoding="utf-8"))
    # A setting that there was not yet when the file began is an empty one.
    differs = [name for name in ("benchmark", *settings) if before.get(name, type(fresh[name])()) != fresh[name]]
    if differs:
        raise SystemExit(f"{path} differs from this run in {', '.join(differs)}: choose another file or remove it")
    # Rows that are there already were not made here and now.
    earlier = [*before.get("earlier_environments", []), before["environment"]]
    return fresh | before | {"environment": fresh["environment"], "earlier_environments": earlier}


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    """Read `"1024,4096"` or `"2^10..2^13"` (by factors of two) as batch sizes.

    Raises:
        ValueError: the text has another form or a size below 1.
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
        raise ValueError(f"batch sizes must look like 1024,4096 or 2^10..2^17, got {text!r}")
    return sizes


def console() -> Console:
    """Open a console for tables, wide enough for them when the output goes to a file."""
    return Console(width=None if sys.stdout.isatty() else 120)


def si(value: float) -> str:
    """Format a number in three digits with k, M or G."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def _power(text: str) -> int:
    base, _, exponent = text.strip().partition("^")
    return int(base) ** int(exponent) if exponent else int(base)


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


def _load_average() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
