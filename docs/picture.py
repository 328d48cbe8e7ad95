"""Draws docs/belief.svg, the picture in the README: what `unojax belief` prints about one turn of one game.

python docs/picture.py
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COMMAND = ["belief", "--seed", "3", "--player", "0", "--particles", "4096", "--turn", "20"]
WIDTH = 80


def main() -> None:
    """Run the command, keep its colours, and write them as SVG."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "COLORTERM": "truecolor"}
    printed = subprocess.run(
        [sys.executable, "-m", "unojax", *COMMAND], env=environment, capture_output=True, text=True, check=True
    ).stdout
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(printed.rstrip()))
    svg = console.export_svg(title="unojax " + " ".join(COMMAND))
    Path(__file__).with_name("belief.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
