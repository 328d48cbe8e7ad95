"""A page with a live widget and without Jupyter: its script and style, and its messages by HTTP, unchanged."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.widget.pages import Comm

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>unojax</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css"></head>
<body style="margin:16px"><main id="cell"></main>
<script type="module">
import widget from "/widget.js";
const state = await (await fetch("/state")).json(), listeners = {};
const fire = (name, ...values) => (listeners[name] ?? []).slice().forEach((listener) => listener(...values));
const post = (data) => fetch("/message", { method: "POST", body: JSON.stringify(data) });
const model = {
  get: (name) => state[name],
  on: (name, listener) => (listeners[name] ??= []).push(listener),
  off: (name, listener) => { listeners[name] = (listeners[name] ?? []).filter((one) => one !== listener); },
  send: (content) => post({ method: "custom", content }),
};
new EventSource("/messages").onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.method === "custom") return fire("msg:custom", message.content);
  Object.assign(state, message.state);
  for (const name of Object.keys(message.state)) fire(`change:${name}`);
};
window.leave = widget.render({ model, el: document.getElementById("cell") });
</script></body></html>
"""


class StreamedComm(Comm):
    """A channel that notifies waiting threads of every message."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.news = threading.Condition()
        super().__init__(*args, **kwargs)

    def publish_msg(self, *args: Any, **kwargs: Any) -> None:
        """Called by the widget for every message."""
        with self.news:
            super().publish_msg(*args, **kwargs)
            self.news.notify_all()


@contextmanager
def serve(comm: StreamedComm) -> Iterator[str]:
    """Serve the page of a widget to one browser, and yield its address."""
    state = comm.sent[0]["state"]
    for message in comm.sent[1:]:
        state |= message.get("state", {})
    first = len(comm.sent)
    # One message at a time, as in a kernel.
    kernel, closed = threading.Lock(), threading.Event()
    files = {
        "/": ("text/html", PAGE),
        "/widget.js": ("text/javascript", state["_esm"]),
        "/style.css": ("text/css", state["_css"]),
        "/state": ("application/json", json.dumps(state)),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/messages":
                return self._stream()
            return self._answer(200 if self.path in files else 404, *files.get(self.path, ("text/plain", "")))

        def do_POST(self) -> None:
            data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with kernel:
                comm.receive(data)
            self._answer(200, "text/plain", "")

        def _answer(self, status: int, kind: str, body: str) -> None:
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            number = first
            while not closed.is_set():
                with comm.news:
                    while number == len(comm.sent) and not closed.is_set():
                        comm.news.wait()
                    new = comm.sent[number:]
                number += len(new)
                try:
                    for message in new:
                        self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
                    self.wfile.flush()
                except OSError:
                    return

        def log_message(self, format: str, *args: Any) -> None:
            """No lines in the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        closed.set()
        with comm.news:
            comm.news.notify_all()
        server.shutdown()
        thread.join()
        server.server_close()
