"""Count what a device has to do to run a compiled program.

On a GPU the instructions of the entry and of the bodies of loops and branches are kernels (fusions, copies, sorts, library
calls), launched by the host one after the other; a fusion's computation says what its kernel does for each element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.hlo import Computation, Instruction, Program

# Operations of an instruction per element, in units of a 32-bit addition. Population counts and special functions have a quarter
# of its rate; a shift checks its distance, a division is a reciprocal with corrections.
_FREE: Final = frozenset(
    (
        "parameter",
        "constant",
        "broadcast",
        "bitcast",
        "reshape",
        "tuple",
        "get-tuple-element",
        "slice",
        "transpose",
        "iota",
        "copy",
    )
)
_WEIGHTS: Final = {
    "popcnt": 4, "count-leading-zeros": 4, "shift-left": 2, "shift-right-logical": 2, "shift-right-arithmetic": 2,
    "divide": 8, "remainder": 12, "exponential": 6, "exponential-minus-one": 12, "log": 8, "log-plus-one": 12, "sine": 20,
    "cosine": 20, "tanh": 12, "sqrt": 6, "rsqrt": 6, "power": 20, "dynamic-slice": 4, "gather": 6, "scatter": 8,
    "dynamic-update-slice": 4,
}  # fmt: skip
# Instructions at the top of a computation that launch nothing.
_NO_KERNEL: Final = frozenset(
    (
        "parameter",
        "constant",
        "bitcast",
        "tuple",
        "get-tuple-element",
        "while",
        "conditional",
        "call",
        "after-all",
        "partition-id",
    )
)


@dataclass(frozen=True)
class Kernel:
    """What one kernel reads, writes and computes once.

    Attributes:
        name: of the instruction.
        path: where in the source it comes from.
        num_bytes: read and written.
        operations: in units of a 32-bit addition.
        num_threads: elements of its largest result, or of what it adds up.
        is_copy: it copies an array and nothing else.
    """

    name: str
    path: str
    num_bytes: int
    operations: int
    num_threads: int
    is_copy: bool


@dataclass(frozen=True)
class Part:
    """What a program launches in one place: its entry, a body of a loop, or a branch.

    Attributes:
        name, path: of the loop or branch; the path says where in the source it comes from.
        kind: "entry", "loop" or "branch".
        trip_count: iterations of a loop, None if unknown to the compiler; 1 otherwise.
        kernels: launched each time.
        inner: loops and branches inside.
    """

    name: str
    path: str
    kind: str
    trip_count: int | None
    kernels: tuple[Kernel, ...]
    inner: tuple[Part, ...]

    def walk(self) -> Iterator[Part]:
        """Go through this part and all that are inside."""
        yield self
        for part in self.inner:
            yield from part.walk()


def parts(program: Program) -> Part:
    """Arrange what a program launches by loops and branches."""
    return _part(program, program.entry, "entry", "", "entry", 1)


def _part(program: Program, computation: Computation, name: str, path: str, kind: str, trip_count: int | None) -> Part:
    kernels, inner = [], []
    for i in computation.instructions:
        if i.opcode == "while":
            body = program.computations[i.called("body") or ""]
            inner.append(_part(program, body, i.name, i.path, "loop", i.trip_count))
        elif i.opcode == "conditional":
            branches = [program.computations[b] for b in i.branches]
            inner += [_part(program, b, f"{i.name}[{n}]", i.path, "branch", 1) for n, b in enumerate(branches)]
        elif i.opcode == "call":
            called = _part(program, program.computations[i.called("to_apply") or ""], name, path, kind, trip_count)
            kernels += called.kernels
            inner += called.inner
        elif i.opcode not in _NO_KERNEL and not i.opcode.endswith("-done"):
            kernels.append(_kernel(program, computation, i))
    return Part(name, path, kind, trip_count, tuple(kernels), tuple(inner))


def _kernel(program: Program, computation: Computation, i: Instruction) -> Kernel:
    called = program.computations.get(i.called("calls") or "") if i.opcode == "fusion" else None
    operands = [computation[name] for name in i.operands]
    if called is None:
        return _alone(i, operands)
    read = [_bytes_read(called, p) for p in called.instructions if p.opcode == "parameter"]
    is_copy = all(o.opcode in ("parameter", "copy", "bitcast", "transpose", "tuple") for o in called.instructions)
    adds_up = "kind=kInput" in i.attributes
    threads = max(_num_threads(called, _behind_sums(called, root) if adds_up else root) for root in _roots(called))
    return Kernel(i.name, i.path, sum(read) + _bytes_written(called), _operations(program, called), threads, is_copy)


def _alone(i: Instruction, operands: list[Instruction]) -> Kernel:
    """Count what an instruction does that is a kernel of its own."""
    taken = sum(operand.num_bytes for operand in operands)
    sizes = [operand.num_elements for operand in operands]
    if terms := _terms(i, operands):
        # A library's product has a second result, memory to work in. Long sums are divided among threads, too.
        result = i.shapes[0]
        threads = max(result.num_elements, *sizes)
        return Kernel(i.name, i.path, taken + result.num_bytes, terms * result.num_elements, threads, False)
    num_bytes = 2 * operands[1].num_bytes if i.opcode == "dynamic-update-slice" else taken + i.num_bytes
    reduced = max(sizes, default=0) if i.opcode in ("reduce", "sort") else i.num_elements
    weight = _WEIGHTS.get(i.opcode, 0 if i.opcode in _FREE else 1) * (math.log2(max(reduced, 2)) if i.opcode == "sort" else 1)
    return Kernel(i.name, i.path, num_bytes, int(weight * reduced), max(reduced, i.num_elements), i.opcode == "copy")


def _terms(i: Instruction, operands: list[Instruction]) -> int:
    """Count the products that each element of a matrix product adds up, one operation each; 0 if it is none."""
    axes = re.search(r'lhs_contracting_dim(?:ension)?s"?[=:][{\[]([^}\]]*)', i.attributes)
    return math.prod(operands[0].shapes[0].sizes[int(axis)] for axis in re.findall(r"\d+", axes.group(1))) if axes else 0


def _num_threads(called: Computation, root: Instruction) -> int:
    """Count the threads of a root: one for each element that is written, or that is added up."""
    if root.opcode in ("reduce", "sort"):
        return called[root.operands[0]].num_elements
    return _num_written(called, root)


def _behind_sums(called: Computation, root: Instruction) -> Instruction:
    """Find the sum that a root is worked out from, element by element: the same threads do that. The root if there is none."""
    i = root
    while i.opcode not in ("reduce", "sort"):
        alike = (called[name] for name in i.operands if called[name].num_elements == root.num_elements)
        before = [x for x in alike if x.opcode not in ("parameter", "constant", "broadcast", "iota")]
        if len(before) != 1:
            return root
        i = before[0]
    return i


def _roots(called: Computation) -> list[Instruction]:
    roots = [called.root] if called.root.opcode != "tuple" else [called[name] for name in called.root.operands]
    return [_behind_bitcasts(called, root) for root in roots]


def _behind_bitcasts(called: Computation, i: Instruction) -> Instruction:
    while i.opcode in ("bitcast", "reshape") and i.operands:
        i = called[i.operands[0]]
    return i


def _bytes_read(called: Computation, parameter: Instruction) -> int:
    """Count what a fusion reads of an operand: of one that it only takes slices of, the slices."""
    names, total = {parameter.name}, 0
    for i in called.instructions:
        used = [n for n, name in enumerate(i.operands) if name in names]
        if not used:
            continue
        if i.opcode in ("bitcast", "reshape"):
            names.add(i.name)
        elif i.opcode in ("slice", "dynamic-slice", "gather") and used[0] == 0:
            total += i.num_bytes
        elif i.opcode in ("dynamic-update-slice", "scatter") and used == [0]:
            continue
        else:
            return parameter.num_bytes
    return min(total, parameter.num_bytes)


def _bytes_written(called: Computation) -> int:
    def of_root(root: Instruction) -> int:
        if root.opcode == "dynamic-update-slice":
            return called[root.operands[1]].num_bytes
        if root.opcode == "scatter":
            return called[root.operands[-1]].num_bytes
        return root.num_bytes

    return sum(map(of_root, _roots(called)))


def _operations(program: Program, called: Computation) -> int:
    """Add up the operations of a fusion: of each instruction as many as there are elements of it that a thread asks for.

    What is sliced away is not computed, and what is broadcast is computed by every thread that needs it.
    """
    asked = dict.fromkeys((i.name for i in called.instructions), 0)
    asked.update((root.name, _num_written(called, root)) for root in _roots(called))
    total = 0
    for i in reversed(called.instructions):
        number = asked[i.name]
        for position, operand in enumerate(i.operands):
            asked[operand] = max(asked[operand], _asked_of_operand(called, i, position, number))
        if i.opcode == "fusion":
            total += _operations(program, program.computations[i.called("calls") or ""])
        elif i.opcode not in _FREE:
            total += int(number * _weight(program, called, i))
    return total


def _asked_of_operand(called: Computation, i: Instruction, position: int, number: int) -> int:
    """Count the elements of an operand that are needed for so many of an instruction."""
    size = called[i.operands[position]].num_elements
    if i.opcode == "tuple":
        return 0
    if i.opcode == "reduce":
        return number * max(1, size // max(1, i.num_elements))
    if i.opcode == "reduce-window":
        return number * _window(i)
    if i.opcode == "sort":
        return size
    if i.opcode in ("dynamic-update-slice", "scatter") and position == 0:
        return 0
    return number


def _weight(program: Program, called: Computation, i: Instruction) -> float:
    """Operations for each element of an instruction."""
    if i.opcode in ("reduce", "reduce-window"):
        combine = program.computations.get(i.called("to_apply") or "")
        inside = 1 if combine is None else sum(c.opcode not in _FREE for c in combine.instructions)
        of_each = _window(i) if i.opcode == "reduce-window" else called[i.operands[0]].num_elements / max(1, i.num_elements)
        return inside * of_each
    return math.log2(max(i.num_elements, 2)) if i.opcode == "sort" else _WEIGHTS.get(i.opcode, 1)


def _window(i: Instruction) -> int:
    match = re.search(r"size=([\dx]+)", i.attributes)
    return math.prod(int(size) for size in match.group(1).split("x")) if match else 1


def _num_written(called: Computation, root: Instruction) -> int:
    """Count the elements that a root computes: of what is updated in place, those of the update."""
    at = {"dynamic-update-slice": 1, "scatter": -1}.get(root.opcode)
    return root.num_elements if at is None else called[root.operands[at]].num_elements
