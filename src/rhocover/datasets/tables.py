"""Tables of transitions, in memory or in CSV, NPZ and Parquet files: column names, and columns in pieces.

Files are data: nothing in them is ever unpickled or run. A file that is not of the kind that its name
suggests, or that is truncated, raises an error with its name and the reason. What a file claims about its
size is checked before it is unpacked.
"""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from rhocover.datasets.columns import SIZE, check_lengths
from rhocover.errors import InvalidDataError, RhocoverError, missing_extra, naming, shortened
from rhocover.files import check_plain

# CSV: the rows, some at a time. Text takes much memory, so only the requested fields of a row are kept, and
# the longer the rows, the fewer are read at a time. A row that becomes too long raises an error.

MOST_LETTERS = 2**22  # characters of a row, or of the header: enough for 10^5 columns
PIECE_LETTERS = 2**23  # characters of the rows read at a time, if all were as long as the longest


class Lines:
    """The lines of a file; `letters` counts the characters since it was set to 0, at most those of a row."""

    def __init__(self, file: IO[str]) -> None:
        self.letters, self._readline = 0, file.readline

    def __iter__(self) -> Iterator[str]:
        while line := self._readline(MOST_LETTERS + 1):
            self.letters += len(line)
            if self.letters > MOST_LETTERS:  # a quoted field may run over many lines
                raise InvalidDataError(
                    f"it has a row of more than {MOST_LETTERS} characters. Is a line break or a closing "
                    "quote missing?"
                )
            yield line


def read_header(file: IO[str]) -> tuple[list[str], str]:
    """Returns the names of the columns and their separator: a comma, a semicolon or a tab."""
    header = next(iter(Lines(file)), "")
    delimiter = max(",;\t", key=header.count)
    return next(csv.reader([header], delimiter=delimiter), []), delimiter


def read_fields(
    file: IO[str], names: Sequence[str], wanted: Sequence[str], delimiter: str, most_rows: int
) -> Iterator[list[tuple[str, ...]]]:
    """Yields the fields of the wanted columns, at most `most_rows` rows at a time; `names` is the header."""
    lines = Lines(file)
    reader = csv.reader(iter(lines), delimiter=delimiter)
    if next(reader, None) != list(names):
        raise ValueError("it changed while it was read")
    pick, width = _picker([list(names).index(name) for name in wanted]), len(names)
    rows: list[tuple[str, ...]] = []
    room, longest = most_rows, 0
    for row in reader:
        if lines.letters > longest:
            longest = lines.letters
            room = min(most_rows, max(1, PIECE_LETTERS // longest))
            if len(rows) >= room:
                yield rows
                rows = []
        lines.letters = 0
        if len(row) == width:
            rows.append(pick(row))
        elif row:
            raise _other_width(len(row), width, reader.line_num)
        if len(rows) >= room:
            yield rows
            rows, room, longest = [], most_rows, 0
    if rows:
        yield rows


def _picker(places: Sequence[int]) -> Any:
    """Returns the function that returns the fields at these indices as a tuple."""
    return itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)


def _other_width(came: int, width: int, line: int) -> InvalidDataError:
    return InvalidDataError(f"line {line} has {came} fields, but the header has {width}. Was it cut short?")


# NPZ: a ZIP archive of arrays, each with a header that gives its type and shape. Only the requested columns
# are opened, and they are unpacked side by side, some rows of each at a time, so memory does not grow with
# the size that a file claims.

PIECE_BYTES = 2**24  # of one column at a time
MOST_ROW_BYTES = 2**26  # bytes of a row of one column, which is the least that can be read
MOST_TURNED = 2**30  # bytes of an array in Fortran order, which must be read whole to get its rows
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that NumPy writes
MOST_RATIO = 1100  # unpacked bytes per stored byte; deflate reaches at most 1032
MOST_HEADER = 10_000  # characters, NumPy's own limit


@dataclass(frozen=True)
class ArchiveArray:
    """An array of the archive of which only the header has been read."""

    name: str
    file: IO[bytes]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_turned: bool  # in Fortran order

    @property
    def row_bytes(self) -> int:
        """The size of a row in bytes."""
        return self.dtype.itemsize * math.prod(self.shape[1:])


def column_names(archive: zipfile.ZipFile) -> tuple[str, ...]:
    """Returns the names of the arrays in an archive."""
    return tuple(dict.fromkeys(name.removesuffix(".npy") for name in archive.namelist()))


def read_columns(archive: zipfile.ZipFile, wanted: Sequence[str], most_rows: int) -> Iterator[dict[str, Any]]:
    """Yields the wanted columns, at most `most_rows` rows at a time, and fewer if they are wide."""
    with ExitStack() as stack:
        columns = [_opened_npz(archive, name, stack) for name in wanted]
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
                    f"`{column.name}` has more bytes than an array of its shape {column.shape}."
                )


def _opened_npz(archive: zipfile.ZipFile, name: str, stack: ExitStack) -> ArchiveArray:
    """Returns a column after reading its header; raises if it claims more than its bytes can hold."""
    member = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.NameToInfo else name)
    if member.compress_type not in METHODS:
        raise InvalidDataError.of(
            name,
            f"is packed with ZIP method {member.compress_type}, which is not supported",
            remedy="Write the file with numpy.savez.",
        )
    file = stack.enter_context(archive.open(member))
    dtype, shape, is_turned = _header(file, name)
    column = ArchiveArray(name, file, dtype, shape, is_turned)
    claimed = dtype.itemsize * math.prod(shape)
    if claimed > member.file_size or member.file_size > MOST_RATIO * max(member.compress_size, 1):
        raise InvalidDataError.of(
            name,
            f"claims {claimed} bytes (shape {shape}) of {member.file_size}, but the file stores "
            f"{member.compress_size} for them: it is damaged or malicious",
            remedy="Write it again with numpy.savez.",
        )
    _check_row(column, claimed)
    return column


def _check_row(column: ArchiveArray, claimed: int) -> None:
    if column.row_bytes > MOST_ROW_BYTES:
        raise InvalidDataError(
            f"`{column.name}` has {column.row_bytes} bytes per row (shape {column.shape}), but at most "
            f"{MOST_ROW_BYTES} are read at once."
        )
    if column.is_turned and claimed > MOST_TURNED:
        raise InvalidDataError(
            f"`{column.name}` has {claimed} bytes in Fortran order; the limit is {MOST_TURNED}. Write it in "
            "C order (numpy.ascontiguousarray)."
        )


def _header(file: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Returns type, shape, and whether it is in Fortran order, from the header of an array."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"`{name}` has version {version} of the array format")
    shape, is_turned, dtype = readers[version](file, max_header_size=MOST_HEADER)
    if dtype.hasobject:
        raise ValueError(f"`{name}` contains Python objects, which are never unpickled")
    if not shape:
        raise InvalidDataError.of(name, "must be a column", "one value")
    if min(shape) < 0:
        raise ValueError(f"`{name}` has shape {shape}")
    return dtype, shape, is_turned and len(shape) > 1


def _num_rows(columns: Sequence[ArchiveArray]) -> int:
    check_lengths({column.name: range(column.shape[0]) for column in columns})
    return columns[0].shape[0]


def _piece_rows(columns: Sequence[ArchiveArray]) -> int:
    """Returns how many rows are read at a time: few if one of the columns is wide."""
    widest = max(column.row_bytes for column in columns)
    return max(1, PIECE_BYTES // max(widest, 1))


def _rows(column: ArchiveArray, count: int) -> Any:
    """Returns the next rows."""
    size = count * column.row_bytes
    return _read(column, size).reshape(count, *column.shape[1:])


def _turned(column: ArchiveArray) -> Any:
    """Returns a whole array that was written in Fortran order."""
    return _read(column, column.shape[0] * column.row_bytes).reshape(column.shape, order="F")


def _read(column: ArchiveArray, size: int) -> Any:
    """Returns the next `size` bytes as values."""
    payload = column.file.read(size)
    if len(payload) != size:
        raise InvalidDataError(f"`{column.name}` is truncated.")
    values = np.frombuffer(payload, np.uint8).view(column.dtype)
    if column.dtype.kind == "U":
        _check_letters(values.view(column.dtype.byteorder + "u4"), column.name)
    return values


def _check_letters(codes: Any, name: str) -> None:
    """Raises for numbers that are not Unicode characters; Python fails on some and cannot print others."""
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))
    if bad.any():
        raise InvalidDataError.of(
            name, f"has a text with {int(codes[bad][0]):#x}, which is not a Unicode character"
        )


# Parquet: a file keeps each distinct text of a column once, and runs of equal values as one, so a small file
# may unpack to more than fits into memory. The footer is checked before columns are unpacked, and the length
# of texts where they are stored once.

MOST_ROWS = 10**5  # per byte of the file; runs of equal values give about 500 with pages of the usual size
MOST_COLUMN = 2**30  # bytes of a column of text or lists in one row group, which are unpacked together
LONGEST_TEXT = 1000  # characters: numbers, flags and names of episodes have fewer


def open_parquet(path: Path, texts: Sequence[str] = ()) -> Any:
    """Returns the open file; the columns in `texts` are read with each distinct value once."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    return parquet.ParquetFile(path, read_dictionary=list(texts))


def text_columns(file: Any) -> list[str]:
    """Returns the names of the columns of text or bytes."""
    import pyarrow.types as types

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return [field.name for field in file.schema_arrow if any(test(field.type) for test in tests)]


def check_footer(file: Any, wanted: Sequence[str], file_bytes: int) -> None:
    """Raises if a file claims far more than its bytes can hold."""
    about = file.metadata
    if about.num_rows > MOST_ROWS * file_bytes:
        raise InvalidDataError(
            f"it claims {about.num_rows} rows in {file_bytes} bytes: it is damaged or malicious."
        )
    if not _has_text_or_lists(file, wanted):  # otherwise some damages below make Arrow end the process
        return
    for group in range(about.num_row_groups):
        for number in range(about.num_columns):
            _check_column(about.row_group(group).column(number), wanted)


def _has_text_or_lists(file: Any, wanted: Sequence[str]) -> bool:
    """Whether a wanted column may unpack to more than its rows times the width of a number."""
    import pyarrow.types as types

    return not all(types.is_primitive(field.type) for field in file.schema_arrow if field.name in wanted)


def _check_column(column: Any, wanted: Sequence[str]) -> None:
    name = column.path_in_schema.partition(".")[0]
    is_plain = (
        column.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY") and name == column.path_in_schema
    )
    size = max(column.total_uncompressed_size, 0 if is_plain else 8 * column.num_values)
    if name in wanted and not is_plain and size > MOST_COLUMN:
        raise InvalidDataError.of(
            name,
            f"has {size} bytes in one row group; the limit is {MOST_COLUMN}",
            remedy="States and actions are numbers; write text and lists in smaller row groups.",
        )


def read_batches(file: Any, wanted: Sequence[str], size: int) -> Iterator[dict[str, Any]]:
    """Yields the wanted columns, `size` rows at a time."""
    row = 0
    for batch in _ahead(file.iter_batches(size, columns=list(wanted))):
        yield {name: _column(batch.column(name), name, row) for name in wanted}
        row += batch.num_rows


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yields the batches; while one is used, the next is read."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _column(column: Any, name: str, first_row: int) -> Any:
    """Returns a column of an Arrow batch as an array, without a copy if possible."""
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidDataError.of(name, "must have a value in every row", f"none in row {row}")
    if hasattr(column, "dictionary"):
        return _looked_up(column, name)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return text_array(values, name)
    return values


def _looked_up(column: Any, name: str) -> Any:
    """Returns a dictionary-encoded column; long texts raise before they are repeated."""
    import pyarrow.types as types

    kept = column.dictionary
    if types.is_string(kept.type) or types.is_large_string(kept.type):
        return text_array(kept.to_pylist(), name)[column.indices.to_numpy(zero_copy_only=False)]
    if types.is_binary(kept.type) or types.is_large_binary(kept.type):
        raise InvalidDataError.of(name, "must hold whole numbers", "bytes")
    return column.dictionary_decode().to_numpy(zero_copy_only=False)


def text_array(values: Sequence[str], name: str) -> Any:
    """Returns texts as an array, in which each takes as much memory as the longest."""
    longest = max(values, key=len, default="")
    if len(longest) > LONGEST_TEXT:
        raise InvalidDataError.of(name, f"has a text of {len(longest)} characters: {shortened(longest, 60)}")
    return np.array(values, str)


# Tables.

Piece = Mapping[str, Any]
MOST_CSV_ROWS = 2**15  # of a piece, because text takes much memory


@dataclass(frozen=True)
class DataTable:
    """The names of the columns, and a function that reads some of them in pieces; `name` is for texts."""

    names: tuple[str, ...]
    pieces: Callable[[Sequence[str]], Iterator[Piece]]
    name: str
    num_rows: int = 0  # 0 if unknown


def table_of_columns(columns: Mapping[Any, Any], name: str) -> DataTable:
    """Returns columns in memory as a table."""
    arrays = {str(key): values for key, values in columns.items()}

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        held = {key: _array(arrays[key], key) for key in wanted}
        check_lengths(held)
        num_rows = len(held[wanted[0]])
        for row in range(0, num_rows, SIZE):
            yield {key: values[row : row + SIZE] for key, values in held.items()}

    return DataTable(tuple(arrays), pieces, name)


def _array(values: Any, name: str) -> Any:
    try:
        array = np.asarray(values)
    except (ValueError, MemoryError) as error:
        raise InvalidDataError.of(name, "must be one value per row", "rows of different lengths") from error
    if array.ndim == 0:
        raise InvalidDataError.of(name, "must be a column", f"one value: {values!r}")
    return array


def npz_table(path: Path) -> DataTable:
    """Returns the arrays of an NPZ file as a table; only the wanted columns are read, a piece at a time."""
    what = "an NPZ file (numpy.savez)"
    with _reading(path, what), zipfile.ZipFile(path) as archive:
        names = column_names(archive)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with _reading(path, what), zipfile.ZipFile(path) as archive:
            yield from read_columns(archive, wanted, SIZE)

    return DataTable(names, pieces, str(path))


def csv_table(path: Path) -> DataTable:
    """Returns a CSV file with a header as a table; commas, semicolons or tabs."""
    what = "a CSV file with a header"
    with _reading(path, what), _opened(path) as file:
        names, delimiter = read_header(file)
    if not names:
        raise InvalidDataError(f"{path} is empty, expected {what}.")

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with _reading(path, what), _opened(path) as file:
            for rows in read_fields(file, names, wanted, delimiter, MOST_CSV_ROWS):
                columns = zip(wanted, zip(*rows, strict=True), strict=True)
                yield {name: text_array(fields, name) for name, fields in columns}

    return DataTable(tuple(names), pieces, str(path))


def parquet_table(path: Path) -> DataTable:
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

    return DataTable(names, pieces, str(path), num_rows)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield file


@contextmanager
def _reading(path: Path, what: str) -> Iterator[int]:
    """Yields the size of a file; errors of its reader become an InvalidDataError that names the file."""
    try:
        with naming(path):
            yield check_plain(path)
    except RhocoverError:
        raise
    except Exception as error:  # the errors of NumPy, zlib, zipfile and Arrow have no common class
        reason = shortened(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise InvalidDataError(f"{path} is damaged, or not {what}: {reason}.") from error


READERS: dict[str, Callable[[Path], DataTable]] = {
    ".npz": npz_table,
    ".csv": csv_table,
    ".tsv": csv_table,
    ".parquet": parquet_table,
    ".pq": parquet_table,
}
