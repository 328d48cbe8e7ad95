"""Without its library, an adapter says in one line what to install; and nothing else of the package needs one."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

LIBRARIES = {
    "pgx": ("pgx", "pgx"),
    "gymnasium": ("gymnasium", "gymnasium"),
    "pettingzoo": ("pettingzoo", "pettingzoo"),
    "openspiel": ("pyspiel", "open_spiel"),
    "rlcard": ("rlcard", "rlcard"),
    "jaxmarl": ("jaxmarl", "jaxmarl"),
}


@pytest.mark.parametrize("adapter", LIBRARIES)
def test_it_says_what_to_install(adapter: str, monkeypatch: pytest.MonkeyPatch):
    module, name = LIBRARIES[adapter]
    for loaded in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"unojax.adapters.{adapter}", raising=False)
    with pytest.raises(ImportError) as raised:
        import_module(f"unojax.adapters.{adapter}")
    how = f"pip install 'unojax[{adapter}]', or in a clone pip install -e '.[{adapter}]'"
    assert str(raised.value) == f"unojax.adapters.{adapter} needs {name}: {how}"


def test_the_package_needs_none_of_them():
    libraries = {module for module, _ in LIBRARIES.values()}
    code = "import sys, unojax.cli, unojax.adapters, unojax.adapters.process; "
    code += f"sys.exit(', '.join({libraries!r} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)
