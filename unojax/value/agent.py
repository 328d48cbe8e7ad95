"""Networks as players, without search: by the values of the plays, or by a policy.

As specs:

    value                                    the shipped network: the play of the highest value
    value:belief=unseen                      the same, without a belief
    value:network=heuristic                  the heuristic value instead of the network
    value:network=my-run/last.safetensors    a network of your own
    policy:network=my-run/last.safetensors   a policy network, which draws its plays; with greedy=true it takes the likeliest
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from unojax.agents import Memory
from unojax.belief.updaters import ColorBoundsFilter, UniformFilter, Updater, parse_updater
from unojax.device.batching import together
from unojax.device.tracing import traced_once
from unojax.observation import Observation
from unojax.pomdp import check_discount
from unojax.rules import Rules, check_rules_of_agent
from unojax.specs import format_spec
from unojax.value.features import features, outlook_of_ages, outlook_of_hands, outlook_of_unseen
from unojax.value.network import Network, check_network
from unojax.value.plays import value_plays
from unojax.value.pretrained import PRETRAINED, load_network
from unojax.view import View, view_of

NetworkBelief = Literal["particles", "ages", "unseen"]
Head = Literal["value", "policy"]


@partial(jax.tree_util.register_dataclass, data_fields=["network"], meta_fields=["name", "updater", "head", "rules", "is_greedy"])
@dataclass(frozen=True)
class ValueAgent:
    """Player by a network, without search. A pytree, so that the network is traced.

    Attributes:
        name: Shortest spec of the agent.
        updater: Updater of the belief over the opponent's hand.
        network: Network that evaluates the plays.
        head: "value": the play after which the value is highest. "policy": by the logits of the plays.
        is_greedy: It takes the best play instead of drawing one by the logits' probabilities.
    """

    name: str
    updater: Updater
    network: Network = field(repr=False)
    head: Head = "value"
    is_greedy: bool = True
    rules: Rules = Rules()

    def init(self, key: Array, observation: Observation) -> Memory:
        return self.updater.init(key, observation)

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        return self.updater.update(key, memory, before, action, after)[0]

    def next_game(self, key: Array, memory: Memory, observation: Observation) -> Memory:
        """Begin the next game against the same opponent; see `unojax.agents.next_game`."""
        return self.updater.next_game(key, memory, observation)

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        is_mine = ~observation.terminated & (observation.current_player == observation.player)
        scores = self.scores(key, memory, observation, legal_mask[: self.rules.num_choices] & is_mine & (legal_mask.sum() > 1))
        if not self.is_greedy:
            scores += jax.random.gumbel(key, scores.shape)
        only = jnp.argmax(legal_mask)
        return jnp.where(scores.max() > -jnp.inf, jnp.argmax(scores), only).astype(jnp.int32)

    def scores(self, key: Array, memory: Memory, observation: Observation, legal: Array) -> Array:
        """Return values in [-1, 1], or logits, of the choices `legal`, else -inf: float32, like `legal`.

        Consumes `key`. Under `vmap` all decisions pass the network together.
        """
        check_rules_of_agent(observation.rules, self.rules)
        known = memory
        if not isinstance(self.updater, UniformFilter | ColorBoundsFilter):
            known = self.updater.hands(jax.random.fold_in(key, 1), memory, observation)
        return _score(self.network, view_of(observation), known, legal, updater=self.updater, head=self.head)


@partial(traced_once, static=("updater", "head"))
def _score(network: Network, view: View, known: Any, legal: Array, *, updater: Updater, head: Head) -> Array:
    return together(partial(_scores, updater=updater, head=head))(network, view, known, legal)


def _scores(network: Network, view: View, known: Any, legal: Array, *, updater: Updater, head: Head) -> Array:
    if isinstance(updater, UniformFilter):
        outlook = outlook_of_unseen(view)
    elif isinstance(updater, ColorBoundsFilter):
        outlook = outlook_of_ages(view, known)
    else:
        outlook = outlook_of_hands(view, known, updater.opponent)
    if head == "policy":
        logits = network(features(view, outlook)).policy_logits
        assert logits is not None
        return jnp.where(legal, logits, -jnp.inf)
    return value_plays(network, view, outlook, legal)


def value(
    *,
    network: str = PRETRAINED,
    belief: NetworkBelief = "particles",
    model: str = "family",
    particles: int = 128,
    discount: float | None = None,
    rules: Rules = Rules(),
    loaded: Network | None = None,
) -> ValueAgent:
    """Take the play after which the network's value is highest, without search.

    Values are those of wins and losses, under `Rules.points` too.

    Args:
        network: "pretrained", "heuristic" for the heuristic value, or the path of a network's file.
        belief: "particles", the particle filter; "ages", colour-count bounds, at no cost; "unseen", uniform over unseen cards.
        model: Opponent model of the particle filter, one model or several types, see `parse_opponent`. The shipped network needs
            "family": the filter infers the type, and the network receives the probability of each type.
        particles: Number of particles of the filter.
        discount: Factor on returns per transition, which must be that of the network's values; None: the network's own.
        rules: Rules of the game.
        loaded: The network itself; `network` is then only its name.

    Raises:
        ValueError: If an argument is not allowed, there is no such network, or it does not support the rules or has another
            discount.
    """
    given = locals()
    updater = _updater(belief, particles, model)
    loaded = load_network(network, rules) if loaded is None else loaded
    if discount is not None:
        check_discount(discount)
    check_network(loaded, network, rules, discount)
    return ValueAgent(format_spec("value", value, given), updater, loaded, rules=rules)


def policy(
    *,
    network: str | None = None,
    belief: NetworkBelief = "ages",
    model: str = "uniform",
    greedy: bool = False,
    particles: int = 128,
    rules: Rules = Rules(),
    loaded: Network | None = None,
) -> ValueAgent:
    """Draw a play from the probabilities of a policy network, without search.

    Args:
        network: Path of a network's file from `training.train_policy`.
        belief, model, particles: As in `value`.
        greedy: Take the likeliest play instead.
        rules: Rules of the game.
        loaded: The network itself; `network` is then only its name.

    Raises:
        ValueError: If an argument is not allowed, there is no such network, or it has no policy or does not support the rules.
    """
    given = locals()
    updater = _updater(belief, particles, model)
    if network is None:
        raise ValueError("network must name a file, such as network=runs/policy/last.safetensors of training.train_policy")
    loaded = load_network(network, rules) if loaded is None else loaded
    check_network(loaded, network, rules)
    if rules.draw_is_option or not loaded.config.policy_head:
        raise ValueError(f"network {network} has no policy head; train one with python -m training.train_policy")
    return ValueAgent(format_spec("policy", policy, given), updater, loaded, "policy", greedy, rules)


def _updater(belief: NetworkBelief, particles: int, model: str) -> Updater:
    if belief not in get_args(NetworkBelief):
        raise ValueError(f"belief must be one of {', '.join(get_args(NetworkBelief))}, got {belief!r}")
    return parse_updater(belief, particles=particles, model=model)
