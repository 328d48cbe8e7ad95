"""A game in progress between a person and an agent, with the agent's memory.

The person may see `Session.view` and `Session.seen`. Only the record (`steps`, `replay`) shows all cards. An agent sees the
person's hand only through `unojax.agents.reveal`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards, game, text
from unojax.agents import RESIGN, Agent, Memory, PolicyAgent, act, faults_of, next_game, reveal, update
from unojax.device.blame import blamed_on
from unojax.device.programs import Program
from unojax.device.static import Argument
from unojax.game import State
from unojax.games.choices import legal_actions
from unojax.games.gamefile import PERSON, GameFile
from unojax.games.replay import Replay, Step, play_action
from unojax.games.seen import Seen
from unojax.observation import Observation, observe
from unojax.rules import POINTS, Rules, agreed_rules
from unojax.text import format_position
from unojax.value.agent import ValueAgent

_DEAL, _DRAW, _AGENT, _ADVICE, _SEAT = range(5)
"""Random streams. The streams of the agent and the advice do not affect the draws."""
_START, _UPDATE, _ACT = range(3)


class OpponentError(RuntimeError):
    """The agent raised an error or chose an illegal action."""


class Session:
    """A game in progress between a person and an agent.

    Attributes:
        seat: The person's seat, 0 or 1.
        seed: Random seed of the game.
        rules: Rules of the game.
        start: First position.
        steps: Actions so far, with all cards.
        has_given_up: The agent resigned: the person wins, and the record ends there.
    """

    def __init__(
        self, agent: Agent, *, seat: int, seed: int, rules: Rules, start: State | None = None, last: Memory | None = None
    ):
        """Deal, or begin at `start`. Equal seeds and actions give equal games.

        `last` is the agent's `memory` at the end of the last game with the person, see `unojax.agents.next_game`.
        """
        key = jax.random.key(seed, impl="threefry2x32")
        self.seat, self.seed, self.rules = seat, seed, rules if start is None else agreed_rules(start.rules, rules)
        self._agent, self.has_given_up = agent, False
        self._argument = Argument(agent)
        # A policy or a network decides in milliseconds; a search, or an agent of the user, may take long.
        self._answer_choice = _quick_answer if isinstance(agent, PolicyAgent | ValueAgent) else _answer
        self._key_draw, self._key_agent = (jax.random.fold_in(key, stream) for stream in (_DRAW, _AGENT))
        start = _deal(jax.random.fold_in(key, _DEAL), rules=rules) if start is None else start
        self.start, views = jax.device_get((start, _observe(start)))
        self.steps: list[Step] = []
        self._views: list[tuple[Observation, Observation]] = [views]
        # Update the agent only when it has to choose, so that the deal appears at once.
        self._memory: Memory = None
        self._last = last
        self._num_told = -1

    @classmethod
    def resume(cls, saved: GameFile, agent: Agent, *, last: Memory | None = None) -> Session:
        """Deal a saved game again, and replay it; `last` as in `Session`.

        Raises:
            ValueError: If it is no game of a person against an agent, or does not follow from its seed: an action is impossible,
                or a draw differs.
        """
        seat, seed = saved.seat, saved.seed
        assert seed is not None
        session = cls(agent, seat=seat, seed=seed, rules=saved.rules, last=last)
        # The same seed and actions draw the same cards and give the agent the same memory.
        past = saved.replay()
        if format_position(session.start) == saved.start:
            for step in past.steps:
                session.play(step.action)
        if session.record.end != saved.end:
            raise ValueError("the deal and the draws of the saved game are not those of its seed, so it can't continue")
        return session

    def rematch(self) -> Session:
        """Deal the next game against the same agent, which remembers the person: seats swapped, with the next seed."""
        return Session(self._agent, seat=1 - self.seat, seed=(self.seed + 1) % 2**32, rules=self.rules, last=self.memory)

    def warm(self) -> None:
        """Compile the programs of the game."""
        for compile in self.programs():
            compile()

    def programs(self) -> list[Callable[[], object]]:
        """Return functions that each compile one program, slowest first. They raise as `reply`."""
        view, mover = self._views[0][1 - self.seat], self._views[0][int(self.start.current_player)]
        begin = self._to_begin(view)
        memory = partial(_quick_answer.shapes, self._argument, *begin[1:], question=begin[0])

        def prepare(program: Program, question: Callable[..., Any], *after_memory: Any) -> None:
            with self._blaming:
                key = self._key(_ACT, 0)
                program.compile(self._argument, key, memory(), *after_memory, question=question)

        return [
            partial(prepare, _quick_answer, update, view, np.int32(cards.DRAW), view),
            partial(prepare, self._answer_choice, _choose, self.start, view),
            lambda: play_action(self.start, int(legal_actions(mover).argmax()), self._key_draw),
            lambda: self._ask(_quick_answer, *begin),
        ]

    @property
    def opponent(self) -> str:
        """Name of the agent."""
        return self._agent.name

    @property
    def views(self) -> list[Observation]:
        """Person's views at the start and after each action."""
        return [views[self.seat] for views in self._views]

    @property
    def view(self) -> Observation:
        """Person's current view."""
        return self._views[-1][self.seat]

    @property
    def seen(self) -> list[Seen]:
        """Actions so far, as the person saw them."""
        views = self.views
        return [Seen(views[number], step.action, views[number + 1]) for number, step in enumerate(self.steps)]

    @property
    def is_over(self) -> bool:
        """Whether the game is won, drawn, truncated or resigned."""
        return self.has_given_up or self.was_cut_off or bool(self.view.terminated)

    @property
    def was_cut_off(self) -> bool:
        """Whether `Rules.max_steps` truncated the game."""
        return bool(self._state.truncated)

    @property
    def winner(self) -> int:
        """Winner, 0 or 1; -1 in an unfinished or drawn game."""
        return self.seat if self.has_given_up else int(self._state.winner)

    @property
    def card_points(self) -> int:
        """Points of the cards in the loser's hand (`unojax.rules.POINTS`); 0 without a loser."""
        if self.winner < 0:
            return 0
        of_slot = np.asarray(POINTS)[cards.TYPE_OF_SLOT]
        return int(of_slot[np.asarray(self._state.hands)[1 - self.winner]].sum())

    @property
    def is_my_turn(self) -> bool:
        """Whether the person is to move."""
        return int(self.view.current_player) == self.seat

    @property
    def legal(self) -> np.ndarray:
        """Person's legal actions, if the person is to move."""
        return legal_actions(self.view)

    @property
    def faults(self) -> list[str]:
        """Agent's errors so far."""
        return faults_of(self._agent)

    @property
    def agent_has_choice(self) -> bool:
        """Whether the agent, if it is to move, has more than one legal action."""
        return len(self._agents_choices) > 1

    def replay(self) -> Replay:
        """Return the game so far, with all cards."""
        return Replay(self.start, tuple(self.steps))

    @property
    def record(self) -> GameFile:
        """Game so far with all cards, as it is saved."""
        players = (PERSON, self.opponent) if self.seat == 0 else (self.opponent, PERSON)
        return GameFile.of(self.replay(), players=players, seed=self.seed)

    def reply(self) -> int:
        """Return the agent's action, or `RESIGN`. The agent runs only if it has a choice.

        Raises:
            OpponentError: If the agent fails.
        """
        view, legal = self._views[-1][1 - self.seat], self._agents_choices
        if len(legal) == 1:
            return legal[0]
        action = int(
            self._ask(self._answer_choice, _choose, self._key(_ACT, len(self.steps)), self._remember(), self._state, view)
        )
        if action not in (RESIGN, *legal):
            allowed = ", ".join(map(text.format_action, legal))
            raise OpponentError(f"the opponent chose action {action}, which is not legal; it may only: {allowed}")
        return action

    def play(self, action: int) -> Seen | None:
        """Play an action for the player to move; None if the agent resigns.

        Raises:
            ValueError: If the action is illegal.
        """
        if action == RESIGN and not self.is_my_turn:
            self.has_given_up = True
            return None
        # A resumed game continues with the cards that these keys draw.
        key = jax.random.fold_in(jax.random.fold_in(self._key_draw, len(self.steps)), 0)
        step = play_action(self._state, action, key)
        self._views.append(jax.device_get(_observe(step.after)))
        self.steps.append(step)
        return self.seen[-1]

    def take_back(self) -> int:
        """Go back to the person's last decision, and return the number of actions taken back.

        The same moves then draw the same cards.
        """
        seen = self.seen
        mine = [number for number, action in enumerate(seen) if action.is_mine]
        chosen = [number for number in mine if legal_actions(seen[number].before).sum() > 1]
        number = (chosen or mine or [len(self.steps)])[-1]
        taken = len(self.steps) - number
        del self.steps[number:], self._views[number + 1 :]
        if self._num_told > number:
            self._num_told = -1
        # With nothing to take back, the agent would face the same position again.
        self.has_given_up &= not taken
        return taken

    @property
    def _agents_choices(self) -> list[int]:
        return np.flatnonzero(legal_actions(self._views[-1][1 - self.seat])).tolist()

    @property
    def memory(self) -> Memory:
        """Agent's memory now. Raises OpponentError if the agent fails."""
        return self._remember()

    def _ask(self, program: Program, question: Callable[..., Any], *args: Any) -> Any:
        """Return `question(agent, *args)`. Raises OpponentError, which names the agent."""
        with self._blaming:
            return program(self._argument, *args, question=question)

    @property
    def _blaming(self) -> AbstractContextManager[None]:
        return blamed_on(self._agent.name, OpponentError)

    def _remember(self) -> Memory:
        """Update the agent with all new events, and return its memory."""
        agent = 1 - self.seat
        if self._num_told < 0:
            self._memory, self._num_told = self._ask(_quick_answer, *self._to_begin(self._views[0][agent])), 0
        for number in range(self._num_told, len(self.steps)):
            around = (self._views[number][agent], np.int32(self.steps[number].action), self._views[number + 1][agent])
            self._memory = self._ask(_quick_answer, update, self._key(_UPDATE, number), self._memory, *around)
            self._num_told = number + 1
        return self._memory

    def _to_begin(self, view: Observation) -> tuple[Any, ...]:
        """Return the question, and its arguments, that create the agent's memory."""
        key = self._key(_START, 0)
        return (_begin, key, view) if self._last is None else (next_game, key, self._last, view)

    @property
    def _state(self) -> State:
        return self.steps[-1].after if self.steps else self.start

    def _key(self, purpose: int, number: int) -> Array:
        return jax.random.fold_in(jax.random.fold_in(self._key_agent, purpose), number)


def advice_key(seed: int) -> Array:
    """Return the key of the advice in a game with this seed."""
    return jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), _ADVICE)


def draw_seat(seed: int | None) -> int:
    """Draw 0 or 1 by a seed; None: at random."""
    if seed is None:
        return secrets.randbelow(2)
    key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), _SEAT)
    return int(jax.random.bernoulli(key))


def _call(agent: Argument, *args: Any, question: Callable[..., Any]) -> Any:
    """Return `question(agent, *args)`; agents that differ in arrays share the program."""
    return question(agent.value, *args)


_answer: Final = Program(_call, static="question")
_quick_answer: Final = Program(_call, static="question", is_light=True)
"""For questions that take milliseconds, as all about the memory do: the first reply waits until they are compiled."""


def _begin(agent: Agent, key: Array, view: Observation) -> Memory:
    return agent.init(key, view)


def _choose(agent: Agent, key: Array, memory: Memory, state: State, view: Observation) -> Array:
    memory = reveal(agent, memory, state, jnp.asarray(view.player, jnp.int32))
    return act(agent, key, memory, view, view.legal_mask)


@partial(Program, static="rules", is_light=True)
def _deal(key: Array, *, rules: Rules) -> State:
    return game.init(key, rules=rules)


@partial(Program, is_light=True)
def _observe(state: State) -> tuple[Observation, Observation]:
    return observe(state, 0), observe(state, 1)
