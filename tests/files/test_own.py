"""Policies and agents from a file of one's own."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import unojax
from unojax.agents import PolicyAgent
from unojax.cli import main
from unojax.specs import as_agent, parse_agent, parse_policy, settings_of

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


def test_a_policy_goes_by_its_spec_and_is_loaded_once(own: str):
    agent = parse_agent(f"{own}:clever")
    assert isinstance(agent, PolicyAgent) and agent.name == f"{own}:clever"
    assert parse_policy(f"{own}:clever") is agent.policy
    assert agent == parse_agent(f"{own}:clever") == as_agent(f"{own}:clever")
    observation = unojax.observe(unojax.init(jax.random.key(0)), 0)
    assert agent.policy(jax.random.key(1), observation, np.arange(61) >= 5) == 5
    assert settings_of(agent.name) == {}
    assert parse_agent(f"{own}:chooses_policy").name == f"{own}:chooses_policy"


def test_an_agent_has_parameters(own: str):
    agent = parse_agent(f"{own}:Deep:depth=3,sharp=true")
    assert (agent.depth, agent.sharp, agent.name) == (3, True, "deep")
    assert parse_agent(f"{own}:make:depth=4").depth == 4
    assert parse_agent(f"{own}:untyped:depth=4").depth == 4
    assert parse_agent(f"{own}:deep").depth == 7


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("x", "has no 'x'; it has clever, Deep, make, untyped, chooses_policy, of_two, Rigid, Nameless"),
        ("", "has no ''"),
        ("_hidden", "has no '_hidden'"),
        ("of_two", "a policy takes key, observation and legal mask; .*of_two takes others"),
        ("number", "a player must be the spec of an agent"),
        ("clever:depth=1", "clever has no parameters; write just"),
        ("deep:depth=1", "deep has no parameters"),
        ("Deep:width=1", "unknown key 'width'; choose from depth, sharp, name"),
        ("Deep:depth=x", "depth must be a whole number, got 'x'"),
        ("Deep:", "key=value must follow the colon"),
        ("make:depth=10", "making it failed: RuntimeError: too deep"),
        ("Rigid", "all parameters of .*Rigid must have defaults"),
        ("Nameless:name=x", None),
    ],
)
def test_what_is_none_is_refused(own: str, rest: str, says: str | None):
    if says is None:
        assert parse_agent(f"{own}:{rest}").name == "x"
        return
    with pytest.raises(ValueError, match=says):
        parse_agent(f"{own}:{rest}")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(:", "can't be run: SyntaxError"),
        ("1 / 0", "can't be run: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "can't be run: SystemExit: 3"),
        (None, "there is no"),
    ],
)
def test_files_that_can_not_be_run(tmp_path: Path, code: str | None, says: str):
    path = tmp_path / "bad.py"
    if code is not None:
        path.write_text(code)
    for _ in range(2):
        with pytest.raises(ValueError, match=says):
            parse_agent(f"{path}:f")


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


@pytest.mark.parametrize("code", IMPORTS.values(), ids=IMPORTS)
def test_files_import_what_is_beside_them(tmp_path: Path, code: str):
    """Two folders have the same names in them, a folder without `__init__.py` and a module of the standard library too."""
    for width, version in enumerate(("v1", "v2")):
        (tmp_path / version / "nets").mkdir(parents=True)
        (tmp_path / version / "nets/sizes.py").write_text(f"WIDTH = {width}\n")
        (tmp_path / version / "net.py").write_text(NET)
        (tmp_path / version / "random.py").write_text("1 / 0")
        (tmp_path / version / "my.py").write_text(f"import random\nfrom types import SimpleNamespace\n{AGENT}\n{code}")
    before = list(sys.path), set(sys.modules)
    agents = [parse_agent(f"{tmp_path}/{version}/my.py:make") for version in ("v1", "v2", "v1")]
    assert [agent.width for agent in agents] == [0, 1, 0]
    assert sys.path == before[0] and "random" not in set(sys.modules) - before[1]
    for name in {"net", "nets", "nets.sizes"} & set(sys.modules):
        # By their plain names those of the folder that came first are found.
        assert Path(sys.modules.pop(name).__spec__.origin or tmp_path / "v1").is_relative_to(tmp_path / "v1")


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


def test_a_clone_beside_a_file_is_not_the_package(tmp_path: Path):
    (tmp_path / "unojax").mkdir()
    (tmp_path / "unojax" / "__init__.py").write_text("1 / 0")
    (tmp_path / "my.py").write_text(f"import unojax\n{AGENT}\ndef make(depth=1):\n    return Agent(unojax.__file__)\n")
    assert parse_agent(f"{tmp_path}/my.py:make").width == unojax.__file__


def test_what_is_imported_already_from_the_folder_is_not_imported_again(tmp_path: Path, monkeypatch):
    (tmp_path / "shared_net.py").write_text("WIDTHS = []\n")
    (tmp_path / "my.py").write_text(f"{AGENT}\ndef make(depth=1):\n    import shared_net\n    return Agent(shared_net.WIDTHS)\n")
    (tmp_path / "their-own.py").write_text("def make(depth=1):\n    import my\n    return my.make()\n")
    monkeypatch.syspath_prepend(tmp_path)
    widths = importlib.import_module("shared_net").WIDTHS
    try:
        agents = [parse_agent(f"{tmp_path}/{name}.py:make") for name in ("their-own", "my")]
        assert all(agent.width is widths for agent in agents) and type(agents[0]) is type(agents[1])
    finally:
        del sys.modules["shared_net"]


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
    for spec, says in (
        ("make:pace=x", "pace must be one of slow, fast or none"),
        ("make:width=x", "width must be a whole number"),
        ("make:leaf=x", "unknown key 'leaf'; choose from depth, pace, width"),
        ("Wide:leaf=x", "unknown key 'leaf'; choose from width"),
    ):
        with pytest.raises(ValueError, match=says):
            parse_agent(f"{tmp_path}/my.py:{spec}")


def test_commands_take_them(capsys, own: str):
    assert main(["simulate", "--policies", f"{own}:clever", "uniform", "--games", "64", "--quiet", "--json", "-"]) == 0
    assert f"{own}:clever" in capsys.readouterr().out
    assert main(["simulate", "--policies", f"{own}:Deep", "uniform"]) == 2
    assert "is an agent, which remembers, where a policy is needed" in capsys.readouterr().err
    assert main(["simulate", "--policies", f"{own}:nothing", "uniform"]) == 2
    assert "has no 'nothing'" in capsys.readouterr().err


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

@jax.jit
def whole(key, observation, legal_mask):
    return jnp.argmax(legal_mask)

class Fails:
    def __call__(self, key, observation, legal_mask):
        raise RuntimeError("too deep")

fails = Fails()
"""


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    (tmp_path / "kinds.py").write_text(KINDS)
    return f"{tmp_path}/kinds.py"


@pytest.mark.parametrize("command", ["simulate --games 8", "simulate --rows steps --games 2 --out games.npz", "belief"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("compiled", "compiled failed: NameError: name 'missing' is not defined"),
        ("fails", "fails failed: RuntimeError: too deep"),
        ("Packed", "unhashable type: 'Packed'; make it @dataclass(frozen=True)"),
    ],
)
def test_any_policy_that_fails_is_one_line(capsys, monkeypatch, tmp_path: Path, kinds: str, command: str, name: str, says: str):
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "--policies", f"{kinds}:{name}", "uniform"]) == 2
    told = capsys.readouterr().err
    assert says in told and "Traceback" not in told and len(told.strip().splitlines()) == 1


def test_any_callable_is_a_policy_of_games(capsys, kinds: str):
    """Both play the first legal action, so that they win the same games."""
    results = []
    for name in ("Unfrozen", "whole"):
        args = ["simulate", "--policies", f"{kinds}:{name}", "uniform", "--games", "64", "--quiet", "--json", "-"]
        assert main(args) == 0
        results.append([won["total"] for won in json.loads(capsys.readouterr().out)["results"]["wins"]])
    assert results[0] == results[1]


def test_an_agent_that_can_not_be_hashed_says_how_it_can(capsys, kinds: str):
    assert main(["arena", f"{kinds}:Unfrozen", "uniform", "--games", "2", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert "unhashable type: 'Unfrozen'; make it @dataclass(frozen=True)" in told and "Traceback" not in told
