"""Enumeration of a game: level by level, a level being all histories after so many steps, into the sequence form.

What a player remembers is an exact number per history: those of the next level are numbered by (number before, what the player saw
of the step), so information states have perfect recall and nothing is hashed. A history is forgotten when its children are made.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy.sparse

from unojax import cards, table
from unojax.game import MAX_DRAW, NO_ACTION
from unojax.rules import Rules
from unojax.solve.expansion import NUM_PLACES, Expander, Lanes, Meta
from unojax.solve.size import check_size
from unojax.solve.steps import deal_card, game_rules, num_steps_of, take_step, turn_up
from unojax.solve.treeplex import ROOT, Tree, Treeplex

DEFAULT_LIMIT: Final = 60_000_000
"""Histories, about 6 GB while they are enumerated."""

_BLOCK: Final = 1 << 18
"""Histories expanded at a time."""
_NUM_SEEN: Final = cards.NUM_ACTIONS + NUM_PLACES**MAX_DRAW
"""Bound on what a player can see in a step: 60 plays, a draw of the other's, a draw of one's own of so many cards."""


def enumerate_game(
    rules: Rules, max_steps: int | None = None, *, merge_colors: bool = True, limit: int | None = DEFAULT_LIMIT
) -> Tree:
    """Enumerate a game with its chances and information states.

    Args:
        rules: of the game, with a deck that is small enough.
        max_steps: the game is cut off, as a draw, after that many steps; None: after those of the rules.
        merge_colors: a wild declares one of the colours that the deck lacks in place of any of them. They allow the same plays,
            so the value of the game stays, and the tree is smaller.
        limit: largest number of histories. It is estimated first. None: as many as memory holds.

    Raises:
        ValueError: the game is too large, can go on for ever, or is not zero-sum.
    """
    rules = game_rules(rules, max_steps)
    num_steps = num_steps_of(rules)
    check_size(rules, merge_colors, limit)
    expander = Expander(rules, merge_colors=merge_colors)
    memories = _Memory(0), _Memory(1)
    rows, prob, num_histories = _deal_all(expander, memories)
    last_action = np.full(len(rows), NO_ACTION, np.int8)
    payoffs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    for step in range(num_steps):
        counts, is_decision = expander.look(Lanes.begin(rows))
        level = _Level(rows, prob, last_action, counts, is_decision, Meta.of(rows).player)
        for memory in memories:
            memory.act(step, level)
        is_last = step + 1 == num_steps
        parts: list[_Children] = []
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            children, num_draws = take_step(expander, Lanes.begin(rows[block]), counts[block])
            children = children._replace(origin=children.origin + start)
            num_histories += children.size + num_draws
            sequences = [memory.after(children) for memory in memories]
            prob_after = prob[children.origin] * children.prob
            phase = Meta.of(children.rows).phase
            for won, payoff in ((table.OVER_WON_BY_0, 1.0), (table.OVER_WON_BY_1, -1.0)):
                ended = np.flatnonzero(phase == won)
                payoffs.append((sequences[0][ended], sequences[1][ended], payoff * prob_after[ended]))
            if not is_last:
                alive = np.flatnonzero(phase == table.PLAY)
                parts.append(_Children.of(children.take(alive), prob_after[alive], [s[alive] for s in sequences], memories, level.mover))
        if limit is not None and num_histories > limit:
            raise ValueError(f"the game has more than limit={limit:,} histories after {step + 1} of {num_steps} steps; lower max_steps")
        if is_last or not sum(len(part.rows) for part in parts):
            break
        after = parts[0] if len(parts) == 1 else _Children(*map(np.concatenate, zip(*parts, strict=True)))
        del parts
        memories[0].remember(after.key_0, after.sequence_0)
        memories[1].remember(after.key_1, after.sequence_1)
        rows, prob, last_action = after.rows, after.prob, after.last_action

    (first, place_0), (second, place_1) = (memory.treeplex() for memory in memories)
    seqs_0, seqs_1, values = map(np.concatenate, zip(*payoffs, strict=True))
    shape = first.num_sequences, second.num_sequences
    payoff = scipy.sparse.csr_array(scipy.sparse.coo_array((values, (place_0[seqs_0], place_1[seqs_1])), shape=shape))
    num_infosets = memories[0].num_infosets, memories[1].num_infosets
    return Tree(rules, merge_colors, num_histories, num_infosets, (first, second), payoff)


def _deal_all(expander: Expander, memories: tuple[_Memory, _Memory]) -> tuple[np.ndarray, np.ndarray, int]:
    """Deal everything: the tables, uint32[N, 9], their probabilities, float64[N], and the number of nodes so far."""
    hand_size, lanes, prob, num_nodes = expander.rules.hand_size, expander.undealt(), np.ones(1), 1
    for index in range(1, 2 * hand_size + 2):
        is_start = index > 2 * hand_size
        lanes = turn_up(expander, lanes) if is_start else deal_card(expander, lanes)
        prob = prob[lanes.origin] * lanes.prob
        if index in (hand_size, 2 * hand_size) or is_start:
            num_nodes += lanes.size
        meta = Meta.of(lanes.rows)
        public = meta.color.astype(int) * 2 + meta.player if is_start else 0
        for memory, sees in zip(memories, (index <= hand_size, index > hand_size), strict=True):
            before = memory.number[lanes.origin]
            seen = 8 * lanes.drawn + public if sees or is_start else 0
            memory.remember(before.astype(int) * (8 * NUM_PLACES) + seen, memory.sequence[before])
    return lanes.rows, prob, num_nodes


class _Children(NamedTuple):
    """Histories of the next level.

    Attributes:
        rows, prob, last_action: as in `_Level`.
        key_0, key_1: int64[N] what each player remembers, equal for histories that it can't tell apart.
        sequence_0, sequence_1: int32[N] each player's sequence.
    """

    rows: np.ndarray
    prob: np.ndarray
    last_action: np.ndarray
    key_0: np.ndarray
    key_1: np.ndarray
    sequence_0: np.ndarray
    sequence_1: np.ndarray

    @classmethod
    def of(
        cls, children: Lanes, prob: np.ndarray, sequences: list[np.ndarray], memories: tuple[_Memory, _Memory], mover: np.ndarray
    ) -> _Children:
        """Keep what is needed of the children that go on. `mover`, uint8[N], is that of the level before."""
        public = children.action.astype(int)
        draws, moves = children.action == cards.DRAW, mover[children.origin]
        keys = [
            memory.number[children.origin].astype(int) * _NUM_SEEN
            + np.where(draws & (moves == memory.player), cards.NUM_ACTIONS + children.drawn, public)
            for memory in memories
        ]
        return cls(children.rows, prob, children.action, keys[0], keys[1], sequences[0], sequences[1])


class _Numbered(NamedTuple):
    """Numbers 0, 1, ... in place of keys.

    Attributes:
        number: int32[N], equal for equal keys.
        example: int64[K], index of a key of each number.
    """

    number: np.ndarray
    example: np.ndarray


def _number(keys: np.ndarray) -> _Numbered:
    order = np.argsort(keys)
    in_order = keys[order]
    is_new = np.empty(len(keys), bool)
    is_new[:1] = True
    np.not_equal(in_order[1:], in_order[:-1], out=is_new[1:])
    number = np.empty(len(keys), np.int32)
    number[order] = np.cumsum(is_new, dtype=np.int32) - 1
    return _Numbered(number, order[is_new])


class _Level(NamedTuple):
    """Histories after so many steps.

    Attributes:
        rows: uint32[N, 9] their tables.
        prob: float64[N] probability of chance so far.
        last_action: int8[N].
        counts: uint8[N] what can be picked.
        is_decision: bool[N].
        mover: uint8[N].
    """

    rows: np.ndarray
    prob: np.ndarray
    last_action: np.ndarray
    counts: np.ndarray
    is_decision: np.ndarray
    mover: np.ndarray


def _count_up(counts: np.ndarray) -> np.ndarray:
    """Count from 0 within each of so many groups: [0, counts[0]), [0, counts[1]), ..."""
    ends = np.cumsum(counts)
    return np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)


class _Memory:
    """One player's information states, as they come up."""

    def __init__(self, player: int):
        self.player = player
        self.num_infosets = 0
        self.num_sequences = 1
        self.parents: list[np.ndarray] = []
        self.num_actions: list[np.ndarray] = []
        self.actions: list[np.ndarray] = [np.full(1, NO_ACTION, np.int8)]
        self.rows: list[np.ndarray] = []
        self.last_action: list[np.ndarray] = []
        self.steps: list[np.ndarray] = []
        # Of each history of the level, what it is to this player; of each such number, the sequence that led there.
        self.number = np.zeros(1, np.int32)
        self.sequence = np.full(1, ROOT, np.int32)
        # Of each number, if the player has a choice there, the first of its sequences; else the one that led there.
        self.first = self.sequence
        self.has_choice = np.zeros(1, bool)

    def remember(self, keys: np.ndarray, sequence: np.ndarray) -> None:
        """Tell the histories of the next level apart by keys, int64[N], and note the player's sequence in each, int32[N]."""
        numbered = _number(keys)
        self.number, self.sequence = numbered.number, sequence[numbered.example]

    def act(self, step: int, level: _Level) -> None:
        """Note the information states of a level at which the player acts."""
        mine = np.flatnonzero(level.mover == self.player)
        example = np.full(len(self.sequence), -1)
        example[self.number[mine]] = mine
        self.num_infosets += int(np.count_nonzero(example >= 0))
        self.has_choice = (example >= 0) & level.is_decision[example] & (level.counts[example] > 1)
        numbers = np.flatnonzero(self.has_choice)
        examples = example[numbers]
        num_actions = level.counts[examples].astype(np.int32)
        self.first = self.sequence.copy()
        self.first[numbers] = self.num_sequences + np.cumsum(num_actions) - num_actions
        self.num_sequences += int(num_actions.sum())
        self.parents.append(self.sequence[numbers])
        self.num_actions.append(num_actions)
        self.actions.append(np.full(num_actions.sum(), NO_ACTION, np.int8))
        self.rows.append(level.rows[examples])
        self.last_action.append(level.last_action[examples])
        self.steps.append(np.full(len(numbers), step, np.int16))

    def after(self, children: Lanes) -> np.ndarray:
        """Find the player's sequence in each child of the level: int32[M]."""
        number = self.number[children.origin]
        has_choice = self.has_choice[number]
        sequences = self.first[number] + np.where(has_choice, children.option, 0)
        # Sequences of this level are the last ones.
        new = self.actions[-1]
        new[sequences[has_choice] - (self.num_sequences - len(new))] = children.action[has_choice]
        return sequences.astype(np.int32)

    def treeplex(self) -> tuple[Treeplex, np.ndarray]:
        """Order the information states by depth and parent. Also gives the new place of each sequence: int32[S]."""
        parents, num_actions = np.concatenate(self.parents), np.concatenate(self.num_actions)
        first = 1 + np.cumsum(num_actions) - num_actions
        depth = np.empty(len(parents), np.int32)
        depth_after = np.zeros(self.num_sequences, np.int32)
        begin = 0
        for of_level in self.parents:
            # Parents belong to earlier levels.
            here = slice(begin, begin + len(of_level))
            depth[here] = depth_after[of_level]
            for_sequences = slice(first[begin], first[here.stop] if here.stop < len(first) else None) if len(of_level) else slice(0)
            depth_after[for_sequences] = np.repeat(depth[here] + 1, num_actions[here])
            begin = here.stop

        place = np.zeros(self.num_sequences, np.int32)
        orders, depths, used = [], [0], 1
        for d in range(int(depth.max(initial=-1)) + 1):
            states = np.flatnonzero(depth == d)
            states = states[np.argsort(place[parents[states]], kind="stable")]
            n = num_actions[states]
            begins = used + np.cumsum(n) - n
            place[np.repeat(first[states], n) + _count_up(n)] = np.repeat(begins, n) + _count_up(n)
            used += int(n.sum())
            orders.append(states)
            depths.append(depths[-1] + len(states))
        order = np.concatenate(orders) if orders else np.zeros(0, int)
        actions = np.empty(self.num_sequences, np.int8)
        actions[place] = np.concatenate(self.actions)
        return (
            Treeplex(
                parent=place[parents[order]],
                first=place[first[order]] if len(order) else np.zeros(0, np.int32),
                actions=actions,
                depths=np.array(depths),
                rows=np.concatenate(self.rows)[order],
                last_action=np.concatenate(self.last_action)[order],
                steps=np.concatenate(self.steps)[order],
            ),
            place,
        )


