"""Observations: the information of one player."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.typing import ArrayLike

from unojax import bits, cards, game, table
from unojax.bits import Words
from unojax.device import struct
from unojax.device.random_bits import check_key
from unojax.device.tracing import traced_once
from unojax.display import Displayed
from unojax.game import Packed, State
from unojax.rules import Rules, check_same_rules
from unojax.table import Table
from unojax.table.options import Turn


@struct.dataclass(repr=False)
class Observation(Displayed):
    """One player's information at one moment: everything public, and the player's own hand.

    Attributes:
        player: Observing player, 0 or 1, int8[].
        hand: The observer's own cards, bool[108].
        pile: Cards played, including the top card, bool[108].
        opponent_count: Number of cards in the opponent's hand, int8[].
        deck_count: Number of cards in the deck, int8[].
        top_rank: Rank 0..14 of the top card, int8[].
        color: Active colour 0..3, int8[].
        penalty: Cards that the mover must draw, int8[].
        current_player: Player to move, int8[].
        last_action: Last legal action of either player, int8[], -1 at the start.
        terminated: The game is over, bool[].
        rules: Rules of the game; static.
        has_drawn: The mover has drawn a card in the current turn, which continues, bool[].
        drawn: Type 0..53 of that card if the observer is the mover, else -1, int8[].
        contested: Colour active before the pending Wild+4, if it may be challenged, else -1, int8[].
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
    rules: Rules = struct.field(pytree_node=False)
    has_drawn: Array = struct.field(default=np.bool_(False))
    drawn: Array = struct.field(default=np.int8(game.NONE))
    contested: Array = struct.field(default=np.int8(game.NONE))

    @property
    def unseen(self) -> Array:
        """Copies of each type in the opponent's hand or in the deck, int8[..., 54]."""
        seen = cards.counts(self.hand) + cards.counts(self.pile)
        return jnp.asarray(cards.along_last(np.asarray(self.rules.deck, np.int8), seen.ndim)) - seen

    @property
    def hand_count(self) -> Array:
        """Number of cards in the observer's own hand, int8[...]."""
        return self.hand.sum(-1, dtype=jnp.int8)

    @property
    def top_type(self) -> Array:
        """Type 0..53 of the top card, int32[...]."""
        return cards.type_of(self.color, self.top_rank)

    @property
    def is_my_turn(self) -> Array:
        """Whether the observer is to move, bool[...]."""
        return self.current_player == self.player

    @property
    def legal_mask(self) -> Array:
        """The observer's legal actions, bool[num_actions]; meaningful on its turn in an unfinished game."""
        if self.rules.has_plain_turns:
            return game.hand_legal_mask(self.hand, self.color, self.top_rank, self.penalty)
        return game.turn_legal_mask(self.hand, self.turn, self.rules)

    @property
    def turn(self) -> Turn:
        """Facts except the hand that the mover's options depend on, as the observer knows them."""
        return game.turn_of(self, self.deck_count, self.pile.sum(-1, dtype=jnp.int8), self.drawn, self.has_drawn)


def check_is_observation(observation: Observation, name: str) -> None:
    """Raise ValueError unless the argument of function `name` is an observation or a batch of observations."""
    if not isinstance(observation, Observation):
        raise ValueError(f"{name} takes an Observation, got {type(observation).__name__}; unojax.observe gives one")


def check_observation(observation: Observation, name: str) -> None:
    """Check the argument of function `name`, while tracing too.

    Raises:
        ValueError: If it is a batch, or no observation.
    """
    check_is_observation(observation, name)
    shapes = np.shape(observation.hand), np.shape(observation.pile), np.shape(observation.player)
    if shapes != ((cards.NUM_CARDS,), (cards.NUM_CARDS,), ()):
        raise ValueError(
            f"{name} takes a single observation, got a hand of shape {shapes[0]}; map over a batch with jax.vmap({name})"
        )


def check_transition(rules: Rules, before: Observation, after: Observation, name: str) -> None:
    """Check the observations around a transition, arguments of function `name`.

    Raises:
        ValueError: If one of them is a batch, no observation, or of other rules.
    """
    for seen in (before, after):
        check_observation(seen, name)
        check_same_rules(rules, seen.rules)


def check_counts(observation: Observation, name: str) -> None:
    """Check the cards of an observation, argument of function `name`, unless they are traced.

    Raises:
        ValueError: If a card is seen too often, or the deck has another size than the unseen cards without the opponent's.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(observation)):
        return
    observation = jax.device_get(observation)
    unseen = np.asarray(observation.rules.deck) - cards.count_types(observation.hand) - cards.count_types(observation.pile)
    if (unseen < 0).any():
        card = int(unseen.argmin())
        number = observation.rules.deck[card] - unseen[card]
        raise ValueError(
            f"{name}: hand and pile hold {number} x {cards.TYPE_NAMES[card]}, and the deck of the rules has "
            f"{observation.rules.deck[card]}"
        )
    held, deck_count = int(observation.opponent_count), int(observation.deck_count)
    expected = int(unseen.sum()) - held
    if expected < 0:
        raise ValueError(f"{name}: the opponent can hold {unseen.sum()} cards at most, those that are unseen, got {held}")
    if deck_count != expected:
        raise ValueError(
            f"{name}: deck_count must be {expected}, the {unseen.sum()} unseen cards without the opponent's {held}, got "
            f"{deck_count}; unojax.observe counts right"
        )


def winner_of(observation: Observation) -> int:
    """Return the winner of a finished game, on the host: 0, 1, or -1 if it is drawn."""
    # A game ends with an empty hand or by the count; either way the smaller hand wins.
    mine, theirs, me = int(np.sum(observation.hand)), int(observation.opponent_count), int(observation.player)
    return game.NO_WINNER if mine == theirs else me if mine < theirs else 1 - me


def observe(state: State, player: ArrayLike) -> Observation:
    """Return a player's observation of a state. A traced player other than 0 or 1 sees no hand.

    Raises:
        ValueError: If the player is a Python or NumPy integer that is neither 0 nor 1, or no integer, or if the state or the
            player is a batch.
    """
    game.check_state(state, "observe")
    if player is None or isinstance(player, str) or (isinstance(player, int | np.integer) and player not in (0, 1)):
        raise ValueError(f"player must be 0 or 1, got {player!r}")
    player = jnp.asarray(player)
    if player.shape:
        raise ValueError(f"observe takes a single player, got shape {player.shape}; map over a batch with jax.vmap(observe)")
    if not jnp.issubdtype(player.dtype, jnp.integer):
        raise ValueError(f"player must be an integer 0 or 1, got {player.dtype}")
    return _show(state, player)


@traced_once
def observe_packed(packed: Packed, player: Array) -> Observation:
    """Return a player's observation of a packed state, as `observe` does."""
    hand_0, hand_1, deck = (packed.table.cards_of(owner, packed.rules) for owner in (table.HAND_0, table.HAND_1, table.DECK))
    # Separate buffers: XLA on a CPU would otherwise recompute the words for each slot.
    hand = lax.optimization_barrier(bits.canonical(bits.where(player == 0, hand_0, hand_1)))
    counts = bits.count(hand_0), bits.count(hand_1)
    return _observation(packed.unpack(), player, bits.unpack(hand), counts, bits.count(deck))


@traced_once
def _show(state: State, player: Array) -> Observation:
    hand = (state.hands[0] & (player == 0)) | (state.hands[1] & (player == 1))
    # Count packed words: sums over booleans take much of a step's time.
    hand_counts = bits.count(bits.pack(state.hands))
    return _observation(state, player, hand, (hand_counts[0], hand_counts[1]), bits.count(bits.pack(state.deck)))


def _observation(state: State, player: Array, hand: Array, hand_counts: tuple[Array, Array], deck_count: Array) -> Observation:
    is_0, is_1 = player == 0, player == 1
    return Observation(
        player=player.astype(jnp.int8),
        hand=hand,
        pile=state.pile,
        opponent_count=jnp.where(is_0, hand_counts[1], hand_counts[0]).astype(jnp.int8),
        deck_count=deck_count.astype(jnp.int8),
        top_rank=state.top_rank,
        color=state.color,
        penalty=state.penalty,
        current_player=state.current_player,
        last_action=state.last_action,
        terminated=state.terminated,
        rules=state.rules,
        has_drawn=jnp.asarray(state.drawn >= 0),
        drawn=jnp.where(jnp.where(state.current_player == 0, is_0, is_1), state.drawn, np.int8(game.NONE)).astype(jnp.int8),
        contested=jnp.asarray(state.contested, jnp.int8),
    )


def determinize(source: ArrayLike, observation: Observation) -> State:
    """Return a full state consistent with an observation.

    The episode's fields begin as in a new game. A card that the opponent has drawn in a turn that continues is hidden, so the
    opponent decides as at the beginning of its turn.

    Args:
        source: The opponent's hand, bool[108] with `opponent_count` of the unseen cards; or a random key, consumed, for a hand
            that is uniform over them.
        observation: Observation of either player, unbatched.

    Raises:
        ValueError: If `source` is neither or a batch, the observation is a batch, or a hand of the host contradicts it.
    """
    check_observation(observation, "determinize")
    if getattr(source, "dtype", None) == np.bool_:
        hand = jnp.asarray(source)
        _check_hidden(hand, observation)
    else:
        check_key(source, "determinize")
        hand = _draw_hidden(jnp.asarray(source), observation)
    laid_out = determinize_packed(observation, bits.pack(hand))
    return game.from_table(laid_out, observation.rules, last_action=observation.last_action)


def determinize_packed(observation: Observation, hands: Words) -> Table:
    """Return tables, with no draw under way, for R canonical hands of the opponent, uint32[R] each."""
    everything = bits.all_cards(observation.rules.deck)
    own = bits.pack(observation.hand)
    # Own cards take the lowest copies of a type, the opponent's the next, the pile the last.
    not_in_pile = cards.onehot(np.asarray(observation.rules.deck, np.int8) - cards.counts(observation.pile))
    pile = bits.without(everything, bits.pack(not_in_pile))
    theirs = bits.without(bits.merge(own, hands), own)
    is_first = observation.player == 0
    meta = table.Meta(
        rank=observation.top_rank.astype(jnp.uint32),
        color=observation.color.astype(jnp.uint32),
        player=observation.current_player.astype(jnp.uint32),
        penalty=observation.penalty.astype(jnp.uint32),
        to_draw=jnp.uint32(0),
        phase=jnp.where(observation.terminated, table.OVER_DRAWN, table.PLAY).astype(jnp.uint32),
    )
    account = ()
    if observation.rules.keeps_account:
        is_known = observation.drawn >= 0
        account = jnp.broadcast_to(game.account_of(observation, observation.drawn, is_known).pack(), hands[0].shape)
        meta = meta._replace(penalty=jnp.minimum(meta.penalty, np.uint32(table.MAX_PENALTY)))
    return Table(
        low=bits.map_words(lambda a, b, p: jnp.where(is_first, a, b) | p, own, theirs, pile),
        high=bits.map_words(lambda a, b, p: jnp.where(is_first, b, a) | p, own, theirs, pile),
        meta=jnp.broadcast_to(meta.pack(), hands[0].shape),
        account=account,
    )


def _draw_hidden(key: Array, observation: Observation) -> Array:
    """Draw `opponent_count` of the unseen cards, bool[108], canonical."""
    unseen = cards.onehot(observation.unseen)
    order = jnp.argsort(jnp.where(unseen, jax.random.uniform(key, unseen.shape), np.float32(1)))
    drawn = jnp.zeros_like(unseen).at[order].set(jnp.arange(cards.NUM_CARDS) < observation.opponent_count)
    return cards.onehot(cards.counts(drawn))


def _check_hidden(hand: Array, observation: Observation) -> None:
    """Raise ValueError unless a hand of the host may be the opponent's."""
    if hand.shape != (cards.NUM_CARDS,):
        raise ValueError(
            f"determinize takes a hand bool[{cards.NUM_CARDS}], got shape {hand.shape}; map with jax.vmap(determinize)"
        )
    if any(isinstance(leaf, Tracer) for leaf in (hand, *jax.tree.leaves(observation))):
        return
    held, unseen = cards.count_types(hand), np.asarray(observation.unseen)
    if held.sum() != observation.opponent_count:
        raise ValueError(f"the opponent holds {observation.opponent_count} cards, got a hand of {held.sum()}")
    if (too_many := np.flatnonzero(held > unseen)).size:
        name = cards.TYPE_NAMES[too_many[0]]
        raise ValueError(f"the opponent can hold {unseen[too_many[0]]} x {name} at most, got {held[too_many[0]]}")
