"""JSON lines as a table: one row per line, or one batch of rows per line, as RLlib writes them.

    {"s": 0, "a": 1, "s_next": 1, "done": false}
    {"type": "SampleBatch", "obs": [0, 1], "actions": [1, 0], "terminateds": [false, true], "eps_id": [7, 7]}

RLlib may store a column as text: a packed pickle. Such a column is refused, because nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets import tables
from rhocover.datasets.chunks import check_lengths
from rhocover.datasets.tables import DataTable, Piece, column_values, open_text, reading_file
from rhocover.errors import InvalidDataError, naming, shortened
from rhocover.files import parse_json

MOST_LINE = 2**24  # characters; numbers of two characters take thirty bytes as Python objects
PIECE_LETTERS = 2**22  # characters of the lines that are read at a time
WHAT = "a file of JSON lines: an object with the columns per line"


def json_table(path: Path) -> DataTable:
    """Returns a file of JSON lines as a table; it may be packed (.gz)."""
    with reading_file(path, WHAT), open_text(path) as file:
        first = next(_lines(file), None)
    if first is None:
        raise InvalidDataError(f"{path} is empty, expected {WHAT}.")
    names = tuple(name for name in _columns_of(*first) if name != "type")

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        with reading_file(path, WHAT), open_text(path) as file:
            yield from _pieces(_lines(file), wanted)

    return DataTable(names, pieces, str(path))


def _lines(file: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Yields the object and the number of each line that is not empty."""
    number = 0
    while line := file.readline(MOST_LINE + 1):
        number += 1
        if len(line) > MOST_LINE:
            raise InvalidDataError(
                f"line {number} has more than {MOST_LINE} characters. Is a line break missing?"
            )
        if line.strip():
            yield _parsed(line, number), number


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(
            f"line {number} is not an object in JSON ({shortened(error, 100)}). Expected {WHAT}."
        ) from error
    if not isinstance(value, dict):
        raise InvalidDataError(
            f"line {number} must be an object with the columns, got {type(value).__name__}."
        )
    return value


# Rows and batches.


def _pieces(lines: Iterator[tuple[dict[str, Any], int]], wanted: Sequence[str]) -> Iterator[Piece]:
    rows: list[list[Any]] = []
    letters = 0
    for line, number in lines:
        if _is_batch(line):
            if rows:
                yield _piece_of_rows(rows, wanted)
                rows, letters = [], 0
            yield from _piece_of_batch(_columns_of(line, number), wanted, number)
            continue
        rows.append([_value(line, name, number) for name in wanted])
        letters += sum(map(_size, rows[-1]))
        if len(rows) >= tables.MOST_CSV_ROWS or letters >= PIECE_LETTERS:
            yield _piece_of_rows(rows, wanted)
            rows, letters = [], 0
    if rows:
        yield _piece_of_rows(rows, wanted)


def _is_batch(line: Mapping[str, Any]) -> bool:
    return line.get("type") in ("SampleBatch", "MultiAgentBatch")


def _columns_of(line: dict[str, Any], number: int) -> dict[str, Any]:
    """Returns the columns of a batch, or the fields of a row."""
    if line.get("type") != "MultiAgentBatch":
        return line
    batches = line.get("policy_batches")
    if not isinstance(batches, dict) or len(batches) != 1:
        listed = shortened(", ".join(map(str, batches)), 100) if isinstance(batches, dict) else "none"
        raise InvalidDataError(
            f"line {number} holds the batches of several policies ({listed}), expected one. Write each "
            "policy to a file of its own."
        )
    only = next(iter(batches.values()))
    if not isinstance(only, dict):
        raise InvalidDataError(f"line {number} must hold the columns of a policy, got {type(only).__name__}.")
    return only


def _value(line: Mapping[str, Any], name: str, number: int) -> Any:
    value = line.get(name)
    if value is None:
        raise InvalidDataError.of(name, "must have a value in every row", f"none in line {number}")
    return value


def _size(value: Any) -> int:
    """Returns about how many characters a value has."""
    return (
        8 + sum(map(_size, value)) if isinstance(value, list) else len(value) if isinstance(value, str) else 8
    )


def _piece_of_rows(rows: list[list[Any]], wanted: Sequence[str]) -> Piece:
    columns = zip(wanted, zip(*rows, strict=True), strict=True)
    return {name: _array(list(values), name) for name, values in columns}


def _piece_of_batch(columns: Mapping[str, Any], wanted: Sequence[str], number: int) -> Iterator[Piece]:
    with naming(f"line {number}"):
        held = {name: _batch_column(_value(columns, name, number), name) for name in wanted}
        check_lengths(held)
    if len(next(iter(held.values()))):
        yield held


def _batch_column(values: Any, name: str) -> Any:
    if isinstance(values, str):
        raise InvalidDataError.of(
            name,
            "is packed by RLlib as a pickle, which is never opened",
            remedy='Write the data with output_config={"compress_columns": []}.',
        )
    if not isinstance(values, list):
        raise InvalidDataError.of(name, "must be a list with a value per row", type(values).__name__)
    return _array(values, name)


def _array(values: list[Any], name: str) -> Any:
    """Returns values of one kind as an array; NumPy would make texts of numbers and texts together."""
    kinds = {type(value) for value in values}
    is_mixed = len(kinds) > 1 and kinds != {int, float}
    return np.fromiter(values, object, len(values)) if is_mixed else column_values(values, name)
