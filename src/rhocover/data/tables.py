"""Tables of transitions, in memory or in a file: their column names, and their columns in pieces.

Files are data: nothing in them is ever unpickled or run. A file that is not what its name says, or ends in
the midst, is refused with its name and what is wrong.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.data.chunks import SIZE, check_lengths
from rhocover.errors import InvalidDataError, missing_extra, shortened

Piece = Mapping[str, Any]
MOST_CSV_ROWS = 2**15  # of a piece: text takes much room
LONGEST_TEXT = 1000  # letters: numbers, flags and names of episodes have fewer


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
    """Returns the arrays of an NPZ file as a table."""
    with _reading(path, "an NPZ file (numpy.savez)"), path.open("rb") as opened:
        file = np.load(opened, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array alone")
        columns = {name: file[name] for name in file.files}
    return table_of_columns(columns, str(path))


def csv_table(path: Path) -> Table:
    """Returns a CSV file with a header as a table; commas, semicolons or tabs."""
    with _reading(path, "a CSV file with a header"), _opened(path) as file:
        header = file.readline()
        delimiter = max(",;\t", key=header.count)
        names = next(csv.reader([header], delimiter=delimiter), [])
    if not names:
        raise InvalidDataError(f"{path} is empty, expected a CSV file with a header.")

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        place = {name: names.index(name) for name in wanted}
        with _reading(path, "a CSV file with a header"), _opened(path) as file:
            reader = csv.reader(file, delimiter=delimiter)
            if next(reader, None) != names:
                raise ValueError("it changed while it was read")
            filled = (row for row in reader if row)
            while rows := list(itertools.islice(filled, MOST_CSV_ROWS)):
                _check_width(rows, len(names), path, reader.line_num)
                yield {name: _texts([row[k] for row in rows], name) for name, k in place.items()}

    return Table(tuple(names), pieces, str(path))


def _check_width(rows: list[list[str]], width: int, path: Path, line: int) -> None:
    for number, row in enumerate(rows):
        if len(row) != width:
            raise InvalidDataError(
                f"{path} has {len(row)} fields near line {line - len(rows) + number + 1}, its header "
                f"{width}. Was it cut short?"
            )


def parquet_table(path: Path) -> Table:
    """Returns a Parquet file as a table; only the wanted columns are read, a piece at a time."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    with _reading(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        names, num_rows = tuple(file.schema_arrow.names), file.metadata.num_rows

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with _reading(path, "a Parquet file"), parquet.ParquetFile(path) as file:
            row = 0
            for batch in _ahead(file.iter_batches(SIZE, columns=list(wanted))):
                yield {name: _arrow_column(batch.column(name), name, row) for name in wanted}
                row += batch.num_rows

    return Table(names, pieces, str(path), num_rows)


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Returns the batches; while one is used, the next is read."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _arrow_column(column: Any, name: str, first_row: int) -> Any:
    """Returns a column of an Arrow batch as an array, without a copy where that can be."""
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidDataError(f"`{name}` must have a value in every row, got none in row {row}.")
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return _texts(values, name)
    return values


def _texts(values: Sequence[str], name: str) -> Any:
    """Returns texts as an array, in which each takes the room of the longest."""
    longest = max(values, key=len, default="")
    if len(longest) > LONGEST_TEXT:
        raise InvalidDataError(f"`{name}` has a text of {len(longest)} letters: {shortened(longest, 60)}.")
    return np.array(values, str)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield file


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Turns what a reader raises about a damaged file into a refusal that names it."""
    try:
        yield
    except InvalidDataError:
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
