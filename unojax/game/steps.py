"""Deals, legal actions and steps: the rules of `unojax.table` on states, with the fields of an episode."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import checkify
from jax.typing import ArrayLike

from unojax import bits, cards, table
from unojax.device.lanes import walk
from unojax.device.random_bits import check_key, random_words
from unojax.device.tracing import traced_once
from unojax.game.layout import Packed, begin_packed, from_table, lay_out, pack_state, turn_of
from unojax.game.masks import hand_legal_mask, options_to_actions, turn_legal_mask
from unojax.game.state import USE_VMAP, Error, State, check_state
from unojax.rules import Rules, as_rules
from unojax.table import Table, options
from unojax.table.options import Picked


def init(key: Array, *, rules: Rules | str = Rules()) -> State:
    """Deal a new game.

    Args:
        key: PRNG key of the deal and of random start rules; consumed.
        rules: Static, or the name of a preset; the state carries them from here on.

    Raises:
        ValueError: If `key` is a batch or no key, or there is no such preset.
    """
    check_key(key, "init")
    rules = as_rules(rules)
    return from_table(_deal(key, rules=rules), rules)


def init_packed(key: Array, rules: Rules) -> Packed:
    """Deal a new game as `init` does, packed."""
    return begin_packed(lay_out(_deal(key, rules=rules), rules=rules), rules)


@partial(traced_once, static=("rules",))
def _deal(key: Array, rules: Rules) -> Table:
    num_nodes = 2 * rules.hand_size + 1
    if rules.start_effects == "keep_turn":
        # A reshuffle and the cards of a start card.
        num_nodes += 1 + max(cards.DRAW_OF_RANK)
    words = jax.random.bits(key, (num_nodes + 1,), jnp.uint32)

    def decide(index: ArrayLike, dealt: Table, move: Array | None = None) -> Array:
        node = table.find_node(dealt, rules)
        move = table.resolve(dealt, node, Picked(*bits.choose(node.deck, words[index])), words[-1], rules)
        if rules.start_effects == "keep_turn":
            move = jnp.where(dealt.unpack_meta().begins_step, table.stay(dealt), move)
        return move

    undealt = table.new_table(jnp.uint32(0), rules)
    return walk(undealt, decide(0, undealt), decide, table.commit, num_nodes=num_nodes)


def legal_mask(state: State) -> Array:
    """Mark the legal actions of the player to move: bool[61]; exactly {DRAW} if drawing is forced, all when the game is over.

    Under rules with challenges the mask is bool[62] (`Rules.num_actions`).

    A finished game accepts every action and ignores it, so that normalising a policy over the mask never divides by zero.

    Raises:
        ValueError: If the state is a batch.
    """
    check_state(state, "legal_mask")
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


def packed_legal_mask(packed: Packed) -> Array:
    """Mark the legal actions of a packed state as `legal_mask` does those of a state."""
    node = table.find_node(packed.table, packed.rules)
    # Separate buffers: XLA on a CPU would otherwise recompute the node for each action.
    options = lax.optimization_barrier(node.options)
    return options_to_actions(options, rules=packed.rules) | packed.is_over


def step(state: State, action: ArrayLike, key: Array) -> State:
    """Play an action for the player to move.

    Args:
        state: State; a finished game stays unchanged, with zero rewards.
        action: Integer scalar in 0..60 (0..61 if a Wild+4 may be challenged). An illegal or out-of-range action changes
            nothing except `error` and the rewards (0).
        key: PRNG key; consumed by draws only.

    Raises:
        ValueError: If the state, the action or the key is a batch, or the action is no integer.
    """
    check_state(state, "step")
    check_key(key, "step")
    return _step(state, single_action(action, "step"), key)


@traced_once
def _step(state: State, action: Array, key: Array) -> State:
    return step_with(state, action, RandomPicker(key, state.rules))


class RandomPicker:
    """Picks the cards drawn in a step uniformly at random, and the colour of a wild that is laid by chance."""

    def __init__(self, key: Array, rules: Rules):
        # More words than picks only where the rules lay cards by chance.
        num_words = max_nodes(rules) + (rules.play_drawn == "auto")
        self._words = random_words(key, num_words)

    def __call__(self, index: ArrayLike, deck: bits.Words) -> tuple[Array, Array]:
        return bits.choose(deck, self._words[index])

    @property
    def coins(self) -> Array:
        """Random bits for `table.resolve`."""
        return self._words[-1]


class GivenCards:
    """Picks the cards drawn in a step so that a given deck is left.

    Each pick is a card of which the deck holds more copies than the deck to be left. If there is none, that deck is unreachable,
    and any card of the deck is picked. The state after the step is therefore always possible; compare its deck to find
    whether the given one was reached.

    Args:
        deck_after: Canonical set; with a reshuffle in the step, the deck after it and the draw.
        color: int8[] colour of a wild that is laid by chance.
    """

    def __init__(self, deck_after: bits.Words, color: Array):
        self._deck_after = deck_after
        self.coins = color.astype(jnp.uint32) << np.uint32(30)

    def __call__(self, index: ArrayLike, deck: bits.Words) -> tuple[Array, Array]:
        del index
        surplus = bits.without(bits.canonical(deck), self._deck_after)
        wanted = bits.map_words(lambda options, w: bits.both_copies(options) & w, bits.types(surplus), deck)
        return bits.choose(bits.where(bits.any_of(wanted) != 0, wanted, deck), jnp.zeros_like(deck[0]))


class Picker(Protocol):
    """Chooses the chance outcomes in a step."""

    @property
    def coins(self) -> Array:
        """Random bits for `table.resolve`: uint32[]."""
        ...

    def __call__(self, index: ArrayLike, deck: bits.Words, /) -> tuple[Array, Array]:
        """Pick the card of `deck` that is drawn at node `index` of the step: (word, position)."""
        ...


def max_nodes(rules: Rules) -> int:
    """Count the nodes of the longest step: an optional decision to draw, a reshuffle, and the cards."""
    return 1 + rules.max_draw + rules.draw_is_option


def step_with(state: State, action: ArrayLike, pick_card: Picker) -> State:
    """Play an action as `step` does, with the drawn cards chosen by `pick_card`.

    Raises:
        ValueError: If the action is a batch or no integer.
    """
    return step_packed_with(pack_state(state), single_action(action, "step"), pick_card).unpack()


def step_packed(packed: Packed, action: Array, key: Array) -> Packed:
    """Play an action as `step` does, packed."""
    after = step_packed_with(packed, action, RandomPicker(key, packed.rules))
    return replace(after, table=lay_out(after.table, rules=packed.rules))


def step_packed_with(state: Packed, action: Array, pick_card: Picker) -> Packed:
    """Play an action as `step_with` does, packed; the returned table is not canonicalized."""
    rules, before = state.rules, state.table
    in_range = (action >= 0) & (action < rules.num_actions)
    action = jnp.where(in_range, action, cards.DRAW).astype(jnp.uint32)
    played = options.pick_of(action, rules)
    coins = pick_card.coins if rules.play_drawn == "auto" else jnp.uint32(0)

    node = table.find_node(before, rules)
    can_play = bits.contains(node.legal, played.word, played.position)
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
    terminated = after.unpack_meta().is_over
    truncated = state.truncated
    if rules.max_steps is not None:
        truncated = truncated | (applies & ~terminated & (step_count >= rules.max_steps))
    error = jnp.where(in_range, jnp.where(is_legal, 0, Error.ILLEGAL_ACTION), Error.ACTION_OUT_OF_RANGE)
    return Packed(
        after,
        rewards=jnp.where(applies, rewards_at(after, rules), jnp.float32(0)),
        truncated=truncated,
        step_count=step_count,
        error=state.error | jnp.where(is_live, error, 0).astype(jnp.uint8),
        last_action=jnp.where(applies, action.astype(jnp.int8), state.last_action),
        rules=rules,
    )


def single_action(action: ArrayLike, name: str) -> Array:
    """Convert the action argument of function `name`; ValueError if it is a batch, or no integer."""
    if action is None or isinstance(action, str):
        raise ValueError(f"action must be an integer 0..60, got {action!r}; unojax.parse_action reads text")
    number = action[()] if isinstance(action, np.ndarray) else action
    if isinstance(number, int | np.integer) and not -(2**31) <= number < 2**31:
        # Any out-of-range action will do, except -1, which has a meaning; in 32 bits the number could wrap to a legal one.
        action = 2**31 - 1
    action = jnp.asarray(action)
    if action.shape:
        raise ValueError(f"{name} takes a single action, got shape {action.shape}; {USE_VMAP.format(name=name)}")
    if not jnp.issubdtype(action.dtype, jnp.integer):
        raise ValueError(f"action must be an integer 0..60, got {action.dtype}")
    return action


def rewards_at(after: Table, rules: Rules) -> Array:
    """Compute the rewards of a step that led to a table, float32[2]: +1 / -1 / 0 for a win, loss, draw, or the points; minus the
    step penalty if the game continues.
    """
    meta = after.unpack_meta()
    won = meta.outcome
    if rules.points:
        won *= table.points_won(after, rules)
    # Subtracted from 0.0, since -0.0 is another bit pattern than 0.0.
    at_end = jnp.stack([won, 0.0 - won])
    return jnp.where(meta.is_over, at_end, 0.0 - rules.step_penalty).astype(jnp.float32)


def step_checked(state: State, action: ArrayLike, key: Array) -> State:
    """Play an action as `step` does, and fail on an illegal one; for debugging.

    Use it as `jax.jit(checkify.checkify(step_checked))(state, action, key)`; the error returned beside the state raises at
    `err.throw()`.

    Raises:
        ValueError: As in `step`.
    """
    check_state(state, "step_checked")
    action = single_action(action, "step_checked")
    mask = legal_mask(state)
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
