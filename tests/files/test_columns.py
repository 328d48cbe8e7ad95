"""Tables in parts: both formats, read by their own libraries."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from unojax.files.columns import ColumnFile, check_column_file

PARTS = [
    {
        "number": np.arange(n, dtype=np.int64) + first,
        "hand": np.arange(n * 6, dtype=np.uint8).reshape(n, 6) + np.uint8(first),
        "legal": (np.arange(n * 3).reshape(n, 3) + first) % 2 == 0,
        "pair": np.arange(n * 4, dtype=np.float32).reshape(n, 2, 2),
        "name": np.full(n, "uniform"),
    }
    for first, n in ((0, 5), (5, 1), (6, 7))
]
WHOLE = {name: np.concatenate([part[name] for part in PARTS]) for name in PARTS[0]}


def write(path: Path) -> Path:
    with ColumnFile(path) as file:
        for part in PARTS:
            file.add(part)
            assert not path.exists(), "there as a whole or not at all"
    assert list(path.parent.iterdir()) == [path]
    return path


def test_npz(tmp_path: Path):
    with np.load(write(tmp_path / "games.npz")) as found:
        assert sorted(found) == sorted(WHOLE)
        for name, values in WHOLE.items():
            np.testing.assert_array_equal(found[name], values)
            assert found[name].dtype == values.dtype


def test_parquet(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write(tmp_path / "games.parquet")
    table = parquet.read_table(path)
    with parquet.ParquetFile(path) as file:
        assert file.num_row_groups == len(PARTS)
    for name, values in WHOLE.items():
        assert table[name].to_pylist() == values.tolist()


def test_a_failure_leaves_the_old_file(tmp_path: Path):
    def fail(path: Path) -> None:
        with ColumnFile(path) as file:
            file.add(PARTS[0])
            raise ZeroDivisionError

    for name in ("games.npz", "games.parquet"):
        if find_spec("pyarrow") is None and name.endswith("parquet"):
            continue
        (tmp_path / name).write_text("old")
        with pytest.raises(ZeroDivisionError):
            fail(tmp_path / name)
        assert list(tmp_path.iterdir()) == [tmp_path / name] and (tmp_path / name).read_text() == "old"
        (tmp_path / name).unlink()


def test_parts_have_the_same_columns(tmp_path: Path):
    for changed in (
        {"name": np.full(5, "longer than uniform")},
        {"hand": np.zeros((5, 7), np.uint8)},
        {"number": np.zeros(4, np.int64)},
        {"more": np.zeros(5)},
    ):
        with ColumnFile(tmp_path / "games.npz") as file:
            file.add(PARTS[0])
            with pytest.raises(ValueError, match="all parts must have columns of one length"):
                file.add(PARTS[0] | changed)


def test_the_name_decides_the_format(monkeypatch):
    for name in ("games", "games.csv", "games.npz.gz", ".npz/x"):
        with pytest.raises(ValueError, match=r"must end in \.parquet or \.npz"):
            check_column_file(name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"Parquet needs pyarrow: pip install 'unojax\[data\]'"):
        check_column_file("games.parquet")
