"""States and observations display themselves in a notebook, and never raise there."""

from __future__ import annotations

import jax
import numpy as np
from IPython.core.formatters import DisplayFormatter

from tests.viz.games import jitted_observe
from tests.viz.reading import Reader, cards_in, parse, part
from unojax.game import State, init
from unojax.observation import observe
from unojax.text import make_state
from unojax.viz import position_svg

STATE = make_state("R5 W", "Y0", "B1")


def batch(position, *shape):
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (*shape, *np.shape(leaf))), jax.device_get(position))


def test_single_positions_are_pictures():
    """IPython asks an object for a representation by the name of its type."""
    seen = jitted_observe(STATE, np.int8(1))
    for position in (STATE, seen, jax.device_get(STATE)):
        data, _ = DisplayFormatter().format(position)
        assert data["image/svg+xml"] == position._repr_svg_() == position_svg(position)
        assert data["text/plain"] == repr(position) and "text/html" not in data and position._repr_html_() is None
    assert not cards_in(part(parse(seen._repr_svg_()), "hand-0"))


def test_batches_are_a_line():
    games = batch(STATE, 1500).replace(terminated=np.arange(1500) < 20, truncated=np.arange(1500) >= 1490)
    seen = batch(jitted_observe(STATE, np.int8(0)), 2, 3)
    for many, line in (
        (games, "State[1500]: 1,500 games, 30 of them over."),
        (seen, "Observation[2, 3]: 6 observations, 0 of them over."),
        (batch(STATE, 0), "State[0]: 0 games, 0 of them over."),
    ):
        assert many._repr_svg_() is None and Reader(many._repr_html_()).said[0].startswith(line)


def test_anything_else_has_no_picture():
    """Under a transformation, or if a field is missing, has another shape or is out of range."""
    shown = []

    def look(state):
        shown.extend([state._repr_svg_(), state._repr_html_(), observe(state, 0)._repr_svg_()])
        return state

    jax.eval_shape(look, STATE)
    jax.eval_shape(jax.vmap(look), batch(STATE, 2))
    for odd in (
        jax.eval_shape(init, jax.random.key(0)),
        jax.tree.map(lambda leaf: None, STATE),
        STATE.replace(hands=None),
        STATE.replace(hands=np.asarray(STATE.hands)[0]),
        STATE.replace(deck=batch(STATE.deck, 2)),
        STATE.replace(color=np.int8(9)),
        State(**dict.fromkeys(vars(STATE), 0)),
        jax.tree.map(lambda leaf: leaf[..., 0], batch(STATE, 2)),
    ):
        shown += [odd._repr_svg_(), odd._repr_html_()]
    assert shown == [None] * len(shown) and len(shown) == 22
