"""Notebooks: their pages show the current text and their names exist; slow tests run them with few games."""

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
from tests.helpers import ROOT, long_but

SIMULATES = ("02_uno_in_numbers",)
"""Notebooks without searches, which continuous integration runs."""
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


def run_notebook(name: str | Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process, with optimised programs, because searches run longer than they compile."""
    environment = os.environ | {"UNOJAX_NOTEBOOK_SCALE": "0.01"}
    environment |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": str(int(name in SIMULATES))}
    command = [sys.executable, "-m", "notebooks.render", str(name), "--out", str(out)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def read_page(run: subprocess.CompletedProcess[str], path: Path) -> nbformat.NotebookNode:
    """Return the page of a notebook that ran to its end without a warning."""
    assert run.returncode == 0, run.stdout + run.stderr
    page = nbformat.read(path, as_version=4)
    nbformat.validate(page)
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    errors = [output.text for cell in code for output in cell.outputs if output.get("name") == "stderr"]
    assert not [text for text in errors if "Warning" in text]
    return page


@pytest.mark.slow
@pytest.mark.parametrize("name", long_but(SIMULATES, render.SOURCES))
def test_notebook_runs(name: str, tmp_path: Path):
    read_page(run_notebook(name, tmp_path), tmp_path / f"{name}.ipynb")


def test_a_page_shows_the_output_of_its_cells(tmp_path: Path):
    (tmp_path / "08_small.py").write_text(SMALL)
    page = read_page(run_notebook(tmp_path / "08_small.py", tmp_path), tmp_path / "08_small.ipynb")
    assert [cell.id for cell in page.cells] == [f"cell-{number}" for number in range(len(page.cells))]
    state, printed, slider = (cell.outputs for cell in page.cells if cell.cell_type == "code")
    assert "<svg" in state[0].data["image/svg+xml"] and printed[0].text == "1\n"
    # A widget needs a kernel, which a page has not.
    assert set(slider[0].data) == {"text/plain"}


def test_a_cell_that_raises_ends_the_run_and_unknown_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    broken = tmp_path / "09_broken.py"
    broken.write_text("# %%\n1 / 0\n")
    run = run_notebook(broken, tmp_path)
    assert run.returncode == 1 and "09_broken.py" in run.stderr and "ZeroDivisionError" in run.stderr
    assert not (tmp_path / "09_broken.ipynb").exists()
    with pytest.raises(SystemExit):
        render.main(["01_typo"])
    assert "no notebook is called '01_typo'; choose from 01_tour" in capsys.readouterr().err


def test_names_of_the_package_exist_and_pages_are_of_the_present_text():
    """Jupyter opens text and page as one notebook."""
    for name, source in render.SOURCES.items():
        tree, imported = ast.parse(source.read_text(encoding="utf-8")), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name: import_module(alias.name) for alias in node.names if alias.name == "unojax"}
            elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "unojax":
                imported |= {alias.name: getattr(import_module(str(node.module)), alias.name) for alias in node.names}
        used = [
            (node.value.id, node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]
        missing = [
            (outer, attribute) for outer, attribute in used if outer in imported and not hasattr(imported[outer], attribute)
        ]
        assert not missing and sum(outer in imported for outer, _ in used) > 3, name
        notebook = str(render.FOLDER / f"{name}.ipynb")
        page = nbformat.read(notebook, as_version=4)
        assert [cell.source for cell in page.cells] == [cell.source for cell in render.read_source(source).cells], (
            "run: make notebooks"
        )
        formats = load_jupytext_config(notebook).default_formats(notebook)
        assert {path for path, _ in paired_paths(notebook, "ipynb", formats)} == {notebook, str(source)}
