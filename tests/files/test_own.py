"""Policies and agents from a user's file."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Final

import jax
import numpy as np
import pytest

import unojax
from tests.helpers import refusals
from unojax.agents import PolicyAgent
from unojax.cli import main
from unojax.specs import as_agent, parse_agent, parse_policy, settings_of
from unojax.text import make_observation

PROGRAMS: Final = 60  # policies of several kinds in several commands
CODE = """
from dataclasses import dataclass
import jax.numpy as jnp
from beside import FIRST

def clever(key, observation, legal_mask):
    return jnp.argmax(legal_mask) + FIRST

@dataclass(frozen=True)
class Deep:
    depth: int = 2
    sharp: bool = False
    name: str = "deep"

    def init(self, key, observation):
        return jnp.int32(0)

    def update(self, key, memory, before, action, after):
        return memory + 1

    def act(self, key, memory, observation, legal_mask):
        return jnp.argmax(legal_mask)

def make(depth: int = 1):
    if depth > 9:
        raise RuntimeError("too deep")
    return Deep(depth)

def untyped(depth=1):
    return Deep(depth)

def chooses_policy():
    return clever

def of_two(key, observation):
    return 0

class Rigid:
    def __init__(self, depth):
        self.depth = depth

class Nameless(Deep):
    name = None

deep = Deep(7)
number = 3
_hidden = clever
"""

AGENT = """
class Agent:
    name = "wide"
    def __init__(self, width=None): self.width = width
    def init(self, key, observation): return ()
    def update(self, key, memory, before, action, after): return memory
    def act(self, key, memory, observation, legal_mask): return legal_mask.argmax()
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("FIRST = 0\n")
    (tmp_path / "my.py").write_text(CODE)
    return str(tmp_path / "my.py")


def test_a_policy_is_named_by_its_spec_and_loaded_once(own: str):
    agent = parse_agent(f"{own}:clever")
    assert isinstance(agent, PolicyAgent) and agent.name == f"{own}:clever"
    assert parse_policy(f"{own}:clever") is agent.policy
    assert agent == parse_agent(f"{own}:clever") == as_agent(f"{own}:clever")
    assert agent.policy(jax.random.key(1), make_observation("R1 R2", "R5", 3), np.arange(61) >= 5) == 5
    assert settings_of(agent.name) == {}
    assert parse_agent(f"{own}:chooses_policy").name == f"{own}:chooses_policy"


def test_an_agent_has_parameters(own: str):
    agent = parse_agent(f"{own}:Deep:depth=3,sharp=true")
    assert (agent.depth, agent.sharp, agent.name) == (3, True, "deep")
    assert [parse_agent(f"{own}:{rest}").depth for rest in ("make:depth=4", "untyped:depth=4", "deep")] == [4, 4, 7]
    assert parse_agent(f"{own}:Nameless:name=x").name == "x"


def test_other_objects_and_files_are_refused(own: str, tmp_path: Path):
    names = {
        "x": "has no 'x'; it has clever, Deep, make, untyped, chooses_policy, of_two, Rigid, Nameless",
        "": "has no ''",
        "_hidden": "has no '_hidden'",
        "of_two": "a policy takes key, observation and legal mask",
        "number": "a player must be the spec of an agent",
        "clever:depth=1": "clever has no parameters",
        "deep:depth=1": "deep has no parameters",
        "Deep:width=1": "unknown key 'width'; choose from depth, sharp, name",
        "Deep:depth=x": "depth",
        "Deep:": "key=value",
        "make:depth=10": "making it failed: RuntimeError: too deep",
        "Rigid": "must have defaults",
    }
    files = {
        "syntax": ("def f(:", "can't be run: SyntaxError"),
        "division": ("1 / 0", "can't be run: ZeroDivisionError: division by zero"),
        "exit": ("raise SystemExit(3)", "can't be run: SystemExit: 3"),
    }
    for name, (code, _) in files.items():
        (tmp_path / f"{name}.py").write_text(code)
    for _ in range(2):
        refusals(
            {f"{words} ({rest})": lambda rest=rest: parse_agent(f"{own}:{rest}") for rest, words in names.items()}
            | {f"{words} (file)": lambda name=name: parse_agent(f"{tmp_path}/{name}.py:f") for name, (_, words) in files.items()}
            | {"there is no": lambda: parse_agent(f"{tmp_path}/missing.py:f")}
        )


NET = """
def weight():
    from nets.sizes import WIDTH
    return WIDTH
"""
IMPORTS = {
    "at the top": "import net\n\ndef make(depth=1):\n    return Agent(net.weight())\n",
    "by name": "from net import weight\n\ndef make(depth=1):\n    return Agent(weight())\n",
    "in a function": "def make(depth=1):\n    import net as mine\n    return Agent(mine.weight())\n",
    "of a folder": "import nets.sizes\n\ndef make(depth=1):\n    return Agent(nets.sizes.WIDTH)\n",
    "under another name": "def make(depth=1):\n    import nets.sizes as found\n    return Agent(found.WIDTH)\n",
}


def test_files_import_their_neighbours(tmp_path: Path):
    """Two folders with equal names, a folder without `__init__.py`, and a name of the standard library."""
    for width, version in enumerate(("v1", "v2")):
        (tmp_path / version / "nets").mkdir(parents=True)
        (tmp_path / version / "nets/sizes.py").write_text(f"WIDTH = {width}\n")
        (tmp_path / version / "net.py").write_text(NET)
        (tmp_path / version / "random.py").write_text("1 / 0")
    for index, (kind, code) in enumerate(IMPORTS.items()):
        for version in ("v1", "v2"):
            (tmp_path / version / f"my{index}.py").write_text(
                f"import random\nfrom types import SimpleNamespace\n{AGENT}\n{code}"
            )
        before = list(sys.path), set(sys.modules)
        agents = [parse_agent(f"{tmp_path}/{version}/my{index}.py:make") for version in ("v1", "v2", "v1")]
        assert [agent.width for agent in agents] == [0, 1, 0], kind
        assert sys.path == before[0] and "random" not in set(sys.modules) - before[1]
        for name in {"net", "nets", "nets.sizes"} & set(sys.modules):
            # The plain names find those of the folder that came first.
            assert Path(sys.modules.pop(name).__spec__.origin or tmp_path / "v1").is_relative_to(tmp_path / "v1")


def test_modules_of_the_folder_and_the_package_are_themselves(tmp_path: Path, monkeypatch):
    """Neither imported twice, nor replaced by a folder with the package's name."""
    (tmp_path / "unojax").mkdir()
    (tmp_path / "unojax" / "__init__.py").write_text("1 / 0")
    (tmp_path / "clone.py").write_text(f"import unojax\n{AGENT}\ndef make(depth=1):\n    return Agent(unojax.__file__)\n")
    assert parse_agent(f"{tmp_path}/clone.py:make").width == unojax.__file__

    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "shared_net.py").write_text("WIDTHS = []\n")
    (folder / "my.py").write_text(f"{AGENT}\ndef make(depth=1):\n    import shared_net\n    return Agent(shared_net.WIDTHS)\n")
    (folder / "their-own.py").write_text("def make(depth=1):\n    import my\n    return my.make()\n")
    monkeypatch.syspath_prepend(folder)
    widths = importlib.import_module("shared_net").WIDTHS
    try:
        agents = [parse_agent(f"{folder}/{name}.py:make") for name in ("their-own", "my")]
        assert all(agent.width is widths for agent in agents) and type(agents[0]) is type(agents[1])
    finally:
        del sys.modules["shared_net"]


def test_objects_of_classes_beside_a_file_are_unpickled(tmp_path: Path):
    (tmp_path / "kept_net.py").write_text("class Net:\n    width = 7\n")
    (tmp_path / "net.pkl").write_bytes(b"ckept_net\nNet\n.")
    read = f"Path({str(tmp_path / 'net.pkl')!r}).read_bytes()"
    (tmp_path / "read_net.py").write_text(f"import pickle\nfrom pathlib import Path\nNET = pickle.loads({read})\n")
    code = f"import kept_net\nfrom read_net import NET\n{AGENT}"
    (tmp_path / "my.py").write_text(f"{code}\ndef make(depth=1):\n    return Agent(NET.width)\n")
    try:
        assert parse_agent(f"{tmp_path}/my.py:make").width == 7
    finally:
        for name in ("kept_net", "read_net"):
            sys.modules.pop(name, None)


TYPED = (
    """
from __future__ import annotations
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Optional
if TYPE_CHECKING:
    from collections.abc import Callable
    from unojax.agents import Agent as Made
"""
    + AGENT
    + """
def make(depth: int = 1, pace: Optional[Literal["slow", "fast"]] = None, width: Depth = 3, leaf: Callable = len) -> Made:
    return Agent((depth, pace, width))

make_deep = partial(make, 5)

@dataclass
class Wide(Agent):
    width: float = 1.0
    leaf: Callable | None = None
"""
)


def test_types_may_be_known_to_type_checkers_alone(tmp_path: Path):
    (tmp_path / "my.py").write_text(TYPED)
    assert parse_agent(f"{tmp_path}/my.py:make:depth=3,pace=fast,width=4").width == (3, "fast", 4)
    assert parse_agent(f"{tmp_path}/my.py:make_deep:pace=none").width == (5, None, 3)
    assert parse_agent(f"{tmp_path}/my.py:Wide:width=2").width == 2.0
    wrong = {"make:pace=x": "pace", "make:width=x": "width", "make:leaf=x": "'leaf'; choose from depth, pace, width"}
    wrong["Wide:leaf=x"] = "'leaf'; choose from width"
    refusals({words: lambda spec=spec: parse_agent(f"{tmp_path}/my.py:{spec}") for spec, words in wrong.items()})


KINDS = """
from dataclasses import dataclass
import jax
import jax.numpy as jnp
from unojax.policies import PackedPolicy

@dataclass
class Unfrozen:
    shift: int = 0
    def __call__(self, key, observation, legal_mask):
        return jnp.argmax(legal_mask) + self.shift

@dataclass
class Packed(PackedPolicy):
    depth: int = 1
    name = summary = "packed"
    def narrow(self, view, legal):
        return legal

@jax.jit
def compiled(key, observation, legal_mask):
    return jnp.argmax(legal_mask) // missing

class Fails:
    def __call__(self, key, observation, legal_mask):
        raise RuntimeError("too deep")

fails = Fails()

def illegal(key, observation, legal_mask): return jnp.int32(-5)
def pairs(key, observation, legal_mask): return jnp.zeros(2, jnp.int32)
def halves(key, observation, legal_mask): return jnp.float32(1.5)
"""


def test_commands_take_policies_of_the_user(capsys, monkeypatch, tmp_path: Path, own: str):
    """Any callable plays; a failing one is named in one line. `Unfrozen` wins the same games as `clever`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kinds.py").write_text(KINDS)
    results = []
    for name in (f"{own}:clever", "kinds.py:Unfrozen"):
        assert main(["simulate", "--policies", name, "uniform", "--games", "64", "--quiet", "--json", "-"]) == 0
        results.append([won["total"] for won in json.loads(capsys.readouterr().out)["results"]["wins"]])
    assert results[0] == results[1]
    failures = {
        "kinds.py:compiled": "compiled failed: NameError: name 'missing' is not defined",
        "kinds.py:fails": "fails failed: RuntimeError: too deep",
        "kinds.py:Packed": "unhashable type: 'Packed'; make it @dataclass(frozen=True)",
    }
    wrong = {
        f"{command} --policies {name} uniform": words
        for command in ("simulate --games 8", "simulate --rows steps --games 2 --out games.npz", "belief")
        for name, words in failures.items()
    }
    returned = {
        "illegal": "kinds.py:illegal chose an illegal action",
        "pairs": "kinds.py:pairs must return one integer, got int32[2]",
        "halves": "kinds.py:halves must return one integer, got float32[]",
    }
    wrong |= {f"simulate --games 8 --policies uniform kinds.py:{name}": words for name, words in returned.items()}
    wrong["arena kinds.py:Unfrozen uniform --games 2 --quiet"] = "unhashable type: 'Unfrozen'; make it @dataclass(frozen=True)"
    wrong[f"simulate --policies {own}:Deep uniform"] = "is an agent, which remembers, where a policy is needed"
    wrong[f"simulate --policies {own}:nothing uniform"] = "has no 'nothing'"
    for line, words in wrong.items():
        assert main(line.split()) == 2
        complaint = capsys.readouterr().err
        assert words in complaint and complaint.count("\n") == 1, (line, complaint)
