"""Games in the browser: start the server, open the page, wait."""

from __future__ import annotations

import asyncio
import signal
import webbrowser

from unojax.cli import output
from unojax.cli.play.advice import read_adviser
from unojax.cli.play.command import PlayGame
from unojax.device.process import EXIT_ERROR
from unojax.games.session import draw_seat
from unojax.rules import Rules
from unojax.specs import choose_opponent, parse_agent


def serve(request: PlayGame, rules: Rules) -> int:
    """Serve the page until Ctrl-C."""
    output.find_devices()
    parse_agent(choose_opponent(request.opponent, rules), rules=rules)
    read_adviser(request, rules)
    assert request.adviser is not None
    try:
        from unojax.web.games import Defaults
        from unojax.web.server import ADDRESS, Server
    except ModuleNotFoundError as error:
        if error.name != "tornado":
            raise
        output.note("play", "error: --web needs tornado: pip install 'unojax[web]'")
        return EXIT_ERROR
    seat = draw_seat(request.seed) if request.seat == "random" else int(request.seat)
    defaults = Defaults(request.opponent, seat, request.seed, request.adviser, rules)
    try:
        server = Server(defaults, port=request.port)
    except OSError as error:
        # Only an error about a file names one.
        if error.filename is not None:
            raise ValueError(f"--web: games can't be kept: can't write {str(error.filename)!r}: {error.strerror}") from None
        raise ValueError(f"--port: can't serve on {ADDRESS}:{request.port}: {error.strerror}; --port 0 takes any") from None
    print(f"The game is at {server.address}\nCtrl-C stops the server; games are kept.", flush=True)
    asyncio.run(_run(server, opens=request.browser))
    return 0


async def _run(server: object, *, opens: bool) -> None:
    from unojax.web.server import Server

    assert isinstance(server, Server)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if opens:
        loop.run_in_executor(None, webbrowser.open, server.address)
    await server.run(stop)
