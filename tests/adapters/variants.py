"""Rules that every adapter plays under in its tests."""

from tests.helpers import deck_of
from unojax.rules import Rules

VARIANTS = [
    Rules(),
    Rules(skip_forfeits=False, start_card="any", first_player="random", hand_size=3),
    Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2 RS Y+2 W W+4"), hand_size=2, max_steps=20, step_penalty=0.01),
]
