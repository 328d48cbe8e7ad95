"""The benchmark of the adapters runs, with the libraries that are there, and leaves the others out with a word."""

from __future__ import annotations

import json

import pytest

from benchmarks import adapters, rlcard_peer


@pytest.mark.slow
def test_all_that_is_installed_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys):
    rates = {"levels": {"env": {"steps_per_second": {"median": 1000.0, "min": 900.0, "max": 1100.0}}}}
    monkeypatch.setattr(rlcard_peer, "measure", lambda **options: rates)
    target = tmp_path / "results.json"
    sizes = "--batch-size 32 --calls 3 --host-steps 20 --repeats 2".split()
    results = adapters.main([*sizes, "--json", str(target)])
    assert json.loads(target.read_text())["rows"] == results["rows"]
    measured = {row["library"] for row in results["rows"]}
    assert measured.isdisjoint(results["left_out"])
    assert all(row["steps_per_second"]["min"] > 0 for row in results["rows"])
    assert not results["left_out"] or "Left out, since it is not installed" in capsys.readouterr().out
