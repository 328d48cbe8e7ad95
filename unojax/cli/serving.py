"""The page in the browser of `unojax play --web` and `unojax table --web`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tyro

from unojax.cli import output
from unojax.cli.options import Flag, Whole, command, option
from unojax.device.process import EXIT_ERROR


@command
class PageOptions:
    """A page in the browser instead of the terminal."""

    web: Flag = option(
        False, "Use a page in the browser, served by this machine to itself alone. It keeps the games when it is stopped."
    )
    port: Whole = option(8377, "Port of the page, with --web. 0: any free one.")
    browser: bool = option(True, "Open the page in the browser, with --web.")

    def check(self, default: PageOptions) -> None:
        """Check the port, and that there is a page for it."""
        if not 0 <= self.port < 2**16:
            raise ValueError(f"--port must be in [0, {2**16 - 1}], got {self.port}")
        if not self.web and self != default:
            raise ValueError("--port and --no-browser have no effect without --web: add --web, or remove them")

    def serve(self, command: str, make_defaults: Callable[[], Any]) -> int:
        """Serve the page of a command until Ctrl-C, and return the exit status.

        `make_defaults` creates the server's arguments, once the web libraries are known to be installed.
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
            server = Server(make_defaults(), port=self.port)
        except OSError as error:
            # Only an error about a file names one.
            if error.filename is not None:
                raise ValueError(f"--web: games can't be kept: can't write {str(error.filename)!r}: {error.strerror}") from None
            raise ValueError(f"--port: can't serve on {ADDRESS}:{self.port}: {error.strerror}; --port 0 takes any") from None
        print(f"The game is at {server.address}\nCtrl-C stops the server; games are kept in {str(server.folder)!r}.", flush=True)
        server.run_until_interrupt(opens=self.browser)
        return 0


PageFields = tyro.conf.OmitArgPrefixes[PageOptions]
"""Type of a command's options of its page."""
