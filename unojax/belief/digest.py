"""A belief in the figures that are shown of it, found in one program: `digest`."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax import Array

from unojax.belief import resample, summary
from unojax.belief.hands import Hands
from unojax.observation import Observation


class Digest(NamedTuple):
    """Figures of a belief of N hands, as the functions of `unojax.belief.summary` give them, on the present top card."""

    prob_holds: Array
    expected_counts: Array
    prob_color: Array
    prob_no_playable: Array
    num_distinct: Array
    ess: Array
    num_hands: Array | int


@jax.jit
def digest(hands: Hands, observation: Observation) -> Digest:
    """Sum up N weighted hands that the opponent may hold at a position. Unbatched, compiled for each N."""
    return Digest(
        prob_holds=summary.prob_holds(hands),
        expected_counts=summary.expected_counts(hands),
        prob_color=summary.prob_color(hands),
        prob_no_playable=summary.prob_no_playable(hands, observation.color, observation.top_rank),
        num_distinct=summary.num_distinct(hands),
        ess=resample.effective_sample_size(hands.log_weights),
        num_hands=hands.log_weights.shape[-1],
    )
