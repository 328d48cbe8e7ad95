"""A player's observations on the way to each information state, level by level.

Information states share their common past, so its memories are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from unojax import bits, table
from unojax.rules import Rules
from unojax.solve.enumeration import NUM_SEEN, walk
from unojax.solve.memory import Level, Memory, number_keys
from unojax.solve.strategies import Strategies
from unojax.solve.treeplex import Tree

_CHUNK = 1 << 15


class Seen(NamedTuple):
    """A player's K information states of equal length on the way to one of its choices.

    Attributes:
        parent: Index in the level before, ascending, int32[K].
        rows: One table of each, uint32[K, 9].
        last_action: Last public action, int8[K], -1 at the start.
        infoset: The player's information state with a choice here, int32[K], or -1.
    """

    parent: np.ndarray
    rows: np.ndarray
    last_action: np.ndarray
    infoset: np.ndarray


@dataclass(frozen=True, eq=False)
class HiddenHands:
    """M possible hands of the other player at a player's information states with a choice.

    Attributes:
        start: Start of each information state's hands, int64[I + 1].
        packed: Packed canonical hands, uint32[M, 4].
        prob: Probabilities, float64[M], with sum 1 in each information state.
    """

    start: np.ndarray
    packed: np.ndarray
    prob: np.ndarray


def look_back(tree: Tree, against: Strategies | None = None) -> tuple[tuple[list[Seen], HiddenHands | None], ...]:
    """Return each player's levels of observations, and hidden hands if `against` is given.

    Args:
        tree: Tree of the game, which is enumerated again.
        against: Assumed strategy of each player's opponent, which makes P(hand | observations) exact: a sum over histories of
            chance probability times the opponent's plan, or chance alone if that plan never leads there.
    """
    watches = _Watch(0, tree.rules, against is not None), _Watch(1, tree.rules, against is not None)

    def on_level(step: int, level: Level, prob: np.ndarray, memories: tuple[Memory, Memory]) -> None:
        for watch in watches:
            watch.note(step, level, prob, memories)

    memories, _ = walk(tree.rules, merge_colors=tree.merge_colors, on_level=on_level)
    places = [memory.treeplex()[1] for memory in memories]
    found = []
    for watch in watches:
        hands = None
        if against is not None:
            other = 1 - watch.player
            hands = watch.hands(tree, places, tree.plan(other, against[other]))
        found.append((watch.levels(tree, places[watch.player]), hands))
    return tuple(found)


class _Watch:
    """Collects one player's observations, with sequences numbered as in the walk."""

    def __init__(self, player: int, rules: Rules, keeps_hands: bool):
        self.player, self.rules, self.keeps_hands = player, rules, keeps_hands
        self._levels: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        # Histories at which the player has a choice, an array per level: first sequence there, the other player's sequence, the
        # other hand, and the chance probability.
        self._histories: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

    def note(self, step: int, level: Level, prob: np.ndarray, memories: tuple[Memory, Memory]) -> None:
        mine, other = memories[self.player], memories[1 - self.player]
        parent = mine.keys // NUM_SEEN if step else np.zeros(len(mine.keys), int)
        first = np.where(mine.has_choice, mine.first, -1)
        self._levels.append((parent.astype(np.int32), level.rows[mine.example], level.last_action[mine.example], first))
        if self.keeps_hands:
            here = np.flatnonzero(mine.has_choice[mine.number])
            hands = _hidden_hands(level.rows[here], 1 - self.player, self.rules)
            self._histories.append((mine.first[mine.number[here]], other.sequence[other.number[here]], hands, prob[here]))

    def levels(self, tree: Tree, place: np.ndarray) -> list[Seen]:
        """Return the levels without branches that lead to no choice.

        `place[s]` is the number in the tree of sequence s of the walk.
        """
        treeplex = tree.players[self.player]
        pruned: list[Seen] = []
        is_needed = np.zeros(0, bool)
        for parent, rows, last_action, first in reversed(self._levels):
            if pruned:
                is_parent = np.zeros(len(parent), bool)
                is_parent[pruned[-1].parent] = True
                is_needed = is_parent | (first >= 0)
                pruned[-1] = pruned[-1]._replace(parent=(np.cumsum(is_needed, dtype=np.int32) - 1)[pruned[-1].parent])
            else:
                is_needed = first >= 0
            begins = first[is_needed]
            infoset = np.full(len(begins), -1, np.int32)
            infoset[begins >= 0] = treeplex.infoset_of[place[begins[begins >= 0]] - 1]
            pruned.append(Seen(parent[is_needed], rows[is_needed], last_action[is_needed], infoset))
        return pruned[::-1]

    def hands(self, tree: Tree, places: list[np.ndarray], plan: np.ndarray) -> HiddenHands:
        """Sum the histories of each information state by hidden hand."""
        first, sequence, hands, prob = map(np.concatenate, zip(*self._histories, strict=True))
        treeplex = tree.players[self.player]
        infoset = treeplex.infoset_of[places[self.player][first] - 1].astype(int)
        words = hands.astype(np.uint64)
        ids = [number_keys((words[:, i] << np.uint64(32) | words[:, i + 1]).view(np.int64)).number.astype(int) for i in (0, 2)]
        hand = number_keys(ids[0] * (ids[1].max(initial=0) + 1) + ids[1])
        both = number_keys(infoset * (len(hand.example) + 1) + hand.number)
        of_plan = np.bincount(both.number, prob * plan[places[1 - self.player][sequence]])
        of_chance = np.bincount(both.number, prob)
        owner = infoset[both.example]
        start = np.searchsorted(owner, np.arange(treeplex.num_choices + 1))
        is_met = np.bincount(owner, of_plan, treeplex.num_choices) > 0
        weights = np.where(is_met[owner], of_plan, of_chance)
        total = np.bincount(owner, weights, treeplex.num_choices)
        return HiddenHands(start, hands[both.example], weights / total[owner])


def _hidden_hands(rows: np.ndarray, owner: int, rules: Rules) -> np.ndarray:
    """Pack the hands of one player: uint32[N, 4]."""
    hands = np.empty((len(rows), 4), np.uint32)
    for start in range(0, len(rows), _CHUNK):
        some = rows[start : start + _CHUNK]
        # All of one size: one program.
        padded = np.concatenate([some, np.zeros((_CHUNK - len(some), rows.shape[1]), np.uint32)])
        hands[start : start + _CHUNK] = np.asarray(_pack_hands(padded, owner=owner, rules=rules))[: len(some)]
    return hands


@partial(jax.jit, static_argnames=("owner", "rules"))
def _pack_hands(rows: Array, *, owner: int, rules: Rules) -> Array:
    side = table.HAND_1 if owner else table.HAND_0
    return jax.numpy.stack(bits.canonical(table.Table.of_words(rows).cards_of(side, rules)), -1)
