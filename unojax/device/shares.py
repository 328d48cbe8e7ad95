"""Shares of a run of games, for several processes that are joined by `jax.distributed`.

Games know nothing of each other. So each process plays a *share* of them on its own devices, and results meet at
the end. A process that is lost in between does not stop the others.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_AXIS: Final = "processes"
_EXAMPLE: Final = "for example node1:4321,2,0"
_PATIENCE: Final = 30 * 24 * 3600
"""Seconds until JAX takes a process for lost that says nothing."""


class Share(NamedTuple):
    """What one of several processes plays of a run: the games whose number is `part` modulo `parts`."""

    part: int = 0
    parts: int = 1

    def size(self, total: int) -> int:
        """Count the games of this share among the first `total` ones."""
        return len(range(self.part, total, self.parts))

    def holds(self, number: np.ndarray) -> np.ndarray:
        """Tell the numbers, int[...], that are of this share: bool[...]."""
        return number % self.parts == self.part

    def file_of(self, path: str) -> str:
        """Name the file of this share: `rows.npz` becomes `rows.0-of-2.npz` if there are two."""
        whole = Path(path)
        return path if self.parts == 1 else str(whole.with_name(f"{whole.stem}.{self.part}-of-{self.parts}{whole.suffix}"))


ALL: Final = Share()


class LostProcessError(RuntimeError):
    """Another process of the run has ended before it gave its results."""


def check_share(share: tuple[int, int], total: int | None = None) -> Share:
    """Read a share of `total` games. Raises ValueError where it is none, or where it has no game."""
    part, parts = share
    if not (all(isinstance(number, int | np.integer) for number in (part, parts)) and 0 <= part < parts):
        raise ValueError(f"share must be (part, parts) with 0 <= part < parts, got {tuple(share)!r}")
    if total is not None and part >= total:
        raise ValueError(f"share {tuple(share)!r} has none of {total} games; ask for more games, or for fewer shares")
    return Share(int(part), int(parts))


def read_distributed(text: str) -> dict[str, Any]:
    """Make the arguments of `jax.distributed.initialize` of "auto" or "HOST:PORT,PROCESSES,NUMBER".

    Raises:
        ValueError: the text has another form.
    """
    if text == "auto":
        return {}
    parts = text.split(",")
    if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit() and int(parts[2]) < int(parts[1])):
        raise ValueError(f'distributed must be "auto" or "HOST:PORT,PROCESSES,NUMBER", {_EXAMPLE}; got {text!r}')
    return {"coordinator_address": parts[0], "num_processes": int(parts[1]), "process_id": int(parts[2])}


def join_processes(text: str, about: str) -> None:
    """Join the other processes of a run, before JAX computes anything.

    Args:
        text: as in `read_distributed`.
        about: what is to be played, the same text in all processes.

    Raises:
        ValueError: the text has another form, "auto" finds no cluster, or other processes are about something else.
        LostProcessError: another process ended.
    """
    arguments = read_distributed(text)
    try:
        # JAX would end all processes where one is lost.
        jax.distributed.initialize(**arguments, heartbeat_timeout_seconds=_PATIENCE)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"distributed {text!r}: can't join the other processes: {_first_line(error)}") from None
    # This also connects all processes: a lost one is noticed from now on.
    with _quiet_stdout():
        told = gather({"about": np.frombuffer(about.encode(), np.uint8)})
    if len({each["about"].tobytes() for each in told}) > 1:
        raise ValueError("all processes must have the same options apart from distributed and the names of files")


def this_share() -> Share:
    """Give the share of this process among all that `jax.distributed` has joined."""
    return Share(jax.process_index(), jax.process_count())


def gather(arrays: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Exchange arrays of any shapes with the other processes, and give those of all in the order of their indices.

    Raises:
        LostProcessError: another process ended before it gave its own.
    """
    if jax.process_count() == 1:
        return [arrays]
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    content = np.frombuffer(file.getvalue(), np.uint8)
    sizes = _exchange(np.array([len(content)], np.int32)).ravel()
    rows = _exchange(np.pad(content, (0, int(sizes.max()) - len(content))))
    return [dict(np.load(io.BytesIO(row[:size].tobytes()))) for row, size in zip(rows, sizes, strict=True)]


def _exchange(values: np.ndarray) -> np.ndarray:
    """Give the arrays of all processes, of one shape, with a new first axis."""
    # On the CPUs, with a GPU too: there a lost process is an error, and not one that is waited for.
    first_of = {device.process_index: device for device in reversed(jax.devices("cpu"))}
    count = jax.process_count()
    mesh = Mesh(np.array([first_of[index] for index in range(count)]), (_AXIS,))
    split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((_AXIS,), ()))
    try:
        rows = jax.make_array_from_process_local_data(split, values[None], (count, *values.shape))
        return np.asarray(jax.jit(lambda x: x, out_shardings=whole)(rows).addressable_data(0))
    except (ValueError, RuntimeError) as error:
        raise LostProcessError(f"another process has ended too early ({_first_line(error)})") from None


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Send what libraries print to stderr, where they print without Python: Gloo tells of its connections."""
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
