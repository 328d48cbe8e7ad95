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
# Win rates say who beats whom. They do not say how far the best of them is from perfect. With few
# cards the whole game fits into memory, and perfect play can be computed: what does it look like,
# what would it win against our agents, and where do they go wrong?

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
# Two each of red 1 and yellow 2, one red 2 and yellow 1, a red Skip, a yellow +2 and a Wild; hands of
# two; after twelve steps the game is a draw. `enumerate_game` takes every step that the engine's own
# rules allow, and every draw with its exact probability. What players can't tell apart is one
# *information state*.

# %%
rules = solve.DECKS["small"]
if IS_SMALL:
    rules = replace(rules, max_steps=6)
tree = solve.enumerate_game(rules)
tree

# %% [markdown]
# ## Towards an equilibrium
#
# A strategy's **exploitability** is what a best response wins from it more than the game is worth, on
# average over the two seats. Counterfactual regret minimisation drives it towards zero; three
# variants of it differ much in speed.

# %%
iterations = 20 if IS_SMALL else 300
runs = {
    variant: solve.cfr(tree, iterations=iterations, variant=variant, check_every=5)
    for variant in ("cfr", "cfr+", "dcfr")
}
figure, axes = plt.subplots(figsize=(7, 3.8))
for variant, run in runs.items():
    points = np.array([(p.iteration, p.exploitability) for p in run.history])
    axes.loglog(points[:, 0], points[:, 1], label=variant)
axes.set(title="Exploitability of the average strategies", xlabel="iterations")
axes.legend()
plt.show()

# %%
optimum = min(runs.values(), key=lambda run: run.exploitability)
print(f"The game is worth {optimum.value:+.5f} to the first player (a win is +1, a loss -1),")
print(f"who wins {(1 + optimum.value) / 2:.2%} if a draw counts as half a win.")

# %% [markdown]
# ## How exploitable are the agents?
#
# A policy has a probability for each play at each information state. An agent that remembers is led
# through all that its player can see, with its belief following; what is random in it is frozen, so
# that it is a strategy like any other. Then its best response is exact.
#
# Two searches differ only in what they know of the hidden hand: any unseen card, or the exact
# probability of each hand against an opponent who plays `linear`. What such a search
# comes to with no end of rollouts is the row `mc, exact, without noise`: one step of policy
# improvement, computed exactly.

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

# %%
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
# * The equilibrium takes most of what a best response takes: the mistakes of these agents are plain
#   ones, and no habits that somebody has to find out first.
# * One step of policy improvement, with the exact belief and without noise, takes `linear` most of
#   the way to the optimum. Against `linear` it earns more than the equilibrium, which is what it was
#   made for; the price is that it can be exploited itself.
# * The searches differ in what they know of the hidden hand and in nothing else. What the exact
#   belief is worth is the difference of their rows.
#
# ## The best there is against random play
#
# A best response to uniform play shows the limit of what can be won from it, and so how much of the
# way each agent covers.

# %%
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
# All that a strategy loses to an opponent is the sum of what its single choices cost, each times the
# chance to get there (`solve.mistakes`). Here against the equilibrium: positions at which `linear`
# gives away the most.

# %%
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
# An optimal player lays the Wild early, and declares blue: a colour that no card in this deck has.
# Nobody can play any more, both draw until the cards run out, and then fewer cards in hand win. No
# rule of thumb for the full deck knows that.
#
# The first of them, as the player sees it:

# %%
worst = int(np.argmax(costs[player]))
jax.tree.map(lambda leaf: leaf[worst], seen)
