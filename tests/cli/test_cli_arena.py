"""`unojax arena`: the figures of `play_match`; resumed files; tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from unojax.agents import sees_hidden_hand
from unojax.arena import Pairs, play_match, play_rounds, tournaments
from unojax.arena.fingerprint import fingerprint
from unojax.arena.ratings import paired_score
from unojax.arena.results import ResultsFile
from unojax.arena.standings import standings_of
from unojax.cli import main, targets
from unojax.cli.output import to_json
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.terminal.standings import fitting, match_table, score_table
from unojax.terminal.tables import duration, percent_within, rate
from unojax.viz.standings import break_name

NAMES = ("uniform", "scarcest-color", "keep-wilds")
NUM_PAIRS = 24
BATCH_SIZE = 16
ARGS = ["arena", *NAMES, "--games", str(2 * NUM_PAIRS), "--batch-size", str(BATCH_SIZE), "--workers", "2", "--seed", "1"]
PEEK = """
class Peek:
    name = "peek"
    def init(self, key, observation): return ()
    def update(self, key, memory, before, action, after): return memory
    def reveal(self, memory, state, player): return memory
    def act(self, key, memory, observation, legal_mask): return legal_mask.argmax()
"""


@pytest.fixture(scope="module")
def matches() -> dict[tuple[int, int], Pairs]:
    """Return the matches that the command must play."""
    agents, key = [parse_agent(name) for name in NAMES], jax.random.key(1)
    return {
        (i, j): play_match(key, (agents[i], agents[j]), NUM_PAIRS, batch_size=BATCH_SIZE) for i, j in combinations(range(3), 2)
    }


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a results file, sorted by match and pair, without times."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(({**line, "seconds": None} for line in lines), key=lambda line: (line["agents"], line["pairs"]))


def interrupted_after(num_batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise Ctrl-C instead of the batch after `num_batches`."""
    play = tournaments.play_batches

    def play_until(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for count, played in enumerate(play(*args, **kwargs)):
            if count == num_batches:
                raise KeyboardInterrupt
            yield played

    monkeypatch.setattr(tournaments, "play_batches", play_until)


def text_of(part: Any, width: int) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(part)
    return capture.get()


def test_figures_tables_and_picture(run_json, run_text, tmp_path, matches):
    data = run_json(*ARGS)
    assert data["complete"] is True and data["agents"] == list(NAMES)
    rows = data["results"]["matches"]
    assert [(row["first"], row["second"]) for row in rows] == [(NAMES[i], NAMES[j]) for i, j in matches]
    for row, pairs in zip(rows, matches.values(), strict=True):
        score = paired_score(pairs.points)
        assert row["games"] == 2 * NUM_PAIRS == sum(row["wins"]) + row["drawn"]
        assert row["wins"] == [(pairs.winner == 0).sum(), (pairs.winner == 1).sum()]
        assert row["score"] == vars(score) | {"interval": list(score.interval)}
    for row in data["results"]["agents"]:
        i = NAMES.index(row["name"])
        mine = [(pairs, match.index(i)) for match, pairs in matches.items() if i in match]
        assert row["games"] == 4 * NUM_PAIRS and 0 < row["seconds_per_decision"] < 1
        assert row["decisions"] == sum(pairs.num_choices[..., side].sum() for pairs, side in mine)
        assert row["score"] == pytest.approx(np.mean([np.mean(p.points if side == 0 else 1 - p.points) for p, side in mine]))
    ratings = [row["rating"] for row in data["results"]["agents"]]
    assert ratings == sorted(ratings, reverse=True) and sum(ratings) == pytest.approx(0, abs=1e-6)
    assert data["results"]["agents"][-1]["name"] == "uniform"

    out = run_text(*ARGS, "--plot", str(tmp_path / "scores.svg"))
    for words in ("Ratings in Elo points", "Score of row against column", "48 of each two agents", "2 workers", "games/s"):
        assert words in " ".join(out.split())
    picture = (tmp_path / "scores.svg").read_text()
    assert all(f"{name}  " in picture for name in NAMES) and "Elo" in picture


@pytest.mark.slow
def test_a_picture_of_pixels(tmp_path):
    assert main([*ARGS, "--plot", str(tmp_path / "scores.png")]) == 0
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_stopped_and_continued_is_as_if_never_stopped(run_json, capsys, monkeypatch, tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    expected = run_json(*ARGS, "--results", str(whole))["results"]
    assert len(lines_of(whole)) == 9
    with monkeypatch.context() as patch:
        interrupted_after(0, patch)
        assert main(ARGS) == 130
        captured = capsys.readouterr()
        assert captured.out == "" and "no batch was complete" in captured.err
    with monkeypatch.context() as patch:
        interrupted_after(4, patch)
        data = run_json(*ARGS, "--results", str(parts), status=130, note="stopped after")
    assert data["complete"] is False
    assert sum(row["games"] for row in data["results"]["matches"]) == 4 * BATCH_SIZE
    # A line cut off by a crash does no harm.
    with parts.open("a") as file:
        file.write('{"seed":1,"rules_v')
    got = run_json(*ARGS, "--results", str(parts))["results"]
    assert lines_of(parts) == lines_of(whole) and got["matches"] == expected["matches"]
    for one, other in zip(got["agents"], expected["agents"], strict=True):
        assert {**one, "seconds_per_decision": 0} == {**other, "seconds_per_decision": 0}


def test_a_file_is_used_in_any_order_and_for_fewer_games(run_json, run_text, monkeypatch, tmp_path, matches):
    args = ["--games", "32", "--batch-size", str(BATCH_SIZE), "--seed", "1", "--results", str(tmp_path / "r.jsonl"), "--quiet"]
    assert "32 of each two agents" in run_text("arena", "scarcest-color", "uniform", *args)

    def no_games(key: jax.Array, batches: list[Any], **options: Any) -> Iterator[Any]:
        assert not batches, "these games are in the file"
        yield from ()

    monkeypatch.setattr(tournaments, "play_batches", no_games)
    (row,) = run_json("arena", "uniform", "scarcest-color", *args, "--games", "20")["results"]["matches"]
    assert row["games"] == 20 and row["wins"][0] == (matches[0, 1].winner[:10] == 0).sum()


def test_files_of_other_games_are_refused_and_stay(refused, tmp_path, matches):
    path, changed, other = (tmp_path / name for name in ("results.jsonl", "changed.jsonl", "other.jsonl"))
    agents = {name: fingerprint(name, parse_agent(name)) for name in NAMES}
    for file, prints in ((path, agents), (changed, agents | {"uniform": agents["keep-wilds"]})):
        ResultsFile(str(file), seed=1, rules=Rules(), agents=prints).append("uniform", "scarcest-color", matches[0, 1])
    other.write_text('{"seed": 1}\n')
    before = [file.read_bytes() for file in (path, changed, other)]
    refused(
        {
            f"uniform scarcest-color --results {path} --seed 2": "seed 1, not 2",
            f"uniform scarcest-color --results {path} --seed 1 --hand-size 5": "other rules",
            f"uniform guard --results {path} --seed 1": "agent scarcest-color",
            f"uniform scarcest-color --results {changed} --seed 1": "of an agent uniform that was another one",
            f"uniform guard --results {other}": "is not a line of arena results",
        },
        ["arena"],
    )
    assert [file.read_bytes() for file in (path, changed, other)] == before


def test_bad_command_lines_are_refused(refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    refused(
        {
            "uniform": "two or more agents",
            "uniform uniform": "agent uniform is given twice",
            "uniform best": "no agent is called 'best'",
            "uniform guard --games 3": "--games",
            "uniform guard --batch-size 3": "--batch-size",
            "uniform guard --plot scores.gif": "--plot",
            "uniform guard --plot missing/scores.svg": "--plot: can't write 'missing/scores.svg'",
            "uniform guard --results missing/r.jsonl": "--results: can't write 'missing/r.jsonl'",
            "linear uniform --to 500": "--points True",
        }
        | {
            f"linear uniform --games 4 {one} {other}": f"{one.split()[0]} is about single games"
            for one in ("--series 2", "--adjust 16")
            for other in ("--to 100", "--results games.jsonl")
        },
        ["arena"],
    )
    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    refused({"uniform guard --plot scores.svg": "pip install 'unojax[plot]'"}, ["arena"])


def test_faults_and_open_cards_are_noted(capsys, tmp_path):
    (tmp_path / "peek.py").write_text(PEEK)
    options = "--games 4 --hand-size 3 --batch-size 8 --workers 1 --quiet --json -"
    assert main(["arena", "process:false", f"{tmp_path}/peek.py:Peek", *options.split()]) == 0
    captured = capsys.readouterr()
    faults = json.loads(captured.out)["faults"]
    assert faults["peek"] == [] and "died: " in faults["process:false"][0] and "ended with status 1" in faults["process:false"][0]
    first, *others = captured.err.splitlines()
    assert first == "unojax arena: peek sees the opponent's hand: its results are an oracle baseline, which no player can reach"
    assert others == [f"unojax arena: process:false lost games by its own fault: {fault}" for fault in faults["process:false"]]
    specs = ("mc:belief=truth", "tree:belief=truth", "mc", "value", "linear")
    assert [sees_hidden_hand(parse_agent(spec)) for spec in specs] == [True, True, False, False, False]


def test_tables_show_both_sides_of_a_match_and_those_without_games(matches):
    standings = standings_of(NAMES, matches)
    first, second = (agent.name for agent in standings.agents[:2])
    match, other = standings.match(first, second), standings.match(second, first)
    assert match is not None and other is not None
    assert (other.score.value, other.score.interval[0]) == pytest.approx((1 - match.score.value, 1 - match.score.interval[1]))
    assert other.wins == match.wins[::-1]
    for make in (score_table, partial(score_table, names=False), match_table):
        text = text_of(make(standings), 80)
        assert percent_within(match.score.value, match.score.interval) in text
        assert make is match_table or percent_within(other.score.value, other.score.interval) in text

    some = {pair: pairs for pair, pairs in matches.items() if 0 not in pair}
    standings = standings_of(NAMES, {**some, (0, 1): Pairs.join([])})
    assert standings.match("uniform", "keep-wilds") is None
    row = next(row for row in standings.agents if row.name == "uniform")
    assert (row.games, row.score, row.seconds_per_decision) == (0, None, None)
    assert "-" in text_of(score_table(standings), 80)
    json.dumps(to_json(standings), allow_nan=False)


def test_long_names_and_numbers_fit(monkeypatch, matches):
    names = tuple(f"tree:simulations={n}000,belief=particles,exploration=1.41" for n in range(3))
    monkeypatch.setenv("COLUMNS", "80")
    standings = standings_of(names, matches)
    parts = [text_of(part, 80) for part in fitting(standings)]
    assert all("…" not in text and all(len(line) <= 80 for line in text.splitlines()) for text in parts)
    assert "Score of row" in parts[2] and "simulations" not in parts[2], "the ratings have the names"
    monkeypatch.setenv("COLUMNS", "60")
    for part in fitting(standings_of(NAMES, matches)):
        assert all(len(line) <= 60 for line in text_of(part, 60).splitlines()), "two columns of counts are left out"
    for columns, words in (("120", names[0]), ("30", "first")):
        monkeypatch.setenv("COLUMNS", columns)
        assert words in text_of(fitting(standings)[2], 120)
    broken = {"uniform": ["uniform"], "mc:rollouts=9,belief=unseen": ["mc:rollouts=9,belief=unseen"], "x" * 30: ["x" * 28, "xx"]}
    broken["mc:rollouts=1000,belief=particles"] = ["mc:rollouts=1000,", "belief=particles"]
    assert {name: break_name(name).split("\n") for name in broken} == broken
    assert [duration(s) for s in (2.5, 0.0123, 4.56e-6)] == ["2.5 s", "12.3 ms", "4.56 µs"]
    assert [rate(r) for r in (0.123, 3.0, 4321.0)] == ["0.12 games/s", "3 games/s", "4,321 games/s"]
    assert percent_within(0.5, (0.499, 0.501)) == "50.00 ± 0.10" and percent_within(0.662, (0.65, 0.672)) == "66.2 ± 1.1"
    # Of two games, both won, no score is above 100.
    assert percent_within(1.0, (0.342, 1.0)) == "100.0 (34.2-100.0)"


def test_variance_reduction_makes_intervals_smaller(run_text, tmp_path):
    path = tmp_path / "results.json"
    out = run_text(*f"arena scarcest-color uniform --games 64 --adjust 16 --quiet --json {path}".split())
    assert "variance-reduced" in " ".join(out.split()) and "by 16 rollouts of each estimate" in " ".join(out.split())
    [match] = json.loads(path.read_text())["results"]["matches"]
    adjusted, error = match["adjusted"]["value"], match["adjusted"]["standard_error"]
    # Six standard errors; 67.6 % were seen in many games.
    assert abs(adjusted - 0.676) < 6 * error and error < match["score"]["standard_error"]


@pytest.mark.slow
def test_deals_in_series_and_matches_to_some_points(run_json):
    """Compare with `play_match` and `play_rounds` of the same seed."""
    agents, key = (parse_agent("linear"), parse_agent("uniform")), jax.random.key(5, impl="threefry2x32")
    rounds = play_rounds(key, agents, 4, rules=Rules(hand_size=2, points=True), target=60)
    for options, score in (
        ("--series 2", paired_score(play_match(key, agents, 4, series=2).points, series=2)),
        ("--to 60 --hand-size 2 --points True", paired_score(rounds.points)),
    ):
        [match] = run_json(*f"arena linear uniform --games 8 --seed 5 {options} --quiet".split())["results"]["matches"]
        figures = match["score"]["value"], match["score"]["standard_error"]
        assert figures == pytest.approx((score.value, score.standard_error))
