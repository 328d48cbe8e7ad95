"""Lanes of games on the device, advanced node by node: the inside of `unojax.simulate`."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game, table
from unojax.bits import Words
from unojax.device import control, static
from unojax.device.lanes import NO_WALK, refill, walk
from unojax.device.platform import Platform
from unojax.device.random_bits import threefry
from unojax.device.static import Skeleton
from unojax.observation import observe
from unojax.policies import POLICIES, LinearPolicy, LookaheadPolicy, PackedPolicy, Policy, ask, narrow
from unojax.rules import Rules
from unojax.table import Node, Picked, Table
from unojax.view import view_at_node

NODES_PER_BLOCK: Final = 16
"""Nodes between two looks for finished games: a longer block idles more (half a block per game of some 120 nodes), a shorter one
looks more often."""
BLOCKS_PER_CALL: Final = 8
MOST_COUNTED: Final = 2**23
"""Lanes whose choices in a call can be added up in 32 bits, low bytes and the rest apart: each has the call's nodes, and 255 from
before."""
LONGEST: Final = 2**14
"""Steps of a game up to which lengths are counted on the device."""

_ILLEGAL: Final = np.uint32(1 << 31)
"""Set in a move, above what `unojax.table` uses, where a policy's answer was illegal."""


class GameLanes(NamedTuple):
    """B games in progress: uint32[B] each.

    Attributes:
        table: the games.
        game_index: index of the game, or 2^32 - 1 in a lane without one.
        node: nodes passed in this game, the counter of its random words.
        num_steps, num_choices, num_reshuffles: as in `Games`.
        illegal: 1 where a policy has chosen an illegal action; the game stands still from then on.
        last_action: as in `State`; None if no policy looks at it.
    """

    table: Table
    game_index: Array
    node: Array
    num_steps: Array
    num_choices: Array
    num_reshuffles: Array
    illegal: Array
    last_action: Array | None


class Results(NamedTuple):
    """Results of finished games, uint32[B] each; `game_index` is 2^32 - 1 where none finished."""

    game_index: Array
    num_steps: Array
    num_choices: Array
    num_reshuffles: Array
    phase: Array
    hand_0: Array
    hand_1: Array
    illegal: Array


class FinishedFirst(NamedTuple):
    """Results of a call in one row, those of the `number` finished games (int32[]) first."""

    results: Results
    number: Array


class Counts(NamedTuple):
    """Counts over the games that finished in a call: uint32[] each, but for the last three.

    Attributes:
        games, wins_0, wins_1, stalemates, drawn, truncated: as in `Tally`.
        illegal: games in which a policy chose an illegal action.
        choices, reshuffles: uint32[2] as in `Tally`; the sums of the low byte, and of all above it, since 32 bits may be too few.
        lengths: uint32[LONGEST + 1] games by number of steps; longer ones count as the last.
    """

    games: Array
    wins_0: Array
    wins_1: Array
    stalemates: Array
    drawn: Array
    truncated: Array
    illegal: Array
    choices: Array
    reshuffles: Array
    lengths: Array


class Limits(NamedTuple):
    """Numbers that may vary without recompiling. `max_steps` is not looked at unless truncation is compiled in."""

    num_games: Array
    max_steps: Array


def start_lanes(batch_size: int, limits: Limits, policies: tuple[Policy, ...], rules: Rules) -> tuple[GameLanes, Array]:
    """Start lanes at the beginning of games 0..batch_size-1, and the index of the next game."""
    index = jnp.arange(batch_size, dtype=jnp.uint32)
    lanes = _fresh(jnp.where(index < limits.num_games, index, NO_WALK), rules, keeps_last=not _all_packed(policies))
    # Every leaf a buffer of its own: the run takes them over.
    return jax.tree.map(jnp.copy, lanes), jnp.uint32(batch_size)


def _fresh(index: Array, rules: Rules, keeps_last: bool) -> GameLanes:
    zero = jnp.zeros_like(index)
    last_action = jnp.full_like(index, game.NO_ACTION, jnp.int8) if keeps_last else None
    return GameLanes(table.new_table(index, rules), index, zero, zero, zero, zero, zero, last_action)


@partial(jax.jit, static_argnames=("policies", "rules", "truncates", "counting", "on"), donate_argnums=0)
def advance_lanes(
    lanes: GameLanes,
    next_index: Array,
    seed: tuple[Array, Array],
    limits: Limits,
    numbers: list[Array],
    *,
    policies: Skeleton,
    rules: Rules,
    truncates: bool,
    counting: bool,
    on: Platform,
) -> tuple[GameLanes, Array, Results | FinishedFirst | Counts]:
    """Take all lanes `NODES_PER_BLOCK * BLOCKS_PER_CALL` nodes further.

    Hand out the games that finished, uint32[blocks, B] (on a GPU uint32[blocks * B], `FinishedFirst`), or if `counting`
    only count them. `numbers` and `policies` are the `static.split` of one policy for each player, or of one for both.
    """
    both = static.join(numbers, policies)
    decide = partial(choose_moves, seed=seed, limits=limits, policies=both, rules=rules, truncates=truncates)

    def decide_next(index: Array, lanes: GameLanes, move: Array) -> Array:
        del index, move
        return decide(lanes)

    def block(carry: tuple[GameLanes, Array, Counts | None], _: None) -> tuple[Any, Any]:
        lanes, next_index, counts = carry
        lanes = walk(lanes, decide(lanes), decide_next, carry_out, num_nodes=NODES_PER_BLOCK)
        lanes, next_index, results = _harvest(lanes, next_index, limits, rules, truncates)
        if counts is None:
            return (lanes, next_index, None), results
        return (lanes, next_index, _count(counts, results)), None

    counts = _no_counts() if counting else None
    (lanes, next_index, counts), results = control.scan(block, (lanes, next_index, counts), None, length=BLOCKS_PER_CALL)
    if counts is not None:
        return lanes, next_index, counts
    return lanes, next_index, _finished_first(results) if on == "gpu" else results


def _finished_first(results: Results) -> FinishedFirst:
    """Move the results of finished games to the front, in one row: the host fetches these alone."""
    flat = jax.tree.map(jnp.ravel, results)
    ended = flat.game_index != NO_WALK
    so_far = jnp.cumsum(ended, dtype=jnp.int32)
    place = jnp.where(ended, so_far - 1, len(ended))

    def put(field: Array) -> Array:
        return jnp.full_like(field, NO_WALK).at[place].set(field, mode="drop", unique_indices=True)

    return FinishedFirst(jax.tree.map(put, flat), so_far[-1])


def _no_counts() -> Counts:
    """Make counts of no games."""
    zero, pair = jnp.zeros((), jnp.uint32), jnp.zeros(2, jnp.uint32)
    others = dict.fromkeys(set(Counts._fields) - {"choices", "reshuffles", "lengths"}, zero)
    return Counts(choices=pair, reshuffles=pair, lengths=jnp.zeros(LONGEST + 1, jnp.uint32), **others)


def _count(counts: Counts, results: Results) -> Counts:
    """Add the games of a block that finished."""
    ended = results.game_index != NO_WALK
    phase, truncated = results.phase, ended & (results.phase == table.PLAY)
    stalemate = ended & ~truncated & (results.hand_0 > 0) & (results.hand_1 > 0)

    def number(where: Array) -> Array:
        return where.sum(dtype=jnp.uint32)

    def total(of: Array) -> Array:
        of = jnp.where(ended, of, np.uint32(0))
        return jnp.stack([part.sum(dtype=jnp.uint32) for part in (of & np.uint32(0xFF), of >> np.uint32(8))])

    length = jnp.where(ended, jnp.minimum(results.num_steps, np.uint32(LONGEST)), np.uint32(LONGEST + 1)).astype(jnp.int32)
    more = Counts(
        games=number(ended),
        wins_0=number(ended & (phase == table.OVER_WON_BY_0)),
        wins_1=number(ended & (phase == table.OVER_WON_BY_1)),
        stalemates=number(stalemate),
        drawn=number(ended & (phase == table.OVER_DRAWN)),
        truncated=number(truncated),
        illegal=number(ended & (results.illegal != 0)),
        choices=total(results.num_choices),
        reshuffles=total(results.num_reshuffles),
        lengths=jnp.zeros_like(counts.lengths).at[length].add(np.uint32(1), mode="drop"),
    )
    return jax.tree.map(jnp.add, counts, more)


def choose_moves(
    lanes: GameLanes, seed: tuple[Array, Array], limits: Limits, policies: tuple[Policy, ...], rules: Rules, truncates: bool
) -> Array:
    """Choose what happens at each lane's node, as a move (see `unojax.table`) for `carry_out`."""
    word, coins = threefry(seed, (lanes.game_index, lanes.node))
    node = table.find_node(lanes.table, rules)
    if _all_packed(policies):
        narrowed = _narrow(policies, lanes.table, node, rules)
        pick, is_illegal = Picked(*bits.choose(bits.where(node.is_decision, narrowed, node.deck), word)), None
        if not all(map(_is_built_in, policies)):
            strange = bits.map_words(lambda chosen, legal: chosen & ~legal, narrowed, node.legal)
            is_illegal = node.is_decision & ((bits.any_of(strange) != 0) | (bits.any_of(narrowed) == 0))
    else:
        played, is_legal = _ask(policies, lanes, node, (word, coins), rules)
        drawn = Picked(*bits.choose(node.deck, word))
        pick = Picked(*(jnp.where(node.is_decision, a, b) for a, b in zip(played, drawn, strict=True)))
        is_illegal = node.is_decision & ~is_legal
    move = table.resolve(lanes.table, node, pick, coins, rules)
    stands_still = (lanes.game_index == NO_WALK) | (lanes.illegal != 0)
    if truncates:
        stands_still |= _is_truncated(lanes, limits)
    if is_illegal is not None:
        move = jnp.where(is_illegal, table.stay(lanes.table) | _ILLEGAL, move)
    return jnp.where(stands_still, table.stay(lanes.table), move)


def carry_out(lanes: GameLanes, move: Array) -> GameLanes:
    """Take every lane one node further."""
    after = table.commit(lanes.table, move)
    last_action = lanes.last_action
    if last_action is not None:
        meta = after.unpack_meta()
        played = (meta.color * np.uint32(cards.NUM_RANKS) + meta.rank).astype(jnp.int8)
        action = jnp.where(table.is_play(move), played, np.int8(cards.DRAW))
        if not isinstance(after.account, tuple):
            action = jnp.where(table.is_challenge(lanes.table, move), np.int8(cards.CHALLENGE), action)
        last_action = jnp.where(table.is_step(move), action, last_action)
    return lanes._replace(
        table=after,
        node=lanes.node + np.uint32(1),
        num_steps=lanes.num_steps + table.is_step(move).astype(jnp.uint32),
        num_choices=lanes.num_choices + table.is_choice(move).astype(jnp.uint32),
        num_reshuffles=lanes.num_reshuffles + table.is_reshuffle(move).astype(jnp.uint32),
        illegal=lanes.illegal | (move >> np.uint32(31)),
        last_action=last_action,
    )


def _all_packed(policies: tuple[Policy, ...]) -> bool:
    return all(isinstance(policy, PackedPolicy) for policy in policies)


def _is_built_in(policy: Policy) -> bool:
    """Tell a policy of this package, which narrows legal options down and leaves some, from one that has to be checked."""
    return type(policy) in (LinearPolicy, LookaheadPolicy) or any(policy is one for one in POLICIES.values())


def _narrow(policies: tuple[Policy, ...], tables: Table, node: Node, rules: Rules) -> Words:
    view = view_at_node(tables, node, rules)
    options = [narrow(policy, view, node.legal) for policy in policies if isinstance(policy, PackedPolicy)]
    return bits.where(node.meta.player == 0, options[0], options[-1])


def _ask(
    policies: tuple[Policy, ...], lanes: GameLanes, node: Node, words: tuple[Array, Array], rules: Rules
) -> tuple[Picked, Array]:
    """Call the policies through their protocol, and check their answers."""
    last_action = lanes.last_action
    assert last_action is not None, "kept for policies like these"

    def ask_one(one_table: Table, last_action: Array, words: tuple[Array, Array]) -> Array:
        state = game.from_table(one_table, rules, last_action=last_action)
        observation = observe(state, state.current_player)
        legal = game.legal_mask(state)
        key = jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")
        return ask(policies, key, observation, legal)

    action = jax.vmap(ask_one)(lanes.table, last_action, words)
    in_range = (action >= 0) & (action < (rules.num_actions if rules.draw_is_option else cards.DRAW))
    pick = table.pick_of(jnp.where(in_range, action, 0).astype(jnp.uint32), rules)
    return pick, in_range & bits.contains(node.legal, pick.word, pick.position)


def _is_truncated(lanes: GameLanes, limits: Limits) -> Array:
    meta = lanes.table.unpack_meta()
    return (meta.phase == table.PLAY) & (meta.to_draw == 0) & (lanes.num_steps >= limits.max_steps)


def _harvest(
    lanes: GameLanes, next_index: Array, limits: Limits, rules: Rules, truncates: bool
) -> tuple[GameLanes, Array, Results]:
    """Hand out the results of finished games and start the next ones in their lanes."""
    phase = lanes.table.unpack_meta().phase
    ended = (phase > table.PLAY) | (lanes.illegal != 0)
    if truncates:
        ended |= _is_truncated(lanes, limits)
    ended &= lanes.game_index != NO_WALK
    results = Results(
        game_index=jnp.where(ended, lanes.game_index, NO_WALK),
        num_steps=lanes.num_steps,
        num_choices=lanes.num_choices,
        num_reshuffles=lanes.num_reshuffles,
        phase=phase,
        hand_0=bits.count(lanes.table.cards_of(table.HAND_0, rules)),
        hand_1=bits.count(lanes.table.cards_of(table.HAND_1, rules)),
        illegal=lanes.illegal,
    )
    index, next_index = refill(ended, next_index, limits.num_games)
    fresh = _fresh(index, rules, keeps_last=lanes.last_action is not None)
    return jax.tree.map(partial(jnp.where, ended), fresh, lanes), next_index, results
