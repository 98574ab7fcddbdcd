"""Episodes for the tests of Minari files: random columns of any space, and a small data set on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rhocover.datasets.minari.files import EpisodeColumns, MinariWriter

GRID = {"observation_space": spaces.Discrete(16), "action_space": spaces.Discrete(4)}


def random_column(space: gym.Space[Any], rows: int, rng: np.random.Generator) -> Any:
    """Returns `rows` values of the space's type and shape, over the type's whole range, nested as the space."""
    if isinstance(space, spaces.Dict):
        return {key: random_column(part, rows, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(random_column(part, rows, rng) for part in space.spaces)
    form, shape = np.dtype(space.dtype), (rows, *(space.shape or ()))
    if form.kind == "f":
        values = rng.standard_normal(shape).astype(form)
        return np.where(
            rng.random(shape) < 0.1, np.array([np.nan, np.inf, -np.inf])[rows % 3], values
        ).astype(form)
    if form.kind == "b":
        return rng.random(shape) < 0.5
    limits = np.iinfo(form)
    return rng.integers(limits.min, limits.max, shape, dtype=form, endpoint=True)


def random_flat(observation_space: Any, action_space: Any, lengths: Any, seed: int = 0) -> dict[str, Any]:
    """Returns the arguments of `add_many`: episodes of these lengths, every other one with a seed."""
    rng, lengths = np.random.default_rng(seed), np.asarray(lengths)
    steps, ends = int(lengths.sum()), np.cumsum(lengths) - 1
    terminations, truncations = np.zeros((2, steps), bool)
    terminations[ends], truncations[ends] = rng.random((2, len(lengths))) < 0.5
    return {
        "observations": random_column(observation_space, steps + len(lengths), rng),
        "actions": random_column(action_space, steps, rng),
        "rewards": rng.standard_normal(steps),
        "terminations": terminations,
        "truncations": truncations,
        "lengths": lengths,
        "seeds": [number if number % 2 else None for number in range(len(lengths))],
    }


def cut(value: Any, rows: slice) -> Any:
    """Returns some rows of a column, nested as it is."""
    if isinstance(value, dict):
        return {key: cut(part, rows) for key, part in value.items()}
    return tuple(cut(part, rows) for part in value) if isinstance(value, tuple) else value[rows]


def episodes_of(flat: dict[str, Any]) -> list[EpisodeColumns]:
    """Returns the same episodes one by one."""
    result, done = [], 0
    for number, length in enumerate(flat["lengths"]):
        steps, seen = slice(done, done + length), slice(done + number, done + number + length + 1)
        columns = (cut(flat[name], steps) for name in ("actions", "rewards", "terminations", "truncations"))
        result.append(EpisodeColumns(cut(flat["observations"], seen), *columns, flat["seeds"][number]))
        done += length
    return result


def write(path: Path, flat: dict[str, Any], dataset_id: str = "grid/test-v0", **settings: Any) -> Path:
    """Writes the episodes at `path`, in one piece; returns it."""
    metadata = settings.pop("metadata", None)
    with MinariWriter(path, dataset_id, **(GRID | settings)) as writer:
        writer.add_many(**flat)
        writer.finish(metadata)
    return path


def grid(lengths: Any = (3, 1, 5), seed: int = 0) -> dict[str, Any]:
    """Returns a few episodes of the sixteen-state grid."""
    flat = random_flat(*GRID.values(), lengths, seed)
    return flat | {"observations": flat["observations"] % 16, "actions": flat["actions"] % 4}


def assert_same(left: Any, right: Any) -> None:
    """Checks that two columns agree in nesting, type, shape and every bit of every number (nan is nan)."""
    if isinstance(left, dict):
        assert set(left) == set(right)
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, tuple):
        assert isinstance(right, tuple)
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        assert left.dtype == right.dtype
        assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
