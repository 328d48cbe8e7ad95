"""Exact values of small games under uniform play: all positions as one Markov chain, solved as a linear system."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import spsolve

from tests.oracle.game import COLORS, DRAW, WILDS, Game, Variant, color_of


@dataclass(frozen=True)
class Values:
    """Exact values of uniform play: probabilities of results, and mean numbers of steps, choices and reshuffles."""

    wins: tuple[float, float]
    draws: float
    steps: float
    choices: float
    reshuffles: float


def uniform_play(variant: Variant) -> Values:
    """Return the exact values if both players take each legal action with equal probability."""
    index: dict[tuple, int] = {}
    games: list[Game] = []
    edges: list[tuple[int, int, float]] = []
    # Columns: player 0 wins, player 1 wins, drawn, steps, choices, reshuffles.
    gains: list[np.ndarray] = []

    def number(game: Game) -> int:
        key = _key(game)
        if key not in index:
            index[key] = len(games)
            games.append(game)
            gains.append(np.zeros(6))
        return index[key]

    start = [(number(game), prob) for game, prob in deals(variant)]
    at = 0
    while at < len(games):
        legal = games[at].legal_actions()
        gains[at][3] = 1.0
        gains[at][4] = float(len(legal) > 1)
        for action in legal:
            for after, prob_given_action in successors(games[at], action):
                prob = prob_given_action / len(legal)
                gains[at][5] += prob * sum(n for event, n in after.events.items() if event.startswith("reshuffled"))
                if after.terminated:
                    gains[at][2 if after.winner is None else after.winner] += prob
                else:
                    edges.append((at, number(after), prob))
        at += 1
    rows, columns, probs = zip(*edges, strict=True)
    transitions = coo_matrix((probs, (rows, columns)), shape=(at, at)).tocsc()
    values = spsolve(identity(at, format="csc") - transitions, np.stack(gains))
    win_0, win_1, drawn, steps, choices, reshuffles = sum(prob * values[i] for i, prob in start)
    return Values((win_0, win_1), drawn, steps, choices, reshuffles)


def deals(variant: Variant) -> Iterator[tuple[Game, float]]:
    """Yield all beginnings of a game, with their probabilities."""
    for hand_0, prob_0 in draws(variant.deck, variant.hand_size):
        for hand_1, prob_1 in draws(variant.deck - hand_0, variant.hand_size):
            rest = variant.deck - hand_0 - hand_1
            tops = {card: n for card, n in rest.items() if variant.wild_may_start or color_of(card)}
            for top, copies in tops.items():
                colors = color_of(top) or "RYBG"
                for color in colors:
                    prob = prob_0 * prob_1 * copies / sum(tops.values()) / len(colors)
                    yield Game.deal(variant, [hand_0, hand_1], top, color, 0), prob


def successors(game: Game, action: int) -> Iterator[tuple[Game, float]]:
    """Yield all positions after an action, even an illegal one, with their probabilities."""
    passes = game.drawn is not None and bool(game.plays())
    if action != DRAW or game.is_over or passes or action not in game.legal_actions():
        yield _stepped(game, action, Counter()), 1.0
        return
    due, stock = game.penalty or 1, game.deck
    if stock.total() < due:
        stock = stock + (game.pile if game.variant.reshuffle_top else game.pile - Counter([game.top]))
    if stock.total() < due:
        yield _stepped(game, action, Counter()), 1.0
        return
    for drawn, prob in draws(stock, due):
        (card, *_) = drawn
        lays_wild = game.variant.play_drawn == "auto" and not game.penalty and card in WILDS
        for color in COLORS if lays_wild else (None,):
            yield _stepped(game, action, drawn, color), prob / (len(COLORS) if lays_wild else 1)


def draws(stock: Counter[str], number: int) -> Iterator[tuple[Counter[str], float]]:
    """Yield all multisets of `number` cards, with their hypergeometric probabilities."""
    names = sorted(+stock)
    for counts in itertools.product(*(range(min(stock[name], number) + 1) for name in names)):
        if sum(counts) == number:
            ways = math.prod(math.comb(stock[name], n) for name, n in zip(names, counts, strict=True))
            yield +Counter(dict(zip(names, counts, strict=True))), ways / math.comb(stock.total(), number)


def _stepped(game: Game, action: int, drawn: Counter[str], laid_color: str | None = None) -> Game:
    after = game.copy()
    after.events.clear()
    after.step(action, drawn, laid_color)
    return after


def _key(game: Game) -> tuple:
    sets = tuple(frozenset((+cards).items()) for cards in (*game.hands, game.deck))
    return (*sets, game.top, game.color, game.player, game.penalty)
