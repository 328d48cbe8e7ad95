"""PPO for UNO by self-play, entirely on the device: games by `unojax.rollout`, a network in Flax, updates by Optax.

python examples/ppo.py --minutes 2
"""

import argparse
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

import unojax
from unojax.adapters.requirements import needed_by

with needed_by(__file__, "examples"):
    import optax
    from flax import nnx

SLOTS, ROWS, EPOCHS, BATCHES, LEARNING_RATE = 1024, 32, 2, 8, 1e-3
TRACE, CLIP, ENTROPY, VALUE = 0.9, 0.2, 0.02, 0.5
FIELDS = ("observation", "legal_mask", "action", "player", "reward", "terminated")


class ActorCritic(nnx.Module):
    """Log-probabilities of the actions, and the expected reward of the player to move. Colours are relative to the active one."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        self.layers = nnx.List([nnx.Linear(size, width, rngs=rngs) for size in (2 * 108 + 15 + 22, width)])
        self.actor = nnx.Linear(width, 61, kernel_init=nnx.initializers.zeros, rngs=rngs)
        self.critic = nnx.Linear(width, 1, kernel_init=nnx.initializers.zeros, rngs=rngs)

    def __call__(self, seen, legal_mask):
        by_color = [jnp.roll(cards.reshape(4, 27), -seen.color, axis=0).reshape(-1) for cards in (seen.hand, seen.pile)]
        counts = jnp.stack([seen.hand_count, seen.opponent_count])
        counts = jnp.minimum(counts, 10)[:, None] == jnp.arange(11)
        x = jnp.concatenate([*by_color, seen.top_rank == jnp.arange(15), counts.reshape(-1)]).astype(jnp.float32)
        for layer in self.layers:
            x = nnx.relu(layer(x))
        plays, draw = jnp.split(self.actor(x), [60])
        logits = jnp.concatenate([jnp.roll(plays.reshape(4, 15), seen.color, axis=0).reshape(-1), draw])
        return jax.nn.log_softmax(jnp.where(legal_mask, logits, -1e9)), jnp.tanh(self.critic(x)[0])


class Training(NamedTuple):
    params: nnx.State
    optimizer: optax.OptState
    slots: unojax.Slots


class Sample(NamedTuple):
    rows: unojax.Transitions
    advantage: jax.Array
    target: jax.Array


def make_functions(graph, transform, key):
    """Return the policy, and one iteration of training."""

    def policy(params, key, seen, legal_mask):
        log_probs, value = nnx.merge(graph, params)(seen, legal_mask)
        action = jax.random.categorical(key, log_probs)
        return action, {"log_prob": log_probs[action], "value": value}

    def advantages(rows, last_value):
        """Return generalised advantages, accumulated for player 0 because a player may move twice in a row."""
        sign = 1.0 - 2.0 * rows.player
        value, reward, goes_on = rows.extras["value"] * sign, rows.reward[..., 0], 1.0 - rows.terminated

        def earlier(carry, row):
            value, advantage = carry
            own, reward, goes_on, valid = row
            target, advantage = reward + goes_on * value, goes_on * advantage
            advantage = jnp.where(valid, target - own + TRACE * advantage, advantage)
            # A row without a decision passes on the values of later rows.
            return (jnp.where(valid, own, target), advantage), advantage

        last = last_value, jnp.zeros_like(last_value)
        _, found = jax.lax.scan(earlier, last, (value, reward, goes_on, rows.valid), reverse=True)
        return found * sign

    def loss(params, sample):
        rows, model = sample.rows, nnx.merge(graph, params)
        log_probs, value = jax.vmap(model)(rows.observation, rows.legal_mask)
        ratio = jnp.exp(jnp.take_along_axis(log_probs, rows.action[:, None], 1)[:, 0] - rows.extras["log_prob"])
        gain = jnp.minimum(ratio * sample.advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * sample.advantage)
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1)
        total = VALUE * (value - sample.target) ** 2 - gain - ENTROPY * entropy
        return jnp.mean(total, where=rows.valid)

    def update(carry, sample):
        params, optimizer = carry
        changes, optimizer = transform.update(jax.grad(loss)(params, sample), optimizer, params)
        return (optax.apply_updates(params, changes), optimizer), None

    @partial(jax.jit, donate_argnums=0)
    def iterate(state):
        slots, rows = unojax.rollout(key, policy, state.params, state.slots, ROWS, fields=FIELDS, choices_only=True)
        _, last_value = jax.vmap(nnx.merge(graph, state.params))(slots.observation, slots.legal_mask)
        advantage = advantages(rows, last_value * (1.0 - 2.0 * slots.player))
        target = rows.extras["value"] + advantage
        mean, spread = (of(advantage, where=rows.valid) for of in (jnp.mean, jnp.std))
        sample = Sample(rows, (advantage - mean) / spread, target)
        # Each batch contains a part of the slots.
        batches = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(ROWS, BATCHES, -1, *x.shape[2:]), 1, 0), sample)
        batches = jax.tree.map(lambda x: x.reshape(BATCHES, -1, *x.shape[3:]), batches)
        learned = state.params, state.optimizer
        for _ in range(EPOCHS):
            learned, _ = jax.lax.scan(update, learned, batches)
        return Training(*learned, slots), rows.valid.sum()

    return policy, iterate


def win_rate(policy, params, games=4096):
    """Return the share of wins against uniform play, with alternating seats, in the first game of each slot."""
    results = []
    for seat in (0, 1):
        both, of_both = ((policy, "uniform"), (params, None)) if seat == 0 else (("uniform", policy), (None, params))
        key = jax.random.key(1_000 + seat)
        slots = unojax.start_slots(key, games // 2)
        _, rows = unojax.rollout(key, both, of_both, slots, 150, fields=("reward", "terminated", "game"), choices_only=True)
        first = rows.terminated & (rows.game < games // 2)
        results.append(jnp.mean(rows.reward[..., seat] > 0, where=first))
    return sum(results) / 2


def train(minutes=2.0, iterations=10**9, seed=0, width=128):
    """Train for some minutes or iterations; return the policy and its parameters."""
    graph, params = nnx.split(ActorCritic(width, rngs=nnx.Rngs(seed)))
    transform = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(LEARNING_RATE))
    key = jax.random.key(seed)
    policy, iterate = make_functions(graph, transform, key)
    state = Training(params, transform.init(params), unojax.start_slots(key, SLOTS))
    began, choices, done = time.time(), 0, 0
    while done < iterations and time.time() - began < 60 * minutes:
        state, number = iterate(state)
        choices, done = choices + int(number), done + 1
    unojax.check_slots(state.slots)
    print(f"{done} iterations, {choices:,} choices, {choices / (time.time() - began):,.0f} a second with compiling")
    return policy, state.params


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="time to train for (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of network and games (%(default)s)")
    parser.add_argument("--width", type=int, default=128, help="units of each layer (%(default)s)")
    policy, params = train(**vars(parser.parse_args()))
    print(f"{jax.jit(partial(win_rate, policy))(params):.1%} of the games won against uniform play")
