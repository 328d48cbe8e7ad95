"""Programs kept between runs: where, and who says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from unojax.device import compilation_cache
from unojax.device.compilation_cache import keep_compiled_programs

COMMAND = "from unojax.cli import main; main(['simulate', '--games', '10', '--quiet', '--max-steps', '5'])"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a user who has none; JAX, which is imported here, is left alone."""
    for name in ("COMPILATION_CACHE_DIR", "ENABLE_COMPILATION_CACHE", "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.delenv(f"JAX_{name}", raising=False)
    monkeypatch.delitem(sys.modules, "jax", raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compilation_cache.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path


def test_the_folder_of_the_user(home: Path, monkeypatch: pytest.MonkeyPatch):
    assert keep_compiled_programs() == home / "unojax" / "jax"
    assert (home / "unojax" / "jax").is_dir()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "other"))
    assert keep_compiled_programs() == home / "other"


@pytest.mark.parametrize("word", ["false", "0", "False"])
def test_nothing_is_kept_if_the_user_says_so(home: Path, monkeypatch: pytest.MonkeyPatch, word: str):
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", word)
    assert keep_compiled_programs() is None
    assert not list(home.iterdir())


def test_what_jax_is_told_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch):
    for settings, folder in (
        ({"jax_compilation_cache_dir": str(home / "told"), "jax_enable_compilation_cache": True}, home / "told"),
        ({"jax_compilation_cache_dir": None, "jax_enable_compilation_cache": False}, None),
    ):
        told = SimpleNamespace(**settings, update=lambda name, value: None)
        monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=told))
        assert keep_compiled_programs() == folder


def test_a_folder_that_cannot_be_made_is_done_without(home: Path):
    (home / "unojax").write_text("a file in its place")
    assert keep_compiled_programs() is None


def test_a_command_keeps_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    subprocess.run([sys.executable, "-c", COMMAND], check=True, capture_output=True)
    kept = {path.name for path in (tmp_path / "unojax" / "jax").glob("*-cache")}
    assert any("advance_lanes" in name for name in kept), kept
