"""A saved game looked back at: follow it, and report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from unojax import viz
from unojax.analysis.reviewing import ReviewedTurn, review
from unojax.cli import output, targets
from unojax.cli.review import view
from unojax.cli.review.command import Review
from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.advising import read_search
from unojax.games.gamefile import PERSON, GameFile, read_game
from unojax.games.seen import SeenGame
from unojax.rules import Rules


def run(request: Review, rules: Rules) -> int:
    del rules  # those of the game count
    game = read_game(request.file)
    targets.check_json_target(request.json)
    if request.html is not None:
        targets.check_target("--html", request.html)
    agent = read_search(request.agent, game.rules)
    about = output.machine()
    player = request.player
    if player is None:
        player = game.players.index(PERSON) if PERSON in game.players else 0
    try:
        played = game.seen(player) if game.shows_one_hand else game.replay()
    except ValueError as error:
        raise ValueError(f"{request.file!r}: {error}") from None
    turns: list[ReviewedTurn] = []
    stopped = False
    with output.status(output.COMPILING, quiet=request.quiet) as status:
        looked = review(played, player, agent, replicates=request.replicates, seed=request.seed, on_status=status.update)
        try:
            turns.extend(looked)
        except KeyboardInterrupt:
            stopped = True
    if not turns:
        return EXIT_INTERRUPTED
    if stopped:
        number = len(played.events if isinstance(played, SeenGame) else played.steps)
        output.note("review", f"stopped after turn {turns[-1].number} of {number}")
    if request.json != output.STDOUT:
        output.show(
            view.heading(game, player), view.table(turns, player), "", output.facts(view.facts(turns, request, agent, game))
        )
    if request.html is not None:
        output.write_file("--html", request.html, _page(game, turns, player))
    if request.json is not None:
        output.write_json(request.json, _record(request, game, turns, player, complete=not stopped) | about)
    return EXIT_INTERRUPTED if stopped else 0


def _page(game: GameFile, turns: list[ReviewedTurn], player: int) -> str:
    """Draw the page of the turns that were looked at."""
    states = [turn.state for turn in turns if turn.state is not None]
    return viz.game_html(
        states or [turn.observation for turn in turns],
        win_probability={f"player {player}": np.array([turn.win for turn in turns])},
        beliefs=np.stack([turn.belief.prob_holds for turn in turns]),
        types=[turn.types for turn in turns] if turns[0].types else None,
        truths=np.stack([np.asarray(state.hands[1 - player]) for state in states]) if states else None,
        notes=[view.note(turn) for turn in turns],
        title=f"{game.players[0]} against {game.players[1]}, as player {player} could know it",
    )


def _record(request: Review, game: GameFile, turns: list[ReviewedTurn], player: int, *, complete: bool) -> dict[str, Any]:
    chosen = [turn.choice for turn in turns if turn.choice is not None]
    return {
        "command": "review",
        "complete": complete,
        "players": game.players,
        "player": player,
        "agent": request.agent,
        "replicates": request.replicates,
        "seed": request.seed,
        "rules": asdict(game.rules),
        "result": game.result,
        "choices": len(chosen),
        "total_cost": sum(choice.cost for choice in chosen),
        "log_score": view.mean_score(turns),
        "turns": [turn.to_json() for turn in turns],
    }
