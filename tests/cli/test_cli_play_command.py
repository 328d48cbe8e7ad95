"""`unojax play` as a command: options, saved and resumed games, rejected input."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.by_script import RULE_ARGS, RULES
from unojax.cli import main
from unojax.games.gamefile import GameFile, next_path, read_game, write_game
from unojax.games.replay import Replay
from unojax.games.session import draw_seat

ARGS = ["--opponent", "uniform", "--hints", "none", "--auto-draw", "--seed", "6"]
# Whoever types this plays a whole game. The prompts after its end read the rest.
WHOLE = "1\nb\n" * 40


@pytest.fixture
def play(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the transcript of a game."""

    def run(*args: str) -> str:
        assert main(["play", *args]) == 0
        captured = capsys.readouterr()
        assert captured.err == "" and "\x1b" not in captured.out
        return captured.out

    return run


def test_a_game_and_its_rematch_are_saved(play, stdin, monkeypatch, tmp_path):
    """The rematch swaps the seats, has the next seed, and is saved beside the game."""
    monkeypatch.setenv("NO_COLOR", "1")
    path = tmp_path / "game.json"
    stdin(WHOLE + "r\n" + "1\nb\n" * 3)
    out = play(*ARGS, *RULE_ARGS, "--save", str(path), "--seat", "random")
    assert out.count("The opponent is uniform; seed 6.") == 1 == out.count("The opponent is uniform; seed 7.")
    first, again = read_game(path), read_game(tmp_path / "game-2.json")
    assert (first.players[draw_seat(6)], first.players[1 - draw_seat(6)]) == ("person", "uniform")
    assert again.players == first.players[::-1]
    assert (first.seed, again.seed, first.rules, again.rules) == (6, 7, RULES, RULES)
    stdin("?\n")
    assert "There is no advice in this game" in play(*ARGS, *RULE_ARGS)


def test_games_of_a_series_are_numbered(tmp_path):
    path, names = tmp_path / "game.json", []
    for _ in range(3):
        path.touch()
        path = Path(next_path(str(path)))
        names.append(path.name)
    assert names == ["game-2.json", "game-3.json", "game-4.json"]
    (tmp_path / "2026-11-24.json").touch()
    assert Path(next_path(str(tmp_path / "2026-1124.json"))).name == "2026-1124-2.json"


def test_an_unfinished_game_is_not_written_over(refused, play, stdin, tmp_path):
    path, other = tmp_path / "my game.json", tmp_path / "other.json"
    begin = [*ARGS, *RULE_ARGS, "--save"]
    stdin("")
    play(*begin, str(path))
    assert read_game(path).players == ("person", "uniform")
    kept = path.read_text()
    write_game(other, read_game(path))
    says = f"--save: the game in {str(path)!r} is unfinished: unojax play --resume '{path}' continues it"
    refused({f"play --opponent uniform --save '{path}'": says, f"play --resume '{other}' --save '{path}'": says})
    assert path.read_text() == kept
    # Nor is a file that is no game, or one of another version.
    for content in ("precious", json.dumps(json.loads(kept) | {"rules_version": 99})):
        other.write_text(content)
        refused({f"'{other}'": "it is not overwritten"}, ["play", *begin])
        assert other.read_text() == content
    # It is overwritten by its own continuation, and if it is over or empty.
    stdin(WHOLE)
    play("--hints", "none", "--auto-draw", "--resume", str(path), "--save", str(path))
    assert read_game(path).result in "01="
    other.write_text("")
    for file in (path, other):
        stdin("")
        play(*begin, str(file))
        assert read_game(file).result == "*"


def test_an_interrupted_game_is_resumed(refused, play, stdin, tmp_path):
    """Two parts give the same game as one."""
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    stdin(WHOLE)
    play(*ARGS, *RULE_ARGS, "--seat", "1", "--save", str(whole))
    game = read_game(whole)
    assert game.result in "01="
    played = game.replay()
    cut = GameFile.of(Replay(played.start, played.steps[:3]), players=game.players, seed=game.seed)
    write_game(parts, cut)
    stdin(WHOLE)
    out = play("--hints", "none", "--auto-draw", "--resume", str(parts))
    for words in ("You are player 1, against uniform.", "The game continues.", f"Saved in {parts}: unojax replay shows it"):
        assert words in out
    assert read_game(parts) == game

    files = {
        "cut": (cut, "--opponent linear", "remove --opponent"),
        "others": (replace(cut, players=("a", "b")), "", "is no game of a person"),
        "no-seed": (replace(cut, seed=None), "", "is no game of a person"),
        "other-seed": (replace(cut, seed=7), "", "are not those of its seed"),
        "program": (replace(cut, players=("process:touch ran", "person")), "", "add --opponent 'process:touch ran'"),
    }
    for name, (saved, *_) in files.items():
        write_game(tmp_path / f"{name}.json", saved)
    refused(
        {f"play --resume {tmp_path}/{name}.json {options}": words for name, (_, options, words) in files.items()}
        | {
            f"play --resume {whole}": "is over; unojax replay shows it",
            f"play --resume {parts} --seat 1": "remove --seat",
            f"play --resume {parts} --hand-size 5": "remove the options of the rules",
        }
    )


def test_input_that_is_no_text_is_answered(run_ascii, monkeypatch):
    """Invalid bytes, and letters outside the output's encoding. The game begins with a draw."""
    command = ["play", *RULE_ARGS, "--opponent", "uniform", "--hints", "none", "--seed", "3"]
    for typed, words in (
        (b"\xff\n", "That is not text."),
        ("\N{SNOWMAN}\n".encode(), "> ?\nYou can't play: press Enter to draw"),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        text = run_ascii(*command)
        assert words in text and text.count("Stopped: the game is unfinished after 0 turns.") == 1


def test_bad_command_lines_are_refused(refused, stdin):
    stdin("")
    refused(
        {
            "--opponent best": "play: error: no agent is called 'best'",
            "--hints 1": "--hints",
            "--seat 2": "--seat",
            "--seed x": "--seed",
            "--opponent uniform --save /no/such/folder/g.json": "--save: can't write '/no/such/folder/g.json'",
        },
        ["play", *RULE_ARGS],
    )
