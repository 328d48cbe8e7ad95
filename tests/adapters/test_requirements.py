"""A missing library's error names the package to install; the rest of the package needs no such library."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

LIBRARIES = {
    "pgx": "pgx",
    "gymnasium": "gymnasium",
    "pettingzoo": "pettingzoo",
    "openspiel": "pyspiel",
    "rlcard": "rlcard",
    "jaxmarl": "jaxmarl",
}


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch):
    for adapter, module in LIBRARIES.items():
        with monkeypatch.context() as patch:
            for loaded in [key for key in sys.modules if key.split(".")[0] == module]:
                patch.delitem(sys.modules, loaded)
            patch.setitem(sys.modules, module, None)
            patch.delitem(sys.modules, f"unojax.adapters.{adapter}", raising=False)
            with pytest.raises(ImportError) as raised:
                import_module(f"unojax.adapters.{adapter}")
        name = "open_spiel" if adapter == "openspiel" else module
        how = f"pip install 'unojax[{adapter}]', or in a clone pip install -e '.[{adapter}]'"
        assert str(raised.value) == f"unojax.adapters.{adapter} needs {name}: {how}"


def test_the_package_needs_none_of_them():
    code = "import sys, unojax.cli, unojax.adapters, unojax.adapters.process; "
    code += f"sys.exit(', '.join({set(LIBRARIES.values())!r} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)
