"""Random games of small decks for the tests of beliefs, NumPy; each rule set is played once in a process."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import jax
import numpy as np

from tests.belief.oracle import FORFEITING, PASSING, THIN
from tests.helpers import after, deck_of, play
from unojax import cards, game
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state, parse_action

SMALL: Final = {"deck": deck_of("R1 R1 RS R+2 R+2 Y1 YR Y2 Y+2 W W W+4 W+4 B3"), "hand_size": 3}
VARIANTS: Final = {
    "official": Rules.official(**SMALL),
    "house": Rules.house(**SMALL),
    "rlcard": Rules.rlcard(**SMALL),
    "all at will": Rules.official(stacking=True, draw_until_playable=True, skip_forfeits=False, **SMALL),
    "no wild+4 beside the colour": Rules(wild_draw_four="no_color", play_drawn="may", stacking=True, **SMALL),
    "until, the last resort": Rules(draw_until_playable=True, wild_draw_four="last", may_draw=True, reshuffle_top=True, **SMALL),
    "auto until": Rules.rlcard(draw_until_playable=True, may_draw=True, stacking=True, **SMALL),
    "colour or not, forced": Rules(wild_draw_four="no_color", draw_until_playable=True, **SMALL),
    "last, at will": Rules(wild_draw_four="last", may_draw=True, play_drawn="may", **SMALL),
}
"""Rules whose turns have choices, or whose draws show cards."""
RULES: Final = {"forfeiting": FORFEITING, "passing": PASSING, "thin": THIN} | VARIANTS

NUM_GAMES, NUM_STEPS = 200, 32

Step = tuple[Observation, int, Observation]
"""An observation, the public action, and the next observation."""


class Games(NamedTuple):
    """Games between uniformly random players, who also try illegal actions.

    Attributes:
        states: [G, T + 1].
        seen: Observations of each seat, [G, T + 1].
        actions: Executed actions, int32[G, T]; -1 if illegal, or after the end.
    """

    states: State
    seen: tuple[Observation, Observation]
    actions: np.ndarray

    def view(self, seat: int, number: int, t: int) -> Observation:
        return jax.tree.map(lambda x: x[number, t], self.seen[seat])

    def views(self, seat: int, number: int, length: int = NUM_STEPS + 1) -> list[Observation]:
        """Return a seat's observations of a game, including illegal attempts."""
        return [self.view(seat, number, t) for t in range(length)]

    def steps(self, seat: int, number: int) -> list[Step]:
        """Return a seat's transitions of a game, without illegal attempts."""
        happened = np.flatnonzero(self.actions[number] >= 0).tolist()
        return [(self.view(seat, number, t), int(self.actions[number, t]), self.view(seat, number, t + 1)) for t in happened]

    def find(self, where: np.ndarray) -> tuple[int, int]:
        """Return game and step of the first True of bool[G, T]."""
        number, t = np.argwhere(where)[0]
        return int(number), int(t)


_observe = jax.jit(jax.vmap(jax.vmap(observe, (0, None)), (0, None)))


@cache
def games_of(rules: Rules) -> Games:
    states = play(3, num_games=NUM_GAMES, num_steps=NUM_STEPS, rules=rules).states
    actions = np.where(np.diff(states.step_count, axis=1) > 0, states.last_action[:, 1:], game.NO_ACTION).astype(np.int32)
    if rules.play_drawn == "auto":
        # A Skip that is all there is in deck and pile is drawn and laid again unnoticed: such a game ends for the tests.
        alone = states.deck[:, :-1].sum(-1) + states.pile[:, :-1].sum(-1) == 1
        actions = np.where(np.cumsum(alone, axis=1) > 0, np.int32(game.NO_ACTION), actions)
    seen = [jax.device_get(_observe(states, np.int8(seat))) for seat in (0, 1)]
    return Games(states, (seen[0], seen[1]), actions)


def events(games: Games, seat: int) -> dict[str, np.ndarray]:
    """Return the steps at which each kind of event occurs, bool[G, T]."""
    states, actions = games.states, games.actions
    deck, pile = states.deck.sum(-1), states.pile.sum(-1)
    draws, challenges, owed, ends = (
        actions == cards.DRAW,
        actions == cards.CHALLENGE,
        states.penalty[:, :-1] > 0,
        states.terminated[:, 1:],
    )
    kinds = {
        "play": (actions >= 0) & ~draws & ~challenges,
        "draw": draws & ~owed & ~ends,
        "penalty": draws & owed & ~ends,
        "reshuffle": draws & (pile[:, 1:] < pile[:, :-1]),
        "draw that empties the deck": draws & ~ends & (deck[:, 1:] == 0),
        "impossible draw": draws & ends,
        "challenge": challenges,
        "turn that continues": draws & games.seen[seat].has_drawn[:, 1:],
    }
    mine = states.current_player[:, :-1] == seat
    return {f"{name} by {who}": at & by for name, at in kinds.items() for who, by in (("me", mine), ("opponent", ~mine))}


def covering(rules: Rules, seat: int) -> list[int]:
    """Return few games that together contain every kind of event for one seat.

    These are the longest of the first games with an event, and the two longest of all.
    """
    games = games_of(rules)
    length = (games.actions >= 0).sum(1)
    chosen = set(np.argsort(-length, kind="stable")[:2].tolist())
    for name, occurs in events(games, seat).items():
        found = np.flatnonzero(occurs.any(1)).tolist()
        possible = rules in VARIANTS.values() or name.startswith(("challenge", "turn"))
        assert found or possible, f"no {name} in the games"
        if found and not chosen & set(found):
            chosen.add(max(found[:6], key=lambda number: length[number]))
    return sorted(chosen)


def in_mid_turn(choice: str) -> Step:
    """Return the transition of an opponent who has drawn the yellow 1 and plays it ("Y1") or passes ("draw")."""
    state = make_state("R1 B3", "RS Y1 R+2", "YR", player=1, drawn="Y1", rules=VARIANTS["official"])
    return jax.device_get((observe(state, 0), parse_action(choice), observe(after(state, choice), 0)))


def histories(name: str, chosen: dict[int, list[int]], length: int = NUM_STEPS) -> list[tuple[str, list[Step]]]:
    """Return the first transitions of chosen games by seat, with names; for "official" two more in mid-turn."""
    games = games_of(RULES[name])
    found = [(f"seat {seat}, game {n}", games.steps(seat, n)[:length]) for seat, numbers in chosen.items() for n in numbers]
    if name == "official":
        found += [(f"in mid-turn, {choice}", [in_mid_turn(choice)]) for choice in ("Y1", "draw")]
    return [(name, steps) for name, steps in found if steps]
