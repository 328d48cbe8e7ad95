"""`unojax solve` and `unojax exploit`: figures of the library, saved and resumed runs, rejected input."""

from __future__ import annotations

import io
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
LONG = [*TINY, "--tolerance", "0", "--iterations", "30"]


def stopped_in(iteration: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise an error after `iteration` iterations."""
    iterate = solve.cfr

    def stop(tree, *, state=None, **options):
        if state is not None and state.iteration >= iteration:
            raise error
        return iterate(tree, state=state, **options)

    monkeypatch.setattr(runs, "cfr", stop)


def test_figures_and_table(run_json, run_text):
    data = run_json("solve", "tiny", "--tolerance", "1e-3", "--quiet")
    tree = solve.enumerate_game(solve.DECKS["tiny"])
    assert data["num_histories"] == tree.num_histories and data["num_infosets"] == list(tree.num_infosets)
    solution = solve.cfr(tree, iterations=data["iterations"])
    assert (data["value"], data["exploitability"]) == pytest.approx((solution.value, solution.exploitability), abs=1e-12)
    assert data["complete"] and data["exploitability"] <= 1e-3 < data["history"][-2]["exploitability"]
    out = run_text(*TINY)
    assert "Exploitability of the" in out and "to player 0, who wins" in out and "deck of 8 cards" in out


def test_a_run_that_is_kept_is_resumed(run_json, monkeypatch, tmp_path):
    """After its end, and after Ctrl-C."""
    whole, kept, stopped = run_json(*LONG), str(tmp_path / "run.npz"), str(tmp_path / "stopped.npz")
    assert run_json(*LONG, "--iterations", "11", "--state", kept)["iterations"] == 11
    with monkeypatch.context() as patch:
        stopped_in(5, KeyboardInterrupt(), patch)
        note = "stopped after 5 iterations; the strategies are those so far"
        part = run_json(*LONG, "--state", stopped, status=130, note=note)
        assert not part["complete"] and part["iterations"] == 5
    for state in (kept, stopped):
        rest = run_json(*LONG, "--state", state)
        names = ("iterations", "value", "exploitability")
        assert [rest[name] for name in names] == [whole[name] for name in names] and rest["iterations"] == 30
    with np.load(kept) as file:
        strategies = file["strategy_0"], file["strategy_1"]
    tree = solve.enumerate_game(Rules(deck=small_deck(colors=2, ranks=(1, 2), wilds=0), hand_size=2, max_steps=6))
    assert solve.exploitability(tree, strategies) == pytest.approx(whole["exploitability"], abs=1e-15)


@pytest.mark.slow
def test_a_run_is_kept_on_the_way(run_json, monkeypatch, tmp_path):
    kept = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_KEEP_SECONDS", 0.0)
        stopped_in(5, AssertionError("killed"), patch)
        with pytest.raises(AssertionError, match="killed"):
            main([*LONG, "--state", str(kept)])
    with np.load(kept) as file:
        assert int(file["iteration"]) == 5
    assert run_json(*LONG, "--state", str(kept))["value"] == run_json(*LONG)["value"]


@pytest.mark.slow
def test_a_file_of_another_run_is_refused_and_stays(refused, run_text, tmp_path):
    kept = tmp_path / "run.npz"
    command = [*TINY, "--state", str(kept)]
    run_text(*command)
    before = kept.read_bytes()
    refused({"--variant cfr": "resume it with variant cfr+", "--max-steps 5": "is of another game"}, command)
    for content in (b"", b"no archive", before[: len(before) // 2]):
        kept.write_bytes(content)
        refused({"": "--state:"}, command)
        assert kept.read_bytes() == content
    with np.load(io.BytesIO(before)) as file:
        arrays = dict(file)
    for name, number in (("iteration", -1), ("regrets_1", np.nan), ("plans_0", np.inf)):
        np.savez(kept, **arrays | {name: np.full_like(arrays[name], number)})
        refused({"": "is damaged: it holds numbers that no run has"}, command)


def test_games_have_the_names_and_rules_of_the_package():
    literal, _ = get_args(Game)
    assert set(get_args(literal)) == {*solve.DECKS, "rules"}
    named = solve.DECKS["small"]
    expected = Rules(deck=named.deck, hand_size=named.hand_size, max_steps=3, skip_forfeits=False)
    assert rules_of("small", Rules(skip_forfeits=False, max_steps=3)) == expected


def test_exploitability_is_that_of_the_library_and_the_least_comes_first(run_json, run_text):
    command = "exploit uniform lookahead --game tiny --max-steps 8 --quiet".split()
    rows = {row["agent"]: row for row in run_json(*command)["results"]}
    tree = solve.enumerate_game(solve.DECKS["tiny"], 8)
    for name, row in rows.items():
        strategies = solve.of_policy(tree, name)
        assert row["exploitability"] == pytest.approx(solve.exploitability(tree, strategies), abs=1e-12)
        first, second = row["returns"]
        # A best response does at least as well as the policy does against itself.
        assert first <= solve.value(tree, strategies) + 1e-12 and second <= -solve.value(tree, strategies) + 1e-12
    assert list(rows) == ["uniform", "lookahead"] and rows["lookahead"]["exploitability"] < rows["uniform"]["exploitability"]
    out = run_text(*command)
    assert "Against a best response" in out and out.index("lookahead") < out.index("uniform")


@pytest.mark.slow
def test_exploitability_of_an_agent_with_memory(run_json):
    command = "exploit value:belief=unseen --game tiny --max-steps 6 --exact-belief uniform --seed 3 --quiet"
    data = run_json(*command.split())
    tree = solve.enumerate_game(solve.DECKS["tiny"], 6)
    strategies = solve.of_agent(tree, "value:belief=unseen", against=solve.uniform(tree))
    # The network gains nothing by its key.
    assert data["results"][0]["exploitability"] == pytest.approx(solve.exploitability(tree, strategies), abs=1e-12)
    assert (data["exact_belief"], data["keys"]) == ("uniform", 1)


def test_bad_command_lines_are_refused(refused, tmp_path):
    file = tmp_path / "bad.py"
    for error in ("RuntimeError", "ValueError"):
        with file.open("a") as code:
            code.write(f"def of_{error}(key, observation, legal_mask): raise {error}('boom')\n")
    # The tree of `test_exploitability_is_that_of_the_library_and_the_least_comes_first`, whose programs are there.
    tiny = "--game tiny --max-steps 8 --quiet"
    refused(
        {
            "solve rules": "--max-steps must be given",
            "solve rules --max-steps 10 --quiet": "too large",
            "solve tiny --deck numbers": "remove --deck",
            "solve tiny --hand-size 3": "remove --hand-size",
            "solve tiny --tolerance -1": "--tolerance",
            "solve tiny --tolerance nan": "--tolerance",
            "solve tiny --step-penalty 0.1": "--step-penalty",
            "solve tiny --state /nowhere/at/all.npz": "--state: can't write '/nowhere/at/all.npz'",
            "solve huge": "GAME: must be one of medium, rules, small, tiny, got 'huge'",
            "exploit": "one or more agents",
            "exploit clever": "no agent is called 'clever'",
            f"exploit mc:belief=truth {tiny}": "mc:belief=truth",
            "exploit linear --exact-belief linear": "--exact-belief",
            "exploit mc --exact-belief value": "no policy is called 'value'",
            f"exploit process:false {tiny}": "(first: ended with status 1)",
            f"exploit {file}:of_RuntimeError {tiny}": f"agent {file}:of_RuntimeError failed: RuntimeError: boom",
            f"exploit {file}:of_ValueError {tiny}": f"agent {file}:of_ValueError failed: ValueError: boom",
            "exploit uniform --game tiny --hand-size 3": "remove --hand-size",
            "exploit uniform --game rules": "--max-steps must be given",
            # A lower bound by other means, for a game that is too large.
            "exploit greedy --game rules": "unojax arena mc:keep=0,model=greedy+0,opponent=greedy greedy --games 2000",
            "exploit value --game rules --max-steps 99": "unojax arena mc:leaf=pretrained value --games 2000",
        }
    )
