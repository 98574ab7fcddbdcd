"""Tables of transitions, in memory or in CSV and NPZ files: column names, and columns in pieces.

Other forms of data are opened as such tables, too (`forms`).

Files are data: nothing in them is ever unpickled or run. A file that is not of the kind that its name
suggests, or that is truncated, raises an error with its name and the reason. What a file claims about its
size is checked before it is unpacked.
"""

from __future__ import annotations

import csv
import gzip
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from rhocover.datasets.chunks import SIZE, check_lengths
from rhocover.errors import InvalidDataError, RhocoverError, naming, shortened
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
ENCRYPTED = 0x1  # a flag of a member
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


def check_names(archive: zipfile.ZipFile) -> None:
    """Raises if the directory of an archive names an array otherwise than the array itself does.

    Columns that are not wanted count, too: a next state under a damaged name would be taken for missing.
    """
    for member in archive.infolist():
        if member.compress_type in METHODS and not member.flag_bits & ENCRYPTED:
            archive.open(member).close()


def count_rows_of(archive: zipfile.ZipFile, wanted: Sequence[str]) -> int:
    """Returns how many rows the wanted columns have, from their headers."""
    with ExitStack() as stack:
        return _num_rows([_opened_npz(archive, name, stack) for name in wanted])


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


# Tables.

Piece = Mapping[str, Any]
MOST_CSV_ROWS = 2**15  # of a piece, because text takes much memory
LONGEST_TEXT = 1000  # characters: numbers, flags and names of episodes have fewer


@dataclass(frozen=True)
class DataTable:
    """The names of the columns, and a function that reads some of them in pieces; `name` is for texts.

    Pieces may be read only once. `remarks` are sentences about the data; reading may add to them. A table
    that can be read in ranges has `borders`, the rows at which some columns are best divided, from 0 to their
    number of rows, and `some_rows`, which reads the rows from one number up to another.
    """

    names: tuple[str, ...]
    pieces: Callable[[Sequence[str]], Iterator[Piece]]
    name: str
    num_rows: int = 0  # 0 if unknown
    remarks: list[str] = field(default_factory=list)
    has_roles: bool = False  # whether the columns that the caller chose for roles are found already
    borders: Callable[[Sequence[str]], Sequence[int]] | None = None
    some_rows: Callable[[Sequence[str], int, int], Iterator[Piece]] | None = None

    def rows(self, wanted: Sequence[str], begin: int, stop: int | None) -> Iterator[Piece]:
        """Yields pieces of the rows `begin` to `stop` - 1 of some columns; None stands for the last row."""
        if self.some_rows is not None and stop is not None:
            return self.some_rows(wanted, begin, stop)
        return rows_of_pieces(self.pieces(wanted), 0, begin, stop)


def rows_of_pieces(pieces: Iterator[Piece], row: int, begin: int, stop: int | None) -> Iterator[Piece]:
    """Yields what pieces, of which the first begins with `row`, have of the rows `begin` to `stop` - 1."""
    for piece in pieces:
        number = len(next(iter(piece.values())))
        low, high = max(begin - row, 0), number if stop is None else min(stop - row, number)
        if low < high:
            yield (
                piece if high - low == number else {name: values[low:high] for name, values in piece.items()}
            )
        row += number
        if stop is not None and row >= stop:
            return


def text_array(values: Sequence[str], name: str) -> Any:
    """Returns texts as an array, in which each takes as much memory as the longest."""
    longest = max(values, key=len, default="")
    if len(longest) > LONGEST_TEXT:
        raise InvalidDataError.of(name, f"has a text of {len(longest)} characters: {shortened(longest, 60)}")
    return np.array(values, str)


def table_of_columns(columns: Mapping[Any, Any], name: str) -> DataTable:
    """Returns columns in memory as a table."""
    arrays = {str(key): values for key, values in columns.items()}

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        held = {key: column_values(arrays[key], key) for key in wanted}
        check_lengths(held)
        num_rows = len(held[wanted[0]])
        for row in range(0, num_rows, SIZE):
            yield {key: values[row : row + SIZE] for key, values in held.items()}

    return DataTable(tuple(arrays), pieces, name)


def joined_tables(parts: Sequence[Callable[[], DataTable]], name: str) -> DataTable:
    """Returns tables with the same columns as one, in their order; each is opened when it is read."""
    first = parts[0]()

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        for number, opened in enumerate(parts):
            part = first if number == 0 else opened()
            lacking = [column for column in wanted if column not in part.names]
            if lacking:
                raise InvalidDataError(
                    f"{part.name} lacks the column {lacking[0]!r} that {first.name} has: its columns are "
                    f"{shortened(', '.join(part.names)) or 'none'}."
                )
            yield from part.pieces(wanted)

    return DataTable(first.names, pieces, name, remarks=first.remarks)


class NestedRows:
    """A column of dictionaries, stored as one array for each key; a slice is a list of dictionaries."""

    def __init__(self, parts: Mapping[Any, Any], name: str) -> None:
        self._parts = {key: column_values(values, f"{name}/{key}") for key, values in parts.items()}
        check_lengths({f"{name}/{key}": part for key, part in self._parts.items()})

    def __len__(self) -> int:
        return len(next(iter(self._parts.values()), ()))

    def __getitem__(self, rows: slice) -> list[dict[Any, Any]]:
        parts = {key: part[rows] for key, part in self._parts.items()}
        length = len(next(iter(parts.values()), ()))
        return [{key: part[t] for key, part in parts.items()} for t in range(length)]


def column_values(values: Any, name: str) -> Any:
    """Returns a column in memory as an array `[T, ...]`, or as nested rows."""
    if isinstance(values, Mapping):
        return NestedRows(values, name)
    try:
        array = np.asarray(values)
        array = _without_objects(array, name) if array.dtype.kind == "O" and array.ndim == 1 else array
    except InvalidDataError:
        raise
    except (ValueError, TypeError, MemoryError) as error:
        raise InvalidDataError.of(name, "must be one value per row", "rows of different lengths") from error
    if array.ndim == 0:
        raise InvalidDataError.of(name, "must be a column", f"one value: {shortened(repr(values))}")
    return array


def _without_objects(array: Any, name: str) -> Any:
    """Returns Python objects of one kind as an array of that kind; mixtures are returned as they are."""
    values = array.tolist()
    kinds = set(map(type, values))
    if kinds == {dict}:
        return array
    if all(issubclass(kind, str) for kind in kinds):
        return text_array(values, name)
    if all(issubclass(kind, np.ndarray | list | tuple) for kind in kinds):
        return np.stack([np.asarray(value) for value in values])
    is_flag = [issubclass(kind, bool | np.bool_) for kind in kinds]
    is_number = [issubclass(kind, int | float | np.number) for kind in kinds]
    whole = np.array(values) if all(is_flag) or (all(is_number) and not any(is_flag)) else array
    return array if whole.dtype.kind == "O" else whole


def npz_table(path: Path) -> DataTable:
    """Returns the arrays of an NPZ file as a table; only the wanted columns are read, a piece at a time."""
    what = "an NPZ file (numpy.savez)"
    with reading_file(path, what), zipfile.ZipFile(path) as archive:
        check_names(archive)
        names = column_names(archive)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with reading_file(path, what), zipfile.ZipFile(path) as archive:
            yield from read_columns(archive, wanted, SIZE)

    def borders(wanted: Sequence[str]) -> Sequence[int]:
        with reading_file(path, what), zipfile.ZipFile(path) as archive:
            return [0, count_rows_of(archive, wanted)]  # undivided: checksums are those of whole columns

    return DataTable(names, pieces, str(path), borders=borders)


def csv_table(path: Path) -> DataTable:
    """Returns a CSV file with a header as a table; commas, semicolons or tabs."""
    what = "a CSV file with a header"
    with reading_file(path, what), open_text(path) as file:
        names, delimiter = read_header(file)
    if not names:
        raise InvalidDataError(f"{path} is empty, expected {what}.")

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with reading_file(path, what), open_text(path) as file:
            for rows in read_fields(file, names, wanted, delimiter, MOST_CSV_ROWS):
                columns = zip(wanted, zip(*rows, strict=True), strict=True)
                yield {name: text_array(fields, name) for name, fields in columns}

    return DataTable(tuple(names), pieces, str(path))


@contextmanager
def open_text(path: Path) -> Iterator[Any]:
    """Yields a file of text, unpacked if its name ends in .gz."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    else:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file


@contextmanager
def reading_file(path: Path, what: str) -> Iterator[int]:
    """Yields the size of a file; errors of its reader become an InvalidDataError that names the file."""
    try:
        with naming(path):
            yield check_plain(path)
    except RhocoverError:
        raise
    except Exception as error:  # the errors of NumPy, zlib, zipfile and Arrow have no common class
        reason = shortened(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise InvalidDataError(f"{path} is damaged, or not {what}: {reason}.") from error
