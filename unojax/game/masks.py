"""Options of a player as masks over the actions, and back. Packed options are described in `unojax.bits`."""

from __future__ import annotations

from functools import partial
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.device.tracing import traced_once
from unojax.rules import Rules
from unojax.table import options
from unojax.table.options import Turn

_RANK_BITS: Final = np.array([*(1 << np.arange(cards.WILD)), bits.WILD_BIT, bits.WILD_DRAW_FOUR_BIT], np.uint32)
_OTHER_BITS: Final = np.zeros((cards.NUM_COLORS, 2), np.uint32)
_OTHER_BITS[0] = bits.DRAW_OPTION, bits.CHALLENGE_OPTION
_BIT_OF_ACTION: Final = np.hstack([np.kron(np.eye(cards.NUM_COLORS, dtype=np.uint32), _RANK_BITS), _OTHER_BITS])
"""uint32[4, 62]: the bit of each action in each word of options."""


@traced_once
def hand_legal_mask(hand: Array, color: Array, top_rank: Array, penalty: Array) -> Array:
    """Mark the legal actions of a player to move who holds `hand` (bool[108]), in an unfinished game: bool[61].

    Valid for rules with plain turns; `turn_legal_mask` supports all rules.
    """
    playable = bits.playable(bits.pack(hand), color.astype(jnp.uint32), top_rank.astype(jnp.uint32))
    plays = options_to_mask(playable) & (penalty == 0)
    return jnp.append(plays, ~plays.any())


@partial(traced_once, static=("rules",))
def turn_legal_mask(hand: Array, turn: Turn, rules: Rules) -> Array:
    """Mark the legal actions of a player to move who holds `hand` (bool[108]) at a turn: bool[61], or [62] with challenges."""
    return options_to_actions(options.options_of(bits.pack(hand), turn, rules), rules)


@traced_once
def options_to_mask(options: bits.Words) -> Array:
    """Write packed options (see `unojax.bits`) as `bool[60]` over the play actions."""
    rank_bits = bits.rank_bit(np.arange(cards.NUM_RANKS, dtype=np.uint32)[None])
    return ((jnp.stack(options)[:, None] & rank_bits) != 0).reshape(-1)


@partial(traced_once, static=("rules",))
def options_to_actions(words: bits.Words, rules: Rules) -> Array:
    """Write packed options as a mask over all actions, bool[61] or [62]; without any option the player draws."""
    draw = jnp.where(bits.any_of(words) == 0, bits.DRAW_OPTION, np.uint32(0))
    # Elementwise in the actions and without a concatenation, as in `bits.unpack`.
    w0, w1, w2, w3 = (
        word[..., None] & cards.along_last(of_word[: rules.num_actions], word.ndim + 1)
        for word, of_word in zip((words[0] | draw, *words[1:]), _BIT_OF_ACTION, strict=True)
    )
    return ((w0 | w1) | (w2 | w3)) != 0


@traced_once
def mask_to_options(mask: Array) -> bits.Words:
    """Pack the play actions of a `bool[60]` or `bool[61]` mask as options, the inverse of `options_to_mask`."""
    rank_bits = bits.rank_bit(np.arange(cards.NUM_RANKS, dtype=np.uint32)[None])
    words = jnp.where(mask[: cards.DRAW].reshape(cards.NUM_COLORS, -1), rank_bits, np.uint32(0)).sum(-1, dtype=jnp.uint32)
    return words[0], words[1], words[2], words[3]


@partial(traced_once, static=("rules",))
def actions_to_options(mask: Array, rules: Rules) -> bits.Words:
    """Pack a mask over all actions, the inverse of `options_to_actions`: drawing is an option only beside others."""
    w0, w1, w2, w3 = mask_to_options(mask)
    if not rules.draw_is_option:
        return w0, w1, w2, w3
    others = jnp.where(mask[cards.DRAW + 1 :].any(), bits.CHALLENGE_OPTION, np.uint32(0))
    is_choice = (mask.sum() > 1) & mask[cards.DRAW]
    return w0 | others | jnp.where(is_choice, bits.DRAW_OPTION, np.uint32(0)), w1, w2, w3
