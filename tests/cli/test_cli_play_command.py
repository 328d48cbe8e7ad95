"""`unojax play` as a command: its options, files that games are saved in and go on from, and what it refuses."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.by_script import (
    RULE_ARGS,
    RULES,
)
from unojax import POLICIES
from unojax.cli import main
from unojax.games.gamefile import GameFile, next_path, read_game, write_game
from unojax.games.replay import Replay
from unojax.games.session import draw_seat


def test_a_rematch_swaps_the_seats_and_is_saved_beside_the_game(capsys, stdin, tmp_path: Path):
    path = tmp_path / "game.json"
    args = ["play", *RULE_ARGS, "--opponent", "uniform", "--hints", "none", "--auto-draw", "--seed", "6", "--save", str(path)]
    stdin("1\nb\n" * 40 + "r\n" + "1\nb\n" * 3)
    assert main(args) == 0
    out = capsys.readouterr().out
    assert out.count("The opponent is uniform; seed 6.") == 1
    # The prompt after the end took what was left of the first game's lines.
    assert out.count("The opponent is uniform; seed 7.") == 1
    assert read_game(path).players == ("person", "uniform")
    again = read_game(tmp_path / "game-2.json")
    assert again.players == ("uniform", "person") and again.seed == 7 and again.rules == RULES


def test_games_of_a_series_are_numbered(tmp_path: Path):
    path, names = tmp_path / "game.json", []
    for _ in range(3):
        path.touch()
        path = Path(next_path(str(path)))
        names.append(path.name)
    assert names == ["game-2.json", "game-3.json", "game-4.json"]
    (tmp_path / "2026-11-24.json").touch()
    assert Path(next_path(str(tmp_path / "2026-1124.json"))).name == "2026-1124-2.json"


def test_the_command(capsys, stdin, monkeypatch, tmp_path: Path):
    path = tmp_path / "game.json"
    monkeypatch.setenv("NO_COLOR", "1")
    stdin("\n1\nW:X\n" * 2)
    args = ["play", *RULE_ARGS, "--opponent", "uniform", "--hints", "none", "--save", str(path), "--seat", "random"]
    assert main([*args, "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "The opponent is uniform; seed 3." in out
    assert "\x1b" not in out
    saved = read_game(path)
    assert saved.seed == 3
    assert saved.players[draw_seat(3)] == "person"
    assert saved.players[1 - draw_seat(3)] == "uniform"
    assert saved.rules == RULES
    stdin("?\n")
    assert main(args[:-4]) == 0
    assert "There is no advice in this game" in capsys.readouterr().out


def test_an_unfinished_game_is_not_written_over(complaint, capsys, stdin, tmp_path: Path):
    path, other = tmp_path / "my game.json", tmp_path / "other.json"
    args = ["play", "--opponent", "uniform", "--hints", "none", "--auto-draw", "--seed", "6", "--save"]
    stdin("")
    assert main([*args, str(path), *RULE_ARGS]) == 0
    kept = path.read_text()
    write_game(other, read_game(path))
    capsys.readouterr()
    for asked in ([*args, str(path)], ["play", "--resume", str(other), "--save", str(path)]):
        says = f"--save: the game in {str(path)!r} is unfinished: unojax play --resume '{path}' continues it; for another"
        assert says in complaint(asked)
    assert path.read_text() == kept
    # Nor is what is no game, or one of another version.
    for content in ("precious", json.dumps(json.loads(kept) | {"rules_version": 99})):
        other.write_text(content)
        assert "it is not written over: give another name" in complaint([*args, str(other), *RULE_ARGS])
        assert other.read_text() == content
    # Where it goes on itself, and in place of one that is over or of nothing.
    stdin("1\nb\n" * 40)
    assert main(["play", "--hints", "none", "--auto-draw", "--resume", str(path), "--save", str(path)]) == 0
    assert read_game(path).result in "01="
    other.write_text("")
    for file in (path, other):
        stdin("")
        assert main([*args, str(file), *RULE_ARGS]) == 0
        assert read_game(file).result == "*"


def test_an_interrupted_game_goes_on(capsys, stdin, tmp_path: Path):
    """In two parts, the same game as in one."""
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    args = ["play", "--hints", "none", "--auto-draw"]
    stdin("1\nb\n" * 40)
    assert main([*args, *RULE_ARGS, "--opponent", "uniform", "--seed", "6", "--seat", "1", "--save", str(whole)]) == 0
    game = read_game(whole)
    assert game.result in "01="
    cut = game.replay()
    cut = GameFile.of(Replay(cut.start, cut.steps[:3]), players=game.players, seed=game.seed)
    write_game(parts, cut)
    capsys.readouterr()
    stdin("1\nb\n" * 40)
    assert main([*args, "--resume", str(parts)]) == 0
    out = capsys.readouterr().out
    assert "You are player 1, against uniform." in out
    assert "The game goes on." in out
    assert f"Saved in {parts}: unojax replay shows it with all cards.\n" in out
    assert read_game(parts) == game

    for args, says in [
        (["--resume", str(whole)], "is over; unojax replay shows it"),
        (["--resume", str(parts), "--seat", "1"], "remove --seat"),
        (["--resume", str(parts), "--hand-size", "5"], "remove the options of the rules"),
    ]:
        assert main(["play", *args]) == 2
        assert says in capsys.readouterr().err
    write_game(parts, cut)
    assert main(["play", "--resume", str(parts), "--opponent", "linear"]) == 2
    assert "the opponent of the saved game, uniform: remove --opponent" in capsys.readouterr().err
    for changed, says in [
        (replace(cut, players=("a", "b")), "is no game of a person"),
        (replace(cut, seed=None), "is no game of a person"),
        (replace(cut, seed=7), "are not those of its seed"),
        (replace(cut, players=("process:touch ran", "person")), "to run it, add --opponent 'process:touch ran'"),
    ]:
        write_game(parts, changed)
        assert main(["play", "--resume", str(parts)]) == 2
        assert says in capsys.readouterr().err


def test_input_that_is_no_text(monkeypatch):
    """Bytes that are none, and letters that the output has not: a complaint each, and the game goes on. It begins with a draw."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8"))
    assert main(["play", *RULE_ARGS, "--opponent", "uniform", "--hints", "none", "--seed", "3"]) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\N{SNOWMAN}\n".encode()), encoding="utf-8"))
    assert main(["play", *RULE_ARGS, "--opponent", "uniform", "--hints", "none", "--seed", "3"]) == 0
    text = out.buffer.getvalue().decode("ascii")
    assert "That is not text." in text
    assert "> ?\nYou can't play: press Enter to draw" in text
    assert text.count("Stopped: the game is unfinished after 0 turns.") == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("play --opponent best", f"play: error: no agent is called 'best'; choose one of {next(iter(POLICIES))}"),
        ("play --hints 1", "--hints must be in [2, 100000] or none, got 1"),
        ("play --seat 2", "--seat"),
        ("play --seed x", "--seed"),
        (
            "play --opponent uniform --save /no/such/folder/g.json",
            "--save: can't write '/no/such/folder/g.json': there is no such folder",
        ),
        ("replay /no/such/game.json", "replay: error: can't read '/no/such/game.json': No such file or directory"),
        ("replay", "FILE.json"),
    ],
)
def test_errors_are_one_line(capsys, stdin, args: str, says: str):
    stdin("")
    words = args.split()
    assert main([*words, *RULE_ARGS] if words[0] == "play" else words) == 2
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err
