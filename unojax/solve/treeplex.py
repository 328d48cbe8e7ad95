"""The sequence form of a game: each player's information states as a treeplex, and the payoff as one sparse matrix.

With perfect recall one sequence of own actions leads to each information state. So a strategy can be written as a **realisation
plan** x, the product of its probabilities along each sequence; x(parent of I) = sum_a x(I, a) is all that binds it, and the
expected return is the bilinear form x^T A y (Koller, Megiddo and von Stengel 1996; von Stengel 1996). What a walk over the game's
tree sums up history by history becomes one product with A.

Information states at which there is one action leave no choice: their sequence is that which led there, and no array holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import scipy.sparse

from unojax.rules import Rules
from unojax.solve import updates

ROOT: Final = 0
"""The empty sequence."""


class _Level(NamedTuple):
    """Information states of one depth.

    Attributes:
        states, here: where they are, and where their sequences are.
        before: the sequence before each of these.
        begins: where each state's sequences begin among these.
        groups, group_begins: where a new parent begins, among the states and among the sequences.
        parents: these parents.
    """

    states: slice
    here: slice
    before: np.ndarray
    begins: np.ndarray
    groups: np.ndarray
    group_begins: np.ndarray
    parents: np.ndarray


@dataclass(frozen=True, eq=False)
class Treeplex:
    """One player's information states with a choice (I of them), and sequences (S).

    The order is by depth, the number of own choices before; within a depth by parent. The sequences of an information state lie
    side by side in the order of its actions, and sequence 0 is the empty one. *Behaviour* is float64[S], the probability of the
    last action of each sequence; a *plan* is float64[S], its product along the sequence. Both have 1 at the empty one.

    Attributes:
        parent: int32[I] the sequence that leads to each information state.
        first: int32[I] its first sequence.
        actions: int8[S] last action of each sequence, 0..59; -1 of the empty one.
        depths: int64[D + 1] where the information states of each depth begin, and the number of them all.
        rows: uint32[I, 9] one table of each information state, packed: any of those that the player can't tell apart.
        last_action: int8[I] the last public action before it, -1 at the start.
        steps: int32[I] steps of the game before it.
    """

    parent: np.ndarray
    first: np.ndarray
    actions: np.ndarray
    depths: np.ndarray
    rows: np.ndarray
    last_action: np.ndarray
    steps: np.ndarray

    @property
    def num_choices(self) -> int:
        """Count the information states with a choice, I."""
        return len(self.parent)

    @property
    def num_sequences(self) -> int:
        """Count the sequences, S."""
        return len(self.actions)

    @cached_property
    def num_actions(self) -> np.ndarray:
        """int32[I]: actions at each information state."""
        return np.diff(self.first, append=self.num_sequences).astype(np.int32)

    @cached_property
    def infoset_of(self) -> np.ndarray:
        """int32[S - 1]: information state of each sequence but the empty one."""
        return np.repeat(np.arange(self.num_choices, dtype=np.int32), self.num_actions)

    @cached_property
    def parent_of(self) -> np.ndarray:
        """int32[S - 1]: the sequence before each one but the empty one."""
        return self.parent[self.infoset_of]

    @cached_property
    def _begins(self) -> np.ndarray:
        """int64[I]: where each information state's sequences begin among those but the empty one."""
        return self.first.astype(np.int64) - 1

    @cached_property
    def _levels(self) -> list[_Level]:
        levels = []
        for start, stop in zip(self.depths[:-1].tolist(), self.depths[1:].tolist(), strict=True):
            first = self.first[start:stop].astype(np.int64)
            end = int(self.first[stop]) if stop < self.num_choices else self.num_sequences
            here, parents = slice(int(first[0]), end), self.parent[start:stop]
            groups = np.flatnonzero(np.diff(parents, prepend=-1))
            begins = first - first[0]
            before = self.parent_of[here.start - 1 : here.stop - 1]
            levels.append(_Level(slice(start, stop), here, before, begins, groups, begins[groups], parents[groups]))
        return levels

    def check(self, array: np.ndarray, what: str) -> np.ndarray:
        """Check that an array has a number for each sequence: float64[S].

        Raises:
            ValueError: it has another shape.
        """
        array = np.asarray(array, float)
        if array.shape != (self.num_sequences,):
            raise ValueError(f"{what} must be a number for each of {self.num_sequences} sequences, got shape {array.shape}")
        return array

    def check_strategy(self, behavior: np.ndarray, what: str) -> np.ndarray:
        """Check that an array has a probability for each sequence, which add up to 1 at each information state: float64[S].

        Raises:
            ValueError: it has not.
        """
        behavior = self.check(behavior, what)
        sums = np.add.reduceat(behavior[ROOT + 1 :], self._begins) if self.num_choices else np.ones(0)
        if not (np.all(behavior[ROOT + 1 :] >= 0) and np.allclose(sums, 1.0, atol=1e-6)):
            raise ValueError(f"{what} must be probabilities, at each information state with sum 1")
        return behavior

    def plan(self, behavior: np.ndarray) -> np.ndarray:
        """Multiply behaviour along the sequences: float64[S]."""
        plan = np.array(behavior)
        plan[ROOT] = 1.0
        for level in self._levels:
            plan[level.here] *= plan[level.before]
        return plan

    def behavior(self, plan: np.ndarray) -> np.ndarray:
        """Divide a plan by what leads to each sequence, float64[S]; where nothing does, the uniform distribution."""
        before = plan[self.parent_of]
        behavior = self._uniform.copy()
        np.divide(plan[1:], before, out=behavior[1:], where=before > 0)
        return behavior

    def normalize(self, weights: np.ndarray) -> np.ndarray:
        """Scale weights, not negative, to behaviour: float64[S]; where all are zero, the uniform distribution."""
        behavior = self._uniform.copy()
        if self.num_choices:
            total = np.add.reduceat(weights[1:], self._begins)[self.infoset_of]
            np.divide(weights[1:], total, out=behavior[1:], where=total > 0)
        return behavior

    @cached_property
    def _uniform(self) -> np.ndarray:
        return np.append(1.0, 1.0 / self.num_actions[self.infoset_of])

    def uniform(self) -> np.ndarray:
        """Make uniform behaviour: float64[S]."""
        return self._uniform.copy()

    def values(self, gains: np.ndarray, behavior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute counterfactual values from the bottom up.

        Args:
            gains: float64[S] what each sequence earns by games that end with no further choice: A y, or the like.
            behavior: float64[S].

        Returns:
            float64[S] of each sequence, with the games that go on after it; float64[I] of each information state. The value of
            the empty sequence is that of the game.
        """
        values = np.array(gains)
        for level in reversed(self._levels):
            values[level.parents] += np.add.reduceat(values[level.here] * behavior[level.here], level.group_begins)
        return values, np.add.reduceat(values[1:] * behavior[1:], self._begins) if self.num_choices else np.zeros(0)

    def best(self, gains: np.ndarray) -> tuple[float, np.ndarray]:
        """Choose the best action at each information state, the first of several: the value and the behaviour, float64[S]."""
        values, best = np.array(gains), np.zeros(self.num_sequences)
        best[ROOT] = 1.0
        for level in reversed(self._levels):
            of_states = np.maximum.reduceat(values[level.here], level.begins)
            is_best = values[level.here] == np.repeat(of_states, self.num_actions[level.states])
            place = np.where(is_best, np.arange(len(is_best)), len(is_best))
            best[level.here.start + np.minimum.reduceat(place, level.begins)] = 1.0
            values[level.parents] += np.add.reduceat(of_states, level.groups)
        return float(values[ROOT]), best


@dataclass(frozen=True, eq=False)
class Tree:
    """A game in sequence form.

    Attributes:
        rules: of the game; `rules.max_steps` is where it is cut off, as a draw.
        merge_colors: whether one of the colours that the deck lacks stands for all of them.
        num_histories: nodes of the game's tree: chance, which deals a hand, the other one and the start card; decisions, forced
            ones too; chance again where cards are drawn, one node a draw; ends.
        num_infosets: information states of each player at which it acts, forced ones too.
        players: their information states with a choice.
        payoff: sparse float64[S0, S1], over the ends of the game: probability of chance times the return of player 0.
    """

    rules: Rules
    merge_colors: bool
    num_histories: int
    num_infosets: tuple[int, int]
    players: tuple[Treeplex, Treeplex]
    payoff: scipy.sparse.csr_array

    def __repr__(self) -> str:
        return (
            f"Tree({self.num_histories:,} histories, {sum(self.num_infosets):,} information states, "
            f"{sum(player.num_choices for player in self.players):,} with a choice, {self.payoff.nnz:,} payoffs)"
        )

    @cached_property
    def _transposed(self) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.payoff.T)

    @cached_property
    def sides(self) -> tuple[updates.Side, updates.Side]:
        """The tree as compiled iterations take it."""
        first, second = (
            updates.side_of(player.depths, player.first, player.num_actions, player.parent, payoff)
            for player, payoff in zip(self.players, (self.payoff, -self._transposed), strict=True)
        )
        return first, second

    def gains(self, player: int, plan: np.ndarray) -> np.ndarray:
        """Compute what each sequence of a player earns against a plan of the other player's: float64[S]."""
        return self.payoff @ plan if player == 0 else -(self._transposed @ plan)


def check_player(player: int) -> int:
    """Check a player's number.

    Raises:
        ValueError: it is neither 0 nor 1.
    """
    if player not in (0, 1):
        raise ValueError(f"player must be 0 or 1, got {player!r}")
    return player
