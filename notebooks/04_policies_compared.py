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
# All named policies and the value network play each other in the arena.
#
# - **Strength**: the value network is 37 ± 23 Elo points ahead of `linear`, and `linear` is far ahead of all rule policies.
# - **Random play** wins 23.5% of its games against `linear`.
# - **Duplicate deals** are worth 30% more games on average.
# - **The hidden hand is worth a lot**: a search that is shown it wins 70% ± 6% against `linear`.

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


# %% tags=["hide-input"] jupyter={"source_hidden": true}
analysis.TextTable(
    ["policy", "what it does"],
    [[policy.name, policy.summary] for policy in unojax.POLICIES.values()],
)

# %% [markdown]
# ## Everyone against everyone
#
# Every deal is played twice with the seats swapped, and all matches have the same deals. `value` chooses the play with the highest
# value of the shipped network. It carries a belief through the game, which takes time, so it plays fewer pairs.

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

# %% tags=["hide-input"] jupyter={"source_hidden": true}
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

# %% tags=["hide-input"] jupyter={"source_hidden": true}
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

# %% tags=["hide-input"] jupyter={"source_hidden": true}
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
# * The network and `linear`, whose weights were fitted, are far stronger than the rule policies. The network leads by its matches
#   against all agents. A hundred pairs against `linear` alone would not show the difference.
# * The best rule policy plays the colour that it holds least. The other rules that keep wild cards are close to each other.
# * Playing wild cards or action cards first is a bad rule, but better than random play. `lookahead` is worse than every rule that keeps
#   wild cards.
#
# ## A million games
#
# For fast policies, `simulate` measures the score against random play within a tenth of a point.

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

# %% tags=["hide-input"] jupyter={"source_hidden": true}
analysis.TextTable(
    ["policy", "points against uniform"],
    [[name, f"{e:.2%}"] for name, e in against_uniform.items()],
)

# %% [markdown]
# A million games distinguish agents that the table above could not. They also show a limit of ratings: a difference of 185 points
# between `linear` and `uniform` predicts 74%, but `linear` scores 76.5%.
#
# ## The gain of duplicate deals
#
# In both games of a pair, the seats get the same first cards and the same draws, so a part of the luck cancels. The variance reduction
# is the variance of as many independent games, divided by the variance of the pairs: 1.3 means that 100 pairs are worth 260 games.
# It depends on the similarity of the two agents: a pair in which each agent wins once has no information about strength, and adds no
# noise.

# %% tags=["hide-input"] jupyter={"source_hidden": true}
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
# On average, pairs are worth 30% more games, and they are never noticeably worse than independent games. The gain is largest between
# similar rules, where the better cards often win in either seat: there half as many games suffice. For very different agents there is
# no gain.
#
# ## The value of the hidden hand
#
# Flat Monte Carlo plays each legal card to the end of the game many times, with `linear` as the rollout policy and sampled hands of
# the opponent. Three such agents play `linear` on the same deals. They differ only in their belief: uniform over unseen cards, a
# particle filter, or the true hand (an oracle baseline).

# %%
num_search_pairs = max(4, int(100 * SCALE))
rollouts = max(32, int(200 * SCALE))
known = {"unseen cards": "unseen", "particle belief": "particles", "the truth": "truth"}
searched = {}
for what, belief in known.items():
    agent = unojax.parse_agent(f"mc:model=linear+0.5,rollouts={rollouts},belief={belief}")
    pairs = match(agent, agents["linear"], num_search_pairs, key=3)
    searched[what] = unojax.paired_score(pairs.points)

# %% tags=["hide-input"] jupyter={"source_hidden": true}
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
# With the true hand, the search wins 70% of the games against `linear`. Without it, and with only 200 rollouts, the search is no better
# than its rollout policy, and a hundred pairs cannot separate the particle belief from the uniform belief. The page *Results* has
# longer matches with more rollouts.
#
# ## Exercises
#
# 1. Add your own policy to `agents`, and find its place in the table.
# 2. How many pairs are necessary to separate the particle belief from the uniform belief, if the difference is three points?
