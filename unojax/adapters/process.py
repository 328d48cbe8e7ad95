"""Any program as a player, over lines of text: `process:COMMAND`.

    unojax arena 'process:python my_player.py' value
    unojax arena 'process:seconds=20,my-language-model --fast' linear

The program runs without a shell. For each real choice it reads a line of JSON from standard input and writes one of the legal
moves, such as `R5`, as a line to standard output. `serve` is the program's side in Python.

    {"game": "5f0c81d2a9e4b377", "seed": 7, "observation": "player 0: ...", "legal": ["R5", "GS"], "rules": {}}

`observation` is the text of `unojax.format_observation`, `game` identifies the game, `seed` is for random answers, and `rules`
holds the fields that differ from the default rules. Several games may run at a time.

A program loses the game if it answers late, exits, writes more than one line, or writes no legal move. It is restarted for the
next question. After `PATIENCE` such faults in a row it loses all remaining games.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from unojax.adapters.callback import HostAgent, Question
from unojax.agents import RESIGN
from unojax.device.process import call_before_leaving
from unojax.files import decode
from unojax.specs import format_spec
from unojax.text import format_action, format_observation, parse_action

PATIENCE: Final = 10
"""Faults in a row after which a program gets no more questions."""
_LONGEST_LINE: Final = 1 << 16
"""Most bytes of an answer."""
_SHOWN: Final = 60
"""Characters of an answer that a report quotes."""


class _Fault(Exception):
    """Fault of a program: its kind as a word, and a sentence."""

    def __init__(self, kind: str, what: str):
        super().__init__(what)
        self.kind = kind


class Program:
    """A program that answers questions. It starts at the first question and after each fault.

    Args:
        command: Command line, split as by a shell.
        seconds: Time for an answer.
        start_seconds: Additional time for the first answer after a start.
    """

    def __init__(self, command: str, seconds: float, start_seconds: float):
        self._arguments = shlex.split(command)
        self._seconds, self._start_seconds = seconds, start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._complaints: deque[str] = deque(maxlen=1)
        self._said, self._is_new = b"", False
        self._in_a_row = 0
        self.faults: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.answers = 0

    def ask(self, question: Question) -> int:
        """Return a legal action, or `RESIGN` after a fault."""
        with self._lock:
            if self._in_a_row >= PATIENCE:
                self.faults["not asked"] += 1
                return RESIGN
            try:
                action = self._answer(question)
            except _Fault as fault:
                self.faults[fault.kind] += 1
                self.examples.setdefault(fault.kind, str(fault))
                self._in_a_row += 1
                self._stop()
                return RESIGN
            self.answers += 1
            self._in_a_row = 0
            return action

    def report(self) -> list[str]:
        """Return a line for each kind of fault."""
        with self._lock:
            lines = [f"{kind}: {self.faults[kind]:,} (first: {example})" for kind, example in self.examples.items()]
            if skipped := self.faults["not asked"]:
                lines.append(f"not asked again after {PATIENCE} faults in a row: {skipped:,} games lost without a question")
            return lines

    def close(self) -> None:
        """Stop the program; a pending answer then counts as a fault."""
        killed = None
        while not self._lock.acquire(timeout=0.05):
            # Another thread waits for an answer, and would wait until the program's time is up.
            if (process := self._process) is not None and process is not killed:
                _kill(process)
                killed = process
        try:
            self._stop()
        finally:
            self._lock.release()

    def _answer(self, question: Question) -> int:
        process = self._running()
        moves = [format_action(action) for action in question.legal]
        asked = {"game": question.game, "seed": question.seed, "observation": format_observation(question.observation)}
        asked |= {"legal": moves, "rules": question.observation.rules.changes}
        if self._said or self._unasked(process):
            raise _Fault("flood", f"said {_quote(self._said)} unasked")
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise _Fault("died", self._how_it_died(process)) from None
        text = self._read_line(process)
        try:
            action = parse_action(text)
        except ValueError:
            raise _Fault("nonsense", f"said {_quote(text.encode())}, which is no move; legal were {', '.join(moves)}") from None
        if action not in question.legal:
            raise _Fault("illegal", f"played {format_action(action)}; legal were {', '.join(moves)}")
        return action

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            if _ENDING.is_set():
                raise _Fault("died", "could not be started: all programs are being stopped")
            pipe = subprocess.PIPE
            try:
                process = subprocess.Popen(self._arguments, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
            except OSError as error:
                raise _Fault("died", f"could not be started: {error.strerror}") from None
            self._process, self._is_new, self._said = process, True, b""
            self._complaints.clear()
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            threading.Thread(target=_keep_last, args=(process.stderr, self._complaints), daemon=True).start()
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes]) -> str:
        limit = self._seconds + (self._start_seconds if self._is_new else 0.0)
        self._is_new = False
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._said:
                if len(self._said) > _LONGEST_LINE:
                    raise _Fault("flood", f"said {len(self._said):,} bytes without an end of line")
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise _Fault("late", f"gave no answer in {limit:g} s")
                said = self._read(process)
                if said == b"":
                    raise _Fault("died", self._how_it_died(process))
                self._said += said or b""
        line, _, self._said = self._said.partition(b"\n")
        if self._said:
            raise _Fault("flood", f"said more than one line: {_quote(line)}, {_quote(self._said)}")
        return decode(line, errors="replace").strip()

    def _unasked(self, process: subprocess.Popen[bytes]) -> bool:
        self._said = self._read(process) or b""
        return bool(self._said)

    @staticmethod
    def _read(process: subprocess.Popen[bytes]) -> bytes | None:
        """Read available bytes: None if there are none, b"" at the end."""
        assert process.stdout is not None
        try:
            return os.read(process.stdout.fileno(), _LONGEST_LINE)
        except BlockingIOError:
            return None

    def _how_it_died(self, process: subprocess.Popen[bytes]) -> str:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        # Its last words may still be in the thread that reads stderr.
        time.sleep(0.05)
        status = process.returncode
        how = f"ended with status {status}" if status is not None and status >= 0 else "closed its output"
        if status is not None and status < 0:
            how = f"was ended by {signal.Signals(-status).name}"
        return how + (f": {self._complaints[-1][:200]}" if self._complaints else "")

    def _stop(self) -> None:
        process, self._process, self._said = self._process, None, b""
        if process is None:
            return
        _kill(process)
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                assert stream is not None
                stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its child processes."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _keep_last(stream, lines: deque[str]) -> None:
    """Read a program's standard error to its end, and keep the last line."""
    with stream:
        while chunk := stream.readline(_LONGEST_LINE):
            if text := chunk.decode(errors="replace").strip():
                lines.append(text)


_PROGRAMS: Final[dict[tuple[str, float, float], Program]] = {}
"""Programs in use. Equal agents share one, as they share compiled code."""


_ENDING: Final = threading.Event()
"""Set when this process is about to end; no program starts after that."""


@atexit.register
def close_all() -> None:
    """Stop all programs for good."""
    _ENDING.set()
    for program in list(_PROGRAMS.values()):
        program.close()


# The programs would outlive a process that leaves without the hooks of `atexit`.
call_before_leaving(close_all)


@dataclass(frozen=True)
class ProcessAgent(HostAgent):
    """A program as a player.

    Attributes:
        name: Shortest spec of the agent.
        command, seconds, start_seconds: As in `process`.
    """

    name: str
    command: str
    seconds: float
    start_seconds: float

    @property
    def program(self) -> Program:
        """The running program, shared by equal agents."""
        key = self.command, self.seconds, self.start_seconds
        return _PROGRAMS.setdefault(key, Program(*key))

    def choose(self, question: Question) -> int:
        return self.program.ask(question)

    def report(self) -> list[str]:
        """Return a line for each kind of fault so far."""
        return self.program.report()


def process(*, seconds: float = 5.0, start_seconds: float = 30.0, command: str = "") -> ProcessAgent:
    """Ask an external program for each move.

    Args:
        seconds: Time for an answer.
        start_seconds: Additional time for the first answer after a start.
        command: Program and its arguments, split as by a shell; in a spec, the rest of the text.

    Raises:
        ValueError: If a time is not positive, or the program is not found.
    """
    for name, value in (("seconds", seconds), ("start_seconds", start_seconds)):
        if not 0 < value < 1e6:
            raise ValueError(f"{name} must be a positive number of seconds, got {value!r}")
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"command {command!r} can't be split: {error}") from None
    if not arguments:
        raise ValueError("a command must follow, as in 'process:python my_player.py'")
    if shutil.which(arguments[0]) is None:
        raise ValueError(f"there is no program {arguments[0]!r}; give its path, or an interpreter before it")
    given = {"seconds": float(seconds), "start_seconds": float(start_seconds), "command": command}
    return ProcessAgent(format_spec("process", process, given), **given)


def serve(choose: Callable[[str, list[str]], str]) -> None:
    """Answer every question on standard input by `choose(observation, legal)`, a move as text.

    Print anything else to `sys.stderr`, because a line on standard output counts as an answer.
    """
    for line in sys.stdin:
        question = json.loads(line)
        print(choose(question["observation"], question["legal"]), flush=True)


def _quote(said: bytes) -> str:
    text = said.decode(errors="replace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
