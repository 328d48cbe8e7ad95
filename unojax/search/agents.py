"""Searches as agents: a belief over the hidden hand, and rollouts from it at each decision with a choice.

    mc:rollouts=1000,belief=particles        flat Monte Carlo (`unojax.search.monte_carlo`)
    mc:rollouts=100,leaf=pretrained          the same, with the network's values of the plays
    tree:simulations=1000                    tree search (`unojax.search.tree`)

`monte_carlo` and `tree` make a `SearchAgent` from keywords, the keys of these specs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unojax.belief.hands import Hands
from unojax.belief.opponents import TREMBLE, Family, Opponent, PolicyOpponent
from unojax.belief.updaters import Oracle, Updater, UpdaterKind, parse_updater
from unojax.decks import is_int
from unojax.device.batching import together
from unojax.device.tracing import traced_once
from unojax.game import State
from unojax.observation import Observation
from unojax.policies import PackedPolicy, get_policy, greedy
from unojax.rules import Rules, check_rules_of_agent
from unojax.search.monte_carlo import ROUNDS, Estimate, choose, flat_monte_carlo, sample_hands
from unojax.search.rollouts import Rollouts, Style
from unojax.search.tree import EXPLORATION, Selection, TreeGuide, new_store
from unojax.specs import Factory, format_spec

if TYPE_CHECKING:
    from unojax.search.network_leaf import NetworkLeaf

_LEAST_PER_ROUND: Final = 8
"""Samples of a round, from which an error is estimated, if plays may be pruned."""


class Remembered(NamedTuple):
    """Memory of a search.

    Attributes:
        belief: Belief of the updater.
        num_steps: Steps since the memory began, int32[]. A memory begun in mid-game truncates the game later.
    """

    belief: Any
    num_steps: Array


@dataclass(frozen=True)
class SearchAgent:
    """Searches its decisions, except forced ones. Static; see `monte_carlo` and `tree`.

    Attributes:
        name: Shortest spec of the agent.
        updater: Updater of the belief over the opponent's hand.
        rollouts: Rollouts of each play. A tree is their guide.
        keep, stop: As in `monte_carlo`.
        leaf: Network leaf, whose values are those of wins and losses; None: only the results of games count.
    """

    name: str
    updater: Updater
    rollouts: Rollouts
    keep: float
    stop: float = 0.0
    leaf: NetworkLeaf | None = None

    def __post_init__(self) -> None:
        if not self.keep >= 0:
            raise ValueError(f"keep must be a number of standard errors, at least 0, got {self.keep!r}")
        if not 0 <= self.stop < math.inf:
            raise ValueError(f"stop must be a number of standard errors, or 0 for never, got {self.stop!r}")
        if self.leaf is not None:
            self.leaf.check(self.rules, self.rollouts.discount)

    @property
    def rules(self) -> Rules:
        return self.rollouts.rules

    @property
    def policies(self) -> tuple[PackedPolicy, ...]:
        return self.rollouts.policies

    @property
    def whom_rollouts_follow(self) -> str:
        """A clause about the players after the first play."""
        own, *others = (f"the policy {policy.name}" for policy in self.policies)
        if self.rollouts.types:
            return f"the player follows {own}, and the opponent what its type would"
        return f"the player follows {own}, and the opponent {others[0]}" if others else f"both players follow {own}"

    @property
    def prior_rollouts(self) -> float:
        """Number of rollouts that a leaf's value counts as; 0 without a leaf."""
        return 0.0 if self.leaf is None else self.leaf.weight

    def counting_wins(self) -> SearchAgent:
        """Return the agent with wins instead of points as returns."""
        return replace(self, rollouts=self.rollouts.counting_wins()) if self.rollouts.has_points else self

    @property
    def says_wins(self) -> bool:
        """Whether estimates include win probabilities: no penalties, no leaf with discounted values."""
        return not self.rules.step_penalty and (self.leaf is None or self.rollouts.discount == 1)

    def judging_wins(self) -> SearchAgent:
        """Return `counting_wins`.

        Raises:
            ValueError: If the agent sees the hidden hand, or its estimates include no win probabilities.
        """
        if isinstance(self.updater, Oracle):
            raise ValueError(f"agent {self.name!r}: belief=truth needs the hidden hand; choose belief=particles or belief=unseen")
        if self.rules.step_penalty:
            raise ValueError("returns less a penalty for each step are no win probabilities; leave the step penalty out")
        if not self.says_wins:
            raise ValueError(
                f"agent {self.name!r}: a leaf's discounted values are no win probabilities; leave leaf or discount out"
            )
        return self.counting_wins()

    def init(self, key: Array, observation: Observation) -> Remembered:
        return Remembered(self.updater.init(key, observation), jnp.int32(0))

    def update(self, key: Array, memory: Remembered, before: Observation, action: Array, after: Observation) -> Remembered:
        is_step = ~before.terminated & (jnp.asarray(action) >= 0)
        belief, _ = self.updater.update(key, memory.belief, before, action, after)
        return Remembered(belief, memory.num_steps + is_step.astype(jnp.int32))

    def next_game(self, key: Array, memory: Remembered, observation: Observation) -> Remembered:
        """Begin the next game against the same opponent; see `unojax.agents.next_game`."""
        return Remembered(self.updater.next_game(key, memory.belief, observation), jnp.int32(0))

    def reveal(self, memory: Remembered, state: State, player: ArrayLike) -> Remembered:
        """Show the opponent's hand to an oracle, and nothing to other updaters."""
        if not isinstance(self.updater, Oracle):
            return memory
        return memory._replace(belief=self.updater.see(state, jnp.asarray(player)))

    def hands(self, key: Array, memory: Remembered, observation: Observation) -> Hands:
        """Return possible hands of the opponent, unbatched. Consumes `key`."""
        return self.updater.hands(key, memory.belief, observation)

    def act(self, key: Array, memory: Remembered, observation: Observation, legal_mask: Array) -> Array:
        """Choose the play of the highest estimate, or the policy's own unless the gain is significant."""
        estimate, legal = self.think(key, memory, observation, legal_mask)
        only = jnp.argmax(legal_mask).astype(jnp.int32)
        return jnp.where(legal.any(), choose(estimate, legal, self.keep), only)

    def think(self, key: Array, memory: Remembered, observation: Observation, legal_mask: Array) -> tuple[Estimate, Array]:
        """Return estimates of one decision, and the estimated actions, bool[`Rules.num_choices`].

        Without a choice no action is estimated. Under `vmap` all decisions are searched together.
        """
        if self.updater.on_host:
            # The compiled search receives the hands without the belief that they come from.
            key, key_hands = jax.random.split(key)
            hands = self.hands(key_hands, memory, observation)
            return _search(key, hands, memory.num_steps, observation, legal_mask, agent=self)
        return _think(key, memory, observation, legal_mask, agent=self)

    def estimate(
        self, keys: Array, observations: Observation, hands: Hands, legal: Array, num_steps: Array | None = None
    ) -> Estimate:
        """Search D decisions: `flat_monte_carlo` with samples from `hands` [D, N], the opponents' possible hands.

        Raises:
            ValueError: If the observations are of other rules, or the hands lack the types that the rollouts need.
        """
        check_rules_of_agent(observations.rules, self.rules)
        if self.rollouts.types and hands.log_joint is None:
            raise ValueError("the rollouts follow types of opponents, and these hands come without: name one, opponent=linear")
        pairs = jax.vmap(jax.random.split)(keys)
        samples = jax.vmap(partial(sample_hands, num=self.rollouts.num_samples))(pairs[:, 0], hands)
        how = self.rollouts if self.leaf is None else self.rollouts.counting_wins()
        store = new_store(len(legal), how.guide.num_nodes) if isinstance(how.guide, TreeGuide) else None
        estimate = flat_monte_carlo(
            pairs[:, 1], observations, samples, legal, how, stop=self.stop, num_steps=num_steps, store=store
        )
        return estimate if self.leaf is None else self.leaf.average(estimate, observations, hands, legal)


@partial(traced_once, static=("agent",))
def _think(
    key: Array, memory: Remembered, observation: Observation, legal_mask: Array, *, agent: SearchAgent
) -> tuple[Estimate, Array]:
    key_hands, key_search = jax.random.split(key)
    hands = agent.hands(key_hands, memory, observation)
    return _search(key_search, hands, memory.num_steps, observation, legal_mask, agent=agent)


@partial(traced_once, static=("agent",))
def _search(
    key: Array, hands: Hands, num_steps: Array, observation: Observation, legal_mask: Array, *, agent: SearchAgent
) -> tuple[Estimate, Array]:
    is_mine = ~observation.terminated & (observation.current_player == observation.player)
    legal = legal_mask[: agent.rules.num_choices] & is_mine & (legal_mask.sum() > 1)
    search = together(lambda _, *decisions: agent.estimate(*decisions))
    return search((), key, observation, hands, legal, num_steps), legal


def monte_carlo(
    *,
    belief: UpdaterKind = "particles",
    model: str = "minimax",
    particles: int = 1024,
    policy: str = "linear",
    opponent: str | None = None,
    keep: float = 0.25,
    discount: float = 1.0,
    leaf: str | None = None,
    weight: float = 100.0,
    rollouts: int = 1000,
    stop: float = 0.0,
    rules: Rules = Rules(),
) -> SearchAgent:
    """Play legal cards out against possible hands of the opponent (flat Monte Carlo).

    Optional draws, passes and challenges are tried like plays. In the rollouts, policies other than `uniform` draw only if they
    cannot play. Values are points under `Rules.points`, or with a leaf wins and losses.

    Args:
        belief: "particles", the particle filter; "bootstrap", the bootstrap filter, for comparison; "closed", the closed form;
            "ages", colour-count bounds; "unseen", uniform over unseen cards; "truth", the hand itself, which only
            `unojax.agents.reveal` shows.
        model: Opponent model of the particle filter, see `parse_opponent`. With several types, such as those of "minimax", the
            filter infers the type, and carries the posterior over to the next game of a match.
        particles: Number of particles, or of hands drawn from a belief without particles.
        policy: Rollout policy of the searching player, the name of a packed policy.
        opponent: Rollout policy of the other player. None: that of its type if the model has several types that the belief
            infers (each sample draws a hand and a type together), else the same policy.
        keep: Standard errors by which another play must beat the policy's own. (At 1000 rollouts, over 512 decisions,
            0.25 gained as much over the policy as 0 and changed fewer plays; 1 gained 7 % less.)
        discount: Factor gamma in (0, 1] on returns for each transition after the first, including forced actions and draws.
            Win probabilities are not discounted.
        leaf: "pretrained", "heuristic" (`unojax.value.heuristic`) or the file of a network: its value of each play, from the
            belief, is averaged with the results of the rollouts. None: only those count.
        weight: Number of rollouts that the leaf's value counts as. (At 100 rollouts 100 was better than 300 and 1000.)
        rollouts: Games played out for each legal play.
        stop: Standard errors below the best play at which a play is pruned; 0: never.
        rules: Rules of the game.

    Raises:
        ValueError: If an argument is out of range, there is no such policy, model or network, or the leaf has another discount
            or does not support the rules, such as truncation or step penalties.
    """
    given = locals()
    return _put_together("mc", monte_carlo, given, num_samples=rollouts)


def tree(
    *,
    belief: UpdaterKind = "particles",
    model: str = "minimax",
    particles: int = 1024,
    policy: str = "linear",
    opponent: str | None = None,
    keep: float = 0.25,
    discount: float = 1.0,
    leaf: str | None = None,
    weight: float = 100.0,
    simulations: int = 1000,
    stop: float = 2.0,
    selection: Selection = "puct",
    exploration: float | None = None,
    nodes: int = 2048,
    rules: Rules = Rules(),
) -> SearchAgent:
    """Search a tree of plays and observations over the belief, see `unojax.search.tree`.

    Args:
        simulations: Games simulated for each legal play.
        selection: Rule by which a node of the tree chooses a play: "puct", whose prior favours the policy's own play, or
            "ucb1", which tries each play once and then adds c sqrt(ln N / N(a)) to its mean return.
        exploration: Constant c of the selection rule; None: 0.25 with "puct", 0.5 with "ucb1".
        nodes: Capacity of the tree of one decision.
        belief, model, particles, policy, opponent, keep, discount, leaf, weight, stop, rules: as in `monte_carlo`.

    Raises:
        ValueError: As in `monte_carlo`.
    """
    given = locals()
    if selection not in EXPLORATION:
        raise ValueError(f"selection must be {' or '.join(EXPLORATION)}, got {selection!r}")
    if exploration is None:
        exploration = EXPLORATION[selection]
    if not 0 <= exploration < math.inf:
        raise ValueError(f"exploration must be a finite number, at least 0, got {exploration!r}")
    if not (is_int(nodes) and nodes >= 1):
        raise ValueError(f"nodes must be at least 1, got {nodes!r}")
    guide = TreeGuide(get_policy(policy), rules, nodes, exploration, selection)
    return _put_together("tree", tree, given, num_samples=simulations, guide=guide)


def _put_together(
    name: str, factory: Factory, given: Mapping[str, Any], *, num_samples: int, guide: TreeGuide | None = None
) -> SearchAgent:
    leaf, weight = given["leaf"], given["weight"]
    _check_budget("rollouts" if guide is None else "simulations", num_samples, given["stop"])
    if not 0 <= weight < math.inf:
        raise ValueError(f"weight must be a number of rollouts, at least 0, got {weight!r}")
    updater = parse_updater(given["belief"], particles=given["particles"], model=given["model"])
    policies = tuple(get_policy(followed) for followed in (given["policy"], given["opponent"]) if followed is not None)
    types: tuple[Style, ...] = ()
    if given["opponent"] is None:
        policies, types = styles(policies[0], updater.opponent)
    rollouts = Rollouts(policies, given["rules"], num_samples, given["discount"], guide, types)
    network_leaf = _network_leaf(leaf, weight, given["rules"], updater.opponent)
    return SearchAgent(format_spec(name, factory, given), updater, rollouts, given["keep"], given["stop"], network_leaf)


def styles(policy: PackedPolicy, opponent: Opponent | None) -> tuple[tuple[PackedPolicy, ...], tuple[Style, ...]]:
    """Return the distinct policies of the player and of the other one's types, and their styles.

    A tremble of at most `TREMBLE` only keeps every play possible for the belief. In rollouts it would weaken the opponent, so
    its type follows the policy itself. An opponent without types follows the player's policy.
    """
    if not isinstance(opponent, Family):
        return (policy,), ()
    models = [cast(PolicyOpponent, model) for model in opponent.models]
    policies = tuple(dict.fromkeys([policy, *(model.policy for model in models)]))
    # A uniform player needs no tremble, and skipping it saves work.
    trembles = (0.0 if model.policy == greedy or model.tremble <= TREMBLE else model.tremble for model in models)
    return policies, tuple(Style(policies.index(model.policy), tremble) for model, tremble in zip(models, trembles, strict=True))


def _network_leaf(network: str | None, weight: float, rules: Rules, opponent: Opponent | None) -> NetworkLeaf | None:
    if network is None:
        return None
    from unojax.search.network_leaf import NetworkLeaf

    return NetworkLeaf(network, weight, rules, opponent)


def _check_budget(key: str, number: int, stop: float) -> None:
    """Check a budget of rollouts, or of a tree's simulations, whose plays are always searched in rounds."""
    if key == "rollouts" and not (is_int(number) and number >= 2):
        raise ValueError(f"rollouts must be at least 2, got {number!r}")
    least = ROUNDS * _LEAST_PER_ROUND
    if (key == "simulations" or stop > 0) and not (is_int(number) and number >= least and number % ROUNDS == 0):
        raise ValueError(f"{key} must be a multiple of {ROUNDS}, at least {least}, if plays may be given up, got {number!r}")
    if number >= 2**31:
        raise ValueError(f"{key} must be below 2^31, got {number}")
