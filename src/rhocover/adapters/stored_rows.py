"""A long array in a file, read some rows at a time: what memory need not hold as a whole.

`StoredRows` looks like the array it stands for (`shape`, `dtype`, `len`) and gives arrays for slices of rows.
`Spool` is a file without a name that such an array is written to, piece by piece.
"""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.files import naming_file

STRETCH_BYTES = 1 << 23  # read at a time


class StoredRows:
    """Rows `[T, ...]` that begin at byte `begin` of an open file, one after another."""

    def __init__(self, file: Any, begin: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._file, self._begin, self._stored = file, begin, dtype
        self.dtype, self.shape, self.ndim = dtype, shape, len(shape)
        self._read: Callable[[np.ndarray], np.ndarray] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Returns some rows, consecutive ones."""
        first, last, _ = rows.indices(len(self))
        result = np.empty((max(last - first, 0), *self.shape[1:]), self._stored)
        row_bytes = self._stored.itemsize * math.prod(self.shape[1:])
        read_into(self._file, result.reshape(-1).view(np.uint8).data, self._begin + first * row_bytes)
        return result if self._read is None else self._read(result)

    def read_by(self, read: Callable[[np.ndarray], np.ndarray], dtype: np.dtype[Any]) -> StoredRows:
        """Returns the same rows, each slice brought to another type by `read` when it is asked for."""
        result = StoredRows(self._file, self._begin, self._stored, self.shape)
        result.dtype, result._read = dtype, read
        return result


def read_into(file: Any, target: memoryview, position: int) -> None:
    """Fills `target` with what stands in an unbuffered file from `position` on."""
    file.seek(position)
    while len(target):
        count = file.readinto(target)
        if not count:
            raise OSError("the file ended while it was read")
        target = target[count:]


def stretches(rows: Any) -> Iterator[np.ndarray]:
    """Returns an array as it is, and stored rows some megabytes at a time."""
    if isinstance(rows, np.ndarray):
        yield rows
        return
    yield from windows(rows, STRETCH_BYTES // rows.dtype.itemsize)


def windows(values: Any, most: int) -> Iterator[Any]:
    """Returns arrays `[T, ...]` or nested ones some rows at a time: about `most` numbers, at least a row."""
    leaves = list(_leaves(values))
    num_rows, width = len(leaves[0]), sum(math.prod(leaf.shape[1:]) for leaf in leaves)
    step = max(1, most // max(1, width))
    for first in range(0, max(num_rows, 1), step):
        yield _cut(values, slice(first, first + step))


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, dict | tuple):
        for part in values.values() if isinstance(values, dict) else values:
            yield from _leaves(part)
    else:
        yield values


def _cut(values: Any, rows: slice) -> Any:
    if isinstance(values, dict):
        return {key: _cut(part, rows) for key, part in values.items()}
    return tuple(_cut(part, rows) for part in values) if isinstance(values, tuple) else values[rows]


class Spool:
    """Takes the rows of one long array; the file has no name and is gone when nobody needs it any more."""

    def __init__(self, folder: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        self._folder, self._dtype, self._row_shape, self._num_rows = folder, dtype, row_shape, 0
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self.seek, self.readinto = self._file.seek, self._file.readinto  # what `StoredRows` asks of a file

    def append(self, rows: np.ndarray) -> Spool:
        """Returns the spool with rows added: this one, or a copy where they need a finer type of number."""
        wanted = np.result_type(self._dtype, rows)
        if wanted != self._dtype:
            return self._copied(wanted).append(rows)
        raw = np.ascontiguousarray(rows).astype(wanted, copy=False).reshape(-1).view(np.uint8).data
        with naming_file(self._folder):
            self._file.seek(0, os.SEEK_END)
            while len(raw):
                raw = raw[self._file.write(raw) :]
        self._num_rows += len(rows)
        return self

    def _copied(self, dtype: np.dtype[Any]) -> Spool:
        copy = Spool(self._folder, dtype, self._row_shape)
        for piece in stretches(self.rows()):
            copy.append(piece)
        return copy

    def rows(self) -> StoredRows:
        """Returns all rows so far."""
        return StoredRows(self, 0, self._dtype, (self._num_rows, *self._row_shape))
