"""The house stands on its floors: `docs/architecture.md` has them, and no import of the package runs upwards or in a circle."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "unojax"
FACE = PACKAGE / "__init__.py"
"""Hands all names on, lazily: above everything, and imported by nothing but the program itself."""


def read_floors(page: str) -> list[set[str]]:
    """The rooms of each floor, from the ground up; the page draws the highest first."""
    drawing = re.search(r"```text floors\n(.*?)```", page, re.DOTALL)
    assert drawing is not None, "docs/architecture.md has no block ```text floors"
    return [set(line.split("#")[0].split()) for line in reversed(drawing[1].strip().splitlines())]


def modules(package: Path) -> dict[str, Path]:
    """Files by their dotted names."""
    named = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports(path: Path, known: set[str]) -> set[str]:
    """The modules of the package that a file names in its imports, wherever in it they stand."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else node.module for name in named}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {name.value for name in node.args if isinstance(name, ast.Constant)}
    return found & known


def house(package: Path) -> dict[str, set[str]]:
    """Which module imports which; the package's face left out."""
    named = modules(package)
    graph = {name: imports(path, set(named)) for name, path in named.items()}
    face = package.name
    return {name: found - {face} for name, found in graph.items() if name not in (face, f"{face}.__main__")}


def rising(graph: dict[str, set[str]], floors: list[set[str]]) -> list[str]:
    """Imports that run up, or sideways to another room of the same floor."""
    floor_of = {room: number for number, rooms in enumerate(floors) for room in rooms}

    def room(module: str) -> str:
        return module.split(".")[1]

    return sorted(
        f"{importer} -> {imported}"
        for importer, found in graph.items()
        for imported in found
        if room(importer) != room(imported) and floor_of[room(importer)] <= floor_of[room(imported)]
    )


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def floors() -> list[set[str]]:
    return read_floors((ROOT / "docs" / "architecture.md").read_text())


def test_every_room_has_one_floor(floors):
    drawn = [room for rooms in floors for room in rooms]
    built = {module.split(".")[1] for module in house(PACKAGE)}
    assert sorted(drawn) == sorted(built)


def test_no_import_runs_up(floors):
    assert rising(house(PACKAGE), floors) == []


def test_no_circle():
    assert circle(house(PACKAGE)) == []


def test_training_stands_above_the_package():
    """Its modules form no circle, and no module of the package imports one."""
    training = ROOT / "training"
    assert circle(house(training)) == []
    of_training = set(modules(training))
    assert {name for name, path in modules(PACKAGE).items() if imports(path, of_training)} == set()


def test_training_needs_no_command_line():
    known = set(modules(PACKAGE))
    named = {f"{name} -> {found}" for name, path in modules(ROOT / "training").items() for found in imports(path, known)}
    assert {name for name in named if name.split(" -> ")[1].startswith(("unojax.cli", "unojax.terminal"))} == set()


def test_no_text_names_a_module_of_the_package():
    """An import by a text, such as "unojax.value.agent:value", would be on no floor; the face alone hands names on so."""
    known = set(modules(PACKAGE))
    named = {
        f"{name}: {text}"
        for name, path in modules(PACKAGE).items()
        for text in (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        if isinstance(text, str) and re.fullmatch(r"[\w.]+:\w+", text) and text.partition(":")[0] in known
    }
    assert named == set()


def test_the_root_is_tidy():
    loose = sorted(path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
    assert len(loose) <= 12, loose


def test_what_would_be_found(tmp_path):
    """The checks themselves, on a house with one arrow of each kind."""
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
    graph = house(package)
    floors = [{"cards"}, {"game", "other"}, {"cli"}]
    assert rising(graph, floors) == [
        "unojax.cards -> unojax.cli.main",
        "unojax.game -> unojax.other",
        "unojax.other -> unojax.game",
    ]
    assert set(circle({name: found for name, found in graph.items() if name in ("unojax.game", "unojax.other")})) == {
        "unojax.game",
        "unojax.other",
    }
