"""The package as a whole: public names, dependencies, a fresh interpreter, 64-bit mode."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import unojax
from tests.helpers import ROOT

IN_64_BIT_MODE = """
import jax, numpy as np, unojax
assert jax.config.jax_enable_x64
start = jax.jit(unojax.init)(jax.random.key(0))
assert start.hands.sum(1).tolist() == [7, 7]
chosen = set()
for seed in range(20):
    state = start
    seen = unojax.observe(state, 0)
    action = unojax.uniform(jax.random.key(seed), seen, unojax.legal_mask(state))
    chosen.add(int(action))
    state = unojax.step(state, action, jax.random.key(seed))
    assert state.error == 0
    same = jax.tree.map(lambda a, b: a.dtype == b.dtype and a.weak_type == b.weak_type, start, state)
    assert all(jax.tree.leaves(same)), same
assert chosen == set(np.flatnonzero(unojax.legal_mask(start)).tolist())
"""


def run(code: str, **environment: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_public_names():
    """Every name exists, sorted, and no other is listed.

    Contract: exported names.
    """
    contract = (
        "init legal_mask step observe make_state State Observation transition_log_prob observation_log_prob reward simulate"
    )
    contract += " Rules belief_init belief_update infer_action rollout parse_cards format_cards parse_action format_action"
    assert set(contract.split()) <= set(unojax.__all__)
    assert list(unojax.__all__) == sorted(unojax.__all__, key=lambda name: (not name.isupper(), name.islower(), name))
    for name in unojax.__all__:
        assert getattr(unojax, name) is not None
        assert name in dir(unojax)
    assert not {"Any", "TYPE_CHECKING", "SHOWN_BY", "import_module", "time"} & set(dir(unojax))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unojax.nothing  # noqa: B018 the access is the test


def test_importing_the_package_imports_no_jax_and_modules_come_by_name():
    run(
        "import sys, unojax; assert 'jax' not in sys.modules; "
        "assert len(unojax.cards.COPIES) == 54 and unojax.table.DECK == 0 and unojax.belief.Belief is unojax.Belief"
    )


@pytest.mark.skipif(not (ROOT / "CITATION.cff").exists(), reason="a file of the checkout, not of an installed package")
def test_the_citation_names_this_version():
    assert f"version: {unojax.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_the_game_works_in_64_bit_mode():
    run(IN_64_BIT_MODE, JAX_ENABLE_X64="1")


def test_imported_libraries_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {re.split(r"[\[<>=]", line)[0].lower().replace("_", "-") for line in lines}
    imported = set()
    for path in Path(unojax.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    homes = packages_distributions()
    # Under another name than that of the import, or a part of a declared library.
    others = {"pyspiel": "open-spiel", "traitlets": "anywidget", "jaxlib": "jax"}
    missing = set()
    for name in imported - sys.stdlib_module_names - {"unojax"}:
        names = {others.get(name, name), *homes.get(name, ())}
        if not {known.lower().replace("_", "-") for known in names} & declared:
            missing.add(name)
    assert not missing
