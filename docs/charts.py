"""Charts of `benchmarks/results/`, drawn when the pages are built: a function for each, which fills a figure.

`draw_all` writes each once for a light page and once for a dark one; docs/conf.py calls it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from unojax.viz.charts import chart_style

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
PARTICLES = "particles 1024"


def read(name: str) -> Any:
    """Read a file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _short(number: float, _: int = 0) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g} {unit}"
    return f"{number:g}"


def engine_cpu(figure: Figure) -> None:
    """Steps per second by the number of games in a batch, beside RLCard."""
    axes = figure.subplots()
    results = read("engine_cpu")["rows"]
    measured = {
        name: [row for row in results if row["settings"]["program"] == name] for name in ("simulate", "one-hot", "rlcard")
    }
    for name, label in (("simulate", "simulate"), ("one-hot", "vmapped step, one-hot")):
        rows = measured[name]
        rates = [row["figures"]["steps_per_second"] for row in rows]
        middle = np.array([rate["median"] for rate in rates])
        spread = np.abs(np.array([[rate[end] for rate in rates] for end in ("min", "max")]) - middle)
        axes.errorbar(
            [row["settings"]["batch_size"] for row in rows], middle, spread, marker="o", capsize=3, elinewidth=1, label=label
        )
    for level, label in (("game", "RLCard, the game alone, one core"), ("env", "RLCard, environment, one core")):
        rate = measured["rlcard"][0]["figures"]["levels"][level]["steps_per_second"]["median"]
        axes.axhline(rate, linestyle="--", linewidth=1.2, color="C2" if level == "game" else "C3", label=label)
    axes.set(xscale="log", yscale="log", xlabel="games at a time", ylabel="steps per second")
    batches = sorted({row["settings"]["batch_size"] for name in ("simulate", "one-hot") for row in measured[name]})
    axes.set_xticks(batches, [f"{batch:,}" for batch in batches], rotation=40)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    figure.legend(loc="outside upper left", ncols=2)


def belief_full_deck(figure: Figure) -> None:
    """Log scores of the beliefs, by the policy that the opponent plays."""
    names = {
        "particles 1024, knows the policy": "particles, true opponent model",
        PARTICLES: "particles, uniform model",
        "particles 1024, consistency only": "particles, consistency only",
        "closed form": "closed form",
        "uniform": "uniform over unseen cards",
        "bootstrap 1024": "bootstrap filter",
    }
    axes = figure.subplots()
    opponents = ("uniform", "scarcest-color")
    comparisons = [row for row in read("belief_full_deck")["rows"] if row["settings"]["opponent"] in opponents]
    height = 0.38
    for number, one in enumerate(comparisons):
        places, means, errors = [], [], []
        for place, name in enumerate(names):
            if name in one["figures"]["methods"]:
                score = one["figures"]["methods"][name]["log_score"]
                places.append(place + (number - 0.5) * height)
                means.append(-score["mean"])
                errors.append(1.96 * score["standard_error"])
        axes.barh(places, means, height, xerr=errors, label=f"against {one['settings']['opponent']}", error_kw={"elinewidth": 1})
    axes.set_yticks(range(len(names)), list(names.values()))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="negative log score, nats per update (shorter is better)")
    figure.legend(loc="outside upper left", ncols=2)


def belief_agreement(figure: Figure) -> None:
    """Mean error of the expected copies against the exact filter, by the number of particles."""
    axes = figure.subplots()
    (row,) = read("belief_agreement")["rows"]
    numbers = np.array(row["settings"]["particles"])
    errors = np.array([row["figures"]["all decks"][f"N = {number}"]["mean_error"] for number in numbers])
    axes.plot(numbers, errors[0] * np.sqrt(numbers[0] / numbers), "--", color="C1", label="halved by four times the particles")
    axes.plot(numbers, errors, "o", color="C0", label="measured", markersize=8)
    axes.set(xscale="log", yscale="log", xlabel="particles", ylabel="mean error, copies of a card")
    axes.set_xticks(numbers, [f"{number:,}" for number in numbers])
    axes.set_yticks(errors, [f"{error:.4f}" for error in errors])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.legend()


def belief_calibration(figure: Figure) -> None:
    """Observed minus predicted frequency, with two standard errors, in each bin of the predictions."""
    axes = figure.subplots()
    bins = read("belief_calibration")["rows"][0]["figures"]["methods"][PARTICLES]["calibration"]["bins"]
    axes.axhline(0, color="C1", linewidth=1.2)
    axes.errorbar(
        [one["predicted"] for one in bins],
        [one["observed"] - one["predicted"] for one in bins],
        [2 * one["standard_error"] for one in bins],
        fmt="o",
        capsize=4,
        elinewidth=1.2,
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set(xlabel="predicted probability that the opponent holds a card", ylabel="observed - predicted", ylim=(-0.032, 0.032))


def win_calibration(figure: Figure) -> None:
    """Stated win probability minus observed win rate, with two standard errors, in each bin of the win probabilities."""
    axes = figure.subplots()
    axes.axhline(0, color="C3", linewidth=1, linestyle="--")
    for number, row in enumerate(read("win_calibration")["rows"]):
        bins = row["figures"]["bins"]
        axes.errorbar(
            [one["predicted"] + 0.008 * (number - 1) for one in bins],
            [one["surplus"] for one in bins],
            [2 * one["standard_error"] for one in bins],
            fmt="o",
            capsize=4,
            elinewidth=1.2,
            label=f"{row['settings']['rules']} rules",
        )
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set(xlabel="stated win probability", ylabel="stated - observed")
    figure.legend(loc="outside upper left", ncols=3)


def search_strength(figure: Figure) -> None:
    """Scores of searches by their knowledge of the hidden hand, with 95 % intervals, against three policies."""
    names = {
        "mc:belief=unseen": "uniform belief",
        "mc:model=linear+0.5": "particle belief",
        "mc:belief=truth": "oracle baseline (the true hand)",
    }
    rows = {(row["agent"], row["opponent"]): row for file in ("search_strength", "search_beliefs") for row in read(file)["rows"]}
    axes = figure.subplots()
    opponents = ("uniform", "scarcest-color", "linear")
    for number, (agent, name) in enumerate(names.items()):
        scores = [rows[agent, opponent]["score"] for opponent in opponents]
        ends = np.array([rows[agent, opponent]["interval_95"] for opponent in opponents]).T
        places = np.arange(len(opponents)) + (number - 1) * 0.2
        axes.errorbar(places, scores, np.abs(ends - scores), fmt="o", capsize=4, elinewidth=1.5, markersize=8, label=name)
    axes.axhline(0.5, color="C3", linewidth=1, linestyle="--")
    axes.set_xticks(range(len(opponents)), [f"against {name}" for name in opponents])
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set(ylabel="score", xlim=(-0.5, 2.5))
    figure.legend(loc="outside upper left", ncols=3, title="belief of mc", alignment="left")


def arena_cpu(figure: Figure) -> None:
    """Ratings of all agents with 95 % intervals."""
    figure.set_figheight(4.6)
    axes = figure.subplots()
    agents = sorted(read("arena_cpu")["results"]["agents"], key=lambda agent: agent["rating"])
    axes.errorbar(
        [agent["rating"] for agent in agents],
        range(len(agents)),
        xerr=[agent["rating_margin"] for agent in agents],
        fmt="o",
        capsize=3,
        elinewidth=1.2,
    )
    axes.set_yticks(range(len(agents)), [agent["name"] for agent in agents])
    axes.set(xlabel="rating, Elo points, mean 0")


def optimal_play(figure: Figure) -> None:
    """Exploitability of each agent on the deck `small`."""
    figure.set_figheight(5.0)
    axes = figure.subplots()
    rows = [row for row in read("optimal_play")["rows"] if row["settings"]["deck"] == "small" and "agent" in row["settings"]]
    lost = {row["settings"]["agent"]: row["figures"]["exploitability"] for row in rows}
    del lost["equilibrium"]
    agents = sorted(lost, key=lambda agent: -lost[agent])
    names = [
        agent.replace(":model=linear+0.5", "")
        .replace(",keep=0,model=linear+0", "")
        .replace("limit", "one step of improvement on linear")
        for agent in agents
    ]
    axes.barh(names, [lost[agent] for agent in agents])
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="exploitability per game; 0 for the equilibrium")


CHARTS = (
    engine_cpu,
    belief_full_deck,
    belief_agreement,
    belief_calibration,
    win_calibration,
    search_strength,
    arena_cpu,
    optimal_play,
)


def draw_all(folder: Path) -> None:
    """Write NAME-light.svg and NAME-dark.svg of each chart; letters are text, in the reader's own font."""
    folder.mkdir(exist_ok=True)
    for chart in CHARTS:
        for theme in ("light", "dark"):
            fonts = {"svg.fonttype": "none", "svg.hashsalt": chart.__name__, "font.sans-serif": ["DejaVu Sans"]}
            with mpl.rc_context(chart_style(theme) | fonts):
                figure = Figure()
                chart(figure)
                figure.savefig(folder / f"{chart.__name__}-{theme}.svg", transparent=True, metadata={"Date": None})
