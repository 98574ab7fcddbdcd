"""The columns of a table of transitions: found by their names, checked, and turned into transitions.

States and actions are whole numbers, also if they are stored as floats or text, or they are names: a column
of text in which no value is a number. Other values raise an error that names column and row. A flag is
True/False or 0/1. `terminated` means that an episode ended, `truncated` (or `timeout`) that it was cut off;
`done` may mean either, so a row that is marked `done` and `truncated` was cut off. If only the episodes are
numbered and no column marks their ends, it is not known how they ended: all of them count as cut off.

If a table has no column of next states, the next state is that of the next row of the same episode; where
episodes begin is known from a column that numbers them, or from marks of both kinds of ends. The last row of
an episode then has no next state: if the episode ended there it needs none, otherwise the row is left out,
because its next state is unknown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.errors import Call, InvalidDataError, Text, parse_text, shortened, unknown_name

SYNONYMS = {
    "state": ("s", "state", "states", "obs", "observation", "observations", "observation.state"),
    "action": ("a", "action", "actions", "act", "acts"),
    "next_state": (
        "s_next", "s'", "next_s", "next_state", "next_states", "next_obs", "next_observation",
        "next_observations", "new_obs",
    ),
    "done": ("done", "dones", "next.done"),
    "terminated": ("terminated", "terminateds", "terminal", "terminals", "termination", "terminations"),
    "truncated": ("truncated", "truncateds", "truncation", "truncations", "timeout", "timeouts"),
    "episode": ("episode", "episodes", "episode_id", "episode_index", "eps_id"),
}  # fmt: skip
SHORT = {"state": "s", "action": "a", "next_state": "s_next"}  # how a role is written in `columns`
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
    first: str | None = None  # 0 where an episode begins; only of collections, which have it in every row

    @property
    def needed(self) -> list[str]:
        """The names, in order, without those that are missing."""
        return [name for name in vars(self).values() if name is not None]


def find_columns(names: Iterable[str], source: str, given: Mapping[str, str] | None = None) -> Columns:
    """Returns the column for each role; raises if a column is missing, naming those that there are.

    `given` are columns that the caller chose, by role (see `read_roles`).
    """
    given = given or {}
    left = [str(name) for name in names]
    for role, name in given.items():
        if name not in left:
            raise InvalidDataError.of(
                "columns", f"names {name!r} as the {role}, but {source} has the columns {_listed(left)}"
            )
    free = [name for name in left if name not in given.values()]
    found = {role: given.get(role) or _find(role, free, source) for role in SYNONYMS}
    missing = missing_roles(found)
    if missing:
        raise InvalidDataError(
            f"{source} lacks {_and(missing)}: its columns are {_listed(left)}.",
            remedy=how_to_name(missing, [name for name in free if name not in found.values()]),
        )
    return Columns(**found)  # type: ignore[arg-type]


def missing_roles(found: Mapping[str, str | None]) -> list[str]:
    """Returns the roles without a column that transitions cannot do without."""
    missing = [role for role in ("state", "action") if found[role] is None]
    is_marked = found["done"] is not None or found["terminated"] is not None
    if found["episode"] is not None:
        return missing
    if found["next_state"] is None and not (is_marked and found["truncated"] is not None):
        missing.append("next_state")
    return missing if is_marked else [*missing, "done"]


def how_to_name(missing: Sequence[str], free: Sequence[str]) -> Text:
    """Returns what to write so that the missing columns are found."""
    likeliest = _likeliest(missing, free)
    chosen = {SHORT.get(role, role): likeliest.get(role, "COLUMN") for role in missing}
    python = ", ".join(f'"{role}": "{name}"' for role, name in chosen.items())
    typed = " ".join(f"--column {role}={name}" for role, name in chosen.items())
    more = "; ".join(f"{role}: {_some(SYNONYMS[role])}" for role in missing)
    text: tuple[Any, ...] = (
        "Say which columns they are, for example ",
        Call(f"columns={{{python}}}", typed),
        f", or rename them ({more}).",
    )
    if "done" in missing:
        text += (" In one endless run `done` is False everywhere.",)
    if "next_state" in missing:
        text += (
            " With a column `episode`, or with `terminated` and `truncated`, next states are not needed.",
        )
    return text


def _some(words: Sequence[str]) -> str:
    return ", ".join([*words[:SHOWN], *(["..."] if len(words) > SHOWN else [])])


def _likeliest(missing: Sequence[str], free: Sequence[str]) -> dict[str, str]:
    """Returns the free column whose name is most like that of a role, for some roles, and each only once."""
    if (
        len(free) == len(missing) == 1 and missing[0] != "done"
    ):  # one left over is no flag: it may be a reward
        return {missing[0]: shortened(free[0], 60)}
    pairs = [(_likeness(role, name), role, name) for role in missing for name in free[:MOST_COMPARED]]
    found: dict[str, str] = {}
    for likeness, role, name in sorted(pairs, key=lambda pair: -pair[0]):
        if likeness >= LIKE and role not in found and shortened(name, 60) not in found.values():
            found[role] = shortened(name, 60)
    return found


def _likeness(role: str, name: str) -> float:
    """Returns how much a name is like those of a role, up to 1; flags are short words, alike by chance."""
    name = name.lower()
    if role == "done":
        return LIKE if any(part.startswith(ENDS) for part in re.split("[^a-z]+", name)) else 0.0
    return max(difflib.SequenceMatcher(None, name, word).ratio() for word in SYNONYMS[role])


ENDS = (
    "done",
    "end",
    "term",
    "finish",
    "over",
    "last",
)  # beginnings of words that mark the end of an episode
MOST_COMPARED = 1000  # columns: comparing names takes a tenth of a millisecond each
SHOWN = 4  # usual names in a message
LIKE = 0.6  # share of letters in common, as in difflib


def read_roles(columns: Any) -> dict[str, tuple[str, ...]]:
    """Returns the argument `columns` by role: `{"s": "pos"}` is `{"state": ("pos",)}`.

    Several columns for a role are put side by side: `{"s": ("x", "y")}`.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise InvalidDataError.of("columns", 'must be like {"s": "pos", "a": "act"}', type(columns).__name__)
    found: dict[str, tuple[str, ...]] = {}
    for key, names in columns.items():
        role = _role(key)
        several = (names,) if isinstance(names, str) else names
        is_named = isinstance(several, tuple | list) and several and all(isinstance(n, str) for n in several)
        if not is_named or (len(several) > 1 and role not in ("state", "action", "next_state")):
            raise InvalidDataError.of(
                "columns", f"must give the name of a column for {key!r}", shortened(repr(names))
            )
        if role in found:
            raise InvalidDataError.of("columns", f"names the {role} twice")
        found[role] = tuple(several)
    return found


def _role(key: Any) -> str:
    for role, words in SYNONYMS.items():
        if key == role or key in words:
            return role
    known = [SHORT.get(role, role) for role in SYNONYMS]
    raise unknown_name(("role of a column in `columns`",), key, known, argument="columns")


def _listed(names: Sequence[str]) -> str:
    return shortened(", ".join(names)) or "none"


def _find(role: str, names: list[str], source: str) -> str | None:
    fits = [name for name in names if name.strip().lower() in SYNONYMS[role]]
    if len(fits) > 1:
        short = SHORT.get(role, role)
        raise InvalidDataError(
            f"{source} has several columns for {role}: {_and(fits)}.",
            remedy=(
                "Keep one of them: ",
                Call(f'columns={{"{short}": "{fits[0]}"}}', f"--column {short}={fits[0]}"),
                ".",
            ),
        )
    return fits[0] if fits else None


def _and(words: list[str]) -> str:
    return " and ".join(f"`{word}`" for word in words)


# Values of a column.


def is_text(values: Any) -> bool:
    """Returns whether a column holds text."""
    return getattr(values, "dtype", np.dtype(float)).kind in "US"


def are_names(values: Any, name: str, first_row: int = 0) -> bool:
    """Returns whether a column of text holds names, and not numbers; raises if it holds both."""
    if not is_text(values):
        return False
    texts = np.unique(np.asarray(values))
    is_number = [_is_number(text) for text in texts.tolist()]
    if any(is_number) and not all(is_number):
        _refuse_mix(np.asarray(values), name, first_row)
    return not all(is_number)


def _refuse_mix(array: Any, name: str, first_row: int) -> None:
    """Raises for a column in which some texts are numbers and others are not, naming a row of each."""
    places = {_is_number(text): row for row, text in reversed(list(enumerate(array.ravel().tolist())))}
    number, other = (
        f"{shortened(repr(str(array.flat[places[k]])))} in row {first_row + places[k]}" for k in (True, False)
    )
    raise InvalidDataError.of(
        name, "must hold whole numbers, or names that are no numbers", f"{other}, but {number}"
    )


def texts(values: Any, name: str, first_row: int = 0) -> Any:
    """Returns a column of names as an array of text `[T]`; raises if one is empty or a number."""
    array = one_per_row(values, name)
    if array.dtype.kind == "S":
        array = _decoded(array, name)
    if array.dtype.kind != "U":
        raise InvalidDataError.of(name, "must hold names, as in the rows before", _kinds(array))
    _refuse(array, array == "", name, first_row, "a name in every row")
    numbers = [text for text in np.unique(array).tolist() if _is_number(text)]
    _refuse(array, np.isin(array, numbers), name, first_row, "names, as in the rows before")
    return array


def _decoded(array: Any, name: str) -> Any:
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDataError.of(name, "must hold text in UTF-8", shortened(error)) from error


def real_numbers(values: Any, name: str, first_row: int = 0) -> Any:
    """Returns a column of text as numbers, `[T, ...]`; other columns are returned as they are."""
    return _parsed(np.asarray(values), name, first_row, "numbers") if is_text(values) else values


def whole_numbers(values: Any, name: str, first_row: int = 0) -> IntArray:
    """Returns a column of whole numbers as int64 `[T]`; raises for anything else, naming the row."""
    array = one_per_row(values, name)
    if array.dtype.kind in "US":
        array = _parsed(array, name, first_row, "whole numbers")
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
    array = one_per_row(values, name)
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


def one_per_row(values: Any, name: str) -> Any:
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
            remedy=parse_text(
                "Observations of several numbers need `states`, for example rc.Net() or rc.Bins; actions "
                "need `actions`."
            ),
        )
    return array


def _parsed(array: Any, name: str, first_row: int, expected: str) -> Any:
    """Returns text as integers, or as floats if some are not integers."""
    for kind in (np.int64, np.float64):
        try:
            return array.astype(kind)
        except (ValueError, OverflowError):
            continue
    places = (place for place, text in enumerate(array.ravel().tolist()) if not _is_number(text))
    row, _ = divmod(next(places), max(array[0].size, 1))
    came = f"{shortened(repr(str(array[row])))} in row {first_row + row}"
    raise InvalidDataError.of(name, f"must hold {expected}", came)


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
    kinds = sorted({type(value).__name__ for value in array.tolist()})
    return f"values of type {kinds[0]}" if len(kinds) == 1 else f"a mix of {', '.join(kinds)}"
