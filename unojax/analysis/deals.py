"""Deals of `unojax.simulate`, reproduced from the key and the number of the game."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, table
from unojax.decks import is_int
from unojax.device.random_bits import key_words
from unojax.rules import Rules, as_rules
from unojax.simulation import MAX_GAMES
from unojax.simulation.slots import deal, fresh_slots

_GAMES_PER_CALL = 2**16


class Deals(NamedTuple):
    """Beginnings of G games.

    Attributes:
        hands: Dealt copies of each type, int8[G, 2, 54], before a start card makes a player draw.
        top: Type of the start card, int8[G].
    """

    hands: np.ndarray
    top: np.ndarray


def deal_hands(key: Array, num_games: int, *, rules: Rules | str = Rules()) -> Deals:
    """Return the deals of games 0 .. num_games - 1 of `simulate(key, ..., rules=rules)`.

    Raises:
        ValueError: If `num_games` is out of range, or the rules are invalid.
    """
    rules = as_rules(rules)
    if not (is_int(num_games) and 1 <= num_games <= MAX_GAMES):
        raise ValueError(f"num_games must be an integer in [1, {MAX_GAMES}], got {num_games!r}")
    seed = key_words(key)
    # Of one size, so that they share a program; the last part is cut.
    size = min(_GAMES_PER_CALL, num_games)
    parts = [jax.device_get(_deal(seed, jnp.uint32(start), size=size, rules=rules)) for start in range(0, num_games, size)]
    hands, top = (np.concatenate(arrays)[:num_games] for arrays in zip(*parts, strict=True))
    return Deals(hands, top)


@partial(jax.jit, static_argnames=("size", "rules"))
def _deal(seed: tuple[Array, Array], start: Array, *, size: int, rules: Rules) -> tuple[Array, Array]:
    number = start + jnp.arange(size, dtype=jnp.uint32)
    dealt = deal(fresh_slots(number, rules), seed, 2 * rules.hand_size + 1).table
    meta = dealt.unpack_meta()
    hands = [cards.counts(bits.unpack(bits.canonical(dealt.cards_of(owner, rules)))) for owner in (table.HAND_0, table.HAND_1)]
    return jnp.stack(hands, 1), cards.type_of(meta.color, meta.rank).astype(jnp.int8)
