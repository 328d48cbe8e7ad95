"""Games for the network to learn from, played to their end on the device, with beliefs carried along."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game
from unojax.belief import Belief, belief_init, belief_update
from unojax.bits import Words
from unojax.device.batching import for_chosen
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import LINEAR, PackedPolicy
from unojax.rules import Rules
from unojax.search.agents import default_num_lanes
from unojax.search.monte_carlo import flat_monte_carlo, sample_hands
from unojax.search.rollouts import Leaf
from unojax.table import Table
from unojax.value.features import Outlook, outlook_of_hands, outlook_of_unseen
from unojax.value.network import Network
from unojax.value.plays import value_known, value_plays
from unojax.view import view_of

SELF: Final = "self"
"""As an opponent: the network itself."""
_MAX_SLOTS: Final = 128
_MAX_PLAYS: Final = 48
"""Of the beliefs; a game that outgrows them begins its belief anew, which happens to one game in some thousand."""
_CHUNK: Final = {"cpu": 512, "gpu": 4096}
"""Games that move at a time."""
_BELIEF_CHUNK: Final = {"cpu": 32, "gpu": 4096}
"""Beliefs updated at a time: on CPU so few that they stay in the cache."""
_SEARCHED: Final = 1024
"""Decisions searched at a time."""
_ACT, _DRAW, _BELIEF, _SEARCH = range(4)


@dataclass(frozen=True)
class Play:
    """How games are played.

    Attributes:
        opponents: of the network, in turn: "self" or policies.
        belief: "particles", or "unseen" for beliefs that take any unseen card for as likely as another.
        particles: of each belief.
        temperature: the network's plays are drawn from softmax(values / temperature); 0: the best one.
        explore: probability of a uniformly random play instead.
        max_steps: games are learned from up to here.
        search: rollouts of each legal play at the network's choices, whose returns the network learns the differences between
            plays from; 0: none. Hands are drawn from the belief; with "unseen" it is the true one, which averages out over games.
        search_depth: steps that rollouts follow the linear policy before the network values them; 0: to the end of the game.
        follow_search: the search's best play is played, and not the network's.
        search_weight: a search that is followed is averaged with the network's own values, which count as so many rollouts.
        rules: of the game.
    """

    opponents: tuple[PackedPolicy | Literal["self"], ...] = (SELF,)
    belief: Literal["particles", "unseen"] = "particles"
    particles: int = 64
    temperature: float = 0.0
    explore: float = 0.0
    max_steps: int = 192
    search: int = 0
    search_depth: int = 0
    follow_search: bool = False
    search_weight: float = 0.0
    rules: Rules = Rules()


class Games(NamedTuple):
    """G games of at most T steps. Row t is before step t; nothing in rows at and after `num_steps` counts.

    Attributes:
        table: [T, G] the positions.
        outlook: float16[T, G, 2, ...] what each player believes.
        action: int8[T, G] taken.
        is_choice: bool[T, G] the network, or the search in its place, chose among several plays and not at random.
        search: float16[T, G, 60] the search's estimates of the legal plays, NaN for others and where it did not search; or None.
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


class _Lanes(NamedTuple):
    """G games in progress: keys, `State`, who learns, and the opponent's number."""

    key: Array
    state: State
    learns: Array
    opponent: Array


class _Row(NamedTuple):
    table: Table
    outlook: Outlook
    action: Array
    is_choice: Array
    search: _Search | None


class _Search(NamedTuple):
    """What is to be searched: bool[...] whether, and R hands that the opponent may hold, uint32[..., R] each; or what was found.

    A search that is followed is done at once. One that is only learned from waits until all games are over: searched together, a
    thousand decisions at a time, they cost a fraction.
    """

    is_due: Array
    hands: Words
    estimates: Array | None


def play_games(keys: Array, number: Array, network: Network, play: Play) -> Games:
    """Play games with the network, greedily on afterstates up to exploration.

    Pure, and the same for each game whatever the others are, up to rounding in the network.

    Args:
        keys: [G], one for each game; consumed.
        number: int32[G] of each game: says who the opponent is and which seat the network has.
        network: plays.
        play: static.
    """
    rules, num_games = play.rules, len(keys)
    platform = "cpu" if jax.default_backend() == "cpu" else "gpu"
    chunk, belief_chunk = min(num_games, _CHUNK[platform]), min(2 * num_games, _BELIEF_CHUNK[platform])
    kind = number % len(play.opponents)
    is_self = jnp.asarray(np.array([opponent == SELF for opponent in play.opponents]))[kind]
    seat = (number // len(play.opponents)) % 2
    learns = is_self[:, None] | (seat[:, None] == np.arange(2))

    lanes = _Lanes(keys, jax.vmap(lambda key: game.init(jax.random.fold_in(key, 0), rules=rules))(keys), learns, kind)
    # View v is player v % 2 of game v // 2.
    game_of, player_of = jnp.arange(2 * num_games) // 2, jnp.arange(2 * num_games) % 2
    beliefs = None
    if play.belief == "particles":
        first = partial(_first_belief, play=play)
        beliefs = jax.vmap(first)(*jax.tree.map(lambda x: x[game_of], (lanes.key, lanes.state)), player_of)

    def clouds(beliefs: Belief | None) -> tuple[Words, Array] | None:
        """What an outlook needs of beliefs, [G, 2, N]."""
        if beliefs is None:
            return None
        return jax.tree.map(lambda x: x.reshape(num_games, 2, -1), (beliefs.cloud.hand, beliefs.log_weights))

    row = jax.eval_shape(
        lambda lanes, clouds: _one_step(jnp.ones(num_games, bool), lanes, clouds, network, play)[1], lanes, clouds(beliefs)
    )
    rows = jax.tree.map(lambda r: jnp.zeros((play.max_steps, *r.shape), r.dtype), row)

    def goes_on(carry: tuple[Array, _Lanes, Belief | None, _Row]) -> Array:
        step, lanes, _, _ = carry
        return (step < play.max_steps) & ~lanes.state.is_over.all()

    def one_step(carry: tuple[Array, _Lanes, Belief | None, _Row]) -> tuple[Array, _Lanes, Belief | None, _Row]:
        step, before, beliefs, rows = carry
        now = jax.tree.map(lambda r: r[step], rows)
        work = partial(_one_step, network=network, play=play)
        after, now = for_chosen(~before.state.is_over, chunk, work, (before, clouds(beliefs)), (before, now))
        if beliefs is not None:
            needed = (learns & ~after.state.is_over[:, None]).reshape(-1)
            update = partial(_update_beliefs, before=before, after=after.state, action=now.action, play=play)
            beliefs = for_chosen(needed, belief_chunk, update, (beliefs, game_of, player_of), beliefs)
        return step + 1, after, beliefs, jax.tree.map(lambda r, n: r.at[step].set(n), rows, now)

    _, lanes, _, rows = lax.while_loop(goes_on, one_step, (jnp.int32(0), lanes, beliefs, rows))
    search = None
    if rows.search is not None:
        search = _search_all(keys, rows, network, play) if rows.search.estimates is None else rows.search.estimates
    winner = lanes.state.winner
    return Games(
        table=rows.table,
        outlook=rows.outlook,
        action=rows.action,
        is_choice=rows.is_choice,
        search=search,
        num_steps=lanes.state.step_count,
        outcome=jnp.where(winner == game.NO_WINNER, 0.0, jnp.where(winner == 0, 1.0, -1.0)),
        is_over=lanes.state.is_over,
        learns=learns,
        number=number,
    )


def _first_belief(key: Array, state: State, player: Array, *, play: Play) -> Belief:
    key = jax.random.fold_in(jax.random.fold_in(key, 1), player)
    observation = observe(state, player, rules=play.rules)
    return belief_init(
        observation,
        key,
        num_particles=play.particles,
        rules=play.rules,
        prior="deal",
        max_slots=_MAX_SLOTS,
        max_plays=_MAX_PLAYS,
    )


def _keys(key: Array, step: Array) -> Array:
    """Keys of a game for one step, by purpose."""
    return jax.random.split(jax.random.fold_in(key, 2 + step), 4)


def _update_beliefs(
    is_real: Array, beliefs: Belief, game_of: Array, player: Array, *, before: _Lanes, after: State, action: Array, play: Play
) -> Belief:
    """C beliefs after a step of the games that they are about."""
    rules = play.rules
    key, earlier, later, taken = jax.tree.map(lambda x: x[game_of], (before.key, before.state, after, action))
    # No action: nothing is believed and nothing changes.
    taken = jnp.where(is_real, taken.astype(jnp.int32), game.NO_ACTION)
    keys = jax.vmap(lambda key, step, player: jax.random.fold_in(_keys(key, step)[_BELIEF], player))(
        key, earlier.step_count, player
    )
    seen = [jax.vmap(partial(observe, rules=rules))(states, player) for states in (earlier, later)]
    update = jax.vmap(lambda *args: belief_update(*args, rules=rules)[0])
    return update(beliefs, seen[0], taken, seen[1], keys)


def _one_step(
    is_real: Array, lanes: _Lanes, clouds: tuple[Words, Array] | None, network: Network, play: Play
) -> tuple[_Lanes, _Row]:
    """One step of C games, and the row of what was before it."""
    rules, state, num = play.rules, lanes.state, len(is_real)
    keys = jax.vmap(_keys)(lanes.key, state.step_count)
    both = jax.vmap(lambda state: jax.vmap(partial(observe, state, rules=rules))(jnp.arange(2)))
    observation = both(state)
    position = view_of(observation)
    if clouds is None:
        hands, outlook = None, outlook_of_unseen(position)
    else:
        hands = bits.canonical(clouds[0]), jnp.exp(clouds[1])
        outlook = outlook_of_hands(position, *hands)

    mover = state.current_player.astype(jnp.int32)
    of_mover = partial(_take, mover)
    legal = jax.vmap(partial(game.legal_mask, rules=rules))(state)
    plays = legal[:, : cards.DRAW]
    by_network = is_real & of_mover(lanes.learns)
    has_choice = legal.sum(-1) > 1
    chooses = plays & (by_network & has_choice)[:, None]
    mine = jax.tree.map(of_mover, observation)
    searched = None
    if play.search:
        if hands is None:
            hidden = jax.vmap(lambda state: state.hands[1 - state.current_player])(state)
            believed = bits.map_words(lambda word: word[:, None], bits.pack(hidden)), jnp.ones((num, 1))
        else:
            believed = jax.tree.map(of_mover, hands)
        key_hands, key_search = jnp.swapaxes(jax.vmap(jax.random.split)(keys[:, _SEARCH]), 0, 1)
        samples = jax.vmap(partial(sample_hands, num=play.search))(key_hands, believed[0], jnp.log(believed[1]))
        searched = _Search(chooses.any(-1), samples, None)
    values = value_plays(network, view_of(mine), jax.tree.map(of_mover, outlook), chooses)
    if searched is not None and play.follow_search:
        found = _search(key_search, network, mine, samples, chooses, play)
        searched = searched._replace(estimates=jnp.where(chooses, found, jnp.nan).astype(jnp.float16))
        share = play.search / (play.search + play.search_weight)
        values = share * found + (1 - share) * jnp.where(chooses, values, 0.0)
    explores, action = jax.vmap(partial(_choose, play=play))(keys[:, _ACT], values, legal)
    for number, opponent in enumerate(play.opponents):
        if opponent != SELF:
            theirs = jax.vmap(opponent)(keys[:, _ACT], mine, legal)
            action = jnp.where(by_network | (lanes.opponent != number), action, theirs)
    action = jnp.where(has_choice, action, jnp.argmax(legal, -1)).astype(jnp.int32)

    after = jax.vmap(partial(game.step, rules=rules))(state, action, keys[:, _DRAW])

    row = _Row(
        table=jax.vmap(game.to_table)(state),
        outlook=jax.tree.map(lambda x: x.astype(jnp.float16), outlook),
        action=action.astype(jnp.int8),
        is_choice=by_network & has_choice & ~explores,
        search=searched,
    )
    return lanes._replace(state=after), row


def _search(keys: Array, network: Network, observation: Observation, hands: Words, legal: Array, play: Play) -> Array:
    """float32[C, 60]: the mean return of each legal play, -inf for the others."""
    estimate = flat_monte_carlo(
        keys,
        observation,
        hands,
        legal,
        policies=(LINEAR,),
        rules=play.rules,
        num_samples=play.search,
        discount=1.0,
        stop=0.0,
        num_lanes=default_num_lanes(len(legal)),
        leaf=Leaf(play.search_depth, partial(value_known, network, play.rules)) if play.search_depth else None,
    )
    return jnp.where(legal, estimate.value, -jnp.inf)


def _search_all(keys: Array, rows: _Row, network: Network, play: Play) -> Array:
    """float16[T, G, 60]: what searches of all decisions that are due found; see `Games.search`."""
    assert rows.search is not None
    is_due = rows.search.is_due
    num_games = is_due.shape[1]
    size = -(-is_due.size // _SEARCHED) * _SEARCHED
    (index,) = jnp.nonzero(is_due.reshape(-1), size=size, fill_value=is_due.size)
    number = is_due.sum()

    def one_chunk(i: Array, found: Array) -> Array:
        at = lax.dynamic_slice(index, [i * _SEARCHED], [_SEARCHED])
        step, which = at // num_games, at % num_games
        tables, hands = jax.tree.map(lambda x: x[step, which], (rows.table, rows.search.hands))
        observation = jax.vmap(partial(_observation_of_mover, rules=play.rules))(tables)
        legal = jax.vmap(lambda seen: seen.legal_mask[: cards.DRAW])(observation)
        legal &= (i * _SEARCHED + jnp.arange(_SEARCHED) < number)[:, None]
        of_step = jax.vmap(_keys)(keys[which], step)[:, _SEARCH]
        key_search = jax.vmap(jax.random.split)(of_step)[:, 1]
        values = _search(key_search, network, observation, hands, legal, play)
        return found.at[at].set(jnp.where(legal, values, jnp.nan).astype(jnp.float16), mode="drop")

    nothing = jnp.full((is_due.size, cards.DRAW), jnp.nan, jnp.float16)
    found = lax.fori_loop(0, (number + _SEARCHED - 1) // _SEARCHED, one_chunk, nothing)
    return found.reshape(*is_due.shape, cards.DRAW)


def _observation_of_mover(tables: Table, *, rules: Rules) -> Observation:
    """What the player to move sees of a table."""
    state = game.from_table(tables, rules)
    return observe(state, state.current_player, rules=rules)


def _choose(key: Array, values: Array, legal: Array, *, play: Play) -> tuple[Array, Array]:
    """Whether the network explores, and its action."""
    key_noise, key_whether, key_which = jax.random.split(key, 3)
    noise = play.temperature * jax.random.gumbel(key_noise, values.shape)
    best = jnp.argmax(jnp.where(legal[: cards.DRAW], values + noise, -jnp.inf))
    explores = jax.random.bernoulli(key_whether, play.explore)
    other = jax.random.categorical(key_which, jnp.where(legal, 0.0, -jnp.inf))
    return explores, jnp.where(explores, other, best)


def _take(player: Array, leaf: Array) -> Array:
    """The rows of one player of each game: [C, 2, ...] to [C, ...]."""
    return leaf[jnp.arange(len(player)), player]
