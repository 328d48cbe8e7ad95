"""Train the value network by self-play.

    python -m training.train_value                                   the small default, about ten minutes on two CPU cores
    python -m training.train_value --config big.toml --seed 1        options from a file, and some that go first
    python -m training.train_value --play.rules official             a network for other rules
    python -m training.train_value --resume                          go on where the run stopped, or was killed, with its options

Every iteration plays games on all devices with the running average of the parameters, greedy up to some exploration, and learns
from them (`training.value.trainer`). The run's folder gets checkpoints, metrics, and two networks: best.safetensors by the
evaluations on the way, and last.safetensors. A run that is killed and resumed ends with the same parameters as one that is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from training.loop import leave, run_command
from training.value.config import ValueConfig


def main(args: Sequence[str] | None = None, default: ValueConfig | None = None) -> int:
    """Run the command, with other defaults if given."""
    return run_command(args, default or ValueConfig())


if __name__ == "__main__":
    leave(main())
