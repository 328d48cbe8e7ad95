"""`unojax agents`: everyone who can play, with all keys."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

from unojax.cli import main
from unojax.policies import POLICIES
from unojax.specs import AGENTS, parse_agent, settings_of


def test_every_agent_and_key_is_there_with_its_default(capsys):
    assert main(["agents", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["policies"] == {name: policy.summary for name, policy in POLICIES.items()}
    assert list(data["agents"]) == list(AGENTS)
    for name, agent in data["agents"].items():
        if name == "rlcard" and find_spec("rlcard") is None:
            assert "pip install 'unojax[rlcard]'" in agent["summary"] and not agent["parameters"]
            continue
        assert [p["key"] for p in agent["parameters"]] == list(settings_of(name))
        assert agent["summary"].endswith(".")
        for parameter in agent["parameters"]:
            assert parameter["meaning"] and "as in" not in parameter["meaning"]
            # What is printed as default can be typed, and changes nothing; some need a network, a command or a model as well.
            if parameter["default"] != "none" and name not in ("policy", "process", "rlcard"):
                assert parse_agent(f"{name}:{parameter['key']}={parameter['default']}").name == name


def test_text(capsys):
    assert main(["agents"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    for word in (*POLICIES, *AGENTS, "belief=particles", "simulations=1000", "head=value", "my.py:name"):
        assert word in out
    assert out.count("belief=particles") == 3


def test_without_docstrings_agents_have_no_words():
    """Python leaves docstrings out under -OO."""
    code = "from unojax.cli import main; main(['agents'])"
    ran = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert "mc" in ran.stdout and "rollouts" in ran.stdout
