"""Games as one player saw them: a view and the actions give the player's observations of the real game."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import pytest

from tests import corpus
from tests.games.playing import VARIANTS, random_game
from tests.helpers import assert_trees_equal, refusals, slow_but
from unojax import Rules, advise, make_state, observe
from unojax.games.at_table import Table
from unojax.games.gamefile import read_game
from unojax.games.seen import SeenGame, play_seen, read_seen
from unojax.text import parse_observation

PROGRAMS = 110  # Observations and events of each rule set.

RULES = VARIANTS["default"]
NUM_GAMES = 6
IN_CORPUS = ("default", "few cards", "house", "rlcard, few cards")


@pytest.mark.parametrize("name", slow_but(["default", "few cards"], [*IN_CORPUS, *list(VARIANTS)[4:]]))
def test_a_real_game_is_seen_as_it_was(name: str, tmp_path: Path):
    """Each event as text gives the player's own next view; text and a saved game give all events."""
    kinds = set()
    for seed in range(NUM_GAMES):
        game = corpus.replay(name, seed) if name in IN_CORPUS else random_game(name, seed)
        for player in (0, 1):
            real = SeenGame.of(game, player)
            seen_game = play_seen(real.start, real.notation)
            Table.of(real).save(tmp_path / "game.json")
            for again in (seen_game, read_game(tmp_path / "game.json").seen()):
                assert again.events == real.events
                assert again.actions == tuple(step.action for step in game.steps)
                for mine, seen in zip(again.observations, real.observations, strict=True):
                    assert_trees_equal(mine, seen)
            kinds |= {re.sub(r"[RYGBW][^:()]*", "X", str(event)) for event in real.events}
    assert {"X", "draw", "draw(X)"} <= kinds
    assert kinds >= {
        "few cards": {"draw+", "pass", "challenge", "challenge(won)", "challenge(lost)"},
        "house": {"pass"},
        "no color": {"draw+"},
        "drawing on, drawn card kept": {"draw+"},
    }.get(name, set())


def test_whose_view_it_is():
    """By default the view of the player who moves at the end, or of the player whose draws are named."""
    for history, player in {
        "": 0,
        "R1": 1,
        "RS": 0,
        "RS R1 draw": 0,
        "R1 draw": 0,
        "R1 draw(W) Y1": 1,
        "R1 draw Y1 Y3": 0,
    }.items():
        seen = read_seen("RS,R1,Y1,Y2/Y3,YS/-/* R0 0 0 0 - *", history, None, RULES)
        assert seen.end.player == seen.end.current_player == player


def test_an_object_is_no_position():
    """The message names the function that writes the object as text."""
    state: Any = make_state("R1 R2", "B1 W", "R7")
    refusals({"got State; unojax.format_position writes a state": lambda: advise(state)})
    refusals({"and unojax.text.format_view an observation": lambda: read_seen(observe(state, 0), "", None, Rules())})


def test_steps_before_the_start_are_known_from_a_line_only():
    for position in ("R0,R2/Y0,Y2/-/* R3 0 0 5 Y3 *", "R0,R2/2/-/* R3 0 0 5 Y3 *"):
        assert read_seen(position, "R0", 0, RULES).steps_before == 5
    lines = "player 0: player 0 to move\ntop R3 (red)\nhand R0 R2\nopponent 2 cards\ndeck 11 cards\npile R3\nlast -"
    seen = read_seen(lines, "", None, RULES)
    assert seen.steps_before == 0
    assert_trees_equal(seen.end, jax.device_get(parse_observation("R0,R2/2/-/* R3 0 0 5 - *", rules=RULES)))
