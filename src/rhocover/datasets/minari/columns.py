"""Episodes as columns: arrays for simple spaces, dictionaries and tuples of arrays for nested ones.

An episode of T steps has T + 1 observations and T of everything else; many episodes are the concatenation of
such columns, with their lengths. A space is a tree whose leaves are arrays; each leaf has a path,
("observations", "camera", "_index_0"), which is also its name in a Minari file.

    space   Dict(position=Box(2), hand=Tuple(Discrete(3), Discrete(4)))
    leaves  position, hand/_index_0, hand/_index_1

Columns are checked here, once, when they are read or written: kind of number, shape, number of rows. It is
not checked whether a value lies inside its space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    import gymnasium as gym

# Pieces of arrays.


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
    """E episodes of N steps in all: observations [N+E, ...], actions [N, ...], the rest [N]; lengths [E]."""

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


@dataclass(frozen=True, eq=False)
class Episodes:
    """Some episodes: the arrays of each column by name, lengths [E], seeds [E] and which of them are given.

    A long episode is read in parts: `has_more` means that the last one continues in the next part. A part of
    T steps has T + 1 observations; the last of them is the first of the next part.
    """

    arrays: Mapping[str, Any]
    lengths: np.ndarray
    seeds: np.ndarray
    has_seed: np.ndarray
    has_more: bool = False

    def __len__(self) -> int:
        return len(self.lengths)


def joined(pieces: Sequence[Episodes]) -> Episodes:
    """Returns the concatenation of the pieces."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = {name: np.concatenate([piece.arrays[name] for piece in pieces]) for name in pieces[0].arrays}
    columns = ([getattr(piece, name) for piece in pieces] for name in ("lengths", "seeds", "has_seed"))
    return Episodes(arrays, *map(np.concatenate, columns), has_more=pieces[-1].has_more)


def named_parts(space: gym.Space[Any]) -> dict[str, gym.Space[Any]] | None:
    """Returns the parts of a space of dicts or tuples by the names of their columns; None for any other."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    if isinstance(space, spaces.Tuple):
        return {f"_index_{index}": part for index, part in enumerate(space.spaces)}
    return None


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
        array = np.asarray(value)
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
