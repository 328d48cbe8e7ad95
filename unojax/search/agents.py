"""Searches as agents: a belief that goes through the game, and a search over it at each decision with a choice.

    mc:rollouts=1000,belief=particles        flat Monte Carlo (`unojax.search.monte_carlo`)
    mc:rollouts=100,leaf=pretrained          the same, with the network's values of the plays
    mc:leaf=pretrained,depth=8               rollouts are cut off and valued by the network
    tree:simulations=1000                    tree search (`unojax.search.tree`)

What an agent knows of the opponent's hand is its `belief`: "particles", the particle filter; "unseen", any of the cards not seen;
"truth", the hand itself, which only `unojax.arena` shows, to see what knowing it would be worth. The `model` of how the opponent
chooses is the particle filter's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Self, get_args

import jax
import jax.numpy as jnp
from jax import Array

from unojax import bits, cards
from unojax.agents import Memory
from unojax.belief import belief_init, belief_update
from unojax.belief.opponents import parse_opponent
from unojax.bits import Words
from unojax.device.batching import together
from unojax.game import State
from unojax.observation import Observation
from unojax.policies import PackedPolicy, get_policy
from unojax.rules import Rules, agreed_rules, is_int
from unojax.search.monte_carlo import ROUNDS, Estimate, average, choose, flat_monte_carlo, sample_hands
from unojax.search.rollouts import Leaf
from unojax.search.tree import Store, TreeGuide, new_store
from unojax.specs import format_spec
from unojax.value.features import outlook_of_hands
from unojax.value.plays import value_known, value_plays
from unojax.value.pretrained import load_network
from unojax.view import view_of

BeliefKind = Literal["particles", "unseen", "truth"]
_MOST_LANES = {"cpu": 2048, "gpu": 2**16}
_LANES_PER_DECISION = 256
"""Rollouts in progress at a time: on CPU their tables stay in a core's second-level cache; few for few decisions, since the last
rollouts leave most lanes idle."""
_LEAST_PER_ROUND = 8
"""Samples of a round, from which an error is estimated, if plays may be given up."""


class Hands(NamedTuple):
    """N hands that the opponent may hold, packed and canonical (uint32[N] each), and float32[N] log weights in nats."""

    packed: Words
    log_weights: Array


@dataclass(frozen=True)
class SearchAgent(ABC):
    """What all searches share: the belief, and what they do in forced positions (nothing).

    Attributes:
        belief: what the agent knows of the opponent's hand, see the module.
        model: how the opponent is taken to choose, for the particle filter: "uniform", "consistent" (anything legal, which tells
            nothing), or a policy with the probability that it plays uniformly instead.
        particles: of the filter.
        policy: followed by the searching player in the rollouts, the name of a packed policy.
        opponent: followed by the other player in the rollouts, or none for the same policy.
        keep: another play must be better than the policy's own by so many standard errors. (At 1000 rollouts, over 512 decisions,
            0.25 gained as much over the policy as 0 and changed fewer plays; 1 gained 7 % less.)
        discount: of returns, per step.
        leaf: "pretrained" or the file of a network that values the leaves of the search. None: only the results of games count.
        depth: rollouts are cut off after so many steps, and the network values where they got to. 0: they are played to the end,
            and the network's value of each play, from the belief, is averaged with their results.
        weight: that value counts as so many rollouts. (At 100 rollouts 100 was better than 300 and 1000.)
        rules: of the game.
    """

    belief: BeliefKind = "particles"
    model: str = "linear+0.5"
    particles: int = 1024
    policy: str = "linear"
    opponent: str | None = None
    keep: float = 0.25
    discount: float = 1.0
    leaf: str | None = None
    depth: int = 0
    weight: float = 100.0
    rules: Rules = Rules()

    def __post_init__(self) -> None:
        if self.belief not in get_args(BeliefKind):
            raise ValueError(f"belief must be one of {', '.join(get_args(BeliefKind))}, got {self.belief!r}")
        if not (is_int(self.particles) and self.particles >= 1):
            raise ValueError(f"particles must be at least 1, got {self.particles!r}")
        if not self.keep >= 0:
            raise ValueError(f"keep must be a number of standard errors, at least 0, got {self.keep!r}")
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount must be in (0, 1], got {self.discount!r}")
        if not (is_int(self.depth) and self.depth >= 0):
            raise ValueError(f"depth must be a number of steps, or 0 for whole games, got {self.depth!r}")
        if not self.weight >= 0:
            raise ValueError(f"weight must be a number of rollouts, at least 0, got {self.weight!r}")
        if self.leaf is None and self.depth > 0:
            raise ValueError(f"depth={self.depth} needs a network to value where rollouts are cut off: leaf=pretrained")
        if self.leaf is not None:
            if self.discount != 1:
                raise ValueError(f"a network's values are not discounted: leaf needs discount=1, got {self.discount!r}")
            load_network(self.leaf)
        get_policy(self.policy)
        if self.opponent is not None:
            get_policy(self.opponent)
        parse_opponent(self.model)

    @property
    @abstractmethod
    def name(self) -> str:
        """The shortest spec of this agent."""

    @property
    @abstractmethod
    def budget(self) -> int:
        """Rollouts of each legal play, or simulations."""

    @abstractmethod
    def with_budget(self, budget: int) -> Self:
        """The same search with another budget."""

    @property
    def policies(self) -> tuple[PackedPolicy, ...]:
        """Of the searching player and of the other one, as one if they are the same."""
        policy = get_policy(self.policy)
        return (policy,) if self.opponent is None else (policy, get_policy(self.opponent))

    @abstractmethod
    def estimate(
        self, keys: Array, observations: Observation, hands: Hands, legal: Array, *, num_lanes: int | None = None
    ) -> Estimate:
        """Search D decisions.

        Args:
            keys: D threefry2x32 keys, consumed.
            observations: [D] of the players to move.
            hands: [D, N] what the opponents may hold.
            legal: bool[D, 60]; a row without True is no decision and costs nothing.
            num_lanes: games in progress at a time, static; None: what suits the device.
        """

    def _compare(
        self,
        keys: Array,
        observations: Observation,
        hands: Hands,
        legal: Array,
        *,
        num_samples: int,
        stop: float,
        num_lanes: int | None,
        guide: TreeGuide | None = None,
        store: Store | None = None,
    ) -> Estimate:
        """`flat_monte_carlo` over hands drawn from the beliefs, with what all searches share filled in."""
        pairs = jax.vmap(jax.random.split)(keys)
        samples = jax.vmap(partial(sample_hands, num=num_samples))(pairs[:, 0], hands.packed, hands.log_weights)
        estimate = flat_monte_carlo(
            pairs[:, 1],
            observations,
            samples,
            legal,
            policies=self.policies,
            rules=self.rules,
            num_samples=num_samples,
            discount=self.discount,
            stop=stop,
            num_lanes=num_lanes or default_num_lanes(len(legal)),
            guide=guide,
            store=store,
            leaf=self._leaf(),
        )
        if self.leaf is None or self.depth > 0:
            return estimate
        return average(estimate, self._values(observations, hands, legal), legal, self.weight)

    def _leaf(self) -> Leaf | None:
        """Where rollouts are cut off and the network takes over."""
        if self.leaf is None or self.depth == 0:
            return None
        return Leaf(self.depth, partial(value_known, load_network(self.leaf), self.rules))

    def _values(self, observations: Observation, hands: Hands, legal: Array) -> Array:
        """float32[D, 60]: the network's value of each legal play, from the beliefs."""
        assert self.leaf is not None
        agreed_rules(observations.rules, self.rules)
        view = view_of(observations)
        outlook = outlook_of_hands(view, hands.packed, jnp.exp(hands.log_weights))
        return value_plays(load_network(self.leaf), view, outlook, legal)

    def init(self, key: Array, observation: Observation) -> Memory:
        """The belief at the start."""
        if self.belief == "particles":
            return belief_init(observation, key, num_particles=self.particles, rules=self.rules, prior="deal")
        return bits.empty(jnp.zeros(())) if self.belief == "truth" else ()

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        """The belief after a micro-step."""
        if self.belief != "particles":
            return memory
        return belief_update(memory, before, action, after, key, opponent=parse_opponent(self.model), rules=self.rules)[0]

    def reveal(self, memory: Memory, state: State, player: Array) -> Memory:
        """Shows the opponent's hand to an agent with belief "truth", and nothing to any other."""
        return bits.pack(state.hands[1 - player]) if self.belief == "truth" else memory

    def hands(self, key: Array, memory: Memory, observation: Observation) -> Hands:
        """What the agent believes the opponent may hold, unbatched; `key` is consumed."""
        if self.belief == "particles":
            return Hands(memory.packed, memory.log_weights)
        if self.belief == "truth":
            return Hands(bits.map_words(lambda w: w[None], memory), jnp.zeros(1))
        drawn = belief_init(observation, key, num_particles=self.particles, rules=self.rules)
        return Hands(drawn.packed, drawn.log_weights)

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        """The play with the highest estimate, with the benefit of the doubt for the rollout policy's own."""
        estimate, legal = self.think(key, memory, observation, legal_mask)
        only = jnp.argmax(legal_mask).astype(jnp.int32)
        return jnp.where(legal.any(), choose(estimate, legal, self.keep), only)

    def think(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> tuple[Estimate, Array]:
        """The estimates of one decision, and bool[60] the plays that they are of: none if there is no choice.

        Under `vmap` all decisions are searched together.
        """
        key_hands, key_search = jax.random.split(key)
        is_mine = ~observation.terminated & (observation.current_player == observation.player)
        legal = legal_mask[: cards.DRAW] & is_mine & (legal_mask.sum() > 1)
        hands = self.hands(key_hands, memory, observation)
        search = together(lambda _, *decisions: self.estimate(*decisions))
        return search((), key_search, observation, hands, legal), legal


def default_num_lanes(num_decisions: int) -> int:
    """Rollouts in progress at a time for so many decisions."""
    most = _MOST_LANES["cpu" if jax.default_backend() == "cpu" else "gpu"]
    return min(most, _LANES_PER_DECISION * num_decisions)


@dataclass(frozen=True)
class MonteCarloAgent(SearchAgent):
    """Flat Monte Carlo over the belief.

    Attributes:
        rollouts: of each legal play.
        stop: give a play up once it is so many standard errors below the best one; 0: never.
    """

    rollouts: int = 1000
    stop: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (is_int(self.rollouts) and self.rollouts >= 2):
            raise ValueError(f"rollouts must be at least 2, got {self.rollouts!r}")
        if not self.stop >= 0:
            raise ValueError(f"stop must be a number of standard errors, or 0 for never, got {self.stop!r}")
        if self.stop > 0:
            _check_rounds("rollouts", self.rollouts)

    @property
    def name(self) -> str:
        """The shortest spec of this agent."""
        return format_spec("mc", self)

    @property
    def budget(self) -> int:
        """`rollouts`."""
        return self.rollouts

    def with_budget(self, budget: int) -> Self:
        """Other `rollouts`."""
        return replace(self, rollouts=budget)

    def estimate(
        self, keys: Array, observations: Observation, hands: Hands, legal: Array, *, num_lanes: int | None = None
    ) -> Estimate:
        """See `SearchAgent`."""
        return self._compare(keys, observations, hands, legal, num_samples=self.rollouts, stop=self.stop, num_lanes=num_lanes)


@dataclass(frozen=True)
class TreeAgent(SearchAgent):
    """Particle-belief tree search.

    Attributes:
        simulations: of each legal play.
        stop: as in `MonteCarloAgent`, at least 0.
        exploration: c of the tree's selection rule.
        nodes: capacity of the tree of one decision.
    """

    simulations: int = 1000
    stop: float = 2.0
    exploration: float = 0.25
    nodes: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rounds("simulations", self.simulations)
        if not self.stop >= 0:
            raise ValueError(f"stop must be a number of standard errors, or 0 for never, got {self.stop!r}")
        if not self.exploration >= 0:
            raise ValueError(f"exploration must be at least 0, got {self.exploration!r}")
        if not (is_int(self.nodes) and self.nodes >= 1):
            raise ValueError(f"nodes must be at least 1, got {self.nodes!r}")

    @property
    def name(self) -> str:
        """The shortest spec of this agent."""
        return format_spec("tree", self)

    @property
    def budget(self) -> int:
        """`simulations`."""
        return self.simulations

    def with_budget(self, budget: int) -> Self:
        """Other `simulations`."""
        return replace(self, simulations=budget)

    def estimate(
        self, keys: Array, observations: Observation, hands: Hands, legal: Array, *, num_lanes: int | None = None
    ) -> Estimate:
        """See `SearchAgent`."""
        return self._compare(
            keys,
            observations,
            hands,
            legal,
            num_samples=self.simulations,
            stop=self.stop,
            num_lanes=num_lanes,
            guide=TreeGuide(self.policies[0], self.rules, self.nodes, self.exploration),
            store=new_store(len(legal), self.nodes),
        )


def _check_rounds(what: str, number: int) -> None:
    least = ROUNDS * _LEAST_PER_ROUND
    if not (is_int(number) and number >= least and number % ROUNDS == 0):
        raise ValueError(f"{what} must be a multiple of {ROUNDS}, at least {least}, if plays may be given up, got {number!r}")
