"""What `unojax advise` finds out: the belief from the game so far, and what each play is worth."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax.agents import Memory, parse_agent
from unojax.belief import Info, belief_init, belief_update, resample, summary
from unojax.belief.history import Prior
from unojax.belief.opponents import parse_opponent
from unojax.cli.advise.command import MIN_ROUNDS
from unojax.cli.advise.history import ImpossibleActionError, Path, imagine, some_cards, unseen_counts
from unojax.cli.belief.turns import is_deal
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search.agents import Hands, SearchAgent
from unojax.search.monte_carlo import Estimate, choose


class Belief(NamedTuple):
    """What is shown of a belief; see the functions of `unojax.belief.summary` of the same names. NumPy.

    Attributes:
        prob_holds, prob_color, num_distinct: see there.
        ess: effective sample size.
        num_hands: N.
    """

    prob_holds: np.ndarray
    prob_color: np.ndarray
    num_distinct: int
    ess: float
    num_hands: int


class Play(NamedTuple):
    """What is known of one legal play. All but the last two are probabilities, a drawn game counting half.

    Attributes:
        action: 0..60.
        win, win_error: the win probability and its standard error.
        behind, behind_error: the highest win probability less this one, and the standard error of the difference.
        gain, gain_error: this win probability less that of the rollout policy's own play, and its standard error.
        rollouts: games that it was tried in.
    """

    action: int
    win: float
    win_error: float
    behind: float
    behind_error: float
    gain: float
    gain_error: float
    rollouts: int


class Advice(NamedTuple):
    """What a search says.

    Attributes:
        plays: the best first.
        recommended: the action to play.
        own: what the rollout policy plays by itself.
        rounds, seconds: of the search, without compiling.
    """

    plays: tuple[Play, ...]
    recommended: int
    own: int
    rounds: int
    seconds: float


def read_agent(spec: str, rules: Rules) -> SearchAgent:
    """The search that a spec describes.

    Raises:
        ValueError: there is no such agent, or it does not say how likely a play is to win from what a player sees.
    """
    agent = parse_agent(spec, rules=rules)
    if not isinstance(agent, SearchAgent):
        raise ValueError(f"agent {spec!r} has no estimates; choose a search, mc or tree")
    if agent.belief == "truth":
        raise ValueError(f"agent {spec!r}: belief=truth needs the hidden hand; choose belief=particles or belief=unseen")
    if agent.discount != 1.0:
        raise ValueError(f"agent {spec!r}: discounted returns are no win probabilities; leave discount out")
    return agent


def believe(path: Path, agent: SearchAgent, key: Array, on_step: Callable[[int], None]) -> Memory:
    """What the agent remembers at the end of a path.

    Args:
        path: the game.
        agent: whose belief it is.
        key: consumed.
        on_step: called with the number of each action before it is taken in.

    Raises:
        ImpossibleActionError: no hand explains what was seen.
    """
    start = path.observations[0]
    if agent.belief != "particles":
        return agent.init(key, start)
    state = imagine(start, some_cards(unseen_counts(start), int(start.opponent_count)), agent.rules)
    prior: Prior = "deal" if is_deal(state, agent.rules) else "uniform"
    memory = _init(jax.random.fold_in(key, 0), start, agent=agent, prior=prior)
    for number, (action, (before, after)) in enumerate(zip(path.actions, pairwise(path.observations), strict=True), 1):
        on_step(number)
        memory, info = _update(jax.random.fold_in(key, number), memory, before, np.int32(action), after, agent=agent)
        if info.depleted:
            other = 1 - int(start.player)
            raise ImpossibleActionError(
                number,
                f"no hand of player {other} explains this after what came before; check the history, or take more particles "
                f"than {agent.particles}",
            )
    return memory


def look(memory: Memory, seen: Observation, agent: SearchAgent, key: Array) -> Belief:
    """What is to be shown of a memory; `key` is consumed."""
    holds, color, distinct, ess, num_hands = jax.device_get(_look(key, memory, seen, agent=agent))
    return Belief(holds, color, int(distinct), float(ess), int(num_hands))


def search(
    memory: Memory,
    seen: Observation,
    legal: np.ndarray,
    agent: SearchAgent,
    key: Array,
    *,
    num_rounds: int | None,
    seconds: float,
    on_round: Callable[[int], None],
) -> Advice:
    """Try all legal plays in rounds with fresh samples, and pool them.

    Args:
        memory: the agent's.
        seen: the position, of the player to move.
        legal: bool[60], one or more plays.
        agent: the search.
        key: round i uses `fold_in(key, i)`.
        num_rounds: at least MIN_ROUNDS; None: as many as `seconds` allow, but no fewer than that.
        seconds: of the search, after compiling.
        on_round: called with the number of rounds done.
    """
    first = jax.random.fold_in(key, 0)
    program = _round.lower(first, memory, seen, legal, agent=agent).compile()
    rounds: list[Estimate] = []
    began = time.perf_counter()
    for number in count() if num_rounds is None else range(num_rounds):
        on_round(number)
        rounds.append(jax.device_get(program(jax.random.fold_in(key, number), memory, seen, legal)))
        spent = time.perf_counter() - began
        if num_rounds is None and len(rounds) >= MIN_ROUNDS and spent * (1 + 1 / len(rounds)) > seconds:
            break
    return pool(rounds, legal, agent.keep, time.perf_counter() - began)


def pool(rounds: Sequence[Estimate], legal: np.ndarray, keep: float, seconds: float) -> Advice:
    """The mean of independent estimates of one decision over all their samples.

    A search that gives plays up does so where they look bad, so that a mean of the rounds' means would be too low for them; the
    ratio of sums over rounds is not, but for a bias of order 1 / rounds (Wald's identity). Standard errors are those of a ratio,
    from the differences between the rounds, in which all plays share samples.

    Args:
        rounds: two or more, as NumPy.
        legal: bool[60].
        keep: see `choose`.
        seconds: that the search took.
    """
    # Returns are in [-1, 1].
    wins = np.stack([(1 + one.value) / 2 for one in rounds], dtype=np.float64)
    samples = np.stack([one.num_samples for one in rounds])
    weights = samples / np.maximum(samples.mean(0), 1)
    win = (weights * wins).mean(0)
    residuals = weights * (wins - win)

    def error(residuals: np.ndarray) -> np.ndarray:
        return np.sqrt((residuals**2).sum(0) / (len(rounds) * (len(rounds) - 1)))

    # A policy that is indifferent between plays may pick another one in each round.
    own = Counter(int(one.base) for one in rounds).most_common(1)[0][0]
    best = int(np.argmax(np.where(legal, win, -np.inf)))
    win_error = error(residuals)
    gain, gain_error = win - win[own], error(residuals - residuals[:, [own]])
    behind, behind_error = win[best] - win, error(residuals - residuals[:, [best]])
    columns = (win, win_error, behind, behind_error, gain, gain_error, samples.sum(0))
    plays = [Play(a, *(column[a].item() for column in columns)) for a in np.flatnonzero(legal).tolist()]
    plays.sort(key=lambda play: play.behind)
    pooled = Estimate(*map(jnp.asarray, (win, gain, win_error, gain_error, samples.sum(0), np.int32(own))))
    recommended = int(choose(pooled, jnp.asarray(legal), keep))
    return Advice(tuple(plays), recommended, own, len(rounds), seconds)


@partial(jax.jit, static_argnames=("agent", "prior"))
def _init(key: Array, seen: Observation, *, agent: SearchAgent, prior: Prior) -> Memory:
    return belief_init(seen, key, num_particles=agent.particles, rules=agent.rules, prior=prior)


@partial(jax.jit, static_argnames="agent")
def _update(
    key: Array, memory: Memory, before: Observation, action: Array, after: Observation, *, agent: SearchAgent
) -> tuple[Memory, Info]:
    return belief_update(memory, before, action, after, key, opponent=parse_opponent(agent.model), rules=agent.rules)


@partial(jax.jit, static_argnames="agent")
def _look(key: Array, memory: Memory, seen: Observation, *, agent: SearchAgent) -> tuple[Array, ...]:
    hands = agent.hands(key, memory, seen)
    return (
        summary.prob_holds(hands),
        summary.prob_color(hands),
        summary.num_distinct(hands),
        resample.effective_sample_size(hands.log_weights),
        jnp.int32(len(hands.log_weights)),
    )


@partial(jax.jit, static_argnames="agent")
def _round(key: Array, memory: Memory, seen: Observation, legal: Array, *, agent: SearchAgent) -> Estimate:
    # Not `agent.think`, which leaves a single legal play out.
    key_hands, key_search = jax.random.split(key)
    hands: Hands = agent.hands(key_hands, memory, seen)
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], (key_search, seen, hands, legal))
    return jax.tree.map(lambda x: x[0], agent.estimate(*one))
