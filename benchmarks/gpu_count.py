"""Time by count: how long a compiled program would take on a device, from what it launches.

    seconds = launches * 3 us
            + looks * 15 us
            + sum over kernels of max(bytes / bandwidth, operations / rate)

- A **launch** is one kernel started by the host (a fusion, copy, sort or library call).
- A **look** is a number that the host waits for before it goes on: the condition of a loop whose trip count the compiler does
  not know, before each iteration and at the end, and the choice among branches.
- **Bytes** are a kernel's operands and results; of an operand that is only sliced or gathered from, what is taken.
- **Operations** are counted per element of the kernel's result in 32-bit additions (`kernels` has the weights): logic, shifts,
  selections and floating point too, at the device's rate for integers. A kernel of few threads does not reach that rate.

It leaves out what overlaps (launches with kernels) and what makes kernels slower than their ceilings (latency, caches, threads
that diverge). A measured time may be better or worse; the ratio of the two tells where to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks import hlo, kernels
from benchmarks.gpu_target import Target
from benchmarks.kernels import Kernel, Part

LAUNCH_SECONDS: Final = 3e-6
LOOK_SECONDS: Final = 15e-6
BIG_COPY: Final = 1 << 20
"""Bytes from which on a copy is listed."""

Trips = Mapping[str, float]
"""By a part of the path of a loop: how often it runs on average. By that of a branch: the share of the times it is taken."""


@dataclass(frozen=True)
class Place:
    """What happens in one place of a program: the entry, a loop, or a branch.

    Attributes:
        path: where in the source it comes from.
        kind: "entry", "loop" or "branch".
        depth: loops and branches around it.
        trip_count: what the compiler knows; None if nothing.
        times: it is run per call.
        kernels: launched each time, the loops inside apart.
        copies: of 1 MB or more, their bytes.
        num_bytes, operations: of all kernels, each time.
        seconds: by count, per call.
    """

    path: str
    kind: str
    depth: int
    trip_count: int | None
    times: float
    kernels: int
    copies: tuple[int, ...]
    num_bytes: int
    operations: int
    seconds: float


@dataclass(frozen=True)
class Count:
    """Counts of a program per call, and the time that they make.

    Attributes:
        launches, looks, num_bytes, operations: per call.
        unknown_loops: whose trip count the compiler does not know.
        nested_unknown_loops: those of them inside another one.
        assumed: paths of loops that nobody gave a trip count for; taken to run once.
        seconds: by count.
        places: in the order of the program.
    """

    launches: float
    looks: float
    num_bytes: float
    operations: float
    unknown_loops: int
    nested_unknown_loops: int
    assumed: tuple[str, ...]
    seconds: float
    places: tuple[Place, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def count(text: str, target: Target, trips: Trips) -> Count:
    """Count a program, as XLA printed it."""
    places: list[Place] = []
    assumed: list[str] = []
    sums = {"launches": 0.0, "looks": 0.0, "num_bytes": 0.0, "operations": 0.0, "work": 0.0}
    unknown = nested = 0

    def visit(part: Part, times: float, depth: int, inside_unknown: bool) -> None:
        nonlocal unknown, nested
        is_unknown = part.kind == "loop" and part.trip_count is None
        unknown += is_unknown
        nested += is_unknown and inside_unknown
        if part.kind == "loop":
            trip_count = part.trip_count if part.trip_count is not None else _trips(part, trips, assumed)
            looks = times * (trip_count + 1) if is_unknown else 0.0
        else:
            trip_count = _trips(part, trips, []) if part.kind == "branch" else 1.0
            looks = times * trip_count if part.kind == "branch" else 0.0
        times *= trip_count
        work = sum(kernel_seconds(k, target) for k in part.kernels)
        totals = {
            "launches": float(len(part.kernels)),
            "num_bytes": float(sum(k.num_bytes for k in part.kernels)),
            "operations": float(sum(k.operations for k in part.kernels)),
            "work": work,
        }
        for name, value in totals.items():
            sums[name] += times * value
        sums["looks"] += looks
        places.append(
            Place(
                path=part.path,
                kind=part.kind,
                depth=depth,
                trip_count=part.trip_count,
                times=times,
                kernels=len(part.kernels),
                copies=tuple(k.num_bytes // 2 for k in part.kernels if k.is_copy and k.num_bytes >= 2 * BIG_COPY),
                num_bytes=int(totals["num_bytes"]),
                operations=int(totals["operations"]),
                seconds=times * (len(part.kernels) * LAUNCH_SECONDS + work) + looks * LOOK_SECONDS,
            )
        )
        for inner in part.inner:
            visit(inner, times, depth + 1, inside_unknown or is_unknown)

    visit(kernels.parts(hlo.parse(text)), 1.0, 0, False)
    return Count(
        launches=sums["launches"],
        looks=sums["looks"],
        num_bytes=sums["num_bytes"],
        operations=sums["operations"],
        unknown_loops=unknown,
        nested_unknown_loops=nested,
        assumed=tuple(assumed),
        seconds=sums["launches"] * LAUNCH_SECONDS + sums["looks"] * LOOK_SECONDS + sums["work"],
        places=tuple(places),
    )


def kernel_seconds(kernel: Kernel, target: Target) -> float:
    """Compute the time of one kernel, its launch apart."""
    share = min(1.0, max(kernel.num_threads, 1) / target.threads_to_fill)
    return max(kernel.num_bytes / target.bandwidth, kernel.operations / (target.integer_rate * share))


def _trips(part: Part, trips: Trips, assumed: list[str]) -> float:
    """Find the longest name that occurs in a path."""
    names = sorted((name for name in trips if name in part.path), key=len)
    if not names:
        assumed.append(part.path)
        return 1.0
    return trips[names[-1]]
