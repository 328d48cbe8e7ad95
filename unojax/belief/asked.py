"""Likelihood of an opponent's action for all hands of a joint table."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.belief import history
from unojax.belief.joint_table import counts_at
from unojax.belief.opponents import OpponentModel, likelihood_of, uniform_opponent
from unojax.observation import Observation
from unojax.table.options import of_type, playable

_CHUNK: Final = 2048
"""Hands per call of an opponent model; a fixed size, so that a model is compiled once."""


def likelihood(
    before: Observation, action: int, may_hold: np.ndarray, types: np.ndarray, opponent: OpponentModel, drawn: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a model's pi(action | H) for every possible hand H of the opponent.

    `uniform_opponent` is evaluated by a division in float64, so that exact beliefs exceed a model's float32 precision.

    Args:
        before: The observer's view when the opponent decides.
        action: Action of the opponent.
        may_hold: bool, possible hands in the joint table; others get 0.
        types: int64[T] card types of the axes.
        opponent: Opponent model.
        drawn: Type of the card that the opponent has just drawn, if any.

    Returns:
        float64 of each hand, 0 if the action is illegal; and bool, whether there was a choice.
    """
    ask = partial(_ask, before, jnp.int32(action), jnp.int8(drawn), opponent=opponent)
    values, num_legal = _over_hands(ask, may_hold, types)
    if opponent is uniform_opponent:
        values = (values > 0) / np.maximum(num_legal, 1)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("the opponent model must give finite likelihoods of at least 0")
    return values, num_legal > 1


def fits(before: Observation, may_hold: np.ndarray, types: np.ndarray, drawn: int) -> np.ndarray:
    """Return for each hand (with the card in it) whether a card of type `drawn` may be played: bool."""
    return _over_hands(partial(_fits, before, jnp.int8(drawn)), may_hold, types)[0] > 0


def _over_hands(ask, may_hold: np.ndarray, types: np.ndarray) -> list[np.ndarray]:
    index = np.nonzero(may_hold)
    onehots = cards.onehot_of(counts_at(index, types))
    results = [np.zeros(may_hold.shape), np.zeros(may_hold.shape)]
    if not len(onehots):
        return results
    padded = np.zeros((-(-len(onehots) // _CHUNK), _CHUNK, cards.NUM_CARDS), bool)
    padded.reshape(-1, cards.NUM_CARDS)[: len(onehots)] = onehots
    # A padding row repeats a real hand, so that the model never evaluates an impossible one.
    padded.reshape(-1, cards.NUM_CARDS)[len(onehots) :] = onehots[0]
    answers = [jax.device_get(ask(chunk)) for chunk in padded]
    for result, parts in zip(results, zip(*answers, strict=True), strict=True):
        result[index] = np.concatenate(parts)[: len(onehots)]
    return results


@partial(jax.jit, static_argnames="opponent")
def _ask(before: Observation, action: Array, drawn: Array, hands: Array, *, opponent: OpponentModel) -> tuple[Array, Array]:
    def one(hand: Array) -> tuple[Array, Array]:
        view = dataclasses.replace(history.imagine(before, hand), drawn=drawn)
        legal = view.legal_mask
        return likelihood_of(opponent, view, legal, action), legal.sum(dtype=jnp.int32)

    return jax.vmap(one)(hands)


@jax.jit
def _fits(before: Observation, drawn: Array, hands: Array) -> tuple[Array, Array]:
    color, rank = jnp.maximum(jnp.asarray(cards.COLOR_OF_TYPE)[drawn], 0), jnp.asarray(cards.RANK_OF_TYPE)[drawn]

    def one(hand: Array) -> Array:
        on_top = playable(bits.pack(hand), before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32), before.rules)
        alone = of_type(color.astype(jnp.uint32), rank.astype(jnp.uint32))
        return bits.any_of(bits.map_words(lambda a, b: a & b, on_top, alone)) != 0

    fit = jax.vmap(one)(hands).astype(jnp.float32)
    return fit, fit
