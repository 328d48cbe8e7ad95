"""The user's policies and agents, from a Python file: `my.py:clever`. Imports no JAX.

A spec `FILE.py:NAME` names a policy, an agent, or a function or class that returns one. Its parameters must have defaults and
follow a second colon: `my.py:Clever:depth=3`.

A folder with such files is a package of its own, whose files import each other by their plain names. If two folders each have a
`net.py`, each uses its own, so that two versions of an agent can play each other.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_OWN: Final = re.compile(r"(?P<file>(?:[A-Za-z]:[\\/])?[^\n:]*\.py):(?P<name>[^:]*)(?::(?P<values>.*))?", re.DOTALL)
_MODULES: dict[Path, ModuleType] = {}
"""Loaded files. Each runs once in a process, so that a policy stays the same object."""
_PACKAGE: Final = "unojax_own_"
"""Prefix of the package names, which no installed package may share."""
_FOLDERS: dict[Path, ModuleType] = {}
"""Package of each folder."""


def is_own(spec: str) -> bool:
    """Return whether a spec names a file."""
    return _OWN.fullmatch(spec) is not None


def split_own(spec: str) -> tuple[str, str | None]:
    """Split a spec after the name; None without a second colon."""
    found = _OWN.fullmatch(spec)
    assert found is not None
    return f"{found['file']}:{found['name']}", found["values"]


def file_of(spec: str) -> Path:
    """Return the file that a spec names."""
    found = _OWN.fullmatch(spec)
    assert found is not None
    return Path(found["file"]).expanduser().resolve()


def load_own(spec: str) -> Any:
    """Run the file of a spec and return the object that it names.

    Imports, also inside functions and in imported files, search the folder first, except for the standard library.

    Raises:
        ValueError: If the file or name does not exist, or the file raises an error, which the message quotes.
    """
    found = _OWN.fullmatch(spec)
    assert found is not None
    path, name = file_of(spec), found["name"]
    module = _MODULES.get(path) or _run(spec, path)
    if name.startswith("_") or not hasattr(module, name):
        defined = [n for n, value in vars(module).items() if _is_candidate(n, value, module)]
        raise ValueError(
            f"agent {spec!r}: {found['file']} has no {name!r}; it has {', '.join(defined) or 'nothing to be called'}"
        )
    return getattr(module, name)


def _run(spec: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"agent {spec!r}: there is no file {str(path)!r}")
    # Files may have been written since the last search.
    invalidate_caches()
    package = _package_of(path.parent)
    # The name by which other files of the folder import it, or a unique one that they can't use.
    stem = path.stem if path.stem.isidentifier() else f"{len(_MODULES)}_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
    name = f"{package.__name__}.{stem}"
    try:
        module = sys.modules.get(name) or _execute(name, path)
    except (Exception, SystemExit) as error:
        raise ValueError(f"agent {spec!r}: {path.name} can't be run: {type(error).__name__}: {error}") from error
    _MODULES[path] = module
    return module


def _execute(name: str, path: Path) -> ModuleType:
    loader = _Loader(name, str(path))
    about = ModuleSpec(name, loader, origin=str(path))
    about.has_location = True
    module = module_from_spec(about)
    # Dataclasses look up their module while it runs.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _package_of(folder: Path) -> ModuleType:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if folder not in _FOLDERS:
        about = ModuleSpec(f"{_PACKAGE}{len(_FOLDERS)}", None, is_package=True)
        about.submodule_search_locations = [str(folder)]
        package = _FOLDERS[folder] = module_from_spec(about)
        sys.modules[about.name] = package
    return _FOLDERS[folder]


class _Finder:
    """Finder of the packages' modules."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(_PACKAGE):
            return None
        about = PathFinder.find_spec(name, path, target)
        if about is not None and isinstance(about.loader, SourceFileLoader):
            about.loader = _Loader(name, about.loader.path)
        return about


class _Loader(SourceFileLoader):
    """Loader that makes a file's import statements search the folder of its package first."""

    def exec_module(self, module: ModuleType) -> None:
        package = sys.modules[module.__name__.partition(".")[0]]
        # Python resolves import statements through this name, in the module's functions too.
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": partial(_import, package)}
        super().exec_module(module)


def _import(
    package: ModuleType,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import as `builtins.__import__` does, but prefer modules in the folder of the package."""
    first = name.partition(".")[0]
    if level or not _is_beside(first, package):
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    import_module(f"{package.__name__}.{name}")
    # Also register the plain name if it is free, for lookups that are not import statements, such as pickle.
    for end in [at for at, letter in enumerate(f"{name}.") if letter == "."]:
        sys.modules.setdefault(name[:end], sys.modules[f"{package.__name__}.{name[:end]}"])
    if fromlist:
        return builtins.__import__(f"{package.__name__}.{name}", globals, locals, fromlist)
    return sys.modules[f"{package.__name__}.{first}"]


def _is_beside(name: str, package: ModuleType) -> bool:
    """Return whether the package's folder has that module, other than the process's."""
    # A clone of this package beside the file is not the running one.
    if name in sys.stdlib_module_names or name in ("__main__", __name__.partition(".")[0]):
        return False
    found = PathFinder.find_spec(name, package.__path__)
    if found is None:
        return False
    if found.origin is None:
        # A plain folder, such as one of data: a module of that name takes precedence, wherever it is.
        other = find_spec(name)
        return other is None or other.origin is None
    loaded = getattr(sys.modules.get(name), "__file__", None)
    return loaded is None or Path(loaded).resolve() != Path(found.origin).resolve()


def _is_candidate(name: str, value: Any, module: ModuleType) -> bool:
    home = getattr(value, "__module__", None)
    return not name.startswith("_") and callable(value) and home == module.__name__
