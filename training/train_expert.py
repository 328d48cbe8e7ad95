"""Expert iteration: the network learns from the plays of a search over the belief, averaged with the network's own values.

    python -m training.train_expert                       from the shipped network's values
    python -m training.train_expert --play.search 64      a better teacher, for longer

`training.train_value` with other defaults. The search chooses the network's plays, except for some random ones (Anthony,
Tian and Barber 2017). The values learn from games that the search plays, and the policy head from its choices; both improve
the next search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from training.loop import leave
from training.train_value import main
from training.value.config import ValueConfig
from training.value.learning import Loss
from training.value.selfplay import SelfPlay


@dataclass(frozen=True)
class ExpertConfig(ValueConfig):
    """Options of `train_value` under a separate name."""

    command: ClassVar[str] = "training.train_expert"
    about: ClassVar[str] = "Train the value network on the plays of a search. Continue an interrupted run with --resume."


DEFAULT = ExpertConfig(
    run=Path("runs/expert"),
    init="pretrained",
    network=replace(ValueConfig().network, width=192, policy_head=True),
    play=SelfPlay(search=32, search_weight=100.0, follow_search=True),
    loss=Loss(shown=0.5, advantage_weight=4.0, policy_weight=0.5),
)

if __name__ == "__main__":
    leave(main(default=DEFAULT))
