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
# Two-player UNO as pure functions on fixed-shape arrays: one game, thousands of games, and what one player can infer of the
# other one's hand.

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
# `init` deals, and a state shows itself. Player 0 moves first.

# %%
state = unojax.init(jax.random.key(9))
state

# %% [markdown]
# `legal_mask` says what the player to move may do: 61 actions, each a card with the colour it declares, or drawing. Play is
# forced, so drawing is legal only for want of a card that fits.

# %%
legal = unojax.legal_mask(state)
print(legal.shape, [unojax.format_action(int(action)) for action in jnp.flatnonzero(legal)])

# %% [markdown]
# `step` plays an action. With two players a Reverse is a Skip, so the same player moves again. The key is for cards drawn: the
# deck has no order, so no state knows what comes next.

# %%
state = unojax.step(state, unojax.parse_action("RR"), jax.random.key(0))
assert state.current_player == 0
state

# %% [markdown]
# `observe` is what one player may know, and nothing else. Policies, searches and beliefs get this and never a state.

# %%
seen = unojax.observe(state, 1)
print(unojax.format_observation(seen))
seen

# %% [markdown]
# ## Many games
#
# All of these functions work on one game, are pure, and have fixed shapes, so `vmap` and `jit` make many of them. Here the
# position above is played to its end a thousand times, both players choosing at random.


# %%
def rollout(key, state, num_steps=400):
    """Play at random from here: the winner 0 or 1, or -1 for neither within so many steps."""

    def one_step(state, key):
        key_policy, key_draw = jax.random.split(key)
        observation, legal = unojax.observe(state, state.current_player), unojax.legal_mask(state)
        return unojax.step(state, unojax.uniform(key_policy, observation, legal), key_draw), None

    return jax.lax.scan(one_step, state, jax.random.split(key, num_steps))[0].winner


keys = jax.random.split(jax.random.key(3), max(200, int(1000 * SCALE)))
winners = jax.jit(jax.vmap(rollout, in_axes=(0, None)))(keys, state)
print(f"player 0 wins {analysis.estimate_mean(winners == 0):.0%}")

# %% [markdown]
# For whole games from the deal, `simulate` is far faster, and as easy.

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

# %%
figure, axes = plt.subplots(figsize=(8, 3))
axes.hist(games.num_steps, bins=np.arange(0, 202, 2), weights=np.full(len(games), 100 / len(games)))
axes.set(xlabel="steps of a game", ylabel="games, %", title="Length of a game", xlim=(0, 150))
plt.show()

# %% [markdown]
# ## What the other player may hold
#
# `play_game` records a game with every position; we look at one some way into it in which there is something to choose. An agent
# has a memory: `init` at the start, `update` after each public action, `act` to choose. What the search `mc` remembers is a
# belief, a cloud of hands that the opponent may hold, each with a weight.

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
# The outlined cards are what the opponent holds in truth; the player cannot see them. The belief's chances add up to the number
# of cards that the opponent holds.

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
# The search plays every legal card thousands of times to the end, with hands of the opponent drawn from the belief, and
# compares.

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
# ## What a network says
#
# The package brings a small network that was trained by self-play: from what a player sees and believes it says how likely the
# player is to win, without any rollouts.

# %%
network = value.load_pretrained()
view = unojax.view_of(view_at(-1))
outlook = value.outlook_of_hands(view, belief)
print(
    f"player {player} wins {network(value.features(view, outlook)).win_prob:.0%}, says the network"
)

# %% [markdown]
# ## Against each other
#
# A match is played in pairs: the same deal twice, with the seats swapped, so that a part of the luck cancels.

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
# The agent `value` looks at the network's opinion of each of its plays and takes the best.

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
# In a running notebook this is a board to click on: play a card, ask for a hint, see what the opponent may hold. The opponent is
# the network. A page without a kernel shows the position.

# %%
board = Board(opponent="value", seed=3)
board

# %% [markdown]
# Where next: `02_uno_in_numbers` on the game itself, `03_beliefs` on what can be inferred, `04_policies_compared` on who plays
# best, `05_value_network` on what the network learned and where it errs.
