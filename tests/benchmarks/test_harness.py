"""How benchmarks are run: options, rows with their circumstances, files that runs add to, times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import __main__, harness
from benchmarks.harness import Config, Program, Row, Task, Timing


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A benchmark `squares` of some sizes; the sizes that it was asked to measure."""
    asked: list[int] = []

    def square(size: int) -> dict[str, int]:
        if size == 13:
            raise KeyboardInterrupt
        asked.append(size)
        return {"square": size * size}

    def squares(config: Config) -> Iterator[Task]:
        """Squares of numbers."""
        for size in config.batch_sizes:
            yield Task({"size": size, "pair": (size, size)}, lambda size=size: square(size))

    monkeypatch.setattr(harness, "BENCHMARKS", {})
    harness.benchmark("squares", batch_sizes=(2, 3))(squares)
    return asked


def test_rows_have_settings_environment_and_figures(measured: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "new" / "rows.json"
    rows = harness.main("squares", ["--json", str(path)])
    assert [(row.settings, row.figures) for row in rows] == [
        ({"size": size, "pair": [size, size]}, {"square": size * size}) for size in (2, 3)
    ]
    assert harness.read_rows(path) == rows and list(path.parent.iterdir()) == [path]
    assert {"commit", "versions", "device", "load_average"} <= rows[0].environment.keys()
    assert "squares: size 3" in capsys.readouterr().out


def test_a_run_measures_what_the_file_lacks(measured: list[int], tmp_path: Path):
    path = tmp_path / "rows.json"
    harness.main("squares", ["--batch-sizes", "3,13,5", "--json", str(path)])
    assert measured == [3] and len(harness.read_rows(path)) == 1, "Ctrl-C keeps what is finished"
    harness.main("squares", ["--batch-sizes", "2,3,5", "--json", str(path)])
    assert measured == [3, 2, 5] and [row.settings["size"] for row in harness.read_rows(path)] == [3, 2, 5]
    assert len(harness.main("squares", ["--batch-sizes", "3"])) == 1, "without a file nothing is kept"


@pytest.mark.parametrize("content", ["", "[]", '{"rows": 1}', '{"rows": [{"benchmark": "squares"}]}'])
def test_a_file_of_something_else_is_refused(measured: list[int], tmp_path: Path, content: str, capsys):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(SystemExit):
        harness.main("squares", ["--json", str(path)])
    assert "holds no rows of a benchmark" in capsys.readouterr().err and path.read_text() == content and not measured


def test_not_a_number_is_not_written(tmp_path: Path):
    path = tmp_path / "rows.json"
    harness.write_rows(path, [Row("squares", {}, {}, {"square": 4})])
    before = path.read_text()
    with pytest.raises(ValueError, match="JSON"):
        harness.write_rows(path, [Row("squares", {}, {}, {"square": float("nan")})])
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("options", [["--batch-sizes", "x"], ["--batch-sizes", "0"], ["--games", "3"], ["--repeats", "2"]])
def test_bad_options(measured: list[int], options: list[str]):
    with pytest.raises(SystemExit):
        harness.main("squares", options)
    assert not measured


def test_numbers_have_a_least():
    with pytest.raises(ValueError, match="--max-steps must be at least 1, got 0"):
        Config(max_steps=0)
    with pytest.raises(ValueError, match="--batch-sizes must be at least 1, got -2"):
        Config(batch_sizes=(4, -2))
    with pytest.raises(ValueError, match="--games must be even, got 3"):
        harness.even(3)


@pytest.mark.parametrize(("text", "sizes"), [("64,256", (64, 256)), ("2^3..2^5", (8, 16, 32)), ("2^10", (1024,))])
def test_sizes(text: str, sizes: tuple[int, ...]):
    assert harness.parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "abc", "0", "-4", "1..2..3"])
def test_bad_sizes(text: str):
    with pytest.raises(ValueError, match="sizes must look like"):
        harness.parse_sizes(text)


def test_rates_come_from_the_median_and_the_extremes():
    rates = Timing((4.0, 1.0, 2.0), (8.0, 8.0, 8.0)).rates("steps", 8)
    assert rates["steps_per_second"] == {"median": 4.0, "min": 2.0, "max": 8.0}
    assert rates["steps_per_cpu_second"]["median"] == 1.0
    assert harness.ratio(Timing((1.0, 2.0), ()), Timing((2.0, 6.0), ())) == {"median": 2.5, "min": 2.0, "max": 3.0}


def test_programs_take_turns_and_the_first_run_does_not_count():
    order: list[object] = []
    given = iter(range(10))
    prepared = Program(order.append, lambda: next(given))
    times, _ = harness.time_in_turns({"a": prepared, "b": partial(order.append, "b")}, 2)
    assert order == [0, "b", 1, "b", 2, "b"]
    assert all(len(timing.seconds) == len(timing.cpu_seconds) == 2 for timing in times.values())
    assert harness.repeat(lambda: jnp.arange(3), 1)[1].tolist() == [0, 1, 2]


def test_digest_tells_values_shapes_and_types_apart():
    zeros = np.zeros((2, 3), np.int8)
    others = [np.zeros((3, 2), np.int8), np.zeros((2, 3), np.uint8), np.eye(2, 3, dtype=np.int8)]
    assert harness.digest([zeros]) == harness.digest([zeros.copy(order="F")])
    assert len({harness.digest([a]) for a in (zeros, *others)}) == 4


def test_every_benchmark_is_in_the_registry():
    files = (harness.REPOSITORY / "benchmarks").glob("*.py")
    entered = {
        path.stem for path in files if re.search(r"^@(harness\.)?benchmark\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {module.__name__.rpartition(".")[2] for module in __main__.MODULES} == entered


def test_the_command_lists_all_benchmarks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    with pytest.raises(SystemExit, match="0"):
        __main__.main()
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in harness.BENCHMARKS) and len(harness.BENCHMARKS) >= 12
    monkeypatch.setattr("sys.argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit, match="no benchmark is called 'nothing'"):
        __main__.main()
