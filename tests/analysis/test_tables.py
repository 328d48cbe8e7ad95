"""Tables as text and as Markdown."""

from __future__ import annotations

import pytest

from unojax.analysis import TextTable

TABLE = TextTable(["policy", "wins"], [["uniform", "50 %"], ["a|b", 7]])


def test_text():
    assert repr(TABLE) == "policy   wins\nuniform  50 %\na|b         7"


def test_markdown():
    expected = ["| policy | wins |", "| --- | ---: |", "| uniform | 50 % |", "| a\\|b | 7 |"]
    assert TABLE._repr_markdown_().split("\n") == expected


def test_prose_is_set_to_the_left():
    table = TextTable(
        ["policy", "what it does", "score", "gain"], [["a", "plays 3 cards", "50 ± 2 %", ""], ["b", "7", "+1", "-"]]
    )
    assert table._repr_markdown_().split("\n")[1] == "| --- | --- | ---: | ---: |"
    assert repr(table).split("\n")[2] == "b       7                    +1     -"


def test_row_of_another_length():
    with pytest.raises(ValueError, match=r"must have 2 entries .* got \('x',\)"):
        TextTable(["a", "b"], [["x"]])
