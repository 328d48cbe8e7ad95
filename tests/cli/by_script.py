"""Games of `unojax play` with a scripted person."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from rich.console import Console

from unojax import Rules, parse_position
from unojax.decks import parse_deck
from unojax.games.session import Session
from unojax.search.agents import monte_carlo
from unojax.specs import parse_agent
from unojax.terminal.conversation import Conversation

DECK = "colors=2,ranks=0-3+S++2,copies=1,wilds=1"
RULES = Rules(deck=parse_deck(DECK), hand_size=3)
RULE_ARGS = ["--deck", DECK, "--hand-size", "3"]
AGENT = parse_agent("uniform", rules=RULES)
SEEDS = range(8)
# Without the particle filter and the linear policy, which take long to compile; `test_advice_of_a_particle_filter` has them.
SEARCH = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=RULES)

# Player 0 to move can play R0, R2, W and W+4 on R3.
MY_TURN = "R0,R2,Y1,W,W+4/Y0,Y2/-/* R3 0 0 0 - *"
# The deck is empty, and so the other hand is known.
KNOWN_HAND = "R0,R2/R1,W/Y0,Y1,Y2,Y3,YS,Y+2,RS,R+2,W+4/0 R3 0 0 0 - *"


def end_of_input(prompt: str) -> str:
    raise EOFError


def interrupt(prompt: str) -> str:
    raise KeyboardInterrupt


def lines(*typed: str) -> Callable[[str], str]:
    """A person who types these lines, and then ends the input."""
    left = list(typed)
    return lambda prompt: left.pop(0) if left else end_of_input(prompt)


def someone(seed: int) -> Callable[[str], str]:
    """A person who plays card 1 or 2, declares yellow, and sometimes mistypes."""
    random = np.random.default_rng(seed)

    def read(prompt: str) -> str:
        if random.random() < 0.2:
            return str(random.choice(["h", "p", "R99", "draw now", "0", "W:", "\x1b[A"]))
        if "colour" in prompt:
            return "yellow"
        return "" if "Enter" in prompt else str(random.integers(1, 3))

    return read


def talk(session: Session, read: Callable[[str], str], **options) -> tuple[int, str]:
    """Hold a whole conversation; return exit status and transcript."""
    out = io.StringIO()
    console = Console(file=out, markup=False, highlight=False, emoji=False, width=80)
    return Conversation(session, read=read, console=console, **options).run(), out.getvalue()


def session_from(position: str, *, seat: int = 0) -> Session:
    return Session(AGENT, seat=seat, seed=0, rules=RULES, start=parse_position(position, rules=RULES))
