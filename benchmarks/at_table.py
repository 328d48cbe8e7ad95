"""A game of ten turns each, entered at a terminal: keys for each event, and the time of each answer.

The observations of player 0 in a game of two policies are typed into `unojax table` in the shortest forms. One event is mistyped
and corrected three turns later. The process is killed and resumed in the middle. An answer is complete when the next prompt
appears, including the advice on the observer's own turn.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax

from benchmarks.harness import Config, Task, benchmark, spread
from unojax.games.events import Event
from unojax.games.replay import play
from unojax.games.seen import SeenGame
from unojax.policies import get_policy
from unojax.rules import Rules, as_rules
from unojax.text import format_action, format_cards

TURNS = 10
"""Turns of each player."""
_PROMPT = re.compile(rb"\n\d+ (?:you|they)[^>\n]*> $")


@benchmark("at_table", decks=("official",))
def at_table(config: Config) -> Iterator[Task]:
    """Keys and waiting times of a game entered at a terminal, by rules."""
    for name in config.decks:
        as_rules(name)
        yield Task({"rules": name}, partial(measure, name))


def measure(name: str) -> dict[str, Any]:
    """Enter a game under the rules of that name."""
    game = find_game(as_rules(name))
    start, events = game.start, game.events
    top = format_action(int(start.color) * 15 + int(start.top_rank))
    options = ["--hand", format_cards(start.hand), "--top", top, "--rules", name]
    options += ["--opponent-begins"] * (not start.is_my_turn)
    lines: list[str] = []
    # Seconds of each answer, and whether it has advice.
    waits: list[tuple[float, bool]] = []
    wrong = next(n for n in range(4, len(events)) if not game.observations[n].is_my_turn and events[n].kind == "play")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "game.json")
        terminal = Terminal(*options, "--save", path)
        now = SeenGame((start,))
        for number, event in enumerate(events):
            if number == len(events) // 2:
                terminal.kill()
                terminal = Terminal("--resume", path)
                # Programs are loaded from the cache at the first answers.
                terminal.enter("")
            entered = [mistyped(now, events[number:]) if number == wrong else typed(event)]
            if number == wrong + 6:
                entered.append(f"f{wrong + 1} {typed(events[wrong])}")
            for line in entered:
                waits.append((terminal.enter(line), "Play " in terminal.text))
                lines.append(line)
            now = now.play(str(event))
        terminal.kill()
    return {
        "events": len(events),
        "keys_per_event": sum(len(line) + 1 for line in lines) / len(events),
        "seconds": spread([seconds for seconds, _ in waits]),
        "seconds_with_advice": spread([seconds for seconds, has_advice in waits if has_advice]),
        "slow": {line: seconds for line, (seconds, _) in zip(lines, waits, strict=True) if seconds > 0.5},
        "last_screen": terminal.text,
    }


def typed(event: Event) -> str:
    """Return an event as a person in a hurry types it."""
    text = str(event).lower().replace("w:", "w").replace("w+4:", "w4")
    text = re.sub(r"\((won|lost)\)", lambda found: "+" if found[1] == "won" else "-", text)
    text = text.replace("challenge", "c").replace("draw", "d").replace("pass", "p")
    return text.replace("(", " ").replace(",", " ").replace(")", "")


def find_game(rules: Rules) -> SeenGame:
    """Return a game of at least ten turns each, in which the observer challenges a Wild+4 if the rules allow it."""
    policies = (get_policy("uniform"), get_policy("scarcest-color"))
    for seed in range(1000):
        seen = SeenGame.of(play(jax.random.key(seed), policies, rules=rules, max_steps=2 * TURNS + 6), 0)
        kinds = {event.kind for event in seen.events[: 2 * TURNS]}
        if len(seen.events) >= 2 * TURNS and ("challenge" in kinds or rules.wild_draw_four != "challenge"):
            return seen.back(max(len(seen.events) - 2 * TURNS - 2, 0))
    raise ValueError("no such game in 1,000")


class Terminal:
    """`unojax table` in a process, with the time from a line to the next prompt."""

    def __init__(self, *args: str):
        command = [sys.executable, "-m", "unojax", "table", *args]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.text = self._wait()

    def enter(self, line: str) -> float:
        """Type a line; return the seconds until the next prompt."""
        began = time.perf_counter()
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self.text = self._wait()
        return time.perf_counter() - began

    def kill(self) -> None:
        """Kill the process at once."""
        self._process.kill()
        self._process.wait()

    def _wait(self) -> str:
        said = b"\n"
        assert self._process.stdout is not None
        while not _PROMPT.search(said):
            some = self._process.stdout.read(4096)
            if not some:
                raise RuntimeError(f"unojax table ended: {said.decode()}")
            said += some
        return said.decode()


def mistyped(now: SeenGame, later: tuple[Event, ...]) -> str:
    """Return another play for the first of these events that keeps the following ones possible."""
    for text in now.possible():
        if text != str(later[0]):
            try:
                now.play(text).play(" ".join(map(str, later[1:7])))
            except ValueError:
                continue
            return text.lower()
    raise ValueError("no other play leaves the later events possible")
