"""Options of a run that trains a policy network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from jax.sharding import Mesh

from training.checks import check_options, is_positive
from training.config import Evaluation, RunConfig
from training.policy import trainer
from training.policy.games import RULES
from training.policy.learning import PolicyLoss
from training.policy.trainer import PolicyMetrics, PolicyPlan, PolicyState
from training.updates import Optimizer
from unojax.agents import Agent
from unojax.rules import Rules
from unojax.value.agent import policy
from unojax.value.network import Network, NetworkConfig


@dataclass(frozen=True)
class PolicyConfig(RunConfig):
    """Options of a run that trains a policy network.

    Attributes:
        lanes: Games at a time.
        rows: Decisions of each env slot in an iteration, approximately.
        updates: Updates in one pass through an iteration's decisions, each on an equal share of the env slots.
        epochs: Passes through the decisions of an iteration.
        network: Shape of the policy network and of its critic.
        loss, optimizer: See their options.
        greedy: Evaluate the network by its likeliest plays instead of samples.
    """

    command: ClassVar[str] = "training.train_policy"
    about: ClassVar[str] = "Train a policy network by self-play. Continue an interrupted run with --resume."

    run: Path = Path("runs/policy")
    iterations: int = 500
    checkpoint_every: int = 50
    lanes: int = 2048
    rows: int = 32
    updates: int = 8
    epochs: int = 1
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(policy_head=True))
    loss: PolicyLoss = field(default_factory=PolicyLoss)
    optimizer: Optimizer = field(default_factory=lambda: Optimizer(learning_rate=4e-3, weight_decay=0.0, clip=0.5, average=0.995))
    evaluation: Evaluation = field(default_factory=lambda: Evaluation(every=50))
    greedy: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, "", "lanes rows updates epochs", is_positive, "must be at least 1")
        if not self.network.policy_head:
            raise ValueError("network.policy_head must be true: the policy is what is trained")
        if self.network.belief_head:
            raise ValueError("network.belief_head learns nothing here: leave it out")
        if self.network.rules != ("default",):
            raise ValueError(f"network.rules must be default, the rules played by here, got {' '.join(self.network.rules)}")
        if self.network.types:
            raise ValueError("network.types needs particle beliefs, and a policy learns without them: leave it out")
        self.plan()

    def plan(self) -> PolicyPlan:
        """Return the settings of the device program."""
        shape = self.network, self.loss, self.optimizer
        return PolicyPlan(*shape, self.lanes, self.rows, self.updates, self.epochs, self.iterations)

    @property
    def share(self) -> int:
        return self.lanes // self.updates

    @property
    def game_rules(self) -> Rules:
        return RULES

    @property
    def judged_by(self) -> str:
        return "its likeliest plays" if self.greedy else "plays drawn from it"

    def fresh(self) -> PolicyState:
        return trainer.start(self.seed, self.plan())

    def make_iteration(self, mesh: Mesh) -> Callable[[PolicyState], tuple[PolicyState, PolicyMetrics]]:
        return trainer.make_iteration(self.plan(), mesh)

    def network_of(self, state: PolicyState) -> Network:
        return Network(state.average, self.plan().shapes[0])

    def agent_of(self, network: Network) -> Agent:
        return policy(network="trained", loaded=network, greedy=self.greedy)

    def summarize(self, metrics: PolicyMetrics, seconds: float) -> dict[str, float]:
        sums = metrics.sums
        choices = max(float(sums.choices), 1.0)
        return {
            "loss/win": float(sums.win) / choices,
            "loss/critic": float(sums.critic) / choices,
            "policy/entropy": float(sums.entropy) / choices,
            "policy/divergence from the magnet": float(sums.divergence) / choices,
            "policy/clipped": float(sums.clipped) / choices,
            "advantage/standard deviation": float(metrics.spread),
            "advantage/explained by the critic": float(metrics.explained),
            "gradient norm": float(metrics.gradient_norm),
            "states": round(choices / self.epochs),
            "states per second": choices / self.epochs / seconds,
            "games per second": int(metrics.games) / seconds,
            "seconds": seconds,
        }
