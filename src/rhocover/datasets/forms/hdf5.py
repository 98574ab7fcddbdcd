"""HDF5 files with a column per data set, as D4RL has them: observations, actions, terminals, timeouts.

Columns inside groups (`infos/qpos`) are not looked at unless `columns` names them. The rules of Minari's
files hold (`minari.hdf5_objects`): only objects inside the file are opened, by plain links, and what a column
claims is checked before memory is taken. Columns are numbers, or texts of fixed length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets import tables
from rhocover.datasets.chunks import check_lengths
from rhocover.datasets.minari.columns import is_plain
from rhocover.datasets.minari.hdf5_objects import (
    check_chunks,
    check_inside,
    check_size,
    open_file,
    open_inside,
)
from rhocover.datasets.tables import MOST_ROW_BYTES, PIECE_BYTES, DataTable, Piece
from rhocover.errors import InvalidDataError, naming

MOST_NAMES = 10_000  # data sets that are listed
MOST_GROUPS = 100  # groups that are looked into, one inside the other or side by side


def hdf5_table(path: Path) -> DataTable:
    """Returns the data sets of an HDF5 file as a table; only the wanted ones are read, a piece at a time."""
    with naming(path), open_file(path) as file:
        names = tuple(islice(_names(file.id, (), set()), MOST_NAMES))

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with naming(path), open_file(path) as file:
            yield from _pieces(file, wanted)

    def borders(wanted: Sequence[str]) -> Sequence[int]:
        with naming(path), open_file(path) as file:
            num_rows = _num_rows({name: _opened(file, name) for name in wanted})
            return [*range(0, num_rows, tables.SIZE), num_rows]  # it can be read from any row

    def some_rows(wanted: Sequence[str], begin: int, stop: int) -> Iterator[Piece]:
        with naming(path), open_file(path) as file:
            yield from _pieces(file, wanted, begin, stop)

    return DataTable(names, pieces, str(path), borders=borders, some_rows=some_rows)


def _names(group: Any, path: tuple[str, ...], seen: set[Any]) -> Iterator[str]:
    """Yields the paths of the data sets below a group, each group once; other links are named, too."""
    from h5py import h5d, h5g, h5l, h5o  # pyright: ignore

    listed: list[tuple[bytes, bool]] = []

    def note(name: bytes, info: Any) -> int | None:
        listed.append((name, info.type == h5l.TYPE_HARD))
        return 1 if len(listed) >= MOST_NAMES else None

    group.links.iterate(note, info=True)
    for name, is_plain_link in listed:
        place = (*path, name.decode(errors="replace"))
        found = h5o.open(group, name) if is_plain_link else None
        if found is None or isinstance(found, h5d.DatasetID):
            yield "/".join(place)
        elif isinstance(found, h5g.GroupID) and len(seen) < MOST_GROUPS:
            address = h5o.get_info(found).addr
            if address not in seen:
                seen.add(address)
                yield from _names(found, place, seen)


def _num_rows(columns: Mapping[str, Any]) -> int:
    check_lengths({name: range(column.shape[0]) for name, column in columns.items()})
    return next(iter(columns.values())).shape[0]


def _pieces(file: Any, wanted: Sequence[str], begin: int = 0, stop: int | None = None) -> Iterator[Piece]:
    columns = {name: _opened(file, name) for name in wanted}
    num_rows = _num_rows(columns) if stop is None else min(stop, _num_rows(columns))
    widest = max(map(_row_bytes, columns.values()))
    size = min(tables.SIZE, max(1, PIECE_BYTES // max(widest, 1)))
    for row in range(begin, num_rows, size):
        yield {name: _read(column, row, min(size, num_rows - row)) for name, column in columns.items()}


def _row_bytes(column: Any) -> int:
    return column.dtype.itemsize * math.prod(column.shape[1:])


def _opened(file: Any, name: str) -> Any:
    """Returns a column, not read yet; raises if it is outside of the file or claims more than it can hold."""
    from h5py import h5d  # pyright: ignore

    dataset = open_inside(file.id, name.split("/"), f"`{name}`")
    if not isinstance(dataset, h5d.DatasetID):
        raise InvalidDataError.of(name, "is a group, expected a data set")
    check_inside(dataset, f"`{name}`")
    dtype, shape = dataset.dtype, dataset.shape or ()
    if not shape:
        raise InvalidDataError.of(name, "must be a column", "a single value or none")
    if dtype.kind == "O":
        raise InvalidDataError.of(
            name,
            "must hold numbers, or texts of fixed length",
            "texts or arrays of any length",
            remedy='Write them as numpy.array(names, "S").',
        )
    if not is_plain(dtype) and dtype.kind != "S":
        raise InvalidDataError.of(name, "must hold numbers, or texts of fixed length", f"dtype {dtype}")
    if dtype.kind == "S" and dtype.itemsize > tables.LONGEST_TEXT:
        raise InvalidDataError.of(name, f"has texts of {dtype.itemsize} characters")
    if (row_bytes := _row_bytes(dataset)) > MOST_ROW_BYTES:
        raise InvalidDataError.of(name, f"has {row_bytes} bytes per row; the limit is {MOST_ROW_BYTES}")
    file_bytes = file.id.get_filesize()
    check_size(dataset, dtype.itemsize * math.prod(shape), file_bytes, f"`{name}`")
    check_chunks(dataset, shape, file_bytes, f"`{name}`")
    return dataset


def _read(column: Any, row: int, count: int) -> Any:
    """Returns some rows of a column."""
    from h5py import h5s  # pyright: ignore

    array = np.empty((count, *column.shape[1:]), column.dtype)
    chosen = column.get_space()
    chosen.select_hyperslab((row, *(0 for _ in column.shape[1:])), array.shape)
    column.read(h5s.create_simple(array.shape), chosen, array)
    return array
