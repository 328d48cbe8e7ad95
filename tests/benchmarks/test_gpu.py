"""The command for a machine with a GPU, at small size on the CPU, and what it says where memory does not suffice."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks import gpu, gpu_measure, gpu_target
from benchmarks.gpu_programs import belief_turns, programs


def test_a_part_that_runs_out_of_memory_says_what_to_lower(capsys: pytest.CaptureFixture[str]) -> None:
    def too_much() -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 byte")

    def broken() -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: no idea")

    expected = "beliefs: the device ran out of memory; lower --scale"
    assert gpu_measure.guarded(too_much, "beliefs") == {"error": expected}
    assert expected in capsys.readouterr().out
    with pytest.raises(jax.errors.JaxRuntimeError, match="no idea"):
        gpu_measure.guarded(broken, "beliefs")


@pytest.mark.slow
def test_simulations_agree_and_have_digests() -> None:
    row = gpu_measure.measure_simulate(16, repeats=1)
    assert row["agree"]
    assert row["steps_per_second_statistics"]["median"] > 0
    compared = gpu_measure.compare_with_cpu(64)
    assert compared["equal"] and len(compared["digest"]) == 16


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scale", "0"],
        ["--scale", "2"],
        ["--repeats", "0"],
        ["--programs", "chess"],
        # What would be for nothing.
        ["--programs", "policy training"],
        ["--compile-only", "--parts", "policy_training"],
    ],
)
def test_bad_options(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.main(arguments)


def test_missing_wheels_are_told_of_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_wheels(**_: object) -> None:
        # As JAX says it where they are missing.
        raise NotImplementedError("topology not implemented for cuda")

    gpu_target.mesh.cache_clear()
    monkeypatch.setattr(gpu_target.topologies, "get_topology_desc", no_wheels)
    with pytest.raises(SystemExit):
        gpu.main(["--compile-only"])
    told = capsys.readouterr().err.splitlines()[-1]
    assert "error: compiling for an H100 needs JAX's CUDA wheels; install them in an environment of their own" in told


@pytest.mark.slow
@pytest.mark.long
def test_everything_is_measured_and_written(tmp_path: Path) -> None:
    target = tmp_path / "gpu.json"
    gpu.main(["--scale", "1e-6", "--repeats", "1", "--json", str(target)])
    measured = json.loads(target.read_text())["measured"]
    assert list(measured) == list(gpu_measure.PARTS)
    assert not any("error" in part for part in measured.values())
    assert all(part["memory"].keys() == {"bytes_in_use", "peak_bytes_in_use", "bytes_limit"} for part in measured.values())
    assert measured["simulate_by_count"]["seconds_by_count"] > 0
    assert 0 <= measured["match"]["win_rate"] <= 1
    assert measured["equal_to_cpu"]["equal"]
    for name in ("value_training", "policy_training"):
        assert measured[name]["iterations_per_second"]["median"] > 0
        assert np.isfinite(measured[name]["gradient_norm"])


@pytest.mark.slow
@pytest.mark.long
def test_every_loop_of_an_update_has_a_length_from_real_games() -> None:
    turns = belief_turns(32, 1024)
    assert {"/play/", "/long play/", "/rejuvenation/", "/long rejuvenation/", "/unseen draw/", "/reset/"} <= set(turns)
    assert sum(turns.values()) > 5
    assert "belief_update" in programs(scale=0.01)
