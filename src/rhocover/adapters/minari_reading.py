"""What a Minari data set holds, read in chunks of bounded memory and checked on the way.

HDF5 files are read by `hdf5_reading`; Arrow and Parquet folders through Minari's own storage classes. What
the metadata says (episodes, steps) must be what is there. Spaces come from the metadata alone: where they are
missing Minari would build the environment that the file names, which is running what a stranger chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.adapters.hdf5_objects import Leaf
from rhocover.adapters.hdf5_reading import read_hdf5
from rhocover.adapters.hdf5_writing import Episodes, joined
from rhocover.adapters.minari_columns import (
    EpisodeColumns,
    FlatColumns,
    check_leaf,
    rebuild,
    space_leaves,
    split,
)
from rhocover.checks import integer
from rhocover.errors import InvalidDataError, RhocoverError, missing_extra, naming, shortened

if TYPE_CHECKING:
    import gymnasium as gym

MAIN_FILE = "main_data.hdf5"
STEP_COLUMNS = ("rewards", "terminations", "truncations")


@dataclass(frozen=True, eq=False)
class MinariSource:
    """A Minari data set, opened: `folder` holds its metadata.json, `indices` are the episodes, in order."""

    dataset_id: str
    metadata: Mapping[str, Any]
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    num_steps: int
    folder: Path
    indices: tuple[int, ...]

    @property
    def num_episodes(self) -> int:
        """Returns how many episodes are read."""
        return len(self.indices)

    def columns(self, chunk_episodes: int = 1024, *, is_lazy: bool = False) -> Iterator[FlatColumns]:
        """Returns the data as columns of at most `chunk_episodes` episodes (and about 64 MB) at a time.

        With `is_lazy` the observations of a longer episode are `StoredRows`, to be read before the next.
        """
        chunk = integer(chunk_episodes, "chunk_episodes", least=1)
        with naming(self.folder):
            yield from self._columns(chunk, is_lazy)

    def _columns(self, chunk: int, is_lazy: bool) -> Iterator[FlatColumns]:
        leaves, steps = source_leaves(self), 0
        if self.metadata["data_format"] == "hdf5":
            parts = read_hdf5(self.folder / MAIN_FILE, leaves, self.indices, chunk, is_lazy=is_lazy)
        else:
            parts = _read_stored(self, chunk)
        for part in parts:
            steps += int(part.lengths.sum())
            yield _flat(self, part, leaves)
        if steps != self.num_steps:
            raise InvalidDataError(
                f"`{self.dataset_id}` holds {steps} steps, but its metadata says {self.num_steps}. "
                "It is damaged, or was changed by hand: write or download it again."
            )

    def episodes(self) -> Iterator[EpisodeColumns]:
        """Returns the episodes one by one, as views of the chunks that `columns` reads."""
        for flat in self.columns():
            yield from split_episodes(flat, self)


def source_leaves(source: MinariSource) -> list[Leaf]:
    """Returns the columns that an episode of this data set has."""
    leaves = []
    for name, space in (("observations", source.observation_space), ("actions", source.action_space)):
        for path, part in space_leaves(space, (name,)):
            leaves.append(Leaf(path, part, int(name == "observations"), _is_image(part)))
    return [*leaves, *(Leaf((name,), None, 0) for name in STEP_COLUMNS)]


def _is_image(space: Any) -> bool:
    """Returns whether Minari may have stored it as JPEG: bytes, two or three axes, 32 by 32 or more."""
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
    )


def _flags(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "b":
        return array
    if not np.isin(array, (0, 1)).all():
        raise InvalidDataError(f"`{name}` must be True or False, got dtype {array.dtype} with other values.")
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


def _read_stored(source: MinariSource, chunk: int) -> Iterator[Episodes]:
    """Returns the episodes of an Arrow or Parquet data set, one storage read an episode."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet") from error
    from minari.dataset.minari_storage import MinariStorage

    storage = MinariStorage.read(source.folder)  # its spaces are in the metadata: no environment is made
    for begin in range(0, len(source.indices), chunk):
        yield joined(
            [_stored_episode(storage, source, index) for index in source.indices[begin : begin + chunk]]
        )


def _check_plain(folder: Path) -> None:
    """Refuses what is no file: reading a pipe would wait for ever."""
    for place in folder.iterdir():
        if not place.is_file():
            raise InvalidDataError(f"{place.name} is no file.")


def _stored_episode(storage: Any, source: MinariSource, index: int) -> Episodes:
    try:
        _check_plain(source.folder / str(index))
        (episode,), (about,) = storage.get_episodes([index]), storage.get_episode_metadata([index])
        arrays = {name: np.asarray(episode[name]) for name in STEP_COLUMNS}
        length, seed = int(about["total_steps"]), about.get("seed")
        for name, space in (("observations", source.observation_space), ("actions", source.action_space)):
            for path, part, array in split(episode[name], space, (name,)):
                check_leaf(array, part, path, length + (name == "observations"))
                arrays["/".join(path)] = array
    except RhocoverError as error:
        raise InvalidDataError(f"episode {index}: {error}") from error
    except Exception as error:  # what pyarrow and Minari raise on a damaged file has no common class
        raise InvalidDataError(f"episode {index} is missing or damaged ({shortened(error)}).") from error
    if any(arrays[name].shape != (length,) for name in STEP_COLUMNS) or not length:
        shapes = {name: arrays[name].shape for name in STEP_COLUMNS}
        raise InvalidDataError(f"episode {index} must have {length} steps, at least 1, got {shapes}.")
    has_seed = isinstance(seed, int) and 0 <= seed < 2**63
    return Episodes(arrays, np.array([length]), np.array([seed if has_seed else 0]), np.array([has_seed]))
