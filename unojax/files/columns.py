"""Tables with named columns, written in parts: Parquet and NPZ."""

from __future__ import annotations

import os
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from unojax.files.whole import create_beside, is_special

SUFFIXES: Final = (".parquet", ".npz")

Columns = dict[str, np.ndarray]
"""Rows as arrays of one length; each row of an array [n, ...] is itself an array."""


class _Sink(Protocol):
    def add(self, columns: Columns) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None: ...


class ColumnFile:
    """A file of columns, which appears at the end of a `with` block without error.

    `.parquet` holds a table, with a row group for each added part and lists for array-valued rows. `.npz` holds an array for each
    column, as `numpy.load` reads it. Both need the memory of one part.

    Raises:
        ValueError: If the name has another ending, or pyarrow, which writes Parquet, is missing.
        OSError: If the file can't be written.
    """

    def __init__(self, path: str | os.PathLike[str]):
        check_column_file(path)
        self._path = Path(path).resolve()
        if is_special(self._path):
            raise ValueError(f"{str(path)!r} is a device or a pipe; give the name of a file")
        with create_beside(self._path) as file:
            self._temporary = Path(file.name)
        self._kinds: dict[str, tuple[np.dtype, tuple[int, ...]]] | None = None
        self._sink: _Sink = _Parquet(self._temporary) if self._path.suffix == ".parquet" else _Npz(self._temporary)

    def add(self, columns: Columns) -> None:
        """Add rows.

        Raises:
            ValueError: If names, types or shapes differ from the first part, or the columns differ in length.
        """
        kinds = {name: (values.dtype, values.shape[1:]) for name, values in columns.items()}
        self._kinds = kinds if self._kinds is None else self._kinds
        if kinds != self._kinds or len({len(values) for values in columns.values()}) != 1:
            raise ValueError(f"all parts must have columns of one length, as {self._kinds}, got {kinds}")
        self._sink.add(columns)

    def __enter__(self) -> ColumnFile:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self._sink.close()
                os.replace(self._temporary, self._path)
            else:
                self._sink.discard()
        finally:
            with suppress(FileNotFoundError):
                self._temporary.unlink()


def check_column_file(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if the name has no known format, or its format can't be written here."""
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"the name must end in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if suffix == ".parquet":
        from importlib.util import find_spec

        if find_spec("pyarrow") is None:
            raise ValueError("Parquet needs pyarrow: pip install 'unojax[data]', or give a name that ends in .npz")


class _Parquet:
    def __init__(self, path: Path):
        self._path, self._writer = path, None

    def add(self, columns: Columns) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = {}
        for name, values in columns.items():
            flat = pa.array(np.ascontiguousarray(values).ravel())
            # Innermost first: an array [n, a, b] is a list of a lists of b.
            for size in values.shape[:0:-1]:
                flat = pa.FixedSizeListArray.from_arrays(flat, size)
            arrays[name] = flat
        table = pa.table(arrays)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    discard = close


class _Npz:
    """NPZ writer. Columns grow in separate files, because each archive member is one array."""

    def __init__(self, path: Path):
        self._path = path
        self._folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.")
        self._kinds: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        self._num_rows = 0

    def add(self, columns: Columns) -> None:
        for name, values in columns.items():
            self._kinds.setdefault(name, (values.dtype, values.shape[1:]))
            with open(Path(self._folder.name) / name, "ab") as file:
                file.write(np.ascontiguousarray(values).tobytes())
        self._num_rows += len(next(iter(columns.values())))

    def close(self) -> None:
        with self._folder, zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, (dtype, shape) in self._kinds.items():
                header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (self._num_rows, *shape)}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, header)
                    with open(Path(self._folder.name) / name, "rb") as column:
                        while part := column.read(2**22):
                            member.write(part)

    def discard(self) -> None:
        self._folder.cleanup()
