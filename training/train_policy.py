"""Train a policy network by self-play: regularised policy gradient.

    python -m training.train_policy                       the default, some ten minutes on two CPU cores
    python -m training.train_policy --resume              go on where the run stopped, or was killed, with its options

Every iteration plays on in thousands of lanes, both players by the present network, and learns from the choices alone: most steps
of the game are forced, and cost no network. What the policy knows of the opponent's hand are bounds that follow from its draws
(`unojax.belief.color_bounds`); its critic, which is needed for training only, sees both hands. Else as `training.train_value`.
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
