"""`unojax review`: what each choice of a saved game cost, and how likely the player was to win."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unojax import Rules, parse_position
from unojax.cli import main
from unojax.decks import parse_deck
from unojax.games.gamefile import GameFile, read_game, write_game
from unojax.games.session import Session
from unojax.specs import parse_agent
from unojax.text import parse_action

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)
SPEC = "mc:rollouts=64,particles=256,policy=uniform,model=uniform"
# Player 0 wins at once with the skip, after which it moves again, and R1; R1 first gives that away.
WIN_IN_TWO = "RS,R1/R2,Y1,Y2/Y0/* R0 0 0 0 - *"


def saved(path: Path, actions: str, players: tuple[str, str] = ("person", "uniform")) -> str:
    session = Session(
        parse_agent("uniform", rules=RULES), seat=0, seed=0, rules=RULES, start=parse_position(WIN_IN_TWO, rules=RULES)
    )
    for action in actions.split():
        session.play(parse_action(action))
    write_game(path, GameFile.of(session.replay(), players=players, seed=0))
    return str(path)


def run_json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["review", *args, "--agent", SPEC, "--replicates", "4", "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_win_given_away_costs_what_it_was_worth(capsys, tmp_path: Path):
    data = run_json(capsys, saved(tmp_path / "game.json", "R1 R2"))
    start, given_away, _ = data["turns"]
    assert (data["player"], data["choices"], start["choice"], data["complete"]) == (0, 1, None, True)
    choice = given_away["choice"]
    assert choice["best"] == "RS"
    plays = {play["action"]: play["win"] for play in choice["plays"]}
    assert plays["RS"] == 1.0
    # Of a sure win nothing is chosen by luck, so that both halves agree with all replicates together.
    assert choice["cost"] == pytest.approx(1 - plays["R1"], abs=1e-6) and choice["cost_error"] > 0
    assert data["total_cost"] == choice["cost"]
    assert 0 < given_away["win"] < 1 and given_away["win_error"] > 0


def test_the_best_play_costs_nothing_and_the_end_is_no_probability(capsys, tmp_path: Path):
    data = run_json(capsys, saved(tmp_path / "game.json", "RS R1"))
    assert data["turns"][1]["choice"]["cost"] == 0.0
    last = data["turns"][-1]
    assert (last["win"], last["win_error"], last["choice"]) == (1.0, 0.0, None), "a single card is no choice"
    other = run_json(capsys, saved(tmp_path / "game.json", "RS R1"), "--player", "1")
    assert other["choices"] == 0 and other["turns"][-1]["win"] == 0.0


def test_text_page_and_files(capsys, tmp_path: Path):
    game, page = saved(tmp_path / "game.json", "R1 R2"), tmp_path / "game.html"
    before = Path(game).read_text()
    assert main(["review", game, "--agent", SPEC, "--replicates", "4", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "player 0 plays R1" in out and "1 of them worse" in out and "RS" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    text = page.read_text()
    assert "RS was better." in text and "Win probability" in text and "in the opponent&#x27;s hand" in text.replace("'", "&#x27;")
    assert Path(game).read_text() == before


def test_ctrl_c_keeps_the_turns_that_were_looked_at(capsys, monkeypatch, tmp_path: Path):
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    game = saved(tmp_path / "game.json", "R1 R2")
    monkeypatch.setattr("unojax.games.advisor.replicates", stop)
    assert main(["review", game, "--agent", SPEC, "--json", "-"]) == 130
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert not data["complete"] and [turn["turn"] for turn in data["turns"]] == [0]
    assert "stopped after turn 0 of 2" in captured.err


def test_errors_are_one_line(complaint, tmp_path: Path):
    game = saved(tmp_path / "game.json", "R1 R2")
    (tmp_path / "bad.json").write_text("{}")
    for args, says in [
        (["/no/game.json"], "can't read '/no/game.json'"),
        ([str(tmp_path / "bad.json")], "this is no saved game"),
        ([str(tmp_path)], "can't read"),
        ([game, "--replicates", "3"], "--replicates must be at least 4"),
        ([game, "--agent", "linear"], "has no estimates; choose a search"),
        ([game, "--agent", "mc:belief=truth"], "needs the hidden hand"),
        ([game, "--html", game], "--html: "),
        ([game, "--json", game], "--json: "),
        ([game, "--html", "/no/folder/x.html"], "there is no such folder"),
        ([game, "--player", "2"], "--player"),
        ([], "FILE.json"),
    ]:
        assert says in complaint(["review", *args])


def test_a_record_of_one_side(capsys, complaint, tmp_path: Path):
    """The same figures as of the whole game, but for the score of the belief; and a page without the other hand."""
    whole = saved(tmp_path / "whole.json", "R1 R2")
    seen = read_game(whole).seen()
    write_game(tmp_path / "side.json", GameFile.of(seen, players=("person", "opponent"), seed=None))
    side, page = str(tmp_path / "side.json"), tmp_path / "side.html"
    of_side, of_whole = run_json(capsys, side, "--html", str(page)), run_json(capsys, whole)
    assert all(turn.pop("log_score") is None for turn in of_side["turns"])
    assert of_side["log_score"] is None
    for turn in of_whole["turns"]:
        del turn["log_score"]
    assert of_side["turns"] == of_whole["turns"]
    assert "Cost" in page.read_text()
    assert "of player 0, not of player 1" in complaint(["review", side, "--player", "1"])
