"""Notebooks: their pages show the present text and their names exist; the slow tests run them with few games.

`make notebooks` runs them at full size.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from jupytext.config import load_jupytext_config
from jupytext.paired_paths import paired_paths

from notebooks import render
from tests.helpers import long_but

ROOT = Path(__file__).parents[1]
SCALE = "0.01"
SIMULATES = ("02_uno_in_numbers",)
"""Notebooks without searches, which continuous integration runs."""


def run_notebook(name: str | Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the users' command in a process of its own. Searches run longer than they compile, so they are optimised."""
    environment = os.environ | {"UNOJAX_NOTEBOOK_SCALE": SCALE, "JAX_DISABLE_MOST_OPTIMIZATIONS": str(int(name in SIMULATES))}
    command = [sys.executable, "-m", "notebooks.render", str(name), "--out", str(out)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", long_but(SIMULATES, render.SOURCES))
def test_notebook_runs(name: str, tmp_path: Path):
    check_page(run_notebook(name, tmp_path), tmp_path / f"{name}.ipynb")


SMALL = """\
# %% [markdown]
# # Small

# %%
import ipywidgets

from unojax import make_state

make_state("R5", "Y0", "B1")

# %%
print(1)

# %%
ipywidgets.IntSlider()
"""


def test_a_page_shows_what_its_cells_gave(tmp_path: Path):
    (tmp_path / "08_small.py").write_text(SMALL)
    page = check_page(run_notebook(tmp_path / "08_small.py", tmp_path), tmp_path / "08_small.ipynb")
    assert [cell.id for cell in page.cells] == [f"cell-{number}" for number in range(len(page.cells))]
    state, printed, slider = (cell.outputs for cell in page.cells if cell.cell_type == "code")
    assert "<svg" in state[0].data["image/svg+xml"] and printed[0].text == "1\n"
    # There is no kernel behind a page that a widget could talk to.
    assert set(slider[0].data) == {"text/plain"}


@pytest.mark.parametrize("name", render.SOURCES)
def test_names_exist(name: str):
    """Every name of the package that a notebook uses."""
    tree = ast.parse(render.SOURCES[name].read_text(encoding="utf-8"))
    imported: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name: import_module(alias.name) for alias in node.names if alias.name == "unojax"}
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "unojax":
            imported |= {alias.name: getattr(import_module(str(node.module)), alias.name) for alias in node.names}
    used = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            assert hasattr(imported[node.value.id], node.attr), f"{node.value.id}.{node.attr}"
            used += 1
    assert used > 3


def check_page(run: subprocess.CompletedProcess[str], path: Path) -> nbformat.NotebookNode:
    """Check that a notebook ran to its end, and return its page."""
    assert run.returncode == 0, run.stdout + run.stderr
    page = nbformat.read(path, as_version=4)
    nbformat.validate(page)
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    # A warning would stand in the page for good.
    shown = [output.text for cell in code for output in cell.outputs if output.get("name") == "stderr"]
    assert not [text for text in shown if "Warning" in text]
    return page


@pytest.mark.parametrize("name", render.SOURCES)
def test_page_is_of_this_notebook(name: str):
    # What it shows comes from the last full run, but its text must be the present one.
    page = nbformat.read(render.FOLDER / f"{name}.ipynb", as_version=4)
    source = render.read_source(render.SOURCES[name])
    assert [cell.source for cell in page.cells] == [cell.source for cell in source.cells], "run: make notebooks"


@pytest.mark.parametrize("name", render.SOURCES)
def test_jupyter_opens_text_and_notebook_as_one(name: str):
    notebook = str(render.FOLDER / f"{name}.ipynb")
    formats = load_jupytext_config(notebook).default_formats(notebook)
    assert {path for path, _ in paired_paths(notebook, "ipynb", formats)} == {notebook, str(render.SOURCES[name])}


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
