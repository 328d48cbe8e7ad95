"""`arena.tournament`: stored, resumed, interrupted; `arena.win_rates` against `simulate`."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.arena.players import BATCH, RULES, SCARCEST, UNIFORM, assert_same
from tests.helpers import refusals
from unojax import simulate
from unojax.arena import Pairs, Tournament, play_match, tournament, win_rates
from unojax.arena.results import ResultsFile

NAMES = ("uniform", "scarcest-color", "keep-wilds")
SIZES: dict[str, Any] = {"rules": RULES, "batch_size": BATCH}
play = partial(tournament, NAMES, 32, seed=3, workers=1, **SIZES)


def test_an_interrupted_tournament_resumes_to_the_matches_of_play_match(tmp_path: Path):
    results = str(tmp_path / "results.jsonl")
    latest: list[Tournament] = []

    def stop(played: Tournament) -> None:
        latest.append(played)
        if played.num_finished >= 48:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(results=results, on_progress=stop)
    assert not latest[-1].complete and latest[-1].num_asked == 96
    with open(results, "a") as file:
        file.write('{"seed": 3, "pairs": [0, 1')  # what a crash in the middle of a line leaves
    again = play(results=results)
    assert again.complete and 0 < again.num_found < 96 and again.num_asked == 96 - again.num_found
    assert list(again.matches) == [(0, 1), (0, 2), (1, 2)]
    key = jax.random.key(3, impl="threefry2x32")
    for (i, j), pairs in again.matches.items():
        played = play_match(key, (NAMES[i], NAMES[j]), 16, workers=1, **SIZES)
        for name in ("index", "winner", "num_steps", "num_choices"):
            assert (getattr(pairs, name) == getattr(played, name)).all(), name
    assert {row.name for row in again.standings.agents} == set(NAMES)
    assert play(results=results).num_asked == 0


def test_a_tournament_without_a_file_is_made_of_matches():
    played = tournament([UNIFORM, "scarcest-color"], 16, seed=3, workers=1, **SIZES)
    key = jax.random.key(3, impl="threefry2x32")
    assert played.complete
    assert_same(played.matches[0, 1], play_match(key, (UNIFORM, SCARCEST), 8, workers=1, **SIZES))


def test_refusals():
    refusals(
        {
            "two or more agents, got uniform (list)": lambda: tournament(["uniform"]),
            "two or more agents, got uniform (text)": lambda: tournament("uniform"),
            "agent uniform": lambda: tournament(["uniform", "uniform"]),
            "games (odd)": lambda: tournament(NAMES, 3),
            "games (not whole series)": lambda: tournament(NAMES, 6, series=2),
            "batch_size": lambda: tournament(NAMES, 4, batch_size=3),
            "adjust": lambda: tournament(NAMES, 4, adjust=8, results="x.jsonl"),
            "results (of an agent)": lambda: tournament([UNIFORM, "linear"], 4, results="x.jsonl"),
            "results (no folder)": lambda: tournament(NAMES, 4, results="/no/such/folder/x.jsonl"),
        }
    )


def test_win_rates_count_the_games_of_simulate():
    policies, sizes = ("scarcest-color", UNIFORM.policy), SIZES | {"rules": replace(RULES, points=False)}
    found = win_rates(policies, 101, seed=5, **sizes)
    key = jax.random.key(5, impl="threefry2x32")
    first = simulate(key, 51, (SCARCEST.policy, UNIFORM.policy), **sizes)
    second = simulate(jax.random.fold_in(key, 1), 50, (UNIFORM.policy, SCARCEST.policy), **sizes)
    wins = int((first.winner == 0).sum()), int((second.winner == 1).sum())
    ours, theirs = found.wins
    assert ours.as_player_0 is not None and ours.as_player_1 is not None
    assert (ours.as_player_0.wins, ours.as_player_1.wins, ours.total.wins, ours.total.games) == (*wins, sum(wins), 101)
    assert found.complete and found.policies == ("scarcest-color", "uniform")
    advantage = (ours.total.wins - theirs.total.wins) / 101
    assert found.statistics.mean_return == pytest.approx((advantage, -advantage))
    # An interrupt stops a notebook's cell.
    with pytest.raises(KeyboardInterrupt):
        win_rates(policies, 101, seed=5, on_progress=interrupt, **sizes)


def interrupt(finished: int, total: int) -> None:
    raise KeyboardInterrupt


PAIRS = Pairs(
    index=np.arange(2),
    winner=np.array([[0, 1], [-1, 0]], np.int8),
    num_steps=np.full((2, 2), 30, np.int32),
    num_choices=np.full((2, 2, 2), 7, np.int32),
    seconds=np.array([0.5, 0.25]),
)


def test_a_partly_written_batch_is_removed(tmp_path: Path):
    """A full disk leaves the file as before."""
    path, agents = tmp_path / "results.jsonl", {"uniform": "1", "linear": "2"}
    file = ResultsFile(str(path), seed=1, rules=RULES, agents=agents)
    file.append("uniform", "linear", PAIRS)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"can't write .*: File too large"):
            file.append("uniform", "linear", PAIRS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    file.append("uniform", "linear", PAIRS)
    assert path.read_bytes() == before * 2
    wrong = json.loads(before) | {"winner": [[300, 0]] * len(PAIRS)}
    path.write_text(json.dumps(wrong) + "\n")
    with pytest.raises(ValueError, match="is not a line of arena results"):
        ResultsFile(str(path), seed=1, rules=RULES, agents=agents)
