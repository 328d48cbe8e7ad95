"""A search with mctx in the pgx environment, its leaves valued by the network that comes along, against random play.

A search may not look at the opponent's cards, so each decision first draws a hand that the opponent may hold from the cards not
seen, and searches the game in which it holds that.

python examples/search.py
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import mctx

import unojax
from unojax import cards, value
from unojax.adapters.pgx import Uno

NETWORK = value.load_pretrained()


def guess(state, key):
    """The same position with another hand for the opponent, from the cards that the player to move has not seen."""
    position = state._seats.state
    me = position.current_player.astype(jnp.int32)
    seen = unojax.observe(position, me)
    hand = unojax.belief_init(seen, key, num_particles=1).particles[0]
    hands = jnp.where(jnp.arange(2)[:, None] == me, position.hands, hand)
    deck = cards.onehot(seen.unseen - cards.counts(hand))
    return state.replace(_seats=replace(state._seats, state=replace(position, hands=hands, deck=deck)))


def evaluate(state):
    """The network's value, -1 to 1, for the player to move."""
    position = state._seats.state
    view = unojax.view_of(unojax.observe(position, position.current_player))
    return 2 * NETWORK(value.features(view, value.outlook_of_unseen(view))).win_prob - 1


def logits(state):
    return jnp.where(state.legal_action_mask, 0.0, jnp.finfo(jnp.float32).min)


def main(num_games: int = 128, num_simulations: int = 32, hand_size: int = 7, num_steps: int = 150) -> float:
    env, key = Uno(unojax.Rules(hand_size=hand_size, first_player="random")), jax.random.key(0)

    def step(states, actions, key):
        return jax.vmap(env.step)(states, actions, jax.random.split(key, num_games))

    def recurrent(params, key, actions, states):
        after = step(states, actions, key)
        over = after.terminated | after.truncated
        # The sign changes only if the turn does: after a Skip the same player moves again.
        sign = jnp.where(after.current_player == states.current_player, 1.0, -1.0)
        reward = jnp.take_along_axis(after.rewards, states.current_player[:, None], 1)[:, 0]
        discount, values = jnp.where(over, 0.0, sign), jnp.where(over, 0.0, jax.vmap(evaluate)(after))
        return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits(after), value=values), after

    @jax.jit
    def play(states, key):
        keys = jax.random.split(key, 4)
        guessed = jax.vmap(guess)(states, jax.random.split(keys[0], num_games))
        root = mctx.RootFnOutput(prior_logits=logits(states), value=jax.vmap(evaluate)(guessed), embedding=guessed)
        found = mctx.gumbel_muzero_policy(None, keys[1], root, recurrent, num_simulations, ~states.legal_action_mask).action
        others = jax.random.categorical(keys[2], logits(states))
        return step(states, jnp.where(states.current_player == 0, found, others), keys[3])

    points, states = jnp.zeros(num_games), jax.jit(jax.vmap(env.init))(jax.random.split(key, num_games))
    for number in range(num_steps):
        states = play(states, jax.random.fold_in(key, number))
        points += states.rewards[:, 0]
    print(f"{num_simulations} simulations a move: {(points > 0).mean():.1%} of {num_games} games won against random play")
    return float((points > 0).mean())


if __name__ == "__main__":
    main()
