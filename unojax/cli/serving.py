"""A page in the browser, served until Ctrl-C: shared by `unojax play --web` and `unojax table --web`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unojax.cli import output
from unojax.device.process import EXIT_ERROR


def serve_page(command: str, make_defaults: Callable[[], Any], *, port: int, browser: bool) -> int:
    """Serve the page of a command until Ctrl-C, and return the exit status.

    Args:
        command: Name of the command.
        make_defaults: Function that creates the server's arguments, called once the web libraries are known to be there.
        port, browser: As in the options.

    Raises:
        ValueError: If the port is taken, or games can't be saved.
    """
    output.find_devices()
    try:
        from unojax.web.server import ADDRESS, Server
    except ModuleNotFoundError as error:
        if error.name != "tornado":
            raise
        output.note(command, "error: --web needs tornado: pip install 'unojax[web]'")
        return EXIT_ERROR
    try:
        server = Server(make_defaults(), port=port)
    except OSError as error:
        # Only an error about a file names one.
        if error.filename is not None:
            raise ValueError(f"--web: games can't be kept: can't write {str(error.filename)!r}: {error.strerror}") from None
        raise ValueError(f"--port: can't serve on {ADDRESS}:{port}: {error.strerror}; --port 0 takes any") from None
    print(f"The game is at {server.address}\nCtrl-C stops the server; games are kept.", flush=True)
    server.run_until_interrupt(opens=browser)
    return 0
