"""What one player may know, and nothing else."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.game import State
from unojax.rules import Rules


@struct.dataclass
class Observation:
    """One player's information at one moment: everything public, and the player's own hand.

    There is no path from here to the opponent's hand or to what the deck holds. Solvers, beliefs and policies take an
    `Observation`, so a leak would be a type error.

    Attributes:
        player: int8[] the observing player, 0 or 1.
        hand: bool[108] the observer's own cards.
        pile: bool[108] the cards played, the top card among them.
        opponent_count: int8[] cards in the opponent's hand.
        deck_count: int8[] cards left in the deck.
        top_rank: int8[] rank 0..14 of the top card.
        color: int8[] active colour 0..3.
        penalty: int8[] cards the mover must draw: 0, 2 or 4.
        current_player: int8[] who moves next.
        last_action: int8[] the last legal action of whoever moved, -1 at the start.
        terminated: bool[] the game is over.
        composition: static; the rules' copy counts of the 54 types.
    """

    player: Array
    hand: Array
    pile: Array
    opponent_count: Array
    deck_count: Array
    top_rank: Array
    color: Array
    penalty: Array
    current_player: Array
    last_action: Array
    terminated: Array
    composition: tuple[int, ...] = struct.field(pytree_node=False)

    @property
    def unseen(self) -> Array:
        """int8[..., 54]: copies of each type that are in the opponent's hand or in the deck."""
        seen = cards.counts(self.hand) + cards.counts(self.pile)
        return jnp.asarray(np.asarray(self.composition, np.int8)) - seen

    @property
    def hand_count(self) -> Array:
        """int8[...]: cards in the observer's own hand."""
        return self.hand.sum(-1, dtype=jnp.int8)

    @property
    def top_type(self) -> Array:
        """int32[...]: card type 0..53 of the top card."""
        return cards.type_of(self.color, self.top_rank)

    @property
    def is_my_turn(self) -> Array:
        """bool[...]: the observer moves next."""
        return self.current_player == self.player

    @property
    def legal_mask(self) -> Array:
        """bool[61]: the observer's legal actions; meaningful on the observer's turn in an unfinished game."""
        return game.hand_legal_mask(self.hand, self.color, self.top_rank, self.penalty)

    def _repr_svg_(self) -> str | None:
        from unojax.viz.notebook import repr_svg

        return repr_svg(self)

    def _repr_html_(self) -> str | None:
        from unojax.viz.notebook import repr_html

        return repr_html(self)


def check_rules(observation: Observation, rules: Rules) -> None:
    """Check that an observation is of a game with the deck of `rules`; decks are static, so this works while tracing too.

    Raises:
        ValueError: it is not.
    """
    if observation.composition != rules.deck:
        raise ValueError(
            f"the observation is of a game with another deck ({sum(observation.composition)} cards) than rules.deck "
            f"({rules.num_cards} cards); pass the rules that the game is played under"
        )


def observe(state: State, player: ArrayLike, *, rules: Rules = Rules()) -> Observation:
    """What `player` may know of a state.

    Args:
        state: the game.
        player: 0 or 1. An array outside sees no hand at all.
        rules: static.

    Raises:
        ValueError: a Python or NumPy integer that is neither 0 nor 1.
    """
    if isinstance(player, int | np.integer) and player not in (0, 1):
        raise ValueError(f"player must be 0 or 1, got {player}")
    player = jnp.asarray(player)
    is_0, is_1 = player == 0, player == 1
    # Counted packed: sums over booleans take a good part of a step's time.
    hand_counts = bits.count(bits.pack(state.hands)).astype(jnp.int8)
    return Observation(
        player=player.astype(jnp.int8),
        hand=(state.hands[0] & is_0) | (state.hands[1] & is_1),
        pile=state.pile,
        opponent_count=jnp.where(is_0, hand_counts[1], hand_counts[0]),
        deck_count=bits.count(bits.pack(state.deck)).astype(jnp.int8),
        top_rank=state.top_rank,
        color=state.color,
        penalty=state.penalty,
        current_player=state.current_player,
        last_action=state.last_action,
        terminated=state.terminated,
        composition=rules.deck,
    )
