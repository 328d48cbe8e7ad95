"""Options, rows, results files and times of benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__, harness
from benchmarks.harness import Config, Program, Row, Task, Timing
from tests.helpers import refusals

ALL = dict(harness.BENCHMARKS)
BAD_OPTIONS = {
    "squares --batch-sizes x": "--batch-sizes",
    "squares --batch-sizes 0": "--batch-sizes",
    "squares --games 3": "--games",
    "squares --repeats 2": "--repeats",
    "beliefs --games 1": "--games",
    "beliefs --decks huge": "huge",
    "belief_agreement --games 0": "--games",
    "belief_agreement --decks huge": "huge",
    "belief_agreement --particles x": "--particles",
    "belief_speed --repeats 0": "--repeats",
    "search_shortfall --games 3": "--games",
    "search_shortfall --runs 3": "--runs",
    "search_shortfall --agents nobody": "nobody",
    "search_shortfall --opponents mc": "mc",
    "search_speed --rollouts 6": "--rollouts",
    "search_speed --single 0": "--single",
    "search_speed --batch-sizes x": "--batch-sizes",
    "value_quality --games 1": "--games",
    "value_quality --rollouts 0": "--rollouts",
    "win_calibration --agents linear": "--agents must be two",
    "win_calibration --games 1": "--games",
    "win_calibration --rollouts 1": "--rollouts",
    "win_calibration --decks mine": "'mine'",
    "at_table --decks mine": "'mine'",
    "gpu --scale 0": "--scale",
    "gpu --scale 2": "--scale",
    "gpu --repeats 0": "--repeats",
    "gpu --parts chess": "--parts",
    "gpu --compile-only --programs chess": "--programs",
    # Nothing would come of them.
    "gpu --programs policy training": "--parts",
    "gpu --compile-only --parts policy_training": "--programs",
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Register a benchmark `squares` of some sizes and return the measured ones."""
    sizes: list[int] = []

    def square(size: int) -> dict[str, int]:
        if size == 13:
            raise KeyboardInterrupt
        sizes.append(size)
        return {"square": size * size}

    def squares(config: Config) -> Iterator[Task]:
        """Squares of numbers."""
        for size in config.batch_sizes:
            yield Task({"size": size, "pair": (size, size)}, lambda size=size: square(size))

    monkeypatch.setattr(harness, "BENCHMARKS", {})
    harness.benchmark("squares", batch_sizes=(2, 3))(squares)
    return sizes


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


def test_a_file_of_something_else_is_refused(measured: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "other.json"
    for content in ("", "[]", '{"rows": 1}', '{"rows": [{"benchmark": "squares"}]}'):
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


def test_bad_options_are_refused_and_named(measured: list[int], capsys: pytest.CaptureFixture[str]):
    """By each benchmark, and by the checks of all of them."""
    harness.BENCHMARKS.update(ALL)
    failures = []
    for line, words in BAD_OPTIONS.items():
        name, *options = line.split()
        with pytest.raises(SystemExit) as end:
            harness.main(name, options)
        complaint = " ".join(capsys.readouterr().err.split())
        if end.value.code != 2 or words not in complaint:
            failures.append(f"{line!r} without {words!r}: {complaint!r}")
    assert not failures and not measured, "\n".join(failures)


def test_numbers_and_sizes():
    sizes = {"64,256": (64, 256), "2^3..2^5": (8, 16, 32), "2^10": (1024,)}
    assert {text: harness.parse_sizes(text) for text in sizes} == sizes
    bad = ("", "abc", "0", "-4", "1..2..3")
    refusals(
        {f"sizes must look like ({text})": lambda text=text: harness.parse_sizes(text) for text in bad}
        | {
            "--max-steps must be at least 1": lambda: Config(max_steps=0),
            "--batch-sizes must be at least 1": lambda: Config(batch_sizes=(4, -2)),
            "--games must be even": lambda: harness.even(3),
        }
    )


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
    assert harness.repeat(lambda: np.arange(3), 1)[1].tolist() == [0, 1, 2]


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
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in harness.BENCHMARKS) and len(harness.BENCHMARKS) >= 12
    monkeypatch.setattr("sys.argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit, match="no benchmark is called 'nothing'"):
        __main__.main()
