"""Train the value network by self-play.

    python -m training.train_value                                   the small default, about ten minutes on two CPU cores
    python -m training.train_value --config big.toml --seed 1        options from a file, and some that override it
    python -m training.train_value --play.rules official             a network for other rules
    python -m training.train_value --resume                          continue an interrupted run with its options

Every iteration plays games on all devices with the running average of the parameters, greedily except for some exploration,
and learns from them (`training.value.trainer`). The run's folder holds checkpoints, metrics, and two networks:
best.safetensors by the evaluations during the run, and last.safetensors. A killed and resumed run ends with the same
parameters as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence

from training.loop import leave, run_command
from training.value.config import ValueConfig


def main(args: Sequence[str] | None = None, default: ValueConfig | None = None) -> int:
    """Run the command, with the given defaults."""
    return run_command(args, default or ValueConfig())


if __name__ == "__main__":
    leave(main())
