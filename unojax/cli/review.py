"""`unojax review`: win probability, belief, and the cost of each choice of a saved game."""

from __future__ import annotations

from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, Optional

import tyro

from unojax.cli import output
from unojax.cli.options import Count, JsonTarget, PlayerOrNone, Quiet, Seed, blaming, command, option
from unojax.device.process import EXIT_INTERRUPTED
from unojax.search import DEFAULT_SEARCH, MIN_REPLICATES, REVIEW_REPLICATES, check_replicates
from unojax.terminal import person, tables

if TYPE_CHECKING:
    from unojax.analysis.reviewing import ReviewedTurn, ReviewReport
    from unojax.games.gamefile import GameFile


@command
class Review:
    """Look back at a saved game: how likely the player was to win, what each choice cost."""

    file: tyro.conf.Positional[str] = option(
        MISSING, "A game that unojax play or unojax table saved.", "FILE.json", is_saved_game=True
    )
    player: PlayerOrNone = option(
        None, "Player whose choices are reviewed, by this player's knowledge. none: the person, or player 0."
    )
    agent: str = option(DEFAULT_SEARCH, "The search that values the plays: mc or tree, with parameters.", "SPEC")
    replicates: Count = option(REVIEW_REPLICATES, f"Searches of each choice with fresh samples, at least {MIN_REPLICATES}.")
    seed: Seed = option(0, "The same seed gives the same figures on the same device.")
    html: Optional[str] = option(None, "Write a page to step through the game, with curve and belief beside it.", "FILE.html")
    json: JsonTarget = None
    quiet: Quiet = False

    def run(self) -> int:
        check_replicates(self.replicates, "--replicates")
        from unojax.analysis.reviewing import review
        from unojax.games.advising import read_search
        from unojax.games.gamefile import read_game
        from unojax.terminal import review as view

        game = read_game(self.file)
        agent = read_search(self.agent, game.rules)
        setting = output.setting_of(game.rules)
        with blaming(repr(self.file)):
            played = game.seen(self.player)
        player = played.player
        turns: list[ReviewedTurn] = []
        stopped = False
        with output.status(person.COMPILING, quiet=self.quiet) as status:
            looked = review(played, player, agent, replicates=self.replicates, seed=self.seed, on_status=status.update)
            try:
                turns.extend(looked)
            except KeyboardInterrupt:
                stopped = True
        if not turns:
            return EXIT_INTERRUPTED
        if stopped:
            output.note("review", f"stopped after turn {turns[-1].number} of {played.num_steps}")
        if self.html is not None:
            output.write_file("--html", self.html, _page(game, turns, player))

        def shown() -> list[Any]:
            how = f"{self.agent}, {self.replicates} replicates, seed {self.seed}"
            facts = tables.facts(view.facts(turns, agent, game, how=how))
            return [view.heading(game, player), view.table(turns, player), "", facts]

        output.report("review", self.json, shown, lambda: _report(self, game, turns, player, complete=not stopped), setting)
        return EXIT_INTERRUPTED if stopped else 0


def _page(game: GameFile, turns: list[ReviewedTurn], player: int) -> str:
    import numpy as np

    from unojax import viz
    from unojax.terminal.review import note

    states = [turn.state for turn in turns if turn.state is not None]
    return viz.game_html(
        states or [turn.observation for turn in turns],
        win_probability={f"player {player}": np.array([turn.win for turn in turns])},
        beliefs=np.stack([turn.belief.prob_holds for turn in turns]),
        types=[turn.types for turn in turns] if turns[0].types else None,
        truths=np.stack([np.asarray(state.hands[1 - player]) for state in states]) if states else None,
        notes=[note(turn) for turn in turns],
        title=f"{game.players[0]} against {game.players[1]}, as player {player} could know it",
    )


def _report(request: Review, game: GameFile, turns: list[ReviewedTurn], player: int, *, complete: bool) -> ReviewReport:
    from unojax.analysis.reviewing import ReviewReport
    from unojax.terminal.review import mean_score

    chosen = [turn.choice for turn in turns if turn.choice is not None]
    return ReviewReport(
        complete=complete,
        players=game.players,
        player=player,
        agent=request.agent,
        replicates=request.replicates,
        seed=request.seed,
        result=game.result,
        choices=len(chosen),
        total_cost=sum(choice.cost for choice in chosen),
        log_score=mean_score(turns),
        turns=[turn.row for turn in turns],
    )
