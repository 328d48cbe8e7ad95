"""`unojax play --web` as a process: an address that answers, and an end by Ctrl-C."""

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


def test_the_address_answers_and_ctrl_c_ends_it(tmp_path: Path):
    command = [sys.executable, "-m", "unojax", "play", "--web", "--port", "0", "--no-browser", "--opponent", "uniform"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
    assert found is not None
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(found[0], timeout=60) as answer:
        assert answer.status == 200 and "<title>unojax</title>" in answer.read().decode()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("--port 70000", "--port must be in [0, 65535], got 70000"),
        ("--port 8000", "--port and --no-browser are about the page: add --web, or remove them"),
        ("--no-browser", "--port and --no-browser are about the page"),
        ("--web --save game.json", "--save, --resume, --auto-draw and --hints none have no effect with --web"),
        ("--web --opponent nobody", "no agent is called 'nobody'"),
    ],
)
def test_errors_are_one_line(capsys, args: str, says: str):
    assert main(["play", *args.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and says in captured.err


def test_a_port_that_is_taken_is_told(capsys, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with serve(tmp_path / "one") as server:
        assert main(["play", "--web", "--no-browser", "--opponent", "uniform", "--port", str(server.port)]) == 2
        assert f"can't serve on 127.0.0.1:{server.port}" in capsys.readouterr().err


def test_a_folder_that_can_not_be_written_is_told(capsys, tmp_path: Path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert main(["play", "--web", "--no-browser", "--opponent", "uniform", "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert f"--web: games can't be kept: can't write '{tmp_path / 'file'}" in said and "--port" not in said


def test_a_random_seat_is_drawn_from_the_seed_or_without_one(monkeypatch):
    seats = []

    def note(defaults: Defaults, **options: object) -> None:
        seats.append(defaults.seat)
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("unojax.web.server.Server", note)
    monkeypatch.setattr("secrets.randbelow", lambda number: len(seats) % number)
    for args in ([], [], ["--seed", "3"]):
        assert main(["play", "--web", "--seat", "random", "--opponent", "uniform", *args]) == 2
    assert seats == [0, 1, draw_seat(3)]
