"""The columns of an NPZ file, a piece at a time: what a column claims is checked before it is unpacked.

An NPZ file is a ZIP archive of arrays, each behind a header with its type and shape. Only the columns that
are asked for are opened, and they are unpacked side by side, some rows of each at a time, so memory does not
grow with what a file says that it holds. Nothing is unpickled.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from rhocover.data.chunks import check_lengths
from rhocover.errors import InvalidDataError

PIECE_BYTES = 2**24  # of one column at a time
MOST_ROW = 2**26  # bytes of a row of one column: there is no reading less than a row
MOST_TURNED = 2**30  # bytes of an array in Fortran order, which has to be whole before its rows can be read
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
MOST_RATIO = 1100  # bytes out of one that is stored; the best that deflate can do is 1032
MOST_HEADER = 10_000  # letters, as NumPy's own limit


@dataclass(frozen=True)
class Column:
    """An array of the archive, its header read and nothing more."""

    name: str
    file: IO[bytes]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_turned: bool  # in Fortran order

    @property
    def row_bytes(self) -> int:
        """Returns how many bytes a row takes."""
        return self.dtype.itemsize * math.prod(self.shape[1:])


def column_names(archive: zipfile.ZipFile) -> tuple[str, ...]:
    """Returns the names of the arrays in an archive."""
    return tuple(dict.fromkeys(name.removesuffix(".npy") for name in archive.namelist()))


def read_columns(archive: zipfile.ZipFile, wanted: Sequence[str], most_rows: int) -> Iterator[dict[str, Any]]:
    """Yields the wanted columns, at most so many rows of each at a time, and fewer where they are wide."""
    with ExitStack() as stack:
        columns = [_opened(archive, name, stack) for name in wanted]
        num_rows = _num_rows(columns)
        size = min(most_rows, _piece_rows(columns))
        whole = {column.name: _turned(column) for column in columns if column.is_turned}
        for row in range(0, num_rows, size):
            count = min(size, num_rows - row)
            yield {
                column.name: whole[column.name][row : row + count]
                if column.is_turned
                else _rows(column, count)
                for column in columns
            }
        for column in columns:
            if column.file.read(1):  # also makes the archive compare its checksum
                raise InvalidDataError(
                    f"`{column.name}` holds more bytes than its shape {column.shape} takes."
                )


def _opened(archive: zipfile.ZipFile, name: str, stack: ExitStack) -> Column:
    """Returns a column whose header is read; refuses one that claims more than its bytes can be."""
    member = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.NameToInfo else name)
    if member.compress_type not in METHODS:
        raise InvalidDataError(
            f"`{name}` is packed by method {member.compress_type} of ZIP. Write the file with numpy.savez."
        )
    file = stack.enter_context(archive.open(member))
    dtype, shape, is_turned = _header(file, name)
    column = Column(name, file, dtype, shape, is_turned)
    claimed = dtype.itemsize * math.prod(shape)
    if claimed > member.file_size or member.file_size > MOST_RATIO * max(member.compress_size, 1):
        raise InvalidDataError(
            f"`{name}` claims {claimed} bytes (shape {shape}) of {member.file_size}, and the file stores "
            f"{member.compress_size} for them: it is damaged, or packed to do harm. Write it again with "
            "numpy.savez."
        )
    _check_row(column, claimed)
    return column


def _check_row(column: Column, claimed: int) -> None:
    if column.row_bytes > MOST_ROW:
        raise InvalidDataError(
            f"`{column.name}` takes {column.row_bytes} bytes a row, of shape {column.shape}; at most "
            f"{MOST_ROW} are read at once."
        )
    if column.is_turned and claimed > MOST_TURNED:
        raise InvalidDataError(
            f"`{column.name}` has {claimed} bytes in Fortran order, of which at most {MOST_TURNED} are read. "
            "Write it in C order (numpy.ascontiguousarray)."
        )


def _header(file: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Returns (type, shape, whether it is in Fortran order) as an array's header says."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"`{name}` has format {version} of arrays")
    shape, is_turned, dtype = readers[version](file, max_header_size=MOST_HEADER)
    if dtype.hasobject:
        raise ValueError(f"`{name}` holds Python objects, which are never unpickled")
    if not shape:
        raise InvalidDataError(f"`{name}` must be a column, got one value.")
    if min(shape) < 0:
        raise ValueError(f"`{name}` has shape {shape}")
    return dtype, shape, is_turned and len(shape) > 1


def _num_rows(columns: Sequence[Column]) -> int:
    check_lengths({column.name: range(column.shape[0]) for column in columns})
    return columns[0].shape[0]


def _piece_rows(columns: Sequence[Column]) -> int:
    """Returns how many rows are read at a time: few where one of the columns is wide."""
    widest = max(column.row_bytes for column in columns)
    return max(1, PIECE_BYTES // max(widest, 1))


def _rows(column: Column, count: int) -> Any:
    """Returns the next rows."""
    size = count * column.row_bytes
    return _read(column, size).reshape(count, *column.shape[1:])


def _turned(column: Column) -> Any:
    """Returns a whole array that was written in Fortran order."""
    return _read(column, column.shape[0] * column.row_bytes).reshape(column.shape, order="F")


def _read(column: Column, size: int) -> Any:
    """Returns the next values, of so many bytes."""
    payload = column.file.read(size)
    if len(payload) != size:
        raise InvalidDataError(f"`{column.name}` ends in the midst.")
    values = np.frombuffer(payload, np.uint8).view(column.dtype)
    if column.dtype.kind == "U":
        _check_letters(values.view(column.dtype.byteorder + "u4"), column.name)
    return values


def _check_letters(codes: Any, name: str) -> None:
    """Refuses numbers that are no letters of Unicode; Python fails on some and cannot print others."""
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))
    if bad.any():
        raise InvalidDataError(f"`{name}` has a text with the letter {int(codes[bad][0]):#x}, which is none.")
