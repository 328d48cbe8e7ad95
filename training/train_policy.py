"""Train a policy network by self-play: regularised policy gradient.

    python -m training.train_policy                       the default, some ten minutes on two CPU cores
    python -m training.train_policy --resume              continue an interrupted run with its options

Every iteration advances thousands of env slots, in which the present network plays both players, and learns from decisions
only: most steps of the game are forced and need no network. The policy's knowledge of the opponent's hand is the bounds
implied by its draws (`unojax.belief.color_bounds`). The critic sees both hands and is needed in training only. Otherwise as
`training.train_value`.
"""

from __future__ import annotations

from collections.abc import Sequence

from training.loop import leave, run_command
from training.policy.config import PolicyConfig


def main(args: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(args, PolicyConfig())


if __name__ == "__main__":
    leave(main())
