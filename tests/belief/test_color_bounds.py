"""Bounds of the opponent's cards by kind: against the true hands, position by position, and what they are worth."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import play, slow_but
from unojax import bits, cards, game
from unojax.belief import color_bounds
from unojax.belief.updaters import ColorBoundsFilter
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.value.features import Outlook, outlook_of_ages, outlook_of_hand, outlook_of_unseen
from unojax.view import view_of

NUM_STEPS = 100
KEY = jax.random.key(0)
KIND_OF_TYPE = np.where(cards.COLOR_OF_TYPE < 0, color_bounds.WILDS, cards.COLOR_OF_TYPE)


class Followed(NamedTuple):
    """Positions [G, T] of random games, from player 0's side, with the bounds that it has tracked."""

    seen: Observation
    shown: jax.Array
    hidden: jax.Array


@cache
def follow(rules: Rules) -> Followed:
    updater = ColorBoundsFilter()
    # Games of the sizes that other files compile.
    sizes = {"num_steps": 320} if rules == Rules() else {"num_games": 80, "num_steps": 160}
    states = jax.tree.map(lambda x: x[:, : NUM_STEPS + 1], play(0, rules=rules, **sizes).states)
    happened = np.where(np.diff(states.step_count, axis=1) > 0, states.last_action[:, 1:], game.NO_ACTION)

    @jax.jit
    @jax.vmap
    def one_game(states: game.State, happened: jax.Array) -> Followed:
        seen = jax.vmap(observe, (0, None))(states, 0)
        before, after = jax.tree.map(lambda x: x[:-1], seen), jax.tree.map(lambda x: x[1:], seen)

        def one_step(memory: jax.Array, step) -> tuple[jax.Array, jax.Array]:
            return updater.update(KEY, memory, *step)[0], memory

        start = updater.init(KEY, jax.tree.map(lambda x: x[0], seen))
        _, memories = jax.lax.scan(one_step, start, (before, happened, after))
        return Followed(before, memories, cards.counts(states.hands[:-1, 1]))

    return one_game(states, happened)


@pytest.fixture(scope="module")
def followed() -> Followed:
    return follow(Rules())


def by_kind(counts: jax.Array) -> np.ndarray:
    """The cards of each kind: [..., 5] of [..., 54]."""
    return np.asarray(counts) @ (KIND_OF_TYPE[:, None] == np.arange(color_bounds.NUM_KINDS)).astype(int)


@pytest.mark.parametrize("rules", slow_but([Rules()], [Rules(), Rules.official(), Rules.rlcard(), Rules.house()]))
def test_bounds_hold(rules: Rules):
    games = follow(rules)
    bounds, held = np.asarray(color_bounds.unpack(games.shown)).astype(int), by_kind(games.hidden)
    known = bounds != color_bounds.UNKNOWN
    assert (held <= bounds)[known].all()
    says = (bounds < held.sum(-1, keepdims=True)) & ~np.asarray(games.seen.terminated)[..., None]
    # Where one may draw as one likes, a draw shows nothing.
    assert says.any() != rules.may_draw
    if not rules.may_draw:
        # They are no looser than they must be: many are reached.
        assert (held == bounds)[says].mean() > 0.1


def word(*bounds: int) -> jax.Array:
    return jnp.uint32(sum(bound << 5 * kind for kind, bound in enumerate(bounds)))


def listed(of: jax.Array) -> list[int]:
    return color_bounds.unpack(of).tolist()


def test_draws_and_plays_by_hand():
    nothing, free = jnp.asarray(color_bounds.NOTHING_SHOWN), color_bounds.UNKNOWN
    assert listed(nothing) == [free] * 5
    could_not, red = jnp.bool_(True), jnp.uint32(cards.RED)
    # No red card and no wild one; then a card is drawn.
    shown = color_bounds.after_draw(nothing, 1, could_not, red)
    assert listed(shown) == [1, free, free, free, 1]
    # A penalty shows nothing.
    assert listed(color_bounds.after_draw(shown, 4, ~could_not, red)) == [5, free, free, free, 5]
    assert listed(color_bounds.after_draw(word(30, 30, 0, 31, 28), 4, ~could_not, red)) == [31, 31, 4, 31, 31]
    # A colour of which nothing is known tells nothing of the others when it is played.
    assert listed(color_bounds.after_play(shown, jnp.uint32(cards.BLUE))) == [1, free, free, free, 1]
    # A red card was one of at most two: of the wild cards, at most three, one less can be left; of the blue ones, one, none less.
    assert listed(color_bounds.after_play(word(2, free, 1, 4, 3), red)) == [1, free, 1, 3, 2]
    assert listed(color_bounds.after_play(word(2, free, 1, 4, 3), jnp.uint32(color_bounds.WILDS))) == [2, free, 1, 3, 2]


def test_without_bounds_any_unseen_card_is_as_likely(followed: Followed):
    """What `outlook_of_ages` takes the middle factor for, of the product over the draws."""
    view = jax.vmap(jax.vmap(view_of))(followed.seen)
    over = np.asarray(followed.seen.terminated)
    exact, close = outlook_of_unseen(view), outlook_of_ages(view, jnp.full_like(followed.shown, color_bounds.NOTHING_SHOWN))
    for name, tolerance in (("expected", 1e-5), ("spread", 1e-5), ("none_of_color", 4e-3), ("none_playable", 4e-3)):
        error = np.abs(np.asarray(getattr(exact, name)) - np.asarray(getattr(close, name)))[~over]
        assert error.max() < tolerance, name


def test_what_the_bounds_are_worth(followed: Followed):
    """They foresee the true hand better than the cards not seen do: expected counts, and which colours are lacking."""
    view, over = jax.vmap(jax.vmap(view_of))(followed.seen), np.asarray(followed.seen.terminated)

    def errors(outlook: Outlook) -> dict[str, float]:
        return {
            name: float(((np.asarray(getattr(outlook, name)) - np.asarray(getattr(truth, name)))[~over] ** 2).mean())
            for name in ("expected", "none_of_color", "none_playable")
        }

    truth = Outlook(
        expected=followed.hidden.astype(jnp.float32),
        none_of_color=jnp.asarray(by_kind(followed.hidden)[..., :4] == 0, jnp.float32),
        none_playable=outlook_of_hand(bits.pack(jax.vmap(jax.vmap(cards.onehot))(followed.hidden))).none_playable,
        spread=jnp.zeros(()),
        types=jnp.zeros(()),
    )
    by_ages, by_unseen = errors(outlook_of_ages(view, followed.shown)), errors(outlook_of_unseen(view))
    assert by_ages["expected"] < 0.97 * by_unseen["expected"]
    assert by_ages["none_of_color"] < 0.85 * by_unseen["none_of_color"]
    assert by_ages["none_playable"] < 0.95 * by_unseen["none_playable"]
    total = np.asarray(outlook_of_ages(view, followed.shown).expected.sum(-1))
    np.testing.assert_allclose(total[~over], np.asarray(followed.seen.opponent_count)[~over], atol=0.05)
