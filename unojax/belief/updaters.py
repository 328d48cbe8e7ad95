"""Updaters: objects that start a belief over the hidden hand and condition it on each transition.

The word *updater* is that of ParticleFilters.jl. Updaters are frozen and hashable, so they can be static arguments under `jit`.
`unojax.belief.tracking` runs one along a game.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.belief import bootstrap, closed_form, color_bounds, exact, history, summary
from unojax.belief.hands import Hands, TypedHands
from unojax.belief.history import Prior
from unojax.belief.opponents import Family, Opponent, OpponentModel, parse_opponent, uniform_opponent
from unojax.belief.particles import MAX_SLOTS, NUM_MOVES, Belief, Info, belief_given_hand, belief_init, belief_update
from unojax.belief.particles.belief import check_start
from unojax.decks import is_int
from unojax.game import State
from unojax.observation import Observation

UpdaterKind = Literal["particles", "bootstrap", "closed", "ages", "unseen", "truth"]
"""Kinds of updater, as the words of an agent's `belief=`."""


class Updater(Protocol):
    """Object that starts a belief and conditions it on transitions. Pure and unbatched; jit- and vmap-able unless `on_host`."""

    @property
    def name(self) -> str:
        """Title in tables."""
        ...

    @property
    def num_particles(self) -> int:
        """N, the largest possible effective sample size; 1 for an updater without particles."""
        ...

    @property
    def opponent(self) -> Opponent | None:
        """Model of the opponent's choices; None if the updater has none."""
        ...

    @property
    def on_host(self) -> bool:
        """Whether `init` and `update` run on the host only, outside of `jit`."""
        ...

    def init(self, key: Array, observation: Observation, /) -> Any:
        """Begin the belief at an observer's first position. Consumes `key`."""
        ...

    def update(self, key: Array, belief: Any, before: Observation, action: Array, after: Observation, /) -> tuple[Any, Info]:
        """Condition the belief on one transition of either player. Consumes `key`; else as `belief_update`."""
        ...

    def given_hand(self, key: Array, belief: Any, observation: Observation, hand: Array, /) -> tuple[Any, Info]:
        """Condition the belief on the opponent's hand, bool[108], which the observer sees at its latest position.

        An updater that can't represent a known hand leaves the belief unchanged. Consumes `key`.
        """
        ...

    def hands(self, key: Array, belief: Any, observation: Observation, /) -> Hands:
        """Return possible hands of the opponent, with their weights. Consumes `key`."""
        ...

    def count_probs(self, belief: Any, observation: Observation, /) -> Array | np.ndarray:
        """Compute P(the opponent holds 0..4 copies) of each type: float32[54, 5], positive for every possible count."""
        ...

    def types(self, belief: Any, /) -> dict[str, float]:
        """Return P(type) of the opponent by name, the likeliest first, on the host; empty without types."""
        ...

    def next_game(self, key: Array, belief: Any, observation: Observation, /) -> Any:
        """Begin the belief of the next game against the same opponent from the belief at the end of the last. Consumes `key`."""
        ...


class _Modelled:
    """Common part of updaters with an opponent model: the posterior over types becomes the next game's prior."""

    on_host = False

    def types(self: Any, belief: Any) -> dict[str, float]:
        return summary.types_by_name(belief, self.opponent)

    def next_game(self: Any, key: Array, belief: Any, observation: Observation) -> Any:
        if not isinstance(self.opponent, Family):
            return self.init(key, observation)
        return self.init(key, observation, belief.log_type_probs)


class _Modelless:
    """Common part of updaters without an opponent model: no types, and nothing carries over to the next game."""

    num_particles = 1
    opponent = None
    on_host = False

    def types(self, belief: Any) -> dict[str, float]:
        return {}

    def next_game(self: Any, key: Array, belief: Any, observation: Observation) -> Any:
        return self.init(key, observation)

    def given_hand(self, key: Array, belief: Any, observation: Observation, hand: Array) -> tuple[Any, Info]:
        return belief, Info()


def filled_count_probs(hands: TypedHands, observation: Observation) -> Array:
    """Compute `summary.count_probs` with one extra hand, distributed as the uniform belief: float32[54, 5].

    This keeps log scores finite for hands that no particle holds.
    """
    n = hands.log_weights.shape[-1]
    return (n * summary.count_probs(hands) + closed_form.uniform(observation).count_probs) / (n + 1)


class ParticleBased(_Modelled):
    """Updater whose belief consists of weighted hands."""

    def hands(self, key: Array, belief: Belief | bootstrap.BootstrapBelief, observation: Observation) -> Hands:
        return Hands.of(belief)

    def count_probs(self, belief: Belief | bootstrap.BootstrapBelief, observation: Observation) -> Array:
        return filled_count_probs(belief, observation)


@dataclass(frozen=True)
class ParticleFilter(ParticleBased):
    """The particle filter; see `belief_init` and `belief_update` for the fields."""

    num_particles: int = 1024
    opponent: Opponent = uniform_opponent
    prior: Prior = "deal"
    ess_threshold: float = 0.5
    num_moves: int = NUM_MOVES
    max_slots: int = MAX_SLOTS
    max_plays: int | None = None

    def __post_init__(self) -> None:
        check_start(self.num_particles, self.prior)

    @property
    def name(self) -> str:
        return f"particles {self.num_particles}"

    def init(self, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> Belief:
        sized = partial(belief_init, num_particles=self.num_particles, max_slots=self.max_slots, max_plays=self.max_plays)
        return sized(observation, key, prior=self.prior, opponent=self.opponent, log_types=log_types)

    def update(self, key: Array, belief: Belief, before: Observation, action: Array, after: Observation) -> tuple[Belief, Info]:
        return belief_update(
            belief, before, action, after, key, opponent=self.opponent, ess_threshold=self.ess_threshold, num_moves=self.num_moves
        )

    def given_hand(self, key: Array, belief: Belief, observation: Observation, hand: Array) -> tuple[Belief, Info]:
        return belief_given_hand(belief, observation, hand, key, opponent=self.opponent)


@dataclass(frozen=True)
class BootstrapFilter(ParticleBased):
    """The plain bootstrap filter, for comparison; see `unojax.belief.bootstrap`."""

    num_particles: int = 1024
    opponent: OpponentModel = uniform_opponent
    prior: Prior = "deal"

    def __post_init__(self) -> None:
        check_start(self.num_particles, self.prior)
        bootstrap.check_one_model(self.opponent)

    @property
    def name(self) -> str:
        return f"bootstrap {self.num_particles}"

    def init(self, key: Array, observation: Observation) -> bootstrap.BootstrapBelief:
        return bootstrap.bootstrap_init(observation, key, num_particles=self.num_particles, prior=self.prior)

    def update(
        self, key: Array, belief: bootstrap.BootstrapBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[bootstrap.BootstrapBelief, Info]:
        return bootstrap.bootstrap_update(belief, before, action, after, key, opponent=self.opponent)

    def given_hand(
        self, key: Array, belief: bootstrap.BootstrapBelief, observation: Observation, hand: Array
    ) -> tuple[bootstrap.BootstrapBelief, Info]:
        return bootstrap.bootstrap_given_hand(belief, hand)


@dataclass(frozen=True)
class ClosedFormFilter(_Modelless):
    """The closed form that restarts at each play of the opponent; with `exclude_drawn`, its incorrect variant.

    `num_hands` are drawn from it for a search.
    """

    exclude_drawn: bool = False
    num_hands: int = 1024

    @property
    def name(self) -> str:
        return "closed form, drawn cards excluded" if self.exclude_drawn else "closed form"

    def init(self, key: Array, observation: Observation) -> closed_form.ClosedFormBelief:
        return closed_form.closed_form_init(observation)

    def update(
        self, key: Array, belief: closed_form.ClosedFormBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[closed_form.ClosedFormBelief, Info]:
        held = belief.sizes.sum(dtype=jnp.int32)
        consistent = history.is_consistent(before, action, after) & (held == before.opponent_count.astype(jnp.int32))
        updated = closed_form.closed_form_update(belief, before, action, after, exclude_drawn=self.exclude_drawn)
        return jax.tree.map(lambda new, old: jnp.where(consistent, new, old), updated, belief), Info(inconsistent=~consistent)

    def hands(self, key: Array, belief: closed_form.ClosedFormBelief, observation: Observation) -> Hands:
        return Hands.alike(closed_form.draw_hands(key, belief, self.num_hands))

    def count_probs(self, belief: closed_form.ClosedFormBelief, observation: Observation) -> Array:
        return belief.count_probs


@dataclass(frozen=True)
class ColorBoundsFilter(_Modelless):
    """Uniform over unseen cards within colour-count bounds, see `unojax.belief.color_bounds`.

    The belief is one uint32. `num_hands` are drawn from it for a search.
    """

    num_hands: int = 1024
    name = "colour-count bounds"

    def init(self, key: Array, observation: Observation) -> Array:
        return jnp.asarray(color_bounds.NOTHING_SHOWN)

    def update(self, key: Array, belief: Array, before: Observation, action: Array, after: Observation) -> tuple[Array, Info]:
        return color_bounds.after_step(belief, before, action, after), Info(
            inconsistent=~history.is_consistent(before, action, after)
        )

    def hands(self, key: Array, belief: Array, observation: Observation) -> Hands:
        return Hands.alike(color_bounds.draw_hands(key, belief, observation, self.num_hands))

    def count_probs(self, belief: Array, observation: Observation) -> Array:
        return color_bounds.count_probs(belief, observation)


@dataclass(frozen=True)
class UniformFilter(_Modelless):
    """The uniform belief over unseen cards at each position, without memory; `num_hands` are drawn for a search."""

    num_hands: int = 1024
    name = "unseen cards"

    def init(self, key: Array, observation: Observation) -> tuple[()]:
        return ()

    def update(
        self, key: Array, belief: tuple[()], before: Observation, action: Array, after: Observation
    ) -> tuple[tuple[()], Info]:
        return belief, Info(inconsistent=~history.is_consistent(before, action, after))

    def hands(self, key: Array, belief: tuple[()], observation: Observation) -> Hands:
        return Hands.of(belief_init(observation, key, num_particles=self.num_hands))

    def count_probs(self, belief: tuple[()], observation: Observation) -> Array:
        return closed_form.uniform(observation).count_probs


@dataclass(frozen=True)
class GivenHands(_Modelless):
    """An updater whose belief, `Hands`, is given before each decision instead of remembered."""

    name = "given hands"

    def init(self, key: Array, observation: Observation) -> Hands:
        return Hands.alike(bits.empty(jnp.zeros(1)))

    def update(self, key: Array, belief: Hands, before: Observation, action: Array, after: Observation) -> tuple[Hands, Info]:
        return belief, Info()

    def hands(self, key: Array, belief: Hands, observation: Observation) -> Hands:
        return belief

    def count_probs(self, belief: Hands, observation: Observation) -> Array:
        return filled_count_probs(belief, observation)


@dataclass(frozen=True)
class Oracle(GivenHands):
    """Oracle baseline: the opponent's actual hand, to measure the value of knowing it. Only `unojax.agents.reveal` shows it."""

    name = "oracle"

    def see(self, state: State, player: Array) -> Hands:
        """Return the belief of a player who sees the other hand."""
        return Hands.alike(bits.map_words(lambda word: word[None], bits.pack(state.hands[1 - player])))

    def count_probs(self, belief: Hands, observation: Observation) -> Array:
        return summary.count_probs(belief)


@dataclass(frozen=True)
class ExactFilter(_Modelled):
    """The exact filter, for small decks, on the host in float64. Ignores keys.

    Raises:
        ValueError: If observations are inconsistent, or a function is traced.
    """

    opponent: Opponent = uniform_opponent
    prior: Prior = "deal"
    name = "exact"
    num_particles = 1
    on_host = True

    def init(self, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> exact.ExactBelief:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(observation)):
            raise ValueError(
                "the exact filter runs on the host, one game at a time, and not under jit or vmap, as matches do; use the "
                "particle filter"
            )
        return exact.exact_init(observation, prior=self.prior, opponent=self.opponent, log_types=log_types)

    def update(
        self, key: Array, belief: exact.ExactBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[exact.ExactBelief, Info]:
        belief, log_evidence = exact.exact_update(belief, before, int(action), after, opponent=self.opponent)
        return belief, self._info(belief, log_evidence)

    def given_hand(
        self, key: Array, belief: exact.ExactBelief, observation: Observation, hand: Array
    ) -> tuple[exact.ExactBelief, Info]:
        belief, log_evidence = exact.exact_given_hand(belief, np.asarray(hand))
        return belief, self._info(belief, log_evidence)

    def _info(self, belief: exact.ExactBelief, log_evidence: float) -> Info:
        type_probs: Any = None if belief.log_type_probs is None else np.exp(belief.log_type_probs)
        return Info(log_evidence=cast(Array, np.float32(log_evidence)), type_probs=type_probs)

    def hands(self, key: Array, belief: exact.ExactBelief, observation: Observation) -> Hands:
        """Return all possible hands, padded to a power of two with zero-weight hands so that searches rarely recompile."""
        known = belief.known.without_drawn()
        joint = known.joint if belief.num_types else known.joint[:0]
        rows = np.concatenate([known.joint.sum(0, keepdims=True), joint])
        padding = (1 << (len(known.hands) - 1).bit_length()) - len(known.hands)
        packed = bits.pack(cards.onehot_of(np.pad(known.hands, ((0, padding), (0, 0)), mode="edge")))
        with np.errstate(divide="ignore"):
            logs = jnp.asarray(np.log(np.pad(rows, ((0, 0), (0, padding)))), jnp.float32)
        return Hands(packed, logs[0], logs[1:] if belief.num_types else None)

    def count_probs(self, belief: exact.ExactBelief, observation: Observation) -> np.ndarray:
        return belief.count_probs


def parse_updater(belief: str, *, particles: int, model: str = "uniform") -> Updater:
    """Make the updater that an agent's settings describe.

    Args:
        belief: One of `UpdaterKind`.
        particles: Number of particles, or of hands drawn from a belief without particles.
        model: Opponent model of particle and exact beliefs, see `parse_opponent`.

    Raises:
        ValueError: If an argument is not allowed.
    """
    if belief not in get_args(UpdaterKind):
        raise ValueError(f"belief must be one of {', '.join(get_args(UpdaterKind))}, got {belief!r}")
    if not (is_int(particles) and particles >= 1):
        raise ValueError(f"particles must be at least 1, got {particles!r}")
    opponent = parse_opponent(model)
    match belief:
        case "particles":
            return ParticleFilter(particles, opponent)
        case "bootstrap":
            return BootstrapFilter(particles, bootstrap.check_one_model(opponent))
        case "closed":
            return ClosedFormFilter(num_hands=particles)
        case "ages":
            return ColorBoundsFilter(particles)
        case "unseen":
            return UniformFilter(particles)
        case _:
            return Oracle()
