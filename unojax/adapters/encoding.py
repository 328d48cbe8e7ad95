"""Observations as one flat array, the same in all adapters.

| columns | content | values | float32 |
| --- | --- | --- | --- |
| 0 .. 107 | own hand, canonical slots (`unojax.cards`) | 0, 1 | |
| 108 .. 215 | pile with its top card, canonical slots | 0, 1 | |
| 216 .. 219 | active colour: red, yellow, blue, green | one-hot | |
| 220 .. 234 | rank of the top card: 0-9, Skip, Reverse, +2, Wild, Wild+4 | one-hot | |
| 235 | own turn | 0, 1 | |
| 236 | the game is over | 0, 1 | |
| 237 | penalty of the player to move | 0 .. | / 4 |
| 238 | own cards | 0 .. 108 | / 10 |
| 239 | the opponent's cards | 0 .. 108 | / 10 |
| 240 | cards left in the deck | 0 .. 108 | / 100 |
| 241 .. 301 | last action of either player; all 0 at the start | one-hot | |

With `Rules.keeps_account`:

| columns | content | values | float32 |
| --- | --- | --- | --- |
| 302 .. 355 | type of the card that the player has drawn in its unfinished turn | one-hot | |
| 356 | the player to move, either one, has drawn such a card | 0, 1 | |
| 357 .. 360 | colour active before the pending Wild+4, if that may be challenged | one-hot | |
| 361 | the last action was a challenge | 0, 1 | |

With a belief, 108 columns follow: the probability that each slot of the opponent's canonical hand is set. int8 holds the values
undivided, without a belief. `SECTIONS`, `TURN_SECTIONS` and `BELIEF` hold these tables as data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import cards
from unojax.belief import belief_init, closed_form, summary
from unojax.belief.updaters import ParticleFilter
from unojax.decks import is_int
from unojax.observation import Observation
from unojax.rules import Rules, as_rules

BeliefKind = Literal["none", "unseen", "particles"]
DType = Literal["float32", "int8"]


class Section(NamedTuple):
    """Neighbouring columns with one meaning: name, number, and divisor in float32."""

    name: str
    size: int
    scale: float = 1.0


SECTIONS: Final = (
    Section("hand", cards.NUM_CARDS),
    Section("pile", cards.NUM_CARDS),
    Section("color", cards.NUM_COLORS),
    Section("top_rank", cards.NUM_RANKS),
    Section("own_turn", 1),
    Section("terminated", 1),
    Section("penalty", 1, 4.0),
    Section("hand_count", 1, 10.0),
    Section("opponent_count", 1, 10.0),
    Section("deck_count", 1, 100.0),
    Section("last_action", cards.NUM_ACTIONS),
)
"""Columns under all rules, in order."""
TURN_SECTIONS: Final = (
    Section("drawn", cards.NUM_TYPES),
    Section("has_drawn", 1),
    Section("contested", cards.NUM_COLORS),
    Section("challenged", 1),
)
"""Columns that follow if `Rules.keeps_account`."""
BELIEF: Final = Section("belief", cards.NUM_CARDS)
"""Columns that follow with a belief."""
_COUNTS: Final = ("penalty", "hand_count", "opponent_count", "deck_count")
"""Sections that count cards."""


@dataclass(frozen=True)
class Encoder:
    """Encoder of observations as arrays. Hashable; its functions are pure, jit- and vmap-able.

    Attributes:
        belief: Belief columns. "none": no columns. "unseen": uniform over unseen cards. "particles": a particle filter with
            the uniform opponent model.
        particles: Number of particles.
        dtype: "float32" or "int8". int8 excludes a belief.
        rules: Rules of the observations, or the name of a preset.

    Raises:
        ValueError: If an attribute has another value.
    """

    belief: BeliefKind = "none"
    particles: int = 128
    dtype: DType = "float32"
    rules: Rules = Rules()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", as_rules(self.rules))
        if self.belief not in get_args(BeliefKind):
            raise ValueError(f"belief must be one of {', '.join(get_args(BeliefKind))}, got {self.belief!r}")
        if self.dtype not in get_args(DType):
            raise ValueError(f"dtype must be one of {', '.join(get_args(DType))}, got {self.dtype!r}")
        if self.belief != "none" and self.dtype == "int8":
            raise ValueError(f"dtype must be float32 with belief={self.belief!r}, whose columns are probabilities, got int8")
        if not (is_int(self.particles) and self.particles >= 1):
            raise ValueError(f"particles must be an integer of at least 1, got {self.particles!r}")

    @property
    def sections(self) -> tuple[Section, ...]:
        """Sections of the columns, in order."""
        return self._plain_sections if self.belief == "none" else (*self._plain_sections, BELIEF)

    @property
    def _plain_sections(self) -> tuple[Section, ...]:
        return SECTIONS + TURN_SECTIONS if self.rules.keeps_account else SECTIONS

    @property
    def size(self) -> int:
        """Number of columns."""
        return sum(section.size for section in self.sections)

    def columns(self, name: str) -> slice:
        """Return the columns of a section. Raises `ValueError` if no section has that name."""
        names = [section.name for section in self.sections]
        if name not in names:
            raise ValueError(f"section must be one of {', '.join(names)}, got {name!r}")
        start = sum(section.size for section in self.sections[: names.index(name)])
        return slice(start, start + self.sections[names.index(name)].size)

    @property
    def high(self) -> np.ndarray:
        """Largest value of each column, [size] of `dtype`; the smallest is 0."""
        scaled = self.dtype == "float32"
        sections = [(s.size, cards.NUM_CARDS if s.name in _COUNTS else 1, s.scale if scaled else 1) for s in self.sections]
        return np.concatenate([np.full(size, largest / scale) for size, largest, scale in sections]).astype(self.dtype)

    def init(self, key: Array, observation: Observation) -> Any:
        """Return a player's initial memory, a pytree, from its first observation. Consumes `key`."""
        return self._filter.init(key, observation) if self.belief == "particles" else ()

    def update(self, key: Array, memory: Any, before: Observation, action: Array, after: Observation) -> Any:
        """Return the memory after one transition of either player. Consumes `key`."""
        if self.belief != "particles":
            return memory
        return self._filter.update(key, memory, before, action, after)[0]

    def sample_hand(self, key: Array, memory: Any, observation: Observation) -> Array:
        """Sample an opponent's canonical hand, int8[108], from the belief. Consumes `key`."""
        if self.belief == "particles":
            return memory.particles[jax.random.categorical(key, memory.log_weights)]
        return belief_init(observation, key, num_particles=1).particles[0]

    def encode(self, memory: Any, observation: Observation) -> Array:
        """Return one player's observation as [size] of `dtype`."""
        ranks, colors, actions = (np.arange(n, dtype=np.int8) for n in (cards.NUM_RANKS, cards.NUM_COLORS, cards.NUM_ACTIONS))
        parts = {
            "hand": observation.hand,
            "pile": observation.pile,
            "color": observation.color == colors,
            "top_rank": observation.top_rank == ranks,
            "own_turn": observation.is_my_turn,
            "terminated": observation.terminated,
            "penalty": observation.penalty,
            "hand_count": observation.hand_count,
            "opponent_count": observation.opponent_count,
            "deck_count": observation.deck_count,
            "last_action": observation.last_action == actions,
            "drawn": observation.drawn == np.arange(cards.NUM_TYPES, dtype=np.int8),
            "has_drawn": observation.has_drawn,
            "contested": observation.contested == colors,
            "challenged": observation.last_action == cards.CHALLENGE,
        }
        sections = self._plain_sections
        # Integers first, in a separate buffer: XLA on CPU would recompute each column's operands for every column.
        plain = lax.optimization_barrier(jnp.concatenate([jnp.atleast_1d(parts[s.name]).astype(jnp.int8) for s in sections]))
        if self.dtype == "int8":
            return plain
        encoded = plain.astype(jnp.float32) / np.concatenate([np.full(s.size, s.scale, np.float32) for s in sections])
        if self.belief == "none":
            return encoded
        return jnp.concatenate([encoded, self._slot_probs(memory, observation)])

    @property
    def _filter(self) -> ParticleFilter:
        return ParticleFilter(self.particles)

    def _slot_probs(self, memory: Any, observation: Observation) -> Array:
        if self.belief == "particles":
            return summary.slot_probs(memory)
        # A slot is set if the hand holds more copies of its type than the slot's copy number.
        at_most = jnp.cumsum(closed_form.uniform(observation).count_probs, -1)
        return jnp.clip(1.0 - at_most[cards.TYPE_OF_SLOT, cards.COPY_OF_SLOT], 0.0, 1.0)
