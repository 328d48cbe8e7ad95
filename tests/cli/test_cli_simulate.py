"""`unojax simulate`: its figures are those of `unojax.simulate`, and what it does when stopped, piped or short of a file."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binomtest

from unojax import Games, Rules, get_policy, simulate
from unojax.arena.win_rates import QUANTILES, Rate, WinRates
from unojax.cli import main, output, targets
from unojax.cli.simulate import Simulate, win_table
from unojax.decks import parse_deck
from unojax.simulation import Counting, LongGameError, Stream
from unojax.simulation.tally import Tally
from unojax.terminal import tables

# Games of these rules end in every way there is: won, by stalemate, drawn, truncated.
DECK = "colors=2,ranks=0-2+S++2,copies=1,wilds=1"
simulate_run = import_module("unojax.arena.win_rates")
RULES = Rules(deck=parse_deck(DECK), hand_size=3, start_card="any", max_steps=16, step_penalty=0.125)
RULE_ARGS = ["--deck", DECK, "--hand-size", "3", "--start-card", "any", "--max-steps", "16", "--step-penalty", "0.125"]
NAMES = ("scarcest-color", "uniform")
NUM_GAMES = 2001
BATCH_SIZE = 64
ARGS = ["simulate", "--games", str(NUM_GAMES), "--batch-size", str(BATCH_SIZE), "--seed", "5", *RULE_ARGS]


@pytest.fixture(scope="module")
def seatings() -> tuple[Games, Games]:
    """The games that the command must have played: A as player 0, then B as player 0."""
    key = jax.random.key(5)
    a, b = (get_policy(name) for name in NAMES)
    first = simulate(key, NUM_GAMES - NUM_GAMES // 2, (a, b), rules=RULES, batch_size=BATCH_SIZE)
    second = simulate(jax.random.fold_in(key, 1), NUM_GAMES // 2, (b, a), rules=RULES, batch_size=BATCH_SIZE)
    return first, second


def run_json(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> dict[str, Any]:
    """The JSON on stdout, of which there must be nothing else."""
    assert main([*args, "--json", "-"]) == status
    return json.loads(capsys.readouterr().out)


def check_results(results: dict[str, Any], first: Games, second: Games) -> None:
    """Compare with sums made here, from the games themselves."""

    def share(parts: list[tuple[Games, int]]) -> tuple[int, int]:
        return sum(int((games.winner == player).sum()) for games, player in parts), sum(len(games) for games, _ in parts)

    a, b = results["wins"]
    assert (a["policy"], b["policy"]) == NAMES
    for row, seats in ((a, ((first, 0), (second, 1))), (b, ((second, 0), (first, 1)))):
        assert (row["as_player_0"]["wins"], row["as_player_0"]["games"]) == share([seats[0]])
        assert (row["as_player_1"]["wins"], row["as_player_1"]["games"]) == share([seats[1]])
        assert (row["total"]["wins"], row["total"]["games"]) == share(list(seats))
    for player in (0, 1):
        assert results["wins_of_player"][player]["wins"] == share([(first, player), (second, player)])[0]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(first, name), getattr(second, name)])

    steps, truncated = joined("num_steps"), joined("truncated")
    drawn = (joined("winner") == -1) & ~truncated
    assert results["truncated"] == truncated.sum()
    assert results["drawn"] == drawn.sum()
    assert results["stalemates"] == first.stalemate.sum() + second.stalemate.sum()
    assert results["reshuffles_per_game"] == pytest.approx(joined("num_reshuffles").mean())
    assert results["choice_share"] == pytest.approx(joined("num_choices").sum() / steps.sum())
    assert results["steps_per_game"]["mean"] == pytest.approx(steps.mean())
    assert results["steps_per_game"]["max"] == steps.max()
    assert results["steps_per_game"]["quantiles"] == {str(q): np.quantile(steps, q, method="inverted_cdf") for q in QUANTILES}
    won_by_a = np.concatenate(
        [np.where(first.winner >= 0, 1 - 2 * first.winner, 0), np.where(second.winner >= 0, 2 * second.winner - 1, 0)]
    )
    penalties = 0.125 * (steps - ~truncated)
    assert results["mean_return"] == pytest.approx([(won_by_a - penalties).mean(), (-won_by_a - penalties).mean()])


def test_points_leave_no_mean_return(capsys):
    """Who moves first is no seat's either where a start card may pass a player over."""
    args = ["simulate", "--games", "64", "--rules", "official", "--step-penalty", "0.01", "--policies", "linear", "uniform"]
    assert main([*args, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["mean_return"] is None
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "Mean return" not in out and "as player 0" in out and "moving first" not in out
    assert tables.seats(Rules.rlcard()) == tables.seats(Rules(first_player="random")) != tables.seats(Rules())


def test_balanced_figures(capsys, seatings: tuple[Games, Games]):
    data = run_json(capsys, *ARGS)
    assert data["complete"] is True
    assert data["games"] == data["games_asked"] == NUM_GAMES
    assert Rules(**(data["rules"] | {"deck": tuple(data["rules"]["deck"])})) == RULES
    results = data["results"]
    for way in ("stalemates", "drawn", "truncated", "reshuffles_per_game"):
        assert results[way] > 0, f"these rules are meant to give some {way}"
    check_results(results, *seatings)
    assert results["steps_per_second"] == pytest.approx(results["games_per_second"] * results["steps_per_game"]["mean"])


def test_seats_as_given(capsys):
    num_games = NUM_GAMES - NUM_GAMES // 2
    a, b = (get_policy(name) for name in NAMES)
    games = simulate(jax.random.key(5), num_games, (a, b), rules=RULES, batch_size=BATCH_SIZE)
    results = run_json(capsys, *ARGS, "--games", str(num_games), "--seats", "as-given")["results"]
    row_a, row_b = results["wins"]
    assert row_a["as_player_1"] is None
    assert row_b["as_player_0"] is None
    assert row_a["total"]["wins"] == row_a["as_player_0"]["wins"] == (games.winner == 0).sum()
    assert row_b["total"]["wins"] == row_b["as_player_1"]["wins"] == (games.winner == 1).sum()


def test_tables(capsys, seatings: tuple[Games, Games]):
    assert main(ARGS) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    first, second = seatings
    wins = Rate(int((first.winner == 0).sum() + (second.winner == 1).sum()), NUM_GAMES)
    row = next(line for line in captured.out.splitlines() if line.startswith("scarcest-color"))
    assert row.endswith(tables.percent_between(wins.value, wins.interval))
    for words in ("moving first", "2,001 games", "seed 5", "deck of 12 cards", "to compile and run once", jax.__version__, "cpu"):
        assert words in " ".join(captured.out.split())
    assert "\x1b" not in captured.out
    assert all(len(line) <= 80 and line == line.rstrip() for line in captured.out.splitlines())


def test_one_game(capsys):
    data = run_json(capsys, *ARGS, "--games", "1")
    assert data["games"] == 1
    assert data["results"]["wins"][0]["as_player_1"] is None


def interrupted_after(num_calls: int, monkeypatch: pytest.MonkeyPatch, *, times: int = 1) -> None:
    """From now on Ctrl-C comes in calls of the device, from `num_calls` on, counted over all seatings and the compilation."""
    calls = 0
    # A test run in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(kind: type) -> type:
        class Interrupted(kind):
            def __next__(self) -> Any:
                nonlocal calls
                calls += 1
                if num_calls <= calls < num_calls + times:
                    signal.raise_signal(signal.SIGINT)
                return super().__next__()

        return Interrupted

    monkeypatch.setattr(simulate_run, "Counting", interrupted(Counting))
    monkeypatch.setattr(simulate_run, "Stream", interrupted(Stream))


@pytest.mark.parametrize("keeps", [False, True])
def test_interrupted_while_playing(capsys, monkeypatch, tmp_path, seatings: tuple[Games, Games], keeps: bool):
    # Two calls compile; of the others each ends some games of one seating.
    out = ["--out", str(tmp_path / "games.npz")] if keeps else []
    interrupted_after(5, monkeypatch)
    assert main([*ARGS, *out, "--json", "-"]) == 130
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["complete"] is False
    n = data["games"] // 2
    assert 0 < data["games"] == 2 * n < NUM_GAMES
    # The games that were begun, as many of each seating.
    check_results(data["results"], seatings[0][:n], seatings[1][:n])
    assert "stopped after" in captured.err
    if keeps:
        rows = np.load(tmp_path / "games.npz")
        for swapped in (0, 1):
            np.testing.assert_array_equal(np.sort(rows["game"][rows["swapped"] == swapped]), np.arange(n))
        return

    interrupted_after(5, monkeypatch)
    assert main(ARGS) == 130
    captured = capsys.readouterr()
    assert f"{2 * n:,} of 2,001" in captured.out
    assert "stopped after" in captured.err


@pytest.mark.parametrize(("num_calls", "times"), [(1, 1), (4, 2)])
def test_interrupted_before_there_is_anything_or_twice(capsys, monkeypatch, num_calls: int, times: int):
    interrupted_after(num_calls, monkeypatch, times=times)
    assert main(ARGS) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "stopped" in captured.err
    assert "Traceback" not in captured.err


def test_games_too_long_to_count_are_played_row_by_row(capsys, monkeypatch, seatings: tuple[Games, Games]):
    class TooLong(Counting):
        def __next__(self) -> Any:
            super().__next__()
            raise LongGameError

    monkeypatch.setattr(simulate_run, "Counting", TooLong)
    check_results(run_json(capsys, *ARGS)["results"], *seatings)


def test_json_file(capsys, tmp_path):
    target = tmp_path / "results.json"
    target.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    assert main([*ARGS, "--json", str(link)]) == 0
    assert "Games won" in capsys.readouterr().out
    assert json.loads(target.read_text())["games"] == NUM_GAMES
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "results.json"]


def test_json_file_is_whole_or_untouched(tmp_path, monkeypatch):
    target = tmp_path / "results.json"
    target.write_text("old")

    def full_disk(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(ValueError, match="No space left on device"):
        output.write_json(str(target), {"games": 1})
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_json_to_a_device_leaves_the_device():
    targets.check_files(Simulate(json=os.devnull))
    output.write_json(os.devnull, {"games": 1})
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("target", ["missing/results.json", "."])
def test_unwritable_json_is_said_before_any_game(complaint, tmp_path, monkeypatch, target: str):
    interrupted_after(1, monkeypatch)
    assert complaint([*ARGS, "--json", str(tmp_path / target)]).startswith("unojax simulate: error: --json: ")


def test_progress_only_on_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not output.shows_progress(quiet=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert output.shows_progress(quiet=False)
    assert not output.shows_progress(quiet=True)


@pytest.mark.parametrize(("wins", "games"), [(0, 1), (1, 1), (0, 50), (50, 50), (17, 50), (67_600, 100_000)])
def test_wilson_interval(wins: int, games: int):
    expected = binomtest(wins, games).proportion_ci(method="wilson")
    assert Rate(wins, games).interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_tally_does_not_depend_on_the_slices(monkeypatch, seatings: tuple[Games, Games]):
    whole = Tally.of(seatings[0])
    monkeypatch.setattr("unojax.simulation.tally._GAMES_PER_SLICE", 7)
    parts = Tally.of(seatings[0])
    np.testing.assert_array_equal(parts.lengths, whole.lengths)
    for name in ("games", "wins", "stalemates", "drawn", "truncated", "steps", "choices", "reshuffles"):
        assert getattr(parts, name) == getattr(whole, name), name


@pytest.mark.parametrize("names", [("commonest-color", "scarcest-color"), ("commonest-color", "commonest-color")])
def test_widest_table_fits_80_columns(names: tuple[str, str]):
    half = Tally(games=10**9, wins=(5 * 10**8, 5 * 10**8))
    played = WinRates(names, Rules(), (half, half), True, BATCH_SIZE, 1.0, 1.0)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(win_table(played))
    text = capture.get()
    assert text.count("50.00 (50.00-50.00)") == 8
    assert "…" not in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())


OWN = """
import jax.numpy as jnp
def clever(key, observation, legal_mask): return jnp.argmax(legal_mask)
def illegal(key, observation, legal_mask): return jnp.int32(-5)
def pairs(key, observation, legal_mask): return jnp.zeros(2, jnp.int32)
def halves(key, observation, legal_mask): return jnp.float32(1.5)
def fails(key, observation, legal_mask): raise RuntimeError("no idea")
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("illegal", "a policy of {}:clever and {}:illegal chose an illegal action"),
        ("pairs", "policy {}:pairs must return one integer, got int32[2]"),
        ("halves", "policy {}:halves must return one integer, got float32[]"),
        ("fails", "policy {}:fails failed: RuntimeError: no idea"),
    ],
)
def test_a_policy_of_ones_own_is_named_where_it_fails(complaint, tmp_path: Path, name: str, says: str):
    file = tmp_path / "my.py"
    file.write_text(OWN)
    args = ["simulate", "--games", "4", "--hand-size", "2", "--policies", f"{file}:clever", f"{file}:{name}"]
    assert says.format(file, file) in complaint(args)


def test_no_file_is_written_twice(complaint, tmp_path: Path):
    file = str(tmp_path / "games.npz")
    assert "--json: " in (said := complaint(["simulate", "--out", file, "--json", file])) and "written by --out too" in said


def test_games_without_a_step(capsys):
    """The card turned up makes the first player draw, and there are none: each game is over where it begins."""
    deck = ["--deck", "colors=2,ranks=+2,copies=2,wilds=0", "--hand-size", "1", "--start-effects", "keep_turn"]
    assert main(["simulate", *deck, "--games", "8", "--quiet", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["results"]
    assert (told["drawn"], told["steps_per_game"]["max"], told["choice_share"]) == (8, 0, 0.0)
