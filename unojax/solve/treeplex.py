"""The sequence form of a game: each player's information states as a treeplex, and the payoff as one sparse matrix.

With perfect recall, one sequence of own actions leads to each information state. A strategy can therefore be written as a
**realisation plan** x, the product of its probabilities along each sequence. Its only constraint is x(parent of I) = sum_a
x(I, a), and the expected return is the bilinear form x^T A y (Koller, Megiddo and von Stengel 1996; von Stengel 1996).

Information states with a single action are no choice: they keep the sequence that leads there, and no array holds them.
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
        here: Range of the sequences of these states.
        before: Sequence before each of these sequences.
        begins: Start of each state's sequences among these.
        groups, group_begins: Starts of new parents, among the states and among the sequences.
        parents: These parents.
    """

    here: slice
    before: np.ndarray
    begins: np.ndarray
    groups: np.ndarray
    group_begins: np.ndarray
    parents: np.ndarray


@dataclass(frozen=True, eq=False)
class Treeplex:
    """One player's I information states with a choice, and S sequences.

    The order is by depth, the number of earlier own choices, and then by parent. The sequences of an information state are
    contiguous, and sequence 0 is the empty one. *Behaviour*, float64[S], is the probability of the last action of each sequence,
    and a *plan*, float64[S], its product along the sequence. Both are 1 at the empty sequence.

    Attributes:
        parent: Sequence that leads to each information state, int32[I].
        first: Its first sequence, int32[I].
        actions: Last action of each sequence, 0..59, int8[S]; -1 for the empty one.
        depths: Start of each depth's information states, and their total number, int64[D + 1].
        rows: One of the indistinguishable packed tables of each information state, uint32[I, 9].
        last_action: Last public action before it, int8[I], -1 at the start.
        steps: Number of steps before it, int32[I].
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
        """I."""
        return len(self.parent)

    @property
    def num_sequences(self) -> int:
        """S."""
        return len(self.actions)

    @cached_property
    def num_actions(self) -> np.ndarray:
        """Number of actions at each information state, int32[I]."""
        return np.diff(self.first, append=self.num_sequences).astype(np.int32)

    @cached_property
    def infoset_of(self) -> np.ndarray:
        """Information state of each sequence except the empty one, int32[S - 1]."""
        return np.repeat(np.arange(self.num_choices, dtype=np.int32), self.num_actions)

    @cached_property
    def parent_of(self) -> np.ndarray:
        """Sequence before each one except the empty one, int32[S - 1]."""
        return self.parent[self.infoset_of]

    @cached_property
    def _begins(self) -> np.ndarray:
        """Start of each state's sequences, not counting the empty one, int64[I]."""
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
            levels.append(_Level(here, before, begins, groups, begins[groups], parents[groups]))
        return levels

    def check(self, array: np.ndarray, what: str) -> np.ndarray:
        """Return an array as float64[S]. Raises ValueError if it has another shape."""
        array = np.asarray(array, float)
        if array.shape != (self.num_sequences,):
            raise ValueError(f"{what} must be a number for each of {self.num_sequences} sequences, got shape {array.shape}")
        return array

    def check_strategy(self, behavior: np.ndarray, what: str) -> np.ndarray:
        """Return behaviour as float64[S]. Raises ValueError if probabilities do not sum to 1."""
        behavior = self.check(behavior, what)
        sums = np.add.reduceat(behavior[ROOT + 1 :], self._begins) if self.num_choices else np.ones(0)
        if not (np.all(behavior[ROOT + 1 :] >= 0) and np.allclose(sums, 1.0, atol=1e-6)):
            raise ValueError(f"{what} must be probabilities, at each information state with sum 1")
        return behavior

    def plan(self, behavior: np.ndarray) -> np.ndarray:
        """Return the plan of a behaviour."""
        plan = np.array(behavior)
        plan[ROOT] = 1.0
        for level in self._levels:
            plan[level.here] *= plan[level.before]
        return plan

    def behavior(self, plan: np.ndarray) -> np.ndarray:
        """Return the behaviour of a plan, uniform at information states that it does not reach."""
        before = plan[self.parent_of]
        behavior = self._uniform.copy()
        np.divide(plan[1:], before, out=behavior[1:], where=before > 0)
        return behavior

    def normalize(self, weights: np.ndarray) -> np.ndarray:
        """Return behaviour in proportion to weights, float64[S]; uniform if all are zero."""
        behavior = self._uniform.copy()
        if self.num_choices:
            total = np.add.reduceat(weights[1:], self._begins)[self.infoset_of]
            np.divide(weights[1:], total, out=behavior[1:], where=total > 0)
        return behavior

    @cached_property
    def _uniform(self) -> np.ndarray:
        return np.append(1.0, 1.0 / self.num_actions[self.infoset_of])

    def uniform(self) -> np.ndarray:
        """Return uniform behaviour."""
        return self._uniform.copy()

    def values(self, gains: np.ndarray, behavior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return counterfactual values of sequences, float64[S], and states, float64[I].

        The value of the empty sequence is that of the game.

        Args:
            gains: Payoff of each sequence in games that end without a further choice, float64[S]: A y, or similar.
            behavior: The player's behaviour.
        """
        values = np.array(gains)
        for level in reversed(self._levels):
            values[level.parents] += np.add.reduceat(values[level.here] * behavior[level.here], level.group_begins)
        return values, np.add.reduceat(values[1:] * behavior[1:], self._begins) if self.num_choices else np.zeros(0)

    def best(self, gains: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the behaviour of the best actions, the first of equal ones."""
        values = np.array(gains)
        for level in reversed(self._levels):
            of_states = np.maximum.reduceat(values[level.here], level.begins)
            values[level.parents] += np.add.reduceat(of_states, level.groups)
        return float(values[ROOT]), self.greedy(values)

    def greedy(self, values: np.ndarray) -> np.ndarray:
        """Return the behaviour of the actions with the highest values, float64[S], the first of equal ones."""
        best = np.zeros(self.num_sequences)
        best[ROOT] = 1.0
        if self.num_choices:
            of_states = np.maximum.reduceat(values[1:], self._begins)
            is_best = values[1:] == of_states[self.infoset_of]
            place = np.where(is_best, np.arange(1, self.num_sequences), self.num_sequences)
            best[np.minimum.reduceat(place, self._begins)] = 1.0
        return best


@dataclass(frozen=True, eq=False)
class Tree:
    """A game in sequence form.

    Attributes:
        rules: Rules of the game, truncated as a draw at `rules.max_steps`.
        merge_colors: As in `enumerate_game`.
        num_histories: Nodes of the game tree: chance nodes for each hand and the start card; decisions, including forced ones;
            one chance node per draw; ends.
        num_infosets: Number of each player's information states, including forced actions.
        players: Their information states with a choice.
        payoff: Sparse float64[S0, S1], summed over the ends of the game: chance probability times the return of player 0.
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
        """The tree in the form of compiled iterations."""
        first, second = (
            updates.side_of(player.depths, player.first, player.num_actions, player.parent, payoff)
            for player, payoff in zip(self.players, (self.payoff, -self._transposed), strict=True)
        )
        return first, second

    def plan(self, player: int, strategy: np.ndarray) -> np.ndarray:
        """Return the plan of a player's strategy.

        Raises:
            ValueError: If there is no such player, or the strategy does not fit this tree.
        """
        treeplex = self.players[check_player(player)]
        return treeplex.plan(treeplex.check_strategy(strategy, f"strategy of player {player}"))

    def gains(self, player: int, plan: np.ndarray) -> np.ndarray:
        """Return the payoff of a player's sequences against the other's plan, float64[S]."""
        return self.payoff @ plan if player == 0 else -(self._transposed @ plan)


def check_player(player: int) -> int:
    """Return a player's number. Raises ValueError if it is neither 0 nor 1."""
    if player not in (0, 1):
        raise ValueError(f"player must be 0 or 1, got {player!r}")
    return player
