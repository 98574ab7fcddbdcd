"""Tables of transitions, in memory or in a file: their column names, and their columns in pieces.

Files are data: nothing in them is ever unpickled or run. A file that is not what its name says, or ends in
the midst, is refused with its name and what is wrong.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.data import csv_files, npz_files
from rhocover.data.chunks import SIZE, check_lengths
from rhocover.data.parquet_files import check_footer, open_parquet, read_batches, text_array, text_columns
from rhocover.errors import InvalidDataError, RhocoverError, shortened
from rhocover.plain_files import check_plain

Piece = Mapping[str, Any]
MOST_CSV_ROWS = 2**15  # of a piece: text takes much room


@dataclass(frozen=True)
class Table:
    """Names of columns, and the wanted ones in pieces; `name` is what it is called in sentences."""

    names: tuple[str, ...]
    pieces: Callable[[Sequence[str]], Iterator[Piece]]
    name: str
    num_rows: int = 0  # 0 where that is not known


def table_of_columns(columns: Mapping[Any, Any], name: str) -> Table:
    """Returns columns at hand as a table."""
    arrays = {str(key): values for key, values in columns.items()}

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        held = {key: _array(arrays[key], key) for key in wanted}
        check_lengths(held)
        num_rows = len(held[wanted[0]])
        for row in range(0, num_rows, SIZE):
            yield {key: values[row : row + SIZE] for key, values in held.items()}

    return Table(tuple(arrays), pieces, name)


def _array(values: Any, name: str) -> Any:
    try:
        array = np.asarray(values)
    except (ValueError, MemoryError) as error:
        raise InvalidDataError(f"`{name}` must be one value a row, got rows of different lengths.") from error
    if array.ndim == 0:
        raise InvalidDataError(f"`{name}` must be a column, got one value: {values!r}.")
    return array


def npz_table(path: Path) -> Table:
    """Returns the arrays of an NPZ file as a table; only the wanted columns are read, a piece at a time."""
    what = "an NPZ file (numpy.savez)"
    with _reading(path, what), zipfile.ZipFile(path) as archive:
        names = npz_files.column_names(archive)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with _reading(path, what), zipfile.ZipFile(path) as archive:
            yield from npz_files.read_columns(archive, wanted, SIZE)

    return Table(names, pieces, str(path))


def csv_table(path: Path) -> Table:
    """Returns a CSV file with a header as a table; commas, semicolons or tabs."""
    what = "a CSV file with a header"
    with _reading(path, what), _opened(path) as file:
        names, delimiter = csv_files.read_header(file)
    if not names:
        raise InvalidDataError(f"{path} is empty, expected {what}.")

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with _reading(path, what), _opened(path) as file:
            for rows in csv_files.read_fields(file, names, wanted, delimiter, MOST_CSV_ROWS):
                columns = zip(wanted, zip(*rows, strict=True), strict=True)
                yield {name: text_array(fields, name) for name, fields in columns}

    return Table(tuple(names), pieces, str(path))


def parquet_table(path: Path) -> Table:
    """Returns a Parquet file as a table; only the wanted columns are read, a piece at a time."""
    what = "a Parquet file"
    with _reading(path, what) as size, open_parquet(path) as file:
        names, num_rows = tuple(file.schema_arrow.names), file.metadata.num_rows
        check_footer(file, (), size)
        texts = text_columns(file)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with _reading(path, what) as size, open_parquet(path, texts) as file:
            check_footer(file, wanted, size)
            yield from read_batches(file, wanted, SIZE)

    return Table(names, pieces, str(path), num_rows)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield file


@contextmanager
def _reading(path: Path, what: str) -> Iterator[int]:
    """Returns the size of a file; what a reader raises about a damaged one becomes a refusal by name."""
    try:
        yield check_plain(path)
    except RhocoverError as error:
        if isinstance(error, InvalidDataError) and str(path) not in str(error):
            raise InvalidDataError(f"{path}: {error}") from error
        raise
    except Exception as error:  # what NumPy, zlib, zipfile and Arrow raise has no common class
        said = shortened(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise InvalidDataError(f"{path} is damaged, or not {what}: {said}.") from error


READERS: dict[str, Callable[[Path], Table]] = {
    ".npz": npz_table,
    ".csv": csv_table,
    ".tsv": csv_table,
    ".parquet": parquet_table,
    ".pq": parquet_table,
}
