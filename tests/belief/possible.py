"""Hands of the particle filter checked against the history, over games of the full deck.

The exact filter answers this on small decks only. On any deck it is a question of matching, answered here in plain Python from
what the observer saw, without a line of the filter's.

Views are numbered 0..T. Every card that the opponent ever held came at some view (0, or the one after a draw), and left at the
view after its play, or not yet. Whether a hand is possible at view T depends on whether all these cards, those of the hand and
those that were played, can be given times of arrival: one card for each arrival, and for a card of type z that leaves at view r

* it came before r;
* it came after every view before r at which the opponent could not play although z was playable;
* at no view more cards of the type were held than were out of the observer's sight. Of several cards of one type those that leave
  later may as well have come later (let two that did not change roles), so the ones to leave last must come after such a view.

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
    """Constraints on the opponent's cards from all that an observer saw up to view T.

    Attributes:
        last: T.
        arrivals: for each card that the opponent acquired the view at which it first held it, increasing.
        played: for each card that it played, the first and the last view at which it may have come.
        earliest: int[54, 4] the first view at which a card of the hand may have come, for each type and number of other copies of
            the type in the hand that came no later; T + 1 if it can't be there.
    """

    last: int
    arrivals: list[int]
    played: list[tuple[int, int]]
    earliest: np.ndarray


def read_history(views: Observation) -> History:
    """Read the history from views 0..T of one player, NumPy arrays with a leading axis T + 1, of a game without a break."""
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
    """Find the view after the last blocked one."""
    return int(np.flatnonzero(blocked)[-1]) + 1 if blocked.any() else 0


def is_possible(hand: Iterable[int], history: History) -> bool:
    """Return whether the opponent may hold these cards (types, each as often as it is held) at the last view."""
    number: Counter[int] = Counter()
    intervals = list(history.played)
    for z in hand:
        intervals.append((int(history.earliest[z, number[z]]), history.last))
        number[z] += 1
    return len(intervals) == len(history.arrivals) and _can_be_served(history.arrivals, intervals)


def _can_be_served(points: list[int], intervals: list[tuple[int, int]]) -> bool:
    """Return whether each interval can be given a point of its own that lies in it; as many of both, points increasing."""
    waiting, ends = sorted(intervals, reverse=True), []
    for point in points:
        while waiting and waiting[-1][0] <= point:
            heapq.heappush(ends, waiting.pop()[1])
        if not ends or heapq.heappop(ends) < point:
            return False
    return True
