"""Read a program as XLA compiled it.

XLA prints a compiled program as text: computations, each a list of instructions. `kernels` says what a device does to run it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final

_BYTES: Final = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8}


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
