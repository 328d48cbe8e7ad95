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
# # The value network
#
# The shipped network estimates the win probability from an observation and a belief.
#
# - **Forecasts** have a log loss of 0.576 nats, 0.064 less than a regression on hand sizes. They are five points too high against
#   itself, and eleven too low against random play.
# - **Cards**: its worth of action cards agrees with the results of a million games within half a point. It undervalues wild cards by
#   one or two points.
# - **Plays**: it chooses another card than a search in 24% of the decisions, and loses 0.13 points of win probability per decision.
#
# The games were not used in training. `±` is half a 95% confidence interval, clustered by game.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

import unojax
from unojax import analysis, bits, cards, value, viz
from unojax.search.monte_carlo import choose
from unojax.viz.charts import chart_style

mpl.rcParams.update(chart_style())
SCALE = float(os.environ.get("UNOJAX_NOTEBOOK_SCALE", "1"))

network = value.load_pretrained()
print(f"{network.num_params:,} parameters")

# %% [markdown]
# ## Forecasts and results
#
# The network plays against itself and against random play, as player 0. It uses a uniform belief here, which is three points weaker
# and much faster. A particle filter over the opponent's hand and type then tracks each game from the observations of player 0. At each
# decision, the network estimates the win probability of player 0.

# %%
agent = unojax.parse_agent("value:belief=unseen")
# The belief that the agent `value` has: over the hand, and over six types of opponents.
tracked = unojax.parse_agent("value").updater


def by_network(key, observation, legal):
    """Play by the network, as a policy."""
    return agent.act(key, (), observation, legal)


opponents = {"itself": by_network, "uniform": unojax.uniform}
num_games = max(30, int(1000 * SCALE))
decisions = {}
for number, (name, opponent) in enumerate(opponents.items()):
    games = analysis.record(
        jax.random.key(100 + number), num_games, (by_network, opponent), max_steps=160
    )
    decisions[name] = analysis.decisions_of(jax.random.key(200 + number), games, tracked)


@jax.jit
def forecast(observation, hands, truth):
    """Ask the network for win probabilities, by what is known of the opponent's hand."""
    view = unojax.view_of(observation)
    outlooks = {
        "belief": value.outlook_of_hands(view, hands, tracked.opponent),
        "unseen cards": value.outlook_of_unseen(view),
        "the truth": value.outlook_of_hand(truth),
    }
    return {
        known: network(value.features(view, outlook)).win_prob
        for known, outlook in outlooks.items()
    }


forecasts = {
    name: jax.device_get(forecast(d.observation, d.hands, d.truth)) for name, d in decisions.items()
}

# %% tags=["hide-input"] jupyter={"source_hidden": true}
calibrated = {}
figure, panels = plt.subplots(1, 2, figsize=(8, 4), sharey=True)
for axes, (name, d) in zip(panels, decisions.items(), strict=True):
    # One row for each game.
    place = np.arange(len(d.game)) - np.searchsorted(d.game, d.game)
    rows = np.zeros((3, num_games, place.max() + 1))
    rows[:, d.game, place] = forecasts[name]["belief"], d.points, np.ones(len(place))
    calibrated[name] = table = analysis.calibrate(rows[0], rows[1] == 1, rows[2] == 1)
    axes.plot([0, 100], [0, 100], color=mpl.rcParams["axes.edgecolor"], linewidth=1)
    # Of a few decisions, most of them of the same game, an interval says nothing.
    drawn = [k for k, n in enumerate(table.number) if n >= 50]
    axes.errorbar(
        [100 * table.predicted[k] for k in drawn],
        [100 * table.observed[k].value for k in drawn],
        yerr=[100 * table.observed[k].margin for k in drawn],
        fmt="o",
        markersize=4.5,
        capsize=2.5,
        elinewidth=1.2,
    )
    axes.set(
        title=f"against {name}", xlabel="forecast, %", xlim=(0, 102), ylim=(0, 102), aspect="equal"
    )
panels[0].set_ylabel("won, %")
plt.show()

surplus = {
    name: analysis.estimate_ratio(
        np.bincount(d.game, forecasts[name]["belief"] - d.points, num_games),
        np.bincount(d.game, minlength=num_games),
    )
    for name, d in decisions.items()
}
analysis.TextTable(
    [
        "games against",
        "decisions",
        "points in the end, mean",
        "forecast less points",
        "mean distance over the tenths",
    ],
    [
        [
            name,
            f"{len(d.game):,}",
            f"{d.points.mean():.1%}",
            f"{surplus[name]:+.1%}",
            f"{calibrated[name].mean_absolute_error:.1%}",
        ]
        for name, d in decisions.items()
    ],
)

# %% [markdown]
# Bins with fewer than 50 decisions are omitted. The forecasts increase with the results, but they underestimate the effect of the
# opponent's type. The network was trained in games against itself, `linear` and two weaker players. So its forecasts are five points
# too high against itself, and eleven too low against random play.
#
# The log loss measures the information in a forecast: it is the mean of -ln P(result), and 0.693 for even odds. The regression reads
# the two hand sizes, and was fitted on the other half of the games. The network has three inputs about the opponent's hand: a uniform
# belief, the particle belief, and the true hand.

# %%
d = decisions["itself"]
own, other = (
    np.asarray(d.observation.hand.sum(-1), float),
    np.asarray(d.observation.opponent_count, float),
)
terms = np.stack([np.ones_like(own), own, other, 1 / own, 1 / other], -1)
is_even = d.game % 2 == 0
by_sizes = np.zeros(len(d.game))
for half in (is_even, ~is_even):
    by_sizes[half] = analysis.sigmoid(
        terms[half] @ analysis.fit_logistic(terms[~half], d.points[~half])
    )
forecasters = {
    "even odds": np.full(len(own), 0.5),
    "hand sizes, logistic regression": by_sizes,
    "network, unseen cards": forecasts["itself"]["unseen cards"],
    "network, belief": forecasts["itself"]["belief"],
    "network, the truth": forecasts["itself"]["the truth"],
}
losses = {
    name: analysis.log_loss(np.clip(p.astype(float), 1e-6, 1 - 1e-6), d.points)
    for name, p in forecasters.items()
}


def per_decision(values, where=None):
    """Average over the decisions, games being independent."""
    counted = np.ones(len(d.game)) if where is None else where.astype(float)
    return analysis.estimate_ratio(
        np.bincount(d.game, values * counted, num_games), np.bincount(d.game, counted, num_games)
    )


# %% tags=["hide-input"] jupyter={"source_hidden": true}
analysis.TextTable(
    ["forecast", "log loss, nats", "more than the network with its belief"],
    [
        [
            name,
            f"{per_decision(loss):.3f}",
            f"{per_decision(loss - losses['network, belief']):+.3f}",
        ]
        for name, loss in losses.items()
    ],
)

# %% [markdown]
# The log loss by stage of the game, which is the size of the smaller hand:

# %% tags=["hide-input"] jupyter={"source_hidden": true}
fewest = np.minimum(own, other)
stages = {
    "1 card": fewest == 1,
    "2": fewest == 2,
    "3": fewest == 3,
    "4 or 5": (fewest == 4) | (fewest == 5),
    "6 or more": fewest > 5,
}
plain, network_based = "hand sizes, logistic regression", "network, belief"
analysis.TextTable(
    ["log loss", *stages],
    [
        ["decisions", *(f"{where.sum():,}" for where in stages.values())],
        *(
            [name, *(f"{per_decision(losses[name], where):.3f}" for where in stages.values())]
            for name in (plain, network_based)
        ),
        [
            "difference",
            *(
                f"{per_decision(losses[plain] - losses[network_based], where):+.3f}"
                for where in stages.values()
            ),
        ],
    ],
)

# %%
# Less than what two hand sizes tell would be a fault; in few games, one beyond chance.
gained = per_decision(losses["hand sizes, logistic regression"] - losses["network, belief"])
assert gained.value > -gained.margin

# %% [markdown]
# * The forecasts have 0.06 nats less log loss than the hand sizes, and are better at every stage of the game.
# * The true hand would save another 0.06. The particle belief does not improve the forecast of the result over the uniform belief.
#
# ## The worth of cards
#
# `02_uno_in_numbers` measures the worth of a card in the first hand, from a million games of `linear` against itself. Here the same
# regression runs twice on the same deals: on the results, and on the network's forecasts before the first move.

# %%
num_deals, num_asked = max(10_000, int(1_000_000 * SCALE)), max(5_000, int(200_000 * SCALE))
linear = unojax.get_policy("linear")
winner = unojax.simulate(jax.random.key(300), num_deals, (linear, linear)).winner
points = np.where(winner < 0, 0.5, winner == 0)
deals = analysis.deal_hands(jax.random.key(300), num_deals)


@jax.jit
def forecast_of_deal(hand, top):
    """Ask for the win probability of player 0, who moves first: int8[G, 54] and int8[G]."""
    zero = jnp.zeros(len(hand), jnp.uint32)
    view = unojax.View(
        hand=bits.pack(cards.onehot(hand)),
        pile=bits.pack(
            cards.onehot((jnp.arange(cards.NUM_TYPES) == top[:, None]).astype(jnp.int8))
        ),
        opponent_count=zero + np.uint32(7),
        rank=jnp.asarray(cards.RANK_OF_TYPE)[top].astype(jnp.uint32),
        color=jnp.asarray(cards.COLOR_OF_TYPE)[top].astype(jnp.uint32),
        penalty=zero,
        is_own_turn=zero == 0,
        rules=unojax.Rules(),
    )
    return network(value.features(view, value.outlook_of_unseen(view))).win_prob


asked = [slice(start, start + 5_000) for start in range(0, num_asked, 5_000)]
foreseen = np.concatenate(
    [np.asarray(forecast_of_deal(deals.hands[part, 0], deals.top[part])) for part in asked]
)
worth = {
    "results": analysis.card_worth(deals.hands, points),
    "forecasts": analysis.card_worth(deals.hands[:num_asked], foreseen),
}

# %% tags=["hide-input"] jupyter={"source_hidden": true}
ranks = ["0", *map(str, range(1, 10)), "Skip", "Reverse", "+2", "Wild", "Wild+4"]
figure, axes = plt.subplots(figsize=(8, 4.4))
rows = np.arange(cards.NUM_RANKS)
for shift, (name, w), marker in zip((-0.16, 0.16), worth.items(), ("o", "D"), strict=True):
    estimates = [w.estimate(rank) for rank in rows]
    axes.errorbar(
        [100 * e.value for e in estimates],
        rows + shift,
        xerr=[100 * e.margin for e in estimates],
        fmt=marker,
        label=f"by {name}",
        markersize=5,
        capsize=2.5,
        elinewidth=1.2,
    )
axes.axvline(0, color=mpl.rcParams["axes.edgecolor"], linewidth=1)
axes.set_yticks(rows, ranks)
axes.set(
    xlabel="win probability, percentage points above an average number card",
    title="Worth of a card in the first hand",
)
axes.invert_yaxis()
axes.legend(loc="lower right", bbox_to_anchor=(1, 0.35))
plt.show()
analysis.TextTable(
    ["one card more in the own hand", "by results", "by forecasts", "forecasts less results"],
    [
        [
            ranks[rank],
            f"{worth['results'].estimate(rank):+.2%}",
            f"{worth['forecasts'].estimate(rank):+.2%}",
            f"{worth['forecasts'].estimate(rank) - worth['results'].estimate(rank):+.2%}",
        ]
        for rank in (cards.SKIP, cards.REVERSE, cards.DRAW_TWO, cards.WILD, cards.WILD_DRAW_FOUR)
    ],
)

# %% [markdown]
# Points and forecasts by the number of cards of the active colour, and by the number of colours:

# %% tags=["hide-input"] jupyter={"source_hidden": true}
by_color = deals.hands[:, 0, :52].reshape(-1, 4, 13).sum(-1)
active = np.take_along_axis(by_color, cards.COLOR_OF_TYPE[deals.top][:, None].astype(int), 1)[:, 0]
num_colors = (by_color > 0).sum(1)


def by_number(what, numbers):
    """Write rows of a table: mean points and mean forecast where `what` has each of the numbers."""
    for number in numbers:
        here = what == number
        won, said = (
            analysis.estimate_mean(points[here]),
            analysis.estimate_mean(foreseen[here[:num_asked]]),
        )
        yield [number, f"{here.mean():.1%}", f"{won:.2%}", f"{said:.2%}"]


display(
    analysis.TextTable(
        ["cards of the active colour", "of deals", "points", "forecast"],
        by_number(active, range(6)),
    )
)
analysis.TextTable(
    ["colours in the first hand", "of deals", "points", "forecast"],
    by_number(num_colors, (2, 3, 4)),
)

# %% [markdown]
# * The network's worth of action cards is nearly that of the results. Its worth of wild cards is one or two points lower.
# * Cards of the active colour hardly matter before the first move, in the results and in the forecasts.
# * Colours matter: a first hand of two colours wins 17 points more often than a hand of four. The network estimates 13 points.
# * The forecasts are six to seven points too high, as in its games against itself, because `linear` is stronger than most of its
#   training opponents.
#
# ## Errors of its plays
#
# At decisions of its games against itself, flat Monte Carlo plays each legal card to the end of the game many times, with `linear` as
# the rollout policy and hands from the belief. The network chooses the play with the highest value. If the two choose different plays,
# a second search with other random numbers measures the loss of the network. The first search would overestimate its own choice.

# %%
num_searched, num_rollouts = max(10, int(200 * SCALE)), max(64, int(400 * SCALE))
here = d.game < num_searched
observation, hands, legal = jax.tree.map(lambda x: x[here], (d.observation, d.hands, d.legal))
search = unojax.parse_agent(f"mc:model=uniform,rollouts={num_rollouts}")
estimate = jax.jit(search.estimate)
found = [
    jax.device_get(
        estimate(
            jax.random.split(jax.random.key(seed), len(legal)),
            observation,
            hands,
            legal,
        )
    )
    for seed in (400, 401)
]


@jax.jit
def values_after(observation, hands, legal):
    """Ask the network for the value of each play, in [-1, 1]."""
    view = unojax.view_of(observation)
    outlook = value.outlook_of_hands(view, hands, tracked.opponent)
    return value.value_plays(network, view, outlook, legal)


values = np.asarray(values_after(observation, hands, legal))
every = np.arange(len(legal))
by_net = values.argmax(1)
by_search = np.asarray(jax.vmap(lambda e, mask: choose(e, mask, 0.0))(found[0], legal))
by_linear = np.asarray(found[0].base)


def loss_of(play):
    """Measure the win probability given away at each decision, by the second search."""
    return (found[1].value[every, by_search] - found[1].value[every, play]) / 2


def mean_loss(values, where=None):
    """Average over decisions, games being independent."""
    counted = np.ones(len(legal)) if where is None else where.astype(float)
    game = d.game[here]
    return analysis.estimate_ratio(
        np.bincount(game, values * counted, num_searched), np.bincount(game, counted, num_searched)
    )


# %% tags=["hide-input"] jupyter={"source_hidden": true}
loss = {"network": loss_of(by_net), "linear": loss_of(by_linear)}
differ = {"network": by_net != by_search, "linear": by_linear != by_search}
print(
    f"{len(legal):,} decisions, {legal.sum(1).mean():.1f} plays each, "
    f"{num_rollouts} rollouts of each play"
)
analysis.TextTable(
    ["player", "differs from the search", "loss, all decisions", "loss where it differs"],
    [
        [
            name,
            f"{mean_loss(differ[name]):.1%}",
            f"{mean_loss(loss[name]):.2%}",
            f"{mean_loss(loss[name], differ[name]):.2%}",
        ]
        for name in loss
    ],
)

# %% tags=["hide-input"] jupyter={"source_hidden": true}
rank_net, rank_search = by_net % cards.NUM_RANKS, by_search % cards.NUM_RANKS
wild_net, wild_search = rank_net >= cards.WILD, rank_search >= cards.WILD
action_net, action_search = rank_net >= cards.SKIP, rank_search >= cards.SKIP
kinds = {
    "declares another colour": wild_net & (rank_net == rank_search),
    "plays the other wild card": wild_net & wild_search & (rank_net != rank_search),
    "plays a wild card that the search keeps": wild_net & ~wild_search,
    "keeps a wild card that the search plays": ~wild_net & wild_search,
    "plays an action card, the search a number": action_net & ~wild_net & ~action_search,
    "plays a number, the search an action card": ~action_net & action_search & ~wild_search,
    "plays another number": ~action_net & ~action_search,
    "plays another action card": action_net & ~wild_net & action_search & ~wild_search,
}
kinds = {kind: where & differ["network"] for kind, where in kinds.items()}
assert (np.sum(list(kinds.values()), 0) == differ["network"]).all()
analysis.TextTable(
    ["the network", "decisions", "loss at these", "points in 100 decisions"],
    [
        [
            kind,
            f"{where.sum()}",
            f"{mean_loss(loss['network'], where):.1%}",
            f"{1e4 * loss['network'][where].sum() / len(legal):+.1f}",
        ]
        for kind, where in sorted(kinds.items(), key=lambda item: -loss["network"][item[1]].sum())
        if where.sum() >= 2
    ],
)

# %% tags=["hide-input"] jupyter={"source_hidden": true}
stage = fewest[here]
bands = {
    "1 card": stage == 1,
    "2": stage == 2,
    "3": stage == 3,
    "4 or 5": (stage == 4) | (stage == 5),
    "6 or more": stage > 5,
}
analysis.TextTable(
    ["smaller hand", *bands],
    [
        [
            "differs from the search",
            *(f"{mean_loss(differ['network'], where):.0%}" for where in bands.values()),
        ],
        [
            "loss, all decisions",
            *(f"{mean_loss(loss['network'], where):.1%}" for where in bands.values()),
        ],
    ],
)

# %% [markdown]
# * In a quarter of the decisions the network and the search choose different plays, with a small effect: by the second search, the
#   network loses an eighth of a point of win probability per decision. `linear`, the rollout policy, loses two thirds of a point.
# * No kind of decision and no stage of the game stands out.
#
# The three decisions with the largest loss by the first search, evaluated by a third search with ten times the rollouts:

# %% tags=["hide-input"] jupyter={"source_hidden": true}
wanted = found[0].value[every, by_search] - found[0].value[every, by_net]
worst = np.argsort(-wanted)[:3]
thorough = unojax.parse_agent(f"mc:model=uniform,rollouts={10 * num_rollouts}")
third = jax.jit(thorough.estimate)(
    jax.random.split(jax.random.key(402), len(worst)),
    *jax.tree.map(lambda x: x[worst], (observation, hands, legal)),
)
for i, estimates, errors in zip(
    worst, np.asarray(third.value), np.asarray(third.value_error), strict=True
):
    plays = sorted(np.flatnonzero(legal[i]).tolist(), key=lambda play: -estimates[play])
    display(viz.position_svg(jax.tree.map(lambda x, i=i: x[i], observation), width=560))
    wins = {play: analysis.Measure((1 + estimates[play]) / 2, errors[play] / 2) for play in plays}
    display(
        analysis.TextTable(
            ["play", "network", "third search", ""],
            [
                [
                    unojax.format_action(play),
                    f"{(1 + values[i, play]) / 2:.1%}",
                    f"{wins[play]:.1%}",
                    "network's choice"
                    if play == by_net[i]
                    else "first search's choice"
                    if play == by_search[i]
                    else "",
                ]
                for play in plays
            ],
        )
    )

# %% [markdown]
# The network evaluates only the position after its play, and in each of the three it is off by 9 to 24 points for one play. The search
# is no oracle either: its rollouts assume that both players follow `linear`.
#
# ## Exercises
#
# 1. Repeat the forecasts against `scarcest-color`. Are they too high or too low?
# 2. Which choices of the network change with `value:belief=unseen`?
