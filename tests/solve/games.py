"""Trees of the solver's tests, and a policy that depends on the whole observation."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import jax.numpy as jnp
import numpy as np

from tests.helpers import deck_of, variant
from tests.solve import oracle
from unojax import Rules, cards, solve

GAMES: Final = {
    "numbers": Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2"), hand_size=2, max_steps=12),
    "all ranks": Rules(deck=deck_of("R1 R1 RS Y1 Y+2 W W+4"), hand_size=2, max_steps=5),
    "skips pass": Rules(deck=deck_of("R1 RS R2 YR Y2"), hand_size=2, max_steps=9, skip_forfeits=False),
    "any start": Rules(deck=deck_of("R1 YS Y+2 W W"), hand_size=1, max_steps=6, start_card="any", first_player="random"),
    "three colors": Rules(deck=deck_of("R1 Y1 Y2 G1 W W+4"), hand_size=1, max_steps=5, start_card="any"),
}


@lru_cache
def tree_of(name: str, merged: bool = True) -> solve.Tree:
    return solve.enumerate_game(GAMES[name], merge_colors=merged)


@lru_cache
def root_of(name: str, merged: bool = True) -> oracle.Node:
    return oracle.grow(variant(GAMES[name]), merge_colors=merged)


def leaning(observation, mask):
    """Choose unevenly by the whole observation, but equally among colours that the deck lacks."""
    types = jnp.arange(cards.NUM_TYPES, dtype=jnp.float32)
    held = (cards.counts(observation.hand) * jnp.sin(types + 1)).sum()
    played = (cards.counts(observation.pile) * jnp.cos(3 * types)).sum()
    rest = observation.opponent_count + 2 * observation.deck_count + 3 * observation.top_rank + 5 * observation.player
    rest = rest + observation.last_action % cards.NUM_RANKS
    ranks = jnp.append(jnp.tile(jnp.arange(cards.NUM_RANKS), cards.NUM_COLORS), 0)
    in_deck = np.array([any(observation.rules.deck[c * 13 : c * 13 + 13]) for c in range(4)])
    declared = jnp.append(jnp.where(jnp.asarray(in_deck), jnp.arange(1, 5), 7).repeat(cards.NUM_RANKS), 0)
    weights = jnp.where(mask, 1.2 + jnp.sin(held + 2 * played + rest + ranks + declared), 0.0)
    return weights / weights.sum()


def earnings(tree: solve.Tree, player: int, own: np.ndarray, others: np.ndarray) -> float:
    """Return the expected return of a player's strategy against another."""
    return (1 - 2 * player) * solve.value(tree, (own, others) if player == 0 else (others, own))
