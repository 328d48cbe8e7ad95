"""Programs kept between runs: where, and who says so."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from unojax.device import compilation_cache
from unojax.device.compilation_cache import keep_compiled_programs
from unojax.files import folders

COMMAND = "from unojax.cli import main; main(['simulate', '--games', '10', '--quiet', '--max-steps', '5'])"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a user who has none; JAX, which is imported here, is left alone."""
    for name in ("COMPILATION_CACHE_DIR", "ENABLE_COMPILATION_CACHE", "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        # Set first, so that what a test sets is undone whatever was there.
        monkeypatch.setenv(f"JAX_{name}", "")
        monkeypatch.delenv(f"JAX_{name}")
    monkeypatch.delitem(sys.modules, "jax", raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path


def test_the_folder_of_the_user(home: Path, monkeypatch: pytest.MonkeyPatch):
    assert keep_compiled_programs() == home / "unojax" / "jax"
    assert (home / "unojax" / "jax").is_dir()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "other"))
    assert keep_compiled_programs() == home / "other"


def no_home(name: str) -> Path:
    """What platformdirs does for a process of a user without a home."""
    raise RuntimeError("could not determine the home directory")


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for kind in ("cache", "state"):
        monkeypatch.setattr(folders.platformdirs, f"user_{kind}_path", no_home)
    assert keep_compiled_programs() is None
    assert folders.state_folder() is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert keep_compiled_programs() == tmp_path


@pytest.mark.parametrize("word", ["false", "0", "False"])
def test_nothing_is_kept_if_the_user_says_so(home: Path, monkeypatch: pytest.MonkeyPatch, word: str):
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", word)
    assert keep_compiled_programs() is None
    assert not list(home.iterdir())


class Config(SimpleNamespace):
    """Settings as `jax.config` has them, JAX's own where nothing else is told."""

    def __init__(self, **told):
        defaults = {"jax_compilation_cache_dir": None, "jax_persistent_cache_min_compile_time_secs": 1.0}
        super().__init__(**{"jax_enable_compilation_cache": True, **defaults, **told})

    def update(self, name: str, value: object) -> None:
        setattr(self, name, value)


def told_to_jax(monkeypatch: pytest.MonkeyPatch, **settings: object) -> Config:
    config = Config(**settings)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))
    return config


def test_what_jax_is_told_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch):
    told_to_jax(monkeypatch, jax_enable_compilation_cache=False)
    assert keep_compiled_programs() is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "before"))
    settings = {"jax_compilation_cache_dir": str(home / "told"), "jax_persistent_cache_min_compile_time_secs": 5.0}
    config = told_to_jax(monkeypatch, **settings)
    assert keep_compiled_programs() == home / "told"
    assert config == Config(**settings) and list(home.iterdir()) == [home / "told"]
    # In the processes that this one starts, too.
    assert os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "5.0"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(home / "told")


def test_what_nobody_has_said_is_set(home: Path, monkeypatch: pytest.MonkeyPatch):
    config = told_to_jax(monkeypatch)
    folder = keep_compiled_programs()
    assert folder == home / "unojax" / "jax"
    assert config == Config(jax_compilation_cache_dir=str(folder), jax_persistent_cache_min_compile_time_secs=0.0)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]) == 0


@pytest.mark.parametrize("is_told", [False, True])
def test_a_folder_elsewhere_is_left_to_jax(home: Path, monkeypatch: pytest.MonkeyPatch, is_told: bool):
    monkeypatch.chdir(home)
    if is_told:
        config = told_to_jax(monkeypatch, jax_compilation_cache_dir="gs://bucket/programs")
        assert keep_compiled_programs() is None
        assert config == Config(jax_compilation_cache_dir="gs://bucket/programs")
    else:
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "gs://bucket/programs")
        assert keep_compiled_programs() is None
        assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "gs://bucket/programs"
    assert "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ
    assert not list(home.iterdir())


def test_the_defaults_are_those_of_jax():
    """What differs from them is the user's."""
    code = f"from jax import config; print({{name: config.values[name] for name in {list(compilation_cache._SETTINGS)}}})"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == str(compilation_cache._SETTINGS)


def test_a_folder_that_cannot_be_made_is_done_without(home: Path):
    (home / "unojax").write_text("a file in its place")
    assert keep_compiled_programs() is None


# Permissions do not keep an administrator, as tests may be run, from writing; the kernel does.
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has a folder that nobody at all can write")


@needs_proc
def test_a_folder_that_cannot_be_written_is_done_without(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Nor by an administrator."""
    (home / "unojax").mkdir()
    (home / "unojax" / "jax").symlink_to("/proc/self")
    config = told_to_jax(monkeypatch)
    assert keep_compiled_programs() is None
    assert config == Config() and "JAX_COMPILATION_CACHE_DIR" not in os.environ


@needs_proc
def test_a_chosen_folder_that_cannot_be_written_is_read_without_a_word():
    """JAX warns of every program that it can't write."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": "/proc/self/task"}
    ran = subprocess.run([sys.executable, "-c", COMMAND], env=environment, check=True, capture_output=True, text=True)
    assert ran.stderr == ""


def test_a_full_disk_is_done_without(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Files can be made there that hold nothing."""

    def write(file: Path, content: bytes) -> None:
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", write)
    assert keep_compiled_programs() is None
    assert not list((home / "unojax" / "jax").iterdir()) and "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_nothing_is_left_in_a_folder_that_can_be_written(home: Path):
    folder = keep_compiled_programs()
    assert folder is not None and not list(folder.iterdir())


def test_a_command_keeps_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    subprocess.run([sys.executable, "-c", COMMAND], check=True, capture_output=True)
    kept = {path.name for path in (tmp_path / "unojax" / "jax").glob("*-cache")}
    assert any("advance_slots" in name for name in kept), kept


def test_a_damaged_entry_is_replaced(tmp_path: Path):
    """Without a word, and once: JAX would warn and compile at every start."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}

    def run() -> dict[str, bytes]:
        ran = subprocess.run([sys.executable, "-c", COMMAND], env=environment, check=True, capture_output=True, text=True)
        assert ran.stderr == ""
        return {path.name: path.read_bytes() for path in tmp_path.glob("*-cache")}

    whole = run()
    for name in whole:
        (tmp_path / name).write_bytes(b"damaged")
    again = run()
    assert again.keys() == whole.keys()
    assert b"damaged" not in again.values()
