"""`unojax replay`: all turns, one player's view, one turn; in the terminal and as pages."""

from __future__ import annotations

import re

import numpy as np

from unojax import cards
from unojax.cli import main
from unojax.games.gamefile import read_game
from unojax.text import format_cards


def turns_in(out: str) -> list[str]:
    return re.findall(r"^turn (\d+)", out, re.MULTILINE)


def test_every_turn_or_one_is_shown(capsys, games, tmp_path):
    session, _, path = games[1]
    html, svg = tmp_path / "game.html", tmp_path / "game.svg"
    assert main(["replay", str(path), "--html", str(html), "--svg", str(svg)]) == 0
    out = capsys.readouterr().out
    assert turns_in(out) == [str(n) for n in range(len(session.steps) + 1)]
    assert f"after turn {len(session.steps)}; replayed to the same end" in out
    for state, block in zip(session.replay().states, re.split(r"^turn ", out, flags=re.MULTILINE)[1:], strict=True):
        for player in (0, 1):
            held = re.search(rf"^  player {player} +(.*)$", block, re.MULTILINE)
            assert held is not None and held[1].split() == (format_cards(state.hands[player]).split() or ["-"])
    assert html.read_text().startswith("<!DOCTYPE html>") and svg.read_text().startswith("<svg")
    for number in ("0", "2"):
        assert main(["replay", str(path), "--turn", number]) == 0
        assert turns_in(capsys.readouterr().out) == [number]


def test_the_view_of_one_player_hides_the_other_hand(capsys, games, tmp_path):
    for player in (0, 1):
        session, _, path = next((m, t, p) for m, t, p in games if np.sum(m.replay().end.hands[1 - player]) > 1)
        assert main(["replay", str(path), "--player", str(player), "--html", str(tmp_path / "game.html")]) == 0
        out, states = capsys.readouterr().out, session.replay().states
        seen = {t for state in states for t in cards.TYPE_OF_SLOT[state.hands[player] | state.pile].tolist()}
        hidden = {cards.TYPE_NAMES[t] for t in set(cards.TYPE_OF_SLOT[states[-1].hands[1 - player]].tolist()) - seen}
        words = set(re.findall(r"[RYBGW][\w+]*", out))
        assert hidden and not hidden & words, "the game of this seed is meant to leave cards unseen"
        assert cards.TYPE_NAMES[int(states[0].top_rank) + 13 * int(states[0].color)] in words
        counts = re.findall(rf"^  player {1 - player} +(\d+) cards?$", out, re.MULTILINE)
        assert counts == [str(int(np.sum(state.hands[1 - player]))) for state in states]
        assert main(["replay", str(path), "--html", str(tmp_path / "all.html")]) == 0
        capsys.readouterr()
        assert len((tmp_path / "all.html").read_text()) > len((tmp_path / "game.html").read_text())


def test_bad_command_lines_are_refused_and_overwrite_nothing(refused, games, monkeypatch, tmp_path):
    session, _, path = games[0]
    saved, changed, picture = tmp_path / "game.json", tmp_path / "changed.json", tmp_path / "a.html"
    saved.write_text(text := path.read_text())
    changed.write_text(text.replace(f'"{read_game(path).actions[0]}"', '"W:R", "W:R"', 1))
    same = tmp_path / ".." / tmp_path.name / "game.json"
    refused(
        {
            "": "FILE.json",
            "/no/such/game.json": "/no/such/game.json",
            f"{changed}": str(changed),
            f"{saved} --turn 999": f"--turn must be in [0, {len(session.steps)}]",
            f"{saved} --html {picture} --svg {picture}": "is written by --html too",
            f"{saved} --html {same}": f"--html: {str(same)!r} is the saved game itself",
            f"{saved} --svg {same}": f"--svg: {str(same)!r} is the saved game itself",
        },
        ["replay"],
    )
    assert saved.read_text() == text and not picture.exists()

    def fail(path: object, content: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/.game.html.x1y2.tmp")

    monkeypatch.setattr("unojax.cli.output.write_whole", fail)
    refused({f"replay {saved} --html game.html": "--html: can't write 'game.html': No space left on device\n"})
