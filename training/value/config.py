"""Options of a run that trains a value network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jax.typing import ArrayLike

from training.checks import check_options, is_positive
from training.config import Evaluation, RunConfig
from training.updates import Optimizer
from training.value import trainer
from training.value.learning import Loss
from training.value.selfplay import SelfPlay, is_network
from training.value.trainer import Metrics, Plan, TrainState
from unojax.agents import Agent
from unojax.rules import Rules
from unojax.value.agent import value as value_agent
from unojax.value.heuristic import HEURISTIC
from unojax.value.network import Network, NetworkConfig, check_network
from unojax.value.pretrained import load_network


@dataclass(frozen=True)
class BelievingEvaluation(Evaluation):
    """Evaluations of a network that plays with beliefs.

    Attributes:
        particles: Particles of its beliefs, by default as many as in the training games. Matches with 128, as in the agent
            `value`, take twice as long.
    """

    particles: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, "evaluation.", "particles", is_positive, "must be at least 1")


@dataclass(frozen=True)
class ValueConfig(RunConfig):
    """Options of a run that trains a value network.

    Attributes:
        init: File of a network to start from, or "pretrained". Its heads may differ, and it may lack inputs for types, and
            columns of rules with optional draws or stacking penalties. none: from random parameters.
        games: Games per iteration.
        updates: Updates in one pass through an iteration's games, each on an equal share of them.
        epochs: Passes through the games of an iteration.
        network, play, loss, optimizer, evaluation: See their options.
    """

    command: ClassVar[str] = "training.train_value"
    about: ClassVar[str] = "Train the value network by self-play. Continue an interrupted run with --resume."

    run: Path = Path("runs/value")
    iterations: int = 40
    init: str | None = None
    games: int = 1024
    updates: int = 16
    epochs: int = 6
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(width=96, matches=True, types=True))
    play: SelfPlay = field(default_factory=SelfPlay)
    loss: Loss = field(default_factory=lambda: Loss(advantage_weight=4.0))
    optimizer: Optimizer = field(default_factory=Optimizer)
    evaluation: BelievingEvaluation = field(default_factory=BelievingEvaluation)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, "", "games updates epochs", is_positive, "must be at least 1")
        if self.init == HEURISTIC:
            raise ValueError(f"init: {HEURISTIC!r} has no parameters of a network; take 'pretrained' or a network's file")
        if self.loss.advantage_weight and not self.play.search:
            raise ValueError("loss.advantage_weight needs a search: --play.search 8, for example")
        if self.loss.policy_weight and not self.network.policy_head:
            raise ValueError("loss.policy_weight needs a network with a policy head: --network.policy-head")
        rules = self.play.game_rules
        if self.network.policy_head and rules.draw_is_option:
            raise ValueError(
                f"network.policy_head speaks of plays, and drawing is a choice under play.rules {self.play.rules!r}: leave it out"
            )
        if self.network.rules not in (NetworkConfig.rules, (self.play.rules,)):
            raise ValueError(f"network.rules follows from play.rules, which is {self.play.rules!r}: leave it out")
        if self.loss.belief_weight and not self.network.belief_head:
            raise ValueError("loss.belief_weight needs a network with a belief head: --network.belief-head")
        if self.play.follow_search and self.play.belief == "unseen":
            # Its searches see the opponent's hand, which averages out in learning but not in play.
            raise ValueError("play.follow_search needs beliefs: --play.belief particles")
        self.plan()

    def plan(self) -> Plan:
        """Return the settings of the device program."""
        network = replace(self.network, rules=(self.play.rules,))
        return Plan(network, self.play, self.loss, self.optimizer, self.games, self.updates, self.epochs, self.iterations)

    @property
    def share(self) -> int:
        return self.games // self.updates

    @property
    def game_rules(self) -> Rules:
        return self.play.game_rules

    @property
    def judged_by(self) -> str:
        return "greedy, no search"

    def fresh(self) -> TrainState:
        return trainer.start(self.seed, self.plan())

    def start(self) -> TrainState:
        state = self.fresh()
        if self.init is None:
            return state
        network, shape = load_network(self.init, self.game_rules), self.plan().network
        begun = network.config
        bare = [replace(each, policy_head=False, belief_head=False, types=False, rules=shape.rules) for each in (begun, shape)]
        if bare[0] != bare[1] or (begun.types and not shape.types) or (begun.turns and not shape.turns):
            fix = _options_for(begun, shape)
            raise ValueError(f"init: {self.init} is a network of shape {begun}, asked for is {shape}{fix}")
        # Missing heads are initialized as new ones, and types with zero weights; unused heads are omitted.
        params = {name: network.params.get(name, fresh) for name, fresh in state.params.items()}
        # The columns of turns, which come last, also start from zero weights.
        params = jax.tree.map(_with_zero_rows, params, state.params)
        return state._replace(params=params, average=params)

    def check(self) -> None:
        super().check()
        if self.network.policy_head and not self.loss.policy_weight:
            raise ValueError("network.policy_head learns nothing without a weight: --loss.policy-weight 0.5, or leave it out")
        if self.network.belief_head and not self.loss.belief_weight:
            raise ValueError("network.belief_head learns nothing without a weight: --loss.belief-weight 0.1, or leave it out")
        if self.play.search and not (self.loss.advantage_weight or self.play.follow_search):
            raise ValueError("play.search is neither followed nor learned from: --play.search 0, or give loss.advantage_weight")
        for name in filter(is_network, self.play.opponents):
            check_network(load_network(name, self.game_rules), name, self.game_rules)

    def digest_networks(self) -> dict[str, str]:
        return {name: str(load_network(name, self.game_rules).digest) for name in self.play.opponents if is_network(name)}

    def make_iteration(self, mesh: Mesh) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
        return trainer.make_iteration(self.plan(), mesh)

    def network_of(self, state: TrainState) -> Network:
        return Network(state.average, self.plan().network)

    def agent_of(self, network: Network) -> Agent:
        play, particles = self.play, self.evaluation.particles
        return value_agent(
            network="trained", loaded=network, belief=play.belief, model=play.model, particles=particles, rules=self.game_rules
        )

    def summarize(self, metrics: Metrics, seconds: float) -> dict[str, float]:
        """Summarize an iteration: losses in nats per information state or choice, rates per second.

        The number of states counts each information state once, however often it was used.
        """
        sums = metrics.sums
        states, choices, hidden = (max(float(n), 1.0) for n in (sums.states, sums.choices, sums.hidden))
        return {
            "loss/win": float(sums.win) / states,
            "loss/win, hand hidden": float(sums.hidden_win) / hidden,
            "loss/policy": float(sums.policy) / choices,
            "loss/advantage": float(sums.advantage) / max(float(sums.decisions), 1.0),
            "loss/belief": float(sums.belief) / hidden,
            "gradient norm": float(metrics.gradient_norm),
            "steps per game": float(metrics.steps) / self.games,
            "games cut off": int(metrics.cut_off),
            "states": round(states / self.epochs),
            "states per second": states / self.epochs / seconds,
            "games per second": self.games / seconds,
            "seconds": seconds,
        }


def _with_zero_rows(array: ArrayLike, wanted: Array) -> Array:
    """Add a row of zeros for each missing input."""
    missing = wanted.shape[0] - np.shape(array)[0]
    return jnp.pad(jnp.asarray(array), [(0, missing), *[(0, 0)] * (np.ndim(array) - 1)])


def _options_for(found: NetworkConfig, asked: NetworkConfig) -> str:
    """Return the options that give the found shape of a network; "" if none do."""
    options = [
        f"--network.{name.replace('_', '-')} {value}"
        for name in ("width", "color_layers", "trunk_layers", "discount")
        if (value := getattr(found, name)) != getattr(asked, name)
    ]
    if found.matches != asked.matches:
        options.append("--network.matches" if found.matches else "--network.no-matches")
    if found.types and not asked.types:
        options.append("--network.types")
    return f"; take {' '.join(options)}" if options else ""
