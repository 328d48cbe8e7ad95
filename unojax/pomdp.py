"""The game as a POMDP (S, A, T, R, Omega, O, b0, gamma): the functions T, O and R, for solvers and tests to evaluate.

    T(s' | s, a)   `transition_log_prob`   the chance of the cards drawn; plays are deterministic
                   `successors`            every possible next state, with its probability
    O(o | s)       `observation_log_prob`  an observation is a deterministic function of the state
    R(s, a, s')    `reward`                each player's reward for the step

b0 is the law of `game.init`. gamma belongs to the planner (`check_discount`). A transition is one action of either player, and
is checked by stepping with the cards that it would take. `unojax.belief.predictive` has the same functions of a belief.

The Markov state is the owner of each card, top rank, colour, player to move, penalty, drawn card, contested colour and result,
and `step_count` under `Rules.max_steps`. `transition_log_prob` ignores the other fields of `State`, which record the past.

`transition_log_prob`, `observation_log_prob` and `reward` are pure and total, take unbatched states, and work under `jit` and
`vmap`. The functions that list next states run on the host, in NumPy float64, because the number of states varies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import comb
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.device.combinatorics import log_binomial
from unojax.device.tracing import traced_once
from unojax.game import State, legal_mask
from unojax.game.steps import single_action
from unojax.observation import Observation, check_observation, observe
from unojax.rules import check_same_rules

__all__ = ["MAX_ROWS", "Successors", "check_discount", "observation_log_prob", "reward", "successors", "transition_log_prob"]

_BINOMIAL: Final = np.array([[comb(n, k) for k in range(5)] for n in range(cards.NUM_CARDS + 1)], np.int32)
"""int32[109, 5]: C(n, k). At most C(108, 4) < 2^24, so exact in float32 too."""
_MARKOV_FIELDS: Final = tuple(
    "hands deck pile top_rank color current_player penalty drawn contested terminated truncated winner".split()
)

MAX_ROWS: Final = 2_000_000
"""Default limit on the number of states that are listed at a time."""
_CHUNK: Final = 256
"""States per call of a program; a fixed size, so that each is compiled once."""


class Successors(NamedTuple):
    """Possible next states of a state, without repeats, and their probabilities. NumPy.

    Attributes:
        states: `State` [M], the likeliest first.
        log_probs: Log probabilities, nats, float64[M].
        rewards: Each player's reward along the way, float64[M, 2].
    """

    states: State
    log_probs: np.ndarray
    rewards: np.ndarray


def check_discount(discount: float) -> None:
    """Check gamma, the factor on returns for each transition after the first: a result n transitions away counts gamma^(n - 1).

    A transition is one action of either player, including forced actions and draws.

    Raises:
        ValueError: If it is not in (0, 1].
    """
    if not 0 < discount <= 1:
        raise ValueError(f"discount must be in (0, 1], got {discount!r}")


def transition_log_prob(state: State, action: ArrayLike, next_state: State) -> Array:
    """Return log T(s' | s, a), the log probability that `action` leads to `next_state`.

    A draw of k cards takes the multiset d from a deck of n cards, after any reshuffle, with the multivariate hypergeometric
    probability

        prod_t C(deck_t, d_t) / C(n, k)

    which is evaluated in integers up to the division (draws of up to 4 cards). If a drawn wild is played at once, its colour is
    uniform over four. Any other legal action has one outcome, with probability 1. An illegal or out-of-range action, or an action
    in a finished game, also has one outcome: the cards and the turn stay unchanged.

    Returns:
        float32[], nats; -inf if the transition is impossible.

    Raises:
        ValueError: If an argument is a batch, or the rules of the two states differ.
    """
    _check_states(state, next_state, "transition_log_prob")
    return _transition_log_prob(state, single_action(action, "transition_log_prob"), next_state)


@traced_once
def _transition_log_prob(state: State, action: Array, next_state: State) -> Array:
    rules = state.rules
    reached = _step_to(state, action, next_state)
    is_reached = jnp.bool_(True)
    for name in _MARKOV_FIELDS if rules.max_steps is None else (*_MARKOV_FIELDS, "step_count"):
        is_reached &= (getattr(reached, name) == getattr(next_state, name)).all()

    drawn = _cards_drawn(state, action, reached)
    log_color = jnp.float32(0.0)
    if rules.play_drawn == "auto":
        kept = jnp.maximum(cards.counts(reached.hands) - cards.counts(state.hands), 0).sum(dtype=jnp.int32)
        laid_wild = (drawn.sum() > kept) & (reached.top_rank >= cards.WILD)
        log_color = jnp.where(laid_wild, -np.float32(np.log(cards.NUM_COLORS)), log_color)
    deck = cards.counts(reached.deck).astype(jnp.int32) + drawn
    binomial = jnp.asarray(_BINOMIAL)
    ways = binomial[deck, drawn].prod(dtype=jnp.int32)
    if rules.max_draw < _BINOMIAL.shape[1]:
        ways_in_all = binomial[deck.sum(), drawn.sum()]
        log_prob = jnp.log(ways.astype(jnp.float32) / ways_in_all.astype(jnp.float32))
    else:
        log_prob = jnp.log(ways.astype(jnp.float32)) - log_binomial(deck.sum(), drawn.sum())
    return jnp.where(is_reached, log_prob + log_color, -jnp.inf)


def observation_log_prob(observation: Observation, state: State) -> Array:
    """Return log O(o | s), float32[]: 0 for its player's observation of `state`, else -inf.

    All fields count, including `last_action`.

    Raises:
        ValueError: If an argument is a batch, or the rules of observation and state differ.
    """
    check_observation(observation, "observation_log_prob")
    check_same_rules(state.rules, observation.rules)
    expected = observe(state, observation.player)
    same = jax.tree.map(lambda a, b: (a == b).all(), expected, observation)
    is_player = (observation.player == 0) | (observation.player == 1)
    return jnp.where(jnp.stack(jax.tree.leaves(same)).all() & is_player, jnp.float32(0), -jnp.inf)


def reward(state: State, action: ArrayLike, next_state: State) -> Array:
    """Return R(s, a, s'), each player's reward for the step as in `game.step`, float32[2].

    It is the same for all next states, even impossible ones, because drawn cards never change the reward.

    Raises:
        ValueError: If an argument is a batch, or the rules of the two states differ.
    """
    _check_states(state, next_state, "reward")
    return _step_to(state, single_action(action, "reward"), next_state).rewards


def successors(state: State, action: ArrayLike, *, limit: int = MAX_ROWS) -> Successors:
    """Return every possible next state after an action, with T(s' | s, a). On the host.

    Args:
        state: Unfinished game.
        action: Legal action of the player to move.
        limit: Largest number of states to list.

    Raises:
        ValueError: If the state is a batch, a tracer or over, the action is illegal, or more than `limit` states follow.
    """
    game.check_state(state, "successors")
    state = on_host(state, "successors")
    check_action(int(single_action(action, "successors")), game.legal_mask(state), bool(state.is_over))
    _, states, probs = branch(rows_of([state]), np.array([action], np.int32), limit)
    index, which = distinct(states)
    return listed(take(states, index), np.bincount(which, probs), np.asarray(states.rewards, np.float64)[index])


def branch(
    states: State, actions: np.ndarray, limit: int = MAX_ROWS, tells_apart: np.ndarray | None = None
) -> tuple[np.ndarray, State, np.ndarray]:
    """List the next states of N states, each after an action, for all its draws.

    Args:
        states: `State` [N] on the host.
        actions: int32[N].
        limit: Largest number of rows M.
        tells_apart: Whether draws are distinguished, bool[N]; if not, one of them stands for all. None: always.

    Returns:
        Index of the state that each row follows, int64[M]; the next states [M]; their probabilities, float64[M]. Equal states
        may occur twice.

    Raises:
        ValueError: If there are more than `limit` rows.
    """
    _, decks, numbers = step_taking(states, actions)
    parts = list(zip(decks, numbers if tells_apart is None else np.where(tells_apart, numbers, 0), strict=True))
    if (total := sum(count_draws(deck, int(number)) for deck, number in parts)) > limit:
        raise ValueError(f"{total:,} states follow, more than limit={limit:,}; use a smaller deck or fewer hands, or raise limit")
    draws = [list_draws(deck.tobytes(), int(number)) for deck, number in parts]
    # A wild that is laid at once takes any colour; other steps ignore it.
    colors = cards.NUM_COLORS if states.rules.play_drawn == "auto" else 1
    sizes = [len(probs) * colors for _, probs in draws]
    parents = np.repeat(np.arange(len(sizes)), sizes)
    taken = np.concatenate([np.repeat(multisets, colors, 0) for multisets, _ in draws])
    probs = np.concatenate([np.repeat(probs, colors) for _, probs in draws]) / colors
    color = np.tile(np.arange(colors, dtype=np.int8), len(probs) // colors)
    next_states, _, _ = step_taking(take(states, parents), actions[parents], decks[parents] - taken, color)
    return parents, next_states, probs


def step_taking(
    states: State, actions: np.ndarray, decks_after: np.ndarray | None = None, colors: np.ndarray | None = None
) -> tuple[State, np.ndarray, np.ndarray]:
    """Step N states, so that draws leave given decks.

    Args:
        states, actions: As in `branch`.
        decks_after: Cards left, int8[N, 54]; None: arbitrary cards are drawn.
        colors: Colour of a wild played by chance, int8[N].

    Returns:
        The next states [N]; the decks that the cards were drawn from, after a reshuffle, int8[N, 54]; and the number drawn,
        int32[N].
    """
    n = len(actions)
    decks_after = np.zeros((n, cards.NUM_TYPES), np.int8) if decks_after is None else decks_after
    colors = np.zeros(n, np.int8) if colors is None else colors
    return in_chunks(_step_rows, states, np.asarray(actions, np.int32), decks_after.astype(np.int8), colors)


@jax.jit
def _step_rows(states: State, actions: Array, decks_after: Array, colors: Array) -> tuple[State, Array, Array]:
    def one(state: State, action: Array, deck_after: Array, color: Array) -> tuple[State, Array, Array]:
        reached = game.step_with(state, action, game.GivenCards(bits.pack(cards.onehot(deck_after)), color))
        drawn = _cards_drawn(state, action, reached)
        return reached, (cards.counts(reached.deck) + drawn).astype(jnp.int8), drawn.sum(dtype=jnp.int32)

    return jax.vmap(one)(states, actions, decks_after, colors)


def in_chunks(program: Any, *rows: Any) -> Any:
    """Call a compiled program for N rows in chunks of one size; results are NumPy."""
    n = len(jax.tree.leaves(rows)[0])
    results = []
    for start in range(0, n, _CHUNK):
        index = np.minimum(np.arange(start, start + _CHUNK), n - 1)
        results.append(jax.device_get(program(*(take(part, index) for part in rows))))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:n], *results)


@lru_cache(maxsize=4096)
def list_draws(deck: bytes, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the multisets of `number` cards of a deck, int8[M, 54], with their probabilities.

    `deck` is the bytes of an int8[54].
    """
    if not number:
        return np.zeros((1, cards.NUM_TYPES), np.int8), np.ones(1)
    copies = np.frombuffer(deck, np.int8).astype(int)
    types = np.flatnonzero(copies)
    multisets, ways, missing = np.zeros((1, cards.NUM_TYPES), np.int8), np.ones(1), np.array([number])
    left = int(copies.sum())
    for t in types.tolist():
        left -= copies[t]
        parts = []
        for drawn in range(min(copies[t], number) + 1):
            # The remaining types must hold the cards still missing.
            kept = (missing >= drawn) & (missing - drawn <= left)
            grown = multisets[kept].copy()
            grown[:, t] = drawn
            parts.append((grown, ways[kept] * comb(copies[t], drawn), missing[kept] - drawn))
        multisets, ways, missing = map(np.concatenate, zip(*parts, strict=True))
    return multisets, ways / comb(int(copies.sum()), number)


def count_draws(deck: np.ndarray, number: int) -> int:
    """Count the multisets of `number` cards of a deck, int[54]."""
    if not number:
        return 1
    ways = [1] + [0] * number
    for copies in deck[deck > 0].tolist():
        ways = [sum(ways[max(0, size - copies) : size + 1]) for size in range(number + 1)]
    return ways[number]


def listed(states: State, probs: np.ndarray, rewards: np.ndarray) -> Successors:
    """List states by their probabilities, the likeliest first."""
    order = np.argsort(-probs, kind="stable")
    return Successors(take(states, order), np.log(probs[order]), rewards[order])


def distinct(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Find equal rows of a pytree of arrays [M, ...], ignoring `rewards`.

    Returns:
        Index of the first of each distinct row, int64[D], and for each row the index of its distinct row, int64[M].
    """
    if isinstance(rows, State):
        rows = replace(rows, rewards=np.zeros((len(rows.step_count), 0), bool))
    keys = np.concatenate([_bytes_of(np.asarray(leaf)) for leaf in jax.tree.leaves(rows)], -1)
    _, index, which = np.unique(keys.view(f"V{keys.shape[-1]}")[:, 0], return_index=True, return_inverse=True)
    return index, which.reshape(-1)


def _bytes_of(leaf: np.ndarray) -> np.ndarray:
    flat = leaf.reshape(len(leaf), -1)
    return np.packbits(flat, axis=-1) if flat.dtype == bool else np.ascontiguousarray(flat).view(np.uint8)


def take(rows: Any, index: np.ndarray) -> Any:
    """Select rows of a pytree of arrays."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], rows)


def rows_of(trees: list[Any]) -> Any:
    """Stack pytrees of arrays along a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def on_host(tree: Any, name: str) -> Any:
    """Copy the argument of function `name` to the host; ValueError if it is traced."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        raise ValueError(f"{name} lists what can follow, so it runs on the host: call it outside jit and vmap")
    return jax.device_get(tree)


def check_action(action: int, legal: ArrayLike, is_over: bool) -> None:
    """Check that an action is possible; ValueError if it is illegal, or the game is over."""
    if is_over:
        raise ValueError("the game is over, so nothing follows; ask about an unfinished game")
    mask = np.asarray(legal)
    if not (0 <= action < len(mask) and mask[action]):
        raise ValueError(f"action {action} is not legal here; legal are {', '.join(map(str, np.flatnonzero(mask)))}")


def _check_states(state: State, next_state: State, name: str) -> None:
    for one in (state, next_state):
        game.check_state(one, name)
    check_same_rules(state.rules, next_state.rules)


def _cards_drawn(state: State, action: Array, reached: State) -> Array:
    """Return the cards that a step took from the deck by type, int32[54]."""
    # Only a draw adds cards to a hand, and only the mover draws.
    drawn = jnp.maximum(cards.counts(reached.hands) - cards.counts(state.hands), 0).sum(0, dtype=jnp.int32)
    if state.rules.play_drawn == "auto":
        # A card may also go straight to the pile.
        applies = (action == cards.DRAW) & ~state.is_over & legal_mask(state)[cards.DRAW] & ~reached.terminated
        laid = applies & (drawn.sum() == 0)
        drawn += (laid & (np.arange(cards.NUM_TYPES, dtype=np.int32) == reached.top_type)).astype(jnp.int32)
    return drawn


@traced_once
def _step_to(state: State, action: Array, next_state: State) -> State:
    """Step by drawing the cards that the deck of `next_state` lacks."""
    return game.step_with(state, action, game.GivenCards(bits.pack(next_state.deck), next_state.color))
