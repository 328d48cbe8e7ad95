"""Programs as players: the protocol, and all that can go wrong on the other side of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.helpers import slow_but
from unojax import PolicyAgent, parse_agent, parse_observation, play_match
from unojax.adapters import process
from unojax.adapters.callback import Question
from unojax.agents import RESIGN
from unojax.arena.lanes import MatchLanes
from unojax.cli import main
from unojax.games.session import Session
from unojax.rules import Rules
from unojax.specs import settings_of

FIRST_LEGAL = """
import json, sys
for line in sys.stdin:
    print(json.loads(line)["legal"][0], flush=True)
"""
SHORT, OFFICIAL = Rules(hand_size=3), Rules.official(hand_size=3)


def program(folder: Path, code: str, settings: str = "seconds=2,start_seconds=20,") -> str:
    """The spec of a Python program."""
    path = folder / f"player{abs(hash(code)) % 10**8}.py"
    path.write_text(textwrap.dedent(code))
    return f"process:{settings}{sys.executable} {path}"


def first_legal(key, observation, legal_mask):
    return legal_mask.argmax()


def test_a_program_plays_as_the_same_policy_inside(tmp_path):
    key, inside = jax.random.key(3), PolicyAgent("first", first_legal)
    outside = parse_agent(program(tmp_path, FIRST_LEGAL))
    pairs = [play_match(key, (agent, "uniform"), 8, rules=SHORT, batch_size=8, workers=1) for agent in (outside, inside)]
    np.testing.assert_array_equal(pairs[0].winner, pairs[1].winner)
    np.testing.assert_array_equal(pairs[0].num_steps, pairs[1].num_steps)
    assert outside.report() == [] and outside.program.answers == pairs[0].num_choices[..., 0].sum()


@pytest.mark.parametrize("rules", [SHORT, pytest.param(OFFICIAL, marks=pytest.mark.slow)], ids=["short", "official"])
def test_what_is_asked(tmp_path, rules: Rules):
    """Questions can be read back as observations of the game's rules; all of a game have its name, and `serve` answers them."""
    log = tmp_path / "log"
    code = f"""
    import sys
    from unojax.adapters.process import serve
    log = open({str(log)!r}, "w")
    class Tee:
        def __iter__(self):
            for line in sys.__stdin__:
                print(line, end="", file=log, flush=True)
                yield line
    sys.stdin = Tee()
    serve(lambda observation, legal: legal[-1])
    """
    agent = parse_agent(program(tmp_path, code, "seconds=10,start_seconds=120,"))
    pairs = play_match(jax.random.key(0), (agent, "uniform"), 2, rules=rules, batch_size=8, workers=1)
    assert agent.report() == []
    questions = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(questions) == pairs.num_choices[..., 0].sum()
    assert 1 < len({question["game"] for question in questions}) <= 4
    for question in questions:
        assert Rules(**question["rules"]) == rules
        seen = parse_observation(question["observation"], rules=rules)
        legal = [process.parse_action(move) for move in question["legal"]]
        assert np.flatnonzero(seen.legal_mask).tolist() == legal and len(legal) > 1


FAULTY = {
    "late": """
        import json, sys, time
        for n, line in enumerate(sys.stdin):
            if n == 1:
                time.sleep(60)
            print(json.loads(line)["legal"][0], flush=True)
    """,
    "died": """
        import sys
        sys.stdin.readline()
        sys.exit("out of ideas")
    """,
    "flood": """
        import sys
        sys.stdin.readline()
        while True:
            sys.stdout.write("x" * 1000)
    """,
    "flood by lines": """
        import json, sys
        for line in sys.stdin:
            print(json.loads(line)["legal"][0] + "\\nthinking ...", flush=True)
    """,
    "nonsense": """
        import sys
        for line in sys.stdin:
            print(float("nan"), flush=True)
    """,
    "illegal": """
        import sys
        for line in sys.stdin:
            print("draw", flush=True)
    """,
}


@pytest.mark.parametrize("kind", slow_but(["died", "flood", "illegal"], FAULTY))
def test_a_fault_loses_the_game_and_not_the_run(kind: str, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PATIENCE", 3)
    seconds = 0.5 if kind == "late" else 5
    agent = parse_agent(program(tmp_path, FAULTY[kind], f"seconds={seconds},start_seconds=20,"))
    pairs = play_match(jax.random.key(1), (agent, "uniform"), 4, rules=SHORT, batch_size=8, workers=1)
    assert len(pairs) == 4 and set(np.unique(pairs.winner)) <= {0, 1}
    assert agent.program.faults[kind.split(maxsplit=1)[0]] >= 3
    said = "\n".join(agent.report())
    words = {"late": "gave no answer in 0.5 s", "died": "ended with status 1: out of ideas", "flood": "without an end of line"}
    words |= {"flood by lines": "more than one line", "nonsense": "said 'nan', which is no move", "illegal": "played draw"}
    assert words[kind] in said
    # Every game in which it was asked, but for those that it ended before its fault, is lost.
    asked = pairs.num_choices[..., 0] > 0
    if kind != "late":
        assert (pairs.winner[asked] == 1).all()


@pytest.mark.slow
def test_it_is_asked_again_after_a_fault(tmp_path):
    """One bad answer, the first of all, costs one game."""
    mark = tmp_path / "mark"
    code = f"""
        import json, os, sys
        for line in sys.stdin:
            if not os.path.exists({str(mark)!r}):
                open({str(mark)!r}, "w").close()
                print("NaN", flush=True)
            else:
                print(json.loads(line)["legal"][0], flush=True)
    """
    agent = parse_agent(program(tmp_path, code))
    play_match(jax.random.key(1), (agent, "uniform"), 4, rules=SHORT, batch_size=8, workers=1)
    assert dict(agent.program.faults) == {"nonsense": 1} and agent.program.answers > 20


def test_the_arena_says_so(tmp_path, capsys):
    spec = program(tmp_path, FAULTY["nonsense"])
    assert (
        main(["arena", spec, "uniform", "--games", "4", "--quiet", "--hand-size", "3", "--batch-size", "8", "--workers", "1"])
        == 0
    )
    captured = capsys.readouterr()
    assert "Ratings in Elo" in captured.out
    assert "lost games by its own fault: nonsense: " in captured.err and "which is no move; legal were" in captured.err


DEAF = """
import json, os, sys, time
print(os.getpid(), file=open({log!r}, "a"))
for number, line in enumerate(sys.stdin):
    if number == {answers}:
        break
    print(json.loads(line)["legal"][0], flush=True)
time.sleep(300)
"""
"""A program that does not end with its input, and gives so many answers."""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_no_program_outlives_the_command(tmp_path):
    log = tmp_path / "log"
    spec = program(tmp_path, DEAF.format(log=str(log), answers=-1))
    args = ["arena", spec, "uniform", "--games", "4", "--quiet", "--hand-size", "3", "--batch-size", "8", "--workers", "1"]
    subprocess.run([sys.executable, "-m", "unojax", *args], capture_output=True, timeout=300, check=True)
    assert not is_running(int(log.read_text()))


def test_closing_does_not_wait_for_an_answer(tmp_path):
    log = tmp_path / "log"
    agent = parse_agent(program(tmp_path, DEAF.format(log=str(log), answers=0), "seconds=100,"))
    answers = []
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


def test_a_person_is_told(tmp_path):
    session = Session(parse_agent(program(tmp_path, FAULTY["nonsense"])), seat=1, seed=0, rules=SHORT)

    while not (session.is_my_turn or session.is_over):
        session.play(session.reply())
    assert session.has_given_up and session.winner == 1
    assert "nonsense: 1 (first: " in session.faults[0]


def test_resigning_is_not_an_action_of_the_game():
    assert RESIGN < 0 and "state" in MatchLanes._fields


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


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("process", "a command must follow"),
        ("process:no-such-program-here", "there is no program 'no-such-program-here'"),
        ("process:seconds=0,python x.py", "seconds must be a positive number of seconds, got 0.0"),
        ("process:seconds=soon,python x.py", "seconds must be a number, got 'soon'"),
        ("process:python 'x", "can't be split: No closing quotation"),
    ],
)
def test_errors(spec: str, says: str):
    with pytest.raises(ValueError, match=says):
        parse_agent(spec)
