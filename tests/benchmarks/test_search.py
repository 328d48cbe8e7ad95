"""The benchmarks of the searches: the tables mean what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import search, search_shortfall, search_speed, search_strength, timing
from unojax.arena import Pairs
from unojax.search.agents import SearchAgent
from unojax.specs import parse_agent


@pytest.mark.slow
def test_problems_are_decisions_of_those_who_move() -> None:
    problems = jax.device_get(search_speed.record_decisions(num_decisions=12, num_particles=8, max_steps=120, seed=3))
    seen = problems.observations
    assert (problems.legal.sum(1) > 1).all() and not seen.terminated.any()
    assert (seen.player == seen.current_player).all() and set(seen.player.tolist()) == {0, 1}
    held = sum(np.bitwise_count(word) for word in problems.hands.packed)
    assert held.shape == (12, 8) and (held == seen.opponent_count[:, None]).all()
    assert len({bytes(hand) for hand in seen.hand}) == 12
    assert problems.first(5).legal.shape == (5, 61)


def run_strength(path: Path, *arguments: str) -> dict[str, Any]:
    return search.main(["strength", "--games", "4", "--agents", "mc", "mc:model=OPPONENT", *arguments, "--json", str(path)])


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The matches that are asked for; A wins all games but one."""
    matches: list[tuple[str, str]] = []

    def play_match(key: jax.Array, agents: Any, num_pairs: int, **options: Any) -> Pairs:
        matches.append((agents[0].name, agents[1].name))
        if agents[1].name == "keep-wilds":
            raise KeyboardInterrupt
        return Pairs(
            index=np.arange(num_pairs),
            winner=np.array([[0, 0], [0, 1]], np.int8),
            num_steps=np.full((2, 2), 10, np.int32),
            num_choices=np.array([[[3, 1], [3, 1]], [[2, 1], [2, 1]]], np.int32),
            seconds=np.array([5.0, 1.0]),
        )

    monkeypatch.setattr(search_strength, "play_match", play_match)
    return matches


def test_strength_keeps_finished_rows_and_goes_on(tmp_path: Path, played: list[tuple[str, str]]) -> None:
    path = tmp_path / "strength.json"
    stopped = run_strength(path, "--opponents", "linear", "keep-wilds", "guard")
    assert played == [("mc", "linear"), ("mc:model=linear", "linear"), ("mc", "keep-wilds")]
    assert json.loads(path.read_text())["rows"] == stopped["rows"]
    assert [(row["agent"], row["opponent"]) for row in stopped["rows"]] == played[:2]

    played.clear()
    results = run_strength(path, "--opponents", "linear", "uniform")
    assert played == [("mc", "uniform"), ("mc:model=uniform", "uniform")]
    assert len(json.loads(path.read_text())["rows"]) == 4
    row = results["rows"][-1]
    assert (row["score"], row["decisions"], row["seconds_per_decision"], row["drawn"]) == (0.75, 10, 0.5, 0)
    assert row["interval_95"][0] < 0.75 < row["interval_95"][1]

    with pytest.raises(SystemExit):
        run_strength(path, "--seed", "1")


def test_times_of_other_searches_are_not_taken(tmp_path: Path, played: list[tuple[str, str]]) -> None:
    path = tmp_path / "strength.json"
    run_strength(path, "--opponents", "linear")
    results = json.loads(path.read_text())
    results["equal_time"] = {"first": "mc", "seconds_per_decision": 0.1, "batch": 64, "others": {}}
    path.write_text(json.dumps(results))
    with pytest.raises(SystemExit):
        run_strength(path, "--opponents", "linear", "--equal-time")
    assert len(played) == 2


def test_equal_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(agent: SearchAgent, *args: Any, **options: Any) -> dict[str, Any]:
        # A tree search takes 10 ms, and 20 us for each simulation; any other 80 us for each rollout.
        seconds = 8e-5 * agent.budget if agent.search.tree is None else 0.01 + 2e-5 * agent.budget
        asked.append(agent.name)
        return {"decisions_per_second": {"median": 1 / seconds}}

    monkeypatch.setattr(search_strength, "measure_batch", measure)
    monkeypatch.setattr(search_strength, "record_decisions", lambda **options: None)
    specs = ("mc:rollouts=500", "tree:simulations=4000", "linear", "mc:rollouts=100,particles=64", "tree:simulations=4000")
    agents = [parse_agent(spec) for spec in specs]
    measured = search_strength.equal_time(agents, seed=0, repeats=1)
    assert measured["first"] == asked[0] == "mc:rollouts=500"
    tree, flat = (search_strength.in_time(agents[at], measured) for at in (1, 3))
    assert isinstance(tree, SearchAgent) and isinstance(flat, SearchAgent)
    assert tree.budget == pytest.approx(1500, rel=0.05)
    assert (flat.budget, flat.name) == (500, "mc:particles=64,rollouts=500")
    for at in (0, 2):
        assert search_strength.in_time(agents[at], measured) == agents[at]
    assert len(asked) == 1 + 2 * 3
    for few in (agents[:1], agents[2:]):
        with pytest.raises(ValueError, match="needs a search as the first agent, and another"):
            search_strength.equal_time(few, seed=0, repeats=1)


def test_shortfall_of_choices() -> None:
    """Two decisions, two runs, three plays of which one is not legal; the runs disagree about the first decision."""
    values = np.array([[[0.5, 0.25, 9.0], [0.125, 0.25, 9.0]], [[-1.0, 0.0, -0.5], [-1.0, 0.0, -0.25]]])
    legal = np.array([[True, True, False], [True, True, True]])
    found = search_shortfall.shortfall(values, legal, np.array([[0, 1], [1, 2], [1, 0]]))
    # What the first run finds the second tells, 0.125, and the other way round, 0.25.
    first = [((0.125 - 0.125) + (0.25 - 0.5)) / 2, ((0.125 - 0.25) + (0.25 - 0.25)) / 2]
    assert found.tolist() == [[first[0], 0.0], [first[1], 0.375], [first[1], 1.0]]


def test_shortfall_of_noise_is_nothing_on_average() -> None:
    values = np.random.default_rng(5).normal(size=(20_000, 4, 3))
    legal, any_choice = np.ones((20_000, 3), bool), np.arange(20_000)[None] % 3
    found = search_shortfall.shortfall(values, legal, any_choice)
    assert abs(found.mean()) < 4 * found.std() / np.sqrt(found.size)
    # By the same rollouts that found them the best plays look better by far.
    assert (values.mean(1).max(-1).mean() - values.mean()) > 0.3


@pytest.mark.slow  # compiles a dozen programs
@pytest.mark.long
def test_shortfall_finds_the_weaker_player(tmp_path: Path) -> None:
    path = tmp_path / "shortfall.json"
    sizes = ["--games", "16", "--seed", "3", "--particles", "64", "--rollouts", "128", "--runs", "4"]
    agents = ["--agents", "linear", "uniform", "--opponents", "scarcest-color"]
    results = search.main(["shortfall", *agents, *sizes, "--json", str(path)])
    assert json.loads(path.read_text()) == json.loads(json.dumps(results))
    found = results["opponents"]["scarcest-color"]
    assert [row["agent"] for row in found["rows"]] == ["linear", "uniform"]
    linear, uniform = (row["points"] for row in found["rows"])
    assert 3 < found["decisions_per_game"] < 20 and uniform > linear + 10


def test_shortfall_goes_on_with_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(agents: Any, opponent: Any, judge: SearchAgent, *numbers: int) -> dict[str, Any]:
        asked.append(([agent.name for agent in agents], opponent.name, judge.name, numbers))
        rows = [{"agent": agent.name, "points": 1.0, "standard_error": 0.5} for agent in agents]
        return {"decisions_per_game": 7.0, "rows": rows}

    monkeypatch.setattr(search_shortfall, "measure", measure)
    path = tmp_path / "shortfall.json"
    arguments = ["shortfall", "--agents", "linear", "mc:model=OPPONENT", "--games", "6", "--seed", "3", "--json", str(path)]
    first = search.main([*arguments, "--opponents", "guard"])
    told = "mc:model=guard,opponent=guard,keep=0,particles=4096,rollouts=4096"
    assert asked == [(["linear", "mc:model=guard"], "guard", parse_agent(told).name, (6, 3, 8))]
    again = search.main([*arguments, "--opponents", "guard", "keep-wilds"])
    assert json.loads(path.read_text()) == again and again["opponents"]["guard"] == first["opponents"]["guard"]
    assert [opponent for _, opponent, _, _ in asked] == ["guard", "keep-wilds"]
    with pytest.raises(SystemExit):
        search.main([*arguments, "--runs", "4"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["strength", "--games", "3"],
        ["strength", "--repeats", "0"],
        ["strength", "--agents", "nobody"],
        ["strength", "--equal-time", "--agents", "mc"],
        ["shortfall", "--games", "3"],
        ["shortfall", "--runs", "3"],
        ["shortfall", "--agents", "nobody"],
        ["shortfall", "--opponents", "mc"],
        ["speed", "--rollouts", "6"],
        ["speed", "--single", "0"],
        ["speed", "--batch-sizes", "x"],
        [],
    ],
)
def test_bad_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        search.main(arguments)


def test_speed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without compiling anything."""
    legal = np.zeros((64, 61), bool)
    legal[:, :3] = True
    asked = []

    def measure_batch(agent: SearchAgent, decisions: Any, nodes: float, *, repeats: int) -> dict[str, Any]:
        asked.append((agent.name, len(decisions.legal), nodes, repeats))
        rates = {f"{what}_per_second": {"median": 4e6} for what in ("decisions", "rollouts", "nodes")}
        return {"decisions": len(decisions.legal), "cores_used": 1.5, "compile_seconds": 3.0, **rates}

    problems = search_speed.Problems(legal, legal, legal)  # type: ignore[arg-type]  # only `legal` is looked at
    monkeypatch.setattr(timing, "without_compilation_cache", lambda: None)
    monkeypatch.setattr(search_speed, "record_decisions", lambda **_: problems)
    monkeypatch.setattr(search_speed, "nodes_per_rollout", lambda *_, **__: 35.0)
    monkeypatch.setattr(search_speed, "measure_batch", measure_batch)
    monkeypatch.setattr(search_speed, "measure_single", lambda *_, **__: {"milliseconds": {"median": 5.0, "p95": 7.0}})
    path = tmp_path / "speed.json"
    results = search.main(["speed", "--rollouts", "40", "--batch-sizes", "3,64", "--repeats", "2", "--json", str(path)])
    assert json.loads(path.read_text()) == results and results["legal_plays_mean"] == 3
    names = ["mc:rollouts=40", "tree:simulations=40,stop=0", "tree:simulations=40"]
    assert asked == [(name, size, 35.0, 2) for name in names for size in (3, 64)]
    assert [row["agent"] for row in results["agents"].values()] == names
    assert "one decision alone, tree: 5 ms (95 %: 7 ms)" in capsys.readouterr().out


@pytest.mark.slow  # compiles a dozen programs to run for a second
@pytest.mark.long
def test_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "without_compilation_cache", lambda: None)
    monkeypatch.setattr(search_speed, "_COUNTED", 3)
    path = tmp_path / "speed.json"
    sizes = ["--batch-sizes", "3", "--single", "2"]
    results = search.main(["speed", "--rollouts", "40", "--particles", "32", "--repeats", "2", *sizes, "--json", str(path)])
    assert json.loads(path.read_text()) == json.loads(json.dumps(results))
    flat, whole, tree = results["agents"].values()
    assert [batch["decisions"] for batch in flat["batches"]] == [3]
    num_plays = 3 * results["legal_plays_mean"]
    for row in (flat, whole):
        # Every play of every decision gets its 40 rollouts.
        (batch,) = row["batches"]
        assert batch["rollouts_per_decision"] == pytest.approx(40 * num_plays / 3)
        assert batch["nodes_per_second"]["median"] == pytest.approx(
            batch["rollouts_per_second"]["median"] * row["nodes_per_rollout"]
        )
    assert tree["batches"][0]["rollouts_per_decision"] <= whole["batches"][0]["rollouts_per_decision"]
    assert 10 < flat["nodes_per_rollout"] < 300
