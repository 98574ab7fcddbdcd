"""Observations of any space as plain arrays with names, for files, and back.

An array space is one column; Dict and Tuple spaces are one column for each of their parts, named by the way
there: `observations/camera/_index_0` (see `adapters.minari_columns`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rhocover.datasets.minari.columns import space_leaves, split

Columns = dict[str, np.ndarray]


def row_bytes(space: Any) -> int:
    """Returns how many bytes one observation takes."""
    leaves = [leaf for _, leaf in space_leaves(space, ("observations",))]
    return sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves)


def rows_within(num_bytes: int, space: Any, most: int) -> int:
    """Returns how many observations take about so many bytes: at least one, and at most `most`."""
    return max(1, min(most, num_bytes // max(1, row_bytes(space))))


def as_columns(space: Any, observations: Any, name: str) -> Columns:
    """Returns observations, given as an array or as a list, as named columns `[T, ...]`."""
    nested = stacked(space, observations)
    return {"/".join(path): array for path, _, array in split(nested, space, (name,))}


def stacked(space: Any, observations: Any) -> Any:
    """Returns a list of observations as arrays, nested as the space is."""
    from gymnasium import spaces

    if isinstance(observations, np.ndarray):
        return observations
    if isinstance(space, spaces.Dict):
        return {key: stacked(part, [o[key] for o in observations]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(part, [o[k] for o in observations]) for k, part in enumerate(space.spaces))
    if not len(observations):
        return np.zeros((0, *space.shape), space.dtype)
    array = np.array(observations)
    if array.dtype.kind == "f" and space.dtype.kind in "iu":
        raise ValueError(f"numbers with a point, expected whole numbers of {space}")
    return array if array.dtype.kind == "f" else array.astype(space.dtype)


def nested(space: Any, columns: Mapping[str, np.ndarray], name: str) -> Any:
    """Returns named columns as arrays, nested as the space is."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: nested(part, columns, f"{name}/{key}") for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nested(part, columns, f"{name}/_index_{k}") for k, part in enumerate(space.spaces))
    return columns[name]


def one(space: Any, values: Any, row: int) -> Any:
    """Returns observation number `row` of nested arrays, as an environment would show it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: one(part, values[key], row) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one(part, values[k], row) for k, part in enumerate(space.spaces))
    return values[row].copy() if values.ndim > 1 or space.shape else values[row]


def joined(pieces: Sequence[Columns]) -> Columns:
    """Returns columns one after another."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def picked(columns: Columns, rows: Any) -> Columns:
    """Returns some rows of each column."""
    return {name: array[rows] for name, array in columns.items()}
