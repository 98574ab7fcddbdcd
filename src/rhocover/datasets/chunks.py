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


class _Border:
    """The last row of the pieces read so far: its episode, and whether the episode was closed there."""

    def __init__(self) -> None:
        self._last: Any = None
        self._is_closed = True

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
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    """Returns the transitions of a table that is read in pieces."""
    read = _with_next if columns.next_state is not None else _without_next
    return read(pieces, columns, state_numbers, action_numbers)


def _with_next(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    assert columns.next_state is not None
    row, border = 0, _Border()
    for piece in pieces:
        check_lengths({name: piece[name] for name in columns.needed})
        states = state_numbers(piece[columns.state], columns.state, row)
        nexts = state_numbers(piece[columns.next_state], columns.next_state, row)
        actions = action_numbers(piece[columns.action], columns.action, row)
        ended, cut = _ends(piece, columns, row)
        first = None
        if columns.episode is not None and states.size:
            first = border.begins(_episode(piece, columns), ended if cut is None else ended | cut)
        yield Chunk(states, actions, nexts, ended, cut, first)
        row += states.size


def _without_next(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    row, held, border = 0, None, _Border()
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
        yield _linked(held, held.states, np.zeros(1, bool))


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
