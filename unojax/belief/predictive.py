"""The POMDP as one player sees it: predicted observations, rewards, and transitions up to the player's next move.

    P(o' | b, a)   `predict`           sum_s b(s) sum_s' T(s' | s, a) O(o' | s')
    R(b, a)        `expected_reward`   sum_s b(s) sum_s' T(s' | s, a) R(s, a, s')
    P(s' | s, a)   `own_successors`    T composed over the opponent's replies, up to the player's next move

The engine's transitions push a belief forward, independently of the filters of `unojax.belief`. Everything runs on the host in
NumPy float64, except transitions and the opponent model, which run on the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game, pomdp
from unojax.belief.exact import ExactBelief
from unojax.belief.hands import TypedHands
from unojax.belief.hypotheses import ways_to_draw
from unojax.belief.opponents import Family, Opponent, OpponentModel, check_types, models_of, opponent_name, uniform_opponent
from unojax.belief.particles import Belief
from unojax.belief.particles.trajectory import RELEASED, card_words
from unojax.game import State
from unojax.observation import Observation, check_counts, check_observation, determinize, observe
from unojax.policies import action_probs
from unojax.pomdp import MAX_ROWS, Successors

_ROUNDING: Final = 1e-4
"""Tolerance for the sum of an opponent model's probabilities."""
_MAX_REPLIES: Final = 1000
"""Limit of consecutive opponent transitions; only replies that may never end reach it."""


@dataclass(frozen=True, eq=False)
class Predictive:
    """P(o' | b, a): all possible next observations, without repeats, and their probabilities. NumPy on the host.

    Attributes:
        observations: `Observation` with a leading axis M, the likeliest first. `last_action` is the opponent's action.
        log_probs: float64[M] nats, with total probability 1.
        rewards: float64[M] expected reward of the player, given the observation.
    """

    observations: Observation
    log_probs: np.ndarray
    rewards: np.ndarray

    def __len__(self) -> int:
        """Number of observations M."""
        return len(self.log_probs)

    @property
    def probs(self) -> np.ndarray:
        """float64[M]: probabilities."""
        return np.exp(self.log_probs)

    @property
    def expected_reward(self) -> float:
        """R(b, a), the mean of the rewards."""
        return float(self.probs @ self.rewards)

    def log_prob(self, observation: Observation) -> float:
        """Return ln P(o' = observation), nats; -inf if the observation is impossible. ValueError if it is a batch."""
        index = self.index_of(observation)
        return -math.inf if index is None else float(self.log_probs[index])

    def index_of(self, observation: Observation) -> int | None:
        """Return the index of an observation; None if it is impossible. ValueError if it is a batch."""
        check_observation(observation, "index_of")
        asked = pomdp.rows_of([jax.device_get(observation)])
        rows = jax.tree.map(lambda all_rows, row: np.concatenate([row, all_rows]), self.observations, asked)
        _, which = pomdp.distinct(rows)
        found = np.flatnonzero(which[1:] == which[0])
        return int(found[0]) if found.size else None


class _Paths(NamedTuple):
    """States along the way, with the joint probability of state and opponent type.

    Attributes:
        states: `State` [N].
        weights: float64[K, N] P(type, state); K is 1 for a single model.
        rewards: float64[N, 2] each player's rewards so far.
    """

    states: State
    weights: np.ndarray
    rewards: np.ndarray

    def take(self, index: np.ndarray) -> _Paths:
        """Select paths."""
        return _Paths(pomdp.take(self.states, index), self.weights[:, index], self.rewards[index])

    def join(self, other: _Paths) -> _Paths:
        """Append the paths of another object."""
        states = jax.tree.map(lambda *leaves: np.concatenate(leaves), self.states, other.states)
        return _Paths(states, np.concatenate([self.weights, other.weights], 1), np.concatenate([self.rewards, other.rewards]))

    def stepped(self, parents: np.ndarray, states: State, factors: np.ndarray) -> _Paths:
        """Continue: row m follows path `parents[m]` with probability `factors[..., m]`, float64[M] or by type [K, M]."""
        rewards = self.rewards[parents] + np.asarray(states.rewards, np.float64)
        return _Paths(states, self.weights[:, parents] * factors, rewards)

    def merged(self) -> _Paths:
        """Merge equal states; average their rewards."""
        index, which = pomdp.distinct(self.states)
        weights = np.stack([np.bincount(which, row, len(index)) for row in self.weights])
        return _Paths(pomdp.take(self.states, index), weights, _averaged(self.rewards, self.weights.sum(0), which, len(index)))


def predict(
    belief: ExactBelief | TypedHands,
    observation: Observation,
    action: ArrayLike | None = None,
    *,
    opponent: Opponent = uniform_opponent,
    until_own_turn: bool = False,
    limit: int = MAX_ROWS,
) -> Predictive:
    """Predict the player's next observation: P(o' | b, a), for one transition of either player.

    The result is exact for an `ExactBelief`, and a particle estimate for any other belief, under all rules. A draw of four own
    cards from a full-size deck has too many outcomes to list.

    Args:
        belief: Belief at `observation`: an `ExactBelief`, a particle `Belief`, or `Hands` of any updater.
        observation: The player's current observation, unbatched, in an unfinished game. Its rules apply except `max_steps`,
            because no observation shows the number of steps.
        action: The player's own action, on its turn; None on the opponent's turn, whose action is predicted too.
        opponent: Opponent model of probabilities, or the `Family` that the belief was begun with.
        until_own_turn: Continue through the opponent's replies, until the player moves again or the game is over. The player sees
            each reply, so the result is a summary; a filter needs every transition.
        limit: Largest number of states to step through.

    Raises:
        ValueError: If the belief is not one of this position, the action is illegal or not the player's to choose, the model
            returns no probabilities, the game is over, or there are too many outcomes to list.
    """
    paths = _outcomes(belief, observation, action, opponent, until_own_turn, limit, "predict")
    return _seen(paths, int(observation.player))


def expected_reward(
    belief: ExactBelief | TypedHands,
    observation: Observation,
    action: ArrayLike | None = None,
    *,
    opponent: Opponent = uniform_opponent,
    until_own_turn: bool = False,
    limit: int = MAX_ROWS,
) -> float:
    """Compute R(b, a), the player's expected reward for one transition; arguments and errors as for `predict`.

    With `until_own_turn`, it is the undiscounted sum of the rewards of the own action and of the opponent's replies.
    """
    paths = _outcomes(belief, observation, action, opponent, until_own_turn, limit, "expected_reward")
    return float(paths.weights.sum(0) @ paths.rewards[:, int(observation.player)])


def own_successors(
    state: State, action: ArrayLike, *, opponent: Opponent = uniform_opponent, limit: int = MAX_ROWS
) -> Successors:
    """List the possible states at the next move of the player to move: T composed with the opponent's policy.

    This is the transition of the POMDP in which the opponent is part of the environment; the single-seat environments of
    `unojax.adapters` sample from it. It is exact, so only for small decks. Chains of replies of different lengths differ in
    `State.step_count`.

    Args:
        state: Unfinished game.
        action: Legal action of the player to move.
        opponent: Model of the other player's probabilities; the types of a `Family` have the weights of its prior.
        limit: Largest number of states to step through at a time.

    Raises:
        ValueError: If the state is a batch, a tracer or over, the action is illegal, the model returns no probabilities, the
            replies never end, or there are too many outcomes to list.
    """
    game.check_state(state, "own_successors")
    state = pomdp.on_host(state, "own_successors")
    number = int(np.asarray(action))
    pomdp.check_action(number, game.legal_mask(state), bool(state.is_over))
    models = models_of(opponent)
    prior = np.exp(opponent.log_prior) if isinstance(opponent, Family) else np.ones(1)
    paths = _Paths(pomdp.rows_of([state]), prior[:, None], np.zeros((1, 2)))
    paths = _until_own_turn(_act(paths, number, limit), int(state.current_player), models, limit)
    return pomdp.listed(paths.states, paths.weights.sum(0), paths.rewards)


def _outcomes(
    belief: ExactBelief | TypedHands,
    observation: Observation,
    action: ArrayLike | None,
    opponent: Opponent,
    until_own_turn: bool,
    limit: int,
    name: str,
) -> _Paths:
    """Check the arguments of `predict`, construct a state for each hand of the belief, and list the possible results."""
    check_observation(observation, name)
    observation = pomdp.on_host(observation, name)
    check_counts(observation, name)
    is_own, number = bool(observation.is_my_turn), None if action is None else int(np.asarray(action))
    if is_own == (number is None):
        whose = "the player's own turn: give its action" if is_own else "the opponent's turn: leave action out, it is predicted"
        raise ValueError(f"action must be given on the player's own turn alone, got {action!r} on {whose}")
    legal = np.ones(1) if number is None else observation.legal_mask
    pomdp.check_action(number or 0, legal, bool(observation.terminated))
    hands, drawn, weights = _hypotheses(belief, observation, opponent, name)
    states = pomdp.in_chunks(partial(_imagine, observation), hands, drawn)
    paths, models = _Paths(states, weights, np.zeros((len(hands), 2))), models_of(opponent)
    if until_own_turn:
        paths = paths if number is None else _act(paths, number, limit)
        return _until_own_turn(paths, int(observation.player), models, limit)
    if number is None:
        return _reply(paths, models, limit, seen_only=True)
    # The rewards do not depend on the cards drawn, and `expected_reward` needs nothing else.
    if number == cards.DRAW and name == "predict":
        return _draw_seen(paths, limit)
    return _act(paths, number, limit, tells_apart=False)


def _hypotheses(
    belief: ExactBelief | TypedHands, observation: Observation, opponent: Opponent, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read a belief: hands int8[N, 54], the card just drawn int8[N] (-1: no card), and P(type, hand, card) float64[K, N]."""
    mid_turn = bool(observation.has_drawn) and not observation.is_my_turn
    if isinstance(belief, ExactBelief):
        check_types(belief.num_types, opponent, "exact_init")
        hands, drawn, weights = belief.known
    else:
        joint = belief.log_joint
        check_types(0 if joint is None else len(joint), opponent, "belief_init")
        hands = np.asarray(bits.type_counts(bits.map_words(jnp.asarray, belief.packed)), np.int8)
        weights = np.exp(np.atleast_2d(np.asarray(belief.log_weights if joint is None else joint, np.float64)))
        drawn = np.full(len(hands), game.NONE, np.int8)
        if mid_turn:
            if not isinstance(belief, Belief):
                raise ValueError(f"{name} must know which card the opponent has just drawn: give a particle or an exact belief")
            label = belief.trajectories.labels[belief.public.num_slots - 1] & ~RELEASED
            drawn = np.asarray(bits.type_counts(card_words(label)), np.int8).argmax(-1).astype(np.int8)
    fits = (hands.sum(-1) == int(observation.opponent_count)) & (hands <= np.asarray(observation.unseen)).all(-1)
    possible = weights.sum(0) > 0
    if not fits[possible].all():
        raise ValueError("the belief is not one of this observation: its hands hold cards that are not unseen, or too many")
    weights = weights[:, possible] / weights.sum()
    return hands[possible], drawn[possible], weights


@jax.jit
def _imagine(observation: Observation, hands: Array, drawn: Array) -> State:
    def one(hand: Array, drawn: Array) -> State:
        state = determinize(cards.onehot(hand), observation)
        return replace(state, drawn=jnp.where(drawn >= 0, drawn, state.drawn))

    return jax.vmap(one)(hands, drawn)


def _act(paths: _Paths, action: int, limit: int, *, tells_apart: bool = True) -> _Paths:
    """Take one action in all states, with all draws, or with arbitrary cards."""
    actions = np.full(len(paths.rewards), action, np.int32)
    parents, states, chance = pomdp.branch(paths.states, actions, limit, np.full(len(actions), tells_apart))
    return paths.stepped(parents, states, chance).merged()


def _draw_seen(paths: _Paths, limit: int) -> _Paths:
    """Let the player draw. Its observation afterwards does not depend on the hidden hand, so each draw runs only once."""
    n = len(paths.rewards)
    actions = np.full(n, cards.DRAW, np.int32)
    _, decks, numbers = pomdp.step_taking(paths.states, actions)
    number, possible = int(numbers[0]), decks.max(0)
    if (size := n * pomdp.count_draws(possible, number)) > 10 * limit:
        raise ValueError(
            f"{number} cards can be drawn in {size // n:,} ways from {n:,} decks, more than 10 limit={limit:,} together; "
            "use a smaller deck or fewer particles, or raise limit"
        )
    multisets, _ = pomdp.list_draws(possible.tobytes(), number)
    probs = ways_to_draw(decks, multisets) / math.comb(int(decks[0].sum()), number)
    # Any deck that holds these cards will do.
    deck = probs.argmax(0)
    is_possible = probs[deck, np.arange(len(deck))] > 0
    multisets, deck, probs = multisets[is_possible], deck[is_possible], probs[:, is_possible]
    colors = cards.NUM_COLORS if paths.states.rules.play_drawn == "auto" else 1
    rows, color = np.repeat(np.arange(len(deck)), colors), np.tile(np.arange(colors, dtype=np.int8), len(deck))
    parents = deck[rows]
    states = pomdp.take(paths.states, parents)
    states, _, _ = pomdp.step_taking(states, actions[:1].repeat(len(rows)), decks[parents] - multisets[rows], color)
    weights = (paths.weights @ probs)[:, rows] / colors
    return _Paths(states, weights, paths.rewards[parents] + np.asarray(states.rewards, np.float64))


def _reply(paths: _Paths, models: tuple[OpponentModel, ...], limit: int, *, seen_only: bool = False) -> _Paths:
    """Let the opponent make one transition.

    With `seen_only`, drawn cards are distinguished only if the player observes a difference.
    """
    probs = np.stack([_choices(paths.states, model) for model in models])
    rows, actions = np.nonzero((probs * (paths.weights > 0)[..., None]).sum(0))
    chosen, factors, actions = paths.take(rows), probs[:, rows, actions], actions.astype(np.int32)
    rules = paths.states.rules
    looks = rules.play_drawn != "no" or rules.draw_until_playable
    shows = ((np.asarray(chosen.states.penalty) == 0) & looks) if seen_only else np.ones(len(rows), bool)
    parents, states, chance = pomdp.branch(chosen.states, actions, limit, shows)
    return chosen.stepped(parents, states, factors[:, parents] * chance).merged()


def _until_own_turn(paths: _Paths, player: int, models: tuple[OpponentModel, ...], limit: int) -> _Paths:
    """Let the opponent reply until the player moves or the game is over."""
    done: _Paths | None = None
    for _ in range(_MAX_REPLIES):
        states = paths.states
        waits = (np.asarray(states.current_player) != player) & ~np.asarray(states.terminated | states.truncated)
        ended = paths.take(np.flatnonzero(~waits))
        done = ended if done is None else done.join(ended)
        if not waits.any():
            return done.merged()
        paths = _reply(paths.take(np.flatnonzero(waits)), models, limit)
    raise ValueError(f"the opponent's replies have not ended after {_MAX_REPLIES} transitions and may never end")


def _choices(states: State, model: OpponentModel) -> np.ndarray:
    """Return a model's action probabilities for the player to move in N states: float64[N, A]."""
    probs = pomdp.in_chunks(partial(_ask, model=model), states).astype(np.float64)
    totals = probs.sum(-1)
    if not ((probs >= 0).all() and (np.abs(totals - 1) < _ROUNDING).all()):
        raise ValueError(
            f"opponent model {opponent_name(model)} must give probabilities of the legal actions, with sum 1; sums are "
            f"{totals.min():g} to {totals.max():g}"
        )
    return probs / totals[:, None]


@partial(jax.jit, static_argnames="model")
def _ask(states: State, *, model: OpponentModel) -> Array:
    def one(state: State) -> Array:
        legal = game.legal_mask(state)
        seen = observe(state, state.current_player)
        return jnp.where(legal, action_probs(model, f"opponent model {opponent_name(model)}", seen, legal), 0.0)

    return jax.vmap(one)(states)


def _seen(paths: _Paths, player: int) -> Predictive:
    """Return the player's observations of the states."""
    observations = pomdp.in_chunks(partial(_observe, player=player), paths.states)
    index, which = pomdp.distinct(observations)
    weights = paths.weights.sum(0)
    probs = np.bincount(which, weights, len(index))
    rewards = _averaged(paths.rewards[:, player : player + 1], weights, which, len(index))[:, 0]
    order = np.argsort(-probs, kind="stable")
    order = order[probs[order] > 0]
    return Predictive(pomdp.take(observations, index[order]), np.log(probs[order]), rewards[order])


@partial(jax.jit, static_argnames="player")
def _observe(states: State, *, player: int) -> Observation:
    return jax.vmap(partial(observe, player=jnp.int8(player)))(states)


def _averaged(values: np.ndarray, weights: np.ndarray, which: np.ndarray, number: int) -> np.ndarray:
    """Average rows of values, float64[M, P], over the rows that are equal."""
    total = np.bincount(which, weights, number)
    sums = np.stack([np.bincount(which, weights * column, number) for column in values.T], -1)
    return sums / np.where(total > 0, total, 1.0)[:, None]
