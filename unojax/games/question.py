"""Checks of a request for advice, without JAX. `prefix` precedes names in messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from unojax.search import check_replicates

_WORDS: Final = ("hand", "top", "opponent")


def check_words(position: str | None, words: Mapping[str, Any], prefix: str = "") -> None:
    """Raise ValueError unless there is either a position, or a hand with top and opponent."""
    called = [prefix + name for name in _WORDS]
    whole, given = "POSITION" if prefix else "a position", [name for name in _WORDS if words[name] not in (None, "")]
    if position is not None:
        if (
            any(words[name] is not None for name in _WORDS)
            or words["pile"]
            or words["opponent_begins"]
            or words["penalty"] not in (0, "0", "")
        ):
            raise ValueError(f"give {whole}, or {', '.join(called)} and what belongs to them, not both")
    elif len(given) < len(_WORDS):
        missing = " and ".join(prefix + name for name in _WORDS if name not in given)
        raise ValueError(f"give {whole}, or {called[0]}, {called[1]} and {called[2]}: {missing} missing")


def check_effort(replicates: int | None, seconds: float | None, prefix: str = "") -> None:
    """Raise ValueError if both limits of a search are given, or one is out of range."""
    if replicates is not None and seconds is not None:
        raise ValueError(f"give {prefix}replicates or {prefix}seconds, not both")
    if replicates is not None:
        check_replicates(replicates, f"{prefix}replicates")
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{prefix}seconds must be a positive number, got {seconds}")
