"""Win probabilities of positions: known ones, and the sum of both players'."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from unojax import Rules, observe, parse_position
from unojax.agents import reveal
from unojax.decks import parse_deck
from unojax.search.agents import monte_carlo
from unojax.search.win_estimate import win_probability

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3, max_steps=1000, step_penalty=0.5)
estimate = jax.jit(partial(win_probability, num_samples=4000), static_argnums=1)


def win(position: str, player: int, num_steps: int = 0, **options) -> tuple[float, float]:
    """Return a player's win probability and its standard error, if the player knows the other hand."""
    search = monte_carlo(belief="truth", rules=RULES, **({"policy": "uniform"} | options))
    state = parse_position(position, rules=RULES)
    view = observe(state, player)
    memory = reveal(search, search.init(jax.random.key(0), view), state, player)
    probability, error = estimate(jax.random.key(1), search, memory._replace(num_steps=np.int32(num_steps)), view)
    return float(probability), float(error)


def test_known_positions():
    """A truncated game counts half."""
    last_card, penalty = "R0/Y0,Y2/-/* R3 0 0 0 - *", "Y0,Y2/R0/Y1/* R+2 0 2 1 R+2 *"
    for position, left, first in (
        (last_card, 1000, 1.0),
        ("Y0,Y2/R0/-/* R3 1 0 0 - *", 1000, 0.0),
        # A penalty is drawn first, and then the other player plays the last card.
        (penalty, 1000, 0.0),
        # There is no card to play and none to draw, and fewer cards win.
        ("R1,R2,R3,RS,R+2/R0,Y1,Y2,Y3,YS,Y+2,W,W+4/-/0 Y0 0 0 0 - *", 1000, 1.0),
        (last_card, 1, 1.0),
        (last_card, 0, 0.5),
        # The penalty is the last step, or the one before the win.
        (penalty, 2, 0.0),
        (penalty, 1, 0.5),
    ):
        found = [win(position, player, 1000 - left) for player in (0, 1)]
        assert found == [(first, 0), (1 - first, 0)], (position, left)


def test_two_policies_belong_to_the_players():
    """Probabilities of both players sum to 1 within 5 standard errors, an error probability of 1e-6."""
    for mover in (0, 1):
        position = f"R0,R2,W,W+4,Y1/R1,RS,Y0,Y3/-/* R3 {mover} 0 0 - *"
        ours = {"policy": "wilds-first", "opponent": "scarcest-color"}
        theirs = {"policy": "scarcest-color", "opponent": "wilds-first"}
        (one, error), (other, other_error) = win(position, 0, **ours), win(position, 1, **theirs)
        assert abs(one + other - 1) < 5 * np.hypot(error, other_error)
        swapped, swapped_error = win(position, 0, **theirs)
        assert abs(one - swapped) > 10 * np.hypot(error, swapped_error), "the position distinguishes the policies"
