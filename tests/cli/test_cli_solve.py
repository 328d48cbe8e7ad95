"""`unojax solve`: its figures, runs that are kept and gone on with, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from unojax import solve
from unojax.cli import main
from unojax.cli.solve import Game
from unojax.decks import small_deck
from unojax.rules import Rules
from unojax.solve import runs
from unojax.solve.decks import rules_of

TINY = "solve rules --deck colors=2,ranks=1-2,wilds=0 --hand-size 2 --max-steps 6 --quiet".split()


def solved(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> dict:
    assert main([*args, "--json", "-"]) == status
    return json.loads(capsys.readouterr().out)


def test_figures(capsys: pytest.CaptureFixture[str]):
    found = solved(capsys, "solve", "tiny", "--tolerance", "1e-3", "--quiet")
    tree = solve.enumerate_game(solve.DECKS["tiny"])
    assert found["num_histories"] == tree.num_histories and found["num_infosets"] == list(tree.num_infosets)
    solution = solve.cfr(tree, iterations=found["iterations"])
    assert found["value"] == pytest.approx(solution.value, abs=1e-12)
    assert found["exploitability"] == pytest.approx(solution.exploitability, abs=1e-12)
    assert found["complete"] and found["exploitability"] <= 1e-3 < found["history"][-2]["exploitability"]


def test_the_table(capsys: pytest.CaptureFixture[str]):
    assert main(TINY) == 0
    told = capsys.readouterr().out
    assert "Exploitability of the" in told and "to player 0, who wins" in told and "deck of 8 cards" in told


def test_the_named_games_are_those_of_the_package():
    literal, _ = get_args(Game)
    assert set(get_args(literal)) == {*solve.DECKS, "rules"}


def test_a_run_that_is_kept_is_gone_on_with(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    whole = solved(capsys, *TINY, "--tolerance", "0", "--iterations", "30")
    kept = str(tmp_path / "run.npz")
    part = solved(capsys, *TINY, "--tolerance", "0", "--iterations", "11", "--state", kept)
    rest = solved(capsys, *TINY, "--tolerance", "0", "--iterations", "30", "--state", kept)
    assert part["iterations"] == 11 and rest["iterations"] == 30
    assert rest["value"] == whole["value"] and rest["exploitability"] == whole["exploitability"]
    with np.load(kept) as file:
        strategies = file["strategy_0"], file["strategy_1"]
    tree = solve.enumerate_game(Rules(deck=small_deck(colors=2, ranks=(1, 2), wilds=0), hand_size=2, max_steps=6))
    assert solve.exploitability(tree, strategies) == pytest.approx(rest["exploitability"], abs=1e-15)


def test_ctrl_c_keeps_what_there_is(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    iterate, kept = solve.cfr, tmp_path / "run.npz"

    def stopped(tree, *, state=None, **options):
        if state is not None and state.iteration >= 5:
            raise KeyboardInterrupt
        return iterate(tree, state=state, **options)

    monkeypatch.setattr(runs, "cfr", stopped)
    args = [*TINY, "--tolerance", "0", "--iterations", "30"]
    assert main([*args, "--json", "-", "--state", str(kept)]) == 130
    captured = capsys.readouterr()
    part = json.loads(captured.out)
    assert not part["complete"] and part["iterations"] == 5
    assert "stopped after 5 iterations; the strategies are those so far" in captured.err
    monkeypatch.undo()
    whole = solved(capsys, *args)
    assert solved(capsys, *args, "--state", str(kept))["value"] == whole["value"]


@pytest.mark.slow
def test_a_run_that_is_killed_is_kept_on_the_way(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    iterate, kept = solve.cfr, tmp_path / "run.npz"

    def killed(tree, *, state=None, **options):
        if state is not None and state.iteration >= 5:
            raise AssertionError("killed")
        return iterate(tree, state=state, **options)

    monkeypatch.setattr(runs, "_KEEP_SECONDS", 0.0)
    args = [*TINY, "--tolerance", "0", "--iterations", "30"]
    with monkeypatch.context() as patch:
        patch.setattr(runs, "cfr", killed)
        with pytest.raises(AssertionError, match="killed"):
            main([*args, "--state", str(kept)])
    with np.load(kept) as file:
        assert int(file["iteration"]) == 5
    assert solved(capsys, *args, "--state", str(kept))["value"] == solved(capsys, *args)["value"]


def test_skip_passes_the_turn_in_a_named_game_too():
    rules = rules_of("small", Rules(skip_forfeits=False, max_steps=3))
    named = solve.DECKS["small"]
    assert rules == Rules(deck=named.deck, hand_size=named.hand_size, max_steps=3, skip_forfeits=False)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("solve rules", "--max-steps must be given"),
        ("solve rules --max-steps 10", "the game is too large to be enumerated"),
        ("solve tiny --deck numbers", "the game 'tiny' has a deck and hands of its own; remove --deck"),
        ("solve tiny --hand-size 3", "remove --hand-size"),
        ("solve tiny --tolerance -1", "--tolerance must be a number of at least 0"),
        ("solve tiny --tolerance nan", "--tolerance must be a number of at least 0"),
        ("solve tiny --step-penalty 0.1", "--step-penalty must be 0"),
        ("solve tiny --state /nowhere/at/all.npz", "--state: can't write '/nowhere/at/all.npz'"),
        ("solve huge", "must be one of medium, rules, small, tiny, got 'huge'"),
    ],
)
def test_what_is_refused(complaint, args: str, says: str):
    assert says in complaint([*args.split(), "--quiet"])


@pytest.mark.slow
def test_a_file_of_another_run_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    kept = tmp_path / "run.npz"
    state = ["--state", str(kept)]
    assert main([*TINY, *state]) == 0
    before = kept.read_bytes()
    capsys.readouterr()
    for more, says in (
        (["--variant", "cfr"], "is of cfr+; resume it with variant cfr+"),
        (["--max-steps", "5"], "is of another game"),
    ):
        assert main([*TINY, *state, *more]) == 2
        assert says in capsys.readouterr().err
    for content in (b"", b"no archive", before[: len(before) // 2]):
        kept.write_bytes(content)
        assert main([*TINY, *state]) == 2
        assert "--state:" in capsys.readouterr().err
        assert kept.read_bytes() == content, "left as it was"
