"""Each line of `contract.md` has a test that names it."""

from __future__ import annotations

import re

from tests.helpers import ROOT


def test_each_line_of_the_contract_has_a_test_that_names_it():
    keys = re.findall(r"^- \*\*(.+?)\*\*: ", (ROOT / "tests" / "contract.md").read_text(), re.MULTILINE)
    assert len(keys) == len(set(keys)) > 40
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_contract.py" or path.parent.name != "tests"
    ]
    named = "\n".join(line for path in files for line in re.findall("Contract: (.*)", path.read_text())).lower()
    assert [key for key in keys if key.lower() not in named] == []
