"""Self-play: training games, played to their end on the device, with beliefs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from training.checks import check_options, is_not_negative, is_positive, is_share
from unojax import bits, game, table
from unojax.belief.hands import Hands
from unojax.belief.opponents import Opponent, parse_opponent
from unojax.belief.particles import Belief
from unojax.belief.updaters import ParticleFilter
from unojax.bits import Words
from unojax.device.batching import for_chosen, update_chosen
from unojax.device.platform import platform
from unojax.device.tracing import compiled_apart
from unojax.game import Packed
from unojax.observation import Observation, observe_packed
from unojax.policies import LINEAR, POLICIES, get_policy
from unojax.rules import Rules, as_rules
from unojax.search.agents import styles
from unojax.search.monte_carlo import Samples, flat_monte_carlo, sample_hands
from unojax.search.rollouts import Rollouts
from unojax.table import Table, find_node
from unojax.value.features import Outlook, outlook_of_hands, outlook_of_unseen
from unojax.value.heuristic import HEURISTIC
from unojax.value.network import Network, check_network
from unojax.value.plays import value_plays
from unojax.value.pretrained import PRETRAINED, load_network
from unojax.view import View, view_of_table

_CHUNK: Final = {"cpu": 512, "gpu": 4096}
"""Games advanced at a time."""
_BELIEVED: Final = {"cpu": 32, "gpu": 4096}
"""Beliefs updated at a time: on CPU few enough to stay in the cache."""
_SEARCHED: Final = {"cpu": 1024, "gpu": 4096}
"""Decisions searched at a time."""
_ACT, _DRAW, _BELIEF, _SEARCH = range(4)
SELF: Final = "self"
"""The network itself as opponent."""
_MAX_SLOTS: Final = 128
_MAX_PLAYS: Final = 48
"""Capacity of the beliefs under rules with plain steps; the default under others. A game that exceeds it, about one in a
hundred, restarts its belief.
"""


@dataclass(frozen=True)
class SelfPlay:
    """Options of the training games.

    Attributes:
        rules: Rules of the games, as text for `unojax.rules.as_rules`: default, or official,hand_size=5. Training targets wins
            and ignores points.
        opponents: Opponents, in turn: "self", names of policies, or fixed networks that play greedily: "pretrained",
            "heuristic" or files. Games against a single network teach to exploit it.
        belief: "particles", or "unseen": uniform over unseen cards.
        particles: Particles per belief. They take most of the time of the games.
        model: Opponent model of beliefs, one model or several types, see `parse_opponent`.
        temperature: The network's plays are drawn from softmax(values / temperature). 0: the best play.
        explore: Probability of a uniformly random play instead.
        max_steps: Steps per game that are learned from.
        search: Rollouts of each legal play at the network's choices, whose returns teach the differences between plays. 0:
            none. Hands are drawn from the belief; with "unseen" the true hand is used, which averages out over games. Under a
            type mixture, each hand comes with a type, which the opponent follows in the rollout.
        follow_search: Play the search's best play instead of the network's.
        search_weight: Weight of the network's own values, in rollouts, when averaged with a followed search.
    """

    rules: str = "default"
    opponents: tuple[str, ...] = (SELF, SELF, "linear", "linear", "linear", "greedy", "greedy", "scarcest-color")
    belief: Literal["particles", "unseen"] = "particles"
    particles: int = 32
    model: str = "family"
    temperature: float = 0.0
    explore: float = 0.03
    max_steps: int = 192
    search: int = 48
    follow_search: bool = False
    search_weight: float = 0.0

    def __post_init__(self) -> None:
        check_options(self, "play.", "explore", is_share, "must be in [0, 1]")
        check_options(self, "play.", "temperature search search_weight", is_not_negative, "can't be negative")
        check_options(self, "play.", "particles max_steps", is_positive, "must be at least 1")
        as_rules(self.rules)
        parse_opponent(self.model)
        if not self.opponents:
            raise ValueError("play.opponents must name at least one")
        for name in filter(is_network, self.opponents):
            if name not in (PRETRAINED, HEURISTIC) and not Path(name).is_file():
                names = f"{SELF!r} or one of {', '.join(POLICIES)}, {PRETRAINED!r}, {HEURISTIC!r} or a network's file"
                raise ValueError(f"play.opponents must be {names}, got {name!r}")
        if self.search_weight and not self.follow_search:
            raise ValueError("play.search_weight needs a search that is followed: --play.follow-search")
        if self.follow_search and not self.search:
            raise ValueError("play.follow_search needs a search: --play.search 8, for example")

    @property
    def game_rules(self) -> Rules:
        """The rules, without points."""
        return replace(as_rules(self.rules), points=False)

    @property
    def filter(self) -> ParticleFilter | None:
        """Return the particle filter of either player; None with the belief "unseen"."""
        if self.belief == "unseen":
            return None
        max_plays = _MAX_PLAYS if self.game_rules.has_plain_steps else None
        return ParticleFilter(self.particles, parse_opponent(self.model), max_slots=_MAX_SLOTS, max_plays=max_plays)

    @property
    def opponent(self) -> Opponent | None:
        """Return the opponent model of beliefs; None without beliefs."""
        return None if self.filter is None else self.filter.opponent


def is_network(opponent: str) -> bool:
    """Return whether an opponent is a fixed network."""
    return opponent != SELF and opponent not in POLICIES


class Episodes(NamedTuple):
    """G games of at most T steps. Row t is before step t; rows from `num_steps` on are undefined.

    Attributes:
        table: [T, G]. The positions.
        outlook: float16[T, G, 2, ...]. Belief features of each player.
        action: int8[T, G]. Action taken.
        is_choice: bool[T, G]. The network, or the followed search, chose among several plays, without exploration.
        search: float16[T, G, 60], or more (`Rules.num_choices`). The search's estimates of the legal choices, NaN for others
            and without search; or None.
        num_steps: int32[G]. Steps, at most T.
        outcome: float32[G]. Outcome of player 0: 1, -1, or 0 for a draw.
        is_over: bool[G]. The game ended within T steps.
        learns: bool[G, 2]. The network is that player.
        number: int32[G]. Number of the game.
    """

    table: Table
    outlook: Outlook
    action: Array
    is_choice: Array
    search: Array | None
    num_steps: Array
    outcome: Array
    is_over: Array
    learns: Array
    number: Array

    def is_row(self) -> Array:
        """bool[T, G]: the row is valid."""
        return jnp.arange(self.action.shape[0])[:, None] < self.num_steps

    def map_games(self, function: Callable[[Array, int], Array]) -> Episodes:
        """Apply `function(leaf, axis)` to all leaves, with their axis of games: 1 if steps come first."""
        by_step = ("table", "outlook", "action", "is_choice", "search")
        fields = self._asdict().items()
        return Episodes(**{name: jax.tree.map(lambda x, a=int(name in by_step): function(x, a), field) for name, field in fields})


class _Games(NamedTuple):
    """G games in progress: keys, packed states, learning players, and the opponent's index among `SelfPlay.opponents`."""

    key: Array
    state: Packed
    learns: Array
    opponent: Array


class _Row(NamedTuple):
    """The games before a step, and the step: fields of `Episodes`.

    `search` holds estimates if the search was followed. A search for learning only waits until all games are over, because
    batches of a thousand decisions cost a fraction; until then `search` holds its samples.
    """

    table: Table
    outlook: Outlook
    action: Array
    is_choice: Array
    search: Array | Samples | None


def play_episodes(keys: Array, number: Array, network: Network, play: SelfPlay) -> Episodes:
    """Play games with the network, greedily on afterstates except for exploration.

    Pure. Each game is independent of the others, up to rounding in the network.

    Args:
        keys: [G]. One key for each game; consumed.
        number: int32[G]. Number of each game, which determines the opponent and the network's seat.
        network: The network that plays.
        play: Static.
    """
    num_games = len(keys)
    chunk = min(num_games, _CHUNK[platform()])
    games, believes = _deal(keys, number, play)
    beliefs = _Beliefs(games, believes, play.filter)

    def one_row(is_real: Array, games: _Games, hands: Hands | None) -> tuple[_Games, _Row]:
        return _one_step(is_real, games, hands, network, play)

    row = jax.eval_shape(lambda: one_row(jnp.ones(num_games, bool), games, beliefs.hands(beliefs.first()))[1])
    rows = jax.tree.map(lambda r: jnp.zeros((play.max_steps, *r.shape), r.dtype), row)

    def goes_on(carry: tuple[Array, _Games, Belief | None, _Row]) -> Array:
        step, games, _, _ = carry
        return (step < play.max_steps) & ~games.state.is_over.all()

    def one_step(carry: tuple[Array, _Games, Belief | None, _Row]) -> tuple[Array, _Games, Belief | None, _Row]:
        step, before, believed, rows = carry
        now = jax.tree.map(lambda r: r[step], rows)
        after, now = for_chosen(~before.state.is_over, chunk, one_row, (before, beliefs.hands(believed)), (before, now))
        believed = beliefs.update(believed, before, now.action, after)
        return step + 1, after, believed, jax.tree.map(lambda r, n: r.at[step].set(n), rows, now)

    _, games, _, rows = lax.while_loop(goes_on, one_step, (jnp.int32(0), games, beliefs.first(), rows))
    made = Episodes(
        **rows._asdict(),
        num_steps=games.state.step_count,
        outcome=games.state.table.unpack_meta().outcome,
        is_over=games.state.is_over,
        learns=games.learns,
        number=number,
    )
    if not isinstance(made.search, Samples):
        return made
    return made._replace(search=_search_all(keys, made, play, network.config.discount))


def _deal(keys: Array, number: Array, play: SelfPlay) -> tuple[_Games, Array]:
    """Begin G games; also return which players track beliefs, bool[G, 2]."""
    opponent = number % len(play.opponents)
    seat = (number // len(play.opponents)) % 2
    learns = _faces(opponent, SELF, play)[:, None] | (seat[:, None] == np.arange(2))
    state = jax.vmap(lambda key: game.init_packed(jax.random.fold_in(key, 0), play.game_rules))(keys)
    believes = learns
    for network in filter(is_network, dict.fromkeys(play.opponents)):
        believes |= _faces(opponent, network, play)[:, None]
    return _Games(keys, state, learns, opponent), believes


def _faces(opponent: Array, name: str, play: SelfPlay) -> Array:
    """Return which games, int32[G] indices of `SelfPlay.opponents`, have the opponent of a name: bool[G]."""
    return jnp.asarray(np.array([other == name for other in play.opponents]))[opponent]


def _keys(key: Array, step: Array) -> Array:
    """Split a game's key for one step, by purpose."""
    return jax.random.split(jax.random.fold_in(key, 2 + step), 4)


class _Beliefs:
    """Beliefs of the players of G games, [2 G]: index v is player v % 2 of game v // 2; None without a filter.

    Args:
        games: Games at their start.
        believes: bool[G, 2]. Required beliefs.
        filter: Static.
    """

    def __init__(self, games: _Games, believes: Array, filter: ParticleFilter | None):
        self._games, self._believes, self._filter = games, believes, filter
        place = jnp.arange(believes.size)
        self._owners = place // 2, place % 2

    def first(self) -> Belief | None:
        """Return the initial beliefs."""
        if (filter := self._filter) is None:
            return None

        def begin(game: Array, player: Array) -> Belief:
            key, state = jax.tree.map(lambda x: x[game], (self._games.key, self._games.state))
            return filter.init(jax.random.fold_in(jax.random.fold_in(key, 1), player), observe_packed(state, player))

        return jax.vmap(begin)(*self._owners)

    def hands(self, beliefs: Belief | None) -> Hands | None:
        """Return the hand particles of both players of each game, [G, 2, N]."""
        if beliefs is None:
            return None
        return jax.tree.map(lambda x: x.reshape(-1, 2, *x.shape[1:]), jax.vmap(Hands.of)(beliefs))

    def update(self, beliefs: Belief | None, before: _Games, action: Array, after: _Games) -> Belief | None:
        """Condition the required beliefs on a step, int8[G]."""
        if (filter := self._filter) is None:
            return None

        def of_chunk(is_real: Array, beliefs: Belief, game_of: Array, player: Array) -> Belief:
            key, earlier, later, taken = jax.tree.map(lambda x: x[game_of], (before.key, before.state, after.state, action))
            # Without an action nothing changes, and nothing is computed.
            taken = jnp.where(is_real, taken.astype(jnp.int32), game.NO_ACTION)
            keys = jax.vmap(lambda key, step, player: jax.random.fold_in(_keys(key, step)[_BELIEF], player))(
                key, earlier.step_count, player
            )
            seen = [jax.vmap(observe_packed)(states, player) for states in (earlier, later)]
            return jax.vmap(lambda *args: filter.update(*args)[0])(keys, beliefs, seen[0], taken, seen[1])

        needed = (self._believes & ~after.state.is_over[:, None]).reshape(-1)
        return update_chosen(needed, min(len(needed), _BELIEVED[platform()]), of_chunk, self._owners, beliefs)


def _one_step(is_real: Array, games: _Games, hands: Hands | None, network: Network, play: SelfPlay) -> tuple[_Games, _Row]:
    """Advance C games by one step; also return the row before it."""
    state, rules = games.state, play.game_rules
    keys = jax.vmap(_keys)(games.key, state.step_count)
    view, outlook, legal, options = _look(state, hands, play)
    of_mover = partial(_take, state.current_player.astype(jnp.int32))
    mine, of_mine, learns = jax.tree.map(of_mover, (view, outlook, games.learns))
    by_network, has_choice = is_real & learns, legal.sum(-1) > 1
    chooses = legal[:, : rules.num_choices] & (by_network & has_choice)[:, None]
    values, search = _value(network, mine, of_mine, chooses), None
    if play.search:
        believed = _hidden(state) if hands is None else jax.tree.map(of_mover, hands)
        key_hands, key_search = jnp.swapaxes(jax.vmap(jax.random.split)(keys[:, _SEARCH]), 0, 1)
        search = jax.vmap(partial(sample_hands, num=play.search))(key_hands, believed)
        if play.follow_search:
            found = _search(key_search, _observe_mover(state), search, chooses, play, network.config.discount)
            search = jnp.where(chooses, found, jnp.nan).astype(jnp.float16)
            share = play.search / (play.search + play.search_weight)
            values = share * found + (1 - share) * jnp.where(chooses, values, 0.0)
    explores, action = compiled_apart(jax.vmap(partial(_choose, play=play)))(keys[:, _ACT], values, legal)
    # Each of them once, however often it is listed.
    for opponent in dict.fromkeys(play.opponents):
        if opponent != SELF:
            is_theirs = is_real & has_choice & ~by_network & _faces(games.opponent, opponent, play)
            if is_network(opponent):
                asked = legal[:, : rules.num_choices] & is_theirs[:, None]
                theirs = jnp.argmax(_value(_load(opponent, rules), mine, of_mine, asked), -1)
            else:
                theirs = compiled_apart(jax.vmap(get_policy(opponent).choose))(keys[:, _ACT], mine, options)
            action = jnp.where(is_theirs, theirs, action)
    action = jnp.where(has_choice, action, jnp.argmax(legal, -1)).astype(jnp.int32)

    row = _Row(
        table=state.table,
        outlook=jax.tree.map(lambda x: x.astype(jnp.float16), outlook),
        action=action.astype(jnp.int8),
        is_choice=by_network & has_choice & ~explores,
        search=search,
    )
    return games._replace(state=compiled_apart(jax.vmap(game.step_packed))(state, action, keys[:, _DRAW])), row


def _look(state: Packed, hands: Hands | None, play: SelfPlay) -> tuple[View, Outlook, Array, Words]:
    """Observe C games as both players, [C, 2], with their beliefs; also return the mover's legal actions, as mask and packed."""

    @compiled_apart
    def look(state: Packed, hands: Hands | None) -> tuple[View, Outlook, Array, Words]:
        both = jax.tree.map(lambda x: jnp.broadcast_to(x[:, None], (len(x), 2)), state.table)
        view = view_of_table(both, jnp.arange(2, dtype=jnp.uint32), state.rules)
        outlook = outlook_of_unseen(view) if hands is None else outlook_of_hands(view, hands, play.opponent)
        return view, outlook, jax.vmap(game.packed_legal_mask)(state), find_node(state.table, state.rules).options

    return look(state, hands)


@compiled_apart
def _value(network: Network, view: View, outlook: Outlook, legal: Array) -> Array:
    return value_plays(network, view, outlook, legal)


def _load(opponent: str, rules: Rules) -> Network:
    network = load_network(opponent, rules)
    check_network(network, opponent, rules)
    return network


def _hidden(state: Packed) -> Hands:
    """Return the true hands of the opponents: [C, 1]."""
    hands = [state.table.cards_of(owner, state.rules) for owner in (table.HAND_1, table.HAND_0)]
    hidden = bits.canonical(bits.where(state.current_player == 0, *hands))
    return Hands(bits.map_words(lambda word: word[:, None], hidden), jnp.zeros((len(hidden[0]), 1)))


def _search(keys: Array, observation: Observation, samples: Samples, legal: Array, play: SelfPlay, discount: float) -> Array:
    """Search C decisions: float32, of the shape of `legal`, the mean return of each legal choice, -inf for the others."""
    policies, types = styles(LINEAR, play.opponent)
    how = Rollouts(policies, play.game_rules, play.search, discount, types=types)
    estimate = flat_monte_carlo(keys, observation, samples, legal, how)
    return jnp.where(legal, estimate.value, -jnp.inf)


def _search_all(keys: Array, games: Episodes, play: SelfPlay, discount: float) -> Array:
    """Search all choices of the network: float16[T, G, ...], see `Episodes.search`."""
    rules, num_games = play.game_rules, len(keys)
    node = find_node(games.table, rules)
    learns = jnp.where(node.meta.player == 0, games.learns[:, 0], games.learns[:, 1])
    is_due = games.is_row() & learns & (bits.count(node.options) > 1)

    def of_chunk(is_real: Array, at: Array) -> Array:
        step, which = at // num_games, at % num_games
        tables, samples = jax.tree.map(lambda x: x[step, which], (games.table, games.search))
        observation = _observe_mover(jax.vmap(partial(game.begin_packed, rules=rules))(tables))
        legal = jax.vmap(lambda seen: seen.legal_mask[: rules.num_choices])(observation) & is_real[:, None]
        of_step = jax.vmap(_keys)(keys[which], step)[:, _SEARCH]
        key_search = jax.vmap(jax.random.split)(of_step)[:, 1]
        values = _search(key_search, observation, samples, legal, play, discount)
        return jnp.where(legal, values, jnp.nan).astype(jnp.float16)

    nothing = jnp.full((is_due.size, rules.num_choices), jnp.nan, jnp.float16)
    found = for_chosen(is_due.reshape(-1), _SEARCHED[platform()], of_chunk, (jnp.arange(is_due.size),), nothing)
    return found.reshape(*is_due.shape, -1)


def _observe_mover(state: Packed) -> Observation:
    """Observe C games as the players to move."""
    return jax.vmap(lambda one: observe_packed(one, one.current_player))(state)


def _choose(key: Array, values: Array, legal: Array, *, play: SelfPlay) -> tuple[Array, Array]:
    """Choose the network's action; also return whether it explores."""
    key_noise, key_whether, key_which = jax.random.split(key, 3)
    noise = play.temperature * jax.random.gumbel(key_noise, values.shape)
    best = jnp.argmax(jnp.where(legal[: len(values)], values + noise, -jnp.inf))
    explores = jax.random.bernoulli(key_whether, play.explore)
    other = jax.random.categorical(key_which, jnp.where(legal, 0.0, -jnp.inf))
    return explores, jnp.where(explores, other, best)


def _take(player: Array, leaf: Array) -> Array:
    """Select the rows of one player of each game: [C, 2, ...] to [C, ...]."""
    return leaf[jnp.arange(len(player)), player]
