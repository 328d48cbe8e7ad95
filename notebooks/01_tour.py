# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # unojax in five minutes
#
# Two-player UNO as pure functions on arrays of fixed shape. In this notebook you
#
# - play one game, and a million games,
# - track a belief over the opponent's hand,
# - search for the best play, and ask a network for its estimate,
# - compare two agents, and play on a board.

# %%
import os
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import unojax
from unojax import analysis, cards, value, viz
from unojax.belief import summary
from unojax.search.monte_carlo import choose
from unojax.viz.charts import chart_style
from unojax.widget import Board

mpl.rcParams.update(chart_style())
SCALE = float(os.environ.get("UNOJAX_NOTEBOOK_SCALE", "1"))

# %% [markdown]
# ## A game
#
# `init` deals a game. A notebook displays a state as a picture. Player 0 moves first.

# %%
state = unojax.init(jax.random.key(9))
state

# %% [markdown]
# `legal_mask` marks the legal ones of 61 actions: each action plays a card and declares a colour, or draws. Play is forced, so
# drawing is legal only without a playable card.

# %%
legal = unojax.legal_mask(state)
print(legal.shape, [unojax.format_action(int(action)) for action in jnp.flatnonzero(legal)])

# %% [markdown]
# `step` plays an action. With two players a Reverse is a Skip, so the same player moves again. The random key determines drawn
# cards: the deck has no order, so no state contains the next card.

# %%
state = unojax.step(state, unojax.parse_action("RR"), jax.random.key(0))
assert state.current_player == 0
state

# %% [markdown]
# `observe` returns what one player may know. Policies, searches and beliefs receive observations, never a state.

# %%
seen = unojax.observe(state, 1)
print(unojax.format_observation(seen))
seen

# %% [markdown]
# ## Many games
#
# All of these functions are pure and take one game, and `vmap` and `jit` batch them. Here the position above is played to its end a
# thousand times, with random play of both players.


# %%
def rollout(key, state, num_steps=400):
    """Play at random from here: the winner 0 or 1, or -1 for neither within `num_steps`."""

    def one_step(state, key):
        key_policy, key_draw = jax.random.split(key)
        observation, legal = unojax.observe(state, state.current_player), unojax.legal_mask(state)
        return unojax.step(state, unojax.uniform(key_policy, observation, legal), key_draw), None

    return jax.lax.scan(one_step, state, jax.random.split(key, num_steps))[0].winner


keys = jax.random.split(jax.random.key(3), max(200, int(1000 * SCALE)))
winners = jax.jit(jax.vmap(rollout, in_axes=(0, None)))(keys, state)
print(f"player 0 wins {analysis.estimate_mean(winners == 0):.0%}")

# %% [markdown]
# For whole games from the deal, `simulate` is far faster.

# %%
num_games = max(10_000, int(1_000_000 * SCALE))
scarcest = unojax.get_policy("scarcest-color")
games = unojax.simulate(jax.random.key(4), num_games, (scarcest, unojax.uniform))
points = analysis.estimate_mean(np.where(games.winner < 0, 0.5, games.winner == 0))
print(
    f"{len(games):,} games: getting rid of the colour held least "
    f"wins {points:.1%} against random play"
)
assert points.interval[0] > 0.5

# %% tags=["hide-input"] jupyter={"source_hidden": true}
figure, axes = plt.subplots(figsize=(8, 3))
axes.hist(games.num_steps, bins=np.arange(0, 202, 2), weights=np.full(len(games), 100 / len(games)))
axes.set(xlabel="steps of a game", ylabel="games, %", title="Length of a game", xlim=(0, 150))
plt.show()

# %% [markdown]
# ## A belief over the other hand
#
# `play_game` records all positions of a game. This cell selects a position with at least three legal plays. An agent has a
# memory: `init` at the start, `update` after each transition, `act` to choose. The memory of the search `mc` is a belief: weighted
# hands that the opponent may hold.

# %%
linear = unojax.get_policy("linear")
game = unojax.play_game(jax.random.key(12), (linear, linear), num_steps=40)
num_plays = jax.vmap(unojax.legal_mask)(game.states).sum(1) * ~game.states.is_over
num_steps = int(np.argmax((num_plays >= 3) & (np.arange(41) >= 12)))
assert num_steps > 0
game = jax.tree.map(lambda leaf: leaf[: num_steps + (len(leaf) == 41)], game)
now = jax.tree.map(lambda leaf: leaf[-1], game.states)
player = int(now.current_player)
views = jax.vmap(partial(unojax.observe, player=player))(game.states)


def view_at(t):
    """Look at the game after t steps as the player did."""
    return jax.tree.map(lambda leaf: leaf[t], views)


agent = unojax.parse_agent(f"mc:rollouts={max(200, int(4000 * SCALE))}")
memory = jax.jit(agent.init)(jax.random.key(5), view_at(0))
update = jax.jit(agent.update)
for t in range(num_steps):
    memory = update(
        jax.random.fold_in(jax.random.key(6), t),
        memory,
        view_at(t),
        game.actions[t],
        view_at(t + 1),
    )
belief = memory.belief
print("moves:", *map(unojax.format_action, game.actions.tolist()))
view_at(-1)

# %%
viz.belief_svg(belief, truth=now.hands[1 - player])

# %% [markdown]
# The outlined cards are the true hand, which the player cannot see. The expected copies of the belief add up to the number of the
# opponent's cards.

# %%
expected = summary.expected_counts(belief)
print(f"expected cards {expected.sum():.2f}, held {int(views.opponent_count[-1])}")
likely = np.argsort(-expected)[:6]
print(
    "likeliest:",
    ", ".join(f"{cards.TYPE_NAMES[t]} {summary.prob_holds(belief)[t]:.0%}" for t in likely),
)

# %% [markdown]
# ## What to play
#
# The search plays every legal card thousands of times to the end of the game, with hands sampled from the belief. Win
# probabilities, and the differences from the play of `linear`:

# %%
mask = unojax.legal_mask(now)
estimate, is_play = jax.jit(agent.think)(jax.random.key(7), memory, view_at(-1), mask)
plays = sorted(np.flatnonzero(is_play).tolist(), key=lambda action: -estimate.value[action])
print("advice:", unojax.format_action(int(choose(estimate, is_play, agent.keep))))
# A value is a mean of +1 for a win and -1 for a loss.
wins = {
    a: analysis.Measure((1 + float(estimate.value[a])) / 2, float(estimate.value_error[a]) / 2)
    for a in plays
}
gains = {
    a: analysis.Measure(float(estimate.gain[a]) / 2, float(estimate.gain_error[a]) / 2)
    for a in plays
}
analysis.TextTable(
    [
        "play",
        "wins",
        f"more than {unojax.format_action(int(estimate.base))}, what linear would play",
    ],
    [[unojax.format_action(a), f"{wins[a]:.1%}", f"{gains[a]:+.1%}"] for a in plays],
)

# %% [markdown]
# ## The value network
#
# The package ships a small network that was trained by self-play. It estimates the win probability from an observation and a
# belief, without rollouts.

# %%
network = value.load_pretrained()
view = unojax.view_of(view_at(-1))
outlook = value.outlook_of_hands(view, belief)
print(
    f"player {player} wins {network(value.features(view, outlook)).win_prob:.0%}, says the network"
)

# %% [markdown]
# ## A match
#
# A match plays each deal twice with the seats swapped, so that a part of the luck cancels.

# %%
pairs = unojax.play_match(jax.random.key(8), ("linear", "uniform"), max(200, int(2000 * SCALE)))
score = unojax.paired_score(pairs.points)
print(
    "linear against uniform: {:.1%}, 95 % interval {:.1%} to {:.1%}".format(
        score.value, *score.interval
    )
)
assert score.interval[0] > 0.5

# %% [markdown]
# The agent `value` chooses the play with the highest estimate of the network.

# %%
pairs = unojax.play_match(jax.random.key(8), ("value", "uniform"), max(50, int(300 * SCALE)))
score = unojax.paired_score(pairs.points)
print(
    "value against uniform: {:.1%}, 95 % interval {:.1%} to {:.1%}".format(
        score.value, *score.interval
    )
)
assert score.interval[0] > 0.5

# %% [markdown]
# ## Your turn
#
# In a running notebook this is a board: click a card to play it, ask for a hint, and see the belief. The opponent is the network. A
# page without a kernel shows the position.

# %%
board = Board(opponent="value", seed=3)
board

# %% [markdown]
# ## Exercises
#
# 1. Write a policy that never plays a wild card while it can play another card, and measure it against `uniform` with `simulate`.
# 2. Update the belief with `mc:belief=unseen` instead, and compare the two advices.
#
# The next notebooks: `02_uno_in_numbers` (the game), `03_beliefs` (inference), `04_policies_compared` (strength), `05_value_network`
# (what the network learned), `06_optimal_play` (exact solutions).
