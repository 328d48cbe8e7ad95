"""Who is answered by the server, and who is not."""

from __future__ import annotations

import os
import socket
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError

from tests.web.serving import Page, ask, serve, with_cookie
from unojax.web.server import Server


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: Server):
    status, _, headers = ask(server, f"/?token={server.token}")
    assert (status, headers["Location"]) == (302, "/")
    assert headers["Set-Cookie"] == f"{server.cookie}={server.token}; HttpOnly; Path=/; SameSite=Strict"
    status, text, headers = ask(server, **with_cookie(server))
    assert status == 200 and "<title>unojax</title>" in text
    assert (
        "default-src 'none'" in headers["Content-Security-Policy"] and "script-src 'self'" in headers["Content-Security-Policy"]
    )
    assert "Server" not in headers and server.token not in text


PATHS = (
    "/",
    "/web.js",
    "/web.css",
    "/board.js",
    "/board.css",
    "/faces.json",
    "/settings.json",
    "/messages",
    "/record?game=x",
    "/other",
)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_without_the_token(server: Server, path: str):
    for headers in ({}, {"Cookie": f"{server.cookie}=wrong"}, {"Cookie": f"{server.cookie}={server.token[:-1]}"}):
        status, text, _ = ask(server, path, **headers)
        assert status == 403 and text.startswith("403: no token; open the address that unojax play --web printed")


def test_a_wrong_token_in_the_address(server: Server):
    for token in ("", "x", server.token[:-1], server.token + "x", "%ff%fe"):
        assert ask(server, f"/?token={token}")[0] in (400, 403)
    # The token is for the first page alone, where the address is at once another one.
    assert ask(server, f"/web.js?token={server.token}")[0] == 403
    assert ask(server, f"/?token={server.token}", "POST")[0] in (403, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://example.com"},
        {"Origin": "https://127.0.0.1"},
        {"Origin": "null"},
        {"Host": "example.com"},
        {"Host": "example.com:80"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_sites_and_names_are_refused_even_with_the_token(server: Server, headers: dict[str, str]):
    for path in ("/", "/faces.json", "/messages"):
        assert ask(server, path, **(with_cookie(server) | headers))[0] == 403


def test_what_is_not_there(server: Server):
    assert ask(server, "/other", **with_cookie(server))[0] == 404
    assert ask(server, "/record?game=../../etc/passwd", **with_cookie(server))[0] == 404
    assert ask(server, "/web.js", "POST", **with_cookie(server))[0] in (403, 405)


def own_addresses() -> list[str]:
    """This machine's addresses that others reach it by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only chooses a way.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        address = probe.getsockname()[0]
    return [] if address.startswith("127.") or address == "0.0.0.0" else [address]


def test_no_other_address_is_listened_on(server: Server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
    for address in own_addresses():
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((address, server.port), timeout=5)


def test_a_request_from_another_address_is_refused(server: Server, monkeypatch):
    """As if one had come through a forwarded port."""
    monkeypatch.setattr("unojax.web.server.ADDRESS", "127.0.0.2")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/?token={server.token}", timeout=60)


def test_the_token_stays_and_is_the_users_alone(tmp_path: Path):
    tokens = []
    for _ in range(2):
        with serve(tmp_path) as server:
            tokens.append(server.token)
    assert tokens[0] == tokens[1] and len(tokens[0]) >= 32
    assert stat.S_IMODE(os.stat(tmp_path / "token").st_mode) == 0o600


@pytest.mark.parametrize("headers", [{"Origin": "http://example.com"}, {"Cookie": "unojax=x"}, {"Host": "example.com"}])
def test_no_channel_for_others(server: Server, headers: dict[str, str]):
    with pytest.raises(HTTPClientError, match="403"):
        Page(server, **headers).__enter__()
