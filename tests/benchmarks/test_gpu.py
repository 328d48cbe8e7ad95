"""The command for a machine with a GPU, at small size on the CPU, and its messages about insufficient memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import gpu, harness
from benchmarks.harness import Config


def test_a_part_that_runs_out_of_memory_says_what_to_lower():
    def too_much() -> dict[str, Any]:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 byte")

    def broken() -> dict[str, Any]:
        raise jax.errors.JaxRuntimeError("INTERNAL: no idea")

    assert gpu.guarded(too_much, "beliefs") == {"error": "beliefs: the device ran out of memory; lower --scale"}
    with pytest.raises(jax.errors.JaxRuntimeError, match="no idea"):
        gpu.guarded(broken, "beliefs")


def test_missing_wheels_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def no_wheels(**_: object) -> None:
        # As JAX says it where they are missing.
        raise NotImplementedError("topology not implemented for cuda")

    gpu.target_mesh.cache_clear()
    for name, value in (("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", ""), ("XLA_FLAGS", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(gpu.topologies, "get_topology_desc", no_wheels)
    with pytest.raises(SystemExit):
        harness.main("gpu", ["--compile-only"])
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "error: compiling for an H100 needs JAX's CUDA wheels; install them in an environment of their own" in complaint


@pytest.mark.parametrize("name", ["simulate, statistics", "simulate, every game", "rollout, counts", "init"])
def test_programs_are_compiled_for_the_shapes_of_their_arguments(name: str):
    program, args = gpu.programs(1e-4)[name]()
    assert jax.tree.leaves(jax.eval_shape(program, *args))


def test_parts_share_their_time_in_order_of_worth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """All parts compile in parallel; the first one exceeds its time, and the others are measured all the same."""
    started: list[tuple[str, list[str]]] = []

    def start(name: str, config: Config, options: list[str], environment: dict[str, str], *, shown: bool = False):
        started.append((name, options))
        seconds = 60 if (name, shown) == ("simulate", True) else 0
        return gpu.subprocess.Popen([sys.executable, "-S", "-c", f"import time; time.sleep({seconds})"])

    monkeypatch.setattr(gpu, "start_part", start)
    monkeypatch.setattr(gpu, "BUDGETS", {"simulate": 0.0, "beliefs": 0.0, "match": 0.0})
    began = time.monotonic()
    gpu.measure_in_processes(Config(budget=5.0, repeats=2, json=Path("some.json")))
    assert time.monotonic() - began < 30
    assert [name for name, _ in started] == ["simulate", "beliefs", "match"] * 2
    assert started[0][1] == ["--repeats", "1"] and started[-1][1] == ["--repeats", "2", "--json", "some.json"]
    assert capsys.readouterr().out == "simulate: not finished in its time; the rows above are kept\n"


def test_six_minutes_are_enough_for_all_parts():
    assert list(gpu.PARTS) == list(gpu.BUDGETS) and sum(gpu.BUDGETS.values()) + gpu._COMPILING <= 360


@pytest.mark.slow
@pytest.mark.long
def test_everything_is_measured_and_written(tmp_path: Path):
    target = tmp_path / "gpu.json"
    harness.main("gpu", ["--scale", "1e-6", "--repeats", "1", "--parts", *gpu.PARTS, "--json", str(target)])
    rows = {row.settings["part"]: row.figures for row in harness.read_rows(target)}
    assert list(rows) == list(gpu.PARTS) and not any("error" in figures for figures in rows.values())
    assert all(figures["memory"].keys() == {"peak_bytes_in_use", "bytes_limit"} for figures in rows.values())
    assert rows["simulate"]["agree"] and rows["simulate"]["counted_steps_per_second"]["median"] > 0
    assert 0 <= rows["match"]["win_rate"] <= 1 and rows["equal_to_cpu"]["equal"]
    for name, unit in (("value_training", "games"), ("policy_training", "choices")):
        assert np.isfinite(rows[name]["gradient_norm"]) and rows[name][f"{unit}_per_second"]["min"] > 0
