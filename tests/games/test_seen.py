"""Games as one player saw them: from a view and the actions, what the player saw of the real game."""

from __future__ import annotations

import jax
import pytest

from tests.helpers import assert_trees_equal
from unojax import Rules, cards
from unojax.decks import parse_deck
from unojax.games.replay import Replay, play
from unojax.games.seen import play_seen, read_seen
from unojax.policies import uniform
from unojax.text import parse_action, parse_observation

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)


def random_game(seed: int) -> Replay:
    return play(jax.random.key(seed), (uniform, uniform), rules=RULES)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("player", [0, 1])
def test_a_real_game_is_seen_as_it_was(seed: int, player: int):
    game = random_game(seed)
    seen = game.observations(player)
    history = " ".join(step.notation(with_cards=step.mover == player) for step in game.steps)
    seen_game = play_seen(seen[0], history)
    assert seen_game.actions == tuple(step.action for step in game.steps)
    assert seen_game.notation == history
    for mine, real in zip(seen_game.observations, seen, strict=True):
        assert_trees_equal(mine, real)


def test_the_real_games_are_of_all_kinds():
    steps = [step for seed in range(4) for step in random_game(seed).steps]
    for player in range(2):
        own = [step for step in steps if step.mover == player]
        assert any(step.reshuffled for step in own)
        assert any(step.is_draw and not step.before.penalty for step in own)
        assert any(step.is_draw and step.before.penalty for step in own)
        assert any(step.action == parse_action("W:Y") for step in own) or any(step.before.top_rank >= cards.WILD for step in own)


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
    lines = "player 0: player 0 to move\ntop R3 (red)\nhand R0 R2\nopponent 2 cards\ndeck 9 cards\npile R3\nlast -"
    seen = read_seen(lines, "", None, RULES)
    assert seen.steps_before == 0
    assert_trees_equal(seen.end, jax.device_get(parse_observation("R0,R2/2/-/* R3 0 0 5 - *", rules=RULES)))
