"""`unojax simulate`: the figures of `unojax.simulate`; Ctrl-C, files, and the user's policies."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import pytest
from rich.console import Console

from unojax import Games, Rules, get_policy, simulate
from unojax.arena.win_rates import QUANTILES, Rate, WinRates
from unojax.cli import main, output, targets
from unojax.cli.simulate import Simulate, win_table
from unojax.decks import parse_deck
from unojax.simulation import Counting, LongGameError, Stream
from unojax.simulation.tally import Tally
from unojax.terminal import tables

PROGRAMS: Final = 80  # four sets of rules, with and without rows
# Games of these rules end in every way there is: won, by stalemate, drawn, truncated.
DECK = "colors=2,ranks=0-2+S++2,copies=1,wilds=1"
RULES = Rules(deck=parse_deck(DECK), hand_size=3, start_card="any", max_steps=16, step_penalty=0.125)
NAMES = ("scarcest-color", "uniform")
# The package has a function of this name.
win_rates = import_module("unojax.arena.win_rates")
NUM_GAMES, BATCH_SIZE = 2001, 64
ARGS = ["simulate", "--games", str(NUM_GAMES), "--batch-size", str(BATCH_SIZE), "--seed", "5", "--deck", DECK]
ARGS += "--hand-size 3 --start-card any --max-steps 16 --step-penalty 0.125".split()


@pytest.fixture(scope="module")
def seatings() -> tuple[Games, Games]:
    """Return the games that the command must play: A as player 0, then B as player 0."""
    key = jax.random.key(5)
    a, b = (get_policy(name) for name in NAMES)
    first = simulate(key, NUM_GAMES - NUM_GAMES // 2, (a, b), rules=RULES, batch_size=BATCH_SIZE)
    second = simulate(jax.random.fold_in(key, 1), NUM_GAMES // 2, (b, a), rules=RULES, batch_size=BATCH_SIZE)
    return first, second


def check_results(results: dict[str, Any], first: Games, second: Games) -> None:
    """Compare results with sums over the games."""

    def share(*parts: tuple[Games, int]) -> tuple[int, int]:
        return sum(int((games.winner == player).sum()) for games, player in parts), sum(len(games) for games, _ in parts)

    a, b = results["wins"]
    assert (a["policy"], b["policy"]) == NAMES
    for row, seats in ((a, ((first, 0), (second, 1))), (b, ((second, 0), (first, 1)))):
        assert (row["as_player_0"]["wins"], row["as_player_0"]["games"]) == share(seats[0])
        assert (row["as_player_1"]["wins"], row["as_player_1"]["games"]) == share(seats[1])
        assert (row["total"]["wins"], row["total"]["games"]) == share(*seats)
    for player in (0, 1):
        assert results["wins_of_player"][player]["wins"] == share((first, player), (second, player))[0]
    joined = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("num_steps", "truncated", "winner", "stalemate", "num_reshuffles", "num_choices")
    }
    steps, truncated = joined["num_steps"], joined["truncated"]
    assert results["truncated"] == truncated.sum() and results["stalemates"] == joined["stalemate"].sum()
    assert results["drawn"] == ((joined["winner"] == -1) & ~truncated).sum()
    assert results["reshuffles_per_game"] == pytest.approx(joined["num_reshuffles"].mean())
    assert results["choice_share"] == pytest.approx(joined["num_choices"].sum() / steps.sum())
    assert results["steps_per_game"]["mean"] == pytest.approx(steps.mean())
    assert results["steps_per_game"]["max"] == steps.max()
    assert results["steps_per_game"]["quantiles"] == {str(q): np.quantile(steps, q, method="inverted_cdf") for q in QUANTILES}
    seat_of_a = np.repeat([0, 1], [len(first), len(second)])
    won_by_a = np.where(joined["winner"] < 0, 0, np.where(joined["winner"] == seat_of_a, 1, -1))
    penalties = 0.125 * (steps - ~truncated)
    assert results["mean_return"] == pytest.approx([(won_by_a - penalties).mean(), (-won_by_a - penalties).mean()])


def test_figures_and_tables_are_those_of_the_games(run_json, run_text, seatings):
    data = run_json(*ARGS)
    assert data["complete"] is True and data["games"] == data["games_asked"] == NUM_GAMES
    assert Rules(**(data["rules"] | {"deck": tuple(data["rules"]["deck"])})) == RULES
    results, (first, second) = data["results"], seatings
    for way in ("stalemates", "drawn", "truncated", "reshuffles_per_game"):
        assert results[way] > 0, f"these rules are meant to give some {way}"
    check_results(results, first, second)
    assert results["steps_per_second"] == pytest.approx(results["games_per_second"] * results["steps_per_game"]["mean"])
    out = run_text(*ARGS)
    wins = Rate.of(int((first.winner == 0).sum() + (second.winner == 1).sum()), NUM_GAMES)
    row = next(line for line in out.splitlines() if line.startswith("scarcest-color"))
    assert row.endswith(tables.percent_within(wins.rate, (wins.low, wins.high)))
    for words in ("moving first", "2,001 games", "seed 5", "deck of 12 cards", "to compile and run once", jax.__version__, "cpu"):
        assert words in " ".join(out.split())


def test_seats_as_given_and_one_game(run_json, seatings):
    games = seatings[0]
    row_a, row_b = run_json(*ARGS, "--games", str(len(games)), "--seats", "as-given")["results"]["wins"]
    assert row_a["as_player_1"] is row_b["as_player_0"] is None
    assert row_a["total"]["wins"] == row_a["as_player_0"]["wins"] == (games.winner == 0).sum()
    assert row_b["total"]["wins"] == row_b["as_player_1"]["wins"] == (games.winner == 1).sum()
    assert run_json(*ARGS, "--games", "1")["results"]["wins"][0]["as_player_1"] is None


def test_points_leave_no_mean_return(run_json, run_text):
    """If a start card may skip a player, no seat moves first either."""
    args = "simulate --games 64 --rules official --step-penalty 0.01 --policies greedy uniform".split()
    assert run_json(*args)["results"]["mean_return"] is None
    out = run_text(*args)
    assert "Mean return" not in out and "as player 0" in out and "moving first" not in out
    assert tables.seats(Rules.rlcard()) == tables.seats(Rules(first_player="random")) != tables.seats(Rules())


def test_games_without_a_step(run_json):
    """The start card makes the first player draw from an empty deck, so each game is over at once."""
    deck = "simulate --deck colors=2,ranks=+2,copies=2,wilds=0 --hand-size 1 --start-effects keep_turn --games 8".split()
    results = run_json(*deck)["results"]
    assert (results["drawn"], results["steps_per_game"]["max"], results["choice_share"]) == (8, 0, 0.0)


def interrupted_after(num_calls: int, monkeypatch: pytest.MonkeyPatch, *, times: int = 1) -> None:
    """Raise Ctrl-C in device calls from `num_calls` on, over all seatings and the compilation."""
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

    monkeypatch.setattr(win_rates, "Counting", interrupted(Counting))
    monkeypatch.setattr(win_rates, "Stream", interrupted(Stream))


@pytest.mark.parametrize("keeps", [False, True])
def test_ctrl_c_keeps_the_games_that_were_begun(run_json, capsys, monkeypatch, tmp_path, seatings, keeps: bool):
    """Equal numbers of both seatings. Two calls compile; each other one ends games of one seating."""
    path = tmp_path / "games.npz"
    interrupted_after(5, monkeypatch)
    data = run_json(*ARGS, *(["--out", str(path)] if keeps else []), status=130, note="stopped after")
    n = data["games"] // 2
    assert data["complete"] is False and 0 < data["games"] == 2 * n < NUM_GAMES
    check_results(data["results"], seatings[0][:n], seatings[1][:n])
    if keeps:
        rows = np.load(path)
        for swapped in (0, 1):
            np.testing.assert_array_equal(np.sort(rows["game"][rows["swapped"] == swapped]), np.arange(n))
    else:
        interrupted_after(5, monkeypatch)
        assert main(ARGS) == 130
        assert f"{2 * n:,} of 2,001" in capsys.readouterr().out


def test_ctrl_c_before_there_is_anything_or_twice(capsys, monkeypatch):
    for num_calls, times in ((1, 1), (4, 2)):
        with monkeypatch.context() as patch:
            interrupted_after(num_calls, patch, times=times)
            assert main(ARGS) == 130
        captured = capsys.readouterr()
        assert captured.out == "" and "stopped" in captured.err and "Traceback" not in captured.err


def test_games_too_long_to_count_are_played_row_by_row(run_json, monkeypatch, seatings):
    class TooLong(Counting):
        def __next__(self) -> Any:
            super().__next__()
            raise LongGameError

    monkeypatch.setattr(win_rates, "Counting", TooLong)
    check_results(run_json(*ARGS)["results"], *seatings)


def test_json_goes_to_a_file_as_a_whole_or_not_at_all(run_text, refused, monkeypatch, tmp_path):
    target, link = tmp_path / "results.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert "Games won" in run_text(*ARGS, "--json", str(link))
    assert json.loads(target.read_text())["games"] == NUM_GAMES and link.is_symlink()
    output.write_json(os.devnull, {"games": 1})
    targets.check_files(Simulate(json=os.devnull))
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    # Refused before any game.
    interrupted_after(1, monkeypatch)
    refused({f"--json '{tmp_path / name}'": "simulate: error: --json" for name in ("missing/results.json", ".")}, ARGS)

    def full_disk(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    target.write_text("old")
    with pytest.raises(ValueError, match="No space left on device"):
        output.write_json(str(target), {"games": 1})
    assert target.read_text() == "old" and {path.name for path in tmp_path.iterdir()} == {"link.json", "results.json"}


def test_progress_only_on_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not output.shows_progress(quiet=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert output.shows_progress(quiet=False) and not output.shows_progress(quiet=True)


def test_a_tally_does_not_depend_on_its_slices(monkeypatch, seatings):
    whole = vars(Tally.of(seatings[0]))
    monkeypatch.setattr("unojax.simulation.tally._GAMES_PER_SLICE", 7)
    parts = vars(Tally.of(seatings[0]))
    np.testing.assert_array_equal(parts.pop("lengths"), whole.pop("lengths"))
    assert parts == whole


def test_the_widest_table_fits_60_columns():
    half = Tally(games=10**9, wins=(5 * 10**8, 5 * 10**8))
    for names in (("commonest-color", "scarcest-color"), ("commonest-color", "commonest-color")):
        console = Console(width=60)
        with console.capture() as capture:
            console.print(win_table(WinRates(names, Rules(), (half, half), True, BATCH_SIZE, 1.0, 1.0)))
        text = capture.get()
        assert text.count("50.00 ± 0.00") == 8 and "…" not in text
        assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
