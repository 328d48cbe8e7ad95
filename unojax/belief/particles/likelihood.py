"""Likelihood of the opponent's choices in each trajectory: the choices replayed through every particle.

`docs/explanation/belief-formulas.md` has the formulas. Facts revealed about the hand (`public.FITS` and the like) that are false
in a trajectory have the factor `SOFTENED` in the filter's target, and weight zero in reported beliefs (`belief.report`). A
`Family` of K types has K likelihoods, from one replay; `mixed` sums out the type. All functions work on N particles at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from unojax import bits, cards, game
from unojax.belief.opponents import (
    Family,
    Opponent,
    OpponentModel,
    PackedOpponent,
    likelihood_of,
    models_of,
    packed_likelihood_of,
)
from unojax.belief.particles.public import FAILS, FITS, HOLDS_COLOR, Deal, PublicHistory, Record, decode
from unojax.belief.particles.trajectory import RELEASED, Trajectories, as_words, card_of
from unojax.bits import Words, map_words
from unojax.device import control
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table import Turn, options_of
from unojax.table.options import fits_top, has_drawable, pick_of_type
from unojax.view import View

SOFTENED: Final = 1 / 32
"""Factor in the target for a revealed fact about the hand that is false in a trajectory."""


class Exchange(NamedTuple):
    """Two cards that swap places in each of N trajectories.

    Attributes:
        cards: uint32[4, N] both cards.
        labels: uint8[N] exclusive or of their labels, which turns either label into the other one.
        slot, other: uint16[N] slots that hold one of the cards each; `other` is `NO_SLOT` if its card is in the deck.
    """

    cards: Array
    labels: Array
    slot: Array
    other: Array

    def change(self, num_slots: Array) -> Array:
        """Return the cards that enter or leave a past hand, of the time when `num_slots` slots were filled: uint32[4, N]."""
        # With both slots filled, the hand keeps both cards; with one, it exchanges one of them for the other.
        differs = (num_slots > self.slot.astype(jnp.int32)) ^ (num_slots > self.other.astype(jnp.int32))
        return jnp.where(differs, self.cards, np.uint32(0))

    def apply(self, hand: Words, num_slots: Array) -> Words:
        """Change a past hand, of the time when `num_slots` slots were filled."""
        return map_words(lambda w, c: w ^ c, hand, as_words(self.change(num_slots)))

    def label_at(self, label: Array, slot: Array) -> Array:
        """Return the label that a slot (int32[]) would have after the exchange, uint8[N], from its label before."""
        changes = (self.slot.astype(jnp.int32) == slot) | (self.other.astype(jnp.int32) == slot)
        return label ^ jnp.where(changes, self.labels, np.uint8(0))


class LogLikelihood(NamedTuple):
    """Log likelihood (nats) of some choices in N trajectories, under one model.

    Attributes:
        softened: float32[N] with the factor `SOFTENED` for each false fact.
        is_impossible: bool[N] a revealed fact about the hand is false; None under rules that reveal none.
    """

    softened: Array
    is_impossible: Array | None

    @property
    def strict(self) -> Array:
        """float32[N]: -inf for an impossible trajectory."""
        return self.softened if self.is_impossible is None else jnp.where(self.is_impossible, -jnp.inf, self.softened)

    def plus(self, other: LogLikelihood) -> LogLikelihood:
        """Add the log likelihood of other choices."""
        if self.is_impossible is None or other.is_impossible is None:
            return LogLikelihood(self.softened + other.softened, None)
        return LogLikelihood(self.softened + other.softened, self.is_impossible | other.is_impossible)


def without_choices(softened: Array, rules: Rules) -> LogLikelihood:
    """Return a log likelihood without choices: `softened`, float32[N], and no trajectory is impossible."""
    return LogLikelihood(softened, jnp.zeros(softened.shape, bool) if rules.tells_of_hands else None)


def log_factors(hand: Words, drawn: Array | None, record: Record, opponent: Opponent, like: Observation) -> list[LogLikelihood]:
    """Compute the log factor of one record, for each model of the opponent.

    Args:
        hand: four uint32[N] hand before the choice.
        drawn: uint8[N] label of the card in the hand that was drawn in the same turn; ignored without one.
        record: Record, with scalar fields.
        opponent, like: See `log_likelihood`.
    """
    rules = like.rules
    copies = _copies_held(hand, record)
    factors = [choice_prob(hand, drawn, record, model, like) / copies for model in models_of(opponent)]
    if not rules.tells_of_hands:
        return [LogLikelihood(jnp.log(factor), None) for factor in factors]
    is_told = _depends_on_facts(record.action, rules)
    are_false = [is_told & (factor == 0) for factor in factors]
    softened = (jnp.where(is_false, SOFTENED, factor) for factor, is_false in zip(factors, are_false, strict=True))
    return [LogLikelihood(jnp.log(factor), is_false) for factor, is_false in zip(softened, are_false, strict=True)]


def _copies_held(hand: Words, record: Record) -> Array:
    """Count the copies that may have been the played card: float32[N]; 1 if no card of the hand was chosen."""
    bit = bits.rank_bit(record.play_rank.astype(jnp.uint32))
    second = bits.both_copies(bit) ^ bit
    colored = bits.word_at(hand, record.play_color.astype(jnp.uint32))
    num_colored = (colored & bit != 0).astype(jnp.uint32) + (colored & second != 0).astype(jnp.uint32)
    w0, w1, w2, w3 = ((word & bit != 0).astype(jnp.uint32) for word in hand)
    copies = jnp.where(record.play_rank >= cards.WILD, (w0 + w1) + (w2 + w3), num_colored)
    is_any = (record.action < cards.DRAW) & ~record.has_drawn
    return jnp.where(is_any, jnp.maximum(copies, np.uint32(1)), np.uint32(1)).astype(jnp.float32)


def choice_prob(hand: Words, drawn: Array | None, record: Record, opponent: OpponentModel, like: Observation) -> Array:
    """Compute the probability of a choice, or of a revealed fact (0 or 1), given each hand: float32[N]; see `log_factors`."""
    rules, code = like.rules, record.action
    turn = turn_of(drawn, record, rules)
    legal = options_of(hand, turn, rules)
    # A player who passes after a draw could have played the card.
    is_forced = bits.any_of(legal) == 0
    forced = (is_forced & (code == cards.DRAW) & ~record.has_drawn).astype(jnp.float32)
    chooses = (code < cards.DRAW) | ~is_forced if rules.draw_is_option else code < cards.DRAW
    prob = jnp.where(chooses, _model_prob(hand, legal, turn, record, opponent, like), forced)
    if not rules.tells_of_hands:
        return prob
    fits = card_fits(hand, turn, rules)
    contested = bits.word_at(hand, record.contested.astype(jnp.uint32)) & bits.COLORED
    prob = jnp.where(code == FITS, fits.astype(jnp.float32), prob)
    prob = jnp.where(code == FAILS, (~fits).astype(jnp.float32), prob)
    return jnp.where(code == HOLDS_COLOR, (contested != 0).astype(jnp.float32), prob)


def card_fits(hand: Words, turn: Turn, rules: Rules) -> Array:
    """Return whether the turn's drawn card, in the hand, may be played on the top card: bool[N]."""
    return fits_top(hand, (turn.drawn_color, turn.drawn_rank), (turn.color, turn.rank), rules)


def turn_of(drawn: Array | None, record: Record, rules: Rules) -> Turn:
    """Return the facts that the options at a record depend on, apart from the hand; `drawn` as in `log_factors`."""
    label = jnp.uint32(0) if drawn is None else drawn.astype(jnp.uint32)
    word, rank = label >> np.uint32(5), bits.rank_at(label & np.uint32(31))
    return Turn(
        color=record.color.astype(jnp.uint32),
        rank=record.rank.astype(jnp.uint32),
        penalty=record.penalty.astype(jnp.uint32),
        can_draw=has_drawable(record.deck_count, bits.count(_pile(record)).astype(jnp.int32), rules),
        drawn_color=jnp.where(rank >= cards.WILD, np.uint32(0), word),
        drawn_rank=rank,
        has_drawn=record.has_drawn,
        contested=(record.contested + 1).astype(jnp.uint32),
    )


def _pile(record: Record) -> Words:
    w0, w1, w2, w3 = (record.pile[..., c] for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


def _model_prob(hand: Words, legal: Words, turn: Turn, record: Record, opponent: OpponentModel, like: Observation) -> Array:
    """Evaluate the model's probability of an action that is one of several options."""
    rules = like.rules
    action = jnp.clip(record.action, 0, rules.num_choices - 1).astype(jnp.uint32)
    if isinstance(opponent, PackedOpponent):
        played = pick_of_type(record.play_color.astype(jnp.uint32), record.play_rank.astype(jnp.uint32), action, rules)
        view = View(
            hand=hand,
            opponent_count=record.observer_count.astype(jnp.uint32),
            pile=_pile(record),
            color=turn.color,
            rank=turn.rank,
            penalty=turn.penalty,
            is_own_turn=jnp.ones_like(turn.color, bool),
            rules=rules,
            account=game.account_at(turn).pack() if rules.keeps_account else (),
        )
        return packed_likelihood_of(opponent, view, legal, played)

    them = (1 - like.player).astype(like.player.dtype)

    def small(number: Array) -> Array:
        return number.astype(jnp.int8)

    view = Observation(
        player=them,
        hand=like.hand,
        pile=bits.unpack(_pile(record)),
        opponent_count=small(record.observer_count),
        deck_count=small(record.deck_count),
        top_rank=small(record.rank),
        color=small(record.color),
        penalty=small(record.penalty),
        current_player=them,
        last_action=small(record.last_action),
        terminated=jnp.zeros_like(like.terminated),
        rules=rules,
        has_drawn=record.has_drawn,
        contested=small(record.contested),
    )

    def one_hand(onehot: Array, drawn: Array) -> Array:
        imagined = dataclasses.replace(view, hand=onehot, drawn=drawn)
        return likelihood_of(opponent, imagined, imagined.legal_mask, action)

    type_drawn = small(jnp.where(record.has_drawn, cards.type_of(turn.drawn_color, turn.drawn_rank).astype(jnp.int32), game.NONE))
    hands = bits.unpack(bits.canonical(hand))
    return jax.vmap(one_hand)(hands, jnp.broadcast_to(type_drawn, len(hands)))


def log_likelihood(
    now: Trajectories,
    history: PublicHistory,
    opponent: Opponent,
    like: Observation,
    exchange: Exchange | None = None,
) -> LogLikelihood:
    """Compute the log likelihood of all choices of the opponent, one after the other; under a `Family`, by type, [K, N].

    Under the "deal" prior it includes the probability of the start card. `schedule.log_likelihoods` is the form for a GPU.

    Args:
        now, history: Trajectories and public history.
        opponent: One model or several types.
        like: Any observation of the observer.
        exchange: Exchange to make first, if any.
    """
    deal = Deal(*history.deal)

    def seen_from(hand: Array, num_slots: Array) -> Words:
        return as_words(hand) if exchange is None else exchange.apply(as_words(hand), num_slots)

    def one(t: Array, carry: tuple[Array, Array, list[LogLikelihood]]) -> tuple[Array, Array, list[LogLikelihood]]:
        """Add the factors of one record, starting from the hand at the record before."""
        hand, filled, totals = carry
        record = decode(history.records[t])
        played = jnp.where(t > 0, now.played[jnp.maximum(t - 1, 0)], RELEASED)
        hand = _fill(now, hand & ~card_of(played), filled, record.slots_before)
        seen, drawn = seen_from(hand, record.slots_before), _drawn_at(now, record, exchange, like.rules)
        factors = log_factors(seen, drawn, record, opponent, like)
        return hand, record.slots_before, [total.plus(factor) for total, factor in zip(totals, factors, strict=True)]

    dealt = _fill(now, jnp.zeros_like(now.hand), jnp.int32(0), deal.num_dealt)
    start = start_log_prob(seen_from(dealt, deal.num_dealt), deal, like.rules)
    first = (dealt, deal.num_dealt, [without_choices(start, like.rules)] * len(models_of(opponent)))
    return of_types(control.fori_loop(0, history.num_records, one, first)[2], opponent)


def _drawn_at(now: Trajectories, record: Record, exchange: Exchange | None, rules: Rules) -> Array | None:
    """Return the label of the card that was acquired last before a choice, uint8[N]; None under rules that never use it."""
    if not rules.keeps_account:
        return None
    slot = jnp.maximum(record.slots_before - 1, 0)
    label = now.labels[slot] & ~RELEASED
    return label if exchange is None else exchange.label_at(label, slot)


def _fill(now: Trajectories, hand: Array, first: Array, end: Array) -> Array:
    """Add the cards of slots first..end-1 to hands uint32[4, N]."""

    def two(index: Array, hand: Array) -> Array:
        for slot in (first + 2 * index, first + 2 * index + 1):
            hand = hand | card_of(jnp.where(slot < end, now.labels[slot] & ~RELEASED, RELEASED))
        return hand

    # Usually at most two cards came, which need no loop. A shift is one kernel, but a division of integers is several.
    hand = two(jnp.int32(0), hand)
    return control.fori_loop(1, (end - first + 1) >> 1, two, hand)


def by_type(log_likelihoods: Sequence[Array], opponent: Opponent) -> Array:
    """Return the likelihood of a single opponent model, float32[N], or those of the types, [K, N]."""
    if not isinstance(opponent, Family):
        return log_likelihoods[0]
    stacked = jnp.stack(log_likelihoods)
    # NaN from a model counts as impossible, which leaves the other types unchanged.
    return jnp.where(jnp.isnan(stacked), -jnp.inf, stacked)


def of_types(likelihoods: Sequence[LogLikelihood], opponent: Opponent) -> LogLikelihood:
    """Return the likelihood of a single opponent model, or those of the types, [K, N] each."""
    if not isinstance(opponent, Family):
        return likelihoods[0]
    softened = by_type([each.softened for each in likelihoods], opponent)
    are_impossible = [each.is_impossible for each in likelihoods if each.is_impossible is not None]
    return LogLikelihood(softened, jnp.stack(are_impossible) if are_impossible else None)


def mixed(log_likelihood: Array, log_types: Array | None) -> Array:
    """Sum out the type, with prior `log_types` float32[K], from log likelihoods [K, N]: float32[N], as they are without types."""
    return log_likelihood if log_types is None else logsumexp(log_types[:, None] + log_likelihood, axis=0)


def log_joint(log_weights: Array, log_likelihood: Array, log_types: Array) -> Array:
    """Compute ln P(type, trajectory) from the weights float32[N] of trajectories with `mixed` likelihoods: [K, N]."""
    of_trajectory = log_types[:, None] + log_likelihood - mixed(log_likelihood, log_types)[None, :]
    return log_weights[None, :] + jnp.where(jnp.isneginf(log_weights)[None, :], -jnp.inf, of_trajectory)


def log_type_probs(joint: Array) -> Array:
    """Compute ln P(type) from ln P(type, trajectory), [K, N]: float32[K]."""
    return jax.nn.log_softmax(logsumexp(joint, axis=1))


def _depends_on_facts(action: Array, rules: Rules) -> Array:
    """Mark records that are, or depend on, facts revealed about the hand: bool[...]."""
    is_fact = action >= FITS
    return is_fact | (action == cards.DRAW) if rules.draw_four_depends_on_hand else is_fact


def start_log_prob(dealt: Words, deal: Deal, rules: Rules) -> Array:
    """Compute the log probability (nats) of the start card: float32[N]; 0 if the deal does not affect it (`num_dealt` 0).

    It was uniform over the startable cards left. If the first player drew cards after it, average over the number of startable
    ones among these, which is hypergeometric.
    """
    held = num_startable(dealt, rules)
    left = jnp.maximum(deal.num_startable - held, 1).astype(jnp.float32)
    if rules.start_effects != "keep_turn":
        return jnp.where(deal.num_dealt > 0, -jnp.log(left), 0.0)
    number = deal.num_drawn
    startable = jnp.where(deal.own_startable < 0, held, deal.own_startable).astype(jnp.float32)
    size = (rules.hand_size + number).astype(jnp.float32)
    one = jnp.where(number > 0, startable / size, 0.0)
    # The second drawn card was startable, after a first one that was not and a first one that was.
    then_one, then_two = (jnp.where(number > 1, s / jnp.maximum(size - 1, 1), 0.0) for s in (startable, startable - 1))
    odds = (1 - one) * (1 - then_one) / left
    odds += ((1 - one) * then_one + one * (1 - then_two)) / (left + 1) + one * then_two / (left + 2)
    return jnp.where(deal.num_dealt > 0, jnp.log(odds), 0.0)


def num_startable(hands: Words, rules: Rules) -> Array:
    """Count the cards of hands that may be turned up at the start, int32[...]."""
    startable = bits.COLORED if rules.start_card == "non_wild" else bits.COLORED | bits.WILD_BIT
    return bits.count(map_words(lambda w: w & startable, hands)).astype(jnp.int32)
