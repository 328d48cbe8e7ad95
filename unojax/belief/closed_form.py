"""Closed forms for the opponent's hand: no particles, no enumeration, any deck, jit- and vmap-able.

**Uniform belief.** Given the observer's view alone, without the history, the opponent's hand H of k cards is a
uniformly random k-subset of the n = |U| unseen cards, so the count of any class of m unseen cards in H is
hypergeometric (e.g. Johnson, Kemp, Kotz 2005, "Univariate Discrete Distributions", chapter 6):

    P(H holds j of the m)  = C(m, j) C(n - m, k - j) / C(n, k)
    P(H holds none of them) = C(n - m, k) / C(n, k)
    E[number held]          = k m / n

**`ClosedFormBelief`** adds what the history says as long as it stays a product of such terms. The cards of the hand
are put in groups by age. "Could not play" says that no card held at that moment is of a type then playable, so each
group g of m_g cards has a set of available cards A_g of its own, and the sets are nested, A_1 in A_2 in ... in U, for
older cards have been excluded at least as often. Hands that agree with this are counted by filling the oldest group
first, prod_g C(|A_g| - M_g, m_g) with M_g = m_1 + ... + m_(g-1), since all older cards lie in A_g. Hence

    P(H holds none of a class S) = prod_g C(|A_g| - M_g - |A_g & S|, m_g) / C(|A_g| - M_g, m_g)
    E[H_t] = sum_g e_g(t),   e_g(t) = m_g (A_g(t) - e_1(t) - ... - e_(g-1)(t)) / (|A_g| - M_g)

This is exact until the opponent plays: which group the played card came from is then random, and the product form is
lost. The closed form starts afresh there, with H uniform over the k-subsets of U, which is its error. Two smaller
approximations are named in `closed_form_update`.

All logarithms are natural; entropies are in nats.
"""

from __future__ import annotations

import math
from typing import Final

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from jax.typing import ArrayLike

from unojax import cards
from unojax.belief import history
from unojax.observation import Observation

MAX_GROUPS: Final = 8
"""Groups of cards by age in a `ClosedFormBelief`."""

_COUNTS: Final = np.arange(5)
"""How many copies of one type a hand may hold."""


def _log_binomial_table() -> np.ndarray:
    """float32[2, 109, 109]: ln C(n, k) as a float32 and the rest of it, so that differences are good to float32 precision.

    The logarithms reach 73. One float32 would be off by up to 4e-6, and so would be every probability made of two of them.
    """
    exact = np.array([[math.log(math.comb(n, k)) if k <= n else -np.inf for k in range(109)] for n in range(109)])
    high = exact.astype(np.float32)
    low = np.where(np.isfinite(exact), exact - np.where(np.isfinite(exact), high, 0), 0).astype(np.float32)
    table = np.stack([high, low])
    table.flags.writeable = False
    return table


_LOG_BINOMIAL: Final = _log_binomial_table()


def log_binomial_ratio(n: ArrayLike, j: ArrayLike, m: ArrayLike, k: ArrayLike) -> Array:
    """ln [C(n, j) / C(m, k)]: float32, for integers n, j up to 108 and 0 <= k <= m <= 108; -inf unless 0 <= j <= n."""
    n, j, m, k = (jnp.asarray(x, jnp.int32) for x in (n, j, m, k))
    table = jnp.asarray(_LOG_BINOMIAL)
    above, below = table[:, jnp.maximum(n, 0), jnp.maximum(j, 0)], table[:, m, k]
    ratio = (above[0] - below[0]) + (above[1] - below[1])
    return jnp.where((n < 0) | (j < 0), -jnp.inf, ratio)


def _log_binomial(n: ArrayLike, k: ArrayLike) -> Array:
    return jnp.asarray(_LOG_BINOMIAL[0])[jnp.asarray(n, jnp.int32), jnp.asarray(k, jnp.int32)]


def _log_hypergeometric(j: Array | np.ndarray, marked: Array, total: Array, picked: Array) -> Array:
    """ln P(j of the `marked` cards are among `picked` cards, which are uniform over `total`); float32."""
    return _log_binomial(marked, j) + log_binomial_ratio(total - marked, picked - j, total, picked)


# The uniform belief, from one observation.


def prob_holds_card(observation: Observation) -> Array:
    """float32[]: probability that the opponent holds one given physical unseen card, |H| / |U|; 0 if there is none."""
    num_unseen = observation.unseen.sum(-1)
    return observation.opponent_count / jnp.maximum(num_unseen, 1).astype(jnp.float32)


def expected_counts(observation: Observation) -> Array:
    """float32[54]: expected copies of each type in the opponent's hand, U_t |H| / |U|."""
    return observation.unseen * prob_holds_card(observation)


def count_probs(observation: Observation) -> Array:
    """float32[54, 5]: probability that the opponent holds 0..4 copies of each type; hypergeometric."""
    unseen, held = observation.unseen.astype(jnp.int32), observation.opponent_count.astype(jnp.int32)
    return jnp.exp(_log_hypergeometric(_COUNTS, unseen[:, None], unseen.sum(), held))


def prob_none_of(observation: Observation, types: ArrayLike) -> Array:
    """float32[]: probability that the opponent holds no card of the types in `types` (bool[54]), C(|U| - |N|, k) / C(|U|, k)."""
    unseen = observation.unseen.astype(jnp.int32)
    marked = jnp.where(jnp.asarray(types), unseen, 0).sum(-1)
    total = unseen.sum(-1)
    held = observation.opponent_count
    return jnp.exp(log_binomial_ratio(total - marked, held, total, held))


def prob_holds(observation: Observation) -> Array:
    """float32[54]: probability that the opponent holds at least one card of each type."""
    unseen = observation.unseen.astype(jnp.int32)
    total, held = unseen.sum(-1), observation.opponent_count
    return -jnp.expm1(log_binomial_ratio(total - unseen, held, total, held))


def prob_no_color(observation: Observation) -> Array:
    """float32[4]: probability that the opponent holds no card of each colour (wild cards have none)."""
    of_color = np.arange(cards.NUM_COLORS)[:, None] == cards.COLOR_OF_TYPE
    unseen = observation.unseen.astype(jnp.int32)
    total, held = unseen.sum(-1), observation.opponent_count
    return jnp.exp(log_binomial_ratio(total - (of_color * unseen).sum(-1), held, total, held))


def prob_no_playable(observation: Observation) -> Array:
    """float32[]: probability that the opponent holds no card that is playable on the present top card and colour."""
    return prob_none_of(observation, history.playable_types(observation.color, observation.top_rank))


def expected_playable(observation: Observation) -> Array:
    """float32[]: expected number of cards in the opponent's hand that are playable on the present top card, k |N| / |U|."""
    playable = history.playable_types(observation.color, observation.top_rank)
    return jnp.where(playable, observation.unseen, 0).sum(-1) * prob_holds_card(observation)


def entropy_of_subsets(observation: Observation) -> Array:
    """float32[]: entropy in nats of the uniform belief over *physical* hands, ln C(|U|, k): copies of a type are told apart."""
    return _log_binomial(observation.unseen.sum(-1), observation.opponent_count)


def entropy_of_hands(observation: Observation) -> Array:
    """float32[]: entropy in nats of the uniform belief over hands as *multisets*; this is the one that other beliefs report.

    A hand H stands for prod_t C(U_t, H_t) equally likely subsets, so the entropy is ln C(|U|, k) - sum_t E[ln C(U_t, H_t)].
    """
    probs = count_probs(observation)
    log_ways = jnp.where(probs > 0, _log_binomial(observation.unseen[:, None], _COUNTS), 0.0)
    return entropy_of_subsets(observation) - (probs * log_ways).sum()


# The closed form that follows the history.


@struct.dataclass
class ClosedFormBelief:
    """The opponent's hand as groups of cards by age, oldest first. G = `MAX_GROUPS`; see the formulas of the module.

    Attributes:
        sizes: int32[G] cards in each group; used groups come first.
        available: int32[G, 54] copies of each type that a card of the group may be, with each row at most the next
            one. A group without cards has all unseen cards.
    """

    sizes: Array
    available: Array

    @property
    def expected_counts(self) -> Array:
        """float32[54]: expected copies of each type in the hand."""
        free = self._free()
        expected = jnp.zeros(cards.NUM_TYPES, jnp.float32)
        for g in range(MAX_GROUPS):
            # Where `free` is 0 the group is empty.
            share = self.sizes[g] / jnp.maximum(free[g], 1).astype(jnp.float32)
            expected = expected + share * (self.available[g] - expected)
        return expected

    @property
    def count_probs(self) -> Array:
        """float32[54, 5]: probability that the hand holds 0..4 copies of each type, group after group.

        The c copies that older groups hold are among the group's available ones, which leaves it A_g(t) - c.
        """
        free = self._free()
        probs = jnp.zeros((cards.NUM_TYPES, _COUNTS.size), jnp.float32).at[:, 0].set(1.0)
        held, total = _COUNTS[:, None], _COUNTS[None, :]
        for g in range(MAX_GROUPS):
            left = self.available[g, :, None, None] - held
            is_possible = (left >= 0) & (total >= held)
            marked, picked = jnp.where(is_possible, left, 0), jnp.where(is_possible, total - held, 0)
            log_step = _log_hypergeometric(picked, marked, free[g], self.sizes[g])
            probs = (probs[:, :, None] * jnp.where(is_possible, jnp.exp(log_step), 0.0)).sum(1)
        return probs

    @property
    def prob_holds(self) -> Array:
        """float32[54]: probability that the hand holds at least one card of each type."""
        return -jnp.expm1(self._log_prob_none(self.available))

    def prob_none_of(self, types: ArrayLike) -> Array:
        """float32[]: probability that the hand holds no card of the types in `types` (bool[54])."""
        marked = jnp.where(jnp.asarray(types), self.available, 0).sum(-1, keepdims=True)
        return jnp.exp(self._log_prob_none(marked))[0]

    def prob_no_playable(self, color: ArrayLike, rank: ArrayLike) -> Array:
        """float32[]: probability that the hand holds no card playable on a top card of `rank` 0..14 with `color` 0..3 active."""
        return self.prob_none_of(history.playable_types(color, rank))

    def _free(self) -> Array:
        """int32[G]: |A_g| - M_g, how many cards the older groups leave to each group."""
        return self.available.sum(-1) - (jnp.cumsum(self.sizes) - self.sizes)

    def _log_prob_none(self, marked: Array) -> Array:
        """ln P(no card of a class) for classes with marked int32[G, C] available cards in each group: float32[C]."""
        free, sizes = self._free()[:, None], self.sizes[:, None]
        return log_binomial_ratio(free - marked, sizes, free, sizes).sum(0)


def closed_form_init(observation: Observation) -> ClosedFormBelief:
    """The uniform belief: the hand is one group, from all unseen cards."""
    return _uniform(observation.opponent_count, observation.unseen)


def closed_form_update(
    belief: ClosedFormBelief,
    before: Observation,
    action: ArrayLike,
    after: Observation,
    *,
    exclude_drawn: bool = False,
) -> ClosedFormBelief:
    """The closed form after one micro-step, exact from the uniform belief to the opponent's next play.

    After an opponent's play it is the uniform belief again. Besides, it is approximate (and forgets, never
    contradicts) when the opponent draws for want of a playable card more than `MAX_GROUPS` - 1 times between two
    plays, and when copies of one type are partly from before a reshuffle and the observer draws one of them.

    Args:
        belief: the belief at `before`.
        before, after: the observer's observations around the micro-step.
        action: the public action, 0..60, or -1 if nothing happened (`infer_action` gives it).
        exclude_drawn: static. True gives the tempting but **wrong** closed form, kept to show its error: after "could
            not play" it takes all k + 1 cards for unplayable, though the drawn one may well be playable. It can
            contradict itself, when fewer unplayable cards are unseen than the hand holds; it then starts afresh as
            uniform.
    """
    action = jnp.asarray(action, jnp.int32)
    theirs = history.opponent_moved(before)
    unseen = after.unseen.astype(jnp.int32)
    reset = _uniform(after.opponent_count, unseen)

    # What is unseen grows by a reshuffle, for cards to come only, and shrinks by what the observer draws, for all.
    sizes = belief.sizes
    playable = history.playable_types(before.color, before.top_rank)
    is_cut = history.opponent_could_not_play(before, action)
    available = jnp.where(is_cut & playable, 0, belief.available)
    available = jnp.where((sizes > 0)[:, None], jnp.minimum(available, unseen), unseen)

    # Drawn cards join the first group that knows no restriction; if all groups have one, the last one gives it up.
    drawn = history.opponent_drew(before, after)
    unrestricted = (available == unseen).all(-1)
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
        sizes=jnp.where(starts_afresh, reset.sizes, sizes),
        available=jnp.where(starts_afresh, reset.available, available),
    )


def _uniform(hand_count: Array, unseen: Array) -> ClosedFormBelief:
    sizes = jnp.zeros(MAX_GROUPS, jnp.int32).at[0].set(hand_count.astype(jnp.int32))
    return ClosedFormBelief(sizes=sizes, available=jnp.broadcast_to(unseen.astype(jnp.int32), (MAX_GROUPS, cards.NUM_TYPES)))
