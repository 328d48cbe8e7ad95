"""The persistent compilation cache: its folder, and the precedence of the user's settings."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from unojax.cli import main
from unojax.device import compilation_cache
from unojax.device.compilation_cache import keep_compiled_programs
from unojax.files import folders

DEFAULTS = {"jax_compilation_cache_dir": None, "jax_persistent_cache_min_compile_time_secs": 1.0}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all settings of the user."""
    for name in ("COMPILATION_CACHE_DIR", "ENABLE_COMPILATION_CACHE", "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        # Set first, so that settings of a test are undone.
        monkeypatch.setenv(f"JAX_{name}", "")
        monkeypatch.delenv(f"JAX_{name}")
    monkeypatch.delitem(sys.modules, "jax", raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path


class Config(SimpleNamespace):
    """Settings as in `jax.config`."""

    def __init__(self, **given):
        super().__init__(**{"jax_enable_compilation_cache": True, **DEFAULTS, **given})

    def update(self, name: str, value: object) -> None:
        setattr(self, name, value)


def imported_jax(monkeypatch: pytest.MonkeyPatch, **settings: object) -> Config:
    """Pretend that JAX is imported with some settings."""
    config = Config(**settings)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))
    return config


def test_a_command_keeps_its_programs_in_the_folder_of_the_user(home, monkeypatch):
    monkeypatch.setattr("unojax.cli.rules.ShowRules.run", lambda _: 0)
    assert main(["rules"]) == 0
    folder = home / "unojax" / "jax"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder) and not list(folder.iterdir())
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "other"))
    assert keep_compiled_programs() == home / "other"


def test_a_user_without_a_home_keeps_nothing(monkeypatch, tmp_path):
    def no_home(name: str) -> Path:
        # As platformdirs does for a process of such a user.
        raise RuntimeError("could not determine the home directory")

    for kind in ("cache", "state"):
        monkeypatch.setattr(folders.platformdirs, f"user_{kind}_path", no_home)
    assert keep_compiled_programs() is None and folders.state_folder() is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert keep_compiled_programs() == tmp_path


def test_nothing_is_kept_if_the_user_says_so(home, monkeypatch):
    for word in ("false", "0", "False"):
        monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", word)
        assert keep_compiled_programs() is None
    monkeypatch.delenv("JAX_ENABLE_COMPILATION_CACHE")
    imported_jax(monkeypatch, jax_enable_compilation_cache=False)
    assert keep_compiled_programs() is None and not list(home.iterdir())


def test_settings_of_jax_take_precedence(home, monkeypatch):
    """Over the environment, also in child processes."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "before"))
    settings = {"jax_compilation_cache_dir": str(home / "set"), "jax_persistent_cache_min_compile_time_secs": 5.0}
    config = imported_jax(monkeypatch, **settings)
    assert keep_compiled_programs() == home / "set"
    assert config == Config(**settings) and list(home.iterdir()) == [home / "set"]
    assert os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "5.0"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(home / "set")


def test_other_settings_are_set(home, monkeypatch):
    config = imported_jax(monkeypatch)
    folder = keep_compiled_programs()
    assert folder == home / "unojax" / "jax"
    assert config == Config(jax_compilation_cache_dir=str(folder), jax_persistent_cache_min_compile_time_secs=0.0)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]) == 0


def test_a_remote_folder_is_left_to_jax(home, monkeypatch):
    monkeypatch.chdir(home)
    remote = "gs://bucket/programs"
    config = imported_jax(monkeypatch, jax_compilation_cache_dir=remote)
    assert keep_compiled_programs() is None and config == Config(jax_compilation_cache_dir=remote)
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", remote)
    assert keep_compiled_programs() is None and os.environ["JAX_COMPILATION_CACHE_DIR"] == remote
    assert "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ and not list(home.iterdir())


def test_a_folder_that_can_not_be_used_is_done_without(home, monkeypatch):
    (home / "unojax").write_text("a file in its place")
    assert keep_compiled_programs() is None
    (home / "unojax").unlink()

    def write(file: Path, content: bytes) -> None:
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # A full disk: files can be made there that hold nothing.
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        assert keep_compiled_programs() is None
    assert not list((home / "unojax" / "jax").iterdir())
    if not Path("/proc/self").exists():
        return
    # Permissions do not keep an administrator, as tests may be run, from writing; the kernel does.
    (home / "unojax" / "jax").rmdir()
    (home / "unojax" / "jax").symlink_to("/proc/self")
    config = imported_jax(monkeypatch)
    assert keep_compiled_programs() is None
    assert config == Config() and "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_a_full_disk_ends_the_writing_with_one_warning(home, monkeypatch):
    config = imported_jax(monkeypatch)
    with warnings.catch_warnings(record=True) as told:
        folder = keep_compiled_programs()
        for name in ("jit_one", "jit_two"):
            warnings.warn(f"Error writing persistent compilation cache entry for '{name}': OSError: No space left", stacklevel=1)
    [said] = told
    assert str(said.message) == f"compiled programs are no longer kept in {str(folder)!r}: OSError: No space left"
    assert config.jax_persistent_cache_min_compile_time_secs == math.inf


PROGRAM = """
from unojax.device.compilation_cache import keep_compiled_programs
keep_compiled_programs()
import jax
jax.jit(lambda x: x + 1)(1)
"""


def run(program: str, **environment: str) -> str:
    """Run a program without error output, and return its output."""
    ran = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, check=True, capture_output=True, text=True
    )
    assert ran.stderr == ""
    return ran.stdout.strip()


def test_programs_are_kept_and_damaged_ones_replaced(tmp_path):
    """Once and without a warning, unlike JAX alone."""
    code = f"from jax import config\nprint({{name: config.values[name] for name in {list(DEFAULTS)}}})"
    # Settings that differ from JAX's defaults are the user's.
    assert (
        run(code + PROGRAM, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path)) == str(compilation_cache._SETTINGS) == str(DEFAULTS)
    )
    folder = tmp_path / "unojax" / "jax"
    names = sorted(path.name for path in folder.glob("*-cache"))
    assert any("lambda" in name for name in names)
    for name in names:
        (folder / name).write_bytes(b"damaged")
    run(PROGRAM, JAX_COMPILATION_CACHE_DIR=str(folder), PYTHONWARNINGS="error")
    again = {path.name: path.read_bytes() for path in folder.glob("*-cache")}
    assert sorted(again) == names and b"damaged" not in again.values()
    if Path("/proc/self").exists():
        run(PROGRAM, JAX_COMPILATION_CACHE_DIR="/proc/self/task")
