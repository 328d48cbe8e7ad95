"""Self-play: games for the network to learn from, played to their end on the device, with beliefs carried along."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from training.value.options import SELF, SelfPlay, is_network
from unojax import bits, game
from unojax.belief.hands import Hands
from unojax.belief.particles import Belief
from unojax.belief.updaters import ParticleFilter
from unojax.device.batching import for_chosen, update_chosen
from unojax.device.platform import platform
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import LINEAR, get_policy
from unojax.rules import Rules
from unojax.search.agents import default_num_lanes, styles
from unojax.search.monte_carlo import Samples, flat_monte_carlo, sample_hands
from unojax.search.rollouts import Rollouts
from unojax.table import Table
from unojax.value.features import Outlook, outlook_of_hands, outlook_of_unseen
from unojax.value.network import Network, check_network
from unojax.value.plays import value_plays
from unojax.value.pretrained import load_network
from unojax.view import view_of

_CHUNK: Final = {"cpu": 512, "gpu": 4096}
"""Games that move at a time."""
_BELIEVED: Final = {"cpu": 32, "gpu": 4096}
"""Beliefs updated at a time: on CPU so few that they stay in the cache."""
_SEARCHED: Final = {"cpu": 1024, "gpu": 4096}
"""Decisions searched at a time."""
_ACT, _DRAW, _BELIEF, _SEARCH = range(4)


class Episodes(NamedTuple):
    """G games of at most T steps. Row t is before step t; nothing in rows at and after `num_steps` counts.

    Attributes:
        table: [T, G] the positions.
        outlook: float16[T, G, 2, ...] what each player believes.
        action: int8[T, G] taken.
        is_choice: bool[T, G] the network, or the search in its place, chose among several plays and not at random.
        search: float16[T, G, 60], or more (`Rules.num_choices`), the search's estimates of the legal choices, NaN for
            others and where it did not search; or None.
        num_steps: int32[G] steps, at most T.
        outcome: float32[G] of player 0: 1, -1, or 0 for a drawn game.
        is_over: bool[G] the game ended within T steps.
        learns: bool[G, 2] the network is that player.
        number: int32[G] of the game.
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
        """bool[T, G]: the row counts."""
        return jnp.arange(self.action.shape[0])[:, None] < self.num_steps

    def map_games(self, function: Callable[[Array, int], Array]) -> Episodes:
        """Apply `function(leaf, axis)` to all leaves, with their axis of games: 1 where steps come first."""
        by_step = ("table", "outlook", "action", "is_choice", "search")
        fields = self._asdict().items()
        return Episodes(**{name: jax.tree.map(lambda x, a=int(name in by_step): function(x, a), field) for name, field in fields})


class _InPlay(NamedTuple):
    """G games in progress: keys, `State`, who learns, and the opponent's place among `SelfPlay.opponents`."""

    key: Array
    state: State
    learns: Array
    opponent: Array


class _Moment(NamedTuple):
    """One row of `Episodes`: the games before a step, and the step."""

    table: Table
    outlook: Outlook
    action: Array
    is_choice: Array
    search: _Search | None


class _Search(NamedTuple):
    """Searches to be done, and their estimates once they are.

    A search that is followed is done at once. One that is only learned from waits until all games are over: searched together, a
    thousand decisions at a time, they cost a fraction.

    Attributes:
        is_due: bool[...].
        samples: [..., R], the hands that rollouts are dealt, and the types of the opponent.
        estimates: float16[..., 60], or more (`Rules.num_choices`); or None.
    """

    is_due: Array
    samples: Samples
    estimates: Array | None


def play_episodes(keys: Array, number: Array, network: Network, play: SelfPlay) -> Episodes:
    """Play games with the network, greedily on afterstates up to exploration.

    Pure, and the same for each game whatever the others are, up to rounding in the network.

    Args:
        keys: [G], one for each game; consumed.
        number: int32[G] of each game: says who the opponent is and which seat the network has.
        network: plays.
        play: static.
    """
    num_games = len(keys)
    chunk, belief_chunk = min(num_games, _CHUNK[platform()]), min(2 * num_games, _BELIEVED[platform()])
    kind = number % len(play.opponents)

    def against(chosen: Callable[[str], bool]) -> Array:
        return jnp.asarray(np.array([chosen(opponent) for opponent in play.opponents]))[kind, None]

    seat = (number // len(play.opponents)) % 2
    learns = against(lambda opponent: opponent == SELF) | (seat[:, None] == np.arange(2))
    believes = learns | against(is_network)

    games = _InPlay(keys, jax.vmap(lambda key: game.init(jax.random.fold_in(key, 0), rules=play.game_rules))(keys), learns, kind)
    # View v is player v % 2 of game v // 2.
    game_of, player_of = jnp.arange(2 * num_games) // 2, jnp.arange(2 * num_games) % 2
    beliefs: Belief | None = None
    if play.filter is not None:
        key, state = jax.tree.map(lambda x: x[game_of], (games.key, games.state))
        beliefs = jax.vmap(partial(_first_belief, filter=play.filter))(key, state, player_of)

    def clouds(beliefs: Belief | None) -> Hands | None:
        """Take from beliefs what an outlook needs, [G, 2, N]."""
        if beliefs is None:
            return None
        clouds = Hands(beliefs.cloud.hand, beliefs.log_weights, jax.vmap(lambda belief: belief.log_joint)(beliefs))
        return jax.tree.map(lambda x: x.reshape(num_games, 2, *x.shape[1:]), clouds)

    row = jax.eval_shape(
        lambda games, clouds: _one_step(jnp.ones(num_games, bool), games, clouds, network, play)[1], games, clouds(beliefs)
    )
    rows = jax.tree.map(lambda r: jnp.zeros((play.max_steps, *r.shape), r.dtype), row)

    def goes_on(carry: tuple[Array, _InPlay, Belief | None, _Moment]) -> Array:
        step, games, _, _ = carry
        return (step < play.max_steps) & ~games.state.is_over.all()

    def one_step(carry: tuple[Array, _InPlay, Belief | None, _Moment]) -> tuple[Array, _InPlay, Belief | None, _Moment]:
        step, before, beliefs, rows = carry
        now = jax.tree.map(lambda r: r[step], rows)
        work = partial(_one_step, network=network, play=play)
        after, now = for_chosen(~before.state.is_over, chunk, work, (before, clouds(beliefs)), (before, now))
        if play.filter is not None:
            needed = (believes & ~after.state.is_over[:, None]).reshape(-1)
            update = partial(_update_beliefs, before=before, after=after.state, action=now.action, filter=play.filter)
            beliefs = update_chosen(needed, belief_chunk, update, (game_of, player_of), beliefs)
        return step + 1, after, beliefs, jax.tree.map(lambda r, n: r.at[step].set(n), rows, now)

    _, games, _, rows = lax.while_loop(goes_on, one_step, (jnp.int32(0), games, beliefs, rows))
    search = None
    if rows.search is not None:
        search = rows.search.estimates
        if search is None:
            search = _search_all(keys, rows.table, rows.search, play)
    winner = games.state.winner
    return Episodes(
        table=rows.table,
        outlook=rows.outlook,
        action=rows.action,
        is_choice=rows.is_choice,
        search=search,
        num_steps=games.state.step_count,
        outcome=jnp.where(winner == game.NO_WINNER, 0.0, jnp.where(winner == 0, 1.0, -1.0)),
        is_over=games.state.is_over,
        learns=learns,
        number=number,
    )


def _first_belief(key: Array, state: State, player: Array, *, filter: ParticleFilter) -> Belief:
    key = jax.random.fold_in(jax.random.fold_in(key, 1), player)
    return filter.init(key, observe(state, player))


def _keys(key: Array, step: Array) -> Array:
    """Split a game's key for one step, by purpose."""
    return jax.random.split(jax.random.fold_in(key, 2 + step), 4)


def _update_beliefs(
    is_real: Array,
    beliefs: Belief,
    game_of: Array,
    player: Array,
    *,
    before: _InPlay,
    after: State,
    action: Array,
    filter: ParticleFilter,
) -> Belief:
    """Condition C beliefs on a step of the games that they are about."""
    key, earlier, later, taken = jax.tree.map(lambda x: x[game_of], (before.key, before.state, after, action))
    # No action: nothing is believed and nothing changes.
    taken = jnp.where(is_real, taken.astype(jnp.int32), game.NO_ACTION)
    keys = jax.vmap(lambda key, step, player: jax.random.fold_in(_keys(key, step)[_BELIEF], player))(
        key, earlier.step_count, player
    )
    seen = [jax.vmap(observe)(states, player) for states in (earlier, later)]
    return jax.vmap(lambda *args: filter.update(*args)[0])(keys, beliefs, seen[0], taken, seen[1])


def _one_step(is_real: Array, games: _InPlay, clouds: Hands | None, network: Network, play: SelfPlay) -> tuple[_InPlay, _Moment]:
    """Take C games one step further; also returns the row of what was before it."""
    state, num = games.state, len(is_real)
    keys = jax.vmap(_keys)(games.key, state.step_count)
    observation = jax.vmap(lambda state: jax.vmap(partial(observe, state))(jnp.arange(2)))(state)
    view = view_of(observation)
    if clouds is None:
        hands, outlook = None, outlook_of_unseen(view)
    else:
        hands = clouds._replace(packed=bits.canonical(clouds.packed))
        outlook = outlook_of_hands(view, hands, play.opponent)

    of_mover = partial(_take, state.current_player.astype(jnp.int32))
    legal = jax.vmap(game.legal_mask)(state)
    choices = legal[:, : play.game_rules.num_choices]
    by_network = is_real & of_mover(games.learns)
    has_choice = legal.sum(-1) > 1
    chooses = choices & (by_network & has_choice)[:, None]
    mine, of_mine = jax.tree.map(of_mover, (observation, outlook))
    values = value_plays(network, view_of(mine), of_mine, chooses)
    searched = None
    if play.search:
        if hands is None:
            hidden = jax.vmap(lambda state: state.hands[1 - state.current_player])(state)
            believed = Hands(bits.map_words(lambda word: word[:, None], bits.pack(hidden)), jnp.zeros((num, 1)))
        else:
            believed = jax.tree.map(of_mover, hands)
        key_hands, key_search = jnp.swapaxes(jax.vmap(jax.random.split)(keys[:, _SEARCH]), 0, 1)
        samples = jax.vmap(partial(sample_hands, num=play.search))(key_hands, believed)
        searched = _Search(chooses.any(-1), samples, None)
        if play.follow_search:
            found = _search(key_search, mine, samples, chooses, play)
            searched = searched._replace(estimates=jnp.where(chooses, found, jnp.nan).astype(jnp.float16))
            share = play.search / (play.search + play.search_weight)
            values = share * found + (1 - share) * jnp.where(chooses, values, 0.0)
    explores, action = jax.vmap(partial(_choose, play=play))(keys[:, _ACT], values, legal)
    for number, opponent in enumerate(play.opponents):
        if opponent == SELF:
            continue
        is_theirs = ~by_network & (games.opponent == number)
        if is_network(opponent):
            asked = choices & (is_real & has_choice & is_theirs)[:, None]
            theirs = jnp.argmax(value_plays(_load(opponent, play.game_rules), view_of(mine), of_mine, asked), -1)
        else:
            theirs = jax.vmap(get_policy(opponent))(keys[:, _ACT], mine, legal)
        action = jnp.where(is_theirs, theirs, action)
    action = jnp.where(has_choice, action, jnp.argmax(legal, -1)).astype(jnp.int32)

    after = jax.vmap(game.step)(state, action, keys[:, _DRAW])
    row = _Moment(
        table=jax.vmap(game.to_table)(state),
        outlook=jax.tree.map(lambda x: x.astype(jnp.float16), outlook),
        action=action.astype(jnp.int8),
        is_choice=by_network & has_choice & ~explores,
        search=searched,
    )
    return games._replace(state=after), row


def _load(opponent: str, rules: Rules) -> Network:
    network = load_network(opponent)
    check_network(network, opponent, rules)
    return network


def _search(keys: Array, observation: Observation, samples: Samples, legal: Array, play: SelfPlay) -> Array:
    """Search C decisions: float32, of the shape of `legal`, the mean return of each legal choice, -inf for the others."""
    rules = play.game_rules
    policies, types = styles(LINEAR, play.opponent)
    how = Rollouts(policies, rules, play.search, default_num_lanes(len(legal)), types=types)
    estimate = flat_monte_carlo(keys, observation, samples, legal, how)
    return jnp.where(legal, estimate.value, -jnp.inf)


def _search_all(keys: Array, tables: Table, search: _Search, play: SelfPlay) -> Array:
    """Do all searches that are due, at tables [T, G]: float16[T, G, ...], see `Episodes.search`."""
    is_due, rules = search.is_due, play.game_rules
    num_games = is_due.shape[1]

    def of_chunk(is_real: Array, at: Array) -> Array:
        step, which = at // num_games, at % num_games
        table, samples = jax.tree.map(lambda x: x[step, which], (tables, search.samples))
        observation = jax.vmap(partial(_observe_mover, rules=rules))(table)
        legal = jax.vmap(lambda seen: seen.legal_mask[: rules.num_choices])(observation) & is_real[:, None]
        of_step = jax.vmap(_keys)(keys[which], step)[:, _SEARCH]
        key_search = jax.vmap(jax.random.split)(of_step)[:, 1]
        values = _search(key_search, observation, samples, legal, play)
        return jnp.where(legal, values, jnp.nan).astype(jnp.float16)

    nothing = jnp.full((is_due.size, rules.num_choices), jnp.nan, jnp.float16)
    found = for_chosen(is_due.reshape(-1), _SEARCHED[platform()], of_chunk, (jnp.arange(is_due.size),), nothing)
    return found.reshape(*is_due.shape, -1)


def _observe_mover(table: Table, rules: Rules) -> Observation:
    """Show a table to the player to move."""
    state = game.from_table(table, rules)
    return observe(state, state.current_player)


def _choose(key: Array, values: Array, legal: Array, *, play: SelfPlay) -> tuple[Array, Array]:
    """Choose the network's action; also says whether it explores."""
    key_noise, key_whether, key_which = jax.random.split(key, 3)
    noise = play.temperature * jax.random.gumbel(key_noise, values.shape)
    best = jnp.argmax(jnp.where(legal[: len(values)], values + noise, -jnp.inf))
    explores = jax.random.bernoulli(key_whether, play.explore)
    other = jax.random.categorical(key_which, jnp.where(legal, 0.0, -jnp.inf))
    return explores, jnp.where(explores, other, best)


def _take(player: Array, leaf: Array) -> Array:
    """Take the rows of one player of each game: [C, 2, ...] to [C, ...]."""
    return leaf[jnp.arange(len(player)), player]
