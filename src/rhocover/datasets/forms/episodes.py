"""Episodes as a table: a list or an iterator of them, each with its steps or with arrays.

    {"steps": [{"observation": 0, "action": 1, "is_last": False, "is_terminal": False}, ...]}
    {"observations": [0, 1, 2], "actions": [1, 0], "terminations": [False, True]}

Steps are those of RLDS: the last one (`is_last`) has an observation and no action, and `is_terminal` says
whether the episode ended there. `steps` may also be a dictionary of arrays. Arrays of an episode are T
actions, and T + 1 observations, or T of them. Then next observations are a column of their own, or those of
the next step; and the last step is left out unless the episode ended with it, because where it led is not
known. Flags may be one value for the episode. Objects with such attributes (Minari's `EpisodeData`) are
episodes, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from rhocover.checks import BoolArray
from rhocover.datasets.chunks import left_out_words
from rhocover.datasets.columns import SYNONYMS, flags, how_to_name
from rhocover.datasets.tables import DataTable, NestedRows, Piece, column_values
from rhocover.errors import InvalidDataError, naming, shortened

ROWS = 2**15  # steps of a piece, if episodes are short
NAMES = ("observations", "actions", "next_observations", "terminated", "truncated", "episode")


def is_row(item: Any) -> bool:
    """Returns whether a dictionary is one step, and not an episode: its action is a single value."""
    actions = (
        [value for name, value in item.items() if _is(name, "action")] if isinstance(item, Mapping) else []
    )
    return len(actions) == 1 and (isinstance(actions[0], str) or np.ndim(actions[0]) == 0)


def table_of_episodes(episodes: Iterable[Any], roles: Mapping[str, str]) -> DataTable:
    """Returns episodes as a table; `roles` are the names that the caller gave to roles, such as the state."""
    source = iter(episodes)
    first = next(source, None)
    if first is None:
        raise InvalidDataError(
            "the data are zero episodes: there is nothing to count. At least one is needed."
        )
    with naming("episode 0"):
        read = _read(first, roles)
    names = tuple(name for name in NAMES if (name != "terminated" and name != "truncated") or read.is_marked)
    remarks: list[str] = []

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        held, rows, left_out = [], 0, 0
        for number, item in enumerate(chain([first], source)):
            with naming(f"episode {number}"):
                episode = _read(item, roles)
                if episode.is_marked != read.is_marked:
                    raise InvalidDataError(
                        "it must say how it ended, as the episodes before do, or none may."
                    )
                left_out += episode.num_left_out
            if len(episode.actions):
                held.append(episode.columns(number))
                rows += len(episode.actions)
            if rows >= ROWS:
                yield _joined(held, wanted)
                held, rows = [], 0
        if held:
            yield _joined(held, wanted)
        if left_out:
            remarks.append(left_out_words(left_out))

    return DataTable(names, pieces, "the data", remarks=remarks, has_roles=True)


def _joined(parts: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> Piece:
    """Returns the columns of several episodes as one piece."""
    found = {}
    for name in wanted:
        several = [part[name] for part in parts]
        if isinstance(several[0], list):
            found[name] = list(chain.from_iterable(several))
            continue
        try:
            found[name] = np.concatenate(several)
        except ValueError as error:
            raise InvalidDataError.of(
                name, "must have one shape in all episodes", shortened(error)
            ) from error
    return found


# One episode.


@dataclass(frozen=True, eq=False)
class _Episode:
    """The transitions of an episode; `is_marked` says whether it is known how it ended."""

    observations: Any
    actions: Any
    next_observations: Any
    ended: bool
    is_marked: bool
    num_left_out: int = 0

    def columns(self, number: int) -> dict[str, Any]:
        length = len(self.actions)
        last = np.zeros(length, bool)
        last[-1] = True
        return {
            "observations": self.observations, "actions": self.actions,
            "next_observations": self.next_observations, "terminated": last & self.ended,
            "truncated": last & (not self.ended), "episode": np.full(length, number),
        }  # fmt: skip


def _read(item: Any, roles: Mapping[str, str]) -> _Episode:
    fields = _fields(item)
    if "steps" in fields:
        return _of_steps(fields["steps"], roles)
    return _of_arrays(fields, roles)


def _fields(item: Any) -> Mapping[str, Any]:
    """Returns the fields of an episode: those of a dictionary, or the attributes of an object."""
    if isinstance(item, Mapping):
        return item
    names = getattr(type(item), "_fields", None) or getattr(item, "__dict__", None) or ()
    return {name: getattr(item, name) for name in names}


def _is(name: Any, role: str) -> bool:
    return isinstance(name, str) and name.lower() in SYNONYMS[role]


def _find(fields: Mapping[str, Any], role: str, roles: Mapping[str, str]) -> Any:
    """Returns the column of a role; None if there is none."""
    chosen = roles.get(role)
    found = [chosen] if chosen is not None else [name for name in fields if _is(name, role)]
    if chosen is not None and chosen not in fields:
        raise _lacks(role, repr(chosen), fields)
    if len(found) > 1:
        raise InvalidDataError(f"it has several columns for {role}: {', '.join(map(repr, found))}.")
    return fields[found[0]] if found else None


def _lacks(role: str, what: str, fields: Mapping[str, Any]) -> InvalidDataError:
    names = [str(name) for name in fields]
    return InvalidDataError(
        f"it lacks {what}: its columns are {shortened(', '.join(names)) or 'none'}.",
        remedy=how_to_name([role], names),
    )


def _needed(fields: Mapping[str, Any], role: str, roles: Mapping[str, str]) -> Any:
    found = _find(fields, role, roles)
    if found is None:
        raise _lacks(role, f"the {role}s", fields)
    return found


# Steps as in RLDS.


def _of_steps(steps: Any, roles: Mapping[str, str]) -> _Episode:
    columns = steps if isinstance(steps, Mapping) else _as_columns(steps)
    seen = _column(_needed(columns, "state", roles), "observation")
    actions = _column(_needed(columns, "action", roles), "action")[: len(seen) - 1]
    is_last, is_terminal = (
        _step_flags(columns.get(name), name, len(seen)) for name in ("is_last", "is_terminal")
    )
    if is_last is not None and is_last[:-1].any():
        raise InvalidDataError(f"step {int(np.argmax(is_last))} is marked `is_last`, but others follow.")
    ended = is_terminal is not None and bool(is_terminal[-1])
    return _Episode(seen[:-1], actions, seen[1:], ended, is_terminal is not None)


def _as_columns(steps: Any) -> dict[str, Any]:
    """Returns steps, a dictionary each, as columns."""
    rows = [_fields(step) for step in steps]
    if not rows:
        raise InvalidDataError("it has no steps.")
    return {str(name): [_entry(row, name, t) for t, row in enumerate(rows)] for name in rows[0]}


def _entry(row: Mapping[str, Any], name: str, step: int) -> Any:
    if name not in row:
        raise InvalidDataError(f"step {step} lacks {name!r}, which the first step has.")
    value = row[name]
    return value if isinstance(value, Mapping | str) else np.asarray(value)


def _step_flags(values: Any, name: str, length: int) -> BoolArray | None:
    found = None if values is None else flags(np.asarray(values), name)
    if found is not None and found.size != length:
        raise InvalidDataError.of(name, f"must have {length} values, one per step", f"{found.size}")
    return found


# Arrays.


def _of_arrays(fields: Mapping[str, Any], roles: Mapping[str, str]) -> _Episode:
    seen = _column(_needed(fields, "state", roles), "observations")
    actions = _column(_needed(fields, "action", roles), "actions")
    after = _find(fields, "next_state", roles)
    length = len(actions)
    marks = {role: _find(fields, role, roles) for role in ("done", "terminated", "truncated")}
    ends = {role: _at_end(value, role, length) for role, value in marks.items() if value is not None}
    cut = ends.get("truncated", False)
    ended = ends.get("terminated", bool(ends.get("done", False)) and not cut)
    is_marked = "terminated" in ends or "done" in ends
    if after is None and len(seen) == length + 1:
        return _Episode(seen[:-1], actions, seen[1:], ended, is_marked)
    if len(seen) != length:
        raise InvalidDataError(
            f"it has {len(seen)} observations and {length} actions, expected one observation more than "
            "actions, or as many."
        )
    if after is not None:
        after = _column(after, "next_observations")
        if len(after) != length:
            raise InvalidDataError(f"it has {len(after)} next observations and {length} actions.")
        return _Episode(seen, actions, after, ended, is_marked)
    return _within(seen, actions, ended, is_marked)


def _within(seen: Any, actions: Any, ended: bool, is_marked: bool) -> _Episode:
    """Returns the transitions of T observations: the last step has a next state only if it needs none."""
    if not ended:
        return _Episode(
            seen[:-1], actions[:-1], seen[1:], False, is_marked, num_left_out=min(len(actions), 1)
        )
    last = seen[-1:]
    after = [*seen[1:], *last] if isinstance(seen, list) else np.concatenate([seen[1:], last])
    return _Episode(seen, actions, after, True, is_marked)


def _at_end(values: Any, role: str, length: int) -> bool:
    """Returns whether an episode is marked at its last step; raises if it is marked before."""
    array = np.asarray(values)
    if array.ndim == 0:
        return bool(flags(array[None], role)[0])
    marked = flags(array, role)
    if marked.size != length:
        raise InvalidDataError.of(role, f"must have {length} values, one per action", f"{marked.size}")
    if marked[:-1].any():
        raise InvalidDataError(
            f"step {int(np.argmax(marked))} is marked as {role}, but others follow: expected one episode."
        )
    return bool(marked[-1]) if length else False


def _column(values: Any, name: str) -> Any:
    """Returns a column of an episode as an array, or as a list of dictionaries."""
    if isinstance(values, list) and values and isinstance(values[0], Mapping):
        return values
    found = column_values(values, name)
    if isinstance(found, NestedRows):
        return found[:]
    is_nested = found.dtype.kind == "O" and found.size and isinstance(found.flat[0], dict)
    return list(found) if is_nested else found
