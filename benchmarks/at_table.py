"""A game of ten turns each, entered at a terminal: keys for each event, and the time of each answer.

    python -m benchmarks.at_table --rules official

The observations of player 0 in a game of two policies are typed into `unojax table` in the shortest forms. One event is mistyped
and corrected three turns later. The process is killed and resumed in the middle. An answer is complete when the next prompt
appears, including the advice on the observer's own turn.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from unojax.games.events import Event
from unojax.games.replay import play
from unojax.games.seen import SeenGame
from unojax.policies import get_policy
from unojax.rules import Rules, as_rules
from unojax.text import format_action, format_cards

TURNS = 10
"""Turns of each player."""
_PROMPT = re.compile(rb"\n\d+ (?:you|they)[^>\n]*> $")


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


def main() -> None:
    """Type the game and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="official", help="name of a preset")
    parser.add_argument("--show", action="store_true", help="print what the terminal shows")
    arguments = parser.parse_args()
    rules = as_rules(arguments.rules)
    game = find_game(rules)
    start, events = game.start, game.events
    top = format_action(int(start.color) * 15 + int(start.top_rank))
    options = ["--hand", format_cards(start.hand), "--top", top, "--rules", arguments.rules]
    options += ["--opponent-begins"] * (not start.is_my_turn)
    waits: list[tuple[bool, float]] = []
    keys, lines = 0, list[str]()
    wrong = next(n for n in range(4, len(events)) if not game.observations[n].is_my_turn and events[n].kind == "play")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "game.json")
        terminal = Terminal(*options, "--save", path)

        def enter(line: str) -> None:
            nonlocal keys
            waited = terminal.enter(line)
            keys += len(line) + 1
            lines.append(line)
            waits.append(("Play " in terminal.text, waited))
            if arguments.show:
                print(line, f"{waited:.2f} s", terminal.text, sep="\n")

        now = SeenGame((start,))
        for number, event in enumerate(events):
            line = typed(event)
            if number == wrong:
                line = mistyped(now, events[number:])
            if number == len(events) // 2:
                terminal.kill()
                terminal = Terminal("--resume", path)
                # Programs are loaded from the cache at the first answers.
                terminal.enter("")
            enter(line)
            now = now.play(str(event))
            if number == wrong + 6:
                enter(f"f{wrong + 1} {typed(events[wrong])}")
        shown = terminal.text
        terminal.kill()
    answers = np.array([waited for _, waited in waits])
    advised = np.array([waited for has_advice, waited in waits if has_advice])
    print(f"{len(events)} events, rules {arguments.rules}: {keys / len(events):.2f} keys an event, corrections included")
    for name, seconds in (("all answers", answers), ("answers with advice", advised)):
        print(f"{name}: median {np.median(seconds):.2f} s, longest {seconds.max():.2f} s, {len(seconds)} answers")
    print("slower than 0.5 s:", [f"{line}: {waited:.2f} s" for line, waited in zip(lines, answers, strict=True) if waited > 0.5])
    print("the last screen:", shown, sep="\n")


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


if __name__ == "__main__":
    main()
