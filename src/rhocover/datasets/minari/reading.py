"""Reads Minari data sets in chunks of bounded memory, and checks them.

HDF5 files are read by `hdf5_reading`, Arrow and Parquet folders by `arrow`. The numbers of episodes and steps
in the metadata must match the data. Spaces are taken from the metadata only: if they are missing, Minari
would build the environment that the file names, which means running code that the file's author chose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.checks import integer
from rhocover.datasets.minari import hdf5_reading
from rhocover.datasets.minari.arrow import read_stored
from rhocover.datasets.minari.columns import (
    EpisodeColumns,
    Episodes,
    FlatColumns,
    check_leaf,
    joined,
    rebuild,
    space_leaves,
    split,
)
from rhocover.datasets.minari.hdf5_objects import Leaf
from rhocover.datasets.minari.hdf5_reading import gathered, read_hdf5
from rhocover.errors import InvalidDataError, naming
from rhocover.files import check_plain, check_within

if TYPE_CHECKING:
    import gymnasium as gym

MAIN_FILE = "main_data.hdf5"
STEP_COLUMNS = ("rewards", "terminations", "truncations")


@dataclass(frozen=True, eq=False)
class MinariSource:
    """An open Minari data set: `folder` contains its metadata.json, `indices` are the episodes, in order."""

    dataset_id: str
    metadata: Mapping[str, Any]
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    num_steps: int
    folder: Path
    indices: Sequence[int]

    @property
    def num_episodes(self) -> int:
        """How many episodes are read."""
        return len(self.indices)

    def columns(self, chunk_episodes: int = 1024) -> Iterator[FlatColumns]:
        """Yields the data as columns of at most `chunk_episodes` episodes (and about 64 MB) at a time.

        An episode is never divided: a larger one is yielded alone. See `pieces`.
        """
        leaves, held = source_leaves(self), []
        for part in self._parts(chunk_episodes, leaves):
            held.append(part)
            if not part.has_more:
                yield _flat(self, _whole(held, leaves), leaves)
                held = []

    def pieces(self, chunk_episodes: int = 1024) -> Iterator[FlatColumns]:
        """Yields the same, but no piece is larger: if one has `has_more`, its last episode continues.

        A part of T steps of an episode has T + 1 observations, so the next part repeats the last one.
        """
        leaves = source_leaves(self)
        for part in self._parts(chunk_episodes, leaves):
            yield _flat(self, part, leaves)

    def _parts(self, chunk_episodes: int, leaves: Sequence[Leaf]) -> Iterator[Episodes]:
        chunk = integer(chunk_episodes, "chunk_episodes", least=1)
        with naming(self.folder):
            yield from self._checked_parts(chunk, leaves)

    def _checked_parts(self, chunk: int, leaves: Sequence[Leaf]) -> Iterator[Episodes]:
        steps = 0
        if self.metadata["data_format"] == "hdf5":
            path = data_file(self.folder)
            parts = read_hdf5(path, leaves, self.indices, chunk, self.num_steps)
        else:
            parts = gathered(_read_stored(self, leaves), chunk)
        for part in parts:
            steps += int(part.lengths.sum())
            if steps > self.num_steps:
                break
            yield part
        if steps != self.num_steps:
            raise InvalidDataError(
                f"`{self.dataset_id}` holds {steps} steps{' or more' * (steps > self.num_steps)}, but its "
                f"metadata says {self.num_steps}. "
                "It is damaged, or was changed by hand: write or download it again."
            )

    def episodes(self) -> Iterator[EpisodeColumns]:
        """Returns the episodes one by one, as views of the chunks that `columns` reads."""
        for flat in self.columns():
            yield from split_episodes(flat, self)


def data_file(folder: Path) -> Path:
    """Returns the HDF5 file of a data set; raises if it is not a file inside its folder."""
    path = folder / MAIN_FILE
    if not os.path.lexists(path):
        raise InvalidDataError(f"`{path}` is missing; according to the metadata next to it, it has the data.")
    try:
        check_within(path, folder)
        check_plain(path)
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise InvalidDataError(f"`{path}` cannot be read: {error}.") from error
    return path


def _whole(parts: Sequence[Episodes], leaves: Sequence[Leaf]) -> Episodes:
    """Returns parts as one: if an episode continues, its observation at the border is kept once."""
    if len(parts) == 1:
        return parts[0]
    cut = [part.has_more for part in parts]
    arrays = {}
    for leaf in leaves:
        pieces = [part.arrays[leaf.name] for part in parts]
        pieces = [p[: len(p) - leaf.extra] if more else p for p, more in zip(pieces, cut, strict=True)]
        arrays[leaf.name] = np.concatenate(pieces)
    goes_on = np.cumsum([len(part) for part in parts[:-1]])  # every part but the last ends within an episode
    whole = joined([replace(part, arrays={}, has_more=False) for part in parts])
    begins = np.setdiff1d(np.arange(len(whole)), goes_on)
    lengths = np.add.reduceat(whole.lengths, begins)
    return Episodes(arrays, lengths, whole.seeds[begins], whole.has_seed[begins])


def source_leaves(source: MinariSource) -> list[Leaf]:
    """Returns the columns that an episode of this data set has."""
    leaves = []
    for name, space in (("observations", source.observation_space), ("actions", source.action_space)):
        for path, part in space_leaves(space, (name,)):
            leaves.append(Leaf(path, part, int(name == "observations"), _is_image(part)))
    return [*leaves, *(Leaf((name,), None, 0) for name in STEP_COLUMNS)]


def _is_image(space: Any) -> bool:
    """Returns whether Minari may have stored it as JPEG: uint8, two or three axes, 32 by 32 or more."""
    from gymnasium.spaces import Box

    is_picture = isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)
    return is_picture and min(space.shape[:2]) >= 32


def _flat(source: MinariSource, part: Episodes, leaves: Sequence[Leaf]) -> FlatColumns:
    """Returns the arrays in the nesting of the spaces; rewards as float64, ends as bool."""
    steps = int(part.lengths.sum())
    for leaf in leaves:
        if leaf.space is not None:
            check_leaf(part.arrays[leaf.name], leaf.space, leaf.path, steps + leaf.extra * len(part))

    def pick(path: tuple[str, ...]) -> np.ndarray:
        return part.arrays["/".join(path)]

    seeds = zip(part.seeds.tolist(), part.has_seed.tolist(), strict=True)
    return FlatColumns(
        observations=rebuild(source.observation_space, ("observations",), pick),
        actions=rebuild(source.action_space, ("actions",), pick),
        rewards=part.arrays["rewards"].astype(np.float64, copy=False),
        terminations=_flags(part.arrays["terminations"], "terminations"),
        truncations=_flags(part.arrays["truncations"], "truncations"),
        lengths=part.lengths,
        seeds=tuple(seed if has else None for seed, has in seeds),
        has_more=part.has_more,
    )


def _flags(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "b":
        return array
    if not np.isin(array, (0, 1)).all():
        raise InvalidDataError.of(name, "must be True or False", f"dtype {array.dtype} with other values")
    return array.astype(bool)


def split_episodes(flat: FlatColumns, source: MinariSource) -> Iterator[EpisodeColumns]:
    """Returns the episodes of a chunk, as views."""
    ends = np.cumsum(flat.lengths)
    trees = {"observations": source.observation_space, "actions": source.action_space}
    leaves = {name: list(split(getattr(flat, name), space, (name,))) for name, space in trees.items()}
    for number, (end, length) in enumerate(zip(ends.tolist(), flat.lengths.tolist(), strict=True)):
        rows, first = slice(end - length, end), end - length + number
        seen = {path: array[first : first + length + 1] for path, _, array in leaves["observations"]}
        done = {path: array[rows] for path, _, array in leaves["actions"]}
        yield EpisodeColumns(
            rebuild(trees["observations"], ("observations",), seen.__getitem__),
            rebuild(trees["actions"], ("actions",), done.__getitem__),
            flat.rewards[rows],
            flat.terminations[rows],
            flat.truncations[rows],
            flat.seeds[number],
        )


def _read_stored(source: MinariSource, leaves: Sequence[Leaf]) -> Iterator[Episodes]:
    """Yields the episodes of an Arrow or Parquet data set, in parts of about 64 MB."""
    spaces = {"observations": source.observation_space, "actions": source.action_space}
    form = source.metadata["data_format"]
    for index in source.indices:
        yield from read_stored(
            source.folder, form, spaces, leaves, index, source.num_steps, hdf5_reading.CHUNK_BYTES
        )
