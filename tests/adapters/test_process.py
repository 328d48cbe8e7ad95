"""Programs as players: questions, answers, and every fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Final

import jax
import numpy as np
import pytest

from tests.helpers import refusals, slow_but
from unojax import PolicyAgent, parse_agent, parse_observation, play_match
from unojax.adapters import process
from unojax.adapters.callback import Question
from unojax.agents import RESIGN
from unojax.arena.lanes import MatchLanes
from unojax.games.session import Session
from unojax.rules import Rules
from unojax.specs import settings_of

PROGRAMS: Final = 90  # a match of each faulty program
SHORT, OFFICIAL = Rules(hand_size=3), Rules.official(hand_size=3)


def program(folder: Path, code: str, settings: str = "seconds=5,start_seconds=20,") -> str:
    path = folder / f"player{abs(hash(code)) % 10**8}.py"
    path.write_text(textwrap.dedent(code))
    return f"process:{settings}{sys.executable} {path}"


def play(agent, number: int, *, rules: Rules = SHORT, key: int = 1):
    return play_match(jax.random.key(key), (agent, "uniform"), number, rules=rules, batch_size=8, workers=1)


@pytest.mark.parametrize("rules", slow_but([SHORT], [SHORT, OFFICIAL]), ids=["short", "official"])
def test_a_program_plays_as_the_same_policy_inside(tmp_path: Path, rules: Rules):
    """Questions name their game, `parse_observation` reads them, and `serve` answers them."""
    log = tmp_path / "log"
    code = f"""
    import sys
    from unojax.adapters.process import serve
    # The first answer begins with a byte order mark.
    sys.stdout.reconfigure(encoding="utf-8-sig")
    log = open({str(log)!r}, "w")
    class Tee:
        def __iter__(self):
            for line in sys.__stdin__:
                print(line, end="", file=log, flush=True)
                yield line
    sys.stdin = Tee()
    serve(lambda observation, legal: legal[0])
    """
    outside = parse_agent(program(tmp_path, code, "seconds=10,start_seconds=120,"))
    inside = PolicyAgent("first", lambda key, observation, legal_mask: legal_mask.argmax())
    pairs, same = play(outside, 4, rules=rules), play(inside, 4, rules=rules)
    np.testing.assert_array_equal(pairs.winner, same.winner)
    np.testing.assert_array_equal(pairs.num_steps, same.num_steps)
    questions = [json.loads(line) for line in log.read_text().splitlines()]
    assert outside.report() == [] and outside.program.answers == len(questions) == pairs.num_choices[..., 0].sum()
    assert 1 < len({question["game"] for question in questions}) <= 8
    for question in questions:
        assert Rules(**question["rules"]) == rules
        seen = parse_observation(question["observation"], rules=rules)
        legal = [process.parse_action(move) for move in question["legal"]]
        assert np.flatnonzero(seen.legal_mask).tolist() == legal and len(legal) > 1


ANSWERS = "import json, sys, time\nfor number, line in enumerate(sys.stdin):\n    legal = json.loads(line)['legal'][0]\n    "
FAULTY = {
    "late": (ANSWERS + "if number == 1: time.sleep(60)\n    print(legal, flush=True)", "gave no answer in 0.5 s"),
    "died": ("import sys\nsys.stdin.readline()\nsys.exit('out of ideas')", "ended with status 1: out of ideas"),
    "flood": ("import sys\nsys.stdin.readline()\nwhile True: sys.stdout.write('x' * 1000)", "without an end of line"),
    "flood by lines": (ANSWERS + r"print(legal + '\nthinking ...', flush=True)", "more than one line"),
    "nonsense": (ANSWERS + "print(float('nan'), flush=True)", "said 'nan', which is no move"),
    "illegal": (ANSWERS + "print('draw', flush=True)", "played draw"),
}
"""Faulty programs, and words of the report about each."""


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("died", "flood", "illegal"), id="some"),
        pytest.param(("late", "flood by lines", "nonsense"), id="others", marks=pytest.mark.slow),
    ],
)
def test_a_fault_loses_the_game_and_not_the_run(kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "PATIENCE", 3)
    for kind in kinds:
        code, words = FAULTY[kind]
        agent = parse_agent(program(tmp_path, code, f"seconds={0.5 if kind == 'late' else 5},start_seconds=20,"))
        pairs = play(agent, 4)
        assert len(pairs) == 4 and set(np.unique(pairs.winner)) <= {0, 1}
        assert agent.program.faults[kind.partition(" ")[0]] >= 3 and words in "\n".join(agent.report()), kind
        # Every game with a question is lost, except for those that a late program ended before its fault.
        if kind != "late":
            assert (pairs.winner[pairs.num_choices[..., 0] > 0] == 1).all(), kind


DEAF = """
import json, os, sys, time
print(os.getpid(), file=open({log!r}, "a"))
for number, line in enumerate(sys.stdin):
    if number == {answers}:
        break
    is_first = open({log!r}).read().count("\\n") == 1
    print("what?" if is_first else json.loads(line)["legal"][0], flush=True)
time.sleep(300)
"""
"""A program that does not end with its input, and gives so many answers; those of its first process are nonsense."""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_command_reports_faults_and_no_program_outlives_it(tmp_path: Path):
    """One bad answer costs one game; then the program is restarted."""
    log = tmp_path / "log"
    spec = program(tmp_path, DEAF.format(log=str(log), answers=-1))
    args = ["arena", spec, "uniform", "--games", "4", "--quiet", "--hand-size", "3", "--batch-size", "8", "--workers", "1"]
    ran = subprocess.run([sys.executable, "-m", "unojax", *args], capture_output=True, text=True, timeout=300, check=True)
    pids = log.read_text().split()
    assert len(pids) == 2 and not any(is_running(int(pid)) for pid in pids)
    assert "Ratings in Elo" in ran.stdout
    assert "lost games by its own fault: nonsense: 1 (first: " in ran.stderr and "which is no move; legal were" in ran.stderr


def test_closing_does_not_wait_for_an_answer(tmp_path: Path):
    log, answers = tmp_path / "log", []
    agent = parse_agent(program(tmp_path, DEAF.format(log=str(log), answers=0), "seconds=100,"))
    question = Question("0", 0, parse_observation("R1,R2/3/-/* R5 0 0 0 - *"), [1, 2])
    asking = threading.Thread(target=lambda: answers.append(agent.program.ask(question)))
    asking.start()
    while not log.exists() or not log.read_text():
        time.sleep(0.05)
    began = time.monotonic()
    agent.program.close()
    asking.join()
    assert answers == [RESIGN] and time.monotonic() - began < 20
    assert not is_running(int(log.read_text()))


def test_a_person_wins_against_a_faulty_program(tmp_path: Path):
    session = Session(parse_agent(program(tmp_path, FAULTY["nonsense"][0])), seat=1, seed=0, rules=SHORT)
    while not (session.is_my_turn or session.is_over):
        session.play(session.reply())
    assert session.has_given_up and session.winner == 1 and "nonsense: 1 (first: " in session.faults[0]


def test_specs():
    spec = "process:python -c 'print(1,2)' a=b,seconds=3"
    agent = parse_agent(spec)
    assert (agent.name, agent.command, agent.seconds) == (spec, spec.removeprefix("process:"), 5.0)
    assert parse_agent("process:seconds=5,python x.py").name == "process:python x.py"
    timed = parse_agent("process:seconds=0.5,start_seconds=1,python x.py")
    assert (timed.seconds, timed.start_seconds, timed.command) == (0.5, 1.0, "python x.py")
    assert parse_agent(timed.name) == timed
    assert parse_agent("process:seconds=1.23456789,python x.py").name == "process:seconds=1.23456789,python x.py"
    assert settings_of("process:python x.py")["command"] == "python x.py"
    bad = {"'no-such-program-here'": "no-such-program-here", "can't be split": "python 'x"}
    bad |= {"seconds": "seconds=0,python x.py", "seconds (text)": "seconds=soon,python x.py"}
    refusals({name: lambda rest=rest: parse_agent(f"process:{rest}") for name, rest in bad.items()})
    refusals({"a command": lambda: parse_agent("process")})
    # Resigning is no action of the game.
    assert RESIGN < 0 and "state" in MatchLanes._fields
