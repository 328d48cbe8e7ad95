"""Matches of several rounds: the first to reach the target points (`Rules.points`) wins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

import jax
import numpy as np
from jax import Array

from unojax.arena.match import Players, checked_workers, compile_match, default_batch_size, play_pairs, seated
from unojax.arena.pairs import Pairs
from unojax.decks import is_int
from unojax.device.random_bits import check_key
from unojax.rules import MATCH_POINTS, Rules, as_rules

MAX_ROUNDS: Final = 2**12
"""Maximum number of rounds; an undecided match is then drawn."""
MAX_MATCHES: Final = 2**18
"""Number of pairs of matches that one key can number."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Matches(Pairs):
    """Results of P pairs of matches of agents A and B, with the fields of `Pairs` for matches instead of games.

    Attributes:
        num_rounds: int32[P, 2]. Rounds of each match.
        scores: int32[P, 2, 2]. Final points, by match and agent.
    """

    num_rounds: np.ndarray
    scores: np.ndarray

    def swapped(self) -> Self:
        return replace(super().swapped(), num_rounds=self.num_rounds[:, ::-1], scores=self.scores[:, ::-1, ::-1])

    @classmethod
    def none(cls) -> Self:
        return cls(**vars(Pairs.none()), num_rounds=np.zeros((0, 2), np.int32), scores=np.zeros((0, 2, 2), np.int32))


def play_rounds(
    key: Array,
    agents: Players,
    num_pairs: int,
    *,
    rules: Rules | str | None = None,
    target: int = MATCH_POINTS,
    batch_size: int | None = None,
    workers: int | None = None,
) -> Matches:
    """Play pairs 0 .. num_pairs - 1 of matches to `target` points.

    The winner of a round gets the points of the cards in the loser's hand. Round r has the same deal in both matches of a
    pair, with the seats swapped, and the seats alternate between rounds. Agents do not know the score.

    Args:
        key, agents, batch_size, workers: As in `play_match`; a round is a game.
        num_pairs: 1 .. 2^18.
        rules: Rules with `points`, or the name of such a preset. None: `Rules.official()`.
        target: Points that win, at least 1.

    Raises:
        ValueError: If an argument is out of range, an agent is invalid, or the rules have no points.
        AgentError: If an agent raises, or chooses an illegal action.
    """
    check_key(key, "play_rounds")
    rules = Rules.official() if rules is None else as_rules(rules)
    if not rules.points:
        raise ValueError("rounds have no points under these rules: choose rules='official', or points=True")
    if not (is_int(num_pairs) and 1 <= num_pairs <= MAX_MATCHES):
        raise ValueError(f"num_pairs must be an integer in [1, {MAX_MATCHES}], got {num_pairs!r}")
    if not (is_int(target) and target >= 1):
        raise ValueError(f"target must be a number of points, at least 1, got {target!r}")
    both, workers = seated(agents, rules), checked_workers(workers)
    batch_size = default_batch_size(2 * num_pairs, workers) if batch_size is None else batch_size
    compile_match(both, rules=rules, batch_size=batch_size)

    # Matches by their pair and their number in it, 0 or 1: A is player 0 in the even rounds of the first.
    scores, num_rounds = np.zeros((num_pairs, 2, 2), np.int32), np.zeros((num_pairs, 2), np.int32)
    num_steps, num_choices = np.zeros((num_pairs, 2), np.int32), np.zeros((num_pairs, 2, 2), np.int32)
    seconds = np.zeros(2)
    for number in range(MAX_ROUNDS):
        undecided = scores.max(-1) < target
        at = np.flatnonzero(undecided.any(1))
        if not at.size:
            break
        played = play_pairs(key, both, at * MAX_ROUNDS + number, rules=rules, batch_size=batch_size, workers=workers)
        seconds += played.seconds
        for which in (0, 1):
            goes_on, game = undecided[at, which], (number + which) % 2
            here = at[goes_on]
            winner, won = played.winner[goes_on, game], played.card_points[goes_on, game]
            scores[here, which, np.maximum(winner, 0)] += np.where(winner >= 0, won, 0)
            num_rounds[here, which] += 1
            num_steps[here, which] += played.num_steps[goes_on, game]
            num_choices[here, which] += played.num_choices[goes_on, game]
    ahead = np.where(scores[..., 0] >= target, 0, np.where(scores[..., 1] >= target, 1, -1)).astype(np.int8)
    return Matches(np.arange(num_pairs), ahead, num_steps, num_choices, seconds, num_rounds=num_rounds, scores=scores)
