"""Variance-reduced match scores (AIVAT-style, with rollouts as the value function).

Let V be agent A's expected points if both players followed *baseline* policies from here on. V changes from the deal to the
end, when it equals the result. The changes by drawn cards, and by decisions that the baseline makes, are zero on average.
The remainder

    V(deal) + sum of Q(s, a) - V(s) over the decisions of agents other than their baseline,

with Q(s, a) the V after action a at s, has the mean of the result for any players, and less variance: it excludes the
direct effect of draws. This is the performance difference lemma (Kakade and Langford 2002, lemma 6.1) game by game, or an
advantage sum (Zinkevich, Bowling, Bard, Kan and Billings 2006). It is also AIVAT (Burch, Schmid, Moravčík, Morrill and
Bowling 2018) with rollouts as value function. Rollouts see all cards, so Q and V are unbiased, and noise that is
independent of the game cannot bias the sum. The rollouts from a and from s share their random words. If a is the baseline's
only choice, no rollouts are needed.

A packed policy is its own baseline, and its decisions change nothing on average. The baseline of any other agent is
`linear`. Between two agents with the same baseline, V(deal) cancels in a pair and is not computed. The variance grows with
the distance between an agent and its baseline; for a random agent it exceeds the variance of the results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, table
from unojax.agents import RESIGN, Agent, PolicyAgent
from unojax.arena.lanes import JUDGE, BatchStep, MatchLanes, Seats, chunk_of, fold, mover_of
from unojax.device import struct
from unojax.device.batching import for_chosen
from unojax.device.mesh import program_of_batch
from unojax.device.random_bits import key_words
from unojax.device.static import Argument
from unojax.policies import PackedPolicy, get_policy, narrow
from unojax.rules import Rules
from unojax.search.rollouts import FREE, Arms, Rollouts, Starts, play_out
from unojax.table import Table
from unojax.view import view_at_node

STAND_IN: Final = "linear"
"""Baseline of agents that are not packed policies."""
_ITS_OWN: Final = FREE.view(np.int32)
"""Marks that the policy chooses the first action."""


@struct.dataclass
class Judge:
    """Estimates the effect of the agents' actions.

    Attributes:
        policies: Baselines of A and of B, or one that both share.
        differs: Whether A, and whether B, differs from its baseline.
        num_rollouts: Rollouts per estimate.
    """

    policies: tuple[PackedPolicy, ...]
    differs: tuple[bool, bool] = struct.field(pytree_node=False)
    num_rollouts: int = struct.field(pytree_node=False)

    def deals(self, seats: Seats, lanes: MatchLanes) -> Array:
        """Estimate A's points in new games: float32[G]; 1/2 if the estimate would cancel in a pair."""
        if len(self.policies) == 1:
            return jnp.full(len(lanes.forced), 0.5, jnp.float32)
        return _value_deals(Argument(self), seats, lanes)

    def decisions(self, step: BatchStep) -> Array | float:
        """Estimate the change of A's points by the agents' legal actions: float32[G], 0 without a decision."""
        return _value_decisions(Argument(self), step.seats, step.before, step.actions) if any(self.differs) else 0.0

    def points(
        self,
        rules: Rules,
        is_real: Array,
        tables: Table,
        first: Array,
        players: Array,
        steps: Array,
        seeds: tuple[Array, Array],
    ) -> Array:
        """Estimate A's points after each of some first actions: float32[C, K] for int32[C, K].

        `_ITS_OWN`: the policy chooses the action. Padding of a chunk is not computed.
        """
        number, each = first.shape
        position = jnp.repeat(jnp.arange(number, dtype=jnp.int32), each)
        arms = Arms(position, first.reshape(-1), each * is_real.sum(dtype=jnp.int32))
        # Games won and lost, under any scoring rules.
        counted = replace(rules, points=False, step_penalty=0.0)
        how = Rollouts(self.policies, counted, self.num_rollouts)
        samples = jax.tree.map(lambda word: jnp.repeat(word, self.num_rollouts), tables)
        returns, _ = play_out(Starts(samples, seeds, players=players, num_steps=steps), arms, how)
        return (1 + returns.mean(-1).reshape(number, each)) / 2


def judge_of(agents: tuple[Agent, Agent], num_rollouts: int) -> Judge:
    """Create the judge of a match."""
    # The choices of a subclass are unknown.
    own = [agent.policy if type(agent) is PolicyAgent else None for agent in agents]
    first, second = (policy if isinstance(policy, PackedPolicy) else None for policy in own)
    stand_in = get_policy(STAND_IN)
    policies = first or stand_in, second or stand_in
    policies = policies[:1] if policies[0] is policies[1] else policies
    return Judge(policies, (first is None, second is None), num_rollouts)


@program_of_batch(1)
def _value_deals(argument: Argument, seats: Seats, lanes: MatchLanes) -> Array:
    judge: Judge = argument.value
    chosen = ~lanes.state.is_over
    first = jnp.full((len(chosen), 1), _ITS_OWN)

    def work(is_real: Array, *games: Any) -> Array:
        return judge.points(lanes.state.rules, is_real, *games)[:, 0]

    args = (lanes.state.table, first, *_told(seats, lanes))
    return for_chosen(chosen, chunk_of(len(chosen)), work, args, jnp.full(len(chosen), 0.5, jnp.float32))


@program_of_batch(1)
def _value_decisions(argument: Argument, seats: Seats, lanes: MatchLanes, actions: list[Array]) -> Array:
    judge: Judge = argument.value
    rules, tables = lanes.state.rules, lanes.state.table
    is_a = mover_of(seats, lanes.state) == 0
    action = jnp.where(is_a, actions[0], actions[1])
    node = table.find_node(tables, rules)
    view = view_at_node(tables, node, rules)
    favoured = [narrow(policy, view, node.legal) for policy in judge.policies]
    favoured = bits.where(is_a, favoured[0], favoured[-1])
    gives_up = action == RESIGN
    played = table.pick_of(jnp.where(gives_up, 0, action).astype(jnp.uint32), rules)
    is_favoured = bits.contains(favoured, played.word, played.position)
    follows = is_favoured & (bits.count(favoured) == 1) & ~gives_up
    decides = ~lanes.state.is_over & (lanes.forced < 0) & jnp.where(is_a, *judge.differs)
    first = jnp.stack([jnp.where(gives_up, _ITS_OWN, action), jnp.full_like(action, _ITS_OWN)], axis=-1)

    def work(is_real: Array, is_a: Array, gives_up: Array, *games: Any) -> Array:
        points = judge.points(rules, is_real, *games)
        after = jnp.where(gives_up, jnp.where(is_a, 0.0, 1.0), points[:, 0])
        return after - points[:, 1]

    args = (is_a, gives_up, tables, first, *_told(seats, lanes))
    return for_chosen(decides & ~follows, chunk_of(len(is_a)), work, args, jnp.zeros(is_a.shape, jnp.float32))


def _told(seats: Seats, lanes: MatchLanes) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return A's player in each game, uint32[G], the steps so far, and the words of a separate key for this step."""
    steps = lanes.state.step_count
    keys = jax.vmap(lambda key, step: fold(key, JUDGE, step))(seats.key, steps)
    return seats.game.astype(jnp.uint32), steps, jax.vmap(key_words)(keys)
