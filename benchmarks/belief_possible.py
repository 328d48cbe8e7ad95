"""Does the particle filter ever hold a hand that the history rules out? Checked over games of the full deck.

    python -m benchmarks.belief_possible --games 300 --json possible.json

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

import argparse
import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks import belief_methods, timing
from unojax import cards
from unojax.belief import belief_init, belief_update, infer_action
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import uniform
from unojax.rules import Rules

_SEAT = 0


class History(NamedTuple):
    """What follows from all that an observer saw of the opponent's cards up to view T.

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
    """The history from views 0..T of one player, NumPy arrays with a leading axis T + 1, of a game without a break."""
    # One-hot slots to counts of types.
    types = np.eye(cards.NUM_TYPES, dtype=int)[cards.TYPE_OF_SLOT]
    unseen = np.array(views.rules.deck) - views.hand @ types - views.pile @ types
    num_views = len(unseen)
    held, mine = views.opponent_count.astype(int), views.current_player == views.player
    # Types that it could have played at a view and did not hold.
    stuck = np.zeros((num_views, cards.NUM_TYPES), bool)
    arrivals, plays = [0] * held[0], []
    for t in range(num_views - 1):
        if not mine[t] and held[t + 1] < held[t]:
            plays.append((_type_of(int(views.color[t + 1]), int(views.top_rank[t + 1])), t + 1))
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


def _type_of(color: int, rank: int) -> int:
    return rank + 39 if rank >= cards.WILD else color * 13 + rank


def _is_playable(z: int, color: int, rank: int) -> bool:
    return z >= 52 or z // 13 == color or (rank < cards.WILD and z % 13 == rank)


def _first_free(blocked: np.ndarray) -> int:
    """The view after the last blocked one."""
    return int(np.flatnonzero(blocked)[-1]) + 1 if blocked.any() else 0


def is_possible(hand: Iterable[int], history: History) -> bool:
    """Whether the opponent may hold these cards (types, each as often as it is held) at the last view."""
    number: Counter[int] = Counter()
    intervals = list(history.played)
    for z in hand:
        intervals.append((int(history.earliest[z, number[z]]), history.last))
        number[z] += 1
    return len(intervals) == len(history.arrivals) and _can_be_served(history.arrivals, intervals)


def _can_be_served(points: list[int], intervals: list[tuple[int, int]]) -> bool:
    """Whether each interval can be given a point of its own that lies in it; as many of both, points increasing."""
    waiting, ends = sorted(intervals, reverse=True), []
    for point in points:
        while waiting and waiting[-1][0] <= point:
            heapq.heappush(ends, waiting.pop()[1])
        if not ends or heapq.heappop(ends) < point:
            return False
    return True


@partial(jax.jit, static_argnames=("num_particles", "rules"))
def follow(states: State, num_updates: Array, keys: Array, *, num_particles: int, rules: Rules) -> tuple[Array, Array]:
    """Games followed by the filter: bool[G, T, N, 108] hands after each update, bool[G, T] whether it had begun anew by then."""

    def one_game(game: tuple[State, Array, Array]) -> tuple[Array, Array]:
        states, num_updates, key = game
        num_steps = states.terminated.shape[0] - 1

        def view(t: Array) -> Observation:
            return observe(jax.tree.map(lambda x: x[t], states), _SEAT, rules=rules)

        def one_update(t: Array, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
            belief, hands, anew = carry
            before, after = view(t), view(t + 1)
            belief, info = belief_update(
                belief, before, infer_action(before, after), after, jax.random.fold_in(key, t), rules=rules
            )
            return belief, hands.at[t].set(belief.particles), anew.at[t].set(info.restarted | anew[t - 1])

        key, key_init = jax.random.split(key)
        start = belief_init(view(jnp.int32(0)), key_init, num_particles=num_particles, rules=rules)
        hands = jnp.zeros((num_steps, num_particles, cards.NUM_CARDS), bool)
        return lax.fori_loop(0, num_updates, one_update, (start, hands, jnp.zeros(num_steps, bool)))[1:]

    return lax.map(one_game, (states, num_updates, keys))


def check(*, num_games: int, num_particles: int, max_steps: int, seed: int, rules: Rules = Rules()) -> dict[str, int]:
    """Check every particle after every update, until a belief has begun anew (it then knows less than the history)."""
    games = belief_methods.record_games(seed, (uniform, uniform), num_games=num_games, max_steps=max_steps, rules=rules)
    keys = jax.random.split(jax.random.key(seed + 1), num_games)
    chunk = min(16, num_games)
    counts = dict.fromkeys(("games", "updates", "particles", "distinct", "impossible"), 0)
    see = jax.jit(jax.vmap(jax.vmap(partial(observe, rules=rules), (0, None)), (0, None)))
    for first in range(0, num_games, chunk):
        part = np.minimum(np.arange(first, first + chunk), num_games - 1)
        states = jax.tree.map(lambda x, part=part: x[part], games.states)
        hands, anew = jax.device_get(
            follow(states, games.num_updates[part], keys[part], num_particles=num_particles, rules=rules)
        )
        views = jax.device_get(see(states, jnp.int8(_SEAT)))
        for i in range(min(chunk, num_games - first)):
            counts["games"] += 1
            for t in range(games.num_updates[first + i]):
                if anew[i, t]:
                    break
                history = read_history(jax.tree.map(lambda x, i=i, t=t: x[i, : t + 2], views))
                distinct, number = np.unique(np.packbits(hands[i, t], axis=-1), axis=0, return_counts=True)
                onehots = np.unpackbits(distinct, axis=-1, count=cards.NUM_CARDS).astype(bool)
                bad = [not is_possible(cards.TYPE_OF_SLOT[onehot].tolist(), history) for onehot in onehots]
                counts["updates"] += 1
                counts["particles"] += int(number.sum())
                counts["distinct"] += len(number)
                counts["impossible"] += int(number[np.array(bad)].sum())
    return counts


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the check, print it, and return it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.belief_possible", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--max-steps", type=int, default=400, help="longer games are cut off there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if min(arguments.games, arguments.particles, arguments.max_steps) < 1:
        parser.error("--games, --particles and --max-steps must be at least 1")
    counts = check(
        num_games=arguments.games, num_particles=arguments.particles, max_steps=arguments.max_steps, seed=arguments.seed
    )
    timing.console().print(
        f"{counts['particles']:,} particles ({counts['distinct']:,} distinct) after {counts['updates']:,} updates of "
        f"{counts['games']:,} games: {counts['impossible']:,} hold a hand that the history rules out"
    )
    results = {"benchmark": "belief_possible", "environment": timing.environment(), "seed": arguments.seed, **counts}
    if arguments.json is not None:
        timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()
