"""The rows of a CSV file, some at a time: a line without end is refused where it becomes too long.

Text takes much room in memory, so of each row only the fields that are asked for are kept, and the longer
rows are, the fewer come at a time.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import IO, Any

from rhocover.errors import InvalidDataError

MOST_ROW = 2**22  # letters of a row, or of the header: 10^5 columns have room
PIECE_LETTERS = 2**23  # of the rows that come at a time, if all were as long as the longest


class Lines:
    """The lines of a file; `letters` is how many came since it was set to 0, at most those of a row."""

    def __init__(self, file: IO[str]) -> None:
        self.letters, self._readline = 0, file.readline

    def __iter__(self) -> Iterator[str]:
        while line := self._readline(MOST_ROW + 1):
            self.letters += len(line)
            if self.letters > MOST_ROW:  # a quoted field may run over many lines
                raise InvalidDataError(
                    f"it has a row of more than {MOST_ROW} letters. Are its lines ended, its quotes closed?"
                )
            yield line


def read_header(file: IO[str]) -> tuple[list[str], str]:
    """Returns the names of the columns, and what separates them: a comma, a semicolon or a tab."""
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
    """Returns the function that gives the fields at these places as a tuple."""
    return itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)


def _other_width(came: int, width: int, line: int) -> InvalidDataError:
    return InvalidDataError(f"line {line} has {came} fields, the header {width}. Was it cut short?")
