"""The game as a POMDP (S, A, T, R, Omega, O, b0, gamma): the functions T, O and R as numbers, for solvers and tests.

    T(s' | s, a)   `transition_log_prob`   the chance of the cards drawn; plays are deterministic
    O(o | s)       `observation_log_prob`  an observation is a deterministic function of the state
    R(s, a, s')    `reward`                per player; what they get for the step

The initial belief b0 is the law of `game.init`. gamma belongs to the planner: every `discount` of a search, a network or a
training run is a factor per transition of the game as played, one action of either player each (`check_discount`). A transition
is checked by stepping with the cards that it would take, so no rule of the game is written a second time here.

The Markov state is the cards of each place, top rank, colour, player to move, pending penalty, a card just drawn, the colour
before a Wild+4 that may be challenged, and how the game ended if it did; `step_count` belongs to it only under
`Rules.max_steps`. The remaining fields of `State` (`rewards`, `error`, `last_action`, else `step_count`) record the past, and
`transition_log_prob` ignores them. All functions are pure and total, take unbatched states, and work under `jit` and `vmap`.
"""

from __future__ import annotations

from math import comb
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.device.combinatorics import log_binomial
from unojax.device.tracing import traced_once
from unojax.game import State, legal_mask
from unojax.game.steps import single_action
from unojax.observation import Observation, check_observation, observe
from unojax.rules import agreed_rules

_BINOMIAL: Final = np.array([[comb(n, k) for k in range(5)] for n in range(cards.NUM_CARDS + 1)], np.int32)
"""int32[109, 5]: C(n, k). At most C(108, 4) < 2^24, so exact in float32 too."""
_MARKOV_FIELDS: Final = tuple(
    "hands deck pile top_rank color current_player penalty drawn contested terminated truncated winner".split()
)


def check_discount(discount: float) -> None:
    """Check gamma, the factor on returns for each transition after the first: a result n transitions away counts gamma^(n - 1).

    A transition is one action of either player, forced ones and draws too.

    Raises:
        ValueError: If it is not in (0, 1].
    """
    if not 0 < discount <= 1:
        raise ValueError(f"discount must be in (0, 1], got {discount!r}")


def transition_log_prob(state: State, action: ArrayLike, next_state: State) -> Array:
    """Compute log T(s' | s, a), the log probability that `action` leads from `state` to `next_state`.

    A draw of k cards takes the multiset d from a deck of n cards, after the reshuffle if there is one, with the multivariate
    hypergeometric probability

        prod_t C(deck_t, d_t) / C(n, k)

    which is evaluated in integers up to the division (draws of up to 4 cards). Where a wild drawn is laid at once, its colour is
    one of four. Any other legal action has one outcome, with probability 1. So have an illegal or out-of-range action and a
    finished game: the cards and whose turn it is stay as they are.

    `action` is an integer scalar. `next_state` may be anything at all; what can't follow has probability 0.

    Returns:
        float32[], nats; -inf where the move is impossible.

    Raises:
        ValueError: an argument is a batch, or the rules of the two states differ.
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

    # Cards enter a hand by a draw alone, and only the mover draws.
    drawn = jnp.maximum(cards.counts(reached.hands) - cards.counts(state.hands), 0).sum(0, dtype=jnp.int32)
    log_color = jnp.float32(0.0)
    if rules.play_drawn == "auto":
        # Or a card goes straight to the pile.
        applies = (action == cards.DRAW) & ~state.is_over & legal_mask(state)[cards.DRAW] & ~reached.terminated
        laid = applies & (drawn.sum() == 0)
        drawn += (laid & (np.arange(cards.NUM_TYPES, dtype=np.int32) == reached.top_type)).astype(jnp.int32)
        log_color = jnp.where(laid & (reached.top_rank >= cards.WILD), -np.float32(np.log(cards.NUM_COLORS)), log_color)
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
    """Compute log O(o | s): 0 if `observation` is what its player sees of `state`, else -inf. float32[], nats.

    All fields count, `last_action` among them.

    Raises:
        ValueError: an argument is a batch, or the rules of observation and state differ.
    """
    check_observation(observation, "observation_log_prob")
    agreed_rules(state.rules, observation.rules)
    expected = observe(state, observation.player)
    same = jax.tree.map(lambda a, b: (a == b).all(), expected, observation)
    is_player = (observation.player == 0) | (observation.player == 1)
    return jnp.where(jnp.stack(jax.tree.leaves(same)).all() & is_player, jnp.float32(0), -jnp.inf)


def reward(state: State, action: ArrayLike, next_state: State) -> Array:
    """Compute R(s, a, s'), each player's reward for the step as `game.step` gives it: float32[2].

    +1 / -1 for a win and a loss (or the points under `Rules.points`), 0 for a drawn game, `-rules.step_penalty` for a step that
    does not end the game; 0 for an illegal action and in a finished game. In this game the cards drawn never change the
    reward, so it is the same for all states that can follow; for one that can't, it is still theirs.

    Raises:
        ValueError: an argument is a batch, or the rules of the two states differ.
    """
    _check_states(state, next_state, "reward")
    return _step_to(state, single_action(action, "reward"), next_state).rewards


def _check_states(state: State, next_state: State, name: str) -> None:
    for one in (state, next_state):
        game.check_state(one, name)
    agreed_rules(state.rules, next_state.rules)


@traced_once
def _step_to(state: State, action: Array, next_state: State) -> State:
    """Step with the cards drawn that `next_state` lacks in its deck: to `next_state`, if that can follow."""
    return game.step_with(state, action, game.GivenCards(bits.pack(next_state.deck), next_state.color))
