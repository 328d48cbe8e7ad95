"""Players' memories of the histories of a level, and the resulting information states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unojax.game import NO_ACTION
from unojax.solve.expansion import Lanes
from unojax.solve.treeplex import ROOT, Treeplex


class Numbered(NamedTuple):
    """Numbers 0, 1, ... that replace keys.

    Attributes:
        number: int32[N], equal for equal keys.
        example: Index of one key per number, int64[K].
    """

    number: np.ndarray
    example: np.ndarray


def number_keys(keys: np.ndarray) -> Numbered:
    """Number keys, int64[N], in ascending order."""
    order = np.argsort(keys)
    in_order = keys[order]
    is_new = np.empty(len(keys), bool)
    is_new[:1] = True
    np.not_equal(in_order[1:], in_order[:-1], out=is_new[1:])
    number = np.empty(len(keys), np.int32)
    number[order] = np.cumsum(is_new, dtype=np.int32) - 1
    return Numbered(number, order[is_new])


class Level(NamedTuple):
    """Histories of equal length.

    Attributes:
        rows: Tables, uint32[N, 9].
        last_action: Last public action, int8[N], -1 at the start.
        counts, is_decision: Results of `Expander.look`.
        mover: Player to move, uint8[N].
    """

    rows: np.ndarray
    last_action: np.ndarray
    counts: np.ndarray
    is_decision: np.ndarray
    mover: np.ndarray


class Memory:
    """One player's information states, collected level by level.

    Attributes:
        player: 0 or 1.
        num_infosets: Number of information states so far at which the player acts.
        number: Number of each history of the level, equal for indistinguishable ones, int32[N].
        sequence: The player's sequence that leads to each number, int32[K].
        example: A history of the level with that number, int64[K].
        keys: Key of the number, int64[K].
        has_choice: Whether the player has a choice there, bool[K].
        first: First sequence there with a choice, else the sequence that leads there, int32[K].
    """

    def __init__(self, player: int):
        self.player = player
        self.num_infosets = 0
        self.number = np.zeros(1, np.int32)
        self.sequence = np.full(1, ROOT, np.int32)
        self.example = np.zeros(1, int)
        self.keys = np.zeros(1, int)
        self.has_choice = np.zeros(1, bool)
        self.first = self.sequence
        # Information states with a choice in order of discovery, an array per level.
        self._num_sequences = 1
        self._parents: list[np.ndarray] = []
        self._num_actions: list[np.ndarray] = []
        self._actions: list[np.ndarray] = [np.full(1, NO_ACTION, np.int8)]
        self._rows: list[np.ndarray] = []
        self._last_action: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []

    def remember(self, keys: np.ndarray, sequence: np.ndarray) -> None:
        """Number the next level's histories by keys, int64[N]; record their sequences, int32[N]."""
        numbered = number_keys(keys)
        self.number, self.sequence = numbered.number, sequence[numbered.example]
        self.example, self.keys = numbered.example, keys[numbered.example]

    def act(self, step: int, level: Level) -> None:
        """Record the information states of a level at which the player acts."""
        mine = np.flatnonzero(level.mover == self.player)
        example = np.full(len(self.sequence), -1)
        example[self.number[mine]] = mine
        self.num_infosets += int(np.count_nonzero(example >= 0))
        self.has_choice = (example >= 0) & level.is_decision[example] & (level.counts[example] > 1)
        numbers = np.flatnonzero(self.has_choice)
        examples = example[numbers]
        num_actions = level.counts[examples].astype(np.int32)
        self.first = self.sequence.copy()
        self.first[numbers] = self._num_sequences + np.cumsum(num_actions) - num_actions
        self._num_sequences += int(num_actions.sum())
        self._parents.append(self.sequence[numbers])
        self._num_actions.append(num_actions)
        self._actions.append(np.full(num_actions.sum(), NO_ACTION, np.int8))
        self._rows.append(level.rows[examples])
        self._last_action.append(level.last_action[examples])
        self._steps.append(np.full(len(numbers), step, np.int32))

    def sequences(self, children: Lanes) -> np.ndarray:
        """Return the player's sequence in each child of the level, int32[M]."""
        number = self.number[children.origin]
        has_choice = self.has_choice[number]
        sequence = self.first[number] + np.where(has_choice, children.option, np.int32(0))
        # The sequences of this level are the last ones.
        new = self._actions[-1]
        new[sequence[has_choice] - (self._num_sequences - len(new))] = children.action[has_choice]
        return sequence

    def treeplex(self) -> tuple[Treeplex, np.ndarray]:
        """Return the treeplex, and the new place of each sequence, int32[S]."""
        parents, num_actions = np.concatenate(self._parents), np.concatenate(self._num_actions)
        first = 1 + np.cumsum(num_actions) - num_actions
        depth = np.empty(len(parents), np.int32)
        depth_after = np.zeros(self._num_sequences, np.int32)
        begin, end = 0, 1
        for of_level in self._parents:
            # Parents belong to earlier levels.
            here = slice(begin, begin + len(of_level))
            depth[here] = depth_after[of_level]
            of_sequences = np.repeat(depth[here] + 1, num_actions[here])
            depth_after[end : end + len(of_sequences)] = of_sequences
            begin, end = here.stop, end + len(of_sequences)

        place = np.zeros(self._num_sequences, np.int32)
        orders, depths, used = [], [0], 1
        for d in range(int(depth.max(initial=-1)) + 1):
            states = np.flatnonzero(depth == d)
            states = states[np.argsort(place[parents[states]], kind="stable")]
            n = num_actions[states]
            of_sequences = np.repeat(first[states] - (np.cumsum(n) - n), n) + np.arange(n.sum())
            place[of_sequences] = used + np.arange(len(of_sequences))
            used += len(of_sequences)
            orders.append(states)
            depths.append(depths[-1] + len(states))
        order = np.concatenate(orders) if orders else np.zeros(0, int)
        actions = np.empty(self._num_sequences, np.int8)
        actions[place] = np.concatenate(self._actions)
        return (
            Treeplex(
                parent=place[parents[order]],
                first=place[first[order]],
                actions=actions,
                depths=np.array(depths),
                rows=np.concatenate(self._rows)[order],
                last_action=np.concatenate(self._last_action)[order],
                steps=np.concatenate(self._steps)[order],
            ),
            place,
        )
