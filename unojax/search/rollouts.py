"""Rollouts: millions of games played to the end from given positions.

A rollout starts at a determinization, takes a given first action, and follows packed policies from there. A lane (see
`unojax.device.lanes`) whose rollout has ended takes the next one, so that a long game delays only its own lane.

Rollouts are numbered by (arm, sample). An *arm* is a first action at a position. Sample s of every arm of a position starts from
the same determinization, and the same random word decides each player's k-th card drawn and k-th play. These common random
numbers cancel part of the noise of the difference of two arms (Glasserman, Yao 1992). Words counted by node would cancel less,
because one more play would shift all later draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, table
from unojax.device import control
from unojax.device.lanes import NO_WALK, walk
from unojax.device.lanes import refill as next_walks
from unojax.device.platform import platform
from unojax.device.random_bits import threefry
from unojax.device.static import Argument
from unojax.device.tracing import traced_once
from unojax.policies import PackedPolicy, greedy, narrow
from unojax.pomdp import check_discount
from unojax.rules import Rules
from unojax.table import Node, Picked, Table
from unojax.view import view_at_node

NODES_PER_BLOCK: Final = 8
"""Nodes between two checks for finished rollouts: a rollout from mid-game takes some 60 nodes."""
NO_ROLLOUT: Final = NO_WALK
_MOST_LANES: Final = {"cpu": 2048, "gpu": 2**16}
_LANES_PER_POSITION: Final = 256
"""Rollouts in progress at a time. On a CPU their tables fit in a core's second-level cache; few positions need few lanes, because
the last rollouts leave most of them idle.
"""
FREE: Final = np.uint32(0xFFFF_FFFF)
"""The first action was taken: the policies choose."""


class Arms(NamedTuple):
    """First actions at G positions, A of them in all; only the first `number` count.

    Attributes:
        position: Index of the position, int32[A].
        action: Legal play 0..59, or another choice (`Rules.num_choices`), int32[A].
        number: int32[].
    """

    position: Array
    action: Array
    number: Array


@partial(traced_once, static=("most",))
def list_arms(legal: Array, *, most: int | None = None) -> Arms:
    """Return an arm for every legal choice, bool[G, `Rules.num_choices`], in order; at most `most` a position."""
    number = legal.sum(dtype=jnp.int32)
    position, action = jnp.nonzero(legal, size=len(legal) * (most or legal.shape[1]), fill_value=0)
    return Arms(position.astype(jnp.int32), action.astype(jnp.int32), number)


class Style(NamedTuple):
    """Choice rule of the other player, given its type.

    Attributes:
        policy: Index of the policy that it follows (`Rollouts.policies`).
        tremble: Probability with which it makes any legal play instead.
    """

    policy: int
    tremble: float


class Lanes(NamedTuple):
    """B rollouts in progress: uint32[B] each.

    Attributes:
        table: Games.
        rollout: Rollout number, arm * R + sample; `NO_ROLLOUT` in an idle lane.
        sample: Number of the random stream.
        plays, draws: Plays made and cards drawn so far, by the player of the first action in the lower 16 bits, by the other
            above. If drawing is optional, all steps count as plays, so that no two choices share a random word.
        num_steps: Steps passed.
        first: The first action until it has been taken, then `FREE`.
        player: Player of the first action, or the one whose returns are estimated.
        type: Type of the other player; None without types.
        seed: Key words of the position.
        steps_left: Steps from the beginning until the game is truncated; None without truncation.
    """

    table: Table
    rollout: Array
    sample: Array
    plays: Array
    draws: Array
    num_steps: Array
    first: Array
    player: Array
    type: Array | None
    seed: tuple[Array, Array]
    steps_left: Array | None


class Guide:
    """Replaces the policy at some later decisions of the player who took the first action; this one replaces none.

    Lanes wait for the guide: between blocks it gives each waiting lane an action. A *walk* is its data for a lane,
    its *store* its data for all lanes.
    """

    def start(self, num_lanes: int) -> Any:
        """Begin the walks of lanes whose rollout is about to begin."""
        return ()

    def waits(self, walks: Any, lanes: Lanes, node: Node) -> Array:
        """Return whether lanes wait at this node: bool[B]."""
        return jnp.zeros_like(node.is_decision)

    def follow(self, walks: Any, lanes: Lanes, move: Array) -> Any:
        """Advance the walks by a move that is about to be carried out."""
        return walks

    def advise(self, store: Any, walks: Any, lanes: Lanes, position: Array) -> tuple[Any, Any, Array]:
        """Return the store, the walks, and `Lanes.first` with an action for at least some of the waiting lanes.

        `position` is int32[B], the index of each lane's position.
        """
        return store, walks, lanes.first

    def learn(self, store: Any, walks: Any, ended: Array, returns: Array) -> Any:
        """Add the returns (float32[B]) of the rollouts that ended (bool[B]) to the store."""
        return store


@dataclass(frozen=True)
class Rollouts:
    """Settings of rollouts, and one block of their moves. Static, except for numbers in the policies.

    Attributes:
        policies: One for both players, or two: of the player who takes the first action, and of the other one. With `types`, the
            policies that these name, after that of the player who takes the first action.
        rules: Rules of the game, with truncation and step penalties.
        num_samples: R, rollouts of each arm.
        discount: Factor on returns per transition after the first. A result never vanishes: the sign of its return is the winner.
        guide: Guide, which replaces the first policy at some decisions; None: no guide.
        types: Types of the other player, one for each sample; empty: it always follows the last policy.
        counts_points: Whether returns are points under `Rules.points`. False: wins and losses under any rules.

    Raises:
        ValueError: If the discount is out of range.
    """

    policies: tuple[PackedPolicy, ...]
    rules: Rules
    num_samples: int
    discount: float = 1.0
    guide: Guide | None = None
    types: tuple[Style, ...] = ()
    counts_points: bool = True

    def __post_init__(self) -> None:
        check_discount(self.discount)

    def counting_wins(self) -> Rollouts:
        """Return the rollouts with wins instead of points as returns."""
        return replace(self, counts_points=False)

    @property
    def has_points(self) -> bool:
        """Whether returns are points."""
        return self.rules.points and self.counts_points

    @property
    def leader(self) -> Guide:
        """The guide; without one, the guide that replaces no decision."""
        return Guide() if self.guide is None else self.guide

    @property
    def nodes_per_block(self) -> int:
        """Nodes between two checks for finished rollouts."""
        if self.rules.max_steps is None or self.guide is not None:
            return NODES_PER_BLOCK
        # Short games would leave most lanes idle. With a guide, which advises between blocks, it would change results.
        return min(NODES_PER_BLOCK, 1 + self.rules.max_steps // 4)

    def decide(self, now: tuple[Lanes, Any]) -> Array:
        """Choose a move of `unojax.table` at each lane's node: uint32[B]."""
        lanes, walks = now
        node = table.find_node(lanes.table, self.rules)
        is_other = node.meta.player != lanes.player
        count = jnp.where(node.is_decision, lanes.plays, lanes.draws)
        count = jnp.where(is_other, count >> np.uint32(16), count & np.uint32(0xFFFF))
        kind = jnp.where(node.is_decision, np.uint32(2), np.uint32(0)) | is_other.astype(jnp.uint32)
        word, coins = threefry(lanes.seed, (lanes.sample, count | kind << np.uint32(16)))
        view = view_at_node(lanes.table, node, self.rules)
        favoured = [narrow(policy, view, node.legal) for policy in self.policies]
        others, plays = favoured[-1], greedy.narrow(view, node.legal)
        for index, style in enumerate(self.types):
            here = favoured[style.policy]
            if style.tremble > 0:
                # These coins decide nothing else at a decision.
                here = bits.where(coins <= np.uint32(style.tremble * 0xFFFF_FFFF), plays, here)
            others = here if index == 0 else bits.where(lanes.type == index, here, others)
        options = bits.where(is_other, others, favoured[0])
        pick = Picked(*bits.choose(bits.where(node.is_decision, options, node.deck), word))
        given = table.pick_of(lanes.first, self.rules)
        is_free = lanes.first == FREE
        pick = Picked(*(jnp.where(is_free, p, g) for p, g in zip(pick, given, strict=True)))
        coins = coins if self.rules.play_drawn == "auto" else jnp.uint32(0)
        move = table.resolve(lanes.table, node, pick, coins, self.rules)
        move = jnp.where(self.leader.waits(walks, lanes, node), table.stay(lanes.table), move)
        if lanes.steps_left is not None:
            move = jnp.where(_is_truncated(lanes, lanes.steps_left), table.stay(lanes.table), move)
        return move

    def carry_out(self, now: tuple[Lanes, Any], move: Array) -> tuple[Lanes, Any]:
        """Advance every lane and its walk by one node."""
        lanes, walks = now
        walks = self.leader.follow(walks, lanes, move)
        one = jnp.where(lanes.table.unpack_meta().player == lanes.player, np.uint32(1), np.uint32(1 << 16))
        chooses = table.is_step(move) if self.rules.draw_is_option else table.is_play(move)
        lanes = lanes._replace(
            table=table.commit(lanes.table, move),
            plays=lanes.plays + jnp.where(chooses, one, np.uint32(0)),
            draws=lanes.draws + jnp.where(table.is_card_drawn(move), one, np.uint32(0)),
            num_steps=lanes.num_steps + table.is_step(move).astype(jnp.uint32),
            first=jnp.where(move == table.stay(lanes.table), lanes.first, FREE),
        )
        return lanes, walks

    def cut_off(self, lanes: Lanes) -> tuple[Array, Array]:
        """Find the rollouts that have ended, bool[B], and their returns, float32[B]."""
        meta = lanes.table.unpack_meta()
        is_active = lanes.rollout != NO_ROLLOUT
        is_over = meta.is_over
        won = (meta.phase - np.uint32(table.OVER_WON_BY_0)) == lanes.player
        returns = jnp.where(won, jnp.float32(1), jnp.float32(-1))
        if self.has_points:
            returns *= table.points_won(lanes.table, self.rules)
        returns = jnp.where(meta.phase == table.OVER_DRAWN, jnp.float32(0), returns)
        ended = is_over & is_active
        if lanes.steps_left is not None:
            is_cut = _is_truncated(lanes, lanes.steps_left)
            returns = jnp.where(is_cut, jnp.float32(0), returns)
            ended |= is_cut & is_active
        num_steps = lanes.num_steps.astype(jnp.float32)
        if self.discount != 1.0:
            factor = jnp.float32(self.discount) ** (num_steps - jnp.float32(1))
            returns *= jnp.maximum(factor, np.finfo(np.float32).tiny)
        if self.rules.step_penalty:
            # The step that ends the game has no penalty.
            num_steps -= is_over.astype(jnp.float32)
            if self.discount != 1.0:
                # The sum of the geometric series 1, d, d^2, ..., exact also for d close to 1.
                num_steps = jnp.expm1(num_steps * np.float32(np.log(self.discount))) / np.float32(self.discount - 1.0)
            returns -= jnp.float32(self.rules.step_penalty) * num_steps
        return ended, returns


class Starts(NamedTuple):
    """Start positions of rollouts: G positions in R samples each.

    Attributes:
        tables: G * R tables: sample s of position g at g * R + s, the player to move at a decision.
        seeds: Words of a threefry2x32 key for each position, uint32[G] each.
        types: Type of the other player in each sample, an index of `Rollouts.types`, uint32[G * R].
        players: Players of the returns and of the first policy, uint32[G]; None: the player to move.
        first_sample: Offset of the sample's number in the random words.
        num_steps: Steps before each position, which count towards a truncation, int32[G]; None: zero.
    """

    tables: Table
    seeds: tuple[Array, Array]
    types: Array | None = None
    players: Array | None = None
    first_sample: Array | int = 0
    num_steps: Array | None = None

    def steps_left(self, rules: Rules) -> Array | None:
        """Number of steps until truncation, uint32[G]; None without a limit."""
        if rules.max_steps is None:
            return None
        passed = jnp.zeros(self.seeds[0].shape, jnp.int32) if self.num_steps is None else self.num_steps
        return jnp.maximum(np.int32(rules.max_steps) - passed, np.int32(0)).astype(jnp.uint32)


class _Progress(NamedTuple):
    """Rollouts in progress: the lanes, the guide's walks and store, the next rollout's number, returns float32[A * R] so far."""

    lanes: Lanes
    walks: Any
    next_rollout: Array
    returns: Array
    store: Any


def default_num_lanes(num_positions: int) -> int:
    """Return the number of rollouts in progress at a time. Without a guide, results do not depend on it."""
    return min(_MOST_LANES[platform()], _LANES_PER_POSITION * num_positions)


def play_out(starts: Starts, arms: Arms, how: Rollouts, store: Any = None) -> tuple[Array, Any]:
    """Play every sample of every arm to its end; return float32[A, R] returns, and the guide's store.

    A return is that of the player of the first action, or of `Starts.players`: discount^(steps after the first) times 1 for a
    win, -1 for a loss, 0 for a drawn or truncated game, less the discounted penalties of steps that did not end the game. Arms
    that do not count have 0.

    Raises:
        ValueError: If there are more rollouts than 32 bits can number.
    """
    size = len(arms.position) * how.num_samples
    if size >= NO_ROLLOUT:
        raise ValueError(
            f"{how.num_samples} rollouts for each of up to {len(arms.position)} plays are {size} at a time, and at most "
            f"{NO_ROLLOUT - 1} are possible; lower the rollouts, or the decisions that are searched together"
        )
    # Arrays, whatever type the weights have, so that all share one program.
    how = replace(how, policies=Argument(how.policies).value)
    guide, num_lanes = how.leader, default_num_lanes(len(starts.seeds[0]))

    def next_lanes(next_rollout: Array, wanted: Array) -> tuple[Lanes, Array]:
        number = arms.number.astype(jnp.uint32) * np.uint32(how.num_samples)
        rollout, next_rollout = next_walks(wanted, next_rollout, number)
        return _lanes_of(rollout, wanted, starts, arms, how), next_rollout

    def block(now: _Progress) -> _Progress:
        store, walks, first = guide.advise(now.store, now.walks, now.lanes, _positions_of(now.lanes, arms, how))
        lanes = now.lanes._replace(first=first)
        # Waiting comes first, so that the program decides at one place.
        still = table.stay(lanes.table)
        lanes, walks = walk(
            (lanes, walks), still, lambda i, both, move: how.decide(both), how.carry_out, num_nodes=how.nodes_per_block + 1
        )
        ended, outcome = how.cut_off(lanes)
        returns = now.returns.at[jnp.where(ended, lanes.rollout, np.uint32(size))].set(outcome, mode="drop")
        store = guide.learn(store, walks, ended, outcome)
        walks = jax.tree.map(partial(jnp.where, ended), guide.start(num_lanes), walks)
        wanted = ended | (lanes.rollout == NO_ROLLOUT)
        fresh, next_rollout = next_lanes(now.next_rollout, wanted)
        return _Progress(jax.tree.map(partial(jnp.where, wanted), fresh, lanes), walks, next_rollout, returns, store)

    lanes, next_rollout = next_lanes(jnp.uint32(0), jnp.ones(num_lanes, bool))
    begun = _Progress(lanes, guide.start(num_lanes), next_rollout, jnp.zeros(size, jnp.float32), store)
    done = control.while_loop(lambda now: (now.lanes.rollout != NO_ROLLOUT).any(), block, begun)
    return done.returns.reshape(-1, how.num_samples), done.store


def _lanes_of(rollout: Array, wanted: Array, starts: Starts, arms: Arms, how: Rollouts) -> Lanes:
    """Begin the rollouts of lanes, uint32[B] or `NO_ROLLOUT`; meaningless in lanes that are not wanted, bool[B]."""
    has_one = rollout != NO_ROLLOUT
    # Lanes that continue read rollout 0, which is in the cache.
    arm, sample = jnp.divmod(jnp.where(wanted & has_one, rollout, np.uint32(0)), np.uint32(how.num_samples))
    position = arms.position[arm]
    at = position * np.int32(how.num_samples) + sample.astype(jnp.int32)
    start = jax.tree.map(lambda x: x[at], starts.tables)
    steps_left, zero = starts.steps_left(how.rules), jnp.zeros_like(rollout)
    return Lanes(
        # An idle lane stands still, like a game that is over.
        table=start._replace(meta=jnp.where(has_one, start.meta, table.IDLE)),
        rollout=rollout,
        sample=sample + jnp.asarray(starts.first_sample, jnp.uint32),
        plays=zero,
        draws=zero,
        num_steps=zero,
        first=arms.action[arm].astype(jnp.uint32),
        player=start.unpack_meta().player if starts.players is None else starts.players[position],
        type=starts.types[at] if how.types and starts.types is not None else None,
        seed=(starts.seeds[0][position], starts.seeds[1][position]),
        steps_left=None if steps_left is None else steps_left[position],
    )


def _positions_of(lanes: Lanes, arms: Arms, how: Rollouts) -> Array:
    """Return the position of each lane, int32[B]; arbitrary for an idle lane."""
    return arms.position[jnp.where(lanes.rollout == NO_ROLLOUT, np.uint32(0), lanes.rollout // np.uint32(how.num_samples))]


def _is_truncated(lanes: Lanes, steps_left: Array) -> Array:
    """bool[B]: the game has reached its limit of steps and is not over."""
    return lanes.table.unpack_meta().begins_step & (lanes.num_steps >= steps_left)
