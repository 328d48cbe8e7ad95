"""Small rule sets, random games and sessions for these tests."""

from __future__ import annotations

from functools import lru_cache

import jax

from unojax import Rules, parse_position
from unojax.decks import parse_deck
from unojax.games.replay import Replay, play
from unojax.games.session import Session
from unojax.policies import uniform
from unojax.specs import parse_agent

SMALL = {"deck": parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=2"), "hand_size": 3}
VARIANTS = {
    "default": Rules(**SMALL),
    "official": Rules.official(**SMALL),
    "house": Rules.house(**SMALL),
    "rlcard": Rules.rlcard(**SMALL),
    "drawing on, drawn card kept": Rules(**SMALL, draw_until_playable=True),
    "drawing on, drawn card laid": Rules(**SMALL, draw_until_playable=True, play_drawn="auto"),
    "no color": Rules(**SMALL, wild_draw_four="no_color", play_drawn="may"),
    "stacking and challenges": Rules(**SMALL, wild_draw_four="challenge", stacking=True, may_draw=True),
}
SESSION_RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)
AGENT = parse_agent("uniform", rules=SESSION_RULES)


@lru_cache(maxsize=100)
def random_game(name: str, seed: int) -> Replay:
    """Play a game of random actions under a rule set of `VARIANTS`."""
    return play(jax.random.key(seed), (uniform, uniform), rules=VARIANTS[name], max_steps=60)


def session_from(position: str, *, seat: int = 0, rules: Rules = SESSION_RULES) -> Session:
    """Begin a session against `AGENT` at a position."""
    return Session(AGENT, seat=seat, seed=0, rules=rules, start=parse_position(position, rules=rules))
