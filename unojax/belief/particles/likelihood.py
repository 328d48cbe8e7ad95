"""Likelihood of the opponent's plays in each account: the plays replayed through every particle.

    p(plays | account)  =  prod_t pi(a_t | H_t, public_t) / copies_t

with H_t the hand before the t-th play and copies_t the number of cards of the played type in it, each of which was as likely to
be the physical card played. Where turns are not plain, other choices of the opponent's count as its plays do (copies_t 1, as for
a card just drawn), and what was told of its hand (`choices`). All functions work on N particles at once.

What was told of a hand rules accounts out, and repairs weigh them as if it did not: the backward kernel of `moves` must not lead
to an impossible account. So the filter's target has such accounts, at `SOFTENED` in place of 0, and they count for nothing in
what a belief says (`belief.report`).

A `Family` of K types has K likelihoods of an account, from one replay. The type is summed over and not sampled: the target is the
posterior of the accounts whatever the type (`mixed`), and each of them tells the types apart by itself (`log_type_probs`).

    p(account | history)  ~  sum_k p(k) p_k(plays | account)            p(k | account, history)  ~  p(k) p_k(plays | account)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
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
from unojax.belief.particles.accounts import RELEASED, ROWS_PER_TURN, Cloud, card_of, common, flip, num_turns
from unojax.belief.particles.choices import Choice, choice_prob
from unojax.belief.particles.ledger import FITS, Ledger, Plays, StartDraw, Turns, as_words
from unojax.bits import Words
from unojax.device import control
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table import Picked
from unojax.view import View

# A logarithm costs as much as a play, so probabilities are multiplied, four at a time, in a range that float32 has: the product
# vanishes only if their geometric mean is below 1e-17.
_SCALE: Final = 2.0**24
LOG_SCALE: Final = 24.0 * math.log(2.0)
SOFTENED: Final = 0.125
"""Factor in the target for what was told of a hand and is not so in an account."""


class Exchange(NamedTuple):
    """Two cards that change places in an account, for each of N particles.

    `slot` uint16[N] is live and holds one of `cards`, and so does `other`; `NO_SLOT` if its card is in the deck.
    """

    cards: Words
    slot: Array
    other: Array

    def hand(self, hand: Words, num_slots: Array) -> Words:
        """Give what a hand of the past, when so many slots were filled, would have been after the exchange."""
        # With both slots filled the hand held both cards and still does; with one, it held one of them and holds the other now.
        differs = (num_slots > self.slot.astype(jnp.int32)) ^ (num_slots > self.other.astype(jnp.int32))
        return flip(hand, self.cards, differs)


def log_likelihood(
    cloud: Cloud,
    ledger: Ledger,
    opponent: Opponent,
    like: Observation,
    exchange: Exchange | None = None,
    *,
    softened: bool = True,
) -> Array:
    """Compute the log likelihood (nats) of all plays of the opponent: float32[N], or by type [K, N].

    Under the "deal" prior it starts from the probability of the start card, one left by the deal that might be turned up.
    `like` is any observation of the observer's; with `exchange` the likelihood is as it were after it. Not `softened`, it is -inf
    where what was told of the hand is not so.
    """

    def seen_from(hand: Array, num_slots: Array) -> Words:
        return as_words(hand) if exchange is None else exchange.hand(as_words(hand), num_slots)

    models, plays = models_of(opponent), ledger.plays
    # What is the same for all hands is worked out for all plays at once.
    shown = None if isinstance(ledger.turns, Turns) else show(plays)
    begins = jnp.concatenate([ledger.num_dealt[None], plays.slots_before[:-1]])

    def one(t: Array, carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        """Go on by one row of the plays, with the products of the factors so far."""
        hand, products = carry
        play = Plays(*(rows[t] for rows in plays))
        hand = _fill(cloud, hand, begins[t], play.slots_before)
        seen = seen_from(hand, play.slots_before)
        if isinstance(ledger.turns, Turns):
            choice = Choice(play, Turns(*(rows[t] for rows in ledger.turns)))
            drawn = _drawn(cloud, play, exchange)
            factors = [_choice_factor(seen, drawn, choice, model, like) for model in models]
            if softened and like.rules.tells_of_hands:
                is_told = _is_told(play, like.rules)
                factors = [jnp.where(is_told & (factor == 0), SOFTENED * _SCALE, factor) for factor in factors]
        else:
            here = jax.tree.map(lambda rows: rows[t], shown)
            factors = [factor_of(seen, here, model, like) for model in models]
        products = [product * factor for product, factor in zip(products, factors, strict=True)]
        return hand & ~_words_of(cloud.played[t]), products

    def several(block: Array, carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        hand, totals = carry
        first, ones = ROWS_PER_TURN * block, [jnp.ones_like(total) for total in totals]
        end = jnp.minimum(first + ROWS_PER_TURN, ledger.num_plays)
        hand, products = control.fori_loop(first, end, one, (hand, ones))
        totals = [
            total + (jnp.log(product) - (end - first).astype(jnp.float32) * LOG_SCALE)
            for total, product in zip(totals, products, strict=True)
        ]
        return hand, totals

    dealt = _fill(cloud, jnp.zeros((cards.NUM_COLORS, *cloud.hand[0].shape), jnp.uint32), jnp.int32(0), ledger.num_dealt)
    first = (dealt, [start_log_prob(seen_from(dealt, ledger.num_dealt), ledger, like.rules)] * len(models))
    return by_type(control.fori_loop(0, num_turns(ledger.num_plays), several, first)[1], opponent)


def by_type(log_likelihoods: Sequence[Array], opponent: Opponent) -> Array:
    """Give the likelihood of an opponent's only model, float32[N], or those of its types, [K, N]."""
    if not isinstance(opponent, Family):
        return log_likelihoods[0]
    stacked = jnp.stack(log_likelihoods)
    # NaN from a model counts as impossible: the other types are none the worse for it.
    return jnp.where(jnp.isnan(stacked), -jnp.inf, stacked)


def mixed(log_likelihood: Array, log_types: Array | None) -> Array:
    """Compute the log likelihood of accounts whatever the opponent's type: float32[N].

    Args:
        log_likelihood: float32[N], or [K, N] by type.
        log_types: float32[K] nats, the prior of the types; None without types.
    """
    return log_likelihood if log_types is None else logsumexp(log_types[:, None] + log_likelihood, axis=0)


def log_joint(log_weights: Array, log_likelihood: Array, log_types: Array) -> Array:
    """Compute ln P(type, account) from the weights of N accounts, float32[N], which are those of `mixed` likelihoods: [K, N]."""
    of_account = log_types[:, None] + log_likelihood - mixed(log_likelihood, log_types)[None, :]
    return log_weights[None, :] + jnp.where(jnp.isneginf(log_weights)[None, :], -jnp.inf, of_account)


def log_type_probs(joint: Array) -> Array:
    """Compute ln P(type) from ln P(type, account), [K, N]: float32[K]."""
    return jax.nn.log_softmax(logsumexp(joint, axis=1))


class Shown(NamedTuple):
    """A recorded play, and what of it is the same for all hands.

    Attributes:
        play: the play.
        options: what may be played on the top card, see `bits.matching`.
        played: the play among the options.
        copies: all cards of the type played.
    """

    play: Plays
    options: Words
    played: Picked
    copies: Words


def show(play: Plays) -> Shown:
    """Work out what of a play, or of several, is the same for all hands."""
    action = play.action.astype(jnp.uint32)
    color, rank = action // cards.NUM_RANKS, action % cards.NUM_RANKS
    return Shown(
        play=play,
        options=bits.matching(play.color.astype(jnp.uint32), play.rank.astype(jnp.uint32)),
        played=Picked(color, bits.position_of(bits.rank_bit(rank))),
        copies=bits.type_mask(color, rank),
    )


def factor_of(before: Words, shown: Shown, opponent: OpponentModel, like: Observation) -> Array:
    """Compute the scaled factor of one play, from the hands before it: float32[N]."""
    copies = bits.count(common(before, shown.copies))
    return _shown_prob(before, shown, opponent, like) * _SCALE / copies.astype(jnp.float32)


def _choice_factor(before: Words, drawn: Words, choice: Choice, opponent: OpponentModel, like: Observation) -> Array:
    """Compute the scaled factor of one choice, from the hands before it and the cards just drawn: float32[N]."""
    action = choice.play.action.astype(jnp.uint32)
    copies = bits.count(common(before, bits.type_mask(action // cards.NUM_RANKS, action % cards.NUM_RANKS)))
    is_any = (action < cards.DRAW) & ~choice.turn.has_drawn
    prob = choice_prob(before, drawn, choice, opponent, like) * _SCALE
    return prob / jnp.where(is_any, jnp.maximum(copies, np.uint32(1)), np.uint32(1)).astype(jnp.float32)


def is_told(ledger: Ledger, rules: Rules) -> Array:
    """Tell whether anything was told of the hand so far: bool[]."""
    return (_is_told(ledger.plays, rules) & (jnp.arange(len(ledger.plays.action)) < ledger.num_plays)).any()


def _is_told(play: Plays, rules: Rules) -> Array:
    """Mark rows that are, or hang on, what was told of the hand: bool[...]."""
    told = play.action >= FITS
    return told | (play.action == cards.DRAW) if rules.draw_four_depends_on_hand else told


def _drawn(cloud: Cloud, play: Plays, exchange: Exchange | None) -> Words:
    """Find the card that was acquired last before a play, as a set of one card: four uint32[N]."""
    slot = jnp.maximum(play.slots_before - 1, 0)
    card = card_of(cloud.labels[slot] & ~RELEASED)
    if exchange is None:
        return card
    is_exchanged = (exchange.slot.astype(jnp.int32) == slot) | (exchange.other.astype(jnp.int32) == slot)
    return flip(card, exchange.cards, is_exchanged)


def start_log_prob(dealt: Words, ledger: Ledger, rules: Rules) -> Array:
    """Compute the log probability (nats) of the start card: float32[N]; 0 if the ledger leaves it out (`num_dealt` 0).

    It was any of the cards left that might be turned up, as likely. Where the first player drew cards after it, any of that
    player's may be those: the mean over how many of them might have been turned up, a hypergeometric number.
    """
    held = num_startable(dealt, rules)
    left = jnp.maximum(ledger.num_startable - held, 1).astype(jnp.float32)
    if not isinstance(ledger.start_draw, StartDraw):
        return jnp.where(ledger.num_dealt > 0, -jnp.log(left), 0.0)
    number, own = ledger.start_draw
    startable = jnp.where(own < 0, held, own).astype(jnp.float32)
    size = (rules.hand_size + number).astype(jnp.float32)
    one = jnp.where(number > 0, startable / size, 0.0)
    # The second card, after a first one that could not and one that could be turned up.
    then_one, then_two = (jnp.where(number > 1, s / jnp.maximum(size - 1, 1), 0.0) for s in (startable, startable - 1))
    odds = (1 - one) * (1 - then_one) / left
    odds += ((1 - one) * then_one + one * (1 - then_two)) / (left + 1) + one * then_two / (left + 2)
    return jnp.where(ledger.num_dealt > 0, jnp.log(odds), 0.0)


def num_startable(hands: Words, rules: Rules) -> Array:
    """Count the cards of hands that might be turned up to start a game, where not all might: int32[...]."""
    startable = bits.COLORED if rules.start_card == "non_wild" else bits.COLORED | bits.WILD_BIT
    return bits.count(bits.map_words(lambda w: w & startable, hands)).astype(jnp.int32)


def _fill(cloud: Cloud, hand: Array, first: Array, end: Array) -> Array:
    """Add the cards that slots first..end-1 got to the hands, uint32[4, N]."""

    def one(slot: Array, hand: Array) -> Array:
        return hand | _words_of(cloud.labels[slot] & ~RELEASED)

    return control.fori_loop(first, end, one, hand)


def _words_of(number: Array) -> Array:
    """Make the set that holds one card as `card_of` does, its words side by side: uint32[4, N]. On a CPU that is one kernel."""
    word = 32 * np.arange(cards.NUM_COLORS, dtype=np.uint32)[:, None]
    return lax.shift_left(jnp.uint32(1), number.astype(jnp.uint32)[None] - word)


def play_prob(hand: Words, play: Plays, opponent: OpponentModel, like: Observation) -> Array:
    """Compute the probability that the model gives one recorded play, for each hand (four uint32[N]): float32[N]."""
    return _shown_prob(hand, show(play), opponent, like)


def _shown_prob(hand: Words, shown: Shown, opponent: OpponentModel, like: Observation) -> Array:
    play = shown.play
    if isinstance(opponent, PackedOpponent):
        color = play.color.astype(jnp.uint32)
        view = View(
            hand=hand,
            opponent_count=play.observer_count.astype(jnp.uint32),
            pile=as_words(play.pile),
            color=color,
            rank=play.rank.astype(jnp.uint32),
            penalty=jnp.zeros_like(color),
            is_own_turn=jnp.ones_like(color, bool),
            rules=like.rules,
        )
        return packed_likelihood_of(opponent, view, common(bits.types(hand), shown.options), shown.played)

    them = (1 - like.player).astype(like.player.dtype)
    view = Observation(
        player=them,
        hand=like.hand,
        pile=bits.unpack(as_words(play.pile)),
        opponent_count=play.observer_count,
        deck_count=play.deck_count,
        top_rank=play.rank,
        color=play.color,
        penalty=jnp.zeros_like(like.penalty),
        current_player=them,
        last_action=play.last_action,
        terminated=jnp.zeros_like(like.terminated),
        rules=like.rules,
    )

    def one_hand(onehot: Array) -> Array:
        imagined = dataclasses.replace(view, hand=onehot)
        legal_mask = game.hand_legal_mask(onehot, play.color, play.rank, imagined.penalty)
        return likelihood_of(opponent, imagined, legal_mask, play.action.astype(jnp.uint32))

    return jax.vmap(one_hand)(bits.unpack(bits.canonical(hand)))
