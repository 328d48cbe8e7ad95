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
# # Policies compared
#
# Who plays best, how sure can one be, and what do duplicate deals save? All named policies and the value network play each other
# in the arena; four of them play a million games; and a search shows what it is worth to know the opponent's hand.

# %%
import os
from itertools import combinations

import jax
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

import unojax
from unojax import analysis
from unojax.arena.ratings import Match
from unojax.viz.charts import chart_style
from unojax.viz.theme import get_theme

mpl.rcParams.update(chart_style())
SCALE = float(os.environ.get("UNOJAX_NOTEBOOK_SCALE", "1"))

analysis.TextTable(
    ["policy", "what it does"],
    [[policy.name, policy.summary] for policy in unojax.POLICIES.values()],
)

# %% [markdown]
# ## Everyone against everyone
#
# Games are played in pairs, the same deal twice with the seats swapped, and all matches have the same deals. `value` takes the
# play after which the network of the package sees the best chances; it carries a belief through the game, is slower for it, and
# plays fewer pairs.

# %%
names = (
    [*unojax.POLICIES, "value"] if SCALE > 0.1 else ["uniform", "scarcest-color", "linear", "value"]
)
agents = {name: unojax.parse_agent(name) for name in names}
num_pairs, num_slow_pairs = max(40, int(300 * SCALE)), max(20, int(100 * SCALE))
batch_size = 128  # of all matches, so that they share their compiled programs


def match(first, second, num_pairs, key=1):
    """Play the pairs of a match."""
    return unojax.play_match(jax.random.key(key), (first, second), num_pairs, batch_size=batch_size)


played = {
    (i, j): match(
        agents[names[i]], agents[names[j]], num_slow_pairs if names[j] == "value" else num_pairs
    )
    for i, j in combinations(range(len(names)), 2)
}
results = [Match(i, j, pairs.index, pairs.points) for (i, j), pairs in played.items()]
ratings = unojax.bradley_terry(len(names), results)
order = np.argsort(-ratings.values)
scores = np.full((len(names), len(names)), np.nan)
for (i, j), pairs in played.items():
    scores[i, j], scores[j, i] = pairs.points.mean(), 1 - pairs.points.mean()
analysis.TextTable(
    ["policy", "Elo rating, mean 0", "mean score against the others"],
    [
        [
            names[k],
            f"{ratings.elo[k]:+.0f} ± {ratings.elo_margin[k]:.0f}",
            f"{np.nanmean(scores[k]):.1%}",
        ]
        for k in order
    ],
)

# %%
scores = 100 * scores[np.ix_(order, order)]
ranked = [names[k] for k in order]
paints = get_theme("light")
diverging = LinearSegmentedColormap.from_list(
    "scores", [paints.series[1], paints.panel, paints.series[0]]
)
reach = np.nanmax(np.abs(scores - 50))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.7, 1))
left.imshow(scores, cmap=diverging, vmin=50 - reach, vmax=50 + reach, aspect="auto")
for (row, column), value in np.ndenumerate(scores):
    if not np.isnan(value):
        ink = "white" if abs(value - 50) > 0.6 * reach else paints.text
        left.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=9, color=ink)
left.set_xticks(range(len(names)), ranked, rotation=40, ha="right", rotation_mode="anchor")
left.set_yticks(range(len(names)), ranked)
left.set(title="Score of the row against the column, %")
left.grid(visible=False)
right.errorbar(
    ratings.elo[order],
    np.arange(len(names)),
    xerr=ratings.elo_margin[order],
    fmt="o",
    capsize=2.5,
    elinewidth=1.2,
)
right.set_yticks(range(len(names)), [""] * len(names))
right.set(title="Rating", xlabel="Elo, mean 0", ylim=left.get_ylim())
plt.show()

# %%
best, second = order[:2]
variance = (
    ratings.covariance[best, best]
    + ratings.covariance[second, second]
    - 2 * ratings.covariance[best, second]
)
lead = analysis.Measure(
    float(ratings.elo[best] - ratings.elo[second]), float(400 / np.log(10) * np.sqrt(variance))
)
print(
    f"{names[best]} is {lead:.0f} Elo points ahead of {names[second]}; "
    "even chances would be 0, and 10:1 is 400"
)

# %% [markdown]
# * The network and `linear`, whose weights were fitted, stand apart from the rules that a person would think of. The network is
#   ahead by its matches against all; that against `linear` alone, of a hundred pairs, could not tell who is better.
# * The best rule gets rid of the colour held least. The next few, all of which keep wild cards, lie close together.
# * Wild cards or action cards first is a bad rule, if better than random play. A look one step ahead (`lookahead`) is worse than
#   any rule that keeps wild cards.
#
# ## A million games
#
# For policies as fast as these, `simulate` gives the score against random play to a tenth of a point.

# %%
num_games = max(10_000, int(1_000_000 * SCALE))
against_uniform = {}
for name in ("linear", "lookahead", "scarcest-color", "commonest-color"):
    keys, policy = jax.random.split(jax.random.key(2)), unojax.get_policy(name)
    first = unojax.simulate(keys[0], num_games // 2, (policy, unojax.uniform)).winner
    second_seat = unojax.simulate(keys[1], num_games // 2, (unojax.uniform, policy)).winner
    points = np.concatenate(
        [np.where(w < 0, 0.5, w == seat) for seat, w in enumerate((first, second_seat))]
    )
    against_uniform[name] = analysis.estimate_mean(points)
analysis.TextTable(
    ["policy", "points against uniform"],
    [[name, f"{e:.2%}"] for name, e in against_uniform.items()],
)

# %% [markdown]
# A million games tell apart what the table above could not. They also show what a rating leaves out: the 185 points between
# `linear` and `uniform` would mean 74 % between the two, and it is 76.5 %.
#
# ## What duplicate deals save
#
# In both games of a pair the players have the same cards to begin with and draw the same ones, so a part of the luck cancels.
# The variance reduction is the variance that as many independent games would have, divided by that of the pairs: 1.3 means that
# 100 pairs are worth 260 games. How much cancels depends on how alike the two play, as the share of pairs with equal points
# shows: a pair in which each wins once tells nothing about who is better, and adds no noise either.

# %%
reductions = [unojax.paired_score(pairs.points).variance_reduction for pairs in played.values()]
split_pairs = [(pairs.points.sum(1) == 1).mean() for pairs in played.values()]
chance = [2 * p.points.mean() * (1 - p.points.mean()) for p in played.values()]
figure, axes = plt.subplots(figsize=(8, 3.6))
axes.scatter(100 * (np.array(split_pairs) - np.array(chance)), reductions, s=28)
axes.axhline(1, color=mpl.rcParams["axes.edgecolor"], linestyle="--", linewidth=1.2)
axes.set(
    xlabel="pairs won once by each, percentage points above independent games",
    ylabel="variance reduction",
    title="What duplicate deals save, each match a point",
)
plt.show()
print(
    f"variance reduction: mean {np.mean(reductions):.2f}, "
    f"from {min(reductions):.2f} to {max(reductions):.2f}"
)
ends = [sorted(zip(reductions, played, strict=True))[k] for k in (0, -1)]
for reduction, (i, j) in ends:
    print(f"{names[i]} against {names[j]}: {reduction:.2f}")

# %% [markdown]
# On average a match of pairs is as good as one of 30 % more games, and in none of these matches noticeably worse than one of
# independent games. It saves most between two rules that are alike, where the better cards often win, whoever holds them: there
# half the games do. At the other end it saves next to nothing.
#
# ## What it is worth to know
#
# Flat Monte Carlo plays each legal card to the end many times, with `linear` for both players, from hands that the opponent may
# hold. Three such agents play `linear` itself on the same deals. They differ only in what they know of the opponent's hand: any
# of the unseen cards, a particle filter's belief, or the hand itself, which no honest player could.

# %%
num_search_pairs = max(4, int(100 * SCALE))
rollouts = max(32, int(200 * SCALE))
known = {"unseen cards": "unseen", "particle belief": "particles", "the truth": "truth"}
searched = {}
for what, belief in known.items():
    agent = unojax.parse_agent(f"mc:model=linear+0.5,rollouts={rollouts},belief={belief}")
    pairs = match(agent, agents["linear"], num_search_pairs, key=3)
    searched[what] = unojax.paired_score(pairs.points)
analysis.TextTable(
    [
        f"mc, {rollouts} rollouts, knows",
        "score against linear",
        "95 % interval",
        "variance reduction",
    ],
    [
        [
            what,
            f"{score.value:.1%}",
            "{:.1%} to {:.1%}".format(*score.interval),
            f"{score.variance_reduction:.2f}",
        ]
        for what, score in searched.items()
    ],
)

# %% [markdown]
# Shown the opponent's hand, the search wins 70 % of the games against `linear`: so much is hidden in it. Without it, with as few
# rollouts as these, the search is no better than the policy of its rollouts, and a hundred pairs cannot tell the belief from the
# unseen cards. Longer matches with more rollouts are in `benchmarks/README.md`.
