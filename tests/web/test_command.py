"""`unojax play --web`: its address, Ctrl-C, and errors of one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.web.serving import serve
from unojax.cli import main
from unojax.games.session import draw_seat
from unojax.web.games import Defaults

WEB = ["play", "--web", "--no-browser", "--opponent", "uniform", "--port"]


def test_the_address_answers_and_ctrl_c_ends_it(tmp_path: Path):
    """Without a folder of the user that can be written, games are in a temporary one."""
    (tmp_path / "file").touch()
    own = {"XDG_STATE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    pipe, environment = subprocess.PIPE, os.environ | own
    process = subprocess.Popen([sys.executable, "-m", "unojax", *WEB, "0"], stdout=pipe, stderr=pipe, text=True, env=environment)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
    assert found is not None
    [folder] = tmp_path.glob("unojax-*")
    assert f"games are kept in '{folder}'." in process.stdout.readline() and (folder / "token").exists()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(found[0], timeout=60) as answer:
        assert answer.status == 200 and "<title>unojax</title>" in answer.read().decode()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


def test_refusals_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_folder(prefix: str) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.mkdtemp", no_folder)
    with serve(tmp_path / "one") as server:
        for folder, args, words in [
            ("other", ["play", "--port", "70000"], "--port must be in [0, 65535], got 70000"),
            ("other", ["play", "--port", "8000"], "--port"),
            ("other", ["play", "--no-browser"], "--no-browser"),
            ("other", ["play", "--web", "--save", "game.json"], "--save"),
            ("other", ["play", "--web", "--opponent", "nobody"], "'nobody'"),
            ("other", [*WEB, str(server.port)], f"can't serve on 127.0.0.1:{server.port}"),
            ("file", [*WEB, "0"], "games can't be kept: No usable temporary directory found; set TMPDIR"),
        ]:
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / folder))
            assert main(args) == 2
            captured = capsys.readouterr()
            assert captured.out == "" and len(captured.err.splitlines()) == 1 and words in captured.err, args
    assert "--port" not in captured.err


def test_a_random_seat_is_drawn_from_the_seed_or_without_one(monkeypatch: pytest.MonkeyPatch):
    seats = []

    def note(defaults: Defaults, **options: object) -> None:
        seats.append(defaults.seat)
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("unojax.web.server.Server", note)
    monkeypatch.setattr("secrets.randbelow", lambda number: len(seats) % number)
    for args in ([], [], ["--seed", "3"]):
        assert main(["play", "--web", "--seat", "random", "--opponent", "uniform", *args]) == 2
    assert seats == [0, 1, draw_seat(3)]
