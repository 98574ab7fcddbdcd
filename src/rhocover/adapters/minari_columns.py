"""Episodes as columns: arrays for simple spaces, dictionaries and tuples of arrays for nested ones.

An episode of T steps has T + 1 observations and T of everything else; many episodes are the same columns one
after another with their lengths beside them. A space is a tree whose leaves are arrays; each leaf has a path,
("observations", "camera", "_index_0"), which is also its name in a Minari file.

    space   Dict(position=Box(2), hand=Tuple(Discrete(3), Discrete(4)))
    leaves  position, hand/_index_0, hand/_index_1

Columns are checked here, once, on their way in and out: kind of number, shape, number of rows. Whether a
value lies inside its space is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.adapters.stored_rows import StoredRows
from rhocover.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    import gymnasium as gym

Path = tuple[str, ...]
Leaves = dict[Path, np.ndarray]


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
    has_more: bool = False  # whether the last episode goes on in the next piece

    def __len__(self) -> int:
        return len(self.lengths)


def space_leaves(space: gym.Space[Any], path: Path) -> Iterator[tuple[Path, gym.Space[Any]]]:
    """Returns (path, space) of every array that a value of `space` is made of; refuses what is no array."""
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


def _key(key: Any, path: Path) -> str:
    if not isinstance(key, str) or not key or key == "." or "/" in key or "\0" in key:
        raise InvalidArgumentError(
            f"the space of {named(path)} has the key {key!r} that HDF5 cannot hold: expected text without /."
        )
    return key


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Returns whether the type is bool, an integer or a float of at most eight bytes."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def named(path: Path) -> str:
    """Returns the path as messages write it."""
    return f"`{'/'.join(path)}`"


def split(value: Any, space: gym.Space[Any], path: Path) -> Iterator[tuple[Path, gym.Space[Any], np.ndarray]]:
    """Returns (path, space, array) of every leaf of `value`, whose nesting must be the space's."""
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


def leaf_array(value: Any, path: Path) -> Any:
    """Returns `value` as an array of numbers; refuses objects, text, complex and ragged lists."""
    try:
        array = value if isinstance(value, StoredRows) else np.asarray(value)
    except ValueError as error:
        raise InvalidDataError(f"{named(path)} must be a rectangular array.") from error
    if not is_plain(array.dtype):
        raise InvalidDataError(f"{named(path)} must hold numbers of up to 8 bytes, got dtype {array.dtype}.")
    return array


def check_leaf(array: np.ndarray, space: gym.Space[Any], path: Path, rows: int | None = None) -> None:
    """Refuses an array whose rows are not values of `space` by shape and kind, or are not `rows` many."""
    check_form(array.shape, array.dtype, space, path, rows)


def check_form(
    got: tuple[int, ...], form: np.dtype[Any], space: gym.Space[Any], path: Path, rows: int | None = None
) -> None:
    """Refuses the shape and the type of an array before it is there; see `check_leaf`."""
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


def rebuild(space: gym.Space[Any], path: Path, leaf: Callable[[Path], Any]) -> Any:
    """Returns the value of `space` whose leaf at each path is `leaf(path)`: the inverse of `split`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: rebuild(part, (*path, key), leaf) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(rebuild(part, (*path, f"_index_{index}"), leaf) for index, part in parts)
    return leaf(path)
