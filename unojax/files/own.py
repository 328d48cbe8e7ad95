"""Policies and agents of one's own, from a file of Python: `my.py:clever`. Imports no JAX.

A spec `FILE.py:NAME` means the object of that name in the file: a policy, an agent, or a function or class that makes one, whose
parameters all have defaults and follow a second colon, `my.py:Clever:depth=3`.
"""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_OWN: Final = re.compile(r"(?P<file>(?:[A-Za-z]:[\\/])?[^\n:]*\.py):(?P<name>[^:]*)(?::(?P<values>.*))?", re.DOTALL)
_MODULES: dict[Path, ModuleType] = {}
"""A file is run once in a process, so that a policy stays the same object."""


def is_own(spec: str) -> bool:
    """Tell a spec that names a file."""
    return _OWN.fullmatch(spec) is not None


def split_own(spec: str) -> tuple[str, str | None]:
    """Part a spec `FILE.py:NAME:key=value` after the name; None where there is no second colon."""
    found = _OWN.fullmatch(spec)
    assert found is not None
    return f"{found['file']}:{found['name']}", found["values"]


def file_of(spec: str) -> Path:
    """Give the file that a spec names."""
    found = _OWN.fullmatch(spec)
    assert found is not None
    return Path(found["file"]).expanduser().resolve()


def load_own(spec: str) -> Any:
    """Run the file of a spec and give the object that it names.

    The folder of the file is searched for what it imports, as if it were run by `python FILE.py`.

    Raises:
        ValueError: there is no such file or name, or the file raises something; the message says what.
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
    # Beside what others are called, whatever the file is.
    name = f"unojax_own_{len(_MODULES)}_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
    about = spec_from_file_location(name, path)
    assert about is not None and about.loader is not None
    module = module_from_spec(about)
    # Dataclasses look their module up while it runs.
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        about.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"agent {spec!r}: {path.name} can't be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    _MODULES[path] = module
    return module


def _is_candidate(name: str, value: Any, module: ModuleType) -> bool:
    home = getattr(value, "__module__", None)
    return not name.startswith("_") and callable(value) and home == module.__name__
