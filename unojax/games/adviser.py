"""Advice for a person from what the person saw: what the opponent may hold, and what a search says of the plays. Host only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax.belief.cache import BeliefCache
from unojax.belief.digest import Digest, digest
from unojax.belief.opponents import Family
from unojax.belief.updaters import Oracle
from unojax.device.kept import KeptProgram
from unojax.games.seen import Seen, legal_actions
from unojax.games.session import ADVICE
from unojax.observation import Observation
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.monte_carlo import Estimate, choose
from unojax.search.outlook import win_probability

_ACT, _HANDS, _OUTLOOK, _BELIEFS = range(2, 6)
"""Streams of random numbers."""
_MAX_BELIEFS: Final = 128
"""Positions whose beliefs are kept, at 0.4 MB for each 1024 particles."""


class Thought(NamedTuple):
    """A search's estimates, of the choices that were `tried` (bool[60] or more), and the action `advised` (int32[]). NumPy."""

    estimate: Estimate
    tried: Array
    advised: Array


class Advice(NamedTuple):
    """The opponent's hand from what the person saw, and the play advised. NumPy.

    Attributes:
        prob_holds: float32[54], prob_color: float32[4], prob_no_playable: float32[]: of the opponent, as in
            `unojax.belief.summary`.
        thought: about the plays; None if there is no choice.
        types: P(type) of the opponent by name, the likeliest first; empty under a single model.
    """

    prob_holds: Array
    prob_color: Array
    prob_no_playable: Array
    thought: Thought | None
    types: Mapping[str, float] = {}


class Outlook(NamedTuple):
    """The opponent's hand from what the person saw, and how likely the person is to win. NumPy.

    Attributes:
        prob_holds: float32[54], of the opponent, as in `unojax.belief.summary`.
        win_probability, win_error: float32[], as `unojax.search.outlook` gives them.
        types: as in `Advice`.
    """

    prob_holds: Array
    win_probability: Array
    win_error: Array
    types: Mapping[str, float] = {}


class Adviser:
    """Advice from what the person saw, which costs nothing until it is asked for.

    Beliefs and answers are kept by what was seen, so that asking again, also after steps back, computes nothing. (1024 particles,
    500 rollouts, two CPU cores: advice after 42 actions takes 250 ms, again 0.3 ms, the outlook there 20 ms in place of 250, and
    advice for the position 16 actions before 25 ms in place of 150.)
    """

    def __init__(self, search: SearchAgent, *, seed: int, log_types: ArrayLike | None = None, steps_before: int = 0):
        """Prepare advice for a game with this seed, by a search for the same rules.

        `log_types`: what was `learned` of the opponent's type in an earlier game. `steps_before`: steps of the game before the
        person's first view.

        Raises:
            ValueError: the search knows more than the person.
        """
        if isinstance(search.updater, Oracle):
            raise ValueError(f"an adviser knows what the person knows: belief=particles or belief=unseen, got {search.name!r}")
        self._search, self._key = search.counting_wins(), jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), ADVICE)
        self._log_types, self._steps_before = log_types, steps_before
        self._beliefs = self._new_beliefs()
        self._answers: dict[tuple[str, bytes], Any] = {}

    def warm(self, start: Observation) -> None:
        """Compile what following the game and advice need, given the person's first view. Changes nothing."""
        # Between two views that are the same nothing has happened.
        known = self._new_beliefs().belief([start, start])
        memory = Remembered(known, jnp.int32(1))
        told = sum_up(self._key, memory, start, search=self._search)
        jax.block_until_ready((told, _think(self._key, memory, start, search=self._search)))

    def advise(self, start: Observation, seen: Sequence[Seen]) -> Advice:
        """Advise the person after all that was `seen` since the first view, `start`."""
        return self._answer("advice", start, seen, self._advise)

    def outlook(self, start: Observation, seen: Sequence[Seen], *, num_games: int) -> Outlook:
        """Tell what to expect, in a game that is not over, at any player's turn; `num_games` are played out for it."""
        return self._answer(f"outlook {num_games}", start, seen, partial(self._look_ahead, num_games))

    def learned(self, start: Observation, seen: Sequence[Seen]) -> Array | None:
        """Tell what is known of the opponent's type after all that was `seen`, for the `log_types` of the next game's adviser.

        None if the search takes the opponent for a single model.
        """
        if not isinstance(self._search.updater.opponent, Family):
            return None
        return jax.device_get(self._beliefs.belief([start, *(step.after for step in seen)]).log_type_probs)

    def _answer(self, question: str, start: Observation, seen: Sequence[Seen], find: Callable[[list[Observation]], Any]) -> Any:
        views = [start, *(step.after for step in seen)]
        seen_so_far = hashlib.blake2b(digest_size=16)
        for leaf in jax.tree.leaves(views):
            seen_so_far.update(np.asarray(leaf).tobytes())
        asked = question, seen_so_far.digest()
        if asked not in self._answers:
            self._answers[asked] = jax.device_get(find(views))
        return self._answers[asked]

    def _advise(self, views: list[Observation]) -> Advice:
        told, types, memory = self._believe(views)
        now, thought = views[-1], None
        if now.is_my_turn and not now.terminated and legal_actions(now).sum() > 1:
            thought = _think(self._key_for(_ACT, views), memory, now, search=self._search)
        return Advice(told.prob_holds, told.prob_color, told.prob_no_playable, thought, types)

    def _look_ahead(self, num_games: int, views: list[Observation]) -> Outlook:
        told, types, memory = self._believe(views)
        win = _play_out(self._search, num_games, self._key_for(_OUTLOOK, views), memory, views[-1])
        return Outlook(told.prob_holds, *win, types=types)

    def _believe(self, views: list[Observation]) -> tuple[Digest, dict[str, float], Remembered]:
        """Sum up the belief over the opponent's hand, and its types, and give the memory of the search."""
        steps = jnp.int32(self._steps_before + len(views) - 1)
        memory = Remembered(self._beliefs.belief(views), steps)
        types = self._search.updater.types(memory.belief)
        return sum_up(self._key_for(_HANDS, views), memory, views[-1], search=self._search), types, memory

    def _new_beliefs(self) -> BeliefCache:
        key = jax.random.fold_in(self._key, _BELIEFS)
        return BeliefCache(self._search.updater, key=key, max_entries=_MAX_BELIEFS, log_types=self._log_types)

    def _key_for(self, purpose: int, views: list[Observation]) -> Array:
        return jax.random.fold_in(jax.random.fold_in(self._key, purpose), len(views) - 1)


@partial(KeptProgram, static="search")
def sum_up(key: Array, memory: Remembered, view: Observation, *, search: SearchAgent) -> Digest:
    """Sum up the hands that a search takes for possible. Consumes `key`."""
    return digest(search.hands(key, memory, view), view)


@partial(KeptProgram, static="search")
def _think(key: Array, memory: Remembered, view: Observation, *, search: SearchAgent) -> Thought:
    estimate, tried = search.think(key, memory, view, view.legal_mask)
    return Thought(estimate, tried, choose(estimate, tried, search.keep))


@partial(jax.jit, static_argnums=(0, 1))
def _play_out(search: SearchAgent, num_games: int, key: Array, memory: Remembered, view: Observation) -> tuple[Array, Array]:
    return win_probability(key, search, memory, view, num_samples=num_games)
