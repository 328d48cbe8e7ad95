"""A player's options on the host."""

from __future__ import annotations

from functools import partial

import numpy as np
from jax import Array

from unojax import cards
from unojax.device.programs import Program
from unojax.observation import Observation


def legal_actions(view: Observation) -> np.ndarray:
    """Return the observer's legal actions, see `Observation.legal_mask`."""
    return np.asarray(_legal_mask(view))


def choices(view: Observation) -> np.ndarray:
    """Return the observer's legal actions except a forced draw, bool[`Rules.num_choices`]."""
    legal = legal_actions(view)
    plays = legal[: view.rules.num_choices]
    return plays if legal.sum() > 1 or not legal[cards.DRAW] else np.zeros_like(plays)


@partial(Program, is_light=True)
def _legal_mask(view: Observation) -> Array:
    return view.legal_mask
