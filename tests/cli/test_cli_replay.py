"""`unojax replay`: every turn, or one player's view of it, or one turn; in the terminal and as pages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from unojax import cards
from unojax.cli import main
from unojax.games.gamefile import read_game
from unojax.text import format_cards


def test_replay_shows_every_turn(capsys, games, tmp_path: Path):
    session, _, path = games[1]
    html, svg = tmp_path / "game.html", tmp_path / "game.svg"
    assert main(["replay", str(path), "--html", str(html), "--svg", str(svg)]) == 0
    out = capsys.readouterr().out
    turns = re.findall(r"^turn (\d+) ", out, re.MULTILINE)
    assert turns == [str(n) for n in range(len(session.steps) + 1)]
    assert f"after turn {len(session.steps)}; replayed to the same end" in out
    for state, block in zip(session.replay().states, re.split(r"^turn ", out, flags=re.MULTILINE)[1:], strict=True):
        for player in (0, 1):
            held = re.search(rf"^  player {player} +(.*)$", block, re.MULTILINE)
            assert held is not None
            assert held[1].split() == (format_cards(state.hands[player]).split() or ["-"])
    assert html.read_text().startswith("<!DOCTYPE html>")
    assert svg.read_text().startswith("<svg")


@pytest.mark.parametrize("player", [0, 1])
def test_replay_of_one_player_hides_the_other(capsys, games, tmp_path: Path, player: int):
    session, _, path = next((m, t, p) for m, t, p in games if np.sum(m.replay().end.hands[1 - player]) > 1)
    html = tmp_path / "game.html"
    assert main(["replay", str(path), "--player", str(player), "--html", str(html)]) == 0
    out = capsys.readouterr().out
    states = session.replay().states
    never_seen = set(range(cards.NUM_TYPES)) - {
        t for state in states for t in cards.TYPE_OF_SLOT[state.hands[player] | state.pile].tolist()
    }
    hidden = {cards.TYPE_NAMES[t] for t in cards.TYPE_OF_SLOT[states[-1].hands[1 - player]].tolist() if t in never_seen}
    assert hidden, "the game of this seed is meant to leave cards unseen"
    words = set(re.findall(r"[RYBGW][\w+]*", out))
    assert not hidden & words
    assert cards.TYPE_NAMES[int(states[0].top_rank) + 13 * int(states[0].color)] in words
    counts = re.findall(rf"^  player {1 - player} +(\d+) cards?$", out, re.MULTILINE)
    assert counts == [str(int(np.sum(state.hands[1 - player]))) for state in states]
    assert main(["replay", str(path), "--html", str(tmp_path / "all.html")]) == 0
    assert len((tmp_path / "all.html").read_text()) > len(html.read_text())


def test_replay_of_one_turn(capsys, games):
    session, _, path = games[0]
    assert main(["replay", str(path), "--turn", "2"]) == 0
    assert re.findall(r"^turn (\d+)", capsys.readouterr().out, re.MULTILINE) == ["2"]
    assert main(["replay", str(path), "--turn", "999"]) == 2
    assert f"--turn must be in [0, {len(session.steps)}]" in capsys.readouterr().err


def test_replay_overwrites_no_saved_game(complaint, games, tmp_path: Path):
    saved = tmp_path / "game.json"
    saved.write_text(text := games[0][2].read_text())
    for option in ("--html", "--svg"):
        said = complaint(["replay", str(saved), option, str(tmp_path / ".." / tmp_path.name / "game.json")])
        assert f"{option}: " in said and "is the saved game itself" in said
    picture = str(tmp_path / "a.html")
    assert "is written by --html too" in complaint(["replay", str(saved), "--html", picture, "--svg", picture])
    assert saved.read_text() == text and not Path(picture).exists()


def test_files_that_can_not_be_written_are_named_as_given(complaint, games, monkeypatch):
    def fail(path: object, content: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/.game.html.x1y2.tmp")

    monkeypatch.setattr("unojax.cli.output.write_whole", fail)
    said = complaint(["replay", str(games[0][2]), "--html", "game.html"])
    assert "--html: can't write 'game.html': No space left on device" in said and ".tmp" not in said


def test_replay_of_the_start_alone(capsys, games):
    assert main(["replay", str(games[0][2]), "--turn", "0"]) == 0
    assert re.findall(r"^turn (\d+)", capsys.readouterr().out, re.MULTILINE) == ["0"]


def test_replay_complains_about_a_changed_game(capsys, games, tmp_path: Path):
    _, _, path = games[0]
    changed = tmp_path / "changed.json"
    text = path.read_text()
    action = read_game(path).actions[0]
    changed.write_text(text.replace(f'"{action}"', '"W:R", "W:R"', 1))
    assert main(["replay", str(changed)]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert str(changed) in err
