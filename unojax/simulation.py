"""Thousands of games at once: `simulate`.

Games are played in *lanes*. Each lane advances its game node by node (see `unojax.table`); when a game ends, its result is
handed out and the lane starts the next game, so no lane idles for longer than a block of a few nodes. The random word for node
t of game i is Threefry(key, (i, t)): a game depends on the key and its index alone, not on the lane, the batch size or the
other games. Memory on the device is that of the lanes and does not grow with the number of games or steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game, static, table
from unojax.bits import Words
from unojax.observation import observe
from unojax.policies import PackedPolicy, Policy, distinct, uniform, view_of
from unojax.random_bits import key_words, threefry
from unojax.rules import Rules, check_max_steps, is_int
from unojax.static import Skeleton
from unojax.table import Node, Picked, Table

NO_GAME: Final = np.uint32(0xFFFF_FFFF)
_ILLEGAL: Final = np.uint32(1 << 31)
"""Set in a move, above what `unojax.table` uses, where a policy's answer was illegal."""
MAX_GAMES: Final = 2**31
"""Games that one key numbers."""

# Nodes between two looks for finished games: a longer block idles more (half a block per game of some 120 nodes), a shorter one
# looks more often.
NODES_PER_BLOCK: Final = 16
BLOCKS_PER_CALL: Final = 8

MOST_LANES: Final = {"cpu": 2**14, "gpu": 2**20}
_GAMES_PER_LANE: Final = {"cpu": 8, "gpu": 1}

Policies = tuple[Policy, Policy]


@dataclass(frozen=True)
class Games:
    """Results of G complete games, NumPy arrays in the order of the game index.

    Attributes:
        winner: int8[G] player 0 or 1; -1 for a drawn or truncated game.
        num_steps: int32[G] plays and draws of both players, a draw of several cards being one.
        num_choices: int32[G] plays with more than one legal action.
        num_reshuffles: int32[G] times the pile went back into the deck.
        hand_sizes: int8[G, 2] cards left in each player's hand.
        truncated: bool[G] cut off by `max_steps`.
    """

    winner: np.ndarray
    num_steps: np.ndarray
    num_choices: np.ndarray
    num_reshuffles: np.ndarray
    hand_sizes: np.ndarray
    truncated: np.ndarray

    def __len__(self) -> int:
        return len(self.winner)

    def __getitem__(self, index: slice) -> Games:
        return Games(*(getattr(self, f.name)[index] for f in fields(self)))

    @property
    def stalemate(self) -> np.ndarray:
        """bool[G]: ended by an impossible draw, both hands still held."""
        return ~self.truncated & (self.hand_sizes > 0).all(axis=1)


class Lanes(NamedTuple):
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
    """What a finished game leaves behind, uint32[B] each; `game_index` is 2^32 - 1 where none finished."""

    game_index: Array
    num_steps: Array
    num_choices: Array
    num_reshuffles: Array
    phase: Array
    hand_0: Array
    hand_1: Array
    illegal: Array


def simulate(
    key: Array,
    num_games: int,
    policies: Policies = (uniform, uniform),
    *,
    rules: Rules = Rules(),
    batch_size: int | None = None,
    max_steps: int | None = None,
) -> Games:
    """Play exactly `num_games` complete games; player p follows `policies[p]`.

    Every game that is begun is finished and counted, so short games are not favoured. For a given key the results do not depend
    on `batch_size`.

    Args:
        key: a threefry2x32 key (the default kind); game i uses the random stream (key, i).
        num_games: 1 .. 2^31.
        policies: any two policies; a `PackedPolicy` runs packed, any other is called through the protocol, with one-hot
            observations.
        rules: static.
        batch_size: games in progress at a time; the device's default if None.
        max_steps: truncate games after that many steps, instead of `rules.max_steps`.

    Raises:
        ValueError: an argument is out of range, or a policy chose an illegal action.
    """
    results = Collector(num_games)
    for finished in stream(key, num_games, policies, rules=rules, batch_size=batch_size, max_steps=max_steps):
        results.add(finished)
    return results.prefix()


@dataclass(frozen=True)
class Finished:
    """A handful of finished games, in no particular order: their indices int64[n] and results."""

    index: np.ndarray
    games: Games


class Collector:
    """Puts finished games in order of their index.

    Args:
        num_games: how many there will be.
    """

    def __init__(self, num_games: int):
        self._games = Games(
            winner=np.full(num_games, game.NO_WINNER, np.int8),
            num_steps=np.zeros(num_games, np.int32),
            num_choices=np.zeros(num_games, np.int32),
            num_reshuffles=np.zeros(num_games, np.int32),
            hand_sizes=np.zeros((num_games, 2), np.int8),
            truncated=np.zeros(num_games, bool),
        )
        self._done = np.zeros(num_games, bool)

    @property
    def num_done(self) -> int:
        """Games finished so far."""
        return int(np.count_nonzero(self._done))

    def add(self, finished: Finished) -> None:
        """Take in finished games."""
        for field in fields(Games):
            getattr(self._games, field.name)[finished.index] = getattr(finished.games, field.name)
        self._done[finished.index] = True

    def prefix(self) -> Games:
        """The games before the first unfinished one.

        All finished games together would favour short ones, since of the games in progress the long ones are still missing.
        """
        return self._games[: len(self._done) if self._done.all() else int(np.argmin(self._done))]


def stream(
    key: Array,
    num_games: int,
    policies: Policies = (uniform, uniform),
    *,
    rules: Rules = Rules(),
    batch_size: int | None = None,
    max_steps: int | None = None,
) -> Iterator[Finished]:
    """`simulate` as an iterator over finished games, a few milliseconds of work apart; arguments and errors as there."""
    if not (is_int(num_games) and 1 <= num_games <= MAX_GAMES):
        raise ValueError(f"num_games must be an integer in [1, {MAX_GAMES}], got {num_games!r}")
    if len(policies) != 2 or not all(callable(p) for p in policies):
        raise ValueError(f"policies must be two callables, one for each player, got {policies!r}")
    if batch_size is None:
        batch_size = default_batch_size(num_games)
    if not (is_int(batch_size) and batch_size >= 1):
        raise ValueError(f"batch_size must be None or an integer of at least 1, got {batch_size!r}")
    check_max_steps(max_steps)
    max_steps = rules.max_steps if max_steps is None else max_steps
    numbers, skeleton = static.split(distinct(policies))
    run = partial(
        advance_lanes,
        policies=skeleton,
        rules=rules,
        truncates=max_steps is not None,
        backend=jax.default_backend(),
    )
    seed = key_words(key)
    limits = Limits(jnp.uint32(num_games), jnp.uint32(max_steps or 0))
    lanes, next_index = start_lanes(batch_size, limits, policies, rules)
    num_done = 0
    while num_done < num_games:
        lanes, next_index, results = run(lanes, next_index, seed, limits, numbers)
        finished = _to_host(results, policies)
        num_done += len(finished.index)
        yield finished


def default_batch_size(num_games: int) -> int:
    """Games in progress at a time for a run of so many.

    On CPU what stays in the second-level cache, and few enough that most lanes are busy until the end; on GPU what fills the
    device. A power of two, so that runs of similar size share their compiled program.
    """
    backend = "cpu" if jax.default_backend() == "cpu" else "gpu"
    lanes = -(-num_games // _GAMES_PER_LANE[backend])
    return min(MOST_LANES[backend], 1 << (lanes - 1).bit_length())


class Limits(NamedTuple):
    """Numbers that may vary without recompiling.

    Attributes:
        num_games: games in all.
        max_steps: steps after which a game is truncated; not looked at unless truncation is compiled in.
    """

    num_games: Array
    max_steps: Array


def start_lanes(batch_size: int, limits: Limits, policies: tuple[Policy, ...], rules: Rules) -> tuple[Lanes, Array]:
    """Lanes at the beginning of games 0..batch_size-1, and the index of the next game."""
    index = jnp.arange(batch_size, dtype=jnp.uint32)
    zero = jnp.zeros_like(index)
    lanes = Lanes(
        table=table.new_table(index, rules),
        game_index=jnp.where(index < limits.num_games, index, NO_GAME),
        node=zero,
        num_steps=zero,
        num_choices=zero,
        num_reshuffles=zero,
        illegal=zero,
        last_action=None if _all_packed(policies) else zero.astype(jnp.int8) + np.int8(game.NO_ACTION),
    )
    # Every leaf a buffer of its own: the run takes them over.
    return jax.tree.map(jnp.copy, lanes), jnp.uint32(batch_size)


@partial(jax.jit, static_argnames=("policies", "rules", "truncates", "backend"), donate_argnums=0)
def advance_lanes(
    lanes: Lanes,
    next_index: Array,
    seed: tuple[Array, Array],
    limits: Limits,
    numbers: list[Array],
    *,
    policies: Skeleton,
    rules: Rules,
    truncates: bool,
    backend: str,
) -> tuple[Lanes, Array, Results]:
    """The device program: all lanes `NODES_PER_BLOCK * BLOCKS_PER_CALL` nodes further, and the games that finished
    (uint32[blocks, B]). `numbers` and `policies` are the `static.split` of one policy for each player, or of one for both."""

    both = static.join(numbers, policies)
    decide = partial(choose_moves, seed=seed, limits=limits, policies=both, rules=rules, truncates=truncates)

    def one_node(_: Any, carry: tuple[Lanes, Array]) -> tuple[Lanes, Array]:
        # What the loop hands on is decided but not carried out: a move is one word, so the compiler, which builds each array
        # handed on in a loop of its own and repeats in it all that the array depends on, decides once and not once per array.
        lanes = carry_out(*carry)
        return lanes, decide(lanes)

    def block(carry: tuple[Lanes, Array], _: None) -> tuple[tuple[Lanes, Array], Results]:
        lanes, next_index = carry
        # On a GPU several nodes become one kernel, which keeps the games in registers.
        undone = lax.fori_loop(1, NODES_PER_BLOCK, one_node, (lanes, decide(lanes)), unroll=1 if backend == "cpu" else 4)
        lanes, next_index, results = _harvest(carry_out(*undone), next_index, limits, rules, truncates)
        return (lanes, next_index), results

    (lanes, next_index), results = lax.scan(block, (lanes, next_index), None, length=BLOCKS_PER_CALL)
    return lanes, next_index, results


def choose_moves(
    lanes: Lanes, seed: tuple[Array, Array], limits: Limits, policies: tuple[Policy, ...], rules: Rules, truncates: bool
) -> Array:
    """What happens at each lane's node, as a move (see `unojax.table`) for `carry_out`."""
    word, coins = threefry(seed, (lanes.game_index, lanes.node))
    node = table.find_node(lanes.table, rules)
    if _all_packed(policies):
        options = bits.where(node.is_decision, _narrow(policies, lanes.table, node, rules), node.deck)
        pick, is_illegal = Picked(*bits.choose(options, word)), None
    else:
        played, is_legal = _ask(policies, lanes, node, (word, coins), rules)
        drawn = Picked(*bits.choose(node.deck, word))
        pick = Picked(*(jnp.where(node.is_decision, a, b) for a, b in zip(played, drawn, strict=True)))
        is_illegal = node.is_decision & ~is_legal
    move = table.resolve(lanes.table, node, pick, coins, rules)
    stands_still = (lanes.game_index == NO_GAME) | (lanes.illegal != 0)
    if truncates:
        stands_still |= _is_truncated(lanes, limits)
    if is_illegal is not None:
        move = jnp.where(is_illegal, table.stay(lanes.table) | _ILLEGAL, move)
    return jnp.where(stands_still, table.stay(lanes.table), move)


def carry_out(lanes: Lanes, move: Array) -> Lanes:
    """Every lane one node further."""
    after = table.commit(lanes.table, move)
    last_action = lanes.last_action
    if last_action is not None:
        meta = after.unpack_meta()
        played = (meta.color * np.uint32(cards.NUM_RANKS) + meta.rank).astype(jnp.int8)
        action = jnp.where(table.is_play(move), played, np.int8(cards.DRAW))
        last_action = jnp.where(table.is_step(move), action, last_action)
    return Lanes(
        table=after,
        game_index=lanes.game_index,
        node=lanes.node + np.uint32(1),
        num_steps=lanes.num_steps + table.is_step(move),
        num_choices=lanes.num_choices + table.is_choice(move),
        num_reshuffles=lanes.num_reshuffles + table.is_reshuffle(move),
        illegal=lanes.illegal | (move >> np.uint32(31)),
        last_action=last_action,
    )


def _all_packed(policies: tuple[Policy, ...]) -> bool:
    return all(isinstance(policy, PackedPolicy) for policy in policies)


def _narrow(policies: tuple[Policy, ...], tables: Table, node: Node, rules: Rules) -> Words:
    view = view_of(tables, node, rules)
    options = [policy.narrow(view, node.legal) for policy in policies if isinstance(policy, PackedPolicy)]
    return bits.where(node.meta.player == 0, options[0], options[-1])


def _ask(
    policies: tuple[Policy, ...], lanes: Lanes, node: Node, words: tuple[Array, Array], rules: Rules
) -> tuple[Picked, Array]:
    """Call the policies through their protocol, and check their answers."""
    last_action = lanes.last_action
    assert last_action is not None, "kept for policies like these"

    def ask_one(one_table: Table, last_action: Array, words: tuple[Array, Array]) -> Array:
        state = game.from_table(
            one_table,
            rewards=jnp.zeros(2, jnp.float32),
            truncated=jnp.bool_(False),
            step_count=jnp.int32(0),
            error=jnp.uint8(0),
            last_action=last_action,
            rules=rules,
        )
        observation = observe(state, state.current_player, rules=rules)
        legal = game.legal_mask(state, rules=rules)
        key = jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")
        actions = [jnp.asarray(policy(key, observation, legal), jnp.int32) for policy in policies]
        return jnp.where(state.current_player == 0, actions[0], actions[-1])

    action = jax.vmap(ask_one)(lanes.table, last_action, words)
    in_range = (action >= 0) & (action < cards.DRAW)
    action = jnp.where(in_range, action, 0).astype(jnp.uint32)
    color, bit = action // cards.NUM_RANKS, bits.rank_bit(action % cards.NUM_RANKS)
    is_legal = in_range & ((bits.word_at(node.legal, color) & bit) != 0)
    return Picked(color, lax.population_count(bit - np.uint32(1))), is_legal


def _is_truncated(lanes: Lanes, limits: Limits) -> Array:
    meta = lanes.table.unpack_meta()
    return (meta.phase == table.PLAY) & (meta.to_draw == 0) & (lanes.num_steps >= limits.max_steps)


def _harvest(lanes: Lanes, next_index: Array, limits: Limits, rules: Rules, truncates: bool) -> tuple[Lanes, Array, Results]:
    """Hand out the results of finished games and start the next ones in their lanes."""
    phase = lanes.table.unpack_meta().phase
    ended = (phase > table.PLAY) | (lanes.illegal != 0)
    if truncates:
        ended |= _is_truncated(lanes, limits)
    ended &= lanes.game_index != NO_GAME
    results = Results(
        game_index=jnp.where(ended, lanes.game_index, NO_GAME),
        num_steps=lanes.num_steps,
        num_choices=lanes.num_choices,
        num_reshuffles=lanes.num_reshuffles,
        phase=phase,
        hand_0=bits.count(lanes.table.cards_of(table.HAND_0, rules)),
        hand_1=bits.count(lanes.table.cards_of(table.HAND_1, rules)),
        illegal=lanes.illegal,
    )
    rank = jnp.cumsum(ended, dtype=jnp.uint32)
    # Indices are compared before they are added up, so that they cannot wrap around.
    left = limits.num_games - jnp.minimum(next_index, limits.num_games)
    index = jnp.where(rank <= left, next_index + rank - np.uint32(1), NO_GAME)
    next_index = next_index + jnp.minimum(rank[-1], left)

    zero = jnp.zeros_like(index)
    last_action = lanes.last_action
    fresh = Lanes(
        table=table.new_table(index, rules),
        game_index=index,
        node=zero,
        num_steps=zero,
        num_choices=zero,
        num_reshuffles=zero,
        illegal=zero,
        last_action=None if last_action is None else jnp.full_like(last_action, game.NO_ACTION),
    )
    return jax.tree.map(partial(jnp.where, ended), fresh, lanes), next_index, results


def _to_host(results: Results, policies: Policies) -> Finished:
    index = np.asarray(results.game_index).ravel()
    at = np.flatnonzero(index != NO_GAME)
    index = index[at].astype(np.int64)
    illegal, phase, hand_0, hand_1, num_steps, num_choices, num_reshuffles = (
        np.asarray(a).ravel()[at]
        for a in (
            results.illegal,
            results.phase,
            results.hand_0,
            results.hand_1,
            results.num_steps,
            results.num_choices,
            results.num_reshuffles,
        )
    )
    if illegal.any():
        raise ValueError(
            f"a policy of {policies!r} chose an illegal action in game {index[np.argmax(illegal)]} (one of "
            f"{np.count_nonzero(illegal)} such games so far); a policy must return an action whose legal_mask is True"
        )
    winner = np.select([phase == table.OVER_WON_BY_0, phase == table.OVER_WON_BY_1], [0, 1], game.NO_WINNER)
    return Finished(
        index,
        Games(
            winner=winner.astype(np.int8),
            num_steps=num_steps.astype(np.int32),
            num_choices=num_choices.astype(np.int32),
            num_reshuffles=num_reshuffles.astype(np.int32),
            hand_sizes=np.stack([hand_0, hand_1], axis=1).astype(np.int8),
            truncated=phase == table.PLAY,
        ),
    )
