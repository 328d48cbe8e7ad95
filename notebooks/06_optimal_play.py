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
# # Optimal play
#
# With few cards the whole game fits into memory, and perfect play can be computed. On a game of nine
# cards:
#
# - **Search is nearly optimal.** Its exploitability is 0.009, that of `linear` 0.046, and that of
#   random play 0.184.
# - **Mistakes are plain.** The equilibrium gains nearly as much from each agent as a best response.
# - **Against random play**, the search with the exact belief earns 97% of the possible return.
# - **An optimal player uses a trick**: it plays the Wild early and declares a colour that the deck
#   lacks.

# %%
import os
from dataclasses import replace

import jax
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import unojax
from unojax import analysis, solve
from unojax.viz.charts import chart_style

mpl.rcParams.update(chart_style())
SCALE = float(os.environ.get("UNOJAX_NOTEBOOK_SCALE", "1"))
IS_SMALL = SCALE <= 0.1

# %% [markdown]
# ## A game with nine cards
#
# The deck has two each of red 1 and yellow 2, one red 2, one yellow 1, a red Skip, a yellow +2 and a
# Wild. Hands have two cards, and the game is a draw after twelve steps. `enumerate_game` follows every
# legal action, and every draw with its exact probability. Positions that a player cannot distinguish
# form one *information state*.

# %%
rules = solve.DECKS["small"]
if IS_SMALL:
    rules = replace(rules, max_steps=6)
tree = solve.enumerate_game(rules)
tree

# %% [markdown]
# ## Towards an equilibrium
#
# The **exploitability** of a strategy is the amount by which a best response beats it, compared with the
# value of the game and averaged over the seats. Counterfactual regret minimisation reduces it towards
# zero, and three variants differ in speed.

# %%
iterations = 20 if IS_SMALL else 300
runs = {
    variant: solve.cfr(tree, iterations=iterations, variant=variant, check_every=5)
    for variant in ("cfr", "cfr+", "dcfr")
}

# %% tags=["hide-input"] jupyter={"source_hidden": true}
figure, axes = plt.subplots(figsize=(7, 3.8))
for variant, run in runs.items():
    points = np.array([(p.iteration, p.exploitability) for p in run.history])
    axes.loglog(points[:, 0], points[:, 1], label=variant)
axes.set(
    title="Exploitability of the average strategies",
    xlabel="iterations",
    ylabel="exploitability, return per game",
)
axes.legend()
plt.show()

# %% [markdown]
# `dcfr` falls fastest, and flattens below $10^{-6}$. This is no limit of precision, because the
# solver computes in double precision: it continues at a slower rate, to $2 \cdot 10^{-8}$ after
# 1,250 iterations. The agents below lose more than $10^{-3}$, so this error does not matter.

# %%
optimum = min(runs.values(), key=lambda run: run.exploitability)
print(f"The game is worth {optimum.value:+.5f} to the first player (a win is +1, a loss -1),")
print(f"who wins {(1 + optimum.value) / 2:.2%} if a draw counts as half a win.")

# %% [markdown]
# ## How exploitable are the agents?
#
# A policy has a probability for each play at each information state. An agent with memory is run through
# all observations of its player, with a fixed random key at each information state. The result is a
# strategy, so its best response is exact.
#
# Two searches differ only in their belief: uniform over unseen cards (`mc, unseen`), or the exact
# probability of each hand against an opponent who plays `linear` (`mc, exact belief`). With infinitely
# many rollouts, the second search is one step of policy improvement, which can be computed exactly
# (`mc, exact, without noise`).

# %%
linear = solve.of_policy(tree, "linear")
search = f"mc:belief=unseen,keep=0,rollouts={20 if IS_SMALL else 100}"
strategies = {"equilibrium": optimum.strategies}
strategies |= {name: solve.of_policy(tree, name) for name in unojax.POLICIES}
strategies["value, unseen"] = solve.of_agent(tree, "value:belief=unseen")
strategies["mc, unseen"] = solve.of_agent(tree, search)
strategies["mc, exact belief"] = solve.of_agent(tree, search, against=linear)
strategies["mc, exact, without noise"] = solve.improve(tree, linear)


def earned(ours, theirs):
    """The mean return of one pair of strategies against another, seats averaged."""
    seats = solve.value(tree, (ours[0], theirs[1])), -solve.value(tree, (theirs[0], ours[1]))
    return sum(seats) / 2


# %% tags=["hide-input"] jupyter={"source_hidden": true}
exploitability = {name: solve.exploitability(tree, pair) for name, pair in strategies.items()}
ranked = sorted(strategies, key=exploitability.__getitem__)
opponents = {"equilibrium": optimum.strategies, "linear": linear, "uniform": strategies["uniform"]}
analysis.TextTable(
    ["agent", "exploitability", *(f"against {name}" for name in opponents)],
    [
        [name, f"{exploitability[name]:.4f}"]
        + [f"{earned(strategies[name], other):+.4f}" for other in opponents.values()]
        for name in ranked
    ],
)

# %% tags=["hide-input"] jupyter={"source_hidden": true}
figure, axes = plt.subplots(figsize=(8, 5))
place = np.arange(len(ranked))
lost = [-earned(strategies[name], optimum.strategies) for name in ranked]
axes.barh(place - 0.2, [exploitability[name] for name in ranked], 0.4, label="to a best response")
axes.barh(place + 0.2, lost, 0.4, label="to the equilibrium")
axes.set_yticks(place, ranked)
axes.invert_yaxis()
axes.set(title="What is lost", xlabel="mean return a game")
axes.legend()
plt.show()

# %% [markdown]
# * The equilibrium gains most of the gain of a best response. The mistakes of these agents are plain:
#   an opponent need not know the agent to exploit them.
# * One step of policy improvement with the exact belief takes `linear` most of the way to the optimum.
#   Against `linear` it earns more than the equilibrium, but it can be exploited itself.
# * The difference between the rows of the two searches is the value of the exact belief.
#
# ## The limit against random play
#
# A best response to uniform play has the highest possible return against it. The table compares the
# agents with this limit.

# %% tags=["hide-input"] jupyter={"source_hidden": true}
uniform = strategies["uniform"]
limit = np.mean([solve.best_response(tree, p, uniform[1 - p])[0] for p in (0, 1)])
analysis.TextTable(
    ["agent", "mean return against random play", "share of what is possible"],
    [["a best response", f"{limit:+.4f}", "100%"]]
    + [
        [name, f"{value:+.4f}", f"{value / limit:.0%}"]
        for name in sorted(strategies, key=lambda name: -earned(strategies[name], uniform))[:6]
        for value in [earned(strategies[name], uniform)]
    ],
)

# %% [markdown]
# ## The most expensive mistakes
#
# The loss of a strategy is the sum of the costs of its choices, each weighted by the probability of its
# position (`solve.mistakes`). These are the most expensive positions of `linear` against the
# equilibrium.

# %% tags=["hide-input"] jupyter={"source_hidden": true}
costs = [solve.mistakes(tree, p, linear[p], optimum.strategies[1 - p]) for p in (0, 1)]
total = earned(optimum.strategies, optimum.strategies) - earned(linear, optimum.strategies)
print(f"linear loses {total:.4f} a game to the equilibrium; its choices cost", end=" ")
print(f"{sum(c.sum() for c in costs) / 2:.4f}")
player = int(costs[1].max() > costs[0].max())
treeplex = tree.players[player]
seen = solve.observations(tree, player)
rows = []
for state in np.argsort(-costs[player])[:3]:
    first = treeplex.first[state]
    here = slice(first, first + treeplex.num_actions[state])

    def plays(strategy, here=here):
        """Write down what a strategy plays, and how often."""
        chosen = zip(treeplex.actions[here], strategy[here], strict=True)
        return ", ".join(f"{unojax.format_action(int(a))} {p:.0%}" for a, p in chosen if p > 0.005)

    position = jax.tree.map(lambda leaf, state=state: leaf[state], seen)
    hand, top = unojax.format_cards(position.hand), unojax.format_cards(position.pile)
    rows.append(
        [
            f"{hand}; pile {top}; opponent {position.opponent_count}, step {treeplex.steps[state]}",
            plays(linear[player]),
            plays(optimum.strategies[player]),
            f"{costs[player][state]:.5f}",
        ]
    )
analysis.TextTable(["position", "linear plays", "optimal", "cost a game"], rows)

# %% [markdown]
# An optimal player plays the Wild early and declares blue, a colour that no card in this deck has. Then
# nobody can play, both players draw until the deck is empty, and the smaller hand wins. No policy for
# the full deck does this.
#
# The most expensive position, as the player sees it:

# %%
worst = int(np.argmax(costs[player]))
jax.tree.map(lambda leaf: leaf[worst], seen)

# %% [markdown]
# ## Exercises
#
# 1. Remove the Wild from the deck (`solve.DECKS["small"]` with another `deck`). Which agent is now the
#    least exploitable?
# 2. Apply `solve.improve` twice. How much of the way from `linear` to the equilibrium is left?
