"""`python -m benchmarks NAME ...` runs a benchmark; without a name it lists them."""

from __future__ import annotations

import sys

from benchmarks import (
    adapters,
    at_table,
    belief_agreement,
    belief_speed,
    beliefs,
    engine,
    gpu,
    harness,
    predictive,
    rollout,
    search,
    solving,
    value_quality,
    win_calibration,
)

MODULES = (engine, rollout, adapters, beliefs, belief_agreement, belief_speed, predictive, search, solving, value_quality)
MODULES += (win_calibration, at_table, gpu)
"""All benchmarks; each import registers one."""


def main() -> None:
    """Run the named benchmark, or list all."""
    name, *options = sys.argv[1:] or ["--help"]
    if name in harness.BENCHMARKS:
        harness.main(name, options)
        return
    print("usage: python -m benchmarks NAME [--help] [options]\n")
    for which in harness.BENCHMARKS.values():
        print(f"  {which.name:<18} {(which.tasks.__doc__ or '').splitlines()[0]}")
    sys.exit(0 if name in ("-h", "--help") else f"\nno benchmark is called {name!r}")


if __name__ == "__main__":
    main()
