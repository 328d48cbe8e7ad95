"""Read a program as XLA compiled it, and count what a device has to do to run it.

XLA prints a compiled program as text: computations, each a list of instructions. On a GPU the instructions of the entry and of
the bodies of loops and branches are kernels (fusions, copies, sorts, library calls), launched by the host one after the other; a
fusion's computation says what its kernel does for each element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_BYTES: Final = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8}
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
class Shape:
    """An array: name of its type, and its sizes."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def num_elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def num_bytes(self) -> int:
        return self.num_elements * _BYTES.get(self.dtype, 4)


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    name: str
    shapes: tuple[Shape, ...]
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @property
    def num_elements(self) -> int:
        return max((shape.num_elements for shape in self.shapes), default=0)

    @property
    def num_bytes(self) -> int:
        return sum(shape.num_bytes for shape in self.shapes)

    def called(self, role: str) -> str | None:
        """Name the computation called as `role`: calls, body, condition, to_apply."""
        match = re.search(rf"\b{role}=%?([\w.\-]+)", self.attributes)
        return match and match.group(1)

    @property
    def branches(self) -> tuple[str, ...]:
        match = re.search(r"branch_computations=\{([^}]*)\}", self.attributes)
        names = (
            match.group(1) if match else ", ".join(n for r in ("true_computation", "false_computation") if (n := self.called(r)))
        )
        return tuple(name.strip().lstrip("%") for name in names.split(",") if name.strip())

    @property
    def trip_count(self) -> int | None:
        """Iterations of a loop, None if the compiler does not know them."""
        match = re.search(r"known_trip_count\D*(\d+)", self.attributes)
        return int(match.group(1)) if match else None

    @property
    def path(self) -> str:
        """Names of the functions and scopes that it comes from."""
        match = re.search(r'op_name="([^"]*)"', self.attributes)
        return match.group(1) if match else ""


@dataclass
class Computation:
    """Instructions in the order in which they run."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def __getitem__(self, name: str) -> Instruction:
        return self._by_name[name]

    @property
    def _by_name(self) -> dict[str, Instruction]:
        if len(self.__dict__.setdefault("_index", {})) != len(self.instructions):
            self.__dict__["_index"] = {i.name: i for i in self.instructions}
        return self.__dict__["_index"]

    @property
    def root(self) -> Instruction:
        return next((i for i in self.instructions if i.is_root), self.instructions[-1])


@dataclass(frozen=True)
class Program:
    """A compiled program: its computations by name, and the one that is run."""

    computations: dict[str, Computation]
    entry: Computation


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


def parse(text: str) -> Program:
    """Read what `Compiled.as_text()` gives.

    Raises:
        ValueError: the text has no entry.
    """
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$", line)
        if head:
            current = computations[head.group(2)] = Computation(head.group(2))
            entry = current if head.group(1) else entry
        elif current is not None and (instruction := _parse_instruction(line)):
            current.instructions.append(instruction)
    if entry is None:
        raise ValueError("the text is no compiled program: it has no ENTRY computation")
    return Program(computations, entry)


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
    if called is None and (terms := _terms(i, operands[0] if operands else None)):
        result = i.shapes[0]
        num_bytes = result.num_bytes + sum(o.num_bytes for o in operands)
        # Long sums are divided among threads, too.
        threads = max(result.num_elements, *(o.num_elements for o in operands))
        return Kernel(i.name, i.path, num_bytes, terms * result.num_elements, threads, False)
    if called is None:
        in_place = i.opcode == "dynamic-update-slice"
        num_bytes = 2 * operands[1].num_bytes if in_place else i.num_bytes + sum(o.num_bytes for o in operands)
        reduced = max((o.num_elements for o in operands), default=0) if i.opcode in ("reduce", "sort") else i.num_elements
        weight = _WEIGHTS.get(i.opcode, 0 if i.opcode in _FREE else 1) * (math.log2(max(reduced, 2)) if i.opcode == "sort" else 1)
        return Kernel(i.name, i.path, num_bytes, int(weight * reduced), max(reduced, i.num_elements), i.opcode == "copy")
    read = [_bytes_read(called, p) for p in called.instructions if p.opcode == "parameter"]
    is_copy = all(o.opcode in ("parameter", "copy", "bitcast", "transpose", "tuple") for o in called.instructions)
    adds_up = "kind=kInput" in i.attributes
    threads = max(_num_threads(called, _behind_sums(called, root) if adds_up else root) for root in _roots(called))
    return Kernel(i.name, i.path, sum(read) + _bytes_written(called), _operations(program, called), threads, is_copy)


def _terms(i: Instruction, first: Instruction | None) -> int:
    """Count the products that each element of a matrix product adds up, one operation each; 0 if it is none.

    A library's product comes with memory to work in as a second result, which is not read or written whole.
    """
    axes = re.search(r'lhs_contracting_dim(?:ension)?s"?[=:][{\[]([^}\]]*)', i.attributes)
    if axes is None or first is None:
        return 0
    return math.prod(first.shapes[0].sizes[int(axis)] for axis in re.findall(r"\d+", axes.group(1)))


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


def _parse_instruction(line: str) -> Instruction | None:
    match = re.match(r"\s+(ROOT )?%?([\w.\-]+) = ", line)
    if not match:
        return None
    rest = line[match.end() :]
    type_end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    opcode = re.match(r"\s*([\w\-]+)\(", rest[type_end:])
    if not opcode:
        return None
    start = type_end + opcode.end() - 1
    end = _closing(rest, start)
    operands = () if opcode.group(1) in ("constant", "parameter") else tuple(re.findall(r"%([\w.\-]+)", rest[start:end]))
    shapes = tuple(
        Shape(dtype, tuple(int(size) for size in sizes.split(",") if size))
        for dtype, sizes in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", rest[:type_end])
    )
    return Instruction(match.group(2), shapes, opcode.group(1), operands, rest[end + 1 :], bool(match.group(1)))


def _closing(text: str, start: int) -> int:
    """Find the bracket that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError(f"brackets that don't close: {text[start : start + 80]!r}")
