"""Programs kept as they are traced: found again, told apart, and done without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Rules
from unojax.belief import belief_init
from unojax.belief.opponents import Family, PolicyOpponent
from unojax.belief.particles import Info
from unojax.belief.updaters import ParticleFilter
from unojax.device import kept
from unojax.device.kept import KeptProgram, describe
from unojax.device.platform import tuned_for
from unojax.policies import LINEAR, uniform
from unojax.specs import parse_agent

KEY = jax.random.key(5)
RULES = Rules(hand_size=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for programs. The package's source counts as imported as it is, whoever edits it meanwhile."""
    monkeypatch.setattr(kept, "IMPORTED_AT", float("inf"))
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


class Counted:
    """A function of arrays, and how often it was traced. A new one stands for a new process."""

    def __init__(self):
        self.times = 0

        def draw(key, weights, *, rules):
            self.times += 1
            seen = jax.random.uniform(key, (rules.hand_size,)) * weights["a"]
            return {"sum": seen.sum(), "info": Info(*seen[:3], *weights["b"])}, (None, jax.random.key_data(key))

        self.program = KeptProgram(draw, static="rules")
        self.plain = jax.jit(draw, static_argnames="rules")


WEIGHTS = {"a": jnp.float32(2), "b": np.arange(4)}


def traced(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-traced"))


def test_a_program_is_found_again(folder: Path):
    first, second = Counted(), Counted()
    expected = first.plain(KEY, WEIGHTS, rules=RULES)
    assert_trees_equal(first.program(KEY, WEIGHTS, rules=RULES), expected)
    (file,) = traced(folder)
    assert file.name.startswith("draw-")
    found = second.program(KEY, WEIGHTS, rules=RULES)
    assert second.times == 0 and isinstance(found[0]["info"], Info)
    assert_trees_equal(found, expected)
    again = second.program(jax.random.key(6), WEIGHTS, rules=RULES)
    assert_trees_equal(again, first.plain(jax.random.key(6), WEIGHTS, rules=RULES))


@pytest.mark.parametrize("was_there", [False, True])
def test_source_that_changed_since_it_was_imported(folder: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool):
    """What this process has imported is not what the digest is of: nothing is read or written by it."""
    package = folder / "unojax"
    package.mkdir()
    (package / "rules.py").write_text("changed now")
    changed = (package / "rules.py").stat().st_ctime
    monkeypatch.setattr(kept, "_PACKAGE", package)
    if was_there:
        Counted().program(KEY, WEIGHTS, rules=RULES)
    before = traced(folder)
    assert len(before) == was_there
    for imported, is_traced in ((changed - 60, True), (changed, True), (changed + 60, not was_there)):
        monkeypatch.setattr(kept, "IMPORTED_AT", imported)
        counted = Counted()
        assert_trees_equal(counted.program(KEY, WEIGHTS, rules=RULES), counted.plain(KEY, WEIGHTS, rules=RULES))
        # The plain one is traced as well.
        assert counted.times - 1 == is_traced
        assert len(traced(folder)) == (was_there or imported > changed)


def test_source_that_changes_while_a_program_is_traced(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def add(x, *, by):
        monkeypatch.setattr(kept, "IMPORTED_AT", 0.0)
        return x + by

    assert KeptProgram(add, static="by")(jnp.float32(1), by=2) == 3
    assert not traced(folder)


def test_source_that_cannot_be_read_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Emacs leaves links that lead nowhere beside the files that it edits."""
    package = folder / "unojax"
    package.mkdir()
    (package / ".#rules.py").symlink_to("nowhere")
    monkeypatch.setattr(kept, "_PACKAGE", package)
    kept._source.cache_clear()
    try:
        Counted().program(KEY, WEIGHTS, rules=RULES)
    finally:
        kept._source.cache_clear()
    assert not traced(folder)


@pytest.mark.slow
def test_an_edit_before_the_first_call_reaches_no_other_process(tmp_path: Path):
    package = tmp_path / "unojax"
    shutil.copytree(kept._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "edited.py").write_text("def fun(x, *, by): return x * by * 1.0\n")
    code = """
        import sys, time
        from pathlib import Path
        import jax.numpy as jnp
        import unojax.edited
        from unojax.device.kept import KeptProgram
        file = Path(unojax.edited.__file__)
        if sys.argv[1:]:
            file.write_text(file.read_text().replace("1.0", "2.0"))
        print(KeptProgram(unojax.edited.fun, static="by")(jnp.float32(1), by=1))
    """
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    for arguments, expected in ((["edit"], "1.0"), ([], "2.0"), ([], "2.0")):
        # Beyond what the times of files may be off.
        time.sleep(kept._COARSE + 0.2)
        command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
        ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == expected
        assert len(traced(tmp_path / "cache")) == (expected == "2.0")


def test_programs_are_compiled_ahead(folder: Path):
    counted = Counted()
    shapes = jax.eval_shape(lambda: (KEY, WEIGHTS))
    counted.program.compile(*shapes, rules=RULES)
    assert counted.times == 1
    with jax.no_tracing():
        counted.program(KEY, WEIGHTS, rules=RULES)


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_comes_back_is_told_ahead(folder: Path, is_kept: bool):
    if is_kept:
        Counted().program(KEY, WEIGHTS, rules=RULES)
    counted = Counted()
    told = counted.program.shapes(KEY, WEIGHTS, rules=RULES)
    assert counted.times == (not is_kept) and counted.program.num_compiled == 0
    found = counted.program(KEY, WEIGHTS, rules=RULES)
    assert counted.times == (not is_kept)
    assert jax.tree.structure(told) == jax.tree.structure(found)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(told)] == [(x.shape, x.dtype) for x in jax.tree.leaves(found)]


@pytest.mark.slow
@pytest.mark.parametrize(("done", "needs_scipy"), [("x + 1", False), ("jnp.linalg.cholesky(x)", True)])
def test_scipy_is_imported_for_linear_algebra_only(tmp_path: Path, done: str, needs_scipy: bool):
    code = (
        "import sys, jax, jax.numpy as jnp; from unojax.device.kept import KeptProgram\n"
        f"def fun(x, *, by): return {done}\n"
        "print(KeptProgram(fun, static='by')(4 * jnp.eye(2), by=0)[0], 'scipy' in sys.modules)"
    )
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout == f"{'[2. 0.]' if needs_scipy else '[5. 1.]'} {needs_scipy}\n"
    assert len(traced(tmp_path)) == 1


@pytest.mark.parametrize("content", [b"", b"nothing to read", b"\x80\x05K\x01."])
def test_a_file_that_cannot_be_read_is_made_anew(folder: Path, content: bytes):
    first, second, third = Counted(), Counted(), Counted()
    first.program(KEY, WEIGHTS, rules=RULES)
    (file,) = traced(folder)
    whole = file.read_bytes()
    file.write_bytes(content or whole[: len(whole) // 2])
    assert_trees_equal(second.program(KEY, WEIGHTS, rules=RULES), second.plain(KEY, WEIGHTS, rules=RULES))
    third.program(KEY, WEIGHTS, rules=RULES)
    assert third.times == 0


def test_what_nothing_tells_apart_is_not_kept(folder: Path):
    def add(x, *, by):
        return x + by(x)

    for by, expected in ((lambda x: x, 2.0), (lambda x: 2 * x, 3.0)):
        assert KeptProgram(add, static="by")(jnp.float32(1), by=by) == expected
    assert not traced(folder)


def test_without_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    # As a path, the address would be a folder here.
    (folder / "gs:" / "bucket" / "programs").mkdir(parents=True)
    for name, value in (
        ("jax_compilation_cache_dir", None),
        ("jax_compilation_cache_dir", ""),
        ("jax_compilation_cache_dir", "gs://bucket/programs"),
        ("jax_enable_compilation_cache", False),
    ):
        before = jax.config.values[name]
        jax.config.update(name, value)
        try:
            counted = Counted()
            assert_trees_equal(counted.program(KEY, WEIGHTS, rules=RULES), counted.plain(KEY, WEIGHTS, rules=RULES))
        finally:
            jax.config.update(name, before)
    assert not list(folder.rglob("*-traced"))


def test_a_folder_that_cannot_be_written_is_done_without(folder: Path):
    jax.config.update("jax_compilation_cache_dir", str(folder / "gone"))
    counted = Counted()
    assert_trees_equal(counted.program(KEY, WEIGHTS, rules=RULES), counted.plain(KEY, WEIGHTS, rules=RULES))


def test_descriptions_tell_values_apart():
    values = [None, True, 1, 1.0, "1", (1,), [1], np.float32(1), np.arange(3), np.arange(3) + 1, uniform, Rules, Rules()]
    values += [RULES, PolicyOpponent(LINEAR, 0.5), PolicyOpponent(LINEAR, 0.25), ParticleFilter(8), ParticleFilter(9)]
    values += [Family((PolicyOpponent(LINEAR), PolicyOpponent(uniform)), weights=(0.5, 0.5)), belief_init]
    values += [parse_agent(spec) for spec in ("mc", "mc:rollouts=9", "mc:leaf=pretrained", "tree")]
    assert len({describe(value) for value in values}) == len(values)
    assert describe(parse_agent("mc")) == describe(parse_agent("mc"))


@pytest.mark.parametrize("value", [lambda: 1, object(), {1: 2}, (1, print), Path("a"), Counted])
def test_values_of_others_have_none(value):
    with pytest.raises(TypeError):
        describe(value)


# Last, since both have programs forgotten.


def test_another_form_is_another_program(folder: Path):
    """In one process, too: what sizes and loops are chosen for shows in a program."""
    counted = Counted()
    for _ in range(2):
        counted.program(KEY, WEIGHTS, rules=RULES)
    assert counted.times == 1
    with tuned_for("gpu"):
        counted.program(KEY, WEIGHTS, rules=RULES)
    assert counted.times == 2


def test_what_differs_is_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def run(**changes):
        counted = Counted()
        given = {"weights": WEIGHTS, "rules": RULES} | changes
        found = counted.program(KEY, given["weights"], rules=given["rules"])
        times = counted.times
        assert_trees_equal(found, counted.plain(KEY, given["weights"], rules=given["rules"]))
        return times

    assert run() == 1
    assert run() == 0
    assert run(rules=Rules(hand_size=4)) == 1
    assert run(weights=WEIGHTS | {"b": np.arange(4, dtype=np.int16)}) == 1
    assert run(weights=WEIGHTS | {"b": np.arange(4.0)}) == 1
    assert run(weights=WEIGHTS | {"c": jnp.float32(1)}) == 1
    with tuned_for("gpu"):
        assert run() == 1
    with jax.numpy_rank_promotion("raise"):
        assert run() == 1
    monkeypatch.setattr(kept, "_source", lambda: "another version of the package")
    assert run() == 1
    assert len(traced(folder)) == 8
