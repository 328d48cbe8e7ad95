"""Folders of the user for caches and program state. They may be missing: a process in a container may have no home."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def cache_folder() -> Path | None:
    """Return the user's cache folder; None if it can't be determined."""
    try:
        return platformdirs.user_cache_path("unojax")
    except RuntimeError:
        return None


def state_folder() -> Path | None:
    """Return the user's folder for program state; None if it can't be determined."""
    try:
        return platformdirs.user_state_path("unojax")
    except RuntimeError:
        return None
