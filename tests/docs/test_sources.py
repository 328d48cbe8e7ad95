"""The page of definitions: every row names existing functions and an existing test."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "sources.md"
KEYWORDS = {"discount", "ess_threshold", "exclude_drawn"}
"""Arguments of functions that rows name."""


def exists(name: str) -> bool:
    """Return whether a name, without `unojax.`, is a module, an object or a field of one."""
    parts = name.split(".")
    for end in range(len(parts), -1, -1):
        try:
            found = import_module(".".join(["unojax", *parts[:end]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            if attribute in getattr(found, "__dataclass_fields__", {}):
                return True
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@cache
def names_of_tests(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_row_has_its_function_and_its_test():
    lines = (re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines())
    rows = [[cell.strip() for cell in cells] for cells in lines if len(cells) == 4 and cells[0].strip().isdigit()]
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1)) and len(rows) > 100
    wrong = []
    for number, _, code, test in rows:
        names = set(re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)`", code))
        missing = {name for name in names if not exists(name)}
        path, _, name = test.strip("`").partition("::")
        is_test = (ROOT / "tests" / path).is_file() and name in names_of_tests(path)
        if not names - missing or missing - KEYWORDS or not is_test:
            wrong.append((number, missing - KEYWORDS, test))
    assert not wrong
