"""A comparable score of an agent: results against named opponents on a fixed set of duplicate deals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import jax
import numpy as np

from unojax.agents import Agent
from unojax.arena import lanes as device
from unojax.arena.match import play_match
from unojax.arena.pairs import Pairs
from unojax.arena.ratings import ELO_PER_NAT, Match, bradley_terry
from unojax.arena.standings import MatchRow, match_row
from unojax.device.shares import ALL, gather, this_share
from unojax.game import Packed, State
from unojax.rules import RULES_VERSION, Rules
from unojax.specs import as_agent

OPPONENTS: Final = ("uniform", "scarcest-color", "linear", "value")
"""Default opponents."""
GAMES: Final = 2000
"""Games against each opponent: two with every deal."""
SEED: Final = 1971
"""Seed of the deals: pair i of every evaluation is the same deal. UNO is from 1971."""
ANCHORS: Final = {"uniform": 0.0, "scarcest-color": 123.5, "linear": 199.4, "value": 232.3}
"""Elo points of the opponents under the default rules, version 1, with `uniform` at 0. A Bradley-Terry fit to 20,000 games
per match (`benchmarks/results/value_arena_cpu.json`), accurate to about 3 points.
"""
_ANCHORED_VERSION: Final = 1
_CHUNK: Final = 1024


@dataclass(frozen=True)
class Evaluation:
    """An agent's scores.

    Attributes:
        agent: Name of the agent.
        rows: Results against each opponent.
        rating: Rating, Elo points on the scale of `unojax.arena.evaluation.ANCHORS`, with `uniform` at 0; None under other rules
            or against other opponents.
        rating_margin: Half the width of the rating's interval, Elo points, with the anchors as exact.
        decisions_per_second: Decisions of the agent per second, for many parallel games; None without decisions.
        seed: Random seed of the deals, the same in every evaluation.
        digest: Digest of the deals: equal digests mean equal deals.
        rules_version: Version of the engine's rules, `unojax.rules.RULES_VERSION`.
    """

    agent: str
    rows: tuple[MatchRow, ...]
    rating: float | None
    rating_margin: float | None
    decisions_per_second: float | None
    seed: int
    digest: str
    rules_version: int


@dataclass(frozen=True)
class EvaluationReport:
    """Results of `unojax evaluate`.

    Attributes:
        games_asked: Number of games against each opponent.
        seconds: Total time, s, including compilation.
        faults: Faults of the agent and of its opponents, as in `unojax arena`.
        results: Scores of the agent.
    """

    games_asked: int
    seconds: float
    faults: dict[str, list[str]]
    results: Evaluation


def evaluate(
    agent: str | Agent,
    opponents: Sequence[str] = OPPONENTS,
    *,
    games: int = GAMES,
    rules: Rules = Rules(),
    on_match: Callable[[str], None] = lambda opponent: None,
    joined: bool = False,
) -> Evaluation:
    """Play an agent against each opponent, on the same deals in every evaluation.

    Args:
        agent: A spec, or an agent.
        opponents: Specs. The agent itself is skipped.
        games: Games per opponent, an even number.
        rules: Rules of the games.
        on_match: Called with the opponent's name before each match.
        joined: Whether all processes of `jax.distributed` call this function: each plays a share of the games.

    Raises:
        ValueError: If an argument is invalid.
        unojax.arena.AgentError: If an agent raises, or chooses an illegal action.
        LostProcessError: If another process ended.
    """
    if games < 2 or games % 2:
        raise ValueError(f"games must be a positive even number, since every deal is played twice, got {games!r}")
    one = as_agent(agent, rules=rules)
    others = [other for other in (as_agent(spec, rules=rules) for spec in dict.fromkeys(opponents)) if other.name != one.name]
    if not others:
        raise ValueError(f"opponents must be one or more other agents than {one.name}, got {', '.join(opponents) or 'none'}")
    key, matches = jax.random.key(SEED, impl="threefry2x32"), {}
    for other in others:
        on_match(other.name)
        mine = play_match(key, (one, other), games // 2, rules=rules, share=this_share() if joined else ALL)
        matches[other.name] = Pairs.join(gather(mine) if joined else [mine])
    rating, margin = _rate(matches) if _is_anchored(rules, matches) else (None, None)
    decisions = sum(int(pairs.num_choices[..., 0].sum(dtype=np.int64)) for pairs in matches.values())
    seconds = sum(float(pairs.seconds[0]) for pairs in matches.values())
    return Evaluation(
        agent=one.name,
        rows=tuple(match_row(one.name, name, pairs) for name, pairs in matches.items()),
        rating=rating,
        rating_margin=margin,
        decisions_per_second=decisions / seconds if seconds else None,
        seed=SEED,
        digest=digest_deals(key, games // 2, rules=rules),
        rules_version=RULES_VERSION,
    )


def digest_deals(key: jax.Array, num_pairs: int, *, rules: Rules = Rules()) -> str:
    """Return a fingerprint of a match's deals, 16 hexadecimal digits.

    It covers both hands, the start card, its colour and the starting player.
    """
    digest = hashlib.sha256()
    for start in range(0, num_pairs, _CHUNK):
        pair = np.arange(start, start + _CHUNK, dtype=np.uint32)
        _, dealt = device.deal(key, pair, np.zeros(_CHUNK, np.int32), np.ones(_CHUNK, bool), rules=rules)
        state = jax.device_get(_unpack(dealt.state))
        number = min(_CHUNK, num_pairs - start)
        for field in (state.hands, state.pile, state.color, state.current_player):
            digest.update(np.ascontiguousarray(field[:number]).tobytes())
    return digest.hexdigest()[:16]


@jax.jit
def _unpack(states: Packed) -> State:
    return states.unpack()


def _is_anchored(rules: Rules, matches: dict[str, Pairs]) -> bool:
    return rules == Rules() and RULES_VERSION == _ANCHORED_VERSION and all(name in ANCHORS for name in matches)


def _rate(matches: dict[str, Pairs]) -> tuple[float, float]:
    """Estimate a rating from matches against rated opponents, and half its 95% interval, in Elo points."""
    known = {number: ANCHORS[name] / ELO_PER_NAT for number, name in enumerate(matches, 1)}
    played = [Match(0, number, pairs.index, pairs.points) for number, pairs in enumerate(matches.values(), 1)]
    ratings = bradley_terry(1 + len(known), played, known=known)
    return float(ratings.elo[0]), float(ratings.elo_margin[0])
