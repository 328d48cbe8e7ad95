"""The decisions of one player in recorded games, with what the player believed at each of them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game
from unojax.analysis.following import Recorded, in_parts
from unojax.belief import belief_init, belief_update, history
from unojax.belief.opponents import OpponentModel, uniform_opponent
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules


class Decisions(NamedTuple):
    """D positions in which the player had more than one play, game after game. NumPy.

    Attributes:
        game: int32[D] of the recorded ones.
        observation: `Observation` [D] of the player, who is to move.
        legal: bool[D, 60] the plays, two or more.
        action: int32[D] the one made.
        hands: uint32[D, N] each, what the opponent may hold: packed and canonical.
        log_weights: float32[D, N] of these hands, nats.
        truth: uint32[D] each, what it did hold.
        points: float64[D] of the player in the end: 1, 1/2 or 0.
    """

    game: np.ndarray
    observation: Observation
    legal: np.ndarray
    action: np.ndarray
    hands: Words
    log_weights: np.ndarray
    truth: Words
    points: np.ndarray


def decisions_of(
    key: Array,
    games: Recorded,
    *,
    player: int = 0,
    num_particles: int = 128,
    opponent: OpponentModel = uniform_opponent,
    rules: Rules = Rules(),
) -> Decisions:
    """Follow games with a particle filter, and take out the player's decisions.

    Games without an end are left out.

    Args:
        key: consumed.
        games: what happened.
        player: 0 or 1.
        num_particles: of the filter.
        opponent: how the filter takes the other player to choose.
        rules: of the games.

    Raises:
        ValueError: there is no decision.
    """
    program = partial(_decisions_of_games, player=player, num_particles=num_particles, opponent=opponent, rules=rules)
    is_decision, columns = in_parts(key, games, program)
    ended = games.states.is_over[:, -1]
    which, step = np.nonzero(is_decision & ended[:, None])
    if not which.size:
        raise ValueError("there is no decision in these games: nobody had a choice, or none of them ended")
    observation, legal, hands, log_weights, truth = jax.tree.map(lambda x: x[which, step], columns)
    winner = np.asarray(games.states.winner[which, -1])
    return Decisions(
        game=which.astype(np.int32),
        observation=observation,
        legal=legal,
        action=games.actions[which, step].astype(np.int32),
        hands=hands,
        log_weights=log_weights,
        truth=truth,
        points=np.where(winner == game.NO_WINNER, 0.5, winner == player),
    )


_Row = tuple[Observation, Array, Words, Array, Words]
"""Observation, plays, the cloud and its log weights, the opponent's hand."""


@partial(jax.jit, static_argnames=("player", "num_particles", "opponent", "rules"))
def _decisions_of_games(
    states: State, num_updates: Array, keys: Array, *, player: int, num_particles: int, opponent: OpponentModel, rules: Rules
) -> tuple[Array, _Row]:
    """bool[G, T + 1] which positions are decisions, and a row for each position, of zeros where it is none."""

    def one_game(args: tuple[State, Array, Array]) -> tuple[Array, _Row]:
        states, num_updates, key = args
        num_positions = states.terminated.shape[0]

        def view(t: Array) -> Observation:
            return observe(jax.tree.map(lambda x: x[t], states), player, rules=rules)

        def look(t: Array, belief, out: tuple[Array, _Row]) -> tuple[Array, _Row]:
            seen = view(t)
            legal = seen.legal_mask[: cards.DRAW]
            is_decision = seen.is_my_turn & ~seen.terminated & (seen.legal_mask.sum() > 1)
            theirs = bits.pack(states.hands[t, 1 - player])
            row = seen, legal, bits.canonical(belief.packed), belief.log_weights, theirs
            rows = jax.tree.map(lambda old, new: old.at[t].set(jnp.where(is_decision, new, old[t])), out[1], row)
            return out[0].at[t].set(is_decision), rows

        def one_update(t: Array, carry):
            belief, out = carry
            before, after = view(t), view(t + 1)
            action = history.infer_action(before, after)
            key_update = jax.random.fold_in(key, t)
            belief, _ = belief_update(belief, before, action, after, key_update, opponent=opponent, rules=rules)
            return belief, look(t + 1, belief, out)

        start = view(jnp.int32(0))
        belief = belief_init(
            start, jax.random.fold_in(key, num_positions), num_particles=num_particles, rules=rules, prior="deal"
        )
        cloud = (belief.packed, belief.log_weights)
        row = start, start.legal_mask[: cards.DRAW], *cloud, bits.pack(states.hands[0, 1 - player])
        nothing = jax.tree.map(lambda x: jnp.zeros((num_positions, *x.shape), x.dtype), row)
        out = look(jnp.int32(0), belief, (jnp.zeros(num_positions, bool), nothing))
        return lax.fori_loop(0, num_updates, one_update, (belief, out))[1]

    # One game after the other on CPU, as in `following`.
    over_games = lax.map if jax.default_backend() == "cpu" else lambda f, xs: jax.vmap(f)(xs)
    return over_games(one_game, (states, num_updates, keys))
