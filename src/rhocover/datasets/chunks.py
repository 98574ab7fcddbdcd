"""From pieces of a table to pieces of a stream of transitions.

The stream does not depend on the pieces in which a table is read: an episode may go over from one to the
next. `columns` says what the columns mean, and how next states are found if there is no column of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.datasets.columns import Columns, flags, one_per_row
from rhocover.errors import InvalidDataError

Numbers = Callable[[Any, str, int], IntArray]  # values, column name, number of the first row
SIZE = 2**17  # rows of a piece: its columns fit into a processor's cache


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive transitions, `[T]` each; `first` marks the first rows of episodes, None if unknown."""

    states: IntArray
    actions: IntArray
    next_states: IntArray
    terminated: BoolArray
    truncated: BoolArray | None
    first: BoolArray | None
    num_left_out: int = 0  # rows among them without a known next state


@dataclass(frozen=True, eq=False)
class _Rows:
    """The columns of a piece of a table, `[T]` each, before next states are known."""

    states: IntArray
    actions: IntArray
    ended: BoolArray
    cut: BoolArray
    begins: BoolArray  # whether a row begins an episode

    def __getitem__(self, part: Any) -> _Rows:
        return _Rows(*(getattr(self, field.name)[part] for field in fields(self)))

    def after(self, before: _Rows | None) -> _Rows:
        """Returns the rows `before` followed by these."""
        if before is None:
            return self
        pairs = ((getattr(before, field.name), getattr(self, field.name)) for field in fields(self))
        return _Rows(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True)
class RowsBeside:
    """The rows before and after a range of a table, if there are such; all of them are plain values.

    `row` is the number of the first row of the range in the table.
    """

    row: int = 0
    episode: Any = None  # of the row before
    is_closed: bool = True  # whether the row before closed its episode
    next_state: Any = None  # the state of the row after the range
    goes_on: bool = False  # whether the row after the range continues the episode of its last row


WHOLE = RowsBeside()  # of a table that is read as a whole


class _Border:
    """The last row of the pieces read so far: its episode, and whether the episode was closed there."""

    def __init__(self, before: RowsBeside = WHOLE) -> None:
        self._last: Any = before.episode
        self._is_closed = before.is_closed

    def begins(self, episode: Any, closed: BoolArray) -> BoolArray:
        """Returns which rows of the next piece begin an episode: after an end, or with another number."""
        first = np.empty(closed.size, bool)
        first[0], first[1:] = self._is_closed, closed[:-1]
        if episode is not None:
            first[1:] |= episode[1:] != episode[:-1]
            first[0] |= self._last is None or bool(episode[0] != self._last)
            self._last = episode[-1]
        self._is_closed = bool(closed[-1])
        return first


def chunks_of_table(
    pieces: Iterable[Mapping[str, Any]],
    columns: Columns,
    state_numbers: Numbers,
    action_numbers: Numbers,
    beside: RowsBeside = WHOLE,
) -> Iterator[Chunk]:
    """Returns the transitions of a table that is read in pieces, or of a range of its rows."""
    read = _with_next if columns.next_state is not None else _without_next
    return read(pieces, columns, state_numbers, action_numbers, beside)


def _with_next(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers,
    beside: RowsBeside,
) -> Iterator[Chunk]:  # fmt: skip
    assert columns.next_state is not None
    row, border = beside.row, _Border(beside)
    for piece in pieces:
        check_lengths({name: piece[name] for name in columns.needed})
        states = state_numbers(piece[columns.state], columns.state, row)
        nexts = state_numbers(piece[columns.next_state], columns.next_state, row)
        actions = action_numbers(piece[columns.action], columns.action, row)
        ended, cut = _ends(piece, columns, row)
        first = None if columns.first is None else np.asarray(piece[columns.first]) == 0
        if columns.episode is not None and states.size:
            first = border.begins(_episode(piece, columns), ended if cut is None else ended | cut)
        yield Chunk(states, actions, nexts, ended, cut, first)
        row += states.size


def _without_next(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers,
    beside: RowsBeside,
) -> Iterator[Chunk]:  # fmt: skip
    row, held, border = beside.row, None, _Border(beside)
    for piece in pieces:
        check_lengths({name: piece[name] for name in columns.needed})
        states = state_numbers(piece[columns.state], columns.state, row)
        if not states.size:
            continue
        actions = action_numbers(piece[columns.action], columns.action, row)
        ended, cut = _ends(piece, columns, row)
        cut = np.zeros(states.size, bool) if cut is None else cut
        begins = border.begins(_episode(piece, columns), ended | cut)
        rows = _Rows(states, actions, ended, cut, begins).after(held)
        row += states.size
        held = rows[-1:]
        yield _linked(rows[:-1], rows[1:].states, ~rows[1:].begins)
    if held is not None:
        after = (
            state_numbers(np.array([beside.next_state]), columns.state, row)
            if beside.goes_on
            else held.states
        )
        yield _linked(held, after, np.full(1, beside.goes_on))


@dataclass(frozen=True)
class Survey:
    """What the ranges before and after a range need to know about it; plain values."""

    num_rows: int
    num_known: int  # rows whose next state is known, without the last row
    first: tuple[Any, Any]  # state and episode of the first row
    last: tuple[Any, bool, bool]  # episode of the last row; whether it closed its episode, and ended it


def survey_of(pieces: Iterable[Mapping[str, Any]], columns: Columns, row: int) -> Survey | None:
    """Returns the survey of a range that begins at `row`; None if it has no rows."""
    border, first, last, num_rows, num_known = _Border(), None, None, 0, 0
    for piece in pieces:
        ended, cut = _ends(piece, columns, row + num_rows)
        if not ended.size:
            continue
        closed, episode = ended if cut is None else ended | cut, _episode(piece, columns)
        begins = border.begins(episode, closed)
        if last is not None:
            num_known += bool(last[2] or not begins[0])
        num_known += int(np.count_nonzero(ended[:-1] | ~begins[1:]))
        episodes = (None, None) if episode is None else (episode[:1].tolist()[0], episode[-1:].tolist()[0])
        first = first or (np.asarray(piece[columns.state])[:1].tolist()[0], episodes[0])
        last = episodes[1], bool(closed[-1]), bool(ended[-1])
        num_rows += ended.size
    return None if first is None or last is None else Survey(num_rows, num_known, first, last)


def _linked(rows: _Rows, following: IntArray, goes_on: BoolArray) -> Chunk:
    """Returns rows with the states that follow, without those whose next state is unknown."""
    known = rows.ended | goes_on
    return Chunk(
        rows.states[known], rows.actions[known], following[known], rows.ended[known], rows.cut[known],
        rows.begins[known], int(np.count_nonzero(~known)),
    )  # fmt: skip


def _episode(piece: Mapping[str, Any], columns: Columns) -> Any:
    """Returns the number or name of each row's episode; None if there is no such column."""
    return None if columns.episode is None else one_per_row(piece[columns.episode], columns.episode)


def _ends(piece: Mapping[str, Any], columns: Columns, row: int) -> tuple[BoolArray, BoolArray | None]:
    """Returns which rows ended their episode, and which cut it off."""

    def read(name: str | None) -> BoolArray | None:
        return None if name is None else flags(piece[name], name, row)

    done, terminated, truncated = read(columns.done), read(columns.terminated), read(columns.truncated)
    if terminated is not None:
        cuts = [column for column in (done, truncated) if column is not None]
        return terminated, np.logical_or.reduce(cuts) if cuts else None
    if done is None:  # how an episode ended is not known
        return np.zeros(len(piece[columns.state]), bool), truncated
    return (done, None) if truncated is None else (done & ~truncated, truncated)


UNKNOWN_ENDS = "The data do not say how episodes end: every end counts as cut off, not as an end."


def stream_remarks(columns: Columns, left_out: int) -> list[str]:
    """Returns what was done where a table does not say enough."""
    found = [UNKNOWN_ENDS] if columns.done is None and columns.terminated is None else []
    return [*found, left_out_words(left_out)] if left_out else found


def left_out_words(number: int) -> str:
    """Returns the remark about rows that have no next state."""
    steps = (
        "1 step is left out whose next state is"
        if number == 1
        else f"{number:,} steps are left out whose next states are"
    )
    return f"{steps} unknown: the last of an episode that did not end, or of the data."


def check_lengths(columns: Mapping[str, Any]) -> None:
    """Raises if columns have different lengths."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        raise InvalidDataError(f"columns must have one value per row, got lengths {listed}.")
