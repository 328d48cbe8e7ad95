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
from unojax.belief.particles.trajectory import RELEASED, Trajectories, as_words, card_of, card_words
from unojax.bits import Words, map_words
from unojax.device import control
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table import Turn, options_of, pick_of
from unojax.table.options import has_drawable, playable
from unojax.view import View

SOFTENED: Final = 0.125
"""Factor in the target for a revealed fact about the hand that is false in a trajectory."""


class Exchange(NamedTuple):
    """Two cards that swap places in each of N trajectories.

    The slots `slot` and `other`, uint16[N], hold one of `cards` (uint32[4, N]) each; `other` is `NO_SLOT` if its card is in the
    deck.
    """

    cards: Array
    slot: Array
    other: Array

    def apply(self, hand: Words, num_slots: Array) -> Words:
        """Change a past hand, of the time when `num_slots` slots were filled."""
        # With both slots filled, the hand keeps both cards; with one, it exchanges one of them for the other.
        differs = (num_slots > self.slot.astype(jnp.int32)) ^ (num_slots > self.other.astype(jnp.int32))
        return self._flip(hand, differs)

    def apply_at(self, card: Words, slot: Array) -> Words:
        """Return the card that a slot (int32[]) would hold after the exchange, as a set."""
        return self._flip(card, (self.slot.astype(jnp.int32) == slot) | (self.other.astype(jnp.int32) == slot))

    def _flip(self, words: Words, where: Array) -> Words:
        return map_words(lambda w, c: w ^ jnp.where(where, c, np.uint32(0)), words, as_words(self.cards))


def log_factors(
    hand: Words, drawn: Words, record: Record, opponent: Opponent, like: Observation, softened: bool = True
) -> list[Array]:
    """Compute the log factor (nats) of one record, float32[N] for each model of the opponent.

    Args:
        hand: four uint32[N] hand before the choice.
        drawn: four uint32[N] card in the hand that was drawn in the same turn; ignored without one.
        record: Record, with scalar fields.
        opponent, like, softened: See `log_likelihood`.
    """
    rules = like.rules
    copies = _copies_held(hand, record)
    factors = [choice_prob(hand, drawn, record, model, like) / copies for model in models_of(opponent)]
    if softened and rules.tells_of_hands:
        is_told = _depends_on_facts(record.action, rules)
        factors = [jnp.where(is_told & (factor == 0), SOFTENED, factor) for factor in factors]
    return [jnp.log(factor) for factor in factors]


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


def choice_prob(hand: Words, drawn: Words, record: Record, opponent: OpponentModel, like: Observation) -> Array:
    """Compute the probability of a choice, or of a revealed fact (0 or 1), given each hand: float32[N]; see `log_factors`."""
    rules, code = like.rules, record.action
    turn = _turn(drawn, record, rules)
    legal = options_of(hand, turn, rules)
    # A player who passes after a draw could have played the card.
    is_forced = bits.any_of(legal) == 0
    forced = (is_forced & (code == cards.DRAW) & ~record.has_drawn).astype(jnp.float32)
    chooses = (code < cards.DRAW) | ~is_forced if rules.draw_is_option else code < cards.DRAW
    prob = jnp.where(chooses, _model_prob(hand, legal, turn, record, opponent, like), forced)
    if not rules.tells_of_hands:
        return prob
    fits = card_fits(hand, drawn, record, rules)
    contested = bits.word_at(hand, record.contested.astype(jnp.uint32)) & bits.COLORED
    prob = jnp.where(code == FITS, fits.astype(jnp.float32), prob)
    prob = jnp.where(code == FAILS, (~fits).astype(jnp.float32), prob)
    return jnp.where(code == HOLDS_COLOR, (contested != 0).astype(jnp.float32), prob)


def card_fits(hand: Words, drawn: Words, record: Record, rules: Rules) -> Array:
    """Return whether the card `drawn`, in the hand, may be played on the top card of a record: bool[N]."""
    on_top = playable(hand, record.color.astype(jnp.uint32), record.rank.astype(jnp.uint32), rules)
    return bits.any_of(map_words(lambda a, b: a & b, on_top, bits.types(drawn))) != 0


def _turn(drawn: Words, record: Record, rules: Rules) -> Turn:
    word, position = bits.nth(drawn, jnp.uint32(0)) if rules.keeps_account else (np.uint32(0), np.uint32(0))
    rank = bits.rank_at(jnp.asarray(position))
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
        return packed_likelihood_of(opponent, view, legal, pick_of(action, rules))

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
    *,
    softened: bool = True,
) -> Array:
    """Compute the log likelihood (nats) of all choices of the opponent, one after the other: float32[N], or by type [K, N].

    Under the "deal" prior it includes the probability of the start card. `schedule.log_likelihoods` is the form for a GPU.

    Args:
        now, history: Trajectories and public history.
        opponent: One model or several types.
        like: Any observation of the observer.
        exchange: Exchange to make first, if any.
        softened: Static. If false, a false fact about the hand has likelihood 0.
    """
    deal = Deal(*history.deal)

    def seen_from(hand: Array, num_slots: Array) -> Words:
        return as_words(hand) if exchange is None else exchange.apply(as_words(hand), num_slots)

    def one(t: Array, carry: tuple[Array, Array, list[Array]]) -> tuple[Array, Array, list[Array]]:
        """Add the factors of one record, starting from the hand at the record before."""
        hand, filled, totals = carry
        record = decode(history.records[t])
        played = jnp.where(t > 0, now.played[jnp.maximum(t - 1, 0)], RELEASED)
        hand = _fill(now, hand & ~card_of(played), filled, record.slots_before)
        seen, drawn = seen_from(hand, record.slots_before), drawn_at(now, record, exchange, like.rules)
        factors = log_factors(seen, drawn, record, opponent, like, softened)
        return hand, record.slots_before, [total + factor for total, factor in zip(totals, factors, strict=True)]

    dealt = _fill(now, jnp.zeros_like(now.hand), jnp.int32(0), deal.num_dealt)
    start = start_log_prob(seen_from(dealt, deal.num_dealt), deal, like.rules)
    first = (dealt, deal.num_dealt, [start] * len(models_of(opponent)))
    return by_type(control.fori_loop(0, history.num_records, one, first)[2], opponent)


def drawn_at(now: Trajectories, record: Record, exchange: Exchange | None, rules: Rules) -> Words:
    """Return the card that was acquired last before a choice, as a set; the hand itself under rules that never use it."""
    if not rules.keeps_account:
        return as_words(now.hand)
    slot = jnp.maximum(record.slots_before - 1, 0)
    card = card_words(now.labels[slot] & ~RELEASED)
    return card if exchange is None else exchange.apply_at(card, slot)


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


def has_facts(history: PublicHistory, rules: Rules) -> Array:
    """Return whether any fact was revealed about the hand so far: bool[]."""
    is_recorded = jnp.arange(history.max_records) < history.num_records
    return (_depends_on_facts(decode(history.records).action, rules) & is_recorded).any()


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
