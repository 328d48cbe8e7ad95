"""Rollouts: millions of games played to the end from given positions.

A rollout starts at a position with every card placed, takes a given first action, and follows packed policies from there. Like
`unojax.simulation`, rollouts run in lanes over the nodes of `unojax.table`; a lane whose rollout has ended takes the next one, so
that a long game keeps one lane waiting and not all of them.

Rollouts are numbered by (arm, sample). An *arm* is a first action at a position; sample s of every arm of a position starts from
the same placed cards, and the same random word decides each player's k-th card drawn and k-th play. These common random numbers
cancel a part of the noise from the difference of two arms (Glasserman, Yao 1992), a larger one than words counted node by node
would: one play more does not shift all later draws.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, table
from unojax.bits import Words
from unojax.device import static
from unojax.device.batching import for_chosen
from unojax.device.lanes import NO_WALK, walk
from unojax.device.lanes import refill as next_walks
from unojax.device.random_bits import threefry
from unojax.device.static import Skeleton
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table import Node, Picked, Table
from unojax.view import view_at_node

NODES_PER_BLOCK: Final = 8
"""Nodes between two looks for finished rollouts: a rollout from mid-game takes some 60 nodes."""
NO_ROLLOUT: Final = NO_WALK
FREE: Final = np.uint32(0xFFFF_FFFF)
"""The first action was taken: the policies choose."""


class Arms(NamedTuple):
    """First actions at G positions, A of them in all; only the first `number` count.

    Attributes:
        position: int32[A] index of the position.
        action: int32[A] a legal play 0..59.
        number: int32[].
    """

    position: Array
    action: Array
    number: Array


def list_arms(legal: Array) -> Arms:
    """One arm for every legal play: of bool[G, 60], in order."""
    number = legal.sum(dtype=jnp.int32)
    position, action = jnp.nonzero(legal, size=legal.size, fill_value=0)
    return Arms(position.astype(jnp.int32), action.astype(jnp.int32), number)


def place_cards(observation: Observation, hands: Words) -> Table:
    """The table as an observer would see it if the opponent held given cards; the deck gets the rest.

    Args:
        observation: unbatched, of the player to move or any other.
        hands: canonical sets of the opponent's cards, uint32[R] each, of the size that is seen.

    Returns:
        R tables, no draw under way.
    """
    everything = bits.all_cards(observation.rules.deck)
    own = bits.pack(observation.hand)
    # Own cards take the lowest copies of a type, the opponent's the next, the pile the last.
    not_in_pile = cards.onehot(np.asarray(observation.rules.deck, np.int8) - cards.counts(observation.pile))
    pile = bits.map_words(lambda a, b: a & ~b, everything, bits.pack(not_in_pile))
    theirs = bits.map_words(lambda a, b: a & ~b, bits.merge(own, hands), own)
    is_first = observation.player == 0
    meta = table.Meta(
        rank=observation.top_rank.astype(jnp.uint32),
        color=observation.color.astype(jnp.uint32),
        player=observation.current_player.astype(jnp.uint32),
        penalty=observation.penalty.astype(jnp.uint32),
        to_draw=jnp.uint32(0),
        phase=jnp.where(observation.terminated, table.OVER_DRAWN, table.PLAY).astype(jnp.uint32),
    ).pack()
    return Table(
        low=bits.map_words(lambda a, b, p: jnp.where(is_first, a, b) | p, own, theirs, pile),
        high=bits.map_words(lambda a, b, p: jnp.where(is_first, b, a) | p, own, theirs, pile),
        meta=jnp.broadcast_to(meta, hands[0].shape),
    )


class Lanes(NamedTuple):
    """B rollouts in progress: uint32[B] each.

    Attributes:
        table: the games.
        rollout: its number, arm * R + sample; `NO_ROLLOUT` in an idle lane.
        sample: number of the random stream.
        plays, draws: plays made and cards drawn so far, by who took the first action in the lower 16 bits, by the other above.
        num_steps: steps passed.
        first: the first action while it has not been taken, then `FREE`.
        player: who took it.
        seed: the key words of the position.
    """

    table: Table
    rollout: Array
    sample: Array
    plays: Array
    draws: Array
    num_steps: Array
    first: Array
    player: Array
    seed: tuple[Array, Array]


class Leaf(NamedTuple):
    """Where rollouts are cut off, and what stands in for their end.

    Attributes:
        depth: a rollout ends with the first turn that begins after so many steps, or within a few nodes more; at least 1.
        value: `value(tables, player)`, the expected returns of the players uint32[C], float32[C], at C tables at the beginning of
            a turn.
    """

    depth: int
    value: Callable[[Table, Array], Array]


_LEAVES: Final = 256
"""Tables valued at a time."""


class Guide(Protocol):
    """Chooses for the player who took the first action at some of the decisions after it, in place of the policy.

    Lanes wait for it: between blocks it looks at those that do and gives each an action. A *walk* is what it keeps for a lane,
    its *store* what it keeps for all.
    """

    def start(self, num_lanes: int) -> Any:
        """The walks of lanes whose rollout is about to begin."""
        ...

    def waits(self, walks: Any, lanes: Lanes, node: Node) -> Array:
        """bool[B]: which lanes wait at this node."""
        ...

    def follow(self, walks: Any, lanes: Lanes, move: Array) -> Any:
        """The walks after a move that is about to be carried out."""
        ...

    def advise(self, store: Any, walks: Any, lanes: Lanes, position: Array) -> tuple[Any, Any, Array]:
        """The store, the walks, and `Lanes.first`, with an action for some lanes at least of those that wait.

        `position` is int32[B], the index of each lane's position.
        """
        ...

    def learn(self, store: Any, walks: Any, ended: Array, returns: Array) -> Any:
        """The store with the returns (float32[B]) of the rollouts that ended (bool[B])."""
        ...


def play_out(
    tables: Table,
    seeds: tuple[Array, Array],
    arms: Arms,
    numbers: list[Array],
    *,
    policies: Skeleton,
    rules: Rules,
    num_samples: int,
    discount: float = 1.0,
    num_lanes: int,
    first_sample: Array | int = 0,
    guide: Guide | None = None,
    store: Any = None,
    leaf: Leaf | None = None,
) -> tuple[Array, Any]:
    """Play every sample of every arm to its end.

    Args:
        tables: G * R tables: sample s of position g at g * R + s, the player to move at a decision.
        seeds: uint32[G] each: the two words of a threefry2x32 key for each position.
        arms: the first actions.
        numbers, policies: the `static.split` of one policy for all players, or of two: of the player who takes the first
            action, and of the other one. `PackedPolicy`s.
        rules: static.
        num_samples: R, static.
        discount: per step, static.
        num_lanes: rollouts in progress at a time, static; without a guide it changes no result.
        first_sample: added to the sample's number in the random words.
        guide, store: who chooses in place of the policy, if anyone, and what it knows.
        leaf: where and how rollouts are cut off, if at all.

    Returns:
        float32[A, R] returns of the player who takes the first action: discount^(steps after the first) times 1 for a win, -1 for
        a loss, 0 for a drawn game. 0 for arms that do not count. And the guide's store.
    """
    both = static.join(numbers, policies)
    num_rollouts = arms.number.astype(jnp.uint32) * np.uint32(num_samples)
    first_sample = jnp.asarray(first_sample, jnp.uint32)
    nodes_per_block = NODES_PER_BLOCK if leaf is None else min(NODES_PER_BLOCK, leaf.depth)

    def decide(lanes: Lanes, walks: Any) -> Array:
        node = table.find_node(lanes.table, rules)
        is_other = node.meta.player != lanes.player
        count = jnp.where(node.is_decision, lanes.plays, lanes.draws)
        count = jnp.where(is_other, count >> np.uint32(16), count & np.uint32(0xFFFF))
        kind = jnp.where(node.is_decision, np.uint32(2), np.uint32(0)) | is_other.astype(jnp.uint32)
        word, _ = threefry(lanes.seed, (lanes.sample, count | kind << np.uint32(16)))
        view = view_at_node(lanes.table, node, rules)
        favoured = [policy.narrow(view, node.legal) for policy in both]
        options = bits.where(is_other, favoured[-1], favoured[0])
        pick = Picked(*bits.choose(bits.where(node.is_decision, options, node.deck), word))
        given = table.pick_of(lanes.first)
        is_free = lanes.first == FREE
        pick = Picked(*(jnp.where(is_free, p, g) for p, g in zip(pick, given, strict=True)))
        move = table.resolve(lanes.table, node, pick, jnp.uint32(0), rules)
        return move if guide is None else jnp.where(guide.waits(walks, lanes, node), table.stay(lanes.table), move)

    def decide_next(index: Array, carry: tuple[Lanes, Any], move: Array) -> Array:
        del index, move
        return decide(*carry)

    def carry_out(carry: tuple[Lanes, Any], move: Array) -> tuple[Lanes, Any]:
        lanes, walks = carry
        walks = None if guide is None else guide.follow(walks, lanes, move)
        one = jnp.where(lanes.table.unpack_meta().player == lanes.player, np.uint32(1), np.uint32(1 << 16))
        lanes = lanes._replace(
            table=table.commit(lanes.table, move),
            plays=lanes.plays + jnp.where(table.is_play(move), one, np.uint32(0)),
            draws=lanes.draws + jnp.where(table.is_card_drawn(move), one, np.uint32(0)),
            num_steps=lanes.num_steps + table.is_step(move),
            first=jnp.full_like(lanes.first, FREE),
        )
        return lanes, walks

    def refill(lanes: Lanes, next_index: Array, ended: Array) -> tuple[Lanes, Array]:
        rollout, next_index = next_walks(ended, next_index, num_rollouts)
        has_next = rollout != NO_ROLLOUT
        # Lanes that go on look at rollout 0, which is in the cache.
        index = jnp.where(ended & has_next, rollout, 0)
        arm, sample = index // np.uint32(num_samples), index % np.uint32(num_samples)
        position = arms.position[arm]
        start = jax.tree.map(lambda x: x[position * num_samples + sample.astype(jnp.int32)], tables)
        zero = jnp.zeros_like(index)
        fresh = Lanes(
            # An idle lane stands still, like a game that is over.
            table=start._replace(meta=jnp.where(has_next, start.meta, table.IDLE)),
            rollout=rollout,
            sample=sample + first_sample,
            plays=zero,
            draws=zero,
            num_steps=zero,
            first=arms.action[arm].astype(jnp.uint32),
            player=start.unpack_meta().player,
            seed=(seeds[0][position], seeds[1][position]),
        )
        lanes = jax.tree.map(partial(jnp.where, ended), fresh, lanes)
        return lanes, next_index

    def goes_on(carry: tuple[Lanes, Any, Array, Array, Any]) -> Array:
        return (carry[0].rollout != NO_ROLLOUT).any()

    def block(carry: tuple[Lanes, Any, Array, Array, Any]) -> tuple[Lanes, Any, Array, Array, Any]:
        lanes, walks, next_index, returns, store = carry
        if guide is not None:
            position = arms.position[jnp.where(lanes.rollout == NO_ROLLOUT, 0, lanes.rollout // np.uint32(num_samples))]
            store, walks, first = guide.advise(store, walks, lanes, position)
            lanes = lanes._replace(first=first)
        first = decide(lanes, walks)
        lanes, walks = walk((lanes, walks), first, decide_next, carry_out, num_nodes=nodes_per_block)
        meta = lanes.table.unpack_meta()
        is_active = lanes.rollout != NO_ROLLOUT
        ended = (meta.phase > table.PLAY) & is_active
        won = (meta.phase - np.uint32(table.OVER_WON_BY_0)) == lanes.player
        outcome = jnp.where(meta.phase == table.OVER_DRAWN, 0.0, jnp.where(won, 1.0, -1.0))
        if leaf is not None:
            is_cut = is_active & ~ended & (meta.to_draw == 0) & (lanes.num_steps >= leaf.depth)
            value = partial(_value_chunk, leaf.value)
            outcome = for_chosen(is_cut, min(num_lanes, _LEAVES), value, (lanes.table, lanes.player), outcome)
            ended |= is_cut
        if discount != 1.0:
            outcome *= jnp.float32(discount) ** (lanes.num_steps.astype(jnp.float32) - 1.0)
        returns = returns.at[jnp.where(ended, lanes.rollout, returns.size)].set(outcome, mode="drop")
        if guide is not None:
            store = guide.learn(store, walks, ended, outcome)
            walks = jax.tree.map(partial(jnp.where, ended), guide.start(num_lanes), walks)
        lanes, next_index = refill(lanes, next_index, ended | (lanes.rollout == NO_ROLLOUT))
        return lanes, walks, next_index, returns, store

    zero = jnp.zeros(num_lanes, jnp.uint32)
    idle = Lanes(table.new_table(zero, rules), zero + NO_ROLLOUT, zero, zero, zero, zero, zero, zero, (zero, zero))
    lanes, next_index = refill(idle, jnp.uint32(0), jnp.ones(num_lanes, bool))
    returns = jnp.zeros(arms.position.shape[0] * num_samples, jnp.float32)
    walks = None if guide is None else guide.start(num_lanes)
    *_, returns, store = lax.while_loop(goes_on, block, (lanes, walks, next_index, returns, store))
    return returns.reshape(-1, num_samples), store


def _value_chunk(value: Callable[[Table, Array], Array], is_real: Array, tables: Table, player: Array) -> Array:
    del is_real
    return value(tables, player)
