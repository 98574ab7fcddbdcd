"""Episodes as columns: arrays for simple spaces, dictionaries and tuples of arrays for nested ones.

An episode of T steps has T + 1 observations and T of everything else; many episodes are the concatenation of
such columns, with their lengths. A space is a tree whose leaves are arrays; each leaf has a path,
("observations", "camera", "_index_0"), which is also its name in a Minari file.

    space   Dict(position=Box(2), hand=Tuple(Discrete(3), Discrete(4)))
    leaves  position, hand/_index_0, hand/_index_1

Columns are checked here, once, when they are read or written: kind of number, shape, number of rows. It is
not checked whether a value lies inside its space.

Arrays that are too long for memory are kept in files. `StoredRows` has the `shape`, `dtype` and `len` of the
array and returns slices of its rows as arrays. `Spool` is an unnamed file to which such an array is written,
piece by piece.
"""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.files import naming_file

if TYPE_CHECKING:
    import gymnasium as gym

# Long arrays in files.

STRETCH_BYTES = 1 << 23  # read at a time


class StoredRows:
    """Rows `[T, ...]` that begin at byte `begin` of an open file, one after another."""

    def __init__(self, file: Any, begin: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._file, self._begin, self._stored = file, begin, dtype
        self.dtype, self.shape, self.ndim = dtype, shape, len(shape)
        self._read: Callable[[np.ndarray], np.ndarray] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Returns some consecutive rows."""
        first, last, _ = rows.indices(len(self))
        result = np.empty((max(last - first, 0), *self.shape[1:]), self._stored)
        row_bytes = self._stored.itemsize * math.prod(self.shape[1:])
        read_into(self._file, result.reshape(-1).view(np.uint8).data, self._begin + first * row_bytes)
        return result if self._read is None else self._read(result)

    def read_by(self, read: Callable[[np.ndarray], np.ndarray], dtype: np.dtype[Any]) -> StoredRows:
        """Returns the same rows; each slice is converted to another type by `read` when it is read."""
        result = StoredRows(self._file, self._begin, self._stored, self.shape)
        result.dtype, result._read = dtype, read
        return result


def read_into(file: Any, target: memoryview, position: int) -> None:
    """Fills `target` with the bytes of an unbuffered file from `position` on."""
    file.seek(position)
    while len(target):
        count = file.readinto(target)
        if not count:
            raise OSError("the file ended while it was read")
        target = target[count:]


def stretches(rows: Any) -> Iterator[np.ndarray]:
    """Yields an array as it is, and stored rows some megabytes at a time."""
    if isinstance(rows, np.ndarray):
        yield rows
        return
    yield from windows(rows, STRETCH_BYTES // rows.dtype.itemsize)


def windows(values: Any, most: int) -> Iterator[Any]:
    """Yields arrays `[T, ...]` or nested ones some rows at a time: about `most` numbers, at least one row."""
    leaves = list(_leaves(values))
    num_rows, width = len(leaves[0]), sum(math.prod(leaf.shape[1:]) for leaf in leaves)
    step = max(1, most // max(1, width))
    for first in range(0, max(num_rows, 1), step):
        yield _cut(values, slice(first, first + step))


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, dict | tuple):
        for part in values.values() if isinstance(values, dict) else values:
            yield from _leaves(part)
    else:
        yield values


def _cut(values: Any, rows: slice) -> Any:
    if isinstance(values, dict):
        return {key: _cut(part, rows) for key, part in values.items()}
    return tuple(_cut(part, rows) for part in values) if isinstance(values, tuple) else values[rows]


class Spool:
    """Collects the rows of one long array in an unnamed file, which is removed with the last reference."""

    def __init__(self, folder: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        self._folder, self._dtype, self._row_shape, self._num_rows = folder, dtype, row_shape, 0
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self.seek, self.readinto = self._file.seek, self._file.readinto  # the methods that `StoredRows` uses

    def append(self, rows: np.ndarray) -> Spool:
        """Returns the spool with rows added: this one, or a copy if they need a finer type of number."""
        wanted = np.result_type(self._dtype, rows)
        if wanted != self._dtype:
            return self._copied(wanted).append(rows)
        raw = np.ascontiguousarray(rows).astype(wanted, copy=False).reshape(-1).view(np.uint8).data
        with naming_file(self._folder):
            self._file.seek(0, os.SEEK_END)
            while len(raw):
                raw = raw[self._file.write(raw) :]
        self._num_rows += len(rows)
        return self

    def _copied(self, dtype: np.dtype[Any]) -> Spool:
        copy = Spool(self._folder, dtype, self._row_shape)
        for piece in stretches(self.rows()):
            copy.append(piece)
        return copy

    def rows(self) -> StoredRows:
        """Returns all rows so far."""
        return StoredRows(self, 0, self._dtype, (self._num_rows, *self._row_shape))


# Columns of episodes.

ColumnPath = tuple[str, ...]
Leaves = dict[ColumnPath, np.ndarray]


@dataclass(frozen=True, eq=False)
class EpisodeColumns:
    """One episode of T steps: observations [T+1, ...], actions [T, ...], the rest [T]."""

    observations: Any
    actions: Any
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True, eq=False)
class FlatColumns:
    """E episodes of N steps in all: observations [N+E, ...], actions [N, ...], the rest [N]; lengths [E].

    Observations of one long episode may be `StoredRows`.
    """

    observations: Any
    actions: Any
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    lengths: np.ndarray
    seeds: tuple[int | None, ...]
    has_more: bool = False  # whether the last episode continues in the next piece

    def __len__(self) -> int:
        return len(self.lengths)


def space_leaves(space: gym.Space[Any], path: ColumnPath) -> Iterator[tuple[ColumnPath, gym.Space[Any]]]:
    """Yields (path, space) of every array of a value of `space`; raises for spaces without arrays."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from space_leaves(part, (*path, _key(key, path)))
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from space_leaves(part, (*path, f"_index_{index}"))
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box):
        if not is_plain(np.dtype(space.dtype)):
            raise InvalidArgumentError(
                f"the space of {named(path)} has dtype {space.dtype}, expected numbers."
            )
        yield path, space
    else:
        raise InvalidArgumentError(
            f"the space of {named(path)} is {type(space).__name__}; expected Discrete, MultiDiscrete, "
            "MultiBinary, Box, or Dict and Tuple of them. Wrap the environment so that it returns numbers."
        )


def _key(key: Any, path: ColumnPath) -> str:
    if not isinstance(key, str) or not key or key == "." or "/" in key or "\0" in key:
        raise InvalidArgumentError(
            f"the space of {named(path)} has the key {key!r}, which HDF5 cannot store: use text without /."
        )
    return key


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Returns whether the type is bool, an integer or a float of at most eight bytes."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def named(path: ColumnPath) -> str:
    """Returns the path as it is written in messages."""
    return f"`{'/'.join(path)}`"


def split(
    value: Any, space: gym.Space[Any], path: ColumnPath
) -> Iterator[tuple[ColumnPath, gym.Space[Any], np.ndarray]]:
    """Yields (path, space, array) of every leaf of `value`, which must be nested as the space is."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            came = (
                f"the keys {sorted(map(str, value))}" if isinstance(value, Mapping) else type(value).__name__
            )
            raise InvalidDataError(f"{named(path)} must be a dict of {sorted(space.spaces)}, got {came}.")
        for key, part in space.spaces.items():
            yield from split(value[key], part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            came = f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else repr(value)
            raise InvalidDataError(
                f"{named(path)} must be a tuple of {len(space.spaces)} columns, got {came}."
            )
        for index, part in enumerate(space.spaces):
            yield from split(value[index], part, (*path, f"_index_{index}"))
    else:
        yield path, space, leaf_array(value, path)


def leaf_array(value: Any, path: ColumnPath) -> Any:
    """Returns `value` as an array of numbers; raises for objects, text, complex and ragged lists."""
    try:
        array = value if isinstance(value, StoredRows) else np.asarray(value)
    except ValueError as error:
        raise InvalidDataError(f"{named(path)} must be a rectangular array.") from error
    if not is_plain(array.dtype):
        raise InvalidDataError(f"{named(path)} must hold numbers of up to 8 bytes, got dtype {array.dtype}.")
    return array


def check_leaf(array: np.ndarray, space: gym.Space[Any], path: ColumnPath, rows: int | None = None) -> None:
    """Raises if the rows of an array do not have the shape and kind of `space`, or are not `rows` many."""
    check_form(array.shape, array.dtype, space, path, rows)


def check_form(
    got: tuple[int, ...],
    form: np.dtype[Any],
    space: gym.Space[Any],
    path: ColumnPath,
    rows: int | None = None,
) -> None:
    """Checks the shape and the type of an array before it is read; see `check_leaf`."""
    shape = space.shape or ()
    if not got or got[1:] != shape or (rows is not None and got[0] != rows):
        wanted = "(" + ", ".join(map(str, ("any" if rows is None else rows, *shape))) + ")"
        raise InvalidDataError(
            f"{named(path)} must have shape {wanted}, got {got}. "
            "An episode of T steps has T + 1 observations and T of everything else."
        )
    if form.kind == "f" and np.dtype(space.dtype).kind != "f":
        raise InvalidDataError(
            f"{named(path)} must hold whole numbers like its space {space}, got dtype {form}."
        )


def rebuild(space: gym.Space[Any], path: ColumnPath, leaf: Callable[[ColumnPath], Any]) -> Any:
    """Returns the value of `space` whose leaf at each path is `leaf(path)`: the inverse of `split`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: rebuild(part, (*path, key), leaf) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(rebuild(part, (*path, f"_index_{index}"), leaf) for index, part in parts)
    return leaf(path)
