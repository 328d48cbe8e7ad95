"""`unojax replay`: a saved game, move by move."""

from __future__ import annotations

from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, Literal, Optional

import tyro
from rich.text import Text

from unojax.cli import output
from unojax.cli.options import WholeOrNone, blaming, command, option
from unojax.terminal import tables

if TYPE_CHECKING:
    from unojax.games.gamefile import GameFile
    from unojax.games.replay import Replay
    from unojax.observation import Observation


@command
class ShowReplay:
    """Show a saved game move by move, and check that it ends as the file says."""

    file: tyro.conf.Positional[str] = option(MISSING, "A game that unojax play --save wrote.", "FILE.json", is_saved_game=True)
    player: Literal["0", "1", "both"] = option("both", "Show what this player saw, the other's cards hidden. both: all cards.")
    turn: WholeOrNone = option(None, "Show turn N alone, 0 for the start. none: all.")
    html: Optional[str] = option(None, "Write a page to step through the game, cards hidden as here.", "FILE.html")
    svg: Optional[str] = option(None, "Write the game as a picture that moves.", "FILE.svg")

    def run(self) -> int:
        from unojax.games.gamefile import read_game

        game = read_game(self.file)
        output.find_devices()
        with blaming(repr(self.file)):
            played = game.replay()
        if self.turn is not None and not 0 <= self.turn <= len(played.steps):
            raise ValueError(f"--turn must be in [0, {len(played.steps)}], the turns of this game, got {self.turn}")
        player = None if self.player == "both" else int(self.player)
        views = [played.observations(seat) for seat in (0, 1)]
        self._draw(played, views, player, game)
        tables.show(_heading(game))
        for number in range(len(played.states)) if self.turn is None else [self.turn]:
            tables.show(*_turn(number, _move(played, number, player), [view[number] for view in views], player))
        tables.show("", _outcome(game, played))
        return 0

    def _draw(self, played: Replay, views: list[Any], player: int | None, game: GameFile) -> None:
        """Write the requested files, before anything is shown."""
        from unojax import viz

        positions = played.states if player is None else views[player]
        if self.html is not None:
            page = viz.game_html(positions, title=f"{game.players[0]} against {game.players[1]}")
            output.write_file("--html", self.html, page)
        if self.svg is not None:
            output.write_file("--svg", self.svg, viz.game_svg(positions))


def _move(played: Replay, number: int, player: int | None) -> Text:
    """Describe the move that led to a turn as `player` saw it; if None, as its mover did."""
    from unojax.terminal import cards as drawing

    if number == 0:
        return Text("the start")
    step = played.steps[number - 1]
    return drawing.step_words(step, step.mover if player is None else player)


def _heading(game: GameFile) -> Text:

    seed = "" if game.seed is None else f", seed {game.seed}"
    rules = tables.rules_text(game.rules)
    who = f"player 0: {game.players[0]}, player 1: {game.players[1]}{seed}"
    return Text(who if rules == "default" else f"{who}; rules: {rules}", style="bold")


def _turn(number: int, move: Text, views: list[Observation], player: int | None) -> list[Text]:
    from unojax import cards
    from unojax.terminal import cards as drawing
    from unojax.terminal import game as play_view
    from unojax.viz.words import PLAYERS

    here = views[0]
    rows = [Text.assemble("\n", (f"turn {number}".ljust(play_view.LABEL), "bold"), move)]
    top = drawing.card(cards.card_type(int(here.color), int(here.top_rank)))
    state = f"  {cards.COLOR_NAMES[int(here.color)]}, deck {int(here.deck_count)}"
    rows.append(Text.assemble("  top".ljust(play_view.LABEL), top, state))
    for seat in (0, 1):
        label = f"  {PLAYERS[seat]}"
        if player in (None, seat):
            rows += play_view.hand_rows(views[seat], label=label, width=tables.columns())
        else:
            rows.append(Text(f"{label.ljust(play_view.LABEL)} {tables.count(int(views[1 - seat].opponent_count), 'card')}"))
    return rows


def _outcome(game: GameFile, played: Replay) -> str:
    words = {
        "*": "unfinished",
        "0": f"won by player 0 ({game.players[0]})",
        "1": f"won by player 1 ({game.players[1]})",
        "=": "drawn",
        "T": "cut off by max_steps",
    }[game.result]
    return f"{words} after turn {len(played.steps)}; replayed to the same end"
