"""Folders of the user for caches and state; None if a process has no home."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def cache_folder() -> Path | None:
    """Return the user's cache folder."""
    try:
        return platformdirs.user_cache_path("unojax")
    except RuntimeError:
        return None


def state_folder() -> Path | None:
    """Return the user's folder for program state."""
    try:
        return platformdirs.user_state_path("unojax")
    except RuntimeError:
        return None
