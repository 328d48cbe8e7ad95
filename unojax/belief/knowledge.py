"""Knowledge of the opponent's hand: the particles of a filter, the cards that a player has not seen, or the hand itself.

Agents are made of one of these and of what values plays. Memories are pytrees; all functions are pure, unbatched, jit- and
vmap-able.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import jax.numpy as jnp
from jax import Array

from unojax import bits
from unojax.belief import summary
from unojax.belief.filters import ParticleFilter
from unojax.belief.hands import Hands
from unojax.belief.opponents import Opponent, parse_opponent
from unojax.belief.particles import Belief, belief_init
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation
from unojax.rules import is_int

KnowledgeKind = Literal["particles", "unseen", "truth"]


class Knowledge(Protocol):
    """Remembers what there is to know of the hidden hand. Hashable, so that it can be static."""

    def init(self, key: Array, observation: Observation, /) -> Any:
        """Begin the memory at an observer's first position. Consumes `key`."""
        ...

    def update(self, key: Array, memory: Any, before: Observation, action: Array, after: Observation, /) -> Any:
        """Give the memory after one micro-step of either player. Consumes `key`."""
        ...

    def hands(self, key: Array, memory: Any, observation: Observation, /) -> Hands:
        """Give hands that the opponent may hold. Consumes `key`."""
        ...

    def next_game(self, key: Array, memory: Any, observation: Observation, /) -> Any:
        """Begin the memory of another game against the same opponent, by that at the end of the last. Consumes `key`."""
        ...


@dataclass(frozen=True)
class Tracked:
    """The belief of a particle filter that follows the game."""

    filter: ParticleFilter

    @property
    def opponent(self) -> Opponent:
        """What the opponent is taken for."""
        return self.filter.opponent

    def init(self, key: Array, observation: Observation) -> Belief:
        return self.filter.init(key, observation)

    def update(self, key: Array, memory: Belief, before: Observation, action: Array, after: Observation) -> Belief:
        return self.filter.update(key, memory, before, action, after)[0]

    def hands(self, key: Array, memory: Belief, observation: Observation) -> Hands:
        del key, observation
        return Hands.of(memory)

    def types(self, memory: Belief) -> dict[str, float]:
        """Give P(type) of the opponent by name, the likeliest first, on the host; empty under a single model."""
        return summary.types_by_name(memory, self.filter.opponent)

    def next_game(self, key: Array, memory: Belief, observation: Observation) -> Belief:
        """Begin the next game's belief; what is known of the opponent's type goes on, and no more."""
        return self.filter.init(key, observation, None if memory.log_types is None else memory.log_type_probs)


@dataclass(frozen=True)
class _Still:
    """Knowledge that neither a micro-step changes nor another game."""

    def update(self, key: Array, memory: Any, before: Observation, action: Array, after: Observation) -> Any:
        del key, before, action, after
        return memory

    def next_game(self, key: Array, memory: Any, observation: Observation) -> Any:
        del key, observation
        return memory


@dataclass(frozen=True)
class Unseen(_Still):
    """Any of the cards not seen, one as likely as another: `num_hands` hands are drawn from them when they are asked for."""

    num_hands: int = 1024

    def init(self, key: Array, observation: Observation) -> tuple[()]:
        del key, observation
        return ()

    def hands(self, key: Array, memory: tuple[()], observation: Observation) -> Hands:
        del memory
        drawn = belief_init(observation, key, num_particles=self.num_hands)
        return Hands(drawn.packed, drawn.log_weights)


@dataclass(frozen=True)
class Truth(_Still):
    """The hand itself, to see what knowing it would be worth. Somebody has to show it: `unojax.agents.reveal`."""

    def init(self, key: Array, observation: Observation) -> Words:
        del key, observation
        return bits.empty(jnp.uint32(0))

    def see(self, state: State, player: Array) -> Words:
        """Give the memory of a player who looks at the other hand."""
        return bits.pack(state.hands[1 - player])

    def hands(self, key: Array, memory: Words, observation: Observation) -> Hands:
        del key, observation
        return Hands(bits.map_words(lambda w: w[None], memory), jnp.zeros(1, jnp.float32))


def parse_knowledge(belief: KnowledgeKind, *, particles: int, model: str = "uniform") -> Tracked | Unseen | Truth:
    """Make the knowledge that an agent's settings describe; `particles` may be hands drawn from the unseen cards.

    Raises:
        ValueError: an argument is none of those allowed, or `model` none of `parse_opponent`.
    """
    if belief not in get_args(KnowledgeKind):
        raise ValueError(f"belief must be one of {', '.join(get_args(KnowledgeKind))}, got {belief!r}")
    if not (is_int(particles) and particles >= 1):
        raise ValueError(f"particles must be at least 1, got {particles!r}")
    opponent = parse_opponent(model)
    if belief == "particles":
        return Tracked(ParticleFilter(particles, opponent))
    return Unseen(particles) if belief == "unseen" else Truth()
