"""`unojax play`: games against a policy or a search, in the terminal or in the browser."""

from __future__ import annotations

import secrets
import shlex
from typing import TYPE_CHECKING, Any, Final, Literal, Optional

from unojax.cli.options import (
    AGENT_HELP,
    CountOrNone,
    Flag,
    RuleFields,
    RuleOptions,
    SeedOrNone,
    blaming,
    command,
    get_opponent,
    given,
    option,
)
from unojax.cli.serving import PageFields, PageOptions
from unojax.cli.targets import file_of_game
from unojax.rules import Rules
from unojax.search import ADVISER_MODEL
from unojax.specs import choose_opponent, parse_agent, runs_code

if TYPE_CHECKING:
    from unojax.games.gamefile import GameFile
    from unojax.search.agents import SearchAgent

_MAX_HINTS: Final = 100_000
"""Rollouts of each play, whose results are all held in memory."""


@command
class PlayGame:
    """Play against a policy or a search, in the terminal or in the browser."""

    opponent: Optional[str] = option(
        None, f"One of: {AGENT_HELP} None: value, or a search under rules that its network does not know.", "AGENT"
    )
    seat: Literal["0", "1", "random"] = option(
        "0", "Your seat. Player 0 moves first, unless the rules choose at random or a start card skips the turn."
    )
    seed: SeedOrNone = option(
        None, "The same seed gives the same deal, and with the same moves the same game. none: another one each time."
    )
    hints: CountOrNone = option(500, "Rollouts of each legal play for the advice (?), at least 2. none: no advice.")
    opponent_model: Optional[str] = option(
        None,
        "Model of the opponent behind the advice, see unojax belief --opponent-model. With several types, such as "
        "uniform|linear or family, the advice names the likeliest, and a rematch starts from the inferred types. None: peer.",
        "MODEL",
    )
    auto_draw: Flag = option(False, "Make forced draws at once, without Enter.")
    save: Optional[str] = option(
        None,
        "Save the game after every move, all cards included, and a rematch beside it, for unojax replay. An unfinished game "
        "is not overwritten.",
        "FILE.json",
    )
    resume: Optional[str] = option(
        None,
        "Resume a saved game, with its opponent, seat, seed and rules. It is saved there again, or where --save says.",
        "FILE.json",
    )
    page: PageFields = PageOptions()
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        _check(self)
        rules = self.rules.build()
        return self._serve(rules) if self.page.web else self._talk(rules)

    def _talk(self, rules: Rules) -> int:
        """Play in the terminal."""
        from unojax.games.session import Session, draw_seat
        from unojax.terminal.conversation import play_games

        saved = None if self.resume is None else _read_unfinished(self.resume, self.opponent)
        path = file_of_game(self.save, self.resume)
        if saved is None:
            agent, search = parse_agent(choose_opponent(self.opponent, rules), rules=rules), self._adviser(rules)
            seed = secrets.randbelow(2**32) if self.seed is None else self.seed
            seat = draw_seat(seed) if self.seat == "random" else int(self.seat)
            session = Session(agent, seat=seat, seed=seed, rules=rules)
        else:
            agent, search = parse_agent(saved.opponent, rules=saved.rules), self._adviser(saved.rules)
            with blaming("--resume"):
                session = Session.resume(saved, agent)
        return play_games(session, search, path, auto_draw=self.auto_draw)

    def _serve(self, rules: Rules) -> int:
        """Serve the page until Ctrl-C."""
        from unojax.games.session import draw_seat

        parse_agent(choose_opponent(self.opponent, rules), rules=rules)
        self._adviser(rules)
        advice = self._advice
        assert advice is not None
        seat = draw_seat(self.seed) if self.seat == "random" else int(self.seat)

        def defaults() -> Any:
            from unojax.web.games import Defaults

            return Defaults(self.opponent, seat, self.seed, advice, rules)

        return self.page.serve("play", defaults)

    @property
    def _advice(self) -> str | None:
        """Return the spec of the search behind the advice; None without advice."""
        if self.hints is None:
            return None
        return f"mc:rollouts={self.hints},model={ADVISER_MODEL if self.opponent_model is None else self.opponent_model}"

    def _adviser(self, rules: Rules) -> SearchAgent | None:
        """Return the search behind the advice, if any."""
        from unojax.search.agents import SearchAgent

        if self._advice is None:
            return None
        if self.opponent_model is not None:
            # The search parses it again; checked here so that an error names the option.
            get_opponent(self.opponent_model)
        search = parse_agent(self._advice, rules=rules)
        assert isinstance(search, SearchAgent)
        return search


def _check(request: PlayGame) -> None:
    if request.hints is not None and not 2 <= request.hints <= _MAX_HINTS:
        raise ValueError(f"--hints must be in [2, {_MAX_HINTS}] or none, got {request.hints}")
    request.page.check(PlayGame.page)
    if request.page.web and (
        request.save is not None or request.resume is not None or request.hints is None or request.auto_draw
    ):
        raise ValueError(
            "--save, --resume, --auto-draw and --hints none have no effect with --web, whose page keeps games: remove them"
        )
    if request.hints is None and request.opponent_model is not None:
        raise ValueError("--opponent-model has no effect with --hints none: remove one of them")
    if request.resume is not None and (others := given(request, "seat", "seed", "rules")):
        raise ValueError(f"--resume continues with the opponent, seat, seed and rules of the saved game: remove {others[0]}")


def _read_unfinished(path: str, opponent: str | None) -> GameFile:
    """Read a game of `--resume`. Raises ValueError if it can't go on, or not against this opponent."""
    from unojax.games.gamefile import read_game

    game = read_game(path)
    with blaming(f"--resume: {path!r}"):
        against = game.opponent
    if game.result != "*":
        raise ValueError(f"--resume: the game in {path!r} is over; unojax replay shows it")
    if opponent not in (None, against):
        raise ValueError(f"--resume continues against the opponent of the saved game, {against}: remove --opponent")
    if runs_code(against) and opponent != against:
        how = f"--opponent {shlex.quote(against)}"
        raise ValueError(f"--resume: the game in {path!r} is against an agent that runs code of its own; to run it, add {how}")
    return game
