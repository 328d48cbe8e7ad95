"""Programs kept between runs as they are traced: a search is traced for longer than it takes.

JAX keeps what it has compiled (`unojax.device.compilation_cache`), but finds it by the program that tracing and lowering make. A
`KeptProgram` keeps that too, in the form of `jax.export`, in the same folder.
"""

from __future__ import annotations

import hashlib
import pickle
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Final

import jax
import numpy as np
from jax import export

from unojax import IMPORTED_AT
from unojax.device.platform import Platform, platform
from unojax.files import write_whole

_PACKAGE: Final = Path(__file__).parents[1]
_COARSE: Final = 2.0
"""Seconds by which the times of files may be off: some file systems count whole ones, or two at a time."""
_ALIVE: Final = 8
"""Compiled programs that a process holds of each function."""
_Program = tuple[Callable[..., list[Any]], Any]
"""Of leaves, and the structure of what it returns."""
_Types = tuple[tuple[tuple[int, ...], Any], ...]
"""Shape and type of each leaf."""


class KeptProgram:
    """A function of arrays as a compiled program, to be called on the host. It is found again by all that tracing depends on:
    the package's source, JAX and its settings, the platform and the one that it is tuned for, the static argument, and shapes
    and types of the others. Within a process JAX's settings are taken to stay as they are. Where the package's source has changed
    since the process imported it, programs are traced and not kept: they would be found by source that they are not of.

    Args:
        function: pure.
        static: name of its static argument, which is hashable and given by name. One that is not made of the package's own types
            and functions, of numbers and of text is traced in every process.
    """

    def __init__(self, function: Callable[..., Any], *, static: str):
        self._function, self._static = function, static
        self._trace = lru_cache(_ALIVE)(self._read_or_trace)
        self._make = lru_cache(_ALIVE)(self._compile)
        self._lock = Lock()

    def __call__(self, *args: Any, **static: Any) -> Any:
        leaves, treedef = _flatten(args)
        program, returned = self._get(leaves, treedef, static)
        return jax.tree.unflatten(returned, program(*leaves))

    @property
    def num_compiled(self) -> int:
        """Programs that this process has compiled."""
        return self._make.cache_info().misses

    def compile(self, *args: Any, **static: Any) -> None:
        """Make the program ready for arguments of such shapes and types: arrays, or `jax.ShapeDtypeStruct`."""
        self._get(*_flatten(args), static)

    def shapes(self, *args: Any, **static: Any) -> Any:
        """What comes back for such arguments, each a `jax.ShapeDtypeStruct`. Traced if need be, not compiled."""
        leaves, treedef = _flatten(args)
        with self._lock:
            traced, returned = self._trace(*self._key(leaves, treedef, static))
        return jax.tree.unflatten(returned, traced.out_info)

    def _get(self, leaves: list[Any], treedef: Any, static: dict[str, Any]) -> _Program:
        # Who needs a program that another thread is making waits for it.
        with self._lock:
            return self._make(*self._key(leaves, treedef, static))

    def _key(self, leaves: list[Any], treedef: Any, static: dict[str, Any]) -> tuple[_Types, Any, Any, Platform]:
        return _types_of(leaves), treedef, static[self._static], platform()

    def _compile(self, given: _Types, treedef: Any, static: Any, made_for: Platform) -> _Program:
        traced, returned = self._trace(given, treedef, static, made_for)
        return traced.lower().compile(), returned

    def _read_or_trace(self, given: _Types, treedef: Any, static: Any, made_for: Platform) -> tuple[jax.stages.Traced, Any]:
        function = partial(self._function, **{self._static: static})
        returned: Any = None

        def of_leaves(*leaves: Any) -> list[Any]:
            nonlocal returned
            found, returned = jax.tree.flatten(function(*jax.tree.unflatten(treedef, leaves)))
            return found

        of_leaves.__name__ = self._function.__name__
        program, shapes = jax.jit(of_leaves), [jax.ShapeDtypeStruct(*shape) for shape in given]
        file = self._file(given, treedef, static, made_for)
        if file is not None:
            if (kept := _read(file)) is not None:
                exported, returned = kept
            else:
                exported = export.export(program)(*shapes)
                # Tracing imports modules, too.
                if _is_as_imported():
                    _write(file, exported, returned)
            program = jax.jit(_without_lapack(exported).call)
        return program.trace(*shapes), returned

    def _file(self, given: Any, treedef: Any, static: Any, made_for: Platform) -> Path | None:
        """Name the file of a program; None if there is no folder on this machine, or nothing to tell the program by."""
        folder = jax.config.values["jax_compilation_cache_dir"]
        if not folder or "://" in folder or not jax.config.values["jax_enable_compilation_cache"]:
            return None
        try:
            about, source = describe(static), _source()
        except (TypeError, OSError):
            return None
        if not _is_as_imported():
            return None
        settings = {name: value for name, value in jax.config.values.items() if name != "jax_compilation_cache_dir"}
        jax_is = str(sorted(settings.items())), jax.__version__, jax.default_backend()
        facts = about, str(given), str(treedef), made_for, *jax_is, source
        digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
        return Path(folder) / f"{self._function.__name__}-{digest}-traced"


def describe(value: Any) -> str:
    """Write down a value that is made of the package's own types and functions, of numbers and of text.

    Fields that do not count when two values are compared are left out.

    Raises:
        TypeError: something else is in it.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(map(describe, value))})"
    is_named = isinstance(value, types.FunctionType | type) and "<" not in value.__qualname__
    named = value if is_named else kind
    if named.__module__.partition(".")[0] != _PACKAGE.name:
        raise TypeError(f"{named.__module__} is not of the package")
    name = f"{named.__module__}.{named.__qualname__}"
    if is_named:
        return name
    if is_dataclass(value):
        return f"{name}({', '.join(describe(getattr(value, field.name)) for field in fields(value) if field.compare)})"
    if isinstance(value, tuple):
        return f"{name}({', '.join(map(describe, value))})"
    raise TypeError(f"{name} may hold anything")


def _flatten(args: Any) -> tuple[list[Any], Any]:
    """Flatten arguments; numbers and NumPy's arrays get the types that JAX has for them."""
    leaves, treedef = jax.tree.flatten(args)
    return [leaf if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) else jax.device_put(leaf) for leaf in leaves], treedef


def _types_of(leaves: list[Any]) -> _Types:
    return tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def _without_lapack(exported: export.Exported) -> export.Exported:
    """Spare a program that does no linear algebra SciPy, which JAX imports (0.2 s) to call what was exported for a CPU."""
    if b"lapack" in exported.mlir_module_serialized:
        return exported
    checks = (*exported.disabled_safety_checks, export.DisabledSafetyCheck.platform())
    return replace(exported, platforms=("any",), disabled_safety_checks=checks)


def _read(file: Path) -> tuple[export.Exported, Any] | None:
    try:
        with file.open("rb") as stream:
            returned = jax.tree.structure(pickle.load(stream))
            return export.deserialize(bytearray(stream.read())), returned
    except Exception:  # What can't be read, whatever became of it, is made anew.
        return None


def _write(file: Path, exported: export.Exported, returned: Any) -> None:
    # A structure can't be pickled, but what is built by it.
    example = jax.tree.unflatten(returned, range(returned.num_leaves))
    # A folder that is full or read-only keeps nothing.
    with suppress(OSError):
        write_whole(file, pickle.dumps(example) + exported.serialize())


@cache
def _files(package: Path) -> list[Path]:
    """List the files of a package's source."""
    return sorted(package.rglob("*.py"))


@cache
def _source() -> str:
    """Digest the package's source, as it is on disk at the first call, and the version of Flax, through which it traces networks.

    Raises:
        OSError: a file can't be read.
    """
    digest = hashlib.sha256(version("flax").encode())
    for file in _files(_PACKAGE):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_as_imported() -> bool:
    """Tell by the times of the package's files whether none has changed since this process imported it, or just before."""
    try:
        stats = [file.stat() for file in _files(_PACKAGE)]
    except OSError:  # A file is being replaced, or is gone.
        return False
    # A file that is moved or unpacked keeps the time of its content.
    return all(max(stat.st_mtime, stat.st_ctime) < IMPORTED_AT - _COARSE for stat in stats)
