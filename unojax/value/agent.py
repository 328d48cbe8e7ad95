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

from unojax.agents import Memory
from unojax.belief.knowledge import Knowledge, Unseen, parse_knowledge
from unojax.bits import Words
from unojax.device.batching import together
from unojax.observation import Observation
from unojax.rules import Rules, agreed_rules
from unojax.specs import format_spec
from unojax.value.features import features, outlook_of_hands, outlook_of_unseen
from unojax.value.network import Network, check_network
from unojax.value.plays import value_plays
from unojax.value.pretrained import PRETRAINED, load_network
from unojax.view import View, view_of

NetworkBelief = Literal["particles", "unseen"]
Head = Literal["value", "policy"]


@partial(jax.tree_util.register_dataclass, data_fields=["network"], meta_fields=["name", "knowledge", "head", "rules"])
@dataclass(frozen=True)
class ValueAgent:
    """Takes the play after which a network sees the best chances; see `value`.

    A pytree, so that the network is traced (see `unojax.device.static`).

    Attributes:
        name: the shortest spec of it.
        knowledge: of the opponent's hand.
        network: values the plays. Agents are equal whose other attributes are.
        head: as in `value`.
    """

    name: str
    knowledge: Knowledge
    network: Network = field(compare=False, repr=False)
    head: Head = "value"
    rules: Rules = Rules()

    def init(self, key: Array, observation: Observation) -> Memory:
        return self.knowledge.init(key, observation)

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        return self.knowledge.update(key, memory, before, action, after)

    def next_game(self, key: Array, memory: Memory, observation: Observation) -> Memory:
        """Begin the next game against the same opponent; see `unojax.agents.next_game`."""
        return self.knowledge.next_game(key, memory, observation)

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        del key
        is_mine = ~observation.terminated & (observation.current_player == observation.player)
        scores = self.scores(memory, observation, legal_mask[: self.rules.num_choices] & is_mine & (legal_mask.sum() > 1))
        only = jnp.argmax(legal_mask)
        return jnp.where(scores.max() > -jnp.inf, jnp.argmax(scores), only).astype(jnp.int32)

    def scores(self, memory: Memory, observation: Observation, legal: Array) -> Array:
        """Score the choices `legal`, bool[60] or more (`Rules.num_choices`), of the player to move.

        Under `vmap` all decisions go through the network together.

        Returns:
            float32, of the shape of `legal`: the value, in [-1, 1], after each of them, or its logit; -inf for others.
        """
        agreed_rules(observation.rules, self.rules)
        # From unseen cards alone the outlook has a closed form.
        hands = None if isinstance(self.knowledge, Unseen) else (memory.packed, jnp.exp(memory.log_weights))
        return together(self._scores)(self.network, view_of(observation), hands, legal)

    def _scores(self, network: Network, view: View, hands: tuple[Words, Array] | None, legal: Array) -> Array:
        outlook = outlook_of_unseen(view) if hands is None else outlook_of_hands(view, *hands)
        if self.head == "policy":
            logits = network(features(view, outlook)).policy_logits
            assert logits is not None
            return jnp.where(legal, logits, -jnp.inf)
        return value_plays(network, view, outlook, legal)


def value(
    *,
    network: str = PRETRAINED,
    belief: NetworkBelief = "particles",
    model: str = "uniform",
    particles: int = 128,
    head: Head = "value",
    rules: Rules = Rules(),
    loaded: Network | None = None,
) -> ValueAgent:
    """Take the play after which a network sees the best chances, without search.

    Where drawing, passing or a challenge is a choice, it is valued as plays are, by a network that was trained for such rules. To
    win is what counts, under `Rules.points` too.

    Args:
        network: "pretrained", or the path of a network's file.
        belief: "particles", the particle filter; "unseen", any of the cards not seen.
        model: how the particle filter takes the opponent to choose, one model or several types, see `parse_opponent`. The
            network was trained with beliefs of the uniform model.
        particles: hands that the filter is made of.
        head: "value", the play after which the value is highest; "policy", the play with the highest logit.
        rules: of the game.
        loaded: the network itself, in place of one to be loaded; `network` is then only its name.

    Raises:
        ValueError: an argument is none of those allowed, there is no such network, it lacks the head, or knows no such rules.
    """
    given = locals()
    if belief not in get_args(NetworkBelief):
        raise ValueError(f"belief must be one of {', '.join(get_args(NetworkBelief))}, got {belief!r}")
    if head not in get_args(Head):
        raise ValueError(f"head must be {' or '.join(get_args(Head))}, got {head!r}")
    knowledge = parse_knowledge(belief, particles=particles, model=model)
    loaded = load_network(network) if loaded is None else loaded
    check_network(loaded, network, rules)
    if head == "policy" and (rules.draw_is_option or not loaded.config.policy_head):
        raise ValueError(f"network {network} has no policy head; use head=value")
    return ValueAgent(format_spec("value", value, given), knowledge, loaded, head, rules)
