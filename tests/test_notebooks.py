"""Every notebook runs from top to bottom, with few games; `make notebooks` runs them at full size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from notebooks import render

ROOT = Path(__file__).parents[1]
SCALE = "0.01"


def run_notebook(name: str | Path, out: Path) -> subprocess.CompletedProcess[str]:
    """The command that users run, in a process of its own, without pytest's settings."""
    # With so few games most of the time goes into compiling, which is quicker without optimising.
    fast = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    environment = os.environ | {"UNOJAX_NOTEBOOK_SCALE": SCALE, "XLA_FLAGS": fast}
    command = [sys.executable, "-m", "notebooks.render", str(name), "--out", str(out)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", render.SOURCES)
def test_notebook_runs(name: str, tmp_path: Path):
    run = run_notebook(name, tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    page = nbformat.read(tmp_path / f"{name}.ipynb", as_version=4)
    nbformat.validate(page)
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    # A warning would stand in the page for good.
    shown = [output.text for cell in code for output in cell.outputs if output.get("name") == "stderr"]
    assert not [text for text in shown if "Warning" in text]


@pytest.mark.parametrize("name", render.SOURCES)
def test_page_is_of_this_notebook(name: str):
    # What it shows comes from the last full run, but its text must be the present one.
    page = nbformat.read(render.PAGES / f"{name}.ipynb", as_version=4)
    source = render.read_source(render.SOURCES[name])
    assert [cell.source for cell in page.cells] == [cell.source for cell in source.cells], "run: make notebooks"


def test_cell_that_raises_ends_the_run(tmp_path: Path):
    broken = tmp_path / "09_broken.py"
    broken.write_text("# %%\n1 / 0\n")
    run = run_notebook(broken, tmp_path)
    assert run.returncode == 1
    assert "09_broken.py" in run.stderr and "ZeroDivisionError" in run.stderr
    assert not (tmp_path / "09_broken.ipynb").exists()


def test_unknown_notebook(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        render.main(["01_typo"])
    assert "no notebook is called '01_typo'; choose from 01_tour" in capsys.readouterr().err
