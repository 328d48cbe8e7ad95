"""The command line: `python -m unojax`."""

from __future__ import annotations

from unojax.cli import run_process

if __name__ == "__main__":
    run_process()
