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
from unojax.batching import for_chosen
from unojax.belief import Belief, belief_init, belief_update
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import LINEAR, PackedPolicy
from unojax.rules import Rules
from unojax.search.agents import default_num_lanes
from unojax.search.monte_carlo import flat_monte_carlo, sample_hands
from unojax.search.rollouts import Leaf
from unojax.table import Table
from unojax.value.features import Outlook, outlook_of_hands, outlook_of_unseen, position_of
from unojax.value.network import Network
from unojax.value.plays import value_known, value_plays

SELF: Final = "self"
"""As an opponent: the network itself."""
_MAX_SLOTS: Final = 128
_MAX_PLAYS: Final = 48
"""Of the beliefs; a game that outgrows them begins its belief anew, which happens to one game in some thousand."""
_CHUNK: Final = {"cpu": 512, "gpu": 4096}
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
    """G games in progress: keys, `State`, [G, 2] beliefs (none with "unseen"), who learns, and the opponent's number."""

    key: Array
    state: State
    belief: Belief | None
    learns: Array
    opponent: Array


class _Row(NamedTuple):
    table: Table
    outlook: Outlook
    action: Array
    is_choice: Array
    search: Array | None


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
    chunk = min(num_games, _CHUNK["cpu" if jax.default_backend() == "cpu" else "gpu"])
    kind = number % len(play.opponents)
    is_self = jnp.asarray(np.array([opponent == SELF for opponent in play.opponents]))[kind]
    seat = (number // len(play.opponents)) % 2
    learns = is_self[:, None] | (seat[:, None] == np.arange(2))

    def start(key: Array) -> tuple[State, Belief | None]:
        state = game.init(jax.random.fold_in(key, 0), rules=rules)
        return state, None if play.belief == "unseen" else jax.vmap(partial(_first_belief, key, state, play))(jnp.arange(2))

    lanes = _Lanes(keys, *jax.vmap(start)(keys), learns, kind)
    row = jax.eval_shape(lambda lanes: _one_step(jnp.ones(num_games, bool), lanes, network, play)[1], lanes)
    rows = jax.tree.map(lambda r: jnp.zeros((play.max_steps, *r.shape), r.dtype), row)

    def goes_on(carry: tuple[Array, _Lanes, _Row]) -> Array:
        step, lanes, _ = carry
        return (step < play.max_steps) & ~lanes.state.is_over.all()

    def one_step(carry: tuple[Array, _Lanes, _Row]) -> tuple[Array, _Lanes, _Row]:
        step, lanes, rows = carry
        now = jax.tree.map(lambda r: r[step], rows)
        work = partial(_one_step, network=network, play=play)
        lanes, now = for_chosen(~lanes.state.is_over, chunk, work, (lanes,), (lanes, now))
        return step + 1, lanes, jax.tree.map(lambda r, n: r.at[step].set(n), rows, now)

    _, lanes, rows = lax.while_loop(goes_on, one_step, (jnp.int32(0), lanes, rows))
    winner = lanes.state.winner
    return Games(
        table=rows.table,
        outlook=rows.outlook,
        action=rows.action,
        is_choice=rows.is_choice,
        search=rows.search,
        num_steps=lanes.state.step_count,
        outcome=jnp.where(winner == game.NO_WINNER, 0.0, jnp.where(winner == 0, 1.0, -1.0)),
        is_over=lanes.state.is_over,
        learns=learns,
        number=number,
    )


def _first_belief(key: Array, state: State, play: Play, player: Array) -> Belief:
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


def _one_step(is_real: Array, lanes: _Lanes, network: Network, play: Play) -> tuple[_Lanes, _Row]:
    """One step of C games, and the row of what was before it."""
    rules, state, num = play.rules, lanes.state, len(is_real)
    keys = jax.vmap(lambda key, step: jax.random.split(jax.random.fold_in(key, 2 + step), 4))(lanes.key, state.step_count)
    both = jax.vmap(lambda state: jax.vmap(partial(observe, state, rules=rules))(jnp.arange(2)))
    observation = both(state)
    position = position_of(observation)
    if lanes.belief is None:
        hands, outlook = None, outlook_of_unseen(position)
    else:
        hands = jax.vmap(jax.vmap(lambda belief: belief.packed))(lanes.belief), jnp.exp(lanes.belief.log_weights)
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
        searched = _search(keys[:, _SEARCH], network, mine, believed, chooses, play)
    if searched is not None and play.follow_search:
        values = searched
    else:
        values = value_plays(network, position_of(mine), jax.tree.map(of_mover, outlook), chooses, rules=rules)
    explores, action = jax.vmap(partial(_choose, play=play))(keys[:, _ACT], values, legal)
    for number, opponent in enumerate(play.opponents):
        if opponent != SELF:
            theirs = jax.vmap(opponent)(keys[:, _ACT], mine, legal)
            action = jnp.where(by_network | (lanes.opponent != number), action, theirs)
    action = jnp.where(has_choice, action, jnp.argmax(legal, -1)).astype(jnp.int32)

    after = jax.vmap(partial(game.step, rules=rules))(state, action, keys[:, _DRAW])
    belief = lanes.belief
    if belief is not None:

        def update(belief: Belief, before: State, after: State, player: Array, action: Array, key: Array) -> Belief:
            seen = [observe(s, player, rules=rules) for s in (before, after)]
            return belief_update(belief, seen[0], action, seen[1], jax.random.fold_in(key, player), rules=rules)[0]

        # No action: nothing is believed and nothing changes.
        learned = jnp.where(lanes.learns & (is_real & ~after.is_over)[:, None], action[:, None], game.NO_ACTION)
        flat = jax.tree.map(lambda x: x.reshape(2 * num, *x.shape[2:]), (belief, learned))
        twice = jax.tree.map(lambda x: jnp.repeat(x, 2, axis=0), (state, after, keys[:, _BELIEF]))
        updated = jax.vmap(update)(flat[0], twice[0], twice[1], jnp.arange(2 * num) % 2, flat[1], twice[2])
        belief = jax.tree.map(lambda x: x.reshape(num, 2, *x.shape[1:]), updated)

    row = _Row(
        table=jax.vmap(game.to_table)(state),
        outlook=jax.tree.map(lambda x: x.astype(jnp.float16), outlook),
        action=action.astype(jnp.int8),
        is_choice=by_network & has_choice & ~explores,
        search=None if searched is None else jnp.where(chooses, searched, jnp.nan).astype(jnp.float16),
    )
    return lanes._replace(state=after, belief=belief), row


def _search(
    keys: Array, network: Network, observation: Observation, hands: tuple[Words, Array], legal: Array, play: Play
) -> Array:
    """float32[C, 60]: the mean return of each legal play, -inf for the others."""
    pairs = jax.vmap(jax.random.split)(keys)
    samples = jax.vmap(partial(sample_hands, num=play.search))(pairs[:, 0], hands[0], jnp.log(hands[1]))
    estimate = flat_monte_carlo(
        pairs[:, 1],
        observation,
        samples,
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
