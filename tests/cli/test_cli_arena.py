"""`unojax arena`: its figures are those of `play_match`; files that go on where they stopped; tables and pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from tests.helpers import slow_but
from unojax import arena
from unojax.agents import sees_hidden_hand
from unojax.arena import Pairs, play_match, play_rounds, tournaments
from unojax.arena.fingerprint import fingerprint
from unojax.arena.ratings import paired_score
from unojax.arena.results import ResultsFile
from unojax.arena.standings import standings_of
from unojax.cli import main, targets
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.terminal.standings import fitting, match_table, score_table
from unojax.terminal.tables import duration, percent_within, rate
from unojax.viz.standings import break_name

NAMES = ("uniform", "scarcest-color", "keep-wilds")
NUM_PAIRS = 24
BATCH_SIZE = 16
ARGS = ["arena", *NAMES, "--games", str(2 * NUM_PAIRS), "--batch-size", str(BATCH_SIZE), "--workers", "2", "--seed", "1"]


@pytest.fixture(scope="module")
def matches() -> dict[tuple[int, int], Pairs]:
    """The matches that the command must have played."""
    agents = [parse_agent(name) for name in NAMES]
    key = jax.random.key(1)
    return {
        (i, j): play_match(key, (agents[i], agents[j]), NUM_PAIRS, batch_size=BATCH_SIZE) for i, j in combinations(range(3), 2)
    }


def run_json(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> dict[str, Any]:
    """The JSON on stdout, of which there must be nothing else."""
    assert main([*args, "--json", "-"]) == status
    return json.loads(capsys.readouterr().out)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a results file in the order of the matches and pairs, times left out."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(({**line, "seconds": None} for line in lines), key=lambda line: (line["agents"], line["pairs"]))


def interrupted_after(num_batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes instead of the next batch after so many."""
    play = tournaments.play_batches

    def play_until(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for count, played in enumerate(play(*args, **kwargs)):
            if count == num_batches:
                raise KeyboardInterrupt
            yield played

    monkeypatch.setattr(tournaments, "play_batches", play_until)


def test_figures(capsys, matches: dict[tuple[int, int], Pairs]):
    data = run_json(capsys, *ARGS)
    assert data["complete"] is True
    assert data["agents"] == list(NAMES)
    rows = data["results"]["matches"]
    assert [(row["first"], row["second"]) for row in rows] == [(NAMES[i], NAMES[j]) for i, j in matches]
    for row, pairs in zip(rows, matches.values(), strict=True):
        score = paired_score(pairs.points)
        assert row["games"] == 2 * NUM_PAIRS == sum(row["wins"]) + row["drawn"]
        assert row["wins"] == [(pairs.winner == 0).sum(), (pairs.winner == 1).sum()]
        assert row["score"] == pytest.approx(score.value)
        assert row["interval"] == pytest.approx(score.interval)
        assert row["variance_reduction"] == pytest.approx(score.variance_reduction)
    for row in data["results"]["agents"]:
        i = NAMES.index(row["name"])
        mine = [(pairs, match.index(i)) for match, pairs in matches.items() if i in match]
        assert row["games"] == 4 * NUM_PAIRS
        assert row["decisions"] == sum(pairs.num_choices[..., side].sum() for pairs, side in mine)
        assert row["score"] == pytest.approx(np.mean([np.mean(p.points if side == 0 else 1 - p.points) for p, side in mine]))
        assert 0 < row["seconds_per_decision"] < 1
    ratings = [row["rating"] for row in data["results"]["agents"]]
    assert ratings == sorted(ratings, reverse=True)
    assert sum(ratings) == pytest.approx(0, abs=1e-6)
    assert data["results"]["agents"][-1]["name"] == "uniform"


def test_stopped_and_continued_is_as_if_never_stopped(capsys, monkeypatch, tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    expected = run_json(capsys, *ARGS, "--results", str(whole))["results"]
    assert len(lines_of(whole)) == 9
    with monkeypatch.context() as patch:
        interrupted_after(4, patch)
        data = run_json(capsys, *ARGS, "--results", str(parts), status=130)
    assert data["complete"] is False
    assert sum(row["games"] for row in data["results"]["matches"]) == 4 * BATCH_SIZE
    with monkeypatch.context() as patch:
        interrupted_after(0, patch)
        assert main([*ARGS, "--results", str(parts)]) == 130
    captured = capsys.readouterr()
    # Which batches were done by then depends on time.
    found = Counter(json.dumps(line["agents"]) for line in lines_of(parts))
    fewest, most = (BATCH_SIZE * some for some in (min(found.values()) if len(found) == 3 else 0, max(found.values())))
    assert f"{fewest} to {most} of 48 of each two agents" in captured.out
    assert "stopped after" in captured.err
    # A line cut off by a crash does no harm.
    with parts.open("a") as file:
        file.write('{"seed":1,"rules_v')
    got = run_json(capsys, *ARGS, "--results", str(parts))["results"]
    assert lines_of(parts) == lines_of(whole)
    assert got["matches"] == expected["matches"]
    for one, other in zip(got["agents"], expected["agents"], strict=True):
        assert {**one, "seconds_per_decision": 0} == {**other, "seconds_per_decision": 0}


def test_a_file_is_used_in_any_order_and_for_fewer_games(capsys, monkeypatch, tmp_path, matches):
    path = tmp_path / "results.jsonl"
    args = ["--games", "32", "--batch-size", str(BATCH_SIZE), "--seed", "1", "--results", str(path), "--quiet"]
    assert main(["arena", "scarcest-color", "uniform", *args]) == 0
    out = capsys.readouterr().out
    assert "32 of each two agents" in out
    assert "Found" not in out

    def no_games(key: jax.Array, batches: list[arena.Batch], **options: Any) -> Iterator[Any]:
        assert not batches, "these games are in the file"
        yield from ()

    monkeypatch.setattr(tournaments, "play_batches", no_games)
    (row,) = run_json(capsys, "arena", "uniform", "scarcest-color", *args, "--games", "20")["results"]["matches"]
    assert row["games"] == 20
    assert row["wins"][0] == (matches[0, 1].winner[:10] == 0).sum()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["uniform", "scarcest-color", "--seed", "2"], "line 1 of .* is of games with seed 1, not 2; give another file"),
        (["uniform", "scarcest-color", "--seed", "1", "--hand-size", "5"], "line 1 of .* is of games with other rules"),
        (["uniform", "guard", "--seed", "1"], "line 1 of .* is of agent scarcest-color, which is not asked for"),
    ],
)
def test_a_file_of_other_games_is_refused(capsys, tmp_path, matches, args: list[str], says: str):
    from unojax.rules import Rules

    path = tmp_path / "results.jsonl"
    agents = {name: fingerprint(name, parse_agent(name)) for name in NAMES}
    ResultsFile(str(path), seed=1, rules=Rules(), agents=agents).append("uniform", "scarcest-color", matches[0, 1])
    content = path.read_bytes()
    assert main(["arena", *args, "--results", str(path)]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    with pytest.raises(ValueError, match=says):
        raise ValueError(err)
    assert path.read_bytes() == content


def test_a_file_of_an_agent_that_has_changed_is_refused(capsys, tmp_path):
    path, mine = tmp_path / "results.jsonl", tmp_path / "mine.py"
    command = ["arena", f"{mine}:first", "uniform", "--games", "16", "--results", str(path), "--quiet"]
    mine.write_text("def first(key, observation, legal_mask):\n    return legal_mask.argmax()\n")
    assert main(command) == 0
    content = path.read_bytes()
    assert main(command) == 0
    mine.write_text("def first(key, observation, legal_mask):\n    return legal_mask.nonzero(size=1)[0][0]\n")
    capsys.readouterr()
    assert main(command) == 2
    assert "mine.py:first that was another one: a default, or a file that it names, has changed" in capsys.readouterr().err
    assert path.read_bytes() == content


def test_a_file_of_something_else_is_refused(capsys, tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"seed": 1}\n')
    assert main([*ARGS, "--results", str(path)]) == 2
    assert "is not a line of arena results" in capsys.readouterr().err
    assert path.read_text() == '{"seed": 1}\n'


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["uniform"], "give two or more agents, got uniform"),
        (["uniform", "uniform"], "agent uniform is given twice"),
        (["uniform", "best"], "no agent is called 'best'; choose one of uniform, greedy"),
        (["uniform", "guard", "--games", "3"], "--games must be an even number"),
        (["uniform", "guard", "--batch-size", "3"], "--batch-size must be an even number"),
        (["uniform", "guard", "--plot", "scores.gif"], "--plot: a file must end in .svg or .png, got 'scores.gif'"),
        (
            ["uniform", "guard", "--plot", "missing/scores.svg"],
            "--plot: can't write 'missing/scores.svg': there is no such folder",
        ),
        (
            ["uniform", "guard", "--results", "missing/r.jsonl"],
            "--results: can't write 'missing/r.jsonl': there is no such folder",
        ),
    ],
)
def test_errors_are_one_line(complaint, monkeypatch, tmp_path, args: list[str], says: str):
    monkeypatch.chdir(tmp_path)
    assert says in complaint(["arena", *args])


def test_missing_matplotlib_is_said_before_any_game(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    assert main([*ARGS, "--plot", str(tmp_path / "scores.svg")]) == 2
    assert "pip install 'unojax[plot]'" in capsys.readouterr().err


_PEEK = """
class Peek:
    name = "peek"
    def init(self, key, observation): return ()
    def update(self, key, memory, before, action, after): return memory
    def reveal(self, memory, state, player): return memory
    def act(self, key, memory, observation, legal_mask): return legal_mask.argmax()
"""


def test_faults_and_open_cards_are_told(capsys, tmp_path):
    """Programs of `tests/adapters/test_process.py`, for the most part."""
    (tmp_path / "peek.py").write_text(_PEEK)
    options = "--games 4 --hand-size 3 --batch-size 8 --workers 1 --quiet --json -"
    assert main(["arena", "process:false", f"{tmp_path}/peek.py:Peek", *options.split()]) == 0
    captured = capsys.readouterr()
    faults = json.loads(captured.out)["faults"]
    assert faults["peek"] == [] and "died: " in faults["process:false"][0] and "ended with status 1" in faults["process:false"][0]
    first, *others = captured.err.splitlines()
    assert first == "unojax arena: peek sees the opponent's hand: its results are an oracle baseline, which no player can reach"
    assert others == [f"unojax arena: process:false lost games by its own fault: {fault}" for fault in faults["process:false"]]


@pytest.mark.parametrize(
    ("spec", "sees"), [("mc:belief=truth", True), ("tree:belief=truth", True), ("mc", False), ("value", False), ("linear", False)]
)
def test_who_sees_the_hidden_hand(spec: str, sees: bool):
    assert sees_hidden_hand(parse_agent(spec)) == sees


def test_interrupted_before_there_is_anything(capsys, monkeypatch):
    interrupted_after(0, monkeypatch)
    assert main(ARGS) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no batch was complete" in captured.err


@pytest.mark.parametrize("kind", slow_but(["svg"], ["svg", "png"]))
def test_output_and_picture(capsys, tmp_path, kind: str):
    target = tmp_path / f"scores.{kind}"
    assert main([*ARGS, "--plot", str(target)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(len(line) <= 80 and line == line.rstrip() for line in captured.out.splitlines())
    for words in ("Ratings in Elo points", "Score of row against column", "48 of each two agents", "2 workers", "games/s"):
        assert words in " ".join(captured.out.split())
    picture = target.read_bytes()
    if kind == "svg":
        text = picture.decode()
        assert all(f"{name}  " in text for name in NAMES)
        assert "Elo" in text
    else:
        assert picture.startswith(b"\x89PNG")


def text_of(part: Any, width: int) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(part)
    return capture.get()


@pytest.mark.parametrize("make", [score_table, partial(score_table, names=False), match_table])
def test_tables_show_both_sides_of_a_match(matches, make: Any):
    standings = standings_of(NAMES, matches)
    text = text_of(make(standings), 80)
    first, second = standings.agents[0].name, standings.agents[1].name
    match = standings.match(first, second)
    assert match is not None
    assert percent_within(match.score, match.interval) in text
    other = standings.match(second, first)
    assert other is not None
    assert other.score == pytest.approx(1 - match.score)
    assert other.wins == match.wins[::-1]
    assert other.interval[0] == pytest.approx(1 - match.interval[1])
    if make is not match_table:
        assert percent_within(other.score, other.interval) in text


def test_long_names_and_many_agents_fit(monkeypatch, matches):
    names = tuple(f"tree:simulations={n}000,belief=particles,exploration=1.41" for n in range(3))
    monkeypatch.setenv("COLUMNS", "80")
    standings = standings_of(names, matches)
    parts = fitting(standings)
    for part in parts:
        text = text_of(part, 80)
        assert "…" not in text
        assert all(len(line) <= 80 for line in text.splitlines())
    scores = text_of(parts[2], 80)
    assert "Score of row" in scores
    assert "simulations" not in scores, "the ratings have the names"
    monkeypatch.setenv("COLUMNS", "120")
    assert names[0] in text_of(fitting(standings)[2], 120)
    monkeypatch.setenv("COLUMNS", "30")
    assert "first" in text_of(fitting(standings)[2], 30)


def test_a_match_without_games_is_left_out(matches):
    some = {match: pairs for match, pairs in matches.items() if 0 not in match}
    standings = standings_of(NAMES, {**some, (0, 1): Pairs.join([])})
    assert standings.match("uniform", "keep-wilds") is None
    row = next(row for row in standings.agents if row.name == "uniform")
    assert row.games == 0
    assert row.score is None
    assert row.seconds_per_decision is None
    assert "-" in text_of(score_table(standings), 80)
    json.dumps(standings.to_json(), allow_nan=False)


def test_numbers_in_words():
    assert [duration(s) for s in (2.5, 0.0123, 4.56e-6)] == ["2.5 s", "12.3 ms", "4.56 µs"]
    assert [rate(r) for r in (0.123, 3.0, 4321.0)] == ["0.12 games/s", "3 games/s", "4,321 games/s"]
    assert percent_within(0.5, (0.499, 0.501)) == "50.00 ± 0.10"
    assert percent_within(0.662, (0.65, 0.672)) == "66.2 ± 1.1"
    # Of two games, both won, no score is above 100.
    assert percent_within(1.0, (0.342, 1.0)) == "100.0 (34.2-100.0)"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("uniform", ["uniform"]),
        ("mc:rollouts=1000,belief=particles", ["mc:rollouts=1000,", "belief=particles"]),
        ("x" * 30, ["x" * 28, "xx"]),
    ],
)
def test_names_are_broken_into_lines(name: str, lines: list[str]):
    assert break_name(name).split("\n") == lines


def test_the_help_needs_no_jax():
    code = "import sys; from unojax.cli import main; main(['arena', '--help']); assert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for word in ("AGENT", "scarcest-color", "--results", "--plot", "--workers", "--hand-size"):
        assert word in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_the_luck_taken_out(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    target = tmp_path / "arena.json"
    assert main(["arena", "linear", "uniform", "--games", "64", "--adjust", "16", "--json", str(target), "--quiet"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "variance-reduced" in told and "by 16 rollouts of each estimate" in told
    [match] = json.loads(target.read_text())["results"]["matches"]
    assert abs(match["adjusted"]["score"] - 0.77) < 0.1
    assert match["adjusted"]["standard_error"] < match["standard_error"] / 2


@pytest.mark.parametrize("option", [("--series", "2"), ("--adjust", "16")])
@pytest.mark.parametrize("other", [("--to", "100"), ("--results", "games.jsonl")])
def test_what_is_about_single_games(capsys: pytest.CaptureFixture[str], option: tuple[str, str], other: tuple[str, str]):
    assert main(["arena", "linear", "uniform", "--games", "4", *option, *other]) == 2
    assert f"{option[0]} is about single games" in capsys.readouterr().err


@pytest.mark.slow
def test_deals_in_series_and_matches_to_some_points(capsys: pytest.CaptureFixture[str]):
    """As `play_match` and `play_rounds` of the same seed have them."""

    def of_command(*options: str) -> dict:
        assert main(["arena", "linear", "uniform", "--games", "8", "--seed", "5", *options, "--json", "-", "--quiet"]) == 0
        [match] = json.loads(capsys.readouterr().out)["results"]["matches"]
        return match

    agents, key = (parse_agent("linear"), parse_agent("uniform")), jax.random.key(5, impl="threefry2x32")
    score = paired_score(play_match(key, agents, 4, series=2).points, series=2)
    found = of_command("--series", "2")
    assert (found["score"], found["standard_error"]) == pytest.approx((score.value, score.standard_error))
    score = paired_score(play_rounds(key, agents, 4, rules=Rules(hand_size=2, points=True), target=60).points)
    found = of_command("--to", "60", "--hand-size", "2", "--points", "True")
    assert (found["score"], found["standard_error"]) == pytest.approx((score.value, score.standard_error))
