"""A search with mctx in the pgx environment, with random rollouts as leaf values, against random play.

A search may not use the opponent's cards. Each decision therefore first draws a hand for the opponent, uniform over unseen cards,
and searches the game with that hand.

    python examples/search.py
"""

import jax
import jax.numpy as jnp

from unojax.adapters.requirements import needed_by

with needed_by(__file__, "examples"):
    import mctx

    import unojax
    from unojax.adapters.pgx import Uno


def logits(state):
    return jnp.where(state.legal_action_mask, 0.0, jnp.finfo(jnp.float32).min)


def main(num_games: int = 64, num_simulations: int = 32, hand_size: int = 7, num_steps: int = 150) -> float:
    env, key = Uno(unojax.Rules(hand_size=hand_size, first_player="random"), dtype="int8"), jax.random.key(0)

    def step(states, actions, key):
        return jax.vmap(env.step)(states, actions, jax.random.split(key, num_games))

    def evaluate(states, key):
        """Return the result of random play for the player to move in each game."""

        def one(after, key):
            after = step(after, jax.random.categorical(key, logits(after)), jax.random.fold_in(key, 1))
            return after, after.rewards

        rewards = jax.lax.scan(one, states, jax.random.split(key, 60))[1].sum(0)
        return jnp.take_along_axis(rewards, states.current_player[:, None], 1)[:, 0]

    def recurrent(params, key, actions, states):
        after = step(states, actions, key)
        over = after.terminated | after.truncated
        # The sign changes only with the player: after a Skip the same player moves again.
        sign = jnp.where(after.current_player == states.current_player, 1.0, -1.0)
        reward = jnp.take_along_axis(after.rewards, states.current_player[:, None], 1)[:, 0]
        discount, values = jnp.where(over, 0.0, sign), evaluate(after, jax.random.fold_in(key, 1))
        return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits(after), value=values), after

    @jax.jit
    def play(states, key):
        keys = jax.random.split(key, 5)
        guessed = jax.vmap(env.determinize)(states, jax.random.split(keys[0], num_games))
        root = mctx.RootFnOutput(prior_logits=logits(states), value=evaluate(guessed, keys[1]), embedding=guessed)
        found = mctx.gumbel_muzero_policy(None, keys[2], root, recurrent, num_simulations, ~states.legal_action_mask).action
        others = jax.random.categorical(keys[3], logits(states))
        return step(states, jnp.where(states.current_player == 0, found, others), keys[4])

    points, states = jnp.zeros(num_games), jax.jit(jax.vmap(env.init))(jax.random.split(key, num_games))
    for number in range(num_steps):
        states = play(states, jax.random.fold_in(key, number))
        points += states.rewards[:, 0]
    print(f"{num_simulations} simulations a move: {(points > 0).mean():.1%} of {num_games} games won against random play")
    return float((points > 0).mean())


if __name__ == "__main__":
    main()
