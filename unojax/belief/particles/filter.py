"""The particle filter over the opponent's hand: `belief_update`.

Events that contradict a particle repair it with an exact weight instead of killing it, and Metropolis moves refresh it (`moves`
has the derivation). Unbiased for the evidence, consistent as N grows, and never holds a hand that the history rules out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap
from jax.experimental import checkify
from jax.scipy.special import gammaln

from unojax import bits, cards
from unojax.belief import history, resample
from unojax.belief.opponents import OpponentModel, uniform_opponent
from unojax.belief.particles import accounts, ledger, moves
from unojax.belief.particles.accounts import Cloud
from unojax.belief.particles.belief import Belief, Info, belief_init
from unojax.belief.particles.ledger import Ledger, as_words
from unojax.belief.particles.likelihood import Exchange, log_likelihood
from unojax.device.combinatorics import log_binomial
from unojax.device.platform import platform
from unojax.device.tracing import traced_once
from unojax.observation import Observation, check_observation
from unojax.rules import Rules, agreed_rules

NUM_MOVES: Final = 6
"""Default number of refreshing moves after a resampling, each of one card: about a hand's worth."""
MOST_ROUNDS: Final = 4.0
"""At most so many times more moves are made when the effective sample size was very low."""
_Likelihood = Callable[[Cloud, Exchange], Array]


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
        belief, before, after: the belief before the micro-step, and the observer's observations around it.
        action: the public action of whoever moved, integer scalar, as `infer_action(before, after)` recovers it.
        key: threefry2x32; consumed.
        opponent: the opponent model, static. One that gives a legal action probability zero (a deterministic policy, say) needs
            some `tremble`: particles are repaired on the assumption that any legal action may be taken.
        rules: those of belief and observations, if given.
        ess_threshold: resample when the ESS falls below this share of N, static.
        num_moves: refreshing moves after a resampling, static; more of them if the ESS was below N/2 by far (`MOST_ROUNDS`).
            Each renews one card of the hand, in turn. With fewer, particles that were resampled stay alike, and marginals are
            noisier: by 4.5 times the variance of N independent draws with one random card, by 1.3 times with the default.

    Returns:
        The belief after the micro-step, and what happened. The belief is as it was if nothing moved (finished game, illegal
        action), or if the observations belong neither together, nor to the action, or not to this belief (`Info.inconsistent`).

    Raises:
        ValueError: an observation is a batch, or the rules of belief and observations, or `rules`, differ.
    """
    for seen in (before, after):
        check_observation(seen, "belief_update", rules)
        agreed_rules(belief.rules, seen.rules)
    one_game = partial(_update, opponent=opponent, ess_threshold=ess_threshold, num_moves=num_moves)
    return _game_by_game(one_game)(belief, before, jnp.asarray(action, jnp.int32), after, key)


def belief_update_checked(
    belief: Belief, before: Observation, action: Array, after: Observation, key: Array, **options: Any
) -> tuple[Belief, Info]:
    """`belief_update`, with its `options`, that fails on observations that do not belong together, for debugging.

    After `jax.jit(checkify.checkify(belief_update_checked))(belief, before, action, after, key)`, `err.throw()` raises.
    """
    belief, info = belief_update(belief, before, action, after, key, **options)
    checkify.check(
        ~info.inconsistent,
        "the observations around action {action} are not one micro-step apart, show another action, or are not of this belief's "
        "position: give every micro-step of either player, as the observer sees it",
        action=jnp.asarray(action),
    )
    return belief, info


def _game_by_game(update: Callable[..., tuple[Belief, Info]]) -> Callable[..., tuple[Belief, Info]]:
    """Map `update` over the games one after the other if it is vmapped on a CPU.

    Games in lockstep take every branch of an update and the longest of each loop, and their particles do not stay in the cache.
    That pays on a GPU; on a CPU the particles of one game are enough to keep the vector units busy.
    """
    update = custom_vmap(update)

    @update.def_vmap
    def over_games(axis_size: int, in_batched: Any, *args: Any) -> tuple[tuple[Belief, Info], Any]:
        if platform() == "cpu":
            *events, key = args
            # Keys are taken apart, since a loop that indexes them looks like one that uses them again and again.
            impl = jax.random.key_impl(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else None
            data = key if impl is None else jax.random.key_data(key)

            def of_game(game: Array) -> Any:
                rows = jax.tree.map(lambda x, is_mapped: x[game] if is_mapped else x, [*events, data], list(in_batched))
                return rows if impl is None else [*rows[:-1], jax.random.wrap_key_data(rows[-1], impl=impl)]

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


@partial(traced_once, static=("opponent", "ess_threshold", "num_moves"))
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
    inconsistent = ~(history.belongs(before, action, after) & _fits(belief, before))
    # Nothing moves in a finished game, nor by an action that the rules refuse.
    moved = ~inconsistent & (history.infer_action(before, after) >= 0)
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

    depleted = jnp.isneginf(log_sum + log_constant) & ~inconsistent
    max_slots, max_plays = book.epoch.shape[0], book.plays.action.shape[0]
    # Begun anew while the last row still counts, so that this update's evidence is right.
    outgrown = (book.num_slots > max_slots) | (book.num_plays >= max_plays)
    restarted = depleted | outgrown
    log_weights = jnp.where(inconsistent, belief.log_weights, log_weights)
    # A particle of weight zero may hold an impossible hand; none is carried on.
    resampled = ~(restarted | inconsistent) & ((ess < ess_threshold * belief.num_particles) | jnp.isneginf(log_weights).any())

    def carry_on() -> tuple[Belief, Array]:
        weighted = Belief(log_weights=log_weights, log_likelihood=log_lik, cloud=cloud, ledger=book, rules=belief.rules)
        return _refresh(key_resample, key_move, weighted, ess, resampled, likelihood, num_moves)

    def begin_anew() -> tuple[Belief, Array]:
        n = belief.num_particles
        fresh = belief_init(after, key_anew, num_particles=n, max_slots=max_slots, max_plays=max_plays)
        return fresh, jnp.float32(0.0)

    updated, acceptance = lax.cond(restarted, begin_anew, carry_on)
    return updated, Info(
        ess=ess,
        log_evidence=jnp.where(inconsistent, 0.0, log_sum + log_constant),
        depleted=depleted,
        restarted=restarted,
        resampled=resampled,
        acceptance=acceptance,
        inconsistent=inconsistent,
    )


def _fits(belief: Belief, seen: Observation) -> Array:
    """Tell whether an observation shows the position of a belief: bool[]. What is public is the same in all particles."""
    hand, deck, own = (bits.map_words(lambda w: w[0], s) for s in (belief.cloud.hand, belief.cloud.deck, belief.cloud.own))
    unseen = bits.canonical(accounts.union(hand, deck))
    pairs = zip((*unseen, *bits.canonical(own)), (*history.unseen_words(seen), *bits.pack(seen.hand)), strict=True)
    differs = bits.count(hand).astype(jnp.int32) != seen.opponent_count.astype(jnp.int32)
    for ours, theirs in pairs:
        differs |= ours != theirs
    return ~differs


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
    deck_count = unseen.sum(dtype=jnp.int32) - before.opponent_count.astype(jnp.int32)
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
    log_ways = gammaln(number.astype(jnp.float32) + 1.0) + log_binomial(unseen, drawn).sum()
    return lax.fori_loop(0, number, one_card, now._replace(log_constant=now.log_constant + log_ways))


def _reshuffle_if_any(now: _Weighted, before: Observation, after: Observation) -> _Weighted:
    def shuffle() -> _Weighted:
        full = jnp.asarray(bits.all_cards(before.rules.deck))
        color, rank = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
        book = dataclasses.replace(now.book, num_reshuffles=now.book.num_reshuffles + 1)
        return now._replace(cloud=moves.reshuffle(now.cloud, as_words(full), color, rank), book=book)

    return lax.cond(history.reshuffled(before, after), shuffle, lambda: now)


def _refresh(
    key_resample: Array, key_move: Array, belief: Belief, ess: Array, resampled: Array, likelihood: _Likelihood, num_moves: int
) -> tuple[Belief, Array]:
    """Resample if due, then move the particles; give the share that a move changed, too."""
    book, n = belief.ledger, belief.num_particles
    key_start, key_moves = jax.random.split(key_move)

    def pick() -> tuple[Cloud, Array, Array]:
        ancestors = resample.systematic(jax.random.uniform(key_resample, dtype=jnp.float32), belief.log_weights)
        return _pick(belief.cloud, book, ancestors), belief.log_likelihood[ancestors], resample.uniform_log_weights(n)

    kept = (belief.cloud, belief.log_likelihood, belief.log_weights)
    cloud, log_lik, log_weights = lax.cond(resampled, pick, lambda: kept)

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
    belief = dataclasses.replace(belief, log_weights=log_weights, log_likelihood=log_lik, cloud=cloud)
    return belief, changed / jnp.maximum(rounds, 1).astype(jnp.float32)


def _pick(cloud: Cloud, book: Ledger, ancestors: Array) -> Cloud:
    """Take the particles with some indices int32[N]."""

    def picked(index: Array, rows: Array) -> Array:
        del index
        return rows.at[:, ancestors].get(mode="promise_in_bounds")

    sets = jax.tree.map(lambda a: a.at[ancestors].get(mode="promise_in_bounds"), cloud._replace(labels=(), played=()))
    return sets._replace(
        labels=accounts.map_rows(book.num_slots, picked, cloud.labels),
        played=accounts.map_rows(book.num_plays, picked, cloud.played),
    )
