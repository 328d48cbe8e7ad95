"""The searches as agents: their `speed`, their `strength`, and the `shortfall` of their choices.

    python -m benchmarks.search speed --json search_speed.json
    python -m benchmarks.search strength --games 4000 --json search_strength.json
    python -m benchmarks.search shortfall --games 400 --json search_shortfall.json

See `benchmarks.search_speed`, `benchmarks.search_strength` and `benchmarks.search_shortfall`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks import search_shortfall, search_speed, search_strength

_COMMANDS = {
    "speed": (search_speed, "decisions per second"),
    "strength": (search_strength, "matches against policies"),
    "shortfall": (search_shortfall, "what choices fall short of the best, decision by decision"),
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run a benchmark, print what it found, and return it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {}
    for name, (module, summary) in _COMMANDS.items():
        parsers[name] = commands.add_parser(name, help=summary, description=(module.__doc__ or "").splitlines()[0])
        module.add_arguments(parsers[name])
    arguments = parser.parse_args(argv)
    module, _ = _COMMANDS[arguments.command]
    return module.run(arguments, parsers[arguments.command])


if __name__ == "__main__":
    main()
