"""Beliefs of the particle filter: weighted trajectories, and their start."""

from __future__ import annotations

import dataclasses
from functools import partial
from numbers import Real
from typing import Final, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from unojax import bits
from unojax.belief import history as reading
from unojax.belief import resample
from unojax.belief.history import Prior, check_prior
from unojax.belief.opponents import Opponent, models_of, type_prior, uniform_opponent
from unojax.belief.particles import proposals, public
from unojax.belief.particles.likelihood import by_type, log_joint, log_type_probs, mixed, num_startable, start_log_prob
from unojax.belief.particles.public import Deal, PublicHistory
from unojax.belief.particles.rows import SERIAL, Rows, capacity_for
from unojax.belief.particles.trajectory import RELEASED, Trajectories, as_words, random_of_round
from unojax.decks import is_int
from unojax.device import control, struct
from unojax.device.random_bits import check_key, key_words, threefry_words
from unojax.device.struct import by_field
from unojax.device.tracing import traced_once
from unojax.observation import Observation, check_counts, check_observation
from unojax.rules import Rules

MAX_SLOTS: Final = 192
"""Default capacity of a belief: cards the opponent ever acquired."""
MAX_PLAYS: Final = 96
"""Default capacity for the opponent's plays; in uniform play 1 game in 10,000 needs more. Under rules without plain steps, whose
records include other choices and facts revealed about the hand, it is twice as large.
"""


class Target(NamedTuple):
    """Weights that the filter propagates.

    Attributes:
        log_weights: float32[N] nats, normalised, of all trajectories.
        log_possible: float32[] nats, total weight of the possible ones.
        log_likelihood: float32[K, N] nats, by type, and -inf for an impossible trajectory; None without types.
    """

    log_weights: Array
    log_possible: Array
    log_likelihood: Array | None = None


@struct.dataclass
class Belief:
    """N weighted hypothetical hands of the opponent.

    Attributes:
        log_weights: float32[N] nats, normalised (logsumexp = 0).
        log_likelihood: float32[N] nats, of the opponent's choices so far in each particle (`likelihood.log_likelihood`); under a
            `Family` of K types [K, N], for each of them.
        trajectories: Particles, each a complete trajectory of the opponent's acquired cards.
        public: Public history of the opponent's cards, the same for all particles.
        seen: uint32[] fingerprint of the belief's latest observation.
        rules: Rules of the game; static.
        target: Weights that the filter propagates, under `Rules.tells_of_hands`; else None, and they are `log_weights`.
        log_types: float32[K] nats, prior ln P(type) of the opponent, normalised; None under a single model.
    """

    log_weights: Array
    log_likelihood: Array
    trajectories: Trajectories
    public: PublicHistory
    seen: Array
    rules: Rules = struct.field(pytree_node=False)
    target: Target | None = None
    log_types: Array | None = None

    @classmethod
    def of(
        cls,
        log_weights: Array,
        log_likelihood: Array,
        trajectories: Trajectories,
        public: PublicHistory,
        seen: Array,
        rules: Rules,
        log_types: Array | None,
    ) -> Belief:
        """Return a belief without known impossible trajectories."""
        target = None
        if rules.tells_of_hands:
            target = Target(log_weights, jnp.float32(0.0), None if log_types is None else log_likelihood)
        return cls(log_weights, log_likelihood, trajectories, public, seen, rules, target, log_types)

    def __repr__(self) -> str:
        """Show in one line the number of particles and their effective sample size."""
        shown = self.log_weights
        if isinstance(shown, Tracer) or not isinstance(shown, Array | np.ndarray):
            return by_field(self)
        of = f"<Belief of {shown.shape[-1]:,} particles"
        if shown.ndim > 1:
            return f"{of}, batch of shape {shown.shape[:-1]}>"
        return f"{of}, effective sample size {1 / np.exp(2 * np.asarray(shown, float)).sum():.1f}>"

    @property
    def log_type_probs(self) -> Array:
        """float32[K] nats: posterior ln P(type) of the opponent, see `Family`; ValueError for a belief begun without types."""
        joint = self.log_joint
        if joint is None:
            raise ValueError("the belief tracks no opponent types: begin it with a family, belief_init(..., opponent=family)")
        return log_type_probs(joint)

    @property
    def log_joint(self) -> Array | None:
        """ln P(type, particle), normalised, float32[K, N]; None under a single model."""
        return None if self.log_types is None else log_joint(self.log_weights, self.strict_likelihood, self.log_types)

    @property
    def strict_likelihood(self) -> Array:
        """Log likelihood that is -inf for impossible trajectories; without types, log weights that are, float32[N]."""
        if self.target is None:
            return self.log_likelihood
        return self.log_weights if self.target.log_likelihood is None else self.target.log_likelihood

    @property
    def target_weights(self) -> Array:
        """Log weights of all trajectories, impossible ones included, normalised, float32[N]."""
        return self.log_weights if self.target is None else self.target.log_weights

    @property
    def packed(self) -> bits.Words:
        """Four uint32[N]: the hands as packed canonical sets."""
        return bits.canonical(as_words(jnp.moveaxis(self.trajectories.hand, -2, 0)))

    @property
    def particles(self) -> Array:
        """bool[N, 108]: the hands as canonical one-hots."""
        return bits.unpack(self.packed)

    @property
    def num_particles(self) -> int:
        """Number of particles N."""
        return self.log_weights.shape[-1]

    @property
    def num_types(self) -> int:
        """Number of types of a `Family` that the belief was begun with; 0 for a single model."""
        return 0 if self.log_types is None else self.log_types.shape[-1]


class Info(NamedTuple):
    """Diagnostics of an update. The defaults are those of a start, or of an update without particles.

    Attributes:
        ess: float32[] effective sample size after weighting and before resampling, 0..N; under `Rules.tells_of_hands`,
            it includes trajectories that have become impossible.
        log_evidence: float32[] nats, log probability of the observer's observation of this transition, given the history before.
        depleted: bool[] no particle explains the observation; the belief was reinitialised from the current position alone.
        restarted: bool[] the belief was reinitialised: depleted, or the game outgrew the belief's capacity.
        resampled: bool[] the ESS had fallen below the threshold, or a particle had become impossible.
        acceptance: float32[] share of particles that a rejuvenation move changed, 0..1.
        inconsistent: bool[] the observations contradict each other, the action or this belief; the belief is unchanged.
        type_probs: float32[K] P(type) of the opponent after the transition, under a `Family`; else None.
    """

    ess: Array = cast(Array, np.float32(1))
    log_evidence: Array = cast(Array, np.float32(0))
    depleted: Array = cast(Array, np.bool_(False))
    restarted: Array = cast(Array, np.bool_(False))
    resampled: Array = cast(Array, np.bool_(False))
    acceptance: Array = cast(Array, np.float32(0))
    inconsistent: Array = cast(Array, np.bool_(False))
    type_probs: Array | None = None

    def __repr__(self) -> str:
        return by_field(self)


def info_of_hand(is_possible: Array, log_evidence: Array, log_weights: Array) -> Info:
    """Return the diagnostics of a belief that was conditioned on a hand which the opponent showed.

    Args:
        is_possible: bool[] the hand is possible at the position; if not, the belief is unchanged.
        log_evidence: float32[] nats, ln P(hand | history); -inf if no particle leads to the hand.
        log_weights: float32[N] normalised log weights that estimate it.
    """
    return Info(
        ess=resample.effective_sample_size(log_weights),
        log_evidence=jnp.where(is_possible, log_evidence, 0.0),
        depleted=is_possible & jnp.isneginf(log_evidence),
        restarted=is_possible,
        inconsistent=~is_possible,
    )


def belief_init(
    observation: Observation,
    key: Array,
    *,
    num_particles: int = 1024,
    max_slots: int = MAX_SLOTS,
    max_plays: int | None = None,
    prior: Prior = "uniform",
    opponent: Opponent = uniform_opponent,
    log_types: ArrayLike | None = None,
) -> Belief:
    """Begin a belief: the opponent's hand is a random subset of the unseen cards.

    In mid-game that is the belief of an observer who knows the position but not its history.

    Args:
        observation: Observation of the belief's player.
        key: Key, threefry2x32 (the default kind); consumed.
        num_particles: Number of particles N, static.
        max_slots, max_plays: Static capacity; the former rounded up to a multiple of four, the latter `MAX_PLAYS` if None. A game
            that outgrows one of them restarts the belief (`Info.restarted`).
        prior: "uniform" or "deal", which differs only right after a deal; see `exact.exact_init`.
        opponent: Opponent model of later updates, static; only a `Family` makes a difference.
        log_types: float32[K] nats, ln P(type) of the opponent up to a constant, such as `Belief.log_type_probs` at the end of an
            earlier game; None: by the weights of the family.

    Raises:
        ValueError: If a size is not positive, `max_slots` is below the number of cards in the game, there is no such prior, the
            observation is a batch, its counts do not add up to the deck, or `log_types` are not those of a family.
    """
    check_key(key, "belief_init")
    check_observation(observation, "belief_init")
    check_counts(observation, "belief_init")
    rules = observation.rules
    check_start(num_particles, prior)
    max_plays = MAX_PLAYS * (2 - rules.has_plain_steps) if max_plays is None else max_plays
    if not (is_int(max_slots) and is_int(max_plays) and max_slots >= rules.num_cards and max_plays >= 1):
        raise ValueError(
            f"max_slots must be at least the {rules.num_cards} cards of the game and max_plays at least 1, both integers; "
            f"got {max_slots!r} and {max_plays!r}"
        )
    log_prior = type_prior(opponent, log_types)
    log_types = None if log_prior is None else jax.nn.log_softmax(jnp.asarray(log_prior, jnp.float32))
    trajectories, history, log_lik = _begin(
        observation,
        key,
        num_particles=num_particles,
        max_slots=capacity_for(max_slots),
        max_records=max_plays,
        prior=prior,
    )
    log_weights = resample.normalize(log_lik)[0]
    log_lik = by_type([log_lik] * len(models_of(opponent)), opponent)
    belief = Belief.of(log_weights, log_lik, trajectories, history, reading.fingerprint(observation), rules, log_types)
    return control.vary_with(belief, observation.opponent_count, key_words(key)[0])


@partial(traced_once, static=("num_particles", "max_slots", "max_records", "prior"))
def _begin(
    observation: Observation, key: Array, *, num_particles: int, max_slots: int, max_records: int, prior: Prior
) -> tuple[Trajectories, PublicHistory, Array]:
    """Draw the trajectories of a new belief, with the public history and their log likelihoods, float32[N]."""
    random = threefry_words(key_words(key), num_particles)[0]
    empty = public.empty(max_slots=max_slots, max_records=max_records)
    trajectories, history = draw_start(SERIAL, random, 0, observation, empty)
    log_lik = jnp.zeros(num_particles, jnp.float32)
    if shows_deal(observation.rules, prior):
        deal = deal_of(observation, reading.unseen_words(observation))
        history = dataclasses.replace(history, deal=jnp.stack(deal))
        log_lik = start_log_prob(as_words(trajectories.hand), deal, observation.rules)
    return trajectories, history, log_lik


def report(belief: Belief, strict: Array) -> Belief:
    """Return a belief whose weights are those of its target, without impossible trajectories.

    `strict` is the likelihood, float32[N] or [K, N], that is -inf for them.
    """
    if belief.log_types is None:
        log_share, kept = jnp.where(jnp.isneginf(strict), -jnp.inf, 0.0), None
    else:
        # A trajectory may be possible for some of the types.
        log_share, kept = mixed(strict, belief.log_types), strict
        # Both are -inf for a trajectory that is impossible for all types.
        log_share -= jnp.where(jnp.isneginf(log_share), 0.0, mixed(belief.log_likelihood, belief.log_types))
    log_weights, log_possible = resample.normalize(belief.target_weights + log_share)
    return dataclasses.replace(belief, log_weights=log_weights, target=Target(belief.target_weights, log_possible, kept))


def deal_of(observation: Observation, unseen: bits.Words) -> Deal:
    """Return the information in the start card of a position about the deal, under the prior "deal"."""
    rules = observation.rules
    # Before it was turned up, the start card was among them too.
    startable = 1 + num_startable(unseen, rules)
    count = observation.opponent_count.astype(jnp.int32)
    num_dealt = jnp.where(reading.looks_dealt(observation), count, 0)
    own = bits.pack(observation.hand)
    number = jnp.maximum(count, observation.hand_count.astype(jnp.int32)) - rules.hand_size
    by_observer = (count == rules.hand_size) & (rules.start_effects == "keep_turn")
    return Deal(num_dealt, startable, jnp.maximum(number, 0), jnp.where(by_observer, num_startable(own, rules), -1))


def shows_deal(rules: Rules, prior: Prior) -> bool:
    """Return whether, under a prior, the start card was drawn from the startable cards that the deal left."""
    return prior == "deal" and rules.start_card != "any"


def check_start(num_particles: int, prior: Prior) -> None:
    """Raise a ValueError if `num_particles` is no number of particles, or there is no such prior."""
    if not (is_int(num_particles) and 1 <= num_particles < 2**31):
        raise ValueError(f"num_particles must be an integer of at least 1 and below 2**31, got {num_particles!r}")
    check_prior(prior)


def check_resampling(ess_threshold: float, num_moves: int = 0) -> None:
    """Raise a ValueError if a threshold is no share, or a number of moves no count."""
    if not (isinstance(ess_threshold, Real) and 0 <= ess_threshold <= 1):
        raise ValueError(f"ess_threshold must be a number in [0, 1], got {ess_threshold!r}")
    if not (is_int(num_moves) and num_moves >= 0):
        raise ValueError(f"num_moves must be an integer of at least 0, got {num_moves!r}")


def draw_start(
    rows: Rows, random: Array, number: int, observation: Observation, like: PublicHistory
) -> tuple[Trajectories, PublicHistory]:
    """Draw the opponent's hand from the unseen cards: the trajectories and the public history of a belief without a past.

    Args:
        rows: Form of the loops over slots.
        random: uint32[N] random words of the update.
        number: Number of the stage for this draw, static, see `random_of_round`.
        observation: First observation of the belief.
        like: History of the requested capacity. The hand holds its known cards, unless the observation contradicts them.
    """
    hand_count = observation.opponent_count.astype(jnp.int32)
    empty = public.empty(max_slots=like.max_slots, max_records=like.max_records)
    are_possible = (like.known.sum(dtype=jnp.int32) <= hand_count) & (like.known <= observation.unseen).all()
    known = jnp.where(are_possible, like.known, np.int8(0))
    allowed = public.cards_by_slot(known, like.max_slots)

    def draw(slot: Array, now: Trajectories) -> Trajectories:
        could_be = allowed[:, slot][:, None]
        return proposals.draw_unseen(rows, random_of_round(random, number, slot), now, empty, slot, could_be)[0]

    start = _before_the_draw(observation, len(random), like.max_slots, like.max_records)
    now = rows.repeat(hand_count, observation.rules.num_cards, draw, start)
    return now, dataclasses.replace(public.add_slots(empty, hand_count, allowed), known=known)


def reinitialised(
    rows: Rows, random: Array, number: int, belief: Belief, observation: Observation, log_types: Array | None
) -> Belief:
    """Return a belief that begins at an observation, with the known cards of `belief` and equal weights; see `draw_start`.

    `log_types` float32[K] is its prior over the opponent's types; None without types.
    """
    now, history = draw_start(rows, random, number, observation, belief.public)
    log_weights, log_lik = resample.uniform_log_weights(belief.num_particles), jnp.zeros_like(belief.log_likelihood)
    return Belief.of(log_weights, log_lik, now, history, belief.seen, belief.rules, log_types)


def _before_the_draw(observation: Observation, num_particles: int, max_slots: int, max_records: int) -> Trajectories:
    """Return the particles of a belief as if the opponent were about to draw its whole hand from all unseen cards."""
    own, unseen = bits.pack(observation.hand), reading.unseen_words(observation)
    # Equal cards need distinct labels: the observer's cards take the lowest copies, the unseen ones the next.
    deck = bits.without(bits.merge(own, unseen), own)

    def spread(words: bits.Words) -> Array:
        return jnp.broadcast_to(jnp.stack(words)[:, None], (4, num_particles))

    nothing = jnp.zeros((4, num_particles), jnp.uint32)
    return Trajectories(
        hand=nothing,
        deck=spread(deck),
        own=spread(own),
        recycled=nothing,
        labels=jnp.full((max_slots, num_particles), RELEASED, jnp.uint8),
        played=jnp.full((capacity_for(max_records), num_particles), RELEASED, jnp.uint8),
    )
