"""Win probabilities of positions: known ones, and that the two players' add up to one."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from unojax import Rules, observe, parse_position
from unojax.agents import reveal
from unojax.decks import parse_deck
from unojax.search.agents import monte_carlo
from unojax.search.win_estimate import win_probability

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3, max_steps=1000, step_penalty=0.5)
NUM = 4000


RATE = jax.jit(partial(win_probability, num_samples=NUM), static_argnums=1)


def win(position: str, player: int, num_steps: int = 0, **options) -> tuple[float, float]:
    """The player's, who knows the other hand."""
    search = monte_carlo(belief="truth", rules=RULES, **({"policy": "uniform"} | options))
    state = parse_position(position, rules=RULES)
    view = observe(state, player)
    memory = reveal(search, search.init(jax.random.key(0), view), state, player)
    probability, error = RATE(jax.random.key(1), search, memory._replace(num_steps=np.int32(num_steps)), view)
    return float(probability), float(error)


@pytest.mark.parametrize(
    ("position", "first"),
    [
        ("R0/Y0,Y2/-/* R3 0 0 0 - *", 1.0),
        ("Y0,Y2/R0/-/* R3 1 0 0 - *", 0.0),
        # A penalty is drawn first, and then the other one plays the last card.
        ("Y0,Y2/R0/Y1/* R+2 0 2 1 R+2 *", 0.0),
        # There is no card to play and none to draw, and fewer cards win.
        ("R1,R2,R3,RS,R+2/R0,Y1,Y2,Y3,YS,Y+2,W,W+4/-/0 Y0 0 0 0 - *", 1.0),
    ],
)
def test_known_positions(position, first):
    assert [win(position, player) for player in (0, 1)] == [(first, 0), (1 - first, 0)]


@pytest.mark.parametrize(
    ("position", "left", "first"),
    [
        ("R0/Y0,Y2/-/* R3 0 0 0 - *", 1, 1.0),
        ("R0/Y0,Y2/-/* R3 0 0 0 - *", 0, 0.5),
        # The penalty is the last step that is left, or the one before the win.
        ("Y0,Y2/R0/Y1/* R+2 0 2 1 R+2 *", 2, 0.0),
        ("Y0,Y2/R0/Y1/* R+2 0 2 1 R+2 *", 1, 0.5),
    ],
)
def test_a_truncated_game_counts_half(position, left, first):
    assert [win(position, player, 1000 - left)[0] for player in (0, 1)] == [first, 1 - first]


def test_two_policies_are_each_players_own():
    """What one player wins the other loses, if both are asked about the same two policies; 5 standard errors, 1e-6 by chance."""
    for mover in (0, 1):
        position = f"R0,R2,W,W+4,Y1/R1,RS,Y0,Y3/-/* R3 {mover} 0 0 - *"
        ours, theirs = (
            {"policy": "wilds-first", "opponent": "scarcest-color"},
            {"policy": "scarcest-color", "opponent": "wilds-first"},
        )
        (one, error), (other, other_error) = win(position, 0, **ours), win(position, 1, **theirs)
        assert abs(one + other - 1) < 5 * np.hypot(error, other_error)
        swapped, swapped_error = win(position, 0, **theirs)
        assert abs(one - swapped) > 10 * np.hypot(error, swapped_error), "the position is meant to tell the policies apart"
