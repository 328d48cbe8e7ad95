"""Rules with few cards, so that crafted positions can place each one."""

from __future__ import annotations

from tests.helpers import deck_of
from unojax.rules import Rules

NINE = Rules(deck=deck_of("R1 R2 R3 R4 R5 Y1 Y+2 W W+4"), hand_size=1)
SHORT = Rules(deck=NINE.deck, hand_size=1, max_steps=2, step_penalty=0.25)
