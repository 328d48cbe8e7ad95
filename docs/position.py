"""Draw docs/position-light.svg and docs/position-dark.svg, the picture that heads the README.

python docs/position.py
"""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from unojax import Rules, get_policy, viz
from unojax.belief import summary
from unojax.belief.opponents import PolicyOpponent
from unojax.belief.tracking import track
from unojax.belief.updaters import ParticleFilter
from unojax.games.replay import Replay, play
from unojax.viz.svg import Picture, element
from unojax.viz.theme import ThemeName

SEED, TURN = 5, 27
NUM_PARTICLES = 4096
POLICY = "scarcest-color"
TREMBLE = 0.1
GAP = 12


def main() -> None:
    """Play the game, follow what player 0 may believe, and draw the position with the belief beside it."""
    game = play(jax.random.key(SEED), (get_policy(POLICY), get_policy(POLICY)), rules=Rules(), max_steps=TURN)
    probs = believe(game)
    for theme in ("light", "dark"):
        Path(__file__).with_name(f"position-{theme}.svg").write_text(draw(game, probs, theme), encoding="utf-8")


def believe(game: Replay) -> np.ndarray:
    """Return P(player 1 holds each card) for player 0 at the end of the game: float32[54]."""
    filter = ParticleFilter(NUM_PARTICLES, PolicyOpponent(get_policy(POLICY), TREMBLE))
    *_, (belief, _) = track(filter, jax.random.key(SEED), game.observations(0))
    return np.asarray(summary.prob_holds(belief))


def draw(game: Replay, probs: np.ndarray, theme: ThemeName) -> Picture:
    """Draw what player 0 sees, and the belief with the cards that player 1 really holds."""
    end = game.end
    table = viz.position_svg(end, view=0, theme=theme)
    belief = viz.belief_svg(probs, truth=end.hands[1], tall=True, title="Held by player 1, in %", theme=theme)
    sizes = [[float(part.split(f'{side}="', 1)[1].split('"', 1)[0]) for side in ("width", "height")] for part in (table, belief)]
    (left, left_height), (right, right_height) = sizes
    height = max(left_height, right_height)
    placed = [
        element("svg", part, x=x, y=(height - part_height) / 2, width=part_width, height=part_height)
        for part, x, part_width, part_height in ((table, 0.0, left, left_height), (belief, left + GAP, right, right_height))
    ]
    box = f"0 0 {left + GAP + right:g} {height:g}"
    return Picture(element("svg", *placed, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img"))


if __name__ == "__main__":
    main()
