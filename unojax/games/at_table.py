"""A game of other people, tracked for one of its players: `Table`. Host only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np
from jax import Array

from unojax import cards
from unojax.decks import is_int
from unojax.games.advising import read_search
from unojax.games.advisor import Advisor, UnexplainedError, WinEstimate
from unojax.games.choices import choices
from unojax.games.events import Event
from unojax.games.gamefile import PERSON, GameFile, read_game, write_game
from unojax.games.seen import SeenGame, share_of_win
from unojax.observation import Observation
from unojax.rules import Rules, as_rules
from unojax.search import TABLE_REPLICATES, TABLE_SEARCH
from unojax.search.pooling import Pooled
from unojax.text import make_observation, parse_cards

NAMES: Final = ("you", "they")
"""Names of the observer and the other player in messages."""
_GAMES: Final = 1000
"""Rollouts per win probability: a standard error of at most 0.016, in some milliseconds."""


class Table:
    """A game of other people, tracked for one player: events one by one, the belief and advice after each.

        table = unojax.Table("R1 R5 Y2 YS B7 G+2 W", "R0", rules="official")
        table.play("R5; draw")
        table.advise().plays

    Results are computed on request and cached, also after steps back and in a game that `after` returned.
    """

    def __init__(
        self,
        hand: str,
        top: str,
        *,
        opponent_begins: bool = False,
        opponent: int | None = None,
        pile: str = "",
        penalty: int | str = 0,
        rules: Rules | str = Rules(),
        agent: str = TABLE_SEARCH,
        replicates: int = TABLE_REPLICATES,
        seed: int = 0,
    ):
        """Begin with a deal, or in the midst of a game if `opponent` is given.

        Args:
            hand: The observer's cards, `R1 RS W`.
            top: The top card, `R0`; a wild card with the active colour, `W:B`.
            opponent_begins: Whether the other player moves first, after the effect of the start card.
            opponent: Number of cards in the other hand. None: the number dealt.
            pile, penalty: As in `unojax.text.make_observation`; after a deal both follow from the top card.
            rules: Rules of the game, or the name of a preset.
            agent: Spec of the search, `mc` or `tree`, that supplies belief and advice.
            replicates: Number of independent searches that advice pools.
            seed: Random seed. The same seed gives the same belief and advice on the same device.

        Raises:
            ValueError: If an argument can't be read, or the position is impossible under the rules.
        """
        rules = as_rules(rules)
        if opponent is None:
            start = _dealt(hand, top, opponent_begins, pile, penalty, rules)
        else:
            words: dict[str, Any] = {"pile": pile, "penalty": penalty, "opponent_begins": opponent_begins}
            start = make_observation(hand, top, opponent, **words, rules=rules)
        game = SeenGame((jax.device_get(start),), names=NAMES)
        self._begin(game, agent, replicates, seed, {}, {})

    @classmethod
    def of(cls, game: SeenGame, *, agent: str = TABLE_SEARCH, replicates: int = TABLE_REPLICATES, seed: int = 0) -> Table:
        """Continue a game from its end; arguments as in `Table`."""
        made = cls.__new__(cls)
        made._begin(_named(game), agent, replicates, seed, {}, {})
        return made

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        agent: str = TABLE_SEARCH,
        replicates: int = TABLE_REPLICATES,
        seed: int | None = None,
    ) -> Table:
        """Resume a game that `save` wrote. `seed`: None: the file's seed.

        Raises:
            ValueError: If the file can't be read, or its events are impossible.
        """
        saved = read_game(path)
        return cls.of(saved.seen(), agent=agent, replicates=replicates, seed=(saved.seed or 0) if seed is None else seed)

    def _begin(
        self,
        game: SeenGame,
        agent: str,
        replicates: int,
        seed: int,
        advisors: dict[tuple[Event, ...], Advisor],
        advice: dict[tuple[Event, ...], Pooled],
    ) -> None:
        if not (is_int(seed) and 0 <= seed < 2**32):
            raise ValueError(f"seed must be a whole number in [0, {2**32 - 1}], got {seed!r}")
        self.game, self.seed = game, int(seed)
        self._agent, self._replicates = agent, replicates
        self.search = read_search(agent, self.rules)
        # Keyed by the events up to the last count or shown hand, and by all events.
        self._advisors, self._advice = advisors, advice

    @property
    def rules(self) -> Rules:
        """Return the rules of the game."""
        return self.game.end.rules

    @property
    def view(self) -> Observation:
        """Return the observer's current view, as NumPy."""
        return self.game.end

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the events so far; `str` of an event is its text."""
        return self.game.events

    @property
    def is_over(self) -> bool:
        """Return whether the game has ended."""
        return bool(self.view.terminated)

    @property
    def is_my_turn(self) -> bool:
        """Return whether the observer is to move."""
        return bool(self.view.is_my_turn) and not self.is_over

    def play(self, line: str) -> tuple[Event, ...]:
        """Add all events of a line, in the notation of `unojax.games.events`, or none if it raises.

        Returns:
            The events that were added.

        Raises:
            ImpossibleActionError: If an event can't be read or is impossible; the game is unchanged.
        """
        before = len(self.events)
        self.game = self.game.play(line)
        return self.events[before:]

    def undo(self, number: int = 1) -> None:
        """Take back the last events. Raises ValueError if the game has fewer."""
        self.game = self.game.back(number)

    def correct(self, number: int, line: str) -> None:
        """Replace event `number`, from 1, and replay all later ones.

        Raises:
            ValueError: If there is no such event, or a later one becomes impossible; the game is unchanged.
        """
        self.game = self.game.corrected(number, line)

    def after(self, line: str) -> Table:
        """Return the table after further events, without changing this one. Raises as `play`."""
        other = Table.__new__(Table)
        other._begin(self.game.play(line), self._agent, self._replicates, self.seed, self._advisors, self._advice)
        return other

    def possible(self) -> tuple[str, ...]:
        """Return the possible next events as text; a draw of the observer's own without its cards."""
        return self.game.possible()

    def look(self) -> WinEstimate:
        """Return the belief about the other hand and type, and the observer's win probability; any player may be to move."""
        advisor, views = self._advisor, self._tracked
        if not self.is_over:
            return advisor.win_estimate(views, num_games=_GAMES)
        looked = advisor.look(views)
        return WinEstimate(looked.belief, np.float32(share_of_win(self.view)), np.float32(0), looked.types)

    def advise(self) -> Pooled | None:
        """Estimate each play's win probability and advise a play; None if the observer has no choice."""
        if not self.is_my_turn or not choices(self.view).any():
            return None
        if self.events not in self._advice:
            advisor = self._advisor
            estimates = list(advisor.replicates(self._tracked, self._replicates))
            self._advice[self.events] = advisor.pool(estimates, self.view)
        return self._advice[self.events]

    @property
    def belief(self) -> Any:
        """Return the belief over the other hand, from the search's updater."""
        return self._advisor.belief(self._tracked)

    @property
    def is_explained(self) -> bool:
        """Return whether the belief explains the last event; if not, the belief restarted from the view alone."""
        try:
            self._advisor.check_explained(self._tracked)
        except UnexplainedError:
            return False
        return True

    @property
    def learned(self) -> Array | None:
        """Return the posterior over the other player's types; None without types."""
        return self._advisor.learned(self._tracked)

    def warm(self) -> None:
        """Compile the programs that track the game. Changes nothing."""
        any(map(self.game.can_play, self.possible()))
        self._advisor.warm(self._tracked[0])
        self.look()

    @property
    def record(self) -> GameFile:
        """Return the game so far as the observer saw it."""
        players = (PERSON, "opponent")[:: 1 - 2 * self.game.player]
        return GameFile.of(self.game, players=(players[0], players[1]), seed=self.seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `record` to a file, for `resume`. Raises OSError if it can't be written."""
        write_game(path, self.record)

    @property
    def _tracked(self) -> tuple[Observation, ...]:
        """Return the views since the last count or shown hand, which the belief tracks."""
        return _since_settled(self.game)

    @property
    def _advisor(self) -> Advisor:
        """Return the advisor for the events since the last count or shown hand."""
        return self._advisor_of(self.game)

    def _advisor_of(self, game: SeenGame) -> Advisor:
        settled = game.events[: game.num_settled]
        if settled not in self._advisors:
            begun: dict[str, Any] = {}
            if settled:
                begun = self._begun_by(game.back(len(game.events) - len(settled)))
            key = jax.random.key(self.seed, impl="threefry2x32")
            steps_before = game.num_steps - len(_since_settled(game)) + 1
            self._advisors[settled] = Advisor(self.search, key, steps_before=steps_before, **begun)
        return self._advisors[settled]

    def _begun_by(self, game: SeenGame) -> dict[str, Any]:
        """Return what an advisor begins with after the last event, a count or a challenge at which the hand was shown.

        A count leaves the posterior over the other player's types. A hand conditions the belief.
        """
        last = game.events[-1]
        if not last.shown:
            earlier = game.back()
            return {"log_types": self._advisor_of(earlier).learned(_since_settled(earlier))}
        earlier = replace(game, events=(*game.events[:-1], last.without_hand))
        return {"starts": self._advisor_of(earlier).given_hand(_since_settled(earlier), parse_cards(last.shown))}


def _dealt(hand: str, top: str, opponent_begins: bool, pile: str, penalty: int | str, rules: Rules) -> Observation:
    """Return the observer's view after the deal and the effect of the start card. Raises ValueError as `Table`."""
    midst = "give opponent, the number of cards that they hold, to begin in the midst of a game"
    if pile.strip() or str(penalty).strip() not in ("", "0"):
        raise ValueError(f"pile and penalty belong to the midst of a game: {midst}")
    start = make_observation(hand, top, rules.hand_size, opponent_begins=opponent_begins, rules=rules)
    drawn = int(cards.DRAW_OF_RANK[int(start.top_rank)])
    extra = drawn if rules.start_effects == "keep_turn" else 0
    mine, theirs = rules.hand_size + extra * (not opponent_begins), rules.hand_size + extra * opponent_begins
    if (number := int(np.sum(start.hand))) != mine:
        raise ValueError(f"hand must be the {mine} cards that you hold at first, got {number}; {midst}")
    due = drawn if rules.start_effects == "forfeit" else 0
    words: dict[str, Any] = {"penalty": due, "opponent_begins": opponent_begins}
    return make_observation(hand, top, theirs, **words, rules=rules)


def _since_settled(game: SeenGame) -> tuple[Observation, ...]:
    """Return the views since the last count or shown hand."""
    return game.observations[game.num_settled :]


def _named(game: SeenGame) -> SeenGame:
    """Address messages to the observer."""
    names: Sequence[str] = NAMES[:: 1 - 2 * game.player]
    return SeenGame(game.observations, game.events, game.steps_before, game.shows_one_hand, (names[0], names[1]))
