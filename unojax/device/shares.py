"""Shares of a run of games, for several processes that are joined by `jax.distributed`.

Each process plays a *share* of the games on its own devices, and the results are combined at the end. A lost process does not
stop the others before that.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_Tree = TypeVar("_Tree")
_AXIS: Final = "processes"
_EXAMPLE: Final = "for example node1:4321,2,0"
_PATIENCE: Final = 30 * 24 * 3600
"""Seconds of silence after which JAX considers a process lost."""


class Share(NamedTuple):
    """Share of one of several processes: the games whose number is `part` modulo `parts`."""

    part: int = 0
    parts: int = 1

    def size(self, total: int) -> int:
        """Return the number of this share's games among the first `total` ones."""
        return len(range(self.part, total, self.parts))

    def holds(self, number: np.ndarray) -> np.ndarray:
        """Return which numbers, int[...], belong to this share: bool[...]."""
        return number % self.parts == self.part

    def file_of(self, path: str) -> str:
        """Return the file of this share: `rows.npz` becomes `rows.0-of-2.npz` if there are two."""
        whole = Path(path)
        return path if self.parts == 1 else str(whole.with_name(f"{whole.stem}.{self.part}-of-{self.parts}{whole.suffix}"))


ALL: Final = Share()


class LostProcessError(RuntimeError):
    """Another process of the run ended before it returned its results."""


def check_share(share: tuple[int, int], total: int | None = None) -> Share:
    """Return a share of `total` games. Raises ValueError if it is invalid or has no game."""
    part, parts = share
    if not (all(isinstance(number, int | np.integer) for number in (part, parts)) and 0 <= part < parts):
        raise ValueError(f"share must be (part, parts) with 0 <= part < parts, got {tuple(share)!r}")
    if total is not None and part >= total:
        raise ValueError(f"share {tuple(share)!r} has none of {total} games; ask for more games, or for fewer shares")
    return Share(int(part), int(parts))


def read_distributed(text: str) -> dict[str, Any]:
    """Return arguments of `jax.distributed.initialize` from "auto" or "HOST:PORT,PROCESSES,NUMBER".

    Raises:
        ValueError: If the text has another form.
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
        text: As in `read_distributed`.
        about: Description of the run, the same text in all processes.

    Raises:
        ValueError: If the text has another form, "auto" finds no cluster, or the descriptions differ.
        LostProcessError: If another process ended.
    """
    arguments = read_distributed(text)
    try:
        # By default JAX ends all processes when one is lost.
        jax.distributed.initialize(**arguments, heartbeat_timeout_seconds=_PATIENCE)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"distributed {text!r}: can't join the other processes: {_first_line(error)}") from None
    # This also connects all processes, so that a lost one is noticed.
    with _quiet_stdout():
        descriptions = gather(np.frombuffer(about.encode(), np.uint8))
    if len({description.tobytes() for description in descriptions}) > 1:
        raise ValueError("all processes must have the same options apart from distributed and the names of files")


def this_share() -> Share:
    """Return the share of this process among all that `jax.distributed` has joined."""
    return Share(jax.process_index(), jax.process_count())


def gather(tree: _Tree) -> list[_Tree]:
    """Exchange a pytree of NumPy arrays and Python numbers with the other processes, and return those of all, by process index.

    Its structure must be the same in all processes; shapes may differ.

    Raises:
        LostProcessError: If another process ended before it sent its own.
    """
    if jax.process_count() == 1:
        return [tree]
    leaves, treedef = jax.tree.flatten(tree)
    file = io.BytesIO()
    np.savez(file, *leaves, allow_pickle=False)
    content = np.frombuffer(file.getvalue(), np.uint8)
    sizes = _exchange(np.array([len(content)], np.int32)).ravel()
    rows = _exchange(np.pad(content, (0, int(sizes.max()) - len(content))))
    trees = []
    for row, size in zip(rows, sizes, strict=True):
        arrays = np.load(io.BytesIO(row[:size].tobytes())).values()
        of_process = [array if isinstance(leaf, np.ndarray) else array.item() for leaf, array in zip(leaves, arrays, strict=True)]
        trees.append(jax.tree.unflatten(treedef, of_process))
    return trees


def _exchange(values: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes, of one shape, with a new first axis."""
    # On the CPUs, even with a GPU: there a lost process raises an error instead of a hang.
    first_of = {device.process_index: device for device in reversed(jax.devices("cpu"))}
    count = jax.process_count()
    mesh = Mesh(np.array([first_of[index] for index in range(count)]), (_AXIS,))
    split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((_AXIS,), ()))
    try:
        rows = jax.make_array_from_process_local_data(split, values[None], (count, *values.shape))
        return np.asarray(jax.jit(lambda x: x, out_shardings=whole)(rows).addressable_data(0))
    except (ValueError, RuntimeError) as error:
        lost = f"another process has ended too early ({_first_line(error)})"
        raise LostProcessError(f"{lost}: start the command again in every process") from None


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Send output of non-Python libraries from stdout to stderr: Gloo prints its connections."""
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
