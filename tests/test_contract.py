"""Each line of `contract.md` has a test that names it."""

from __future__ import annotations

import re

from tests.helpers import ROOT


def test_each_line_of_the_contract_has_a_test_that_names_it():
    lines = re.findall(r"^- \*\*(.+?)\*\*: ", (ROOT / "tests" / "contract.md").read_text(), re.MULTILINE)
    assert len(lines) == len(set(lines)) > 40
    named = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for keys in re.findall(r"Contract: (.+?)\.?(?:\"\"\"|$)", path.read_text(), re.MULTILINE):
            named |= {key.strip(" .") for key in keys.split(";")}
    assert set(lines) - named == set()
