"""Games as one player saw them: from a view and the actions, what the player saw of the real game."""

from __future__ import annotations

import re
from functools import lru_cache

import jax
import pytest

from tests.helpers import assert_trees_equal
from unojax import Rules
from unojax.decks import parse_deck
from unojax.games.replay import Replay, play
from unojax.games.seen import SeenGame, play_seen, read_seen
from unojax.policies import uniform
from unojax.text import parse_observation

SMALL = {"deck": parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=2"), "hand_size": 3}
RULES = Rules(**SMALL)
VARIANTS = {
    "default": RULES,
    "official": Rules.official(**SMALL),
    "house": Rules.house(**SMALL),
    "rlcard": Rules.rlcard(**SMALL),
    "drawing on, drawn card kept": Rules(**SMALL, draw_until_playable=True),
    "drawing on, drawn card laid": Rules(**SMALL, draw_until_playable=True, play_drawn="auto"),
    "no color": Rules(**SMALL, wild_draw_four="no_color", play_drawn="may"),
    "stacking and challenges": Rules(**SMALL, wild_draw_four="challenge", stacking=True, may_draw=True),
}
NUM_GAMES = 6


@lru_cache(maxsize=100)
def random_game(name: str, seed: int) -> Replay:
    return play(jax.random.key(seed), (uniform, uniform), rules=VARIANTS[name], max_steps=60)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_real_game_is_seen_as_it_was(name: str, player: int):
    """Each event in text leads to what the player really saw; all events are made of text again."""
    for seed in range(NUM_GAMES):
        game = random_game(name, seed)
        real = SeenGame.of(game, player)
        seen_game = play_seen(real.start, real.notation)
        assert seen_game.events == real.events
        assert seen_game.actions == tuple(step.action for step in game.steps)
        for mine, seen in zip(seen_game.observations, real.observations, strict=True):
            assert_trees_equal(mine, seen)


def test_the_real_games_are_of_all_kinds():
    kinds = {
        (name, re.sub(r"[RYGBW][^:()]*", "X", str(event))): event
        for name in VARIANTS
        for seed in range(NUM_GAMES)
        for event in SeenGame.of(random_game(name, seed), 0).events
    }
    for name in VARIANTS:
        assert {(name, "X"), (name, "draw"), (name, "draw(X)")} <= set(kinds)
    assert {("official", kind) for kind in ("draw+", "pass", "challenge", "challenge(won)", "challenge(lost)")} <= set(kinds)
    assert {("house", "pass"), ("no color", "draw+"), ("drawing on, drawn card kept", "draw+")} <= set(kinds)


@pytest.mark.parametrize(
    ("history", "player"),
    [("", 0), ("R1", 1), ("RS", 0), ("RS R1 draw", 0), ("R1 draw", 0), ("R1 draw(W) Y1", 1), ("R1 draw Y1 Y3", 0)],
)
def test_whose_view_it_is(history: str, player: int):
    """By default who moves at the end; whose draws are named, it is that player's view."""
    seen = read_seen("RS,R1,Y1,Y2/Y3,YS/-/* R0 0 0 0 - *", history, None, RULES)
    assert seen.end.player == seen.end.current_player == player


@pytest.mark.parametrize("position", ["R0,R2/Y0,Y2/-/* R3 0 0 5 Y3 *", "R0,R2/2/-/* R3 0 0 5 Y3 *"])
def test_steps_before_the_start_are_known(position: str):
    assert read_seen(position, "R0", 0, RULES).steps_before == 5


def test_a_view_in_lines_does_not_have_the_steps():
    lines = "player 0: player 0 to move\ntop R3 (red)\nhand R0 R2\nopponent 2 cards\ndeck 11 cards\npile R3\nlast -"
    seen = read_seen(lines, "", None, RULES)
    assert seen.steps_before == 0
    assert_trees_equal(seen.end, jax.device_get(parse_observation("R0,R2/2/-/* R3 0 0 5 - *", rules=RULES)))
