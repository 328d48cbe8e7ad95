"""Hands of the particle filter checked against the history, over games of the full deck, in plain Python.

Views are numbered 0..T. Every card of the opponent came at some view (0, or the one after a draw), and left at the view after its
play, or not yet. A hand is possible at view T if all these cards, those of the hand and those played, can be given times of
arrival: one card for each arrival, and for a card of type z that leaves at view r

* it came before r;
* it came after every view before r at which the opponent could not play although z was playable;
* at no view more cards of the type were held than were unseen. Of several cards of one type those that leave last may as well
  have come last, so they must come after such a view.

Each card thus has an interval of arrivals. All can be served if and only if they can be in the order of their ends (Glover 1967,
"Maximum matching in a convex bipartite graph").
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unojax import cards
from unojax.observation import Observation


class History(NamedTuple):
    """Constraints on the opponent's cards from an observer's views up to T.

    Attributes:
        last: T.
        arrivals: View at which the opponent first held each acquired card, increasing.
        played: First and last possible arrival of each played card.
        earliest: First view at which a card of the hand may have come, by type and number of other copies in the hand that came
            no later, int[54, 4]; T + 1 if impossible.
    """

    last: int
    arrivals: list[int]
    played: list[tuple[int, int]]
    earliest: np.ndarray


def read_history(views: Observation) -> History:
    """Return the history of views 0..T of one player, NumPy [T + 1], of a game without a break."""
    unseen = np.array(views.rules.deck) - cards.count_types(views.hand) - cards.count_types(views.pile)
    num_views = len(unseen)
    held, mine = views.opponent_count.astype(int), views.current_player == views.player
    # Types that it could have played at a view and did not hold.
    stuck = np.zeros((num_views, cards.NUM_TYPES), bool)
    arrivals, plays = [0] * held[0], []
    for t in range(num_views - 1):
        if not mine[t] and held[t + 1] < held[t]:
            plays.append((cards.card_type(int(views.color[t + 1]), int(views.top_rank[t + 1])), t + 1))
        elif not mine[t] and held[t + 1] > held[t]:
            arrivals += [t + 1] * (held[t + 1] - held[t])
            if views.penalty[t] == 0:
                stuck[t] = [_is_playable(z, int(views.color[t]), int(views.top_rank[t])) for z in range(cards.NUM_TYPES)]

    # Plays come in the order of their views, so that those before one of the same type left before it.
    others = np.zeros_like(unseen)
    played = []
    for z, end in plays:
        played.append((_first_free(stuck[:end, z] | (others[:end, z] >= unseen[:end, z])), end - 1))
        others[:end, z] += 1
    earliest = [
        [_first_free(stuck[:, z] | (others[:, z] + copies >= unseen[:, z])) for copies in range(4)]
        for z in range(cards.NUM_TYPES)
    ]
    return History(num_views - 1, arrivals, played, np.array(earliest))


def _is_playable(z: int, color: int, rank: int) -> bool:
    return z >= 52 or z // 13 == color or (rank < cards.WILD and z % 13 == rank)


def _first_free(blocked: np.ndarray) -> int:
    """Return the view after the last blocked one."""
    return int(np.flatnonzero(blocked)[-1]) + 1 if blocked.any() else 0


def is_possible(hand: Iterable[int], history: History) -> bool:
    """Return whether the opponent may hold these cards, given as types, at the last view."""
    number: Counter[int] = Counter()
    intervals = list(history.played)
    for z in hand:
        intervals.append((int(history.earliest[z, number[z]]), history.last))
        number[z] += 1
    return len(intervals) == len(history.arrivals) and _can_be_served(history.arrivals, intervals)


def _can_be_served(points: list[int], intervals: list[tuple[int, int]]) -> bool:
    """Return whether each interval can have a point of its own, with as many points as intervals."""
    waiting, ends = sorted(intervals, reverse=True), []
    for point in points:
        while waiting and waiting[-1][0] <= point:
            heapq.heappush(ends, waiting.pop()[1])
        if not ends or heapq.heappop(ends) < point:
            return False
    return True
