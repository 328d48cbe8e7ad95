"""The plain bootstrap particle filter (Gordon, Salmond, Smith 1993), for comparison with `unojax.belief.particles`.

A particle is a hand of the opponent, and the card drawn last in a turn that continues. The filter simulates the opponent's draws,
and every other observation multiplies the weight by its probability given the hand:

    the opponent plays a            pi(a | H); 0 if H does not allow it
    the opponent could not play     1 if H holds no playable card, else 0
    the observer draws J            prod_t C(U_t - H_t, J_t) / C(|U| - |H|, |J|)

The filter is unbiased for the evidence and consistent as N grows, but no step renews the hands. On the full deck all weights
reach zero in most games; the belief then restarts at the present position, and `Info.depleted` is set.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.belief import history, resample
from unojax.belief.hands import gain
from unojax.belief.history import Prior, Step
from unojax.belief.opponents import Family, Opponent, OpponentModel, uniform_opponent
from unojax.belief.particles import Info, public
from unojax.belief.particles.belief import check_resampling, check_start, deal_of, info_of_hand, shows_deal
from unojax.belief.particles.likelihood import card_fits, choice_prob, start_log_prob, turn_of
from unojax.belief.particles.public import Record
from unojax.belief.particles.trajectory import card_words, random_card
from unojax.bits import Words
from unojax.device import control, struct
from unojax.device.tracing import traced_once
from unojax.game.steps import single_action
from unojax.observation import Observation, check_observation, check_transition
from unojax.rules import Rules

_LAST_CARD: Final = np.uint32(2**32 - 1)
"""A counter larger than that of any draw."""


@struct.dataclass
class BootstrapBelief:
    """N weighted hands of the opponent.

    Attributes:
        log_weights: float32[N] nats, normalised.
        packed: four uint32[N], the hands as packed canonical sets.
        rules: Rules of the game; static.
        drawn: uint8[N] label of a card of the type that was drawn last; see `Trajectories`.
    """

    log_weights: Array
    packed: Words
    rules: Rules = struct.field(pytree_node=False)
    drawn: Array
    log_joint = None

    @property
    def particles(self) -> Array:
        """bool[N, 108]: the hands as canonical one-hots."""
        return bits.unpack(self.packed)

    @property
    def num_particles(self) -> int:
        """Number of particles N."""
        return self.log_weights.shape[-1]


def check_one_model(opponent: Opponent) -> OpponentModel:
    """Return a single model of the opponent. Raises ValueError if it is a family of several."""
    if isinstance(opponent, Family):
        raise ValueError(
            "the bootstrap filter takes one opponent model, got a family; give one of its types, or use belief_update"
        )
    return opponent


def bootstrap_init(
    observation: Observation,
    key: Array,
    *,
    num_particles: int = 1024,
    prior: Prior = "uniform",
) -> BootstrapBelief:
    """Begin a belief: the opponent's hand is a random subset of the unseen cards.

    Arguments and errors are those of `particles.belief_init`.
    """
    check_observation(observation, "bootstrap_init")
    check_start(num_particles, prior)
    return _begin(observation, key, num_particles=num_particles, prior=prior)


@partial(traced_once, static=("num_particles", "prior"))
def _begin(observation: Observation, key: Array, *, num_particles: int, prior: Prior) -> BootstrapBelief:
    nothing = bits.empty(jnp.zeros(num_particles))
    unseen = history.unseen_words(observation)
    hands = gain(key, nothing, unseen, observation.opponent_count.astype(jnp.int32))
    log_weights = resample.uniform_log_weights(num_particles)
    if shows_deal(observation.rules, prior):
        log_start = start_log_prob(hands, deal_of(observation, unseen), observation.rules)
        log_weights, _ = resample.normalize(log_start)
    # In a turn that continues it may be any card of the hand. The next step applies the evidence of the turn.
    drawn = random_card(jax.random.bits(jax.random.fold_in(key, _LAST_CARD), hands[0].shape, jnp.uint32), hands)
    return BootstrapBelief(log_weights=log_weights, packed=hands, rules=observation.rules, drawn=drawn)


def bootstrap_update(
    belief: BootstrapBelief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: OpponentModel = uniform_opponent,
    ess_threshold: float = 0.5,
) -> tuple[BootstrapBelief, Info]:
    """Condition the belief on one transition; arguments, results and errors as in `particles.belief_update`.

    `Info.acceptance` is 0: there are no rejuvenation moves. A depleted belief restarts at `after`.
    A `Family` of opponents is a ValueError.
    """
    check_one_model(opponent)
    check_transition(belief.rules, before, after, "bootstrap_update")
    check_resampling(ess_threshold)
    action = single_action(action, "bootstrap_update").astype(jnp.int32)
    return _update(belief, before, action, after, key, opponent=opponent, ess_threshold=ess_threshold)


@partial(traced_once, static=("opponent", "ess_threshold"))
def _update(
    belief: BootstrapBelief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: OpponentModel,
    ess_threshold: float,
) -> tuple[BootstrapBelief, Info]:
    key_draw, key_pick, key_anew = jax.random.split(key, 3)
    step = history.read_step(before, after)
    inconsistent = ~(history.is_consistent(before, action, after) & _fits(belief, before))
    # The cards stay if the game is over or the rules reject the action.
    moved = ~inconsistent & (step.action >= 0)
    step = step._replace(action=jnp.where(moved, step.action, cards.DRAW))
    hands, drawn, log_increment = control.cond(
        moved,
        lambda: _any_step(key_draw, belief.packed, belief.drawn, before, after, step, opponent),
        lambda: (belief.packed, belief.drawn, jnp.zeros_like(belief.log_weights)),
    )
    # A likelihood that is not finite counts as impossible.
    dead = jnp.isneginf(belief.log_weights) | jnp.isneginf(log_increment) | ~(log_increment < jnp.inf)
    log_weights, log_evidence = resample.normalize(jnp.where(dead, -jnp.inf, belief.log_weights + log_increment))
    ess = resample.effective_sample_size(log_weights)
    depleted = jnp.isneginf(log_evidence) & ~inconsistent
    log_weights = jnp.where(inconsistent, belief.log_weights, log_weights)
    # A hand of weight zero may be impossible, so copy a possible one over it.
    resampled = moved & ~depleted & ((ess < ess_threshold * belief.num_particles) | jnp.isneginf(log_weights).any())

    def pick() -> BootstrapBelief:
        ancestors = resample.systematic(jax.random.uniform(key_pick, dtype=jnp.float32), log_weights)
        picked = jax.tree.map(lambda w: w[ancestors], {"packed": hands, "drawn": drawn})
        return dataclasses.replace(belief, log_weights=resample.uniform_log_weights(belief.num_particles), **picked)

    updated = control.switch(
        jnp.where(depleted, 2, jnp.where(resampled, 1, 0)),
        (
            lambda: dataclasses.replace(belief, log_weights=log_weights, packed=hands, drawn=drawn),
            pick,
            lambda: bootstrap_init(after, key_anew, num_particles=belief.num_particles),
        ),
    )
    return updated, Info(
        ess=ess,
        log_evidence=jnp.where(inconsistent, 0.0, log_evidence),
        depleted=depleted,
        restarted=depleted,
        resampled=resampled,
        inconsistent=inconsistent,
    )


def bootstrap_given_hand(belief: BootstrapBelief, hand: Array) -> tuple[BootstrapBelief, Info]:
    """Condition the belief on the opponent's hand, bool[108]: every particle is a copy of it, also if none was.

    `Info.inconsistent` if its number of cards is another; the belief is then unchanged.
    """
    packed = bits.pack(hand)
    is_hand = (jnp.stack(belief.packed) == jnp.stack(packed)[:, None]).all(0)
    log_evidence = jax.nn.logsumexp(jnp.where(is_hand, belief.log_weights, -jnp.inf))
    is_possible = bits.count(packed) == bits.count(belief.packed)[0]
    copies = bits.map_words(lambda word: jnp.full(belief.log_weights.shape, word), packed)
    log_weights = resample.uniform_log_weights(belief.num_particles)
    given = dataclasses.replace(belief, log_weights=log_weights, packed=copies)
    given = jax.tree.map(partial(jnp.where, is_possible), given, belief)
    return given, info_of_hand(is_possible, log_evidence, given.log_weights)


def _fits(belief: BootstrapBelief, seen: Observation) -> Array:
    """Return whether an observation shows the position of a belief: bool[]. It is possible for all particles or for none."""
    hand = bits.map_words(lambda w: w[0], belief.packed)
    not_unseen = bits.without(hand, history.unseen_words(seen))
    return (bits.count(hand).astype(jnp.int32) == seen.opponent_count.astype(jnp.int32)) & (bits.any_of(not_unseen) == 0)


def _any_step(
    key: Array, hands: Words, drawn: Array, before: Observation, after: Observation, step: Step, opponent: OpponentModel
) -> tuple[Words, Array, Array]:
    """Return hands, last cards drawn and log probabilities float32[N] after a step under any rules."""
    rules, theirs, action = before.rules, step.theirs, step.action
    is_draw, is_challenge = action == cards.DRAW, action == cards.CHALLENGE
    record = public.observed_choice(public.empty(max_slots=1, max_records=1), before, action)

    # The opponent's choice. A player who draws again could not play the drawn card, so it had no choice.
    draws_on = is_draw & step.draws_on
    draws_again = draws_on & before.has_drawn & (rules.play_drawn == "may")
    fitted = card_fits(hands, turn_of(drawn, record, rules), rules)
    prob = jnp.where(draws_again, (~fitted).astype(jnp.float32), choice_prob(hands, drawn, record, opponent, before))
    if rules.play_drawn != "may":
        prob = jnp.where(draws_on & before.has_drawn, 1.0, prob)
    log_prob = jnp.where(theirs, jnp.log(prob), 0.0)
    plays = theirs & ~is_draw & ~is_challenge
    color, rank = (action // cards.NUM_RANKS).astype(jnp.uint32), (action % cards.NUM_RANKS).astype(jnp.uint32)
    word, bit = bits.one_copy(hands, color, rank)
    log_prob = jnp.where(plays & (bit == 0), -jnp.inf, log_prob)
    hands = bits.canonical(bits.remove(hands, word, jnp.where(plays, bit, np.uint32(0))))
    if rules.wild_draw_four == "challenge":
        is_guilty = (bits.word_at(hands, before.contested.astype(jnp.uint32)) & bits.COLORED) != 0
        was_right = after.current_player != before.current_player
        log_prob = jnp.where(is_challenge & ~theirs & (is_guilty != was_right), -jnp.inf, log_prob)

    # First the cards drawn face up, then the hidden ones.
    log_seen = jax.vmap(partial(history.log_seen_draw, before, step))(bits.type_counts(hands))
    log_prob += jnp.where(is_draw & (~theirs | (step.laid >= 0)), log_seen, 0.0)
    unseen = bits.pack(cards.onehot(step.unseen))
    number = jnp.where(is_draw & theirs, step.opponent_drew, 0)
    after_draw = gain(key, hands, unseen, number)
    # The difference of nested canonical sets has the types gained.
    gained = random_card(jnp.zeros(hands[0].shape, jnp.uint32), bits.without(after_draw, hands))
    drawn = jnp.where(number > 0, gained, drawn)
    looks = (number > 0) & (before.penalty == 0)
    return after_draw, drawn, log_prob + jnp.where(looks, _log_look(after_draw, drawn, record, before, after), 0.0)


def _log_look(hands: Words, drawn: Array, record: Record, before: Observation, after: Observation) -> Array:
    """Compute the log probability of the turn's continuation after the last card drawn: 0 or -inf, float32[N]."""
    rules = before.rules
    if rules.play_drawn == "auto":
        of_color = bits.word_at(bits.types(card_words(drawn)), before.color.astype(jnp.uint32)) & bits.PLAYS
        return jnp.where(of_color != 0, -jnp.inf, 0.0)
    if not rules.draw_decides_turn:
        return jnp.zeros(hands[0].shape)
    goes_on = after.has_drawn == (rules.play_drawn == "may")
    return jnp.where(card_fits(hands, turn_of(drawn, record, rules), rules) == goes_on, 0.0, -jnp.inf)
