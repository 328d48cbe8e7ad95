"""Review of a game on a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from unojax.terminal import cards as drawing
from unojax.terminal import tables
from unojax.terminal.tables import percent
from unojax.text import format_action
from unojax.viz.words import plays_like

if TYPE_CHECKING:
    from unojax.analysis.reviewing import ReviewedTurn
    from unojax.games.gamefile import GameFile
    from unojax.search.agents import SearchAgent


def heading(game: GameFile, player: int) -> Text:
    who = f"player 0: {game.players[0]}, player 1: {game.players[1]}"
    return Text(f"{who}; as player {player} could know it", style="bold")


def table(turns: list[ReviewedTurn], player: int) -> Table:
    """Return a row for each turn: move, win probability after it, cost, better play."""
    title = f"Player {player} wins, and what each choice cost, in % ({tables.plus_minus()} standard error)"
    found = tables.grid(title, ("turn", "move"), ("wins", "cost"))
    found.add_column("better", no_wrap=True)
    for turn in turns:
        move = drawing.turn_words(turn)
        cost, better = "", ""
        if (choice := turn.choice) is not None:
            cost = percent(choice.cost, choice.cost_error)
            better = _best(turn) if is_costly(turn) else ""
        wins = f"{100 * turn.win:.0f}" if turn.win_error == 0 else percent(turn.win, turn.win_error)
        found.add_row(str(turn.number), move, wins, cost, better)
    return found


def is_costly(turn: ReviewedTurn) -> bool:
    """Return whether another play was better by more than two standard errors."""
    choice = turn.choice
    if choice is None or turn.seen is None or choice.best == format_action(turn.seen.action):
        return False
    return choice.cost > 2 * choice.cost_error


def note(turn: ReviewedTurn) -> str:
    """Return a note on the cost of a move, for the page."""
    if not is_costly(turn):
        return ""
    assert turn.choice is not None
    return f"Cost {percent(turn.choice.cost, turn.choice.cost_error)} points: {_best(turn)} was better."


def _best(turn: ReviewedTurn) -> str:
    assert turn.choice is not None and turn.seen is not None
    return drawing.action_name(turn.choice.best, has_drawn=bool(turn.seen.before.has_drawn))


def facts(turns: list[ReviewedTurn], agent: SearchAgent, game: GameFile, *, how: str) -> dict[str, str]:
    chosen = [turn.choice for turn in turns if turn.choice is not None]
    costly = sum(map(is_costly, turns))
    total = sum(choice.cost for choice in chosen)
    error = math.sqrt(sum(choice.cost_error**2 for choice in chosen))
    rows = {
        "Choices": f"{len(chosen)}, {costly} of them worse than another play by more than two standard errors",
        "Cost": f"{percent(total, error)} points of win probability in all",
    }
    if first := turns[0].number:
        rows["Begins"] = f"after turn {first}; earlier choices are not reviewed"
    score = mean_score(turns)
    if score is not None:
        rows["Belief"] = f"log score {score:.2f}: mean over turns of ln P(cards that the other player held)"
    if types := turns[-1].types:
        rows["Type"] = f"in the end the other player {plays_like(types)}"
    rows["Wins"] = f"if from there {agent.whom_rollouts_follow}; the other hand from the belief"
    rows["Costs"] = (
        f"by {how}; the best play is chosen by one half of the replicates and valued by the other, so that a cost may be below 0"
    )
    return rows | {"Rules": tables.rules_text(game.rules)}


def mean_score(turns: list[ReviewedTurn]) -> float | None:
    """Return the mean log score of turns after the start at which the other player held cards."""
    scores = [turn.log_score for turn in turns[1:] if turn.observation.opponent_count > 0 and turn.log_score is not None]
    return sum(scores) / len(scores) if scores else None
