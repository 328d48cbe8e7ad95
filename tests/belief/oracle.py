"""A plain-Python belief for small decks, independent of the package: the oracle of `unojax.belief.exact`.

A world is a complete position with a probability. An update plays every world forward through every draw, and keeps the worlds
that give the observer's view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from unojax import cards
from unojax.decks import small_deck
from unojax.observation import Observation
from unojax.rules import Rules

_WITH_ACTIONS = small_deck(colors=2, ranks=(1, 10, 12), wilds=1)
FORFEITING = Rules(deck=_WITH_ACTIONS, hand_size=2)
PASSING = Rules(deck=_WITH_ACTIONS, hand_size=2, skip_forfeits=False, max_steps=20)
# Few cards to play on: chains of draws, reshuffles, and a deck that runs empty.
THIN = Rules(deck=small_deck(colors=3, ranks=(0, 3), wilds=1), hand_size=3)

DRAW = 60
Hand = tuple[int, ...]
Policy = Callable[[Hand, int, list[int]], float]
"""policy(hand, action, legal actions) -> likelihood."""


class World(NamedTuple):
    """A position; sets of cards are sorted tuples of card types. Player 0 is the observer, 1 the opponent."""

    hands: tuple[Hand, Hand]
    deck: Hand
    pile: Hand  # below the top card
    top: int
    color: int
    mover: int
    penalty: int
    over: bool


class View(NamedTuple):
    """The observer's view of a world."""

    hand: Hand
    opponent_count: int
    deck_count: int
    pile: Hand
    top: int
    color: int
    mover: int
    penalty: int
    over: bool


def view_of(w: World) -> View:
    mover, penalty = (0, 0) if w.over else (w.mover, w.penalty)
    return View(w.hands[0], len(w.hands[1]), len(w.deck), w.pile, w.top, w.color, mover, penalty, w.over)


def view_from(observation: Observation) -> View:
    """Return the view of an observation of the package."""
    top = int(observation.color) * 13 + int(observation.top_rank)
    if observation.top_rank >= 13:
        top = 39 + int(observation.top_rank)
    pile = list(_types(observation.pile))
    pile.remove(top)
    over = bool(observation.terminated)
    return View(
        hand=_types(observation.hand),
        opponent_count=int(observation.opponent_count),
        deck_count=int(observation.deck_count),
        pile=tuple(pile),
        top=top,
        color=int(observation.color),
        mover=0 if over else int(observation.current_player != observation.player),
        penalty=0 if over else int(observation.penalty),
        over=over,
    )


def _types(onehot: np.ndarray) -> Hand:
    return tuple(sorted(cards.TYPE_OF_SLOT[np.asarray(onehot)].tolist()))


def legal_actions(hand: Hand, top: int, color: int, penalty: int) -> list[int]:
    actions = []
    if penalty == 0:
        for t in sorted(set(hand)):
            if t >= 52:
                actions += [declared * 15 + (t - 39) for declared in range(4)]
            elif t // 13 == color or (top < 52 and t % 13 == top % 13):
                actions.append(t // 13 * 15 + t % 13)
    return actions or [DRAW]


def uniform_policy(hand: Hand, action: int, legal: list[int]) -> float:
    return 1 / len(legal)


def consistent_policy(hand: Hand, action: int, legal: list[int]) -> float:
    return 1.0


def _play(w: World, action: int, skip_forfeits: bool) -> World:
    rank = action % 15
    card = 39 + rank if rank >= 13 else action // 15 * 13 + rank
    hand = list(w.hands[w.mover])
    hand.remove(card)
    hands = (tuple(hand), w.hands[1]) if w.mover == 0 else (w.hands[0], tuple(hand))
    again = skip_forfeits and rank in (10, 11)
    return World(
        hands=hands,
        deck=w.deck,
        pile=tuple(sorted((*w.pile, w.top))),
        top=card,
        color=action // 15,
        mover=w.mover if again else 1 - w.mover,
        penalty={12: 2, 14: 4}.get(rank, 0),
        over=not hand,
    )


def _after_draw(w: World, could_hold: Counter | None) -> Iterator[tuple[float, World]]:
    """Yield every outcome of the mover's draw that agrees with `could_hold`, the observer's hand after it."""
    wanted = w.penalty or 1
    if len(w.deck) < wanted:
        w = w._replace(deck=tuple(sorted(w.deck + w.pile)), pile=())
    if len(w.deck) < wanted:
        yield 1.0, w._replace(over=True)
        return
    branches = {w: 1.0}
    for _ in range(wanted):
        grown: dict[World, float] = {}
        for v, p in branches.items():
            for card, number in Counter(v.deck).items():
                deck, hand = list(v.deck), sorted((*v.hands[v.mover], card))
                deck.remove(card)
                if v.mover == 0 and could_hold is not None and not Counter(hand) <= could_hold:
                    continue
                hands = (tuple(hand), v.hands[1]) if v.mover == 0 else (v.hands[0], tuple(hand))
                next_world = v._replace(hands=hands, deck=tuple(deck))
                grown[next_world] = grown.get(next_world, 0.0) + p * number / len(v.deck)
        branches = grown
    for v, p in branches.items():
        yield p, v._replace(mover=1 - v.mover, penalty=0)


Worlds = dict[World, float]


def deal(observation: Observation, *, sees_start: bool) -> Worlds:
    """Return all deals that agree with the observer's first view.

    `sees_start`: weigh them by the probability of the start card among the coloured cards not dealt; else they are equally
    likely.
    """
    view = view_from(observation)
    unseen = Counter(dict(enumerate(observation.rules.deck)))
    unseen.subtract(view.hand + view.pile + (view.top,))
    physical = sorted(unseen.elements())
    worlds: Worlds = {}
    for held in combinations(range(len(physical)), view.opponent_count):
        hand = tuple(physical[i] for i in held)
        deck = tuple(physical[i] for i in range(len(physical)) if i not in held)
        w = World((view.hand, hand), deck, view.pile, view.top, view.color, view.mover, view.penalty, view.over)
        weight = 1 / sum(card < 52 for card in (*deck, view.top)) if sees_start else 1.0
        worlds[w] = worlds.get(w, 0.0) + weight
    total = sum(worlds.values())
    return {w: p / total for w, p in worlds.items()}


def update(worlds: Worlds, action: int, after: Observation, *, policy: Policy, rules: Rules) -> tuple[Worlds, float]:
    """Return the worlds after a step, and the probability of the observation."""
    seen = view_from(after)
    could_hold = Counter(seen.hand)
    kept: Worlds = {}
    for w, p in worlds.items():
        legal = legal_actions(w.hands[w.mover], w.top, w.color, w.penalty)
        if action not in legal:
            continue
        likelihood = policy(w.hands[1], action, legal) if w.mover == 1 and action != DRAW else 1.0
        branches = _after_draw(w, could_hold) if action == DRAW else [(1.0, _play(w, action, rules.skip_forfeits))]
        for chance, v in branches:
            if view_of(v) == seen:
                kept[v] = kept.get(v, 0.0) + p * likelihood * chance
    evidence = sum(kept.values())
    return {w: p / evidence for w, p in kept.items()}, evidence


def hand_probs(worlds: Worlds) -> dict[Hand, float]:
    probs: dict[Hand, float] = {}
    for w, p in worlds.items():
        probs[w.hands[1]] = probs.get(w.hands[1], 0.0) + p
    return probs
