"""The columns of a table of transitions: found by their usual names, checked, and turned into transitions.

States and actions are whole numbers; those stored as floats or text are accepted, and other values raise an
error that names column and row. A flag is True/False or 0/1. `terminated` means that an episode ended,
`truncated` (or `timeout`) that it was cut off; `done` may mean either, so a row that is marked `done` and
`truncated` was cut off.

If a table has no column of next states but one that numbers its episodes, the next state is that of the next
row of the same episode. The last row of an episode then has no next state: if the episode ended there it
needs none, otherwise the row is left out, because its next state is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.errors import InvalidDataError, parse_text, shortened

SYNONYMS = {
    "state": ("s", "state", "states", "obs", "observation", "observations"),
    "action": ("a", "action", "actions", "act"),
    "next_state": (
        "s_next", "s'", "next_s", "next_state", "next_states", "next_obs", "next_observation",
        "next_observations",
    ),
    "done": ("done", "dones"),
    "terminated": ("terminated", "terminal", "terminals", "termination", "terminations"),
    "truncated": ("truncated", "truncation", "truncations", "timeout", "timeouts"),
    "episode": ("episode", "episodes", "episode_id"),
}  # fmt: skip
TRUE, FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")
LARGEST_WHOLE_FLOAT = 2.0**53  # above it, floats cannot represent every integer


@dataclass(frozen=True)
class Columns:
    """The name of each column that is used; None if there is none."""

    state: str
    action: str
    next_state: str | None
    done: str | None
    terminated: str | None
    truncated: str | None
    episode: str | None

    @property
    def needed(self) -> list[str]:
        """The names, in order, without those that are missing."""
        return [name for name in vars(self).values() if name is not None]


def find_columns(names: Iterable[str], source: str) -> Columns:
    """Returns the column for each role; raises if a column is missing, naming those that there are."""
    names = [str(name) for name in names]
    found = {role: _find(role, names, source) for role in SYNONYMS}
    missing = [role for role in ("state", "action") if found[role] is None]
    if found["next_state"] is None and found["episode"] is None:
        missing.append("next_state")
    if found["done"] is None and found["terminated"] is None:
        missing.append("done")
    if missing:
        wanted = "; ".join(f"{role} (also {', '.join(SYNONYMS[role])})" for role in missing)
        raise InvalidDataError(
            f"{source} lacks {_and(missing)}: its columns are {shortened(', '.join(names)) or 'none'}. "
            f"Rename or add: {wanted}. In one endless run `done` is False everywhere; with a column "
            "`episode`, next states are not needed."
        )
    return Columns(**found)  # type: ignore[arg-type]


def _find(role: str, names: list[str], source: str) -> str | None:
    fits = [name for name in names if name.strip().lower() in SYNONYMS[role]]
    if len(fits) > 1:
        raise InvalidDataError(f"{source} has several columns for {role}: {_and(fits)}. Keep one of them.")
    return fits[0] if fits else None


def _and(words: list[str]) -> str:
    return " and ".join(f"`{word}`" for word in words)


def whole_numbers(values: Any, name: str, first_row: int = 0) -> IntArray:
    """Returns a column of whole numbers as int64 `[T]`; raises for anything else, naming the row."""
    array = _column(values, name)
    if array.dtype.kind in "US":
        array = _parsed(array, name, first_row)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
        whole = np.isfinite(array) & (array == np.rint(array)) & (np.abs(array) <= LARGEST_WHOLE_FLOAT)
        _refuse(array, ~whole, name, first_row, "whole numbers")
    elif array.dtype.kind == "u" and array.dtype.itemsize == 8:
        _refuse(array, array > np.iinfo(np.int64).max, name, first_row, "whole numbers that int64 can hold")
    elif array.dtype.kind not in "iu":
        raise InvalidDataError.of(
            name, "must hold whole numbers", _kinds(array), remedy="Number states and actions from 0."
        )
    return array.astype(np.int64, copy=False)


def flags(values: Any, name: str, first_row: int = 0) -> BoolArray:
    """Returns a column of True/False or 0/1 as bool `[T]`; raises for anything else, naming the row."""
    array = _column(values, name)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "US":
        text = np.char.lower(np.char.strip(array.astype(str)))
        true = np.isin(text, TRUE)
        _refuse(array, ~true & ~np.isin(text, FALSE), name, first_row, "True or False, or 0 or 1")
        return true
    if array.dtype.kind not in "iuf":
        raise InvalidDataError.of(name, "must hold True or False, or 0 or 1", _kinds(array))
    _refuse(array, (array != 0) & (array != 1), name, first_row, "True or False, or 0 or 1")
    return array == 1


def _column(values: Any, name: str) -> Any:
    """Returns the values `[T]`; a column of shape `[T, 1]` is accepted, too."""
    try:
        array = np.asarray(values)
    except (ValueError, MemoryError) as error:
        raise InvalidDataError.of(name, "must be one value per row", "rows of different lengths") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidDataError.of(
            name,
            "must be one value per row",
            f"an array of shape {array.shape}",
            remedy=parse_text("Observations of several numbers need `states`, for example rc.Bins."),
        )
    return array


def _parsed(array: Any, name: str, first_row: int) -> Any:
    """Returns text as integers, or as floats if some are not integers."""
    for kind in (np.int64, np.float64):
        try:
            return array.astype(kind)
        except (ValueError, OverflowError):
            continue
    row = next(row for row, text in enumerate(array.tolist()) if not _is_number(text))
    raise InvalidDataError.of(
        name, "must hold whole numbers", f"{shortened(repr(str(array[row])))} in row {first_row + row}"
    )


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse(array: Any, bad: BoolArray, name: str, first_row: int, expected: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidDataError.of(
            name, f"must hold {expected}", f"{shortened(array[row])} in row {first_row + row}"
        )


def _kinds(array: Any) -> str:
    """Returns the type of the values; for objects, the types that occur."""
    if array.dtype.kind != "O":
        return f"dtype {array.dtype}"
    return "a mix of " + ", ".join(sorted({type(value).__name__ for value in array.tolist()}))


# From pieces of a table to pieces of a stream of transitions.

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


@dataclass(frozen=True, eq=False)
class _Rows:
    """The columns of a piece of a table, `[T]` each, before next states are known."""

    states: IntArray
    actions: IntArray
    ended: BoolArray
    cut: BoolArray
    episode: Any

    def __getitem__(self, part: Any) -> _Rows:
        return _Rows(*(getattr(self, field.name)[part] for field in fields(self)))

    def after(self, before: _Rows | None) -> _Rows:
        """Returns the rows `before` followed by these."""
        if before is None:
            return self
        pairs = ((getattr(before, field.name), getattr(self, field.name)) for field in fields(self))
        return _Rows(*(np.concatenate(pair) for pair in pairs))


def chunks_of_table(
    pieces: Iterable[Mapping[str, Any]], columns: Columns, state_numbers: Numbers, action_numbers: Numbers
) -> Iterator[Chunk]:
    """Returns the transitions of a table that is read in pieces."""
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
    """Returns rows with their next states, without those whose next state is unknown."""
    first = _changes(rows.episode, last)
    known = rows.ended | (rows.episode == following.episode)
    return Chunk(
        rows.states[known], rows.actions[known], following.states[known], rows.ended[known], rows.cut[known],
        first[known],
    )  # fmt: skip


def _changes(episode: Any, last: Any) -> BoolArray:
    """Returns which rows have another episode than the row before; `last` is the episode before the piece."""
    first = np.ones(episode.size, bool)
    first[1:] = episode[1:] != episode[:-1]
    if first.size and last is not None:
        first[0] = bool(episode[0] != last)
    return first


def _ends(piece: Mapping[str, Any], columns: Columns, row: int) -> tuple[BoolArray, BoolArray | None]:
    """Returns which rows ended their episode, and which cut it off."""

    def read(name: str | None) -> BoolArray | None:
        return None if name is None else flags(piece[name], name, row)

    done, terminated, truncated = read(columns.done), read(columns.terminated), read(columns.truncated)
    if terminated is not None:
        cuts = [column for column in (done, truncated) if column is not None]
        return terminated, np.logical_or.reduce(cuts) if cuts else None
    assert done is not None
    return (done, None) if truncated is None else (done & ~truncated, truncated)


def check_lengths(columns: Mapping[str, Any]) -> None:
    """Raises if columns have different lengths."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        raise InvalidDataError(f"columns must have one value per row, got lengths {listed}.")
