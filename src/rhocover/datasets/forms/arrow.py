"""Arrow data as tables: Parquet files, Arrow and Feather files, and the tables of pyarrow itself.

A Parquet file keeps each distinct text of a column once, and runs of equal values as one, so a small file may
unpack to more than fits into memory. The footer is checked before columns are unpacked, and the length of
texts where they are stored once. In an Arrow or Feather file, the size to which its batches unpack is checked
before they are, and every batch is validated, because its offsets may lead anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets import tables
from rhocover.datasets.minari.arrow import footer_blocks, unpacked_bytes
from rhocover.datasets.tables import PIECE_BYTES, DataTable, NestedRows, Piece, reading_file, text_array
from rhocover.errors import InvalidDataError, missing_extra, shortened

# Columns of Arrow as arrays.


def pieces_of_batches(batches: Iterator[Any], wanted: Sequence[str]) -> Iterator[Piece]:
    """Yields the wanted columns of record batches, in pieces of bounded size."""
    row = 0
    for batch in batches:
        places = [_place(batch.schema, name) for name in wanted]
        row_bytes = sum(batch.column(place).nbytes for place in places) // max(batch.num_rows, 1)
        size = max(1, min(tables.SIZE, PIECE_BYTES * len(wanted) // max(row_bytes, 1)))
        for begin in range(0, batch.num_rows, size):
            part = batch.slice(begin, size)
            columns = zip(wanted, places, strict=True)
            yield {name: array_of(part.column(place), name, row + begin) for name, place in columns}
        row += batch.num_rows


def _place(schema: Any, name: str) -> int:
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        what = "several columns" if found else "no column"
        raise InvalidDataError(f"it has {what} named {name!r}.")
    return found[0]


def array_of(column: Any, name: str, first_row: int) -> Any:
    """Returns a column of an Arrow batch as an array `[T, ...]`, without a copy if possible."""
    import pyarrow.types as types

    column = getattr(column, "storage", column)  # of types that other packages register
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidDataError.of(name, "must have a value in every row", f"none in row {row}")
    if hasattr(column, "dictionary"):
        return _looked_up(column, name)
    if _is_list(column.type):
        return _of_lists(column, name)
    if types.is_struct(column.type):
        fields = zip(column.type, column.flatten(), strict=True)
        return NestedRows({kind.name: array_of(part, name, first_row) for kind, part in fields}, name)[:]
    column = _without_views(column, name)
    try:
        values = column.to_numpy(zero_copy_only=False)
    except (NotImplementedError, TypeError) as error:  # structs, maps, unions
        kind = shortened(column.type, 100)
        raise InvalidDataError.of(name, "must hold numbers or names", f"the type {kind}") from error
    if values.dtype.kind == "O" and types.is_nested(column.type):
        raise InvalidDataError.of(
            name, "must hold numbers or names", f"the type {shortened(column.type, 100)}"
        )
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return text_array(values, name)
    return values


def _without_views(column: Any, name: str) -> Any:
    """Returns texts that are stored as views as plain texts; many views may be of one long text."""
    import pyarrow as pa
    import pyarrow.types as types

    if not types.is_string_view(column.type):
        return column
    views = np.frombuffer(column.buffers()[1] or b"", np.int32).reshape(-1, 4)  # length, and where it is
    longest = int(views[column.offset : column.offset + len(column), 0].max(initial=0))
    if longest > tables.LONGEST_TEXT:
        raise InvalidDataError.of(name, f"has a text of {longest} characters")
    return column.cast(pa.large_string())


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)


def _of_lists(column: Any, name: str) -> Any:
    """Returns lists of equal length, possibly nested, as an array."""
    import pyarrow.types as types

    shape = [len(column)]
    while _is_list(column.type):
        lengths = None
        if not types.is_fixed_size_list(column.type):
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        width = column.type.list_size if lengths is None else int(lengths[0]) if lengths.size else 0
        if lengths is not None and (lengths != width).any():
            raise InvalidDataError.of(name, "must be one value per row", "rows of different lengths")
        column = column.flatten()
        column = getattr(column, "storage", column)
        shape.append(width)
        if column.null_count:
            raise InvalidDataError.of(name, "must have a value in every place of its lists", "none in one")
    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise InvalidDataError.of(name, "must hold lists of numbers", f"lists of {shortened(kind)}")
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def _looked_up(column: Any, name: str) -> Any:
    """Returns a dictionary-encoded column; long texts raise before they are repeated."""
    import pyarrow.types as types

    kept = _without_views(column.dictionary, name)
    if kept.null_count:
        raise InvalidDataError.of(name, "must have a value in every row", "a category without a name")
    if types.is_string(kept.type) or types.is_large_string(kept.type):
        return text_array(kept.to_pylist(), name)[column.indices.to_numpy(zero_copy_only=False)]
    if types.is_binary(kept.type) or types.is_large_binary(kept.type):
        raise InvalidDataError.of(name, "must hold whole numbers", "bytes")
    return column.dictionary_decode().to_numpy(zero_copy_only=False)


def need_pyarrow() -> None:
    """Raises with the line that installs it if pyarrow is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error


# Parquet.

MOST_ROWS = 10**5  # per byte of the file; runs of equal values give about 500 with pages of the usual size
MOST_COLUMN = 2**30  # bytes of a column of text or lists in one row group, which are unpacked together


def open_parquet(path: Path, texts: Sequence[str] = ()) -> Any:
    """Returns the open file; the columns in `texts` are read with each distinct value once."""
    need_pyarrow()
    import pyarrow.parquet as parquet

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


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yields the batches; while one is used, the next is read."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def parquet_table(path: Path) -> DataTable:
    """Returns a Parquet file as a table; only the wanted columns are read, a piece at a time."""
    what = "a Parquet file"
    with reading_file(path, what) as size, open_parquet(path) as file:
        names, num_rows = tuple(file.schema_arrow.names), file.metadata.num_rows
        check_footer(file, (), size)
        texts = text_columns(file)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with reading_file(path, what) as size, open_parquet(path, texts) as file:
            check_footer(file, wanted, size)
            if is_part(file, wanted):
                yield from _pieces_of_part(file, wanted)
                return
            batches = file.iter_batches(tables.SIZE, columns=list(wanted))
            yield from pieces_of_batches(_ahead(batches), wanted)

    def borders(wanted: Sequence[str]) -> Sequence[int]:
        with reading_file(path, what), open_parquet(path) as file:
            return _group_borders(file)

    def some_rows(wanted: Sequence[str], begin: int, stop: int) -> Iterator[Piece]:
        with reading_file(path, what) as size, open_parquet(path, texts) as file:
            check_footer(file, wanted, size)
            if is_part(file, wanted):
                yield from tables.rows_of_pieces(_pieces_of_part(file, wanted), 0, begin, stop)
                return
            first = _group_borders(file)
            groups = [k for k in range(len(first) - 1) if first[k] < stop and first[k + 1] > begin]
            batches = file.iter_batches(tables.SIZE, row_groups=groups, columns=list(wanted))
            pieces = pieces_of_batches(_ahead(batches), wanted)
            yield from tables.rows_of_pieces(pieces, first[groups[0]] if groups else 0, begin, stop)

    return DataTable(names, pieces, str(path), num_rows, borders=borders, some_rows=some_rows)


# Parts of collections, read without their manifest. A next observation that is null is that of the next row.

PART_MARK, PART_SHAPE = b"rhocover", b"shape"
HERE, THEN = "observation", "next_observation"


def is_part(file: Any, wanted: Sequence[str]) -> bool:
    """Whether a file is a part of a collection, whose next observations are wanted and may be null."""
    about = file.schema_arrow
    return PART_MARK in (about.metadata or {}) and {HERE, THEN} <= {*wanted} & {*about.names}


def _pieces_of_part(file: Any, wanted: Sequence[str]) -> Iterator[Piece]:
    """Yields the wanted columns of a part, a row group at a time; its rows have their next observations."""
    held: Piece | None = None  # the last row of the group before, which may need the next one
    kept: Any = None
    row = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=list(wanted), use_threads=False)
        columns = {name: table.column(name).combine_chunks() for name in wanted}
        known = np.flatnonzero(columns[THEN].is_valid().to_numpy(zero_copy_only=False))
        given = columns[THEN].drop_null()
        fields = {name: file.schema_arrow.field(name) for name in wanted}
        piece = {n: _shaped(column, fields[n], row) for n, column in columns.items() if n != THEN}
        shown, then = piece[HERE], _shaped(given, fields[THEN], row)
        if held is not None:
            yield {**held, THEN: kept if kept is not None else shown[:1]}
        follows = _following(shown, then, known)
        piece[THEN] = follows
        num = len(shown)
        yield {name: values[: num - 1] for name, values in piece.items()}
        held = {name: values[num - 1 :] for name, values in piece.items()}
        kept = follows[num - 1 :] if known.size and known[-1] == num - 1 else None
        row += num
    if held is not None:
        if kept is None:
            raise InvalidDataError.of(THEN, "must have a value in the last row")
        yield held


def _shaped(column: Any, field: Any, first_row: int) -> Any:
    """Returns a column as an array, in the shape that its metadata gives."""
    array = array_of(column, field.name, first_row)
    shape = json.loads((field.metadata or {}).get(PART_SHAPE, b"null"))
    if shape is None or not isinstance(array, np.ndarray):
        return array
    return array.reshape(len(array), *shape)


def _following(shown: Any, then: Any, known: Any) -> Any:
    """Returns what follows each row: what is given, else the observation of the next row."""
    if isinstance(shown, list):
        found = [*shown[1:], shown[-1]]
        for row, value in zip(known.tolist(), then, strict=True):
            found[row] = value
        return found
    found = np.concatenate([shown[1:], shown[-1:]]).astype(np.result_type(shown, then), copy=False)
    found[known] = then
    return found


def _group_borders(file: Any) -> list[int]:
    """Returns the first row of each row group of a Parquet file, and the number of rows."""
    about = file.metadata
    return list(accumulate((about.row_group(k).num_rows for k in range(about.num_row_groups)), initial=0))


# Arrow and Feather files. A stream is a sequence of messages; a file has a mark, ARROW1, at both ends, and a
# footer that says where the messages are.

MOST_BATCH = 2**29  # bytes to which a packed record batch may unpack
MARK, OLD_FEATHER = b"ARROW1", b"FEA1"
WHAT = "an Arrow or Feather file"


def arrow_table(path: Path) -> DataTable:
    """Returns an Arrow or Feather file as a table; only the wanted columns are read, a batch at a time."""
    need_pyarrow()
    with reading_file(path, WHAT), _mapped(path) as file:
        names = tuple(_reader(file, None).schema.names)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with reading_file(path, WHAT), _mapped(path) as file:
            yield from pieces_of_batches(_ipc_batches(file, wanted), wanted)

    return DataTable(names, pieces, str(path))


def _mapped(path: Path) -> Any:
    from pyarrow import memory_map

    return memory_map(str(path))


def _reader(file: Any, wanted: Sequence[int] | None) -> Any:
    """Returns the reader of a file or a stream; `wanted` are the numbers of columns, None for all."""
    from pyarrow import ipc

    file.seek(0)
    head = file.read(len(MARK))
    file.seek(0)
    if head.startswith(OLD_FEATHER):
        raise ValueError("it has version 1 of the Feather format; write it again")
    options = ipc.IpcReadOptions(included_fields=None if wanted is None else list(wanted), use_threads=False)
    return ipc.open_file(file, options=options) if head == MARK else ipc.open_stream(file, options=options)


def _ipc_batches(file: Any, wanted: Sequence[str]) -> Iterator[Any]:
    """Yields the validated batches of the wanted columns; raises before one that unpacks to too much."""
    schema = _reader(file, None).schema
    reader = _reader(file, [_place(schema, name) for name in wanted])
    if hasattr(reader, "get_batch"):
        file.seek(0)
        check_blocks(memoryview(file.read_buffer(file.size())))
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        _check_messages(file)
        batches = iter(_reader(file, [_place(schema, name) for name in wanted]))
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _check_messages(file: Any) -> None:
    from pyarrow import ipc

    file.seek(0)
    for message in ipc.MessageReader.open_stream(file):
        if message.type in ("record batch", "dictionary"):
            is_dictionary = message.type == "dictionary"
            _check_message(message.metadata.to_pybytes(), memoryview(message.body), is_dictionary)


def _check_message(table: bytes, body: memoryview, is_dictionary: bool) -> None:
    if (claimed := unpacked_bytes(table, body, is_dictionary=is_dictionary)) > MOST_BATCH:
        raise InvalidDataError(
            f"it has a batch that unpacks to {claimed} bytes; the limit is {MOST_BATCH}. Write smaller ones."
        )


def check_blocks(data: memoryview) -> None:
    """Raises if the footer of a file names messages that are not in it, or that unpack to too much."""
    blocks = list(footer_blocks(data))
    if sum(size + length for _, size, length, _ in blocks) > len(data):
        raise InvalidDataError("its footer lists the same bytes several times: it is damaged or malicious.")
    for begin, size, length, is_dictionary in blocks:
        if min(begin, size - 8, length) < 0 or begin + size + length > len(data):
            raise InvalidDataError("its footer lists a batch that is not in it: it is damaged.")
        table = bytes(data[begin : begin + size])
        table = table[8:] if table[:4] == b"\xff\xff\xff\xff" else table[4:]
        _check_message(table, data[begin + size : begin + size + length], is_dictionary)


# Tables of pyarrow.


def is_arrow(data: Any) -> bool:
    """Returns whether the data are a table, batches or a data set of pyarrow."""
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def table_of_arrow(data: Any) -> DataTable:
    """Returns a Table, RecordBatch, RecordBatchReader or Dataset of pyarrow as a table."""

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        if hasattr(data, "scanner"):  # a data set, which reads only what is wanted
            return data.to_batches(columns=list(wanted))
        if hasattr(data, "read_next_batch"):
            return iter(data)
        return iter(data.to_batches() if hasattr(data, "to_batches") else [data])

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return pieces_of_batches(batches(wanted), wanted)

    return DataTable(tuple(data.schema.names), pieces, "the data")
