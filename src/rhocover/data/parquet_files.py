"""The columns of a Parquet file, a piece at a time: what its footer says is checked before they are unpacked.

A Parquet file keeps each different text of a column once, and runs of equal values as one; so a small file
may unpack to more than a machine holds. Texts are looked at where they are kept once, and refused if long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.errors import InvalidDataError, missing_extra, shortened

MOST_ROWS = 10**5  # to a byte of the file; runs of equal values give about 500 where pages are of usual size
MOST_COLUMN = 2**30  # bytes of a column of text in one row group, or of lists: they are unpacked together
LONGEST_TEXT = 1000  # letters: numbers, flags and names of episodes have fewer


def open_parquet(path: Path, texts: Sequence[str] = ()) -> Any:
    """Returns the file, opened; columns of `texts` come with each of them once."""
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
    """Refuses a file that claims far more than its bytes can be."""
    about = file.metadata
    if about.num_rows > MOST_ROWS * file_bytes:
        raise InvalidDataError(
            f"it claims {about.num_rows} rows in {file_bytes} bytes: it is damaged, or packed to do harm."
        )
    if not _has_text_or_lists(file, wanted):  # for Arrow ends the process at some damages of what follows
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
        raise InvalidDataError(
            f"`{name}` has {size} bytes in one row group, of which at most {MOST_COLUMN} are read. States "
            "and actions are numbers; write text and lists in smaller row groups."
        )


def read_batches(file: Any, wanted: Sequence[str], size: int) -> Iterator[dict[str, Any]]:
    """Yields the wanted columns, `size` rows at a time."""
    row = 0
    for batch in _ahead(file.iter_batches(size, columns=list(wanted))):
        yield {name: _column(batch.column(name), name, row) for name in wanted}
        row += batch.num_rows


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Returns the batches; while one is used, the next is read."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _column(column: Any, name: str, first_row: int) -> Any:
    """Returns a column of an Arrow batch as an array, without a copy where that can be."""
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidDataError(f"`{name}` must have a value in every row, got none in row {row}.")
    if hasattr(column, "dictionary"):
        return _looked_up(column, name)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return text_array(values, name)
    return values


def _looked_up(column: Any, name: str) -> Any:
    """Returns a column whose values are kept once; long texts are refused before they are repeated."""
    import pyarrow.types as types

    kept = column.dictionary
    if types.is_string(kept.type) or types.is_large_string(kept.type):
        return text_array(kept.to_pylist(), name)[column.indices.to_numpy(zero_copy_only=False)]
    if types.is_binary(kept.type) or types.is_large_binary(kept.type):
        raise InvalidDataError(f"`{name}` must hold whole numbers, got bytes.")
    return column.dictionary_decode().to_numpy(zero_copy_only=False)


def text_array(values: Sequence[str], name: str) -> Any:
    """Returns texts as an array, in which each takes the room of the longest."""
    longest = max(values, key=len, default="")
    if len(longest) > LONGEST_TEXT:
        raise InvalidDataError(f"`{name}` has a text of {len(longest)} letters: {shortened(longest, 60)}.")
    return np.array(values, str)
