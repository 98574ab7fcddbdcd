"""Reads episodes from Minari's Arrow and Parquet folders, one folder per episode, in parts of bounded size.

An episode of T steps has T + 1 rows; in the last one only the observation counts. Only the five columns of
steps are read, only from files in the folder itself, and only if their numbers of rows and bytes agree with
the metadata of the episode.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets.minari.columns import Episodes, check_leaf, is_plain, named
from rhocover.datasets.minari.hdf5_objects import Leaf, unpacked
from rhocover.errors import InvalidDataError, RhocoverError, missing_extra, shortened
from rhocover.files import check_plain, check_within, parse_json, read_text

# The size to which the messages of an Arrow file unpack, checked before they are. An Arrow file is eight
# bytes, then a stream of messages, each a small table (a FlatBuffer) and a body. The table of a record batch
# lists the buffers of its body; if they are compressed, each begins with the number of bytes to which it
# unpacks, and Arrow allocates that many. Minari does not compress them.

HEAD = b"ARROW1\0\0"
OLD_PACKING = b"ARROW:experimental_compression"  # the mark of compression before Arrow 1.0


def open_stream(path: Any, names: list[str], most_bytes: int) -> tuple[Any, Any]:
    """Returns (file, reader of record batches of the named columns); raises for batches of more bytes."""
    from pyarrow import ipc, memory_map

    file = memory_map(str(path))
    if file.read(len(HEAD)) != HEAD:
        raise ValueError("it does not begin as an Arrow file")
    messages = ipc.MessageReader.open_stream(file)
    schema = ipc.read_schema(messages.read_next_message())
    for message in messages:
        if message.type != "record batch":
            raise ValueError(f"it has a message of the kind {message.type}, expected only numbers")
        if (claimed := unpacked_bytes(message.metadata.to_pybytes(), memoryview(message.body))) > most_bytes:
            raise ValueError(f"it claims {claimed} bytes of numbers; its steps take at most {most_bytes}")
    file.seek(len(HEAD))
    fields = [schema.get_field_index(name) for name in names]
    if min(fields) < 0:
        raise ValueError(f"it lacks the column {names[fields.index(-1)]!r}")
    options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    return file, ipc.open_stream(file, options=options)


def unpacked_bytes(table: bytes, body: memoryview, *, is_dictionary: bool = False) -> int:
    """Returns how many bytes a record batch needs for unpacking: none if it is not compressed.

    A dictionary of text holds a record batch of its own.
    """
    if OLD_PACKING in table:
        raise ValueError("it is compressed in a way that Arrow dropped with version 1.0")
    batch = _followed(table, _field(table, _followed(table, 0), 2))
    if is_dictionary:
        batch = _followed(table, _field(table, batch, 1))
    if _field(table, batch, 3) is None:
        return 0
    buffers = _followed(table, _field(table, batch, 2))
    places = struct.iter_unpack("<qq", table[buffers + 4 :][: 16 * _number(table, buffers)])
    return sum(_claimed(body[begin : begin + size]) for begin, size in places)


def footer_blocks(data: memoryview) -> Iterator[tuple[int, int, int, bool]]:
    """Yields where messages of an Arrow file are: begin, bytes of the table and of the body, is dictionary.

    The footer is a table (a FlatBuffer) before the last ten bytes, which say how long it is.
    """
    length = struct.unpack("<i", data[-10:-6])[0]
    if not 8 <= length <= len(data) - 10:
        raise ValueError("its footer is damaged")
    table = bytes(data[-10 - length : -10])
    footer = _followed(table, 0)
    for field, is_dictionary in ((2, True), (3, False)):
        if (place := _field(table, footer, field)) is not None:
            listed = _followed(table, place)
            for entry in struct.iter_unpack("<qi4xq", table[listed + 4 :][: 24 * _number(table, listed)]):
                yield *entry, is_dictionary


def _claimed(buffer: memoryview) -> int:
    claimed = struct.unpack("<q", buffer[:8])[0] if len(buffer) >= 8 else 0
    return len(buffer) if claimed < 0 else claimed  # -1: this one is not compressed


def _field(table: bytes, place: int, number: int) -> int | None:
    """Returns the position of a field of the table at `place`; None if it is left out."""
    listed = place - struct.unpack_from("<i", table, place)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", table, listed)[0]:
        return None
    offset = struct.unpack_from("<H", table, listed + 4 + 2 * number)[0]
    return place + offset if offset else None


def _followed(table: bytes, place: int | None) -> int:
    """Returns the position to which the offset at `place` points."""
    if place is None:
        raise ValueError("it has a message without a batch")
    return place + _number(table, place)


def _number(table: bytes, place: int) -> int:
    return struct.unpack_from("<I", table, place)[0]


# Episodes.

COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")
SLACK = 4, 2**20  # factor and bytes by which stored numbers may exceed their size: padding, masks


def read_stored(
    folder: Path,
    form: str,
    spaces: dict[str, Any],
    leaves: Sequence[Leaf],
    index: int,
    num_steps: int,
    part_bytes: int,
) -> Iterator[Episodes]:
    """Yields episode `index` in parts of about `part_bytes`; it has at most `num_steps` steps."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    with _naming_episode(index):
        place = folder / str(index)
        length, seed = _about(place, folder, num_steps)
        row_bytes = sum(8 * int(np.prod(leaf.shape, dtype=np.int64)) for leaf in leaves)
        most = SLACK[0] * row_bytes * (length + 1) + SLACK[1]
        batches = _batches(_data_file(place, folder), form, most, length + 1, max(1, part_bytes // row_bytes))
        seeds, has_seed = np.array([seed or 0], np.int64), np.array([seed is not None])
        held: dict[str, np.ndarray] = {}
        done = 0
        for batch in batches:
            rows = {leaf.name: _array(batch, leaf, spaces) for leaf in leaves}
            if held:
                rows = {name: np.concatenate([held[name], array]) for name, array in rows.items()}
            steps = len(rows["rewards"]) - 1
            held, done = {name: array[steps:] for name, array in rows.items()}, done + steps
            if steps:
                arrays = {leaf.name: rows[leaf.name][: steps + leaf.extra] for leaf in leaves}
                yield Episodes(arrays, np.array([steps]), seeds, has_seed, has_more=done < length)
        if done != length:
            raise InvalidDataError(f"it has {done + 1} rows, expected {length + 1} for {length} steps.")


@contextmanager
def _naming_episode(index: int) -> Iterator[None]:
    """Adds the number of the episode to every error."""
    try:
        yield
    except RhocoverError as error:
        raise InvalidDataError(f"episode {index}: {error}") from error
    except Exception as error:  # the errors of pyarrow for damaged files have no common class
        raise InvalidDataError(f"episode {index} is missing or damaged ({shortened(error)}).") from error


def _about(place: Path, folder: Path, num_steps: int) -> tuple[int, int | None]:
    """Returns the number of steps and the seed in the metadata of an episode."""
    path = place / "metadata.json"
    check_within(path, folder)
    about = parse_json(read_text(path))
    length, seed = about["total_steps"], about.get("seed")
    if not isinstance(length, int) or not 1 <= length <= num_steps:
        raise InvalidDataError(f"it must have 1 to {num_steps} steps, got {shortened(repr(length))}.")
    return length, seed if isinstance(seed, int) and 0 <= seed < 2**63 else None


def _data_file(place: Path, folder: Path) -> Path:
    """Returns the file of an episode: the one next to its metadata."""
    found = [path for path in place.iterdir() if path.name != "metadata.json" and path.name[0] not in "._"]
    if len(found) != 1:
        raise InvalidDataError(f"expected one file next to metadata.json, got {len(found)}.")
    try:
        check_within(found[0], folder)
        check_plain(found[0])
    except ValueError as error:
        raise InvalidDataError(f"{found[0].name} cannot be read: {error}.") from error
    return found[0]


def _batches(path: Path, form: str, most_bytes: int, num_rows: int, rows: int) -> Iterator[Any]:
    """Yields batches of at most `rows` rows; raises if a file has not `num_rows` rows, or too many bytes."""
    if form == "parquet":
        yield from _parquet(path, most_bytes, num_rows, rows)
        return
    file, reader = open_stream(path, list(COLUMNS), most_bytes)
    with file:
        for batch in reader:
            for begin in range(0, batch.num_rows, rows):
                yield batch.slice(begin, rows)


def _parquet(path: Path, most_bytes: int, num_rows: int, rows: int) -> Iterator[Any]:
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        about = file.metadata
        if about.num_rows != num_rows:
            raise InvalidDataError(f"it has {about.num_rows} rows, expected {num_rows}.")
        for group in range(about.num_row_groups):
            parts = (about.row_group(group).column(number) for number in range(about.num_columns))
            wanted = [part for part in parts if part.path_in_schema.partition(".")[0] in COLUMNS]
            if (claimed := sum(part.total_uncompressed_size for part in wanted)) > most_bytes:
                raise InvalidDataError(f"it claims {claimed} bytes; its steps take at most {most_bytes}.")
        yield from file.iter_batches(rows, columns=list(COLUMNS), use_threads=False)


def _array(batch: Any, leaf: Leaf, spaces: dict[str, Any]) -> np.ndarray:
    """Returns a column of a batch, `[rows, *shape]`."""
    import pyarrow.types as types

    column = batch.column(batch.schema.get_field_index(leaf.path[0]))
    for name in _fields(spaces.get(leaf.path[0]), leaf.path[1:]):
        column = column.field(name)
    if leaf.may_be_jpeg and types.is_binary(column.type):
        return unpacked((row.as_buffer() for row in column), leaf.shape, named(leaf.path))
    array = _numbers(column, leaf, int(np.prod(leaf.shape, dtype=np.int64)))
    if leaf.space is not None:
        check_leaf(array, leaf.space, leaf.path, len(column))
    return array


def _fields(space: Any, path: Sequence[str]) -> Iterator[str]:
    """Yields the names of the fields on the path to a leaf: keys, and indices in a tuple as numbers."""
    from gymnasium import spaces

    for name in path:
        is_tuple = isinstance(space, spaces.Tuple)
        number = name.removeprefix("_index_")
        space = space.spaces[int(number) if is_tuple else name]
        yield number if is_tuple else name


def _is_even(column: Any, width: int) -> bool:
    """Returns whether every list has `width` numbers."""
    import pyarrow.types as types

    lengths = None if types.is_fixed_size_list(column.type) else column.value_lengths().to_numpy(False)
    return lengths is None or bool((lengths == width).all())


def _numbers(column: Any, leaf: Leaf, width: int) -> np.ndarray:
    """Returns the numbers of a column, or of a column of lists of `width` numbers."""
    import pyarrow.types as types

    values, is_list = column, types.is_fixed_size_list(column.type) or types.is_list(column.type)
    if is_list:
        values = column.flatten()
        if len(values) != width * len(column) or not _is_even(column, width):
            raise InvalidDataError(f"{named(leaf.path)} must be lists of {width} numbers.")
    is_number = (
        types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type)
    )
    if not is_number or column.null_count or values.null_count:
        raise InvalidDataError(f"{named(leaf.path)} has type {shortened(column.type)}, expected numbers.")
    array = values.to_numpy(zero_copy_only=False)
    if not is_plain(array.dtype) or (leaf.shape and not is_list):
        raise InvalidDataError(f"{named(leaf.path)} has type {shortened(column.type)}, expected numbers.")
    return array.reshape(len(column), *leaf.shape)
