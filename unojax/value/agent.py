"""The network as a player: greedy on the values of its plays, without search.

value                              the shipped network
value:belief=unseen                the same, without a belief
value:network=my-run/best.safetensors
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from unojax import cards
from unojax.agents import Memory
from unojax.belief import belief_init, belief_update
from unojax.bits import Words
from unojax.device.batching import together
from unojax.observation import Observation
from unojax.rules import Rules, agreed_rules, is_int
from unojax.specs import format_spec
from unojax.value.features import features, outlook_of_hands, outlook_of_unseen
from unojax.value.network import Network
from unojax.value.plays import value_plays
from unojax.value.pretrained import PRETRAINED, load_network
from unojax.view import View, view_of

NetworkBelief = Literal["particles", "unseen"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["loaded"],
    meta_fields=["network", "belief", "particles", "head", "rules"],
)
@dataclass(frozen=True)
class ValueAgent:
    """Takes the play after which the network sees the best chances.

    Attributes:
        network: "pretrained", or the path of a network's file.
        belief: "particles", the particle filter with the uniform opponent model; "unseen", any of the cards not seen.
        particles: of the filter.
        head: "value", the play after which the value is highest; "policy", the play with the highest logit.
        rules: of the game.
        loaded: the network itself, in place of one to be loaded.
    """

    network: str = PRETRAINED
    belief: NetworkBelief = "particles"
    particles: int = 128
    head: Literal["value", "policy"] = "value"
    rules: Rules = Rules()
    loaded: Network | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.belief not in get_args(NetworkBelief):
            raise ValueError(f"belief must be one of {', '.join(get_args(NetworkBelief))}, got {self.belief!r}")
        if not (is_int(self.particles) and self.particles >= 1):
            raise ValueError(f"particles must be at least 1, got {self.particles!r}")
        if self.head not in ("value", "policy"):
            raise ValueError(f"head must be value or policy, got {self.head!r}")
        if self.loaded is None:
            object.__setattr__(self, "loaded", load_network(self.network))
        if self.head == "policy" and not self._network.config.policy_head:
            raise ValueError(f"network {self.network} has no policy head; use head=value")

    @property
    def name(self) -> str:
        """The shortest spec of this agent."""
        return format_spec("value", self)

    def init(self, key: Array, observation: Observation) -> Memory:
        """The belief at the start."""
        if self.belief == "unseen":
            return ()
        return belief_init(observation, key, num_particles=self.particles, rules=self.rules, prior="deal")

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        """The belief after a micro-step."""
        if self.belief == "unseen":
            return memory
        return belief_update(memory, before, action, after, key, rules=self.rules)[0]

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        """The play with the highest score."""
        del key
        is_mine = ~observation.terminated & (observation.current_player == observation.player)
        scores = self.scores(memory, observation, legal_mask[: cards.DRAW] & is_mine & (legal_mask.sum() > 1))
        only = jnp.argmax(legal_mask)
        return jnp.where(scores.max() > -jnp.inf, jnp.argmax(scores), only).astype(jnp.int32)

    def scores(self, memory: Memory, observation: Observation, legal: Array) -> Array:
        """float32[60]: the value, in [-1, 1], after each of the plays `legal` (bool[60]), or its logit; -inf for the others.

        Under `vmap` the plays of all decisions go through the network together.
        """
        agreed_rules(observation.rules, self.rules)
        hands = None if self.belief == "unseen" else (memory.packed, jnp.exp(memory.log_weights))
        return together(self._scores)(self._network, view_of(observation), hands, legal)

    @property
    def _network(self) -> Network:
        assert self.loaded is not None
        return self.loaded

    def _scores(self, network: Network, view: View, hands: tuple[Words, Array] | None, legal: Array) -> Array:
        outlook = outlook_of_unseen(view) if hands is None else outlook_of_hands(view, *hands)
        if self.head == "policy":
            logits = network(features(view, outlook)).policy_logits
            assert logits is not None
            return jnp.where(legal, logits, -jnp.inf)
        return value_plays(network, view, outlook, legal)
