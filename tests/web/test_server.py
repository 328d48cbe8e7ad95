"""The server of games: it answers its own pages only, with the messages of their games, and never blocks."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError

from tests.web.serving import SMALL, Page, ask, serve, with_cookie
from unojax.web.server import Messages, Server

PATHS = ("/", "/web.js", "/web.css", "/board.js", "/board.css", "/faces.json", "/settings.json", "/messages", "/record?game=x")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("web")) as server:
        yield server


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: Server):
    status, _, headers = ask(server, f"/?token={server.token}")
    assert (status, headers["Location"]) == (302, "/")
    assert headers["Set-Cookie"] == f"{server.cookie}={server.token}; HttpOnly; Path=/; SameSite=Strict"
    status, text, headers = ask(server, **with_cookie(server))
    assert status == 200 and "<title>unojax</title>" in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "Server" not in headers and server.token not in text


def test_nothing_without_the_token(server: Server):
    for path in (*PATHS, "/other"):
        for headers in ({}, {"Cookie": f"{server.cookie}=wrong"}, {"Cookie": f"{server.cookie}={server.token[:-1]}"}):
            status, text, _ = ask(server, path, **headers)
            assert status == 403 and text.startswith("403: no token; open the address that unojax play --web printed"), path
    for token in ("", "x", server.token[:-1], server.token + "x", "%ff%fe"):
        assert ask(server, f"/?token={token}")[0] in (400, 403), token
    # The token is for the first page alone, which leaves the address at once.
    assert ask(server, f"/web.js?token={server.token}")[0] == 403
    assert ask(server, f"/?token={server.token}", "POST")[0] in (403, 405)


def test_other_sites_names_and_addresses_are_refused_even_with_the_token(server: Server, monkeypatch: pytest.MonkeyPatch):
    for headers in (
        {"Origin": "http://example.com"},
        {"Origin": "https://127.0.0.1"},
        {"Origin": "null"},
        {"Host": "example.com"},
        {"Host": "example.com:80"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        for path in ("/", "/faces.json", "/messages"):
            assert ask(server, path, **(with_cookie(server) | headers))[0] == 403, headers
    for headers in ({"Origin": "http://example.com"}, {"Cookie": "unojax=x"}, {"Host": "example.com"}):
        with pytest.raises(HTTPClientError, match="403"):
            Page(server, **headers).__enter__()
    # As if a request had come through a forwarded port.
    monkeypatch.setattr("unojax.web.server.ADDRESS", "127.0.0.2")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/?token={server.token}", timeout=60)


def test_what_is_not_there(server: Server):
    for path in ("/other", "/record?game=../../etc/passwd", f"/record?game={uuid.uuid4()}"):
        assert ask(server, path, **with_cookie(server))[0] == 404, path
    assert ask(server, "/web.js", "POST", **with_cookie(server))[0] in (403, 405)


def test_it_listens_on_no_other_address(server: Server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only chooses the address by which others reach this machine.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return
        address = probe.getsockname()[0]
    if not address.startswith("127.") and address != "0.0.0.0":
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((address, server.port), timeout=5)


def test_the_token_stays_and_is_the_users_alone(tmp_path: Path):
    tokens = []
    for _ in range(2):
        with serve(tmp_path) as server:
            tokens.append(server.token)
    assert tokens[0] == tokens[1] and len(tokens[0]) >= 32
    assert stat.S_IMODE(os.stat(tmp_path / "token").st_mode) == 0o600


def test_a_page_gets_the_messages_of_its_own_game(server: Server):
    with Page(server) as one, Page(server) as other:
        assert one.greet()["turn"] == other.greet()["turn"] == 0
        one.say(kind="deal", choices=SMALL)
        while (state := one.hear("state")["state"])["game"] != 2:
            pass
        assert len(state["hand"]) == 3 and len(other.greet()["hand"]) == 7
    with Page(server, one.name) as again:
        assert again.greet() == state


def test_refusals_faults_and_nonsense_become_notices(server: Server, monkeypatch: pytest.MonkeyPatch, capfd):
    texts = ["", "x", "[]", "3", "null", "[" * 5000, json.dumps({"game": 3}), json.dumps({"game": "../x", "kind": "hello"})]
    with Page(server) as page:
        for text in texts:
            page.send(text)
            assert "no message of this page" in (said := page.notice()) or "must be a UUID" in said, text
        state = page.greet()
        page.say(kind="deal", choices=3)
        assert page.notice() == "Choices must be an object."
        monkeypatch.setattr(server.games, "find", lambda name: 1 / 0)
        page.say(kind="save")
        assert page.notice() == "This went wrong in Python: division by zero" and "ZeroDivisionError" in capfd.readouterr().err
        monkeypatch.undo()
        assert page.greet() == state
        # The largest file, of the character that grows most in JSON; pages know the size.
        largest = json.loads(ask(server, "/settings.json", **with_cookie(server))[1])["maxFile"]
        page.say(kind="load", text="\0" * largest)
        assert largest == 1_000_000 and "This is no saved game" in page.notice()


def test_the_record_hides_what_the_person_does_not_know(server: Server):
    with Page(server) as page:
        page.greet()
    status, text, headers = ask(server, f"/record?game={page.name}&theme=dark", **with_cookie(server))
    assert status == 200 and "person against uniform" in text
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    game = server.games.find(page.name)
    assert all(view.player == 0 for view in game.views) and not game.is_over


def wait_for(done: Callable[[], object]) -> None:
    for _ in range(6000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("never true")


def test_pages_are_heard_while_python_thinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd, caplog):
    """Pages that answer pings stay, pages that leave are removed, and a working server stops silently."""
    # A pong may be as late as the next ping, so that a busy machine loses no page.
    monkeypatch.setattr("unojax.web.server._PING_SECONDS", 1.0)
    pongs: list[bytes] = []
    monkeypatch.setattr(Messages, "on_pong", lambda _, data: pongs.append(data))
    held, second = threading.Event(), threading.Event()
    with serve(tmp_path) as server, Page(server) as page:
        try:
            server.worker.submit(held.wait)
            page.say(kind="hello")
            with Page(server) as other:
                other.say(kind="hello")
                wait_for(lambda: other.name in server.pages)
            wait_for(lambda: other.name not in server.pages)
            answered = len(pongs)
            wait_for(lambda: len(pongs) >= answered + 2)
        finally:
            held.set()
        assert page.hear("state")["state"]["turn"] == 0
        server.worker.submit(second.wait)
        page.say(kind="hello")
        wait_for(server.worker._work_queue.qsize)
        # The page's request is dropped by then.
        threading.Timer(1, second.set).start()
    assert capfd.readouterr().err == "" and not caplog.records
