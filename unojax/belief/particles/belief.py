"""Beliefs of the particle filter: a weighted cloud of accounts, and its start."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Final, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from unojax import bits
from unojax.belief import resample
from unojax.belief.history import Prior, looks_dealt, unseen_words
from unojax.belief.opponents import Opponent, models_of, type_prior, uniform_opponent
from unojax.belief.particles import accounts, ledger, moves
from unojax.belief.particles.accounts import Cloud
from unojax.belief.particles.ledger import Ledger, StartDraw
from unojax.belief.particles.likelihood import by_type, log_joint, log_type_probs, mixed, num_startable, start_log_prob
from unojax.device import struct
from unojax.device.struct import by_field
from unojax.observation import Observation, check_observation
from unojax.rules import Rules, is_int

MAX_SLOTS: Final = 192
"""Default capacity of a belief: cards the opponent ever acquired."""
MAX_PLAYS: Final = 96
"""The same of plays it ever made; in uniform play 1 game in 10,000 needs more. Under rules without plain steps, where other
choices and what is told of the hand count too, it is twice as many."""


class Target(NamedTuple):
    """The weights that the filter goes on with.

    Attributes:
        log_weights: float32[N] nats, normalised, of all accounts.
        log_possible: float32[] nats, the share of those that are possible.
        log_likelihood: float32[K, N] nats, by type, and -inf for an account that is impossible; None without types.
    """

    log_weights: Array
    log_possible: Array
    log_likelihood: Array | None = None


@struct.dataclass
class Belief:
    """A weighted cloud of N hypothetical hands of the opponent.

    Attributes:
        log_weights: float32[N] nats, normalised (logsumexp = 0).
        log_likelihood: float32[N] nats, of the opponent's plays so far in each particle (`likelihood.log_likelihood`); under a
            `Family` of K types [K, N], for each of them.
        cloud: the particles, each a full account of which card the opponent acquired when.
        ledger: what is public about the opponent's cards, the same for all particles.
        rules: static; of the game.
        target: the weights that the filter goes on with, under `Rules.tells_of_hands`; else None, and they are `log_weights`.
        log_types: float32[K] nats, ln P(type) of the opponent as the belief began, normalised; None under a single model.
    """

    log_weights: Array
    log_likelihood: Array
    cloud: Cloud
    ledger: Ledger
    rules: Rules = struct.field(pytree_node=False)
    target: Target | None = None
    log_types: Array | None = None

    def __repr__(self) -> str:
        """Show in one line how many particles there are and what they are worth."""
        shown = self.log_weights
        if isinstance(shown, Tracer) or not isinstance(shown, Array | np.ndarray):
            return by_field(self)
        of = f"<Belief of {shown.shape[-1]:,} particles"
        if shown.ndim > 1:
            return f"{of}, batch of shape {shown.shape[:-1]}>"
        return f"{of}, effective sample size {1 / np.exp(2 * np.asarray(shown, float)).sum():.1f}>"

    @property
    def log_type_probs(self) -> Array:
        """float32[K] nats: ln P(type) of the opponent now, see `Family`; ValueError if the belief was begun without types."""
        joint = self.log_joint
        if joint is None:
            raise ValueError("the belief knows no types of opponents: begin it with a family, belief_init(..., opponent=family)")
        return log_type_probs(joint)

    @property
    def log_joint(self) -> Array | None:
        """float32[K, N] nats: ln P(type, particle), normalised; None under a single model."""
        if self.log_types is None:
            return None
        strict = None if self.target is None else self.target.log_likelihood
        return log_joint(self.log_weights, self.log_likelihood if strict is None else strict, self.log_types)

    @property
    def target_weights(self) -> Array:
        """float32[N] nats, normalised: of the accounts, impossible ones too; see `likelihood`."""
        return self.log_weights if self.target is None else self.target.log_weights

    @property
    def packed(self) -> bits.Words:
        """Four uint32[N]: the hands as packed canonical sets."""
        return bits.canonical(self.cloud.hand)

    @property
    def particles(self) -> Array:
        """bool[N, 108]: the hands as canonical one-hots."""
        return bits.unpack(self.packed)

    @property
    def num_particles(self) -> int:
        """N."""
        return self.log_weights.shape[-1]


class Info(NamedTuple):
    """Diagnostics of an update.

    Attributes:
        ess: float32[] effective sample size after weighting and before resampling, 0..N; under rules that tell of hands, accounts
            that have become impossible count in it.
        log_evidence: float32[] nats, log probability of what the observer saw in this micro-step, given the history before.
        depleted: bool[] no particle could explain what was seen; the belief was begun anew from the current position alone.
        restarted: bool[] the belief was begun anew: depleted, or the game outgrew the belief's capacity.
        resampled: bool[] the ESS had fallen below the threshold, or a particle had become impossible.
        acceptance: float32[] share of particles that a refreshing move changed, 0..1.
        inconsistent: bool[] the observations belong not together, to the action or to this belief, which stays as it was.
        type_probs: float32[K] P(type) of the opponent after the micro-step, under a `Family`; else None.
    """

    ess: Array
    log_evidence: Array
    depleted: Array
    restarted: Array
    resampled: Array
    acceptance: Array
    inconsistent: Array
    type_probs: Array | None = None

    def __repr__(self) -> str:
        return by_field(self)


def belief_init(
    observation: Observation,
    key: Array,
    *,
    num_particles: int = 1024,
    rules: Rules | None = None,
    max_slots: int = MAX_SLOTS,
    max_plays: int | None = None,
    prior: Prior = "uniform",
    opponent: Opponent = uniform_opponent,
    log_types: ArrayLike | None = None,
) -> Belief:
    """Begin a belief: the opponent's hand is a random subset of the unseen cards.

    In mid-game that is what an observer believes who knows the position but not how it came about.

    Args:
        observation: of the player whose belief it is.
        key: threefry2x32 (the default kind); consumed.
        num_particles: N, static.
        rules: those of the observation, if given.
        max_slots, max_plays: static capacity, the former rounded up to a multiple of four, the latter see `MAX_PLAYS` if None; a
            game that outgrows one of them restarts the belief (`Info.restarted`).
        prior: "uniform" or "deal", which differs right after a deal alone; see `exact.exact_init`.
        opponent: that of the updates to come, static; only a `Family` makes a difference.
        log_types: float32[K] nats, ln P(type) of the opponent up to a constant, such as `Belief.log_type_probs` at the end of an
            earlier game; None: by the weights of the family.

    Raises:
        ValueError: a size is not positive, `max_slots` is below the number of cards in the game, there is no such prior, the
            observation is a batch, `rules` are other ones than the observation's, or `log_types` are not those of a family.
    """
    check_observation(observation, "belief_init", rules)
    rules = observation.rules
    check_start(num_particles, prior)
    max_plays = MAX_PLAYS * (2 - rules.has_plain_steps) if max_plays is None else max_plays
    if max_slots < rules.num_cards or max_plays < 1:
        raise ValueError(
            f"max_slots must be at least the {rules.num_cards} cards of the game and max_plays at least 1, "
            f"got {max_slots} and {max_plays}"
        )
    log_prior = type_prior(opponent, log_types)
    log_types = None if log_prior is None else jax.nn.log_softmax(jnp.asarray(log_prior, jnp.float32))
    cloud, book = before_the_draw(observation, num_particles, max_slots, max_plays)
    hand_count = observation.opponent_count.astype(jnp.int32)
    cloud = moves.draw(key, cloud, book, hand_count)
    book = ledger.add_slots(book, hand_count)
    book = record_deal(book, observation, unseen_words(observation), prior)
    # Without a deal known to be 0, so that no compiler has to find that out for all particles of all games.
    log_lik = start_log_prob(cloud.hand, book, rules) if shows_deal(rules, prior) else jnp.zeros(num_particles, jnp.float32)
    log_weights = resample.normalize(log_lik)[0]
    log_lik = by_type([log_lik] * len(models_of(opponent)), opponent)
    target = start_target(log_weights, log_lik, log_types) if rules.tells_of_hands else None
    return Belief(log_weights, log_lik, cloud, book, rules, target, log_types)


def start_target(log_weights: Array, log_lik: Array, log_types: Array | None) -> Target:
    """Give the target of a belief all of whose accounts are possible, as far as is known."""
    return Target(log_weights, jnp.float32(0.0), None if log_types is None else log_lik)


def report(belief: Belief, strict: Array) -> Belief:
    """Give what a belief says by its target, in which impossible accounts count for nothing.

    `strict` is the likelihood, float32[N] or [K, N], that is -inf for them.
    """
    if belief.log_types is None:
        log_share, kept = jnp.where(jnp.isneginf(strict), -jnp.inf, 0.0), None
    else:
        # An account may be possible for some of the types.
        log_share, kept = mixed(strict, belief.log_types) - mixed(belief.log_likelihood, belief.log_types), strict
    log_weights, log_possible = resample.normalize(belief.target_weights + log_share)
    return dataclasses.replace(belief, log_weights=log_weights, target=Target(belief.target_weights, log_possible, kept))


def record_deal(book: Ledger, observation: Observation, unseen: bits.Words, prior: Prior) -> Ledger:
    """Note in a ledger that the opponent's hand was dealt before the start card was turned up, if `prior` says so, and it was."""
    if not shows_deal(observation.rules, prior):
        return book
    # The start card was among them too, before it was turned up.
    startable = 1 + num_startable(unseen, observation.rules)
    count = observation.opponent_count.astype(jnp.int32)
    num_dealt = jnp.where(looks_dealt(observation), count, 0)
    book = dataclasses.replace(book, num_dealt=num_dealt, num_startable=startable)
    if observation.rules.start_effects != "keep_turn":
        return book
    own = bits.pack(observation.hand)
    number = jnp.maximum(count, bits.count(own).astype(jnp.int32)) - observation.rules.hand_size
    by_observer = count == observation.rules.hand_size
    start_draw = StartDraw(number, jnp.where(by_observer, num_startable(own, observation.rules), -1))
    return dataclasses.replace(book, start_draw=start_draw)


def shows_deal(rules: Rules, prior: Prior) -> bool:
    """Tell whether a prior takes the start card for what the deal left of the cards that might be turned up."""
    return prior == "deal" and rules.start_card != "any"


def check_start(num_particles: int, prior: Prior) -> None:
    """Raise a ValueError if `num_particles` is not positive, or there is no such prior."""
    if not (is_int(num_particles) and num_particles >= 1):
        raise ValueError(f"num_particles must be an integer of at least 1, got {num_particles!r}")
    if prior not in get_args(Prior):
        raise ValueError(f"prior must be one of {get_args(Prior)}, got {prior!r}")


def before_the_draw(observation: Observation, num_particles: int, max_slots: int, max_plays: int) -> tuple[Cloud, Ledger]:
    """Make the particles and the ledger of a belief as if the opponent were about to draw its whole hand.

    All that the observer does not see is in the deck.
    """
    own, unseen = bits.pack(observation.hand), unseen_words(observation)
    book = ledger.empty(max_slots=accounts.capacity_for(max_slots), max_plays=max_plays, rules=observation.rules)
    spread = partial(bits.map_words, lambda w: jnp.broadcast_to(w, num_particles))
    # Equal cards need labels of their own: the observer's cards take the lowest copies, the unseen ones the next.
    not_in_pile = bits.merge(own, unseen)
    nothing = bits.empty(jnp.zeros(num_particles))
    cloud = Cloud(
        hand=nothing,
        deck=spread(accounts.without(not_in_pile, own)),
        own=spread(own),
        recycled=nothing,
        labels=jnp.full((book.epoch.shape[0], num_particles), accounts.RELEASED, jnp.uint8),
        played=jnp.zeros((accounts.capacity_for(max_plays), num_particles), jnp.uint8),
    )
    return cloud, book
