"""Search for one player from that player's observations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax.belief.cache import BeliefCache, CacheEntry, Recent, names_of
from unojax.belief.opponents import Family
from unojax.belief.summary import BeliefSummary
from unojax.belief.tracking import Look, compile_advance, compile_given_hand, given_hand, look, shapes_of
from unojax.belief.updaters import GivenHands, Oracle
from unojax.games.choices import choices
from unojax.games.events import Event
from unojax.games.seen import SeenGame
from unojax.observation import Observation, winner_of
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.monte_carlo import Estimate, choose
from unojax.search.pooling import Pooled, pool, replicates, search_once
from unojax.search.win_estimate import win_probability
from unojax.text import parse_cards

_MAX_KEPT: Final = 128
"""Positions with cached beliefs and answers, at 0.4 MB per 1024 particles."""
_BELIEFS, _HANDS, _SEARCH, _WIN, _SHOWN = range(5)
"""Random streams."""
Views = Sequence[Observation]
"""All observations of a player: the first view and one view after each transition."""


class Thought(NamedTuple):
    """Advice by one search: estimates for the `tried` choices, bool[60] or more, and the `advised` action, int32[]."""

    estimate: Estimate
    tried: np.ndarray
    advised: Array


class WinEstimate(NamedTuple):
    """Belief about the opponent's hand, and the player's win probability.

    Attributes:
        belief, types: As in `unojax.belief.tracking.Look`.
        win_probability, win_error: float32[], as in `unojax.search.win_estimate`.
    """

    belief: BeliefSummary
    win_probability: Any
    win_error: Any
    types: Mapping[str, float] = {}


class UnexplainedError(ValueError):
    """No hand of a belief explains the observations at a position, given by its index."""

    def __init__(self, number: int, player: int, num_particles: int):
        super().__init__(
            f"turn {number}: no hand of player {player} explains it among {num_particles} particles; take more particles"
        )
        self.number = number


class Advisor:
    """A search for one player, on request, with cached beliefs and answers."""

    def __init__(
        self,
        search: SearchAgent,
        key: Array,
        *,
        num_beliefs: int = 1,
        log_types: ArrayLike | None = None,
        steps_before: int = 0,
        starts: Sequence[CacheEntry] = (),
    ):
        """Prepare advice for a game.

        Args:
            search: Search for the rules of the game, with results in wins.
            key: Random key, consumed; it gives the same advice on the same device.
            num_beliefs: Number of independent beliefs, whose differences estimate the error.
            log_types: Log posterior over the opponent's types (`learned`) from an earlier game.
            steps_before: Steps of the game before the player's first view.
            starts: Beliefs at the first view (`given_hand`), which replace `num_beliefs` and `log_types`.

        Raises:
            ValueError: If the search sees more than the player.
        """
        if isinstance(search.updater, Oracle):
            raise ValueError(
                f"an advisor knows what the person knows: use belief=particles, say, and not belief=truth; got {search.name!r}"
            )
        self.updater, self.search, self._key = search.updater, search.counting_wins(), key
        if self.updater.on_host:
            self.search = replace(self.search, updater=GivenHands())
        self._log_types, self._steps_before, self._starts = log_types, steps_before, starts
        self._beliefs = tuple(self._new_beliefs(number) for number in range(len(starts) or num_beliefs))
        self._answers = Recent[Any, Any](_MAX_KEPT)

    def warm(self, start: Observation) -> None:
        """Compile the programs for tracking and advice, given the player's first view."""
        for compile in (*self.programs(start), *self.later_programs(start)):
            compile()

    def programs(self, start: Observation) -> list[Callable[[], object]]:
        """Return functions that compile the programs of the first advice."""

        def compile_look() -> None:
            look(self.updater, self._key, self._new_beliefs(0).belief([start]), start)

        return [partial(self.compile_search, start), compile_look]

    def later_programs(self, start: Observation) -> list[Callable[[], object]]:
        """Return functions that compile the other programs of tracking."""
        shows_hands = start.rules.wild_draw_four == "challenge"
        made = [compile_advance, compile_given_hand] if shows_hands else [compile_advance]
        return [partial(compile, self.updater, self._key, start) for compile in made]

    def compile_search(self, view: Observation) -> None:
        """Compile the search at a position. No effect for an updater of the host."""
        if not self.updater.on_host:
            memory = Remembered(shapes_of(self.updater, self._key, view), jnp.int32(0))
            search_once.compile(self._key, memory, view, np.zeros(view.rules.num_choices, bool), agent=self.search)

    def look(self, views: Views) -> Look:
        """Return the belief summary and opponent types, as means over the beliefs."""
        return self._answer("look", views, self._look)

    def advise(self, views: Views) -> Thought | None:
        """Advise the player by one search; None without a choice."""
        return self._answer("thought", views, self._think)

    def replicates(self, views: Views, number: int | None = None) -> Generator[Estimate]:
        """Yield repeated searches for a player with a choice; see `pooling.replicates`."""
        key = self._key_at(_SEARCH, views)
        return replicates(self.search, self._memories(views), views[-1], choices(views[-1]), key, number)

    def pool(self, estimates: Sequence[Estimate], view: Observation) -> Pooled:
        """Pool replicates; see `pooling.pool`."""
        return pool(estimates, choices(view), self.search.keep, self.search.prior_rollouts)

    def win_estimate(self, views: Views, *, num_games: int) -> WinEstimate:
        """Estimate the player's win probability at any player's turn; at the end of a game it is the result.

        Each belief gets `num_games` rollouts. With several beliefs the error comes from their differences; with one it is
        conditional on the belief.
        """
        looked = self.look(views)
        if views[-1].terminated:
            winner = winner_of(views[-1])
            won = 0.5 if winner < 0 else winner == int(views[-1].player)
            return WinEstimate(looked.belief, np.float32(won), np.float32(0), looked.types)
        win, error = self._answer(("win", num_games), views, partial(self._win, num_games))
        return WinEstimate(looked.belief, win, error, looked.types)

    def check_explained(self, views: Views) -> None:
        """Raise UnexplainedError if a belief was restarted at the last position."""
        for cache in self._beliefs:
            info = cache.track(views).info
            if info is not None and info.depleted:
                raise UnexplainedError(len(views) - 1, 1 - int(views[0].player), self.updater.num_particles)

    def belief(self, views: Views) -> Any:
        """Return the first belief over the opponent's hand."""
        return self._beliefs[0].belief(views)

    def learned(self, views: Views) -> Array | None:
        """Return the log posterior over types, for `log_types` of the next advisor; None without types."""
        if not isinstance(self.updater.opponent, Family):
            return None
        return jax.device_get(self._beliefs[0].belief(views).log_type_probs)

    def given_hand(self, views: Views, hand: np.ndarray) -> tuple[CacheEntry, ...]:
        """Return the beliefs at the last view, given the opponent's hand, bool[108], shown there."""
        entries = zip(self._keys_at(_SHOWN, views), self._beliefs, strict=True)
        return tuple(CacheEntry(*given_hand(self.updater, key, cache.belief(views), views[-1], hand)) for key, cache in entries)

    def _answer(self, question: Any, views: Views, find: Callable[[Views], Any]) -> Any:
        asked = question, names_of(views)[-1]
        if asked not in self._answers:
            self._answers.put(asked, find(views))
        return self._answers.get(asked)

    def _look(self, views: Views) -> Look:
        keys = self._keys_at(_HANDS, views)
        looks = [look(self.updater, key, cache.belief(views), views[-1]) for key, cache in zip(keys, self._beliefs, strict=True)]
        if len(looks) == 1:
            return looks[0]
        means = jax.tree.map(lambda *rows: np.mean(rows, axis=0), *looks)
        types = {name: float(prob) for name, prob in means.types.items()}
        return means._replace(types=dict(sorted(types.items(), key=lambda item: -item[1])))

    def _think(self, views: Views) -> Thought | None:
        now, tried = views[-1], choices(views[-1])
        if not now.is_my_turn or now.terminated or tried.sum() < 2:
            return None
        key = jax.random.fold_in(self._key_at(_SEARCH, views), 0)
        estimate = search_once(key, self._memories(views)[0], now, tried, agent=self.search)
        estimate = jax.device_get(estimate)
        return Thought(estimate, tried, choose(estimate, tried, self.search.keep))

    def _win(self, num_games: int, views: Views) -> tuple[np.ndarray, np.ndarray]:
        memories, keys = self._memories(views), self._keys_at(_WIN, views)
        wins = [_play_out(self.search, num_games, key, memory, views[-1]) for key, memory in zip(keys, memories, strict=True)]
        means, errors = np.array(jax.device_get(wins), np.float32).T
        return means.mean(), errors[0] if len(means) == 1 else means.std(ddof=1) / np.float32(np.sqrt(len(means)))

    def _memories(self, views: Views) -> list[Remembered]:
        """Return the search's memory with each belief."""
        keys = self._keys_at(_HANDS, views)
        return [self._memory(key, cache.belief(views), views) for key, cache in zip(keys, self._beliefs, strict=True)]

    def _memory(self, key: Array, belief: Any, views: Views) -> Remembered:
        if self.updater.on_host:
            belief = self.updater.hands(key, belief, views[-1])
        return Remembered(belief, jnp.int32(self._steps_before + len(views) - 1))

    def _new_beliefs(self, number: int) -> BeliefCache:
        key = jax.random.fold_in(jax.random.fold_in(self._key, _BELIEFS), number)
        start = self._starts[number] if self._starts else None
        return BeliefCache(self.updater, key=key, max_entries=_MAX_KEPT, log_types=self._log_types, start=start)

    def _key_at(self, purpose: int, views: Views) -> Array:
        return jax.random.fold_in(jax.random.fold_in(self._key, purpose), len(views) - 1)

    def _keys_at(self, purpose: int, views: Views) -> Array:
        return jax.random.split(self._key_at(purpose, views), len(self._beliefs))


class Advisors:
    """Advisors of a game as one player saw it: a count or a shown hand begins the next one.

    They are cached by the events before them, so games with common first events share them.
    """

    def __init__(self, search: SearchAgent, key: Array, *, num_beliefs: int = 1):
        self._search, self._key, self._num_beliefs = search, key, num_beliefs
        self._advisors: dict[tuple[Event, ...], Advisor] = {}

    def at(self, game: SeenGame) -> tuple[Advisor, tuple[Observation, ...]]:
        """Return the advisor at the end of a game, and the views that it tracks."""
        settled, views = game.events[: game.num_settled], game.observations[game.num_settled :]
        if settled not in self._advisors:
            begun: dict[str, Any] = {"num_beliefs": self._num_beliefs, "steps_before": game.num_steps - len(views) + 1}
            if settled:
                begun |= self._begun_by(game.back(len(game.events) - len(settled)))
            self._advisors[settled] = Advisor(self._search, self._key, **begun)
        return self._advisors[settled], views

    def _begun_by(self, game: SeenGame) -> dict[str, Any]:
        """Return the arguments of an advisor that begins after a count or a shown hand.

        A count leaves only the posterior over the opponent's types. A hand conditions the belief.
        """
        last = game.events[-1]
        if not last.shown:
            advisor, views = self.at(game.back())
            return {"log_types": advisor.learned(views)}
        advisor, views = self.at(replace(game, events=(*game.events[:-1], last.without_hand)))
        return {"starts": advisor.given_hand(views, parse_cards(last.shown))}


@partial(jax.jit, static_argnums=(0, 1))
def _play_out(search: SearchAgent, num_games: int, key: Array, memory: Remembered, view: Observation) -> tuple[Array, Array]:
    return win_probability(key, search, memory, view, num_samples=num_games)
