"""A game of other people, tracked for one of its players: `Table`."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np
from jax import Array

from unojax import cards
from unojax.decks import is_int
from unojax.games.advising import read_search
from unojax.games.advisor import Advisor, Advisors, UnexplainedError, WinEstimate
from unojax.games.choices import choices
from unojax.games.events import Event
from unojax.games.gamefile import PERSON, GameFile, read_game, write_game
from unojax.games.seen import SeenGame
from unojax.observation import Observation
from unojax.rules import Rules, as_rules
from unojax.search import TABLE_REPLICATES, TABLE_SEARCH, check_replicates
from unojax.search.pooling import Pooled
from unojax.text import make_observation
from unojax.text.notation import check_text

NAMES: Final = ("you", "they")
"""Names of the observer and the other player in messages."""
_GAMES: Final = 1000
"""Rollouts per win probability: a standard error of at most 0.016, in some milliseconds."""


class Table:
    """A game of other people, tracked for one player, the observer: events, belief and advice.

        table = unojax.Table("R1 R5 Y2 YS B7 G+2 W", "R0", rules="official")
        table.play("R5; draw")
        table.advise().plays

    Results are computed on request and cached.
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
            opponent_begins: The other player moves first, after the effect of the start card.
            opponent: Number of cards in the other hand. None: the number dealt.
            pile, penalty: As in `unojax.text.make_observation`; after a deal both follow from the top card.
            rules: Rules of the game, or the name of a preset.
            agent: Spec of the search, `mc` or `tree`, for belief and advice.
            replicates: Number of independent searches that advice pools.
            seed: Random seed; it gives the same belief and advice on the same device.

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
        self._begin(game, agent, replicates, seed)

    @classmethod
    def of(cls, game: SeenGame, *, agent: str = TABLE_SEARCH, replicates: int = TABLE_REPLICATES, seed: int = 0) -> Table:
        """Continue a game from its end; arguments as in `Table`."""
        made = cls.__new__(cls)
        # Messages address the observer.
        made._begin(replace(game, names=NAMES if game.player == 0 else (NAMES[1], NAMES[0])), agent, replicates, seed)
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

    def _begin(self, game: SeenGame, agent: str, replicates: int, seed: int) -> None:
        if not (is_int(seed) and 0 <= seed < 2**32):
            raise ValueError(f"seed must be a whole number in [0, {2**32 - 1}], got {seed!r}")
        check_replicates(replicates)
        self.game, self.seed = game, int(seed)
        self._replicates, self.search = replicates, read_search(agent, self.rules)
        self._advisors = Advisors(self.search, jax.random.key(self.seed, impl="threefry2x32"))
        # Keyed by the events.
        self._advice: dict[tuple[Event, ...], Pooled] = {}

    def __repr__(self) -> str:
        return f"<Table of {len(self.events)} events, {self.view!r}>"

    def _repr_svg_(self) -> str | None:
        return self.view._repr_svg_()

    @property
    def rules(self) -> Rules:
        """Rules of the game."""
        return self.game.end.rules

    @property
    def view(self) -> Observation:
        """Observer's current view."""
        return self.game.end

    @property
    def events(self) -> tuple[Event, ...]:
        """Events so far; `str` of an event is its text."""
        return self.game.events

    @property
    def is_over(self) -> bool:
        """Whether the game has ended."""
        return bool(self.view.terminated)

    @property
    def is_my_turn(self) -> bool:
        """Whether the observer is to move."""
        return bool(self.view.is_my_turn) and not self.is_over

    def play(self, line: str) -> tuple[Event, ...]:
        """Add all events of a line, in the notation of `unojax.games.events`, and return them.

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
        """Return the table after further events; this one is unchanged. Raises as `play`."""
        # The two share the beliefs and the advice about common events.
        other = copy(self)
        other.game = self.game.play(line)
        return other

    def possible(self) -> tuple[str, ...]:
        """Return the possible next events as text; a draw of the observer's own without its cards."""
        return self.game.possible()

    def look(self) -> WinEstimate:
        """Return the belief over the other hand and type, and the observer's win probability."""
        advisor, views = self._at_end
        return advisor.win_estimate(views, num_games=_GAMES)

    def advise(self) -> Pooled | None:
        """Return each play's win probability and the advised play; None without a choice."""
        if not self.is_my_turn or not choices(self.view).any():
            return None
        if self.events not in self._advice:
            advisor, views = self._at_end
            estimates = list(advisor.replicates(views, self._replicates))
            self._advice[self.events] = advisor.pool(estimates, self.view)
        return self._advice[self.events]

    @property
    def belief(self) -> Any:
        """Belief over the other hand, from the search's updater."""
        advisor, views = self._at_end
        return advisor.belief(views)

    @property
    def is_explained(self) -> bool:
        """Whether the belief explains the last event; if not, it restarted from the view alone."""
        advisor, views = self._at_end
        try:
            advisor.check_explained(views)
        except UnexplainedError:
            return False
        return True

    @property
    def learned(self) -> Array | None:
        """Posterior over the other player's types; None without types."""
        advisor, views = self._at_end
        return advisor.learned(views)

    def warm(self) -> None:
        """Compile the programs that track the game."""
        any(map(self.game.can_play, self.possible()))
        advisor, views = self._at_end
        advisor.warm(views[0])
        self.look()

    @property
    def _at_end(self) -> tuple[Advisor, tuple[Observation, ...]]:
        return self._advisors.at(self.game)

    @property
    def record(self) -> GameFile:
        """Game so far as the observer saw it."""
        players = (PERSON, "opponent")[:: 1 - 2 * self.game.player]
        return GameFile.of(self.game, players=(players[0], players[1]), seed=self.seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `record` to a file, for `resume`. Raises OSError if it can't be written."""
        write_game(path, self.record)


def _dealt(hand: str, top: str, opponent_begins: bool, pile: str, penalty: int | str, rules: Rules) -> Observation:
    """Return the observer's view after the deal and the start card's effect. Raises as `Table`."""
    midst = "to begin in the midst of a game give `opponent`, the number of cards that they hold"
    check_text(pile, "pile", "R5 YS, W+4")
    if pile.strip() or str(penalty).strip() not in ("", "0"):
        raise ValueError(f"pile and penalty belong to the midst of a game: {midst}")
    start = make_observation(hand, top, rules.hand_size, opponent_begins=opponent_begins, rules=rules)
    mine, theirs = first_hands(int(start.top_rank), opponent_begins, rules)
    if (number := int(np.sum(start.hand))) != mine:
        raise ValueError(f"hand must be the {mine} cards that you hold at first, got {number}; {midst}")
    seen = make_observation(hand, top, theirs, opponent_begins=opponent_begins, rules=rules)
    # Set here, because `make_observation` asks for the colour before a Wild+4 that may be challenged. A start card can't be.
    due = cards.DRAW_OF_RANK[int(start.top_rank)] if rules.start_effects == "forfeit" else 0
    return replace(seen, penalty=np.int8(due))


def first_hands(top_rank: int, opponent_begins: bool, rules: Rules) -> tuple[int, int]:
    """Return the numbers of cards of observer and opponent after the deal and the start card's effect."""
    drawn = int(cards.DRAW_OF_RANK[top_rank]) if rules.start_effects == "keep_turn" else 0
    return rules.hand_size + drawn * (not opponent_begins), rules.hand_size + drawn * opponent_begins
