"""The page of definitions: every row names functions that exist and a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "sources.md"
KEYWORDS = {"discount", "ess_threshold", "exclude_drawn"}
"""Arguments of functions that rows name."""


class Row(NamedTuple):
    """A row of a table."""

    number: str
    definition: str
    code: str
    test: str


def rows() -> list[Row]:
    """Read the rows of all tables, those of the headings left out."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0].isdigit():
            found.append(Row(*cells))
    return found


def resolve(name: str) -> bool:
    """Tell whether a name, less `unojax.`, is a module, an object or a field of one."""
    parts = name.split(".")
    for end in range(len(parts), -1, -1):
        try:
            module = import_module(".".join(["unojax", *parts[:end]]))
        except ModuleNotFoundError:
            continue
        found = module
        for attribute in parts[end:]:
            if attribute in getattr(found, "__dataclass_fields__", {}):
                return True
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@cache
def names_of_tests(path: Path) -> set[str]:
    """Read the names of the tests in a file."""
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_the_rows_are_numbered():
    assert [int(row.number) for row in rows()] == list(range(1, len(rows()) + 1))
    assert len(rows()) > 100


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.number)
def test_a_row_has_its_function_and_its_test(row: Row):
    names = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)`", row.code)
    assert names, "no function"
    missing = [name for name in names if not resolve(name)]
    assert set(missing) <= KEYWORDS, missing
    assert set(names) - set(missing)
    path, _, test = row.test.strip("`").partition("::")
    assert test in names_of_tests(ROOT / "tests" / path)
