"""Bounds of the opponent's cards by kind against the true hands, and their value as a forecast."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.helpers import by_kind, counts_of, slow_but
from unojax import bits, cards, game
from unojax.belief import color_bounds
from unojax.belief.updaters import ColorBoundsFilter
from unojax.observation import Observation
from unojax.value.features import outlook_of_ages, outlook_of_hand, outlook_of_unseen
from unojax.view import view_of

PROGRAMS: Final = 60  # in the slow part, several for each rule set


@jax.jit
@jax.vmap
def track(seen: Observation, actions: jax.Array) -> jax.Array:
    """Return the bounds before each transition of a game, uint32[T]."""
    updater, key = ColorBoundsFilter(), jax.random.key(0)
    before, after = jax.tree.map(lambda x: x[:-1], seen), jax.tree.map(lambda x: x[1:], seen)

    def one_step(memory: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        return updater.update(key, memory, *step)[0], memory

    return jax.lax.scan(one_step, updater.init(key, jax.tree.map(lambda x: x[0], seen)), (before, actions, after))[1]


@jax.jit
@jax.vmap
@jax.vmap
def outlooks(seen: Observation, bounds: jax.Array, hidden: jax.Array) -> dict[str, Any]:
    """Return the outlooks by bounds, without bounds, by unseen cards, and by the true hand."""
    view, nothing = view_of(seen), jnp.asarray(color_bounds.NOTHING_SHOWN)
    by_unseen, truth = outlook_of_unseen(view), outlook_of_hand(bits.pack(cards.onehot(hidden)))
    return {
        "bounds": outlook_of_ages(view, bounds),
        "no bounds": outlook_of_ages(view, nothing),
        "unseen": by_unseen,
        "truth": truth,
    }


@pytest.mark.parametrize("name", slow_but(["default"], ["default", "official", "rlcard", "house"]))
def test_bounds_hold_and_foresee_the_hand(name: str) -> None:
    """The bounds hold, are often reached, and predict the hand better than unseen cards.

    Without bounds, `outlook_of_ages` approximates `outlook_of_unseen`.
    """
    states, seen = jax.tree.map(lambda x: x[:, :101], (corpus.games(name).states, corpus.views(name, 0)))
    actions = np.where(np.diff(states.step_count, axis=1) > 0, states.last_action[:, 1:], game.NO_ACTION)
    shown, live = track(seen, actions), ~states.terminated[:, :-1]
    hidden = counts_of(states.hands[:, :-1, 1])
    bounds, held = np.asarray(color_bounds.unpack(shown)).astype(int), by_kind(hidden)
    assert (held <= bounds)[bounds != color_bounds.UNKNOWN].all()
    says = (bounds < held.sum(-1, keepdims=True)) & live[..., None]
    # A voluntary draw shows nothing.
    assert says.any() != states.rules.may_draw
    assert states.rules.may_draw or (held == bounds)[says].mean() > 0.1
    if name != "default":
        return

    before = jax.tree.map(lambda x: x[:, :-1], seen)
    found = jax.device_get(outlooks(before, shown, hidden.astype(np.int8)))
    for field, tolerance in (("expected", 1e-5), ("spread", 1e-5), ("none_of_color", 4e-3), ("none_playable", 4e-3)):
        error = np.abs(getattr(found["unseen"], field) - getattr(found["no bounds"], field))[live]
        assert error.max() < tolerance, field
    for field, share in (("expected", 0.97), ("none_of_color", 0.85), ("none_playable", 0.95)):
        truth = getattr(found["truth"], field)
        by_bounds, by_unseen = (((getattr(found[by], field) - truth)[live] ** 2).mean() for by in ("bounds", "unseen"))
        assert by_bounds < share * by_unseen, field
    np.testing.assert_allclose(found["bounds"].expected.sum(-1)[live], before.opponent_count[live], atol=0.05)


def word(*bounds: int) -> np.uint32:
    return np.uint32(sum(bound << 5 * kind for kind, bound in enumerate(bounds)))


def test_draws_and_plays_by_hand() -> None:
    draw, play = jax.jit(color_bounds.after_draw), jax.jit(color_bounds.after_play)
    nothing, free, red = color_bounds.NOTHING_SHOWN, color_bounds.UNKNOWN, np.uint32(cards.RED)
    # No red card and no wild one; then a card is drawn.
    shown = draw(nothing, 1, True, red)
    for found, expected in (
        (nothing, [free] * 5),
        (shown, [1, free, free, free, 1]),
        # A penalty shows nothing.
        (draw(shown, 4, False, red), [5, free, free, free, 5]),
        (draw(word(30, 30, 0, 31, 28), 4, False, red), [31, 31, 4, 31, 31]),
        # A play of a colour without a bound is no evidence about the others.
        (play(shown, np.uint32(cards.BLUE)), [1, free, free, free, 1]),
        # A red card was one of at most two: of the wild cards, at most three, one less can be left; of one blue, none less.
        (play(word(2, free, 1, 4, 3), red), [1, free, 1, 3, 2]),
        (play(word(2, free, 1, 4, 3), np.uint32(color_bounds.WILDS)), [2, free, 1, 3, 2]),
    ):
        assert color_bounds.unpack(jnp.asarray(found)).tolist() == expected
