"""Tree search over one player's observations: better choices inside the rollouts, shared by samples with equal histories.

The tree of one decision has a node for each later history of the searching player: both players' plays, its own drawn cards, and
the opponent's draws without their cards. Simulations whose sampled hands and draws lead to the same history share its
node. The samples that pass through a node are its particle set, distributed as the belief after that history (POMCP; Silver and
Veness 2010). At a node the player takes the option with the highest score:

    puct    Q(a) + c P(a) sqrt(1 + N) / (1 + N(a))
    ucb1    Q(a) + c sqrt(ln N / N(a)), after each option once, the rollout policy's play first

(PUCT as in Silver et al. 2017; UCB1 as in Auer, Cesa-Bianchi and Fischer 2002, and in POMCP.) N counts visits, and Q is the sum
of the returns so far over the visits. The prior P favours the rollout policy's play. A simulation adds at most one node and
continues with the rollout policy. The opponent follows the policy everywhere and is part of the environment, so returns are the
player's at every node.

The root is not in the tree: its plays share samples, round by round, and weak ones are pruned, as in flat Monte Carlo with
`stop`. A bandit rule at the root would sample one arm at a time, without common random numbers.

The nodes of a decision lie in a hash table that parallel lanes share. Between blocks of moves, lanes at a decision of the player
look up their nodes (`rollouts.Guide`). A simulation counts as a visit with return 0 once it chooses; its return is added when it
ends. For plays that win more often than they lose, that is a virtual loss (Chaslot, Winands, van den Herik 2008, "Parallel
Monte-Carlo Tree Search"): it sends the next lanes elsewhere. Other plays meanwhile look better than they are, up to a drawn
game. Once all simulations have ended, Q is the mean return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, table
from unojax.bits import Words
from unojax.policies import PackedPolicy, narrow
from unojax.rules import Rules
from unojax.search.rollouts import FREE, NO_ROLLOUT, Guide, Lanes
from unojax.table import Node
from unojax.view import view_at_node

MAX_DEPTH: Final = 6
"""Largest number of tree nodes along a simulation."""
MAX_OPTIONS: Final = 16
"""Largest number of plays of a node; a decision with more is left to the policy."""
Selection = Literal["puct", "ucb1"]
EXPLORATION: Final[dict[Selection, float]] = {"puct": 0.25, "ucb1": 0.5}
"""Default constant c of each selection rule."""
_PRIOR_OF_POLICY: Final = 0.5
"""Share of the prior on the policy's own play; all plays share the rest."""
_ADVISED_AT_A_TIME: Final = 512
_HASH_FACTOR: Final = np.uint32(0x9E37_79B1)


class Walks(NamedTuple):
    """Positions of B simulations in their trees.

    Attributes:
        history: uint32[B] hash of the player's observations since the root.
        inside: bool[B] the simulation has not left the tree.
        depth: uint32[B] nodes along the simulation.
        edges: MAX_DEPTH times int32[B], index in the store of the play taken at each node.
    """

    history: Array
    inside: Array
    depth: Array
    edges: tuple[Array, ...]


class Store(NamedTuple):
    """The trees of D decisions, M nodes each.

    Attributes:
        histories: uint32[D * M] history of each node, 0 for a free place.
        visits: float32[D * M * MAX_OPTIONS] visits of each play.
        returns: float32[D * M * MAX_OPTIONS] sum of each play's returns in simulations that have ended.
    """

    histories: Array
    visits: Array
    returns: Array


def new_store(num_decisions: int, num_nodes: int) -> Store:
    """Return trees without nodes. Raises ValueError if there are more places than 32 bits can number."""
    if num_decisions * num_nodes * MAX_OPTIONS >= 2**31:
        raise ValueError(f"nodes={num_nodes} are too many for {num_decisions} decisions at a time: take fewer of either")
    edges = jnp.zeros(num_decisions * num_nodes * MAX_OPTIONS, jnp.float32)
    return Store(jnp.zeros(num_decisions * num_nodes, jnp.uint32), edges, edges)


@dataclass(frozen=True)
class TreeGuide(Guide):
    """The tree of the module. A history whose place in the tree is taken is left to the rollout policy.

    Attributes:
        policy: Rollout policy.
        rules: Rules of the game.
        num_nodes: M.
        exploration: Constant c.
        selection: Rule by which a node chooses.
    """

    policy: PackedPolicy
    rules: Rules
    num_nodes: int
    exploration: float
    selection: Selection = "puct"

    def start(self, num_lanes: int) -> Walks:
        zero = jnp.zeros(num_lanes, jnp.uint32)
        return Walks(zero, jnp.ones(num_lanes, bool), zero, (zero.astype(jnp.int32),) * MAX_DEPTH)

    def waits(self, walks: Walks, lanes: Lanes, node: Node) -> Array:
        is_own = (node.meta.player == lanes.player) & (lanes.first == FREE)
        return walks.inside & is_own & node.is_choice & (bits.count(node.legal) <= MAX_OPTIONS)

    def follow(self, walks: Walks, lanes: Lanes, move: Array) -> Walks:
        changed = (walks.history ^ table.visible_part(move, lanes.table, lanes.player)) * _HASH_FACTOR
        changed ^= changed >> np.uint32(15)
        stays = move == table.stay(lanes.table)
        return walks._replace(history=jnp.where(stays, walks.history, changed))

    def advise(self, store: Store, walks: Walks, lanes: Lanes, position: Array) -> tuple[Store, Walks, Array]:
        num_lanes = len(position)
        waiting = self.waits(walks, lanes, table.find_node(lanes.table, self.rules)) & (lanes.rollout != NO_ROLLOUT)
        (at,) = jnp.nonzero(waiting, size=min(num_lanes, _ADVISED_AT_A_TIME), fill_value=num_lanes)
        is_real = at < num_lanes
        one = jnp.where(is_real, at, 0)
        tables = jax.tree.map(lambda x: x[one], lanes.table)
        node = table.find_node(tables, self.rules)

        history = walks.history[one]
        slot = position[one] * self.num_nodes + (history % np.uint32(self.num_nodes)).astype(jnp.int32)
        # 0 stands for no node.
        history = jnp.maximum(history, np.uint32(1))
        is_free = store.histories[slot] == 0
        # If several lanes claim a place, one wins; the others notice at their next look-up.
        claimed = jnp.where(is_real & is_free, slot, len(store.histories))
        histories = store.histories.at[claimed].set(history, mode="drop")
        found = is_real & (histories[slot] == history)

        edges = slot[:, None] * MAX_OPTIONS + np.arange(MAX_OPTIONS, dtype=np.int32)[None]
        visits, returns = store.visits[edges], store.returns[edges]
        favoured = narrow(self.policy, view_at_node(tables, node, self.rules), node.legal)
        choice = self._select(visits, returns, bits.count(node.legal), _rank_of_first(favoured, node.legal))
        is_new = visits.sum(-1) == 0
        edge = jnp.take_along_axis(edges, choice[:, None], axis=1)[:, 0]
        word, place = bits.nth(node.legal, choice.astype(jnp.uint32))
        action = table.action_of(table.Picked(word, place), self.rules)

        depth = walks.depth[one]
        drop = num_lanes
        on_the_way = jnp.where(found, one, drop)
        is_last = ~found | is_new | (depth + np.uint32(1) >= MAX_DEPTH)
        walks = Walks(
            history=walks.history,
            inside=walks.inside.at[jnp.where(is_real & is_last, one, drop)].set(False, mode="drop"),
            depth=walks.depth.at[on_the_way].add(np.uint32(1), mode="drop"),
            edges=tuple(
                row.at[jnp.where(found & (depth == level), one, drop)].set(edge, mode="drop")
                for level, row in enumerate(walks.edges)
            ),
        )
        store = Store(histories, store.visits.at[jnp.where(found, edge, len(store.visits))].add(1.0, mode="drop"), store.returns)
        return store, walks, lanes.first.at[on_the_way].set(action, mode="drop")

    def learn(self, store: Store, walks: Walks, ended: Array, returns: Array) -> Store:
        total = store.returns
        for level, edge in enumerate(walks.edges):
            counts = ended & (walks.depth > level)
            total = total.at[jnp.where(counts, edge, len(total))].add(returns, mode="drop")
        return store._replace(returns=total)

    def _select(self, visits: Array, returns: Array, number: Array, favourite: Array) -> Array:
        """int32[B]: the option with the highest score among the first `number`."""
        option = np.arange(MAX_OPTIONS, dtype=np.uint32)[None]
        score = self._ucb1 if self.selection == "ucb1" else self._puct
        scores = score(visits, returns, number[:, None], option == favourite[:, None])
        return jnp.argmax(jnp.where(option < number[:, None], scores, -jnp.inf), axis=-1).astype(jnp.int32)

    def _puct(self, visits: Array, returns: Array, number: Array, is_favourite: Array) -> Array:
        all_visits = visits.sum(-1, keepdims=True)
        # An untried play counts as the mean of its node so far.
        mean = returns.sum(-1, keepdims=True) / jnp.maximum(all_visits, 1.0)
        q = jnp.where(visits > 0, returns / jnp.maximum(visits, 1.0), mean)
        of_favourite = jnp.where(is_favourite, np.float32(_PRIOR_OF_POLICY), np.float32(0.0))
        prior = (1.0 - _PRIOR_OF_POLICY) / number.astype(jnp.float32) + of_favourite
        return q + self.exploration * prior * jnp.sqrt(1.0 + all_visits) / (1.0 + visits)

    def _ucb1(self, visits: Array, returns: Array, number: Array, is_favourite: Array) -> Array:
        tried = jnp.maximum(visits, 1.0)
        all_visits = jnp.maximum(visits.sum(-1, keepdims=True), 1.0)
        score = returns / tried + self.exploration * jnp.sqrt(jnp.log(all_visits) / tried)
        untried = jnp.where(is_favourite, jnp.inf, jnp.finfo(jnp.float32).max)
        return jnp.where(visits > 0, score, untried)


def _rank_of_first(chosen: Words, options: Words) -> Array:
    """uint32[...]: number of options before the first of the chosen ones."""
    before = jnp.zeros_like(options[0])
    is_past = jnp.zeros(options[0].shape, bool)
    for mine, all_here in zip(chosen, options, strict=True):
        below = (mine & (~mine + np.uint32(1))) - np.uint32(1)
        here = jnp.where(mine != 0, lax.population_count(all_here & below), lax.population_count(all_here))
        before += jnp.where(is_past, np.uint32(0), here)
        is_past |= mine != 0
    return before
