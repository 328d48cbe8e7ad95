"""Resumable results files: a line of JSON per complete batch, which identifies its games."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from unojax.arena.pairs import Pairs
from unojax.device.shares import ALL, Share
from unojax.rules import RULES_VERSION, Rules

_COLUMNS: Final[dict[str, tuple[str, type, tuple[int, ...]]]] = {
    "pairs": ("index", np.int64, ()),
    "winner": ("winner", np.int8, (2,)),
    "steps": ("num_steps", np.int32, (2,)),
    "decisions": ("num_choices", np.int32, (2, 2)),
}
"""Arrays of a line: the name in `Pairs`, the type, and the shape per pair."""


class ResultsFile:
    """A file to which batches are appended, with the results that it already holds.

    Every line is an object about one batch. `seed`, `rules`, `rules_version`, `agents` (two names) and their `fingerprints`
    identify the games, and `pairs` holds the numbers of the pairs. For each pair there are `winner`, `steps` and
    `decisions`, as in `unojax.arena.Pairs`; `seconds` is the agents' time. A line is written by one call. An incomplete
    line after a crash is overwritten.

    Args:
        path: File, which need not exist. Its parts, written by several processes, are read too: `x.0-of-2.jsonl` of `x.jsonl`.
        seed, rules: Seed and rules of the games.
        agents: Fingerprints of the agents that the file may hold, by name.
        share: Share of the process that appends. With several shares, each has its own part.

    Raises:
        ValueError: If the file can't be read, is not a results file, or has other rules, seed or agents.
    """

    def __init__(self, path: str, *, seed: int, rules: Rules, agents: Mapping[str, str], share: Share = ALL):
        self._path = Path(share.file_of(path))
        self._about = {"seed": seed, "rules_version": RULES_VERSION, "rules": json.loads(json.dumps(asdict(rules)))}
        self._agents = agents
        self._found: dict[tuple[str, str], list[Pairs]] = {}
        parent, base = Path(path).parent, Path(path)
        parts = parent.glob(f"{glob.escape(base.stem)}.*-of-*{glob.escape(base.suffix)}") if parent.is_dir() else ()
        for other in sorted({base, *parts} - {self._path}):
            self._add(other)
        content, whole = self._add(self._path)
        try:
            # Open now so that an unwritable path fails before any game is played.
            with open(self._path, "ab") as file:
                if len(whole) < len(content):
                    file.truncate(len(whole))
        except OSError as error:
            raise ValueError(f"can't write {path!r}: {error.strerror}") from None

    def _add(self, path: Path) -> tuple[bytes, bytes]:
        """Add the results in a file; return its contents and its complete lines."""
        content = _read(path)
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            first, second, pairs = self._parse(f"line {number} of {os.fspath(path)!r}", line)
            self._found.setdefault((first, second), []).append(pairs)
        return content, whole

    def find(self, first: str, second: str, asked: np.ndarray) -> list[Pairs]:
        """Return stored results of two agents for the pairs with given numbers, int64[P], without duplicates."""
        parts = self._found.get((first, second), [])
        parts = parts + [pairs.swapped() for pairs in self._found.get((second, first), [])]
        found = []
        for pairs in parts:
            is_new = np.isin(pairs.index, asked)
            asked = np.setdiff1d(asked, pairs.index)
            kept = {name: getattr(pairs, name)[is_new] for name, _, _ in _COLUMNS.values()}
            found.append(Pairs(**kept, seconds=pairs.seconds * is_new.mean()))
        return found

    def append(self, first: str, second: str, pairs: Pairs) -> None:
        """Append a batch.

        Raises:
            ValueError: If the file can't be written.
        """
        columns = {key: getattr(pairs, name).tolist() for key, (name, _, _) in _COLUMNS.items()}
        agents = {"agents": [first, second], "fingerprints": [self._agents[first], self._agents[second]]}
        line = self._about | agents | columns | {"seconds": pairs.seconds.tolist()}
        left = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        try:
            with open(self._path, "ab", buffering=0) as file:
                size = file.tell()
                try:
                    # On a nearly full disk a write is partial, and the next one fails.
                    while left:
                        left = left[file.write(left) :]
                except OSError:
                    file.truncate(size)
                    raise
        except OSError as error:
            raise ValueError(f"can't write {os.fspath(self._path)!r}: {error.strerror}") from None

    def _parse(self, where: str, text: bytes) -> tuple[str, str, Pairs]:
        try:
            line: dict[str, Any] = json.loads(text)
            num = len(line["pairs"])
            columns = {name: np.array(line[key], kind).reshape(num, *shape) for key, (name, kind, shape) in _COLUMNS.items()}
            pairs = Pairs(**columns, seconds=np.array(line["seconds"], float).reshape(2))
            first, second = line["agents"]
            fingerprints = dict(zip((first, second), line["fingerprints"], strict=True))
            about = {key: line[key] for key in self._about}
        except (ValueError, KeyError, TypeError, OverflowError):
            raise ValueError(f"{where} is not a line of arena results; give another file") from None
        for key, wanted in self._about.items():
            if about[key] != wanted:
                what = "other rules" if key == "rules" else f"{key} {about[key]}, not {wanted}"
                raise ValueError(f"{where} is of games with {what}; give another file, or the options it was made with")
        for name, was in fingerprints.items():
            if name not in self._agents:
                raise ValueError(f"{where} is of agent {name}, which is not asked for; give another file, or name that agent too")
            if was != self._agents[name]:
                raise ValueError(
                    f"{where} is of an agent {name} that was another one: a default, or a file that it names, has changed since; "
                    "give another file"
                )
        return first, second, pairs


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ValueError(f"can't read {os.fspath(path)!r}: {error.strerror}") from None
