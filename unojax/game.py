"""The game as pure functions of one unbatched `State`: `init`, `legal_mask`, `step`. Batch them with `vmap`.

The rules themselves are in `unojax.table`; this module converts at the border, checks actions, and adds what belongs to an
episode: rewards, truncation, errors.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any, Final, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from jax.experimental import checkify
from jax.typing import ArrayLike

from unojax import bits, cards, table
from unojax.device.lanes import walk
from unojax.device.random_bits import check_key
from unojax.device.tracing import traced_once
from unojax.display import Displayed
from unojax.rules import Rules, agreed_rules
from unojax.table import Table, options
from unojax.table.account import Account
from unojax.table.options import Picked, Turn

NO_ACTION: Final = -1
"""`last_action` before the first step."""
NO_WINNER: Final = -1
"""`winner` of an unfinished, truncated or drawn game."""

NONE: Final = -1
"""`drawn` and `contested` where there is no such card or colour."""


class Error(enum.IntFlag):
    """Bits of `State.error`. They stay set once they are."""

    ILLEGAL_ACTION = 1
    """The action exists but was not legal."""
    ACTION_OUT_OF_RANGE = 2
    """There is no such action: it was not in 0..60 (0..61 where a Wild+4 may be challenged)."""


@struct.dataclass(repr=False)
class State(Displayed):
    """One game. All sets of cards are canonical one-hots (see `unojax.cards`).

    Attributes:
        hands: bool[2, 108] cards held by each player. Each row is hidden from the other player.
        deck: bool[108] cards left to draw, a multiset without order. Hidden from both players.
        pile: bool[108] cards played, the top card among them.
        top_rank: int8[] rank 0..14 of the top card.
        color: int8[] active colour 0..3: the top card's, or the one declared with it.
        current_player: int8[] who moves next, 0 or 1. At the end of a game: who moved last.
        penalty: int8[] cards the mover must draw for a +2 or Wild+4: 0, 2 or 4; more where they add up or a challenge failed.
        terminated: bool[] the game is over.
        truncated: bool[] the game was cut off by `Rules.max_steps` before it was over.
        winner: int8[] 0 or 1; -1 while there is none, and in a drawn game.
        rewards: float32[2] each player's reward for the last step.
        step_count: int32[] steps so far: plays and draws, a draw of several cards being one.
        error: uint8[] bits of `Error`; 0 = every action so far was legal.
        last_action: int8[] the last legal action, -1 at the start.
        rules: static; what the game is played under.
        drawn: int8[] type 0..53 of the card that the mover has drawn in the turn under way, which goes on; else -1. Hidden from
            the other player.
        contested: int8[] the colour that was active before the pending Wild+4, if it may be challenged; else -1.
    """

    hands: Array
    deck: Array
    pile: Array
    top_rank: Array
    color: Array
    current_player: Array
    penalty: Array
    terminated: Array
    truncated: Array
    winner: Array
    rewards: Array
    step_count: Array
    error: Array
    last_action: Array
    rules: Rules = struct.field(pytree_node=False)
    drawn: Array = struct.field(default=np.int8(NONE))
    contested: Array = struct.field(default=np.int8(NONE))

    @property
    def top_type(self) -> Array:
        """int32[]: card type 0..53 of the top card."""
        return cards.type_of(self.color, self.top_rank)

    @property
    def is_over(self) -> Array:
        """bool[]: terminated or truncated."""
        return self.terminated | self.truncated


def init(key: Array, *, rules: Rules = Rules()) -> State:
    """Deal a new game.

    Args:
        key: consumed by the deal and by what of the start is random.
        rules: static; the state carries them from here on.

    Raises:
        ValueError: `key` is a batch, or no key.
    """
    check_key(key, "init")
    return _deal(key, rules=rules)


@partial(traced_once, static=("rules",))
def _deal(key: Array, rules: Rules) -> State:
    num_nodes = 2 * rules.hand_size + 1
    if rules.start_effects == "keep_turn":
        # A reshuffle and the cards of a start card.
        num_nodes += 1 + max(cards.DRAW_OF_RANK)
    words = jax.random.bits(key, (num_nodes + 1,), jnp.uint32)

    def decide(index: ArrayLike, dealt: Table, move: Array | None = None) -> Array:
        node = table.find_node(dealt, rules)
        move = table.resolve(dealt, node, Picked(*bits.choose(node.deck, words[index])), words[-1], rules)
        if rules.start_effects == "keep_turn":
            meta = dealt.unpack_meta()
            move = jnp.where((meta.phase == table.PLAY) & (meta.to_draw == 0), table.stay(dealt), move)
        return move

    undealt = table.new_table(jnp.uint32(0), rules)
    dealt = walk(undealt, decide(0, undealt), decide, table.commit, num_nodes=num_nodes)
    return from_table(dealt, rules)


def legal_mask(state: State, *, rules: Rules | None = None) -> Array:
    """Mark the legal actions of the player to move: bool[61]; exactly {DRAW} if drawing is forced, all when the game is over.

    Under rules with challenges the mask is bool[62] (`Rules.num_actions`).

    A finished game accepts every action and ignores it, so that normalising a policy over the mask never divides by zero.

    Raises:
        ValueError: the state is a batch, or `rules` are given and not those of the state.
    """
    check_state(state, "legal_mask")
    agreed_rules(state.rules, rules)
    return _legal_mask(state)


@traced_once
def _legal_mask(state: State) -> Array:
    hand = jnp.where(state.current_player == 0, state.hands[0], state.hands[1])
    if state.rules.has_plain_turns:
        return hand_legal_mask(hand, state.color, state.top_rank, state.penalty) | state.is_over
    deck_count, pile_count = (bits.count(bits.pack(cards)) for cards in (state.deck, state.pile))
    return (
        turn_legal_mask(hand, turn_of(state, deck_count, pile_count, state.drawn, state.drawn >= 0), state.rules) | state.is_over
    )


@traced_once
def hand_legal_mask(hand: Array, color: Array, top_rank: Array, penalty: Array) -> Array:
    """Mark the legal actions of a player to move who holds `hand` (bool[108]), in an unfinished game: bool[61].

    Right for rules with plain turns; see `turn_legal_mask` for all.
    """
    playable = bits.playable(bits.pack(hand), color.astype(jnp.uint32), top_rank.astype(jnp.uint32))
    plays = options_to_mask(playable) & (penalty == 0)
    return jnp.append(plays, ~plays.any())


@partial(traced_once, static=("rules",))
def turn_legal_mask(hand: Array, turn: Turn, rules: Rules) -> Array:
    """Mark the legal actions of a player to move who holds `hand` (bool[108]) at a turn: bool[61], or [62] with challenges."""
    return options_to_actions(options.options_of(bits.pack(hand), turn, rules), rules)


def turn_of(seen: Any, deck_count: Array, pile_count: Array, drawn: ArrayLike, has_drawn: ArrayLike) -> Turn:
    """Give what the mover's options depend on, apart from its hand, by the fields of a state or an observation."""
    drawn = jnp.maximum(jnp.asarray(drawn, jnp.int32), 0)
    color, rank = jnp.maximum(jnp.asarray(cards.COLOR_OF_TYPE)[drawn], 0), jnp.asarray(cards.RANK_OF_TYPE)[drawn]
    return Turn(
        color=seen.color.astype(jnp.uint32),
        rank=seen.top_rank.astype(jnp.uint32),
        penalty=seen.penalty.astype(jnp.uint32),
        can_draw=options.has_drawable(deck_count.astype(jnp.int32), pile_count.astype(jnp.int32), seen.rules),
        drawn_color=color.astype(jnp.uint32),
        drawn_rank=rank.astype(jnp.uint32),
        has_drawn=jnp.asarray(has_drawn),
        contested=(jnp.asarray(seen.contested, jnp.int32) + 1).astype(jnp.uint32),
    )


@traced_once
def options_to_mask(options: bits.Words) -> Array:
    """Write packed options (see `unojax.bits`) as `bool[60]` over the play actions."""
    rank_bits = bits.rank_bit(np.arange(cards.NUM_RANKS, dtype=np.uint32)[None])
    return ((jnp.stack(options)[:, None] & rank_bits) != 0).reshape(-1)


@partial(traced_once, static=("rules",))
def options_to_actions(words: bits.Words, rules: Rules) -> Array:
    """Write packed options as a mask over all actions, bool[61] or [62]; without any option the player draws."""
    plays, must_draw = options_to_mask(words), bits.any_of(words) == 0
    draw = must_draw | ((words[0] & bits.DRAW_OPTION) != 0)
    others = [draw, (words[0] & bits.CHALLENGE_OPTION) != 0][: rules.num_actions - cards.DRAW]
    return jnp.concatenate([plays, jnp.stack(others)])


@traced_once
def mask_to_options(mask: Array) -> bits.Words:
    """Pack the play actions of a `bool[60]` or `bool[61]` mask as options, the inverse of `options_to_mask`."""
    rank_bits = bits.rank_bit(np.arange(cards.NUM_RANKS, dtype=np.uint32)[None])
    words = jnp.where(mask[: cards.DRAW].reshape(cards.NUM_COLORS, -1), rank_bits, np.uint32(0)).sum(-1, dtype=jnp.uint32)
    return words[0], words[1], words[2], words[3]


@traced_once
def actions_to_options(mask: Array) -> bits.Words:
    """Pack a mask over all actions, the inverse of `options_to_actions`: drawing is an option only beside others."""
    w0, w1, w2, w3 = mask_to_options(mask)
    others = jnp.where(mask[cards.DRAW + 1 :].any(), bits.CHALLENGE_OPTION, np.uint32(0))
    is_choice = (mask.sum() > 1) & mask[cards.DRAW]
    return w0 | others | jnp.where(is_choice, bits.DRAW_OPTION, np.uint32(0)), w1, w2, w3


def step(state: State, action: ArrayLike, key: Array, *, rules: Rules | None = None) -> State:
    """Play an action for the player to move.

    Args:
        state: a finished game stays as it is, with zero rewards.
        action: integer scalar in 0..60 (0..61 where a Wild+4 may be challenged). One that is out of range or illegal changes
            nothing but `error` and the rewards (0).
        key: consumed by draws only.
        rules: those of the state, if given.

    Raises:
        ValueError: the state, the action or the key is a batch, the action is no integer, or `rules` are not the state's.
    """
    check_state(state, "step")
    agreed_rules(state.rules, rules)
    check_key(key, "step")
    return _step(state, _single_action(action, "step"), key)


@traced_once
def _step(state: State, action: Array, key: Array) -> State:
    return step_with(state, action, RandomPicker(key, state.rules))


class RandomPicker:
    """Picks the cards drawn in a step uniformly at random, and the colour of a wild that is laid by chance."""

    def __init__(self, key: Array, rules: Rules):
        # More words than picks only where the rules lay cards by chance.
        num_words = max_nodes(rules) + (rules.play_drawn == "auto")
        self._words = jax.random.bits(key, (num_words,), jnp.uint32)

    def __call__(self, index: ArrayLike, deck: bits.Words) -> tuple[Array, Array]:
        return bits.choose(deck, self._words[index])

    @property
    def coins(self) -> Array:
        """Random bits for `table.resolve`."""
        return self._words[-1]


class GivenCards:
    """Picks the cards drawn in a step so that a given deck is left.

    Each pick is a card of which the deck holds more copies than the deck to be left. When there is none, that deck can't be
    reached, and any card of the deck is picked. So the state after the step is a possible one in every case; whether the deck
    was, is told by comparing.

    Args:
        deck_after: canonical set; with a reshuffle in the step, the deck after it and the draw.
        color: int8[] of a wild that is laid by chance.
    """

    def __init__(self, deck_after: bits.Words, color: Array):
        self._deck_after = deck_after
        self.coins = color.astype(jnp.uint32) << np.uint32(30)

    def __call__(self, index: ArrayLike, deck: bits.Words) -> tuple[Array, Array]:
        del index
        surplus = bits.map_words(lambda a, b: a & ~b, bits.canonical(deck), self._deck_after)
        wanted = bits.map_words(lambda options, w: bits.both_copies(options) & w, bits.types(surplus), deck)
        return bits.choose(bits.where(bits.any_of(wanted) != 0, wanted, deck), jnp.zeros_like(deck[0]))


class Picker(Protocol):
    """Decides what chance decides in a step."""

    @property
    def coins(self) -> Array:
        """Random bits for `table.resolve`: uint32[]."""
        ...

    def __call__(self, index: ArrayLike, deck: bits.Words, /) -> tuple[Array, Array]:
        """Pick the card of `deck` that is drawn at node `index` of the step: (word, position)."""
        ...


def max_nodes(rules: Rules) -> int:
    """Count the nodes of the longest step: a decision to draw, where there is one, a reshuffle, and the cards."""
    return 1 + rules.max_draw + rules.draw_is_option


def step_with(state: State, action: ArrayLike, pick_card: Picker) -> State:
    """Play an action as `step` does, with the cards that are drawn chosen by `pick_card`.

    Raises:
        ValueError: the action is a batch or no integer.
    """
    rules = state.rules
    action = _single_action(action, "step")
    in_range = (action >= 0) & (action < rules.num_actions)
    action = jnp.where(in_range, action, cards.DRAW).astype(jnp.uint32)
    played = options.pick_of(action, rules)
    coins = pick_card.coins if rules.play_drawn == "auto" else jnp.uint32(0)

    before = to_table(state)
    node = table.find_node(before, rules)
    can_play = (bits.word_at(node.legal, played.word) >> played.position) & np.uint32(1) != 0
    if rules.draw_is_option:
        is_legal = in_range & jnp.where(node.is_decision, can_play, action == cards.DRAW)
    else:
        is_legal = in_range & jnp.where(action == cards.DRAW, ~node.is_decision, node.is_decision & can_play)
    is_live = ~state.is_over
    applies = is_legal & is_live

    def draw_more(index: Array, current: Table, move: Array) -> Array:
        goes_on = (current.unpack_meta().to_draw > 0) | table.is_reshuffle(move)
        node = table.find_node(current, rules)
        drawn = Picked(*pick_card(index, node.deck))
        move = table.resolve(current, node, drawn, coins, rules)
        return jnp.where(goes_on, move, table.stay(current))

    drawn = Picked(*pick_card(0, node.deck))
    pick = Picked(*(jnp.where(node.is_decision, a, b) for a, b in zip(played, drawn, strict=True)))
    move = table.resolve(before, node, pick, coins, rules)
    move = jnp.where(applies, move, table.stay(before))
    after = walk(before, move, draw_more, table.commit, num_nodes=max_nodes(rules))

    step_count = state.step_count + applies.astype(jnp.int32)
    terminated = after.unpack_meta().phase > table.PLAY
    truncated = state.truncated
    if rules.max_steps is not None:
        truncated = truncated | (applies & ~terminated & (step_count >= rules.max_steps))
    error = jnp.where(in_range, jnp.where(is_legal, 0, Error.ILLEGAL_ACTION), Error.ACTION_OUT_OF_RANGE)
    return from_table(
        after,
        rules,
        rewards=jnp.where(applies, rewards_at(after, rules), jnp.float32(0)),
        truncated=truncated,
        step_count=step_count,
        error=state.error | jnp.where(is_live, error, 0).astype(jnp.uint8),
        last_action=jnp.where(applies, action.astype(jnp.int8), state.last_action),
    )


def _single_action(action: ArrayLike, name: str) -> Array:
    action = jnp.asarray(action)
    if action.shape:
        raise ValueError(f"{name} takes a single action, got shape {action.shape}; {_USE_VMAP.format(name=name)}")
    if not jnp.issubdtype(action.dtype, jnp.integer):
        raise ValueError(f"action must be an integer 0..60, got {action.dtype}")
    return action


def rewards_at(after: Table, rules: Rules) -> Array:
    """Compute the rewards of a step that led to a table, float32[2]: +1 / -1 / 0 for a win, loss, draw, or the points; minus the
    step penalty if the game goes on."""
    phase = after.unpack_meta().phase
    won = jnp.where(phase == table.OVER_WON_BY_0, 1.0, jnp.where(phase == table.OVER_WON_BY_1, -1.0, 0.0))
    if rules.points:
        won *= table.points_won(after, rules)
    # Subtracted from 0.0, since -0.0 is another bit pattern than 0.0.
    at_end = jnp.stack([won, 0.0 - won])
    return jnp.where(phase > table.PLAY, at_end, 0.0 - rules.step_penalty).astype(jnp.float32)


def step_checked(state: State, action: ArrayLike, key: Array, *, rules: Rules | None = None) -> State:
    """Play an action as `step` does, and fail on an illegal one; for debugging.

    Use it as `jax.jit(checkify.checkify(step_checked))(state, action, key)`; the error returned beside the state raises at
    `err.throw()`.

    Raises:
        ValueError: as in `step`.
    """
    check_state(state, "step_checked")
    action = _single_action(action, "step_checked")
    mask = legal_mask(state, rules=rules)
    num_actions = state.rules.num_actions
    in_range = (action >= 0) & (action < num_actions)
    checkify.check(in_range, f"action must be in 0..{num_actions - 1}, got {{action}}", action=action)
    checkify.check(
        mask[jnp.where(in_range, action, 0)],
        "action {action} is not legal for player {player} on step {step}",
        action=action,
        player=state.current_player,
        step=state.step_count,
    )
    return step(state, action, key)


_USE_VMAP: Final = "map over a batch with jax.vmap({name})"


def check_state(state: State, name: str) -> None:
    """Check that what came to the function `name` is a single state; shapes are static, so this works while tracing too.

    Raises:
        ValueError: it is a batch, or no state.
    """
    if not isinstance(state, State):
        raise ValueError(f"{name} takes a State, got {type(state).__name__}")
    shapes = np.shape(state.hands), np.shape(state.deck), np.shape(state.current_player)
    if shapes != ((2, cards.NUM_CARDS), (cards.NUM_CARDS,), ()):
        raise ValueError(f"{name} takes a single state, got hands of shape {shapes[0]}; {_USE_VMAP.format(name=name)}")


@traced_once
def to_table(state: State) -> Table:
    """Lay a state out as labelled cards: copies go to hand 0, hand 1, deck and pile in this order."""
    in_hand_0 = bits.pack(state.hands[0])
    in_hands = bits.merge(in_hand_0, bits.pack(state.hands[1]))
    not_in_pile = bits.merge(in_hands, bits.pack(state.deck))
    everything = bits.merge(not_in_pile, bits.pack(state.pile))
    pile = bits.map_words(lambda a, b: a & ~b, everything, not_in_pile)
    hand_1 = bits.map_words(lambda a, b: a & ~b, in_hands, in_hand_0)
    won = jnp.where(state.winner == 0, table.OVER_WON_BY_0, table.OVER_WON_BY_1)
    over = jnp.where(state.winner == NO_WINNER, table.OVER_DRAWN, won)
    meta = table.Meta(
        rank=state.top_rank.astype(jnp.uint32),
        color=state.color.astype(jnp.uint32),
        player=state.current_player.astype(jnp.uint32),
        penalty=state.penalty.astype(jnp.uint32),
        to_draw=jnp.zeros_like(state.penalty, jnp.uint32),
        phase=jnp.where(state.terminated, over, table.PLAY).astype(jnp.uint32),
    )
    low, high = (bits.map_words(lambda a, b: a | b, hand, pile) for hand in (in_hand_0, hand_1))
    if not state.rules.keeps_account:
        return Table(low, high, meta.pack())
    meta = meta._replace(penalty=jnp.minimum(meta.penalty, np.uint32(table.MAX_PENALTY)))
    return Table(low, high, meta.pack(), account_of(state, state.drawn, state.drawn >= 0).pack())


def account_of(seen: Any, drawn: ArrayLike, has_drawn: ArrayLike) -> Account:
    """Give the account of a table by the fields of a state or an observation."""
    zero = jnp.zeros_like(seen.penalty, jnp.uint32)
    turn = turn_of(seen, zero, zero, drawn, has_drawn)
    return Account(
        due=turn.penalty,
        drawn_color=turn.drawn_color,
        drawn_rank=jnp.where(turn.has_drawn, turn.drawn_rank, zero),
        has_drawn=turn.has_drawn.astype(jnp.uint32),
        contested=turn.contested,
        keeps_turn=zero,
    )


def from_table(
    after: Table,
    rules: Rules,
    *,
    rewards: ArrayLike | tuple[float, float] = (0.0, 0.0),
    truncated: ArrayLike = False,
    step_count: ArrayLike = 0,
    error: ArrayLike = 0,
    last_action: ArrayLike = NO_ACTION,
) -> State:
    """Show a table as a state, with the episode's own fields, which begin like this."""
    meta = after.unpack_meta()
    hands = [bits.unpack(bits.canonical(after.cards_of(owner, rules))) for owner in (table.HAND_0, table.HAND_1)]
    winner = jnp.where(meta.phase == table.OVER_WON_BY_0, 0, jnp.where(meta.phase == table.OVER_WON_BY_1, 1, NO_WINNER))
    shown = {name: jnp.full_like(meta.penalty, NONE, jnp.int8) for name in ("drawn", "contested")}
    if rules.keeps_account:
        account = after.unpack_account()
        drawn = cards.type_of(account.drawn_color, account.drawn_rank)
        shown["drawn"] = jnp.where(account.has_drawn != 0, drawn, NONE).astype(jnp.int8)
        if rules.wild_draw_four == "challenge":
            shown["contested"] = (account.contested.astype(jnp.int32) - 1).astype(jnp.int8)
    return State(
        hands=jnp.stack(hands),
        deck=bits.unpack(bits.canonical(after.cards_of(table.DECK, rules))),
        pile=bits.unpack(bits.canonical(after.cards_of(table.PILE, rules))),
        top_rank=meta.rank.astype(jnp.int8),
        color=meta.color.astype(jnp.int8),
        current_player=meta.player.astype(jnp.int8),
        penalty=meta.penalty.astype(jnp.int8),
        terminated=meta.phase > table.PLAY,
        truncated=jnp.asarray(truncated, bool),
        winner=winner.astype(jnp.int8),
        rewards=jnp.asarray(rewards, jnp.float32),
        step_count=jnp.asarray(step_count, jnp.int32),
        error=jnp.asarray(error, jnp.uint8),
        last_action=jnp.asarray(last_action, jnp.int8),
        rules=rules,
        **shown,
    )
