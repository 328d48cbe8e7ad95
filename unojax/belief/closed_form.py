"""Closed forms for the opponent's hand: no particles, no enumeration, any deck, jit- and vmap-able.

`uniform` is the belief without a history. `closed_form_update` adds evidence until the opponent plays, and restarts there.
`docs/explanation/belief-formulas.md` derives the formulas. All logarithms are natural.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.belief import history
from unojax.belief.hands import gain
from unojax.device import struct
from unojax.device.combinatorics import log_binomial, log_binomial_ratio, log_hypergeometric
from unojax.observation import Observation
from unojax.rules import check_plain

MAX_GROUPS: Final = 8
"""Groups of cards by age in a `ClosedFormBelief` that follows a game."""
_COUNTS: Final = np.arange(5)


def prob_holds_card(observation: Observation) -> Array:
    """Compute the probability that the opponent holds one given physical unseen card, |H| / |U|: float32[]; 0 if |U| is 0."""
    num_unseen = observation.unseen.sum(-1)
    return observation.opponent_count.astype(jnp.float32) / jnp.maximum(num_unseen, 1).astype(jnp.float32)


def entropy_of_subsets(observation: Observation) -> Array:
    """Compute the entropy of the uniform belief over *physical* hands, copies distinguished, ln C(|U|, k): float32[] nats."""
    return log_binomial(observation.unseen.sum(-1), observation.opponent_count)


def entropy_of_hands(observation: Observation) -> Array:
    """Compute the entropy of the uniform belief over hands as *multisets*: float32[] nats.

    It is ln C(|U|, k) - sum_t E[ln C(U_t, H_t)], because a hand H stands for prod_t C(U_t, H_t) equally likely subsets.
    """
    probs = uniform(observation).count_probs
    log_ways = jnp.where(probs > 0, log_binomial(observation.unseen[:, None], _COUNTS[None]), 0.0)
    return entropy_of_subsets(observation) - (probs * log_ways).sum()


@struct.dataclass
class ClosedFormBelief:
    """The opponent's hand as G groups of cards by age, oldest first.

    Attributes:
        sizes: int32[G] cards in each group; used groups come first.
        available: int32[G, 54] possible copies of each type in the group, each row at most the next; all unseen ones in an empty
            group.
    """

    sizes: Array
    available: Array

    @property
    def expected_counts(self) -> Array:
        """Expected copies of each type in the hand: float32[54]."""
        free = self._free()
        expected = jnp.zeros(cards.NUM_TYPES, jnp.float32)
        for g in range(len(self.sizes)):
            # If `free` is 0, the group is empty.
            share = self.sizes[g].astype(jnp.float32) / jnp.maximum(free[g], 1).astype(jnp.float32)
            expected = expected + share * (self.available[g].astype(jnp.float32) - expected)
        return expected

    @property
    def count_probs(self) -> Array:
        """Probability that the hand holds 0..4 copies of each type: float32[54, 5]."""
        free = self._free()
        probs = jnp.exp(log_hypergeometric(_COUNTS[None], self.available[0, :, None], free[0], self.sizes[0]))
        held, total = _COUNTS[None, :, None], _COUNTS[None, None, :]
        for g in range(1, len(self.sizes)):
            left = self.available[g, :, None, None] - held
            is_possible = (left >= 0) & (total >= held)
            marked, picked = jnp.where(is_possible, left, 0), jnp.where(is_possible, total - held, 0)
            log_step = log_hypergeometric(picked, marked, free[g], self.sizes[g])
            probs = (probs[:, :, None] * jnp.where(is_possible, jnp.exp(log_step), 0.0)).sum(1)
        return probs

    @property
    def prob_holds(self) -> Array:
        """Probability that the hand holds at least one card of each type: float32[54]."""
        return -jnp.expm1(self._log_prob_none(self.available))

    def prob_none_of(self, types: ArrayLike) -> Array:
        """Compute the probability that the hand holds no card of the types in `types` (bool[54]): float32[]."""
        marked = jnp.where(jnp.asarray(types)[None], self.available, 0).sum(-1, keepdims=True)
        return jnp.exp(self._log_prob_none(marked))[0]

    def prob_no_playable(self, color: ArrayLike, rank: ArrayLike) -> Array:
        """Compute the probability that the hand holds no card playable on a top card of `rank` with `color` active: float32[]."""
        return self.prob_none_of(history.playable_types(color, rank))

    @property
    def prob_no_color(self) -> Array:
        """Probability that the hand holds no card of each colour, without wild cards: float32[4]."""
        return jax.vmap(self.prob_none_of)(np.arange(cards.NUM_COLORS)[:, None] == cards.COLOR_OF_TYPE)

    def expected_playable(self, color: ArrayLike, rank: ArrayLike) -> Array:
        """Compute the expected cards that are playable on a top card of `rank` with `color` active: float32[]."""
        return jnp.where(history.playable_types(color, rank), self.expected_counts, 0.0).sum()

    def _free(self) -> Array:
        """Count the cards that the older groups leave to each group, |A_g| - M_g: int32[G]."""
        return self.available.sum(-1) - (jnp.cumsum(self.sizes) - self.sizes)

    def _log_prob_none(self, marked: Array) -> Array:
        """ln P(no card of a class) for classes with marked int32[G, C] available cards in each group: float32[C]."""
        free, sizes = self._free()[:, None], self.sizes[:, None]
        return log_binomial_ratio(free - marked, sizes, free, sizes).sum(0)


def uniform(observation: Observation) -> ClosedFormBelief:
    """Return the uniform belief of a position: the hand is one group, from all unseen cards."""
    return _uniform(observation.opponent_count, observation.unseen, num_groups=1)


def closed_form_init(observation: Observation) -> ClosedFormBelief:
    """Begin a belief along a game with the uniform one. Raises ValueError for rules without a closed form."""
    check_plain(observation.rules, "the closed form")
    return _uniform(observation.opponent_count, observation.unseen)


def closed_form_update(
    belief: ClosedFormBelief, before: Observation, action: ArrayLike, after: Observation, *, exclude_drawn: bool = False
) -> ClosedFormBelief:
    """Condition the closed form on one transition, exactly from the uniform belief to the opponent's next play.

    Two cases discard evidence: more than `MAX_GROUPS` - 1 forced draws of the opponent between two plays; and an observer's draw
    of a type whose copies are partly from before a reshuffle.

    Args:
        belief: Belief at `before`.
        before, after: The observer's observations around the transition.
        action: Public action, 0..60, or -1 if nothing happened (see `infer_action`).
        exclude_drawn: Static. True selects a **wrong** form, kept to show its error: after a forced draw all cards are taken to
            be unplayable, also the one drawn. Where this contradicts itself, it restarts as uniform.
    """
    check_plain(before.rules, "the closed form")
    action = jnp.asarray(action, jnp.int32)
    theirs = history.opponent_moved(before)
    unseen = after.unseen.astype(jnp.int32)
    reset = _uniform(after.opponent_count, unseen)

    # A reshuffle adds unseen cards for later groups only; the observer's draws remove cards from all groups.
    sizes = belief.sizes
    playable = history.playable_types(before.color, before.top_rank)
    is_cut = history.opponent_could_not_play(before, action)
    available = jnp.where((is_cut & playable)[None], 0, belief.available)
    available = jnp.where((sizes > 0)[:, None], jnp.minimum(available, unseen[None]), unseen[None])

    # Drawn cards join the first unrestricted group. If there is no such group, the last one loses its restriction.
    drawn = history.opponent_drew(before, after)
    unrestricted = (available == unseen[None]).all(-1)
    if exclude_drawn:
        joined = jnp.where(is_cut, 0, jnp.argmax(unrestricted))
    else:
        joined = jnp.where(unrestricted.any(), jnp.argmax(unrestricted), MAX_GROUPS - 1)
        available = available.at[joined].set(jnp.where(drawn > 0, unseen, available[joined]))
    sizes = sizes.at[joined].add(drawn)

    plays = theirs & (action >= 0) & (action != cards.DRAW)
    contradicts = (available.sum(-1) < jnp.cumsum(sizes)).any()
    starts_afresh = plays | contradicts if exclude_drawn else plays
    return ClosedFormBelief(
        sizes=jnp.where(starts_afresh, reset.sizes, sizes), available=jnp.where(starts_afresh, reset.available, available)
    )


def draw_hands(key: Array, belief: ClosedFormBelief, number: int) -> bits.Words:
    """Draw hands from the closed form, the oldest group first: four uint32[number], canonical sets. Consumes `key`."""
    hands = bits.empty(jnp.zeros(number))
    for group in range(MAX_GROUPS):
        available = bits.pack(cards.onehot(belief.available[group].astype(jnp.int8)))
        hands = gain(jax.random.fold_in(key, group), hands, available, belief.sizes[group])
    return hands


def _uniform(hand_count: Array, unseen: Array, num_groups: int = MAX_GROUPS) -> ClosedFormBelief:
    sizes = jnp.zeros(num_groups, jnp.int32).at[0].set(hand_count.astype(jnp.int32))
    return ClosedFormBelief(sizes=sizes, available=jnp.broadcast_to(unseen.astype(jnp.int32), (num_groups, cards.NUM_TYPES)))
