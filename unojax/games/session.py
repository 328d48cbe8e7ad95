"""A game between a person and an agent: the game itself, the agent's side of it, and advice for the person.

What the person may see leaves this module as `Observation` and `Seen` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards, game, text
from unojax.agents import Agent, Memory
from unojax.belief import summary
from unojax.device import static
from unojax.device.static import Skeleton
from unojax.game import State
from unojax.games.replay import Replay, Step, replay
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.search.agents import MonteCarloAgent
from unojax.search.monte_carlo import Estimate, choose
from unojax.search.outlook import win_probability

_DEAL, _DRAW, _AGENT, _ADVICE, _SEAT = range(5)
"""What the streams of random numbers are for. The agent's and the advice's don't change the draws."""
_START, _UPDATE, _ACT, _HANDS, _OUTLOOK = range(5)


@dataclass(frozen=True)
class Seen:
    """One action as one player saw it.

    Attributes:
        before, after: the player's observations around it, as NumPy.
        action: 0..60, of whoever moved.
    """

    before: Observation
    action: int
    after: Observation

    @property
    def mover(self) -> int:
        """The player who acted."""
        return int(self.before.current_player)

    @property
    def is_mine(self) -> bool:
        """The observer acted."""
        return self.mover == int(self.before.player)

    @property
    def num_drawn(self) -> int:
        """Cards that were drawn."""
        if self.is_mine:
            return max(0, int(np.sum(self.after.hand)) - int(np.sum(self.before.hand)))
        return max(0, int(self.after.opponent_count) - int(self.before.opponent_count))

    @property
    def drawn(self) -> str:
        """The cards that the observer drew, in card notation."""
        return text.format_cards(counts_onehot(counts(self.after.hand) - counts(self.before.hand))) if self.num_drawn else ""

    @property
    def reshuffled(self) -> bool:
        """The pile went back into the deck."""
        return int(np.sum(self.after.pile)) < int(np.sum(self.before.pile))


class Match:
    """A game in progress between a person and an agent, on the host.

    Attributes:
        seat: the person's, 0 or 1.
        rules: of the game.
        steps: what happened so far, with all cards: for the record.
        seen: the same as the person saw it.
        view: what the person sees now.
    """

    def __init__(self, agent: Agent, *, seat: int, seed: int, rules: Rules, start: State | None = None):
        """Deal.

        Args:
            agent: the opponent; one with a method `reveal` is shown the person's hand, as in `unojax.arena`.
            seat: the person's.
            seed: the same seed gives the same deal, and with the same actions the same game.
            rules: of the game.
            start: begin here instead of with a deal.
        """
        key = jax.random.key(seed, impl="threefry2x32")
        self.seat, self.rules = seat, rules
        self._agent = static.split((agent,))
        self._key_draw, self._key_agent = (jax.random.fold_in(key, stream) for stream in (_DRAW, _AGENT))
        start = _deal(jax.random.fold_in(key, _DEAL), rules=rules) if start is None else start
        self.start, self._views = jax.device_get((start, _look(start, rules=rules)))
        self.steps: list[Step] = []
        self.seen: list[Seen] = []
        self._memory = _begin(*self._agent, self._key(_START), self._views[1 - seat])

    def warm(self) -> None:
        """Compile what the game needs, so that no move waits for it. Changes nothing."""
        view = self._views[1 - self.seat]
        some_action = text.format_action(int(np.argmax(_legal(self._views[int(self.start.current_player)]))))
        replay(self.start, some_action, self._key_draw, rules=self.rules)
        memory = _remember(*self._agent, self._key(_UPDATE), self._memory, view, np.int32(cards.DRAW), view)
        action = _choose(*self._agent, self._key(_ACT), self._memory, self.start, view)
        jax.block_until_ready((memory, action))

    @property
    def view(self) -> Observation:
        """What the person sees now."""
        return self._views[self.seat]

    @property
    def is_over(self) -> bool:
        """Won, drawn or cut off."""
        return self.was_cut_off or bool(self.view.terminated)

    @property
    def was_cut_off(self) -> bool:
        """By `Rules.max_steps`."""
        return bool(self._state.truncated)

    @property
    def winner(self) -> int:
        """0 or 1; -1 while there is none, and in a drawn game."""
        return int(self._state.winner)

    @property
    def is_my_turn(self) -> bool:
        """The person's."""
        return int(self.view.current_player) == self.seat

    @property
    def legal(self) -> np.ndarray:
        """bool[61]: what the person may do, if it is the person's turn."""
        return np.asarray(_legal(self.view))

    def replay(self) -> Replay:
        """The game so far, with all cards."""
        return Replay(self.start, tuple(self.steps))

    def reply(self) -> int:
        """What the agent does now; asked only if it has a choice.

        Raises:
            RuntimeError: the agent's answer is not legal.
        """
        view = self._views[1 - self.seat]
        legal = np.flatnonzero(_legal(view)).tolist()
        if len(legal) == 1:
            return legal[0]
        action = int(_choose(*self._agent, self._key(_ACT), self._memory, self._state, view))
        if action not in legal:
            allowed = ", ".join(map(text.format_action, legal))
            raise RuntimeError(f"the opponent chose action {action}, which is not legal; it may only: {allowed}")
        return action

    def play(self, action: int) -> Seen:
        """Whoever's turn it is does this.

        Raises:
            ValueError: the action is not legal.
        """
        before, agent = self._views, 1 - self.seat
        key = jax.random.fold_in(self._key_draw, len(self.steps))
        (step,) = replay(self._state, text.format_action(action), key, rules=self.rules).steps
        self._views = jax.device_get(_look(step.after, rules=self.rules))
        around = (before[agent], np.int32(action), self._views[agent])
        # The number of steps so far is the number of the key, so the update's is taken before the step is counted.
        self._memory = _remember(*self._agent, self._key(_UPDATE), self._memory, *around)
        self.steps.append(step)
        self.seen.append(Seen(before[self.seat], action, self.view))
        return self.seen[-1]

    @property
    def _state(self) -> State:
        return self.steps[-1].after if self.steps else self.start

    def _key(self, purpose: int) -> Array:
        return jax.random.fold_in(jax.random.fold_in(self._key_agent, purpose), len(self.steps))


def draw_seat(seed: int) -> int:
    """0 or 1 by a fair coin that the seed tosses."""
    key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), _SEAT)
    return int(jax.random.bernoulli(key))


class Thought(NamedTuple):
    """What flat Monte Carlo says of the plays. NumPy.

    Attributes:
        estimate: of each play.
        tried: bool[60] the plays that it is of.
        advised: int32[] action.
    """

    estimate: Estimate
    tried: Array
    advised: Array


class Advice(NamedTuple):
    """What is to be said of a position from what the person saw. NumPy.

    Attributes:
        prob_holds: float32[54], prob_color: float32[4], prob_no_playable: float32[]: of the opponent, as in
            `unojax.belief.summary`.
        thought: about the plays; None if there is no choice.
    """

    prob_holds: Array
    prob_color: Array
    prob_no_playable: Array
    thought: Thought | None


class Outlook(NamedTuple):
    """What a position looks like from what the person saw. NumPy.

    Attributes:
        prob_holds: float32[54], of the opponent, as in `unojax.belief.summary`.
        win_probability, win_error: float32[], as `unojax.search.outlook` gives them.
    """

    prob_holds: Array
    win_probability: Array
    win_error: Array


class Adviser:
    """Advice from what the person saw. It follows the game when it is asked, and costs nothing until then."""

    def __init__(self, search: MonteCarloAgent, *, seed: int):
        """Args:
        search: for the same rules as the game.
        seed: of the game.
        """
        self._search = search
        self._key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), _ADVICE)
        self._memory: Memory = None
        self._followed = 0

    def warm(self, start: Observation) -> None:
        """Compile what following the game needs. Changes nothing.

        Args:
            start: the person's first view.
        """
        agent, key = static.split((self._search,)), self._key
        memory = _begin(*agent, key, start)
        jax.block_until_ready(_remember(*agent, key, memory, start, np.int32(cards.DRAW), start))

    def advise(self, start: Observation, seen: list[Seen]) -> Advice:
        """What to say after all that was seen.

        Args:
            start: the person's first view.
            seen: all that has happened since, a longer part of the same game at each call.
        """
        key, now = self._key, self._follow(start, seen)
        key_hands, key_act = (jax.random.fold_in(jax.random.fold_in(key, use), len(seen)) for use in (_HANDS, _ACT))
        told = _summarize(self._search, key_hands, self._memory, now)
        thought = None
        if int(now.current_player) == int(now.player) and not now.terminated and np.sum(_legal(now)) > 1:
            thought = _think(self._search, key_act, self._memory, now)
        return Advice(*jax.device_get((*told, thought)))

    def outlook(self, start: Observation, seen: list[Seen], *, num_games: int) -> Outlook:
        """What to expect after all that was seen, in a game that is not over, at any player's turn.

        Args:
            start, seen: as for `advise`.
            num_games: played out for the win probability.
        """
        now = self._follow(start, seen)
        key = jax.random.fold_in(jax.random.fold_in(self._key, _OUTLOOK), len(seen))
        return Outlook(*jax.device_get(_look_ahead(self._search, num_games, key, self._memory, now)))

    def _follow(self, start: Observation, seen: list[Seen]) -> Observation:
        """Take in what is new; returns the person's view now."""
        agent, key = static.split((self._search,)), self._key
        if self._memory is None:
            self._memory = _begin(*agent, jax.random.fold_in(key, _START), start)
        for number in range(self._followed, len(seen)):
            key_update = jax.random.fold_in(jax.random.fold_in(key, _UPDATE), number)
            step = seen[number]
            self._memory = _remember(*agent, key_update, self._memory, step.before, np.int32(step.action), step.after)
        self._followed = len(seen)
        return seen[-1].after if seen else start


def counts(onehot: np.ndarray | Array) -> np.ndarray:
    """Copies of each type: bool[108] to int[54], on the host."""
    return np.bincount(cards.TYPE_OF_SLOT[np.asarray(onehot)], minlength=cards.NUM_TYPES)


def counts_onehot(number: np.ndarray) -> np.ndarray:
    """Canonical one-hot of copy counts: int[54] to bool[108], on the host."""
    return number[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT


_Views = tuple[Observation, Observation]


@partial(jax.jit, static_argnames="rules")
def _deal(key: Array, *, rules: Rules) -> State:
    return game.init(key, rules=rules)


@partial(jax.jit, static_argnames="rules")
def _look(state: State, *, rules: Rules) -> _Views:
    return observe(state, 0, rules=rules), observe(state, 1, rules=rules)


@jax.jit
def _legal(view: Observation) -> Array:
    return view.legal_mask


@partial(jax.jit, static_argnums=1)
def _begin(numbers: list[Array], skeleton: Skeleton, key: Array, view: Observation) -> Memory:
    (agent,) = static.join(numbers, skeleton)
    return agent.init(key, view)


@partial(jax.jit, static_argnums=1)
def _remember(
    numbers: list[Array],
    skeleton: Skeleton,
    key: Array,
    memory: Memory,
    before: Observation,
    action: Array,
    after: Observation,
) -> Memory:
    (agent,) = static.join(numbers, skeleton)
    return agent.update(key, memory, before, action, after)


@partial(jax.jit, static_argnums=1)
def _choose(numbers: list[Array], skeleton: Skeleton, key: Array, memory: Memory, state: State, view: Observation) -> Array:
    (agent,) = static.join(numbers, skeleton)
    reveal = getattr(agent, "reveal", None)
    if reveal is not None:
        memory = reveal(memory, state, jnp.asarray(view.player, jnp.int32))
    return jnp.asarray(agent.act(key, memory, view, view.legal_mask), jnp.int32)


@partial(jax.jit, static_argnums=0)
def _summarize(search: MonteCarloAgent, key: Array, memory: Memory, view: Observation) -> tuple[Array, Array, Array]:
    hands = search.hands(key, memory, view)
    no_playable = summary.prob_no_playable(hands, view.color, view.top_rank)
    return summary.prob_holds(hands), summary.prob_color(hands), no_playable


@partial(jax.jit, static_argnums=0)
def _think(search: MonteCarloAgent, key: Array, memory: Memory, view: Observation) -> Thought:
    estimate, tried = search.think(key, memory, view, view.legal_mask)
    return Thought(estimate, tried, choose(estimate, tried, search.keep))


@partial(jax.jit, static_argnums=(0, 1))
def _look_ahead(
    search: MonteCarloAgent, num_games: int, key: Array, memory: Memory, view: Observation
) -> tuple[Array, Array, Array]:
    key_hands, key_games = jax.random.split(key)
    holds = summary.prob_holds(search.hands(key_hands, memory, view))
    return holds, *win_probability(key_games, search, memory, view, num_samples=num_games)
