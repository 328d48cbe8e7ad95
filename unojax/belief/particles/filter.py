"""The particle filter over the opponent's hand: `belief_init` and `belief_update`.

Each particle is a full account of which card the opponent acquired when (`unojax.belief.particles.ledger`), so its likelihood under the
whole public history can be computed. Events that contradict a particle repair it with an exact weight instead of killing it,
and Metropolis moves refresh it (`unojax.belief.particles.moves`, where the derivation stands). The filter is unbiased for the
evidence, consistent as N grows, and never holds a hand that the history rules out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax
from jax.custom_batching import custom_vmap
from jax.scipy.special import gammaln

from unojax import bits, cards
from unojax.belief import history, resample
from unojax.belief.history import Prior
from unojax.belief.opponents import OpponentModel, uniform_opponent
from unojax.belief.particles import accounts, ledger, moves
from unojax.belief.particles.accounts import Cloud
from unojax.belief.particles.ledger import Ledger, as_words
from unojax.belief.particles.likelihood import Exchange, log_likelihood, start_log_prob
from unojax.observation import Observation, check_observation
from unojax.rules import Rules, agreed_rules

MAX_SLOTS: Final = 192
MAX_PLAYS: Final = 96
"""Default capacity of a belief: cards the opponent ever acquired, and plays it ever made. In uniform play, 1 game in 10,000
needs more."""
NUM_MOVES: Final = 6
"""Default number of refreshing moves after a resampling, each of one card: about a hand's worth."""
MOST_ROUNDS: Final = 4.0
"""At most so many times more moves are made when the effective sample size was very low."""


@struct.dataclass
class Belief:
    """A weighted cloud of N hypothetical hands of the opponent.

    Attributes:
        log_weights: float32[N] nats, normalised (logsumexp = 0).
        log_likelihood: float32[N] nats, of the opponent's plays so far in each particle (`likelihood.log_likelihood`).
        cloud: the particles.
        ledger: what is public about the opponent's cards.
        rules: static; of the game.
    """

    log_weights: Array
    log_likelihood: Array
    cloud: Cloud
    ledger: Ledger
    rules: Rules = struct.field(pytree_node=False)

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
    """What happened in an update.

    Attributes:
        ess: float32[] effective sample size after weighting and before resampling, 0..N.
        log_evidence: float32[] nats, log probability of what the observer saw in this micro-step, given the history before.
        depleted: bool[] no particle could explain what was seen; the belief was begun anew from the current position alone.
        restarted: bool[] the belief was begun anew: depleted, or the game outgrew the belief's capacity.
        resampled: bool[] the ESS had fallen below the threshold, or a particle had become impossible.
        acceptance: float32[] share of particles that a refreshing move changed, 0..1.
    """

    ess: Array
    log_evidence: Array
    depleted: Array
    restarted: Array
    resampled: Array
    acceptance: Array


def belief_init(
    observation: Observation,
    key: Array,
    *,
    num_particles: int = 1024,
    rules: Rules | None = None,
    max_slots: int = MAX_SLOTS,
    max_plays: int = MAX_PLAYS,
    prior: Prior = "uniform",
) -> Belief:
    """The belief at the start: the opponent's hand is a random subset of the unseen cards.

    In mid-game that is what an observer believes who knows the position but not how it came about.

    Args:
        observation: of the player whose belief it is.
        key: threefry2x32 (the default kind); consumed.
        num_particles: N, static.
        rules: those of the observation, if given.
        max_slots, max_plays: static capacity, the former rounded up to a multiple of four; a game that outgrows one of them
            restarts the belief (`Info.restarted`).
        prior: "uniform" or, for an observation right after a deal with `start_card="non_wild"`, "deal". See `exact.exact_init`.

    Raises:
        ValueError: a size is not positive, `max_slots` is below the number of cards in the game, there is no such prior, the
            observation is a batch, or `rules` are other ones than the observation's.
    """
    check_observation(observation, "belief_init", rules)
    rules = observation.rules
    if num_particles < 1:
        raise ValueError(f"num_particles must be at least 1, got {num_particles}")
    if max_slots < rules.num_cards or max_plays < 1:
        raise ValueError(
            f"max_slots must be at least the {rules.num_cards} cards of the game and max_plays at least 1, "
            f"got {max_slots} and {max_plays}"
        )
    if prior not in get_args(Prior):
        raise ValueError(f"prior must be one of {get_args(Prior)}, got {prior!r}")
    # As if the opponent drew its whole hand now, from all that the observer does not see.
    own = bits.pack(observation.hand)
    unseen = bits.pack(cards.onehot(observation.unseen))
    book = ledger.empty(max_slots=accounts.capacity_for(max_slots), max_plays=max_plays)
    cloud = _start_cloud(own, unseen, num_particles, book)
    hand_count = observation.opponent_count.astype(jnp.int32)
    cloud = moves.draw(key, cloud, book, hand_count)
    book = ledger.add_slots(book, hand_count)
    if prior == "deal" and rules.start_card == "non_wild":
        # The start card was among the coloured cards too, before it was turned up.
        num_colored = 1 + bits.count(bits.map_words(lambda w: w & bits.COLORED, unseen)).astype(jnp.int32)
        book = dataclasses.replace(book, num_dealt=hand_count, num_colored=num_colored)
    log_lik = start_log_prob(cloud.hand, book)
    return Belief(
        log_weights=resample.normalize(log_lik)[0],
        log_likelihood=log_lik,
        cloud=cloud,
        ledger=book,
        rules=rules,
    )


def _start_cloud(own: bits.Words, unseen: bits.Words, num_particles: int, book: Ledger) -> Cloud:
    """Particles with all unseen cards in the deck.

    Equal cards need labels of their own in deck, hand and pile: the observer's cards take the lowest copies, the unseen ones
    the next.
    """
    spread = partial(bits.map_words, lambda w: jnp.broadcast_to(w, num_particles))
    not_in_pile = bits.merge(own, unseen)
    nothing = bits.empty(jnp.zeros(num_particles))
    return Cloud(
        hand=nothing,
        deck=spread(bits.map_words(lambda a, b: a & ~b, not_in_pile, own)),
        own=spread(own),
        recycled=nothing,
        labels=jnp.full((book.epoch.shape[0], num_particles), accounts.RELEASED, jnp.uint8),
        played=jnp.zeros((accounts.capacity_for(book.plays.action.shape[0]), num_particles), jnp.uint8),
    )


def belief_update(
    belief: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: OpponentModel = uniform_opponent,
    rules: Rules | None = None,
    ess_threshold: float = 0.5,
    num_moves: int = NUM_MOVES,
) -> tuple[Belief, Info]:
    """Condition the belief on one micro-step: one public action of one player.

    Args:
        belief: before the micro-step.
        before, after: the observer's observations around it.
        action: the public action of whoever moved, integer scalar: what `infer_action(before, after)` recovers from the
            observations. If the two differ, nothing is believed and nothing changes.
        key: threefry2x32; consumed.
        opponent: the opponent model, static. One that gives a legal action probability zero (a deterministic policy, say) needs
            some `tremble`: particles are repaired on the assumption that any legal action may be taken.
        rules: those of belief and observations, if given.
        ess_threshold: resample when the ESS falls below this share of N, static.
        num_moves: refreshing moves after a resampling, static; more of them if the ESS was below N/2 by far (`MOST_ROUNDS`).
            Each renews one card of the hand, in turn. With fewer, particles that were resampled stay alike, and marginals are
            noisier: by 4.5 times the variance of N independent draws with one random card, by 1.3 times with the default.

    Returns:
        The belief after the micro-step, and what happened. If nothing moved (finished game, illegal action), the belief as it
        was.

    Raises:
        ValueError: an observation is a batch, or the rules of belief and observations, or `rules`, differ.
    """
    for seen in (before, after):
        check_observation(seen, "belief_update", rules)
        agreed_rules(belief.rules, seen.rules)
    one_game = partial(_update, opponent=opponent, ess_threshold=ess_threshold, num_moves=num_moves)
    return _game_by_game(one_game)(belief, before, jnp.asarray(action, jnp.int32), after, key)


def _game_by_game(update: Callable[..., tuple[Belief, Info]]) -> Callable[..., tuple[Belief, Info]]:
    """`update`, mapped over the games one after the other if it is vmapped on a CPU.

    Games in lockstep take every branch of an update and the longest of each loop, and their particles do not stay in the cache.
    That pays on a GPU; on a CPU the particles of one game are enough to keep the vector units busy.
    """
    update = custom_vmap(update)

    @update.def_vmap
    def over_games(axis_size: int, in_batched: Any, *args: Any) -> tuple[tuple[Belief, Info], Any]:
        if jax.default_backend() == "cpu":
            leaves, treedef = jax.tree.flatten(args)
            is_batched = jax.tree.leaves(in_batched)

            def of_game(game: Array) -> Any:
                some = (leaf[game] if is_mapped else leaf for leaf, is_mapped in zip(leaves, is_batched, strict=True))
                return jax.tree.unflatten(treedef, some)

            def spread(leaf: Array, is_mapped: bool) -> Array:
                return leaf if is_mapped else jnp.broadcast_to(leaf, (axis_size, *leaf.shape))

            def one_game(game: Array, result: tuple[Belief, Info]) -> tuple[Belief, Info]:
                beliefs, infos = result
                _, *rest = of_game(game)
                one = update(jax.tree.map(lambda rows: rows[game], beliefs), *rest)
                return jax.tree.map(lambda rows, row: rows.at[game].set(row), (beliefs, infos), one)

            # In place: a game's belief is overwritten by its successor, so that a donated batch needs no second one.
            infos = jax.tree.map(
                lambda s: jnp.zeros((axis_size, *s.shape), s.dtype), jax.eval_shape(update, *of_game(jnp.int32(0)))[1]
            )
            result = lax.fori_loop(0, axis_size, one_game, (jax.tree.map(spread, args[0], in_batched[0]), infos))
        else:
            axes = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, in_batched)
            result = jax.vmap(update.fun, in_axes=tuple(axes), axis_size=axis_size)(*args)
        return result, jax.tree.map(lambda _: True, result)

    return update


def _update(
    belief: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: OpponentModel,
    ess_threshold: float,
    num_moves: int,
) -> tuple[Belief, Info]:
    key_event, key_resample, key_move, key_anew = jax.random.split(key, 4)
    # Nothing moves in a finished game, nor by an action that the rules refuse.
    moved = (action >= 0) & (action == history.infer_action(before, after))
    action = jnp.where(moved, action, cards.DRAW)
    by_opponent = history.opponent_moved(before)
    is_draw = moved & (action == cards.DRAW)
    color, rank = (action // cards.NUM_RANKS).astype(jnp.uint32), (action % cards.NUM_RANKS).astype(jnp.uint32)
    now = _Weighted(belief.cloud, belief.ledger, jnp.zeros_like(belief.log_weights), jnp.float32(0.0))

    def opponent_plays() -> _Weighted:
        cloud, log_increment = moves.condition_on_play(key_event, now.cloud, now.book, color, rank)
        num_unseen = before.unseen[cards.type_of(color, rank)].astype(jnp.float32)
        return _Weighted(cloud, ledger.record_play(now.book, before, action), log_increment, jnp.log(num_unseen))

    def observer_plays() -> _Weighted:
        return now._replace(cloud=moves.play_own(now.cloud, color, rank))

    # A play or a draw, of the opponent or of the observer; or nothing.
    kind = jnp.where(moved, jnp.where(by_opponent, 0, 2) + is_draw.astype(jnp.int32), 4)
    cloud, book, log_increment, log_constant = lax.switch(
        kind,
        (
            opponent_plays,
            lambda: _opponent_draws(key_event, now, before, after),
            observer_plays,
            lambda: _observer_draws(key_event, now, before, after),
            lambda: now,
        ),
    )

    def likelihood(cloud: Cloud, exchange: Exchange | None = None) -> Array:
        return log_likelihood(cloud, book, opponent, before, exchange)

    may_have_changed = moved & (by_opponent | is_draw)
    log_lik = lax.cond(may_have_changed, lambda: likelihood(cloud), lambda: belief.log_likelihood)
    dead = jnp.isneginf(belief.log_weights) | jnp.isneginf(log_increment)
    joint = belief.log_weights + log_increment + log_lik - belief.log_likelihood
    # NaN from an opponent model counts as impossible.
    joint = jnp.where(dead | jnp.isnan(joint), -jnp.inf, joint)
    log_weights, log_sum = resample.normalize(joint)
    ess = resample.effective_sample_size(log_weights)

    depleted = jnp.isneginf(log_sum + log_constant)
    max_slots, max_plays = book.epoch.shape[0], book.plays.action.shape[0]
    # Begun anew while the last row still counts, so that this update's evidence is right.
    outgrown = (book.num_slots > max_slots) | (book.num_plays >= max_plays)
    restarted = depleted | outgrown
    # A particle of weight zero may hold an impossible hand; none is carried on.
    resampled = ~restarted & ((ess < ess_threshold * belief.num_particles) | jnp.isneginf(log_weights).any())

    def carry_on() -> tuple[Belief, Array]:
        return _refresh(
            key_resample, key_move, cloud, book, log_weights, log_lik, ess, resampled, likelihood, num_moves, belief.rules
        )

    def begin_anew() -> tuple[Belief, Array]:
        n = belief.num_particles
        fresh = belief_init(after, key_anew, num_particles=n, max_slots=max_slots, max_plays=max_plays)
        return fresh, jnp.float32(0.0)

    updated, acceptance = lax.cond(restarted, begin_anew, carry_on)
    return updated, Info(
        ess=ess,
        log_evidence=log_sum + log_constant,
        depleted=depleted,
        restarted=restarted,
        resampled=resampled,
        acceptance=acceptance,
    )


class _Weighted(NamedTuple):
    """A cloud on its way through an update: float32[N] log weights of the repairs, and a factor that all particles share."""

    cloud: Cloud
    book: Ledger
    log_increment: Array
    log_constant: Array


def _opponent_draws(key: Array, now: _Weighted, before: Observation, after: Observation) -> _Weighted:
    key_condition, key_draw = jax.random.split(key)
    playable = ledger.cards_playable_on(before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32))

    def could_not_play() -> _Weighted:
        cloud, log_increment = moves.condition_on_no_play(key_condition, now.cloud, now.book, playable)
        return now._replace(cloud=cloud, book=ledger.forbid(now.book, playable), log_increment=log_increment)

    now = lax.cond(before.penalty == 0, could_not_play, lambda: now)
    now = _reshuffle_if_any(now, before, after)
    number = (after.opponent_count - before.opponent_count).astype(jnp.int32)
    return now._replace(cloud=moves.draw(key_draw, now.cloud, now.book, number), book=ledger.add_slots(now.book, number))


def _observer_draws(key: Array, now: _Weighted, before: Observation, after: Observation) -> _Weighted:
    now = _reshuffle_if_any(now, before, after)
    unseen = history.unseen_at_draw(before, after)
    drawn = cards.counts(after.hand) - cards.counts(before.hand)
    number = drawn.sum(dtype=jnp.int32)
    deck_count = unseen.sum(dtype=jnp.int32) - before.opponent_count
    # One type after the other; the card at place i belongs to the first type whose running total exceeds i.
    totals = jnp.cumsum(drawn, dtype=jnp.int32)

    def one_card(index: Array, now: _Weighted) -> _Weighted:
        card_type = jnp.argmax(totals > index)
        # A wild has no colour; whichever is given is ignored.
        color = jnp.maximum(jnp.asarray(cards.COLOR_OF_TYPE)[card_type], 0).astype(jnp.uint32)
        rank = jnp.asarray(cards.RANK_OF_TYPE)[card_type].astype(jnp.uint32)
        key_card = jax.random.fold_in(key, index)
        cloud, log_increment = moves.condition_on_own_draw(key_card, now.cloud, now.book, color, rank)
        return now._replace(
            cloud=cloud,
            log_increment=now.log_increment + log_increment,
            log_constant=now.log_constant - jnp.log((deck_count - index).astype(jnp.float32)),
        )

    # Ways to draw the same multiset: orders, and copies of each type.
    log_ways = (gammaln(number + 1.0) + _log_binomial(unseen, drawn).sum()).astype(jnp.float32)
    return lax.fori_loop(0, number, one_card, now._replace(log_constant=now.log_constant + log_ways))


def _reshuffle_if_any(now: _Weighted, before: Observation, after: Observation) -> _Weighted:
    def shuffle() -> _Weighted:
        full = jnp.asarray(bits.all_cards(before.rules.deck))
        color, rank = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
        book = dataclasses.replace(now.book, num_reshuffles=now.book.num_reshuffles + 1)
        return now._replace(cloud=moves.reshuffle(now.cloud, as_words(full), color, rank), book=book)

    return lax.cond(history.reshuffled(before, after), shuffle, lambda: now)


def _log_binomial(n: Array, k: Array) -> Array:
    """log C(n, k) for 0 <= k <= n <= 4."""
    choose = np.array([[math.comb(a, b) if b <= a else 1 for b in range(5)] for a in range(5)])
    return jnp.log(jnp.asarray(choose, jnp.float32))[n, k]


def _refresh(
    key_resample: Array,
    key_move: Array,
    cloud: Cloud,
    book: Ledger,
    log_weights: Array,
    log_lik: Array,
    ess: Array,
    resampled: Array,
    likelihood: Callable[[Cloud, Exchange], Array],
    num_moves: int,
    rules: Rules,
) -> tuple[Belief, Array]:
    """Resample if due, then move the particles."""
    n = log_weights.shape[0]
    key_start, key_moves = jax.random.split(key_move)

    def pick() -> tuple[Cloud, Array, Array]:
        ancestors = resample.systematic(jax.random.uniform(key_resample, dtype=jnp.float32), log_weights)
        return _pick(cloud, book, ancestors), log_lik[ancestors], resample.uniform_log_weights(n)

    cloud, log_lik, log_weights = lax.cond(resampled, pick, lambda: (cloud, log_lik, log_weights))

    hand_count = jnp.maximum(bits.count(jax.tree.map(lambda w: w[0], cloud.hand)).astype(jnp.int32), 1)
    start = jax.random.randint(key_start, (), 0, hand_count)

    def move(index: Array, carry: tuple[Cloud, Array, Array]) -> tuple[Cloud, Array, Array]:
        cloud, log_lik, changed = carry
        key = jax.random.fold_in(key_moves, index)
        cloud, log_lik, accepted = moves.refresh(key, cloud, book, log_lik, likelihood, (start + index) % hand_count)
        return cloud, log_lik, changed + accepted.mean(dtype=jnp.float32)

    # The fewer ancestors, the more there is to renew.
    loss = jnp.clip(0.5 * n / jnp.maximum(ess, 1.0), 1.0, MOST_ROUNDS)
    rounds = jnp.where(resampled, jnp.round(num_moves * loss).astype(jnp.int32), 0)
    cloud, log_lik, changed = lax.fori_loop(0, rounds, move, (cloud, log_lik, jnp.float32(0.0)))
    belief = Belief(log_weights=log_weights, log_likelihood=log_lik, cloud=cloud, ledger=book, rules=rules)
    return belief, changed / jnp.maximum(rounds, 1).astype(jnp.float32)


def _pick(cloud: Cloud, book: Ledger, ancestors: Array) -> Cloud:
    """The particles with some indices int32[N]."""

    def picked(index: Array, rows: Array) -> Array:
        del index
        return rows.at[:, ancestors].get(mode="promise_in_bounds")

    sets = jax.tree.map(lambda a: a.at[ancestors].get(mode="promise_in_bounds"), cloud._replace(labels=(), played=()))
    return sets._replace(
        labels=accounts.map_rows(book.num_slots, picked, cloud.labels),
        played=accounts.map_rows(book.num_plays, picked, cloud.played),
    )
