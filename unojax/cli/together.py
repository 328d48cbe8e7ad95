"""One command in several processes: each plays a share, the first one reports."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Final, Optional, TypeVar

import tyro

_Tree = TypeVar("_Tree")
_OWN: Final = ("distributed", "out", "results", "plot", "json", "quiet")
"""Options that may differ between processes."""

Distributed = Annotated[
    Optional[str],
    tyro.conf.arg(
        metavar="HOST:PORT,PROCESSES,NUMBER|auto",
        help="Divide the games among several processes, on one machine or more: address of the first one, their number, and this "
        "one's number from 0. auto: as Slurm, Kubernetes or a TPU pod says.",
    ),
]


def join(command: Any) -> None:
    """Join the other processes if the options name any."""
    if (text := getattr(command, "distributed", None)) is None:
        return
    from unojax.cli import output
    from unojax.device.shares import join_processes, this_share

    name = type(command).__name__
    about = {field.name: getattr(command, field.name) for field in fields(command) if field.name not in _OWN}
    join_processes(text, f"{name} {about}")
    share = this_share()
    if share.part > 0:
        # JAX ends this process at once, without a chance to say this later.
        remedy = f"start the command again in every process{_not_repeated(getattr(command, 'results', None))}"
        output.note(name.lower(), f"process {share.part} of {share.parts} has joined; if process 0 ends too early, {remedy}")


def leave(command: Any, status: int) -> None:
    """Wait for the other processes after success: the first one must leave last."""
    if getattr(command, "distributed", None) is not None and status == 0:
        import jax

        jax.distributed.shutdown()


def is_first() -> bool:
    """Return whether this is the first process, which prints the report."""
    from unojax.device.shares import this_share

    return this_share().part == 0


def collect(command: str, results: _Tree, file: str | None = None) -> tuple[list[_Tree], bool]:
    """Return the results of all processes (see `shares.gather`) and True; if one is lost, only these and False.

    A note then names the remedy; the games in `file` are not played again.
    """
    from unojax.cli import output
    from unojax.device.shares import LostProcessError, gather, this_share

    try:
        return gather(results), True
    except LostProcessError as error:
        share = this_share()
        own = f"the results are those of process {share.part} of {share.parts} alone"
        output.note(command, f"{error}{_not_repeated(file)}; {own}")
        return [results], False


def _not_repeated(file: str | None) -> str:
    return "" if file is None else f" (games in {file} are not played again)"
