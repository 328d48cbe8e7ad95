"""Fingerprints of agents: settings and files that change the player."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unojax.arena.fingerprint import describe, fingerprint
from unojax.belief import Family, PolicyOpponent, belief_init
from unojax.belief.opponents import NAMED
from unojax.belief.updaters import ParticleFilter
from unojax.policies import POLICIES, uniform
from unojax.policies.scoring import LINEAR
from unojax.rules import Rules
from unojax.search.agents import monte_carlo
from unojax.specs import files_of, parse_agent


def test_fingerprints_distinguish_settings_and_files(tmp_path, monkeypatch):
    network, specs = tmp_path / "mine.safetensors", ["linear", "mc", "mc:rollouts=64", "mc:leaf=pretrained", "tree", "value"]
    specs.append(f"value:network={network}")
    network.write_bytes(b"one")
    found = [fingerprint(spec) for spec in specs]
    assert len(set(found)) == len(specs)
    assert fingerprint("mc:rollouts=1000") == fingerprint("mc")
    network.write_bytes(b"another")
    assert [fingerprint(spec) == was for spec, was in zip(specs, found, strict=True)] == [True] * 6 + [False]
    # Another default is another agent of the same name.
    monkeypatch.setattr("unojax.search.agents.monte_carlo.__kwdefaults__", monte_carlo.__kwdefaults__ | {"rollouts": 64})
    assert (fingerprint("mc"), fingerprint("mc:rollouts=1000")) == (found[2], found[1])


def test_numbers_behind_names_count(monkeypatch):
    """Weights of `linear`, as a player and in rollouts, and of the types of a family."""
    specs = ["linear", "mc:model=uniform", "mc:policy=uniform,model=minimax", "value:model=minimax", "guard"]

    def found() -> list[str]:
        return [fingerprint(spec, parse_agent(spec)) for spec in specs]

    first = found()
    assert len(set(first)) == len(specs) and found() == first
    with monkeypatch.context() as patch:
        patch.setitem(POLICIES, "linear", replace(LINEAR, weights=LINEAR.weights[::-1]))
        assert [one == other for one, other in zip(found(), first, strict=True)] == [False, False, False, False, True]
    monkeypatch.setitem(NAMED, "minimax", NAMED["family"])
    assert [one == other for one, other in zip(found(), first, strict=True)] == [True, True, False, False, True]


def test_files_of_a_command_count(tmp_path, monkeypatch):
    """Files anywhere in the command count; the installed interpreter does not."""
    script, words = tmp_path / "my player.py", tmp_path / "words.txt"
    quoted = shlex.quote(str(script))
    specs = [f"process:python {quoted}", f"process:seconds=2,python {quoted} --words={words}", f"process:{quoted} --fast"]
    specs += [f"process:python -c {shlex.quote('x = 1.5  # ' + 300 * 'long')}"]
    script.write_text("one")
    script.chmod(0o700)
    words.write_text("one")
    found = [fingerprint(spec) for spec in specs]
    assert len(set(found)) == len(specs)
    words.write_text("another")
    assert [fingerprint(spec) == was for spec, was in zip(specs, found, strict=True)] == [True, False, True, True]
    words.write_text("one")
    script.write_text("another")
    assert [fingerprint(spec) == was for spec, was in zip(specs, found, strict=True)] == [False, False, False, True]

    interpreter, script = tmp_path / "bin" / "python9", tmp_path / "my.py"
    interpreter.parent.mkdir()
    interpreter.write_text("#!/bin/sh")
    interpreter.chmod(0o700)
    script.write_text("one")
    monkeypatch.setenv("PATH", f"{interpreter.parent}:/usr/bin:/bin")
    for spec in (f"process:python9 {script}", f"process:{interpreter} {script}"):
        assert files_of(spec)[0] == script
        before = fingerprint(spec)
        interpreter.write_text("#!/bin/sh\n# a later version")
        assert fingerprint(spec) == before


def test_a_file_named_by_a_parameter_of_an_own_agent_counts(tmp_path):
    mine, weights = tmp_path / "mine.py", tmp_path / "weights.txt"
    mine.write_text("def Mine(weights: str = ''):\n    return lambda key, observation, legal_mask: legal_mask.argmax()\n")
    weights.write_text("one")
    spec = f"{mine}:Mine:weights={weights}"
    found = fingerprint(spec)
    weights.write_text("another")
    assert fingerprint(spec) != found


def test_descriptions_distinguish_values():
    family = Family((PolicyOpponent(LINEAR), PolicyOpponent(uniform)), weights=(0.5, 0.5))
    values: list[Any] = [None, True, 1, 1.0, "1", (1,), [1], np.float32(1), np.arange(3), np.arange(3) + 1]
    values += [uniform, belief_init, Rules, Rules(), Rules(hand_size=3), family]
    values += [PolicyOpponent(LINEAR, 0.5), PolicyOpponent(LINEAR, 0.25), ParticleFilter(8), ParticleFilter(9)]
    values += [parse_agent(spec) for spec in ("mc", "mc:rollouts=9", "mc:leaf=pretrained", "tree")]
    assert len({describe(value) for value in values}) == len(values)
    assert describe(parse_agent("mc")) == describe(parse_agent("mc"))
    for value in (lambda: 1, object(), {1: 2}, (1, print), Path("a"), type("Own", (), {})):
        with pytest.raises(TypeError):
            describe(value)
