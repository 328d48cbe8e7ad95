"""The code in the README runs as it stands."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
# Not part of `make setup`: the blocks that show their interfaces run where they are installed.
OTHER_LIBRARIES = {"gymnasium"}


def missing_libraries(block: str) -> set[str]:
    """Returns the libraries that a block imports and that are not installed."""
    names = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {library for name in names if importlib.util.find_spec(library := name.partition(".")[0]) is None}


@pytest.mark.slow
def test_code_blocks_run_in_order() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        if missing := missing_libraries(block):
            assert missing <= OTHER_LIBRARIES, f"block {number}"
            continue
        exec(compile(block, f"README.md, block {number}", "exec"), namespace)
