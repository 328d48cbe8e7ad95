"""`unojax.files`."""

import os
import stat

import pytest

from unojax.files import write_whole


def test_a_file_is_replaced_as_a_whole_and_a_link_stays_one(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new, é")
    assert link.is_symlink() and real.read_text(encoding="utf-8") == "new, é"
    write_whole(real, b"\x00\xff")
    assert real.read_bytes() == b"\x00\xff"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "real.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_new_file_may_be_read_by_whom_the_umask_allows(tmp_path):
    path, plain = tmp_path / "whole.txt", tmp_path / "plain.txt"
    write_whole(path, "x")
    plain.write_text("x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_device_is_written_to():
    write_whole(os.devnull, "x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
