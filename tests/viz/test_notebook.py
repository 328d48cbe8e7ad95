"""States and observations show themselves in a notebook, whatever is in them."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from IPython.core.formatters import DisplayFormatter

from tests.viz.games import seen_by
from tests.viz.reading import Reader, cards_in, parse, part
from unojax.game import State, init
from unojax.observation import observe
from unojax.text import make_state
from unojax.viz import position_svg


def batch(position, *shape):
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (*shape, *np.shape(leaf))), jax.device_get(position))


def test_single_ones_are_pictures():
    state = make_state("R5 W", "Y0", "B1")
    assert state._repr_svg_() == position_svg(state) and state._repr_html_() is None
    seen = seen_by(state)[1]
    assert seen._repr_svg_() == position_svg(seen) and seen._repr_html_() is None
    assert not cards_in(part(parse(seen._repr_svg_()), "hand-0"))
    assert jax.device_get(state)._repr_svg_() == position_svg(state)


def test_a_notebook_finds_the_picture_by_itself():
    """As IPython asks any object: for a representation by the name of its type."""
    for position in (state := make_state("R5 W", "Y0", "B1"), seen_by(state)[1]):
        data, _ = DisplayFormatter().format(position)
        assert data["image/svg+xml"] == position_svg(position) and data["text/plain"] == repr(position)
        assert "text/html" not in data


def test_batches_are_a_line():
    state = make_state("R5 W", "Y0", "B1")
    games = batch(state, 1500).replace(terminated=np.arange(1500) < 20, truncated=np.arange(1500) >= 1490)
    assert games._repr_svg_() is None
    assert Reader(games._repr_html_()).said[0].startswith("State[1500]: 1,500 games, 30 of them over.")
    seen = batch(seen_by(state)[0], 2, 3)
    assert seen._repr_svg_() is None
    assert Reader(seen._repr_html_()).said[0].startswith("Observation[2, 3]: 6 observations, 0 of them over.")
    assert Reader(batch(state, 0)._repr_html_()).said[0].startswith("State[0]: 0 games, 0 of them over.")


def test_anything_else_is_left_alone():
    shown = []

    def look(state):
        shown.extend([state._repr_svg_(), state._repr_html_(), observe(state, 0)._repr_svg_()])
        return state

    state = make_state("R5 W", "Y0", "B1")
    jax.eval_shape(look, state)
    jax.eval_shape(jax.vmap(look), batch(state, 2))
    for odd in (
        jax.eval_shape(init, jax.random.key(0)),
        jax.tree.map(lambda leaf: None, state),
        state.replace(hands=None),
        state.replace(hands=state.hands[0]),
        state.replace(deck=batch(state.deck, 2)),
        state.replace(color=np.int8(9)),
        State(**dict.fromkeys(vars(state), 0)),
        partial(jax.tree.map, lambda leaf: leaf[..., 0], batch(state, 2))(),
    ):
        shown += [odd._repr_svg_(), odd._repr_html_()]
    assert shown == [None] * len(shown) and len(shown) == 22
