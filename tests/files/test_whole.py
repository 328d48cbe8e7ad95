"""`unojax.files`."""

import os
import stat

import numpy as np
import pytest

from unojax.files import decode, read_text, write_whole
from unojax.files.columns import ColumnFile


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

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_the_umask_decides_who_may_read_a_new_file(tmp_path, monkeypatch):
    """The umask is shared by all threads, so setting it would expose files that others write."""
    for mask in (0o022, 0o027, 0o077):
        paths = tmp_path / f"{mask}.txt", tmp_path / f"{mask}.npz"
        before = os.umask(mask)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(os, "umask", lambda mask: pytest.fail("the umask was set"))
                write_whole(paths[0], "x")
                with ColumnFile(paths[1]) as file:
                    file.add({"number": np.arange(3)})
        finally:
            os.umask(before)
        assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o666 & ~mask] * 2


def test_devices_are_written_to_and_errors_name_the_file(tmp_path):
    write_whole(os.devnull, "x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(FileNotFoundError) as error:
        write_whole(tmp_path / "none" / "file.txt", "new")
    assert error.value.filename == str(tmp_path / "none" / "file.txt")


def test_text_is_read_with_any_byte_order_mark(tmp_path):
    path = tmp_path / "file.txt"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes("R5 é\r\n".encode(encoding))
        assert read_text(path) == "R5 é\r\n", encoding
    path.write_bytes("R5 é".encode("latin-1"))
    with pytest.raises(UnicodeDecodeError):
        read_text(path)
    assert decode(path.read_bytes(), errors="replace") == "R5 \N{REPLACEMENT CHARACTER}"
