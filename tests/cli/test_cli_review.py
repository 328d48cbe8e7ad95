"""`unojax review`: costs of choices and win probabilities of a saved game."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.by_script import RULES, session_from
from unojax.games.at_table import Table
from unojax.games.gamefile import GameFile, read_game, write_game
from unojax.text import parse_action

AGENT = ["--agent", "mc:rollouts=64,particles=256,policy=uniform,model=uniform"]
OPTIONS = [*AGENT, "--replicates", "4"]
# Player 0 wins at once with the skip, after which it moves again, and R1; R1 first gives that away.
WIN_IN_TWO = "RS,R1/R2,Y1,Y2/Y0/* R0 0 0 0 - *"


def saved(path: Path, actions: str) -> str:
    """Save a game from the position and return the file's name."""
    session = session_from(WIN_IN_TWO)
    for action in actions.split():
        session.play(parse_action(action))
    write_game(path, GameFile.of(session.replay(), players=("person", "uniform"), seed=0))
    return str(path)


@pytest.fixture
def given_away(tmp_path) -> str:
    """Return a saved game in which player 0 misses a win."""
    return saved(tmp_path / "game.json", "R1 R2")


def test_a_win_given_away_costs_its_value(run_json, run_text, given_away, tmp_path):
    data = run_json("review", given_away, *OPTIONS)
    start, turn, _ = data["turns"]
    assert (data["player"], data["choices"], start["choice"], data["complete"]) == (0, 1, None, True)
    choice = turn["choice"]
    plays = {play["action"]: play["win"] for play in choice["plays"]}
    assert choice["best"] == "RS" and plays["RS"] == 1.0
    # A sure win is never chosen by luck, so that both halves agree with all replicates together.
    assert choice["cost"] == pytest.approx(1 - plays["R1"], abs=1e-6) and choice["cost_error"] > 0
    assert data["total_cost"] == choice["cost"] and 0 < turn["win"] < 1 and turn["win_error"] > 0

    before, page = Path(given_away).read_text(), tmp_path / "game.html"
    out = run_text("review", given_away, *OPTIONS, "--html", str(page))
    assert "player 0 plays R1" in out and "1 of them worse" in out and "RS" in out
    for words in ("RS was better.", "Win probability", "in the opponent's hand"):
        assert words in page.read_text().replace("&#x27;", "'")
    assert Path(given_away).read_text() == before


def test_a_game_at_a_table_is_reviewed_from_its_last_count(run_json, run_text, tmp_path):
    """Turns keep their numbers in the game, and the reader learns that earlier choices are left out."""
    table, path = Table("R0 R2 Y1", "R3", rules=RULES), str(tmp_path / "game.json")
    table.play("r2; y2; y1; they have 2 cards; draw")
    table.save(path)
    assert [turn["turn"] for turn in run_json("review", path, *OPTIONS)["turns"]] == [3, 4]
    assert "after turn 3; earlier choices are not reviewed" in run_text("review", path, *OPTIONS)


def test_the_best_play_costs_nothing_and_the_end_is_no_probability(run_json, tmp_path):
    game = saved(tmp_path / "game.json", "RS R1")
    turns = run_json("review", game, *OPTIONS)["turns"]
    assert turns[1]["choice"]["cost"] == 0.0
    assert [turns[-1][name] for name in ("win", "win_error", "choice")] == [1.0, 0.0, None], "a single card is no choice"
    other = run_json("review", game, *OPTIONS, "--player", "1")
    assert other["choices"] == 0 and other["turns"][-1]["win"] == 0.0


def test_a_record_of_one_side(run_json, refused, given_away, tmp_path):
    """The figures of the whole game, except the score of the belief; a page without the other hand."""
    side, page = tmp_path / "side.json", tmp_path / "side.html"
    write_game(side, GameFile.of(read_game(given_away).seen(), players=("person", "opponent"), seed=None))
    of_side, of_whole = run_json("review", str(side), *OPTIONS, "--html", str(page)), run_json("review", given_away, *OPTIONS)
    assert of_side["log_score"] is None and all(turn.pop("log_score") is None for turn in of_side["turns"])
    assert of_side["turns"] == [{k: v for k, v in turn.items() if k != "log_score"} for turn in of_whole["turns"]]
    assert "Cost" in page.read_text()
    refused({f"review {side} --player 1": "of player 0, not of player 1"})


def test_ctrl_c_keeps_the_finished_turns(run_json, monkeypatch, given_away):
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unojax.games.advisor.replicates", stop)
    data = run_json("review", given_away, *AGENT, status=130, note="stopped after turn 0 of 2")
    assert not data["complete"] and [turn["turn"] for turn in data["turns"]] == [0]


def test_bad_command_lines_are_refused(refused, given_away, tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    refused(
        {
            "/no/game.json": "'/no/game.json'",
            f"{tmp_path}/bad.json": "this is no saved game",
            f"{tmp_path}": "can't read",
            f"{given_away} --replicates 3": "--replicates",
            f"{given_away} --agent linear": "no estimates",
            f"{given_away} --agent mc:belief=truth": "needs the hidden hand",
            f"{given_away} --html {given_away}": "--html: ",
            f"{given_away} --json {given_away}": "--json: ",
            f"{given_away} --html /no/folder/x.html": "--html",
            f"{given_away} --player 2": "--player",
            "": "FILE.json",
        },
        ["review"],
    )
