"""Pieces of a stream of transitions, made from pieces of a table.

Where a table has no column of next states but one that numbers its episodes, the next state is that of the
next row of the same episode. The last row of an episode then has none: if the episode ended there it needs
none, otherwise the row is left out, because nobody knows where it led.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.data.columns import Columns, flags
from rhocover.errors import InvalidDataError

Numbers = Callable[[Any, str, int], IntArray]  # values, column name, number of the first row
SIZE = 2**17  # rows of a piece: its columns fit into a processor's cache


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive transitions, `[T]` each; `first` marks beginnings of episodes, None where nobody says."""

    states: IntArray
    actions: IntArray
    next_states: IntArray
    terminated: BoolArray
    truncated: BoolArray | None
    first: BoolArray | None


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a piece of a table says, `[T]` each, before next states are known."""

    states: IntArray
    actions: IntArray
    ended: BoolArray
    cut: BoolArray
    episode: Any

    def __getitem__(self, part: Any) -> _Rows:
        return _Rows(*(getattr(self, field.name)[part] for field in fields(self)))

    def after(self, before: _Rows | None) -> _Rows:
        """Returns the rows before, and these."""
        if before is None:
            return self
        pairs = ((getattr(before, field.name), getattr(self, field.name)) for field in fields(self))
        return _Rows(*(np.concatenate(pair) for pair in pairs))


def chunks_of_table(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    """Returns the transitions of a table that comes in pieces."""
    read = _with_next if columns.next_state is not None else _without_next
    return read(pieces, columns, state_numbers, action_numbers)


def _with_next(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    row, last = 0, None
    for piece in pieces:
        check_lengths({name: piece[name] for name in columns.needed})
        states = state_numbers(piece[columns.state], columns.state, row)
        assert columns.next_state is not None
        nexts = state_numbers(piece[columns.next_state], columns.next_state, row)
        actions = action_numbers(piece[columns.action], columns.action, row)
        ended, cut = _ends(piece, columns, row)
        first = None
        if columns.episode is not None and states.size:
            episode = np.asarray(piece[columns.episode])
            first = _changes(episode, last)
            last = episode[-1]
        yield Chunk(states, actions, nexts, ended, cut, first)
        row += states.size


def _without_next(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    row, held, last = 0, None, None
    for piece in pieces:
        check_lengths({name: piece[name] for name in columns.needed})
        states = state_numbers(piece[columns.state], columns.state, row)
        if not states.size:
            continue
        actions = action_numbers(piece[columns.action], columns.action, row)
        ended, cut = _ends(piece, columns, row)
        cut = np.zeros(states.size, bool) if cut is None else cut
        rows = _Rows(states, actions, ended, cut, np.asarray(piece[columns.episode or ""]))
        row += states.size
        rows = rows.after(held)
        held = rows[-1:]
        yield _linked(rows[:-1], rows[1:], last)
        last = rows.episode[-2] if rows.states.size > 1 else last
    if held is not None and held.ended[0]:
        yield _linked(held, held, last)


def _linked(rows: _Rows, following: _Rows, last: Any) -> Chunk:
    """Returns rows with the states that follow, without those of which nobody knows where they led."""
    first = _changes(rows.episode, last)
    known = rows.ended | (rows.episode == following.episode)
    return Chunk(
        rows.states[known], rows.actions[known], following.states[known], rows.ended[known], rows.cut[known],
        first[known],
    )  # fmt: skip


def _changes(episode: Any, last: Any) -> BoolArray:
    """Returns which rows have another episode than the row before; `last` is that of the piece before."""
    first = np.ones(episode.size, bool)
    first[1:] = episode[1:] != episode[:-1]
    if first.size and last is not None:
        first[0] = bool(episode[0] != last)
    return first


def _ends(piece: Mapping[str, Any], columns: Columns, row: int) -> tuple[BoolArray, BoolArray | None]:
    """Returns which rows ended their episode, and which cut it."""

    def read(name: str | None) -> BoolArray | None:
        return None if name is None else flags(piece[name], name, row)

    done, terminated, truncated = read(columns.done), read(columns.terminated), read(columns.truncated)
    if terminated is not None:
        cuts = [column for column in (done, truncated) if column is not None]
        return terminated, np.logical_or.reduce(cuts) if cuts else None
    assert done is not None
    return (done, None) if truncated is None else (done & ~truncated, truncated)


def check_lengths(columns: Mapping[str, Any]) -> None:
    """Refuses columns of different lengths."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        raise InvalidDataError(f"columns must have one value a row each, got lengths {said}.")
