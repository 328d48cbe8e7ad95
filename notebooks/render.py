"""Run the notebooks from top to bottom and write each with its outputs beside its text, as .ipynb.

    python -m notebooks.render                    # all of them, at full size
    python -m notebooks.render 01_tour --out DIR  # one of them, somewhere else

`UNOJAX_NOTEBOOK_SCALE=0.05` runs them with a twentieth of the games. A cell that raises ends the run with a non-zero status.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import jupytext
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

FOLDER: Final = Path(__file__).parent
SOURCES: Final = {path.stem: path for path in sorted(FOLDER.glob("[0-9]*.py"))}
MAX_BYTES: Final = 1_000_000
"""Largest size of an .ipynb file: the repository keeps them."""
_SECONDS_PER_CELL: Final = 1800


class ThisInterpreter(KernelSpecManager):
    """Kernels are the Python that runs this, whatever kernels the user has installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the same kernel for every name."""
        argv = [
            sys.executable,
            "-Xfrozen_modules=off",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
            "--log-level=40",
        ]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def read_source(source: Path) -> nbformat.NotebookNode:
    """Read a notebook that has not run."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        # Equal runs give equal files.
        cell["id"] = f"cell-{number}"
    return notebook


def render(source: Path) -> str:
    """Run one notebook in a process of its own, in the repository's folder, and return it as .ipynb.

    Raises:
        CellExecutionError: a cell raised.
        CellTimeoutError: a cell took longer than half an hour.
        ValueError: the page is larger than `MAX_BYTES`.
    """
    notebook = read_source(source)
    manager = AsyncKernelManager(kernel_spec_manager=ThisInterpreter())
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=_SECONDS_PER_CELL,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(FOLDER.parent)}},
    )
    client.execute()
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        # A page has no kernel that a widget could talk to.
        output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    page = nbformat.writes(notebook) + "\n"
    if (size := len(page.encode())) > MAX_BYTES:
        raise ValueError(
            f"{source.name} gives a page of {size:,} bytes, more than {MAX_BYTES:,}; draw less, or as PNG"
        )
    return page


def main(argv: Sequence[str] | None = None) -> None:
    """Run the notebooks named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m notebooks.render", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(SOURCES)}, or a file (default: all)"
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="folder for the .ipynb files (default: notebooks)"
    )
    arguments = parser.parse_args(argv)
    sources = {
        Path(name).stem: SOURCES.get(name, Path(name)) for name in arguments.names or SOURCES
    }
    if missing := [path for path in sources.values() if path.suffix != ".py" or not path.is_file()]:
        parser.error(
            f"no notebook is called {str(missing[0])!r}; choose from {', '.join(SOURCES)}, or name a .py file"
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    # The kernels import the package from the checkout, as an editable installation would.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")])
    )
    # XLA's remarks about slow compiling would stand in the pages.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for name, source in sources.items():
        began = time.perf_counter()
        try:
            page = render(source)
        except (CellExecutionError, CellTimeoutError) as error:
            sys.exit(f"{source}: {error}")
        (arguments.out / f"{name}.ipynb").write_text(page, encoding="utf-8")
        print(
            f"{name}: {len(page.encode()) / 1e3:.0f} kB in {time.perf_counter() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
