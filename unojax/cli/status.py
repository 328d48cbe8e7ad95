"""Exit statuses."""

from typing import Final

EXIT_ERROR: Final = 1
"""The machine failed: no memory, no device."""
EXIT_USAGE: Final = 2
"""The request can't be met: an unknown option or policy, a value out of range, a file that can't be written."""
EXIT_INTERRUPTED: Final = 130
"""Stopped by Ctrl-C: 128 + SIGINT, as shells count."""
