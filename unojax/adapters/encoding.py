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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import cards
from unojax.belief import belief_init, closed_form, summary
from unojax.belief.updaters import ParticleFilter
from unojax.decks import is_int
from unojax.observation import Observation
from unojax.rules import Rules, as_rules

BeliefKind = Literal["none", "unseen", "particles"]
DType = Literal["float32", "int8"]


class EncoderOptions(TypedDict, total=False):
    """Attributes of `Encoder`, as keywords of environments."""

    belief: BeliefKind
    particles: int
    dtype: DType


@dataclass(frozen=True)
class Section:
    """Neighbouring columns with one meaning.

    Attributes:
        name: Name of the columns.
        size: Number of columns.
        read: Function that reads the columns from an observation; None: they come from the belief.
        high: Largest value, undivided; the smallest is 0.
        scale: Divisor in float32.
    """

    name: str
    size: int
    read: Callable[[Observation], ArrayLike] | None = field(repr=False)
    high: int = 1
    scale: float = 1.0


def _one_hot(number: ArrayLike, size: int) -> Array:
    return jnp.asarray(number == np.arange(size, dtype=np.int8))


_CARDS: Final = cards.NUM_CARDS
SECTIONS: Final = (
    Section("hand", _CARDS, lambda seen: seen.hand),
    Section("pile", _CARDS, lambda seen: seen.pile),
    Section("color", cards.NUM_COLORS, lambda seen: _one_hot(seen.color, cards.NUM_COLORS)),
    Section("top_rank", cards.NUM_RANKS, lambda seen: _one_hot(seen.top_rank, cards.NUM_RANKS)),
    Section("own_turn", 1, lambda seen: seen.is_my_turn),
    Section("terminated", 1, lambda seen: seen.terminated),
    Section("penalty", 1, lambda seen: seen.penalty, _CARDS, 4.0),
    Section("hand_count", 1, lambda seen: seen.hand_count, _CARDS, 10.0),
    Section("opponent_count", 1, lambda seen: seen.opponent_count, _CARDS, 10.0),
    Section("deck_count", 1, lambda seen: seen.deck_count, _CARDS, 100.0),
    Section("last_action", cards.NUM_ACTIONS, lambda seen: _one_hot(seen.last_action, cards.NUM_ACTIONS)),
)
"""Columns under all rules, in order."""
TURN_SECTIONS: Final = (
    Section("drawn", cards.NUM_TYPES, lambda seen: _one_hot(seen.drawn, cards.NUM_TYPES)),
    Section("has_drawn", 1, lambda seen: seen.has_drawn),
    Section("contested", cards.NUM_COLORS, lambda seen: _one_hot(seen.contested, cards.NUM_COLORS)),
    Section("challenged", 1, lambda seen: seen.last_action == cards.CHALLENGE),
)
"""Columns that follow if `Rules.keeps_account`."""
BELIEF: Final = Section("belief", _CARDS, None)
"""Columns that follow with a belief."""


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
        if self.rules.unknown:
            raise ValueError(f"the columns do not show rules with {', '.join(self.rules.unknown)}: leave them at their defaults")
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
        return SECTIONS + TURN_SECTIONS * self.rules.keeps_account + (BELIEF,) * (self.belief != "none")

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
        highs = np.concatenate([np.full(section.size, section.high) for section in self.sections])
        return (highs / self._scales(self.sections)).astype(self.dtype)

    def spaces(self) -> tuple[Any, Any]:
        """Return gymnasium's spaces of observations with a mask, and of actions; for gymnasium and PettingZoo."""
        from gymnasium import spaces  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

        high = self.high
        seen = spaces.Box(np.zeros_like(high), high, dtype=high.dtype.type)
        mask = spaces.Box(0, 1, (self.rules.num_actions,), np.int8)
        return spaces.Dict({"observation": seen, "action_mask": mask}), spaces.Discrete(self.rules.num_actions)

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
        sections = [section for section in self.sections if section.read is not None]
        parts = [jnp.atleast_1d(read(observation)).astype(jnp.int8) for section in sections if (read := section.read)]
        # Integers first, in a separate buffer: XLA on CPU would recompute each column's operands for every column.
        plain = lax.optimization_barrier(jnp.concatenate(parts))
        if self.dtype == "int8":
            return plain
        encoded = plain.astype(jnp.float32) / self._scales(sections)
        if self.belief == "none":
            return encoded
        return jnp.concatenate([encoded, self._slot_probs(memory, observation)])

    def _scales(self, sections: Sequence[Section]) -> np.ndarray:
        """Return the divisors of the columns of sections, float32; 1 in int8."""
        scales = np.concatenate([np.full(section.size, section.scale, np.float32) for section in sections])
        return scales if self.dtype == "float32" else np.ones_like(scales)

    @property
    def _filter(self) -> ParticleFilter:
        return ParticleFilter(self.particles)

    def _slot_probs(self, memory: Any, observation: Observation) -> Array:
        if self.belief == "particles":
            return summary.slot_probs(memory)
        # A slot is set if the hand holds more copies of its type than the slot's copy number.
        at_most = jnp.cumsum(closed_form.uniform(observation).count_probs, -1)
        return jnp.clip(1.0 - at_most[cards.TYPE_OF_SLOT, cards.COPY_OF_SLOT], 0.0, 1.0)
