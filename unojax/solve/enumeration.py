"""Enumeration of a game into the sequence form, level by level of histories of equal length.

A player's memory is one exact number per history. The next level's histories are numbered by (previous number, the player's
observation of the step), so information states have perfect recall without hashing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import scipy.sparse

from unojax import cards, table
from unojax.game import NO_ACTION
from unojax.rules import Rules
from unojax.solve.expansion import NUM_PLACES, Expander, Lanes, meta_of
from unojax.solve.memory import Level, Memory
from unojax.solve.size import check_size
from unojax.solve.steps import deal_card, game_rules, num_steps_of, take_step, turn_up
from unojax.solve.treeplex import Tree

DEFAULT_LIMIT: Final = 100_000_000
"""Number of histories: some 4 GB and a minute."""

_BLOCK: Final = 1 << 18
"""Number of histories expanded at a time."""
NUM_SEEN: Final = cards.NUM_ACTIONS + NUM_PLACES ** max(cards.DRAW_OF_RANK)
"""Bound on a player's observations per step: 60 plays, the other player's draw, or the player's own draw of several cards."""


def enumerate_game(
    rules: Rules, max_steps: int | None = None, *, merge_colors: bool = True, limit: int | None = DEFAULT_LIMIT
) -> Tree:
    """Return a game in sequence form.

    Args:
        rules: Rules of the game, with a small deck.
        max_steps: Steps after which the game is truncated, as a draw. None: those of the rules.
        merge_colors: One declared colour stands for all colours that the deck lacks, because these allow the same plays. The
            value of the game is unchanged.
        limit: Largest number of histories, estimated first. None: limited by memory only.

    Raises:
        ValueError: If the game is too large, can be infinite, or is not zero-sum.
    """
    rules = game_rules(rules, max_steps)
    check_size(rules, merge_colors, limit)
    payoffs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    memories, num_histories = walk(rules, merge_colors=merge_colors, limit=limit, on_ends=lambda *ends: payoffs.append(ends))
    (first, place_0), (second, place_1) = (memory.treeplex() for memory in memories)
    seqs_0, seqs_1, values = map(np.concatenate, zip(*payoffs, strict=True))
    shape = first.num_sequences, second.num_sequences
    payoff = scipy.sparse.csr_array(scipy.sparse.coo_array((values, (place_0[seqs_0], place_1[seqs_1])), shape=shape))
    num_infosets = memories[0].num_infosets, memories[1].num_infosets
    return Tree(rules, merge_colors, num_histories, num_infosets, (first, second), payoff)


def walk(
    rules: Rules,
    *,
    merge_colors: bool,
    limit: int | None = None,
    on_level: Callable[[int, Level, np.ndarray, tuple[Memory, Memory]], object] = lambda *level: None,
    on_ends: Callable[[np.ndarray, np.ndarray, np.ndarray], object] = lambda *ends: None,
) -> tuple[tuple[Memory, Memory], int]:
    """Walk through all histories of a game, level by level.

    Args:
        rules: Rules, from `game_rules`.
        merge_colors: As in `enumerate_game`.
        limit: Largest number of histories. None: unlimited.
        on_level: Called with the number of steps, the level, the chance probability of each history, and the updated memories.
        on_ends: Called with histories that a player won: both players' sequences, int32[M], and the chance probabilities times
            the return of player 0.

    Returns:
        The memories after the last level, and the number of histories.

    Raises:
        ValueError: If there are more histories than `limit`.
    """
    num_steps = num_steps_of(rules)
    expander = Expander(rules, merge_colors=merge_colors)
    memories = Memory(0), Memory(1)
    rows, prob, num_histories = _deal_all(expander, memories)
    last_action = np.full(len(rows), NO_ACTION, np.int8)

    for step in range(num_steps):
        counts, is_decision = expander.look(Lanes.begin(rows))
        level = Level(rows, last_action, counts, is_decision, np.asarray(meta_of(rows).player, np.uint8))
        for memory in memories:
            memory.act(step, level)
        on_level(step, level, prob, memories)
        is_last = step + 1 == num_steps
        parts: list[_Children] = []
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            children, num_draws = take_step(expander, Lanes.begin(rows[block]), counts[block])
            children = children._replace(origin=children.origin + start)
            num_histories += children.size + num_draws
            if limit is not None and num_histories > limit:
                raise ValueError(
                    f"the game has more than limit={limit:,} histories within {step + 1} steps; lower max_steps={num_steps}"
                )
            sequences = [memory.sequences(children) for memory in memories]
            prob_after = prob[children.origin] * children.prob
            phase = np.asarray(meta_of(children.rows).phase)
            for won, payoff in ((table.OVER_WON_BY_0, 1.0), (table.OVER_WON_BY_1, -1.0)):
                ended = np.flatnonzero(phase == won)
                on_ends(sequences[0][ended], sequences[1][ended], payoff * prob_after[ended])
            if not is_last:
                alive = np.flatnonzero(phase == table.PLAY)
                parts.append(
                    _Children.of(children.take(alive), prob_after[alive], [s[alive] for s in sequences], memories, level.mover)
                )
        if is_last or not sum(len(part.rows) for part in parts):
            break
        after = parts[0] if len(parts) == 1 else _Children(*map(np.concatenate, zip(*parts, strict=True)))
        del parts
        memories[0].remember(after.key_0, after.sequence_0)
        memories[1].remember(after.key_1, after.sequence_1)
        rows, prob, last_action = after.rows, after.prob, after.last_action
    return memories, num_histories


def _deal_all(expander: Expander, memories: tuple[Memory, Memory]) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the tables after all deals, their probabilities, and the number of nodes so far."""
    hand_size, lanes, prob, num_nodes = expander.rules.hand_size, expander.undealt(), np.ones(1), 1
    for index in range(1, 2 * hand_size + 2):
        is_start = index > 2 * hand_size
        lanes = turn_up(expander, lanes) if is_start else deal_card(expander, lanes)
        prob = prob[lanes.origin] * lanes.prob
        if index in (hand_size, 2 * hand_size) or is_start:
            num_nodes += lanes.size
        meta = meta_of(lanes.rows)
        public = np.asarray(meta.color, int) * 2 + np.asarray(meta.player) if is_start else 0
        for memory, sees in zip(memories, (index <= hand_size, index > hand_size), strict=True):
            before = memory.number[lanes.origin]
            seen = 8 * lanes.drawn + public if sees or is_start else 0
            memory.remember(before.astype(int) * (8 * NUM_PLACES) + seen, memory.sequence[before])
    return lanes.rows, prob, num_nodes


class _Children(NamedTuple):
    """Histories of the next level.

    Attributes:
        rows, prob, last_action: Tables, chance probability so far, last public action.
        key_0, key_1: Each player's memory, int64[N], equal for indistinguishable histories.
        sequence_0, sequence_1: Each player's sequence, int32[N].
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
        cls, children: Lanes, prob: np.ndarray, sequences: list[np.ndarray], memories: tuple[Memory, Memory], mover: np.ndarray
    ) -> _Children:
        """Keep the data of unfinished children. `mover`, uint8[N], belongs to the level before."""
        public = children.action.astype(int)
        draws, moves = children.action == cards.DRAW, mover[children.origin]
        keys = [
            memory.number[children.origin].astype(int) * NUM_SEEN
            + np.where(draws & (moves == memory.player), cards.NUM_ACTIONS + children.drawn, public)
            for memory in memories
        ]
        return cls(children.rows, prob, children.action, keys[0], keys[1], sequences[0], sequences[1])
