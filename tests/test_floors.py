"""The floors of `docs/architecture.md`: no import of the package runs upwards or in a circle."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.helpers import ROOT

PACKAGE = ROOT / "unojax"


def read_floors(page: str) -> list[set[str]]:
    """Return the rooms of each floor, the lowest first; the page draws the highest first."""
    drawing = re.search(r"```text floors\n(.*?)```", page, re.DOTALL)
    assert drawing is not None, "docs/architecture.md has no block ```text floors"
    return [set(line.split("#")[0].split()) for line in reversed(drawing[1].strip().splitlines())]


def modules(package: Path) -> dict[str, Path]:
    """Return files by their dotted names."""
    named = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the imports, calls and constants of a file."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.Constant)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def imports(path: Path, known: set[str]) -> set[str]:
    """Return the modules among `known` that a file imports anywhere."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else node.module for name in named}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {name.value for name in node.args if isinstance(name, ast.Constant)}
    return found & known


@cache
def imports_in(package: Path) -> dict[str, set[str]]:
    """Return the imports of each module, except the package's lazy `__init__`."""
    named = modules(package)
    graph = {name: imports(path, set(named)) for name, path in named.items()}
    top = package.name
    return {name: found - {top} for name, found in graph.items() if name not in (top, f"{top}.__main__")}


def rising(graph: dict[str, set[str]], floors: list[set[str]]) -> list[str]:
    """Return imports that run up, or to another room of the same floor."""
    floor_of = {room: number for number, rooms in enumerate(floors) for room in rooms}
    rooms = {module: module.split(".")[1] for module in graph}
    return sorted(
        f"{importer} -> {imported}"
        for importer, found in graph.items()
        for imported in found
        if rooms[importer] != rooms[imported] and floor_of[rooms[importer]] <= floor_of[rooms[imported]]
    )


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_every_room_has_one_floor_and_no_import_runs_up_or_in_a_circle():
    floors, graph = read_floors((ROOT / "docs" / "architecture.md").read_text()), imports_in(PACKAGE)
    assert sorted(room for rooms in floors for room in rooms) == sorted({module.split(".")[1] for module in graph})
    assert rising(graph, floors) == []
    assert circle(graph) == []


def test_training_stands_above_the_package_and_needs_no_command_line():
    """Its modules form no circle, and no module of the package imports one."""
    training, known = modules(ROOT / "training"), set(modules(PACKAGE))
    assert circle(imports_in(ROOT / "training")) == []
    assert {name for name, path in modules(PACKAGE).items() if imports(path, set(training))} == set()
    imported = {f"{name} -> {found}" for name, path in training.items() for found in imports(path, known)}
    assert {each for each in imported if each.split(" -> ")[1].startswith(("unojax.cli", "unojax.terminal"))} == set()


def test_no_text_names_a_module_of_the_package():
    """An import by text, such as "unojax.value.agent:value", would be on no floor; `unojax/__init__.py` is the exception."""
    known = set(modules(PACKAGE))
    texts = {
        f"{name}: {node.value}": node.value
        for name, path in modules(PACKAGE).items()
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {where for where, text in texts.items() if re.fullmatch(r"[\w.]+:\w+", text) and text.partition(":")[0] in known}
    assert named == set()


def test_the_root_is_tidy():
    loose = sorted(path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
    assert len(loose) <= 12, loose


def test_imports_that_the_checks_find(tmp_path: Path):
    """The checks themselves, on a package with one import of each kind."""
    package = tmp_path / "unojax"
    (package / "cli").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "cards.py": "def f():\n    from unojax.cli import main",
        "game.py": "from unojax import cards\nimport unojax.other",
        "other.py": "import importlib\nimportlib.import_module('unojax.game')",
        "cli/__init__.py": "from unojax.cli.main import run",
        "cli/main.py": "from unojax import cards, game",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    graph, both = imports_in(package), {"unojax.game", "unojax.other"}
    up = ["unojax.cards -> unojax.cli.main", "unojax.game -> unojax.other", "unojax.other -> unojax.game"]
    assert rising(graph, [{"cards"}, {"game", "other"}, {"cli"}]) == up
    assert set(circle({name: found for name, found in graph.items() if name in both})) == both
