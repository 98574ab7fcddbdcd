"""Writes Minari data sets through h5py: same folders, names and keys as Minari 0.5, several times as fast.

    with MinariWriter(path, "frozen_lake/covered-v0", observation_space=..., action_space=...) as writer:
        writer.add_many(observations, actions, rewards, terminations, truncations, lengths)
        writer.finish({"description": "..."})

The data set is assembled under a hidden name next to `path` and renamed when it is complete and on disk;
leaving the block without `finish`, by an exception or not, removes it. Numbers are stored without loss, in
the dtype of the space or, for floats of higher precision, in their own: a number that its column cannot hold
exactly raises an error and is never rounded. Images are stored as they are, not as JPEG. Datasets are
contiguous: Minari can append episodes to the data set, but cannot extend one of these.

An episode is a group with an array for each column, and HDF5 takes some time for each of them, which for
short episodes is more than for the numbers: 400 microseconds per episode with the low-level functions of
h5py, 1000 with the others. Memory holds what is passed at a time; a long episode may be written in parts.

Lengths, ends, seeds, types and metadata are checked before anything is written. An episode may end at its
last step only; it may also stop there without an end (a collection that was cut off).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.checks import absolute_place, at
from rhocover.datasets.minari import folders as folders
from rhocover.datasets.minari.columns import (
    ColumnPath,
    EpisodeColumns,
    Episodes,
    FlatColumns,
    check_leaf,
    leaf_array,
    named,
    space_leaves,
    split,
)
from rhocover.datasets.minari.hdf5_file import EpisodeFile
from rhocover.environments.encoding.base import check_space
from rhocover.errors import InvalidArgumentError, InvalidDataError, missing_extra
from rhocover.files import naming_file

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

# Checks.

WORDS = ("algorithm_name", "code_permalink", "description")
LISTS = ("author", "author_email", "requirements")


def episode_lengths(value: Any) -> np.ndarray:
    """Returns the steps of each episode, int64 `[E]`, all at least 1."""
    lengths = np.asarray(value)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths):
        raise InvalidDataError.of("lengths", "must be whole numbers, one per episode", repr(value))
    if lengths.min() < 1:
        place = int(np.argmin(lengths))
        raise InvalidDataError.of(
            "lengths",
            "must be at least 1",
            f"lengths[{place}] = {lengths[place]}",
            remedy="Leave out episodes without a step.",
        )
    return lengths.astype(np.int64)


def step_column(value: Any, name: str, rows: int) -> np.ndarray:
    """Returns rewards as float64, terminations and truncations as bool, shape `[rows]`."""
    array, form = leaf_array(value, (name,)), np.dtype("<f8" if name == "rewards" else bool)
    if array.shape != (rows,):
        raise InvalidDataError.of(name, f"must have shape ({rows},), the sum of lengths", f"{array.shape}")
    if form.kind == "b" and array.dtype.kind != "b":
        raise InvalidDataError.of(name, "must be True or False", f"dtype {array.dtype}")
    return exact(array, form, (name,))


def check_ends(terminations: np.ndarray, truncations: np.ndarray, lengths: np.ndarray) -> None:
    """Raises if there is an end before the last step of an episode."""
    ends = terminations | truncations
    last = np.cumsum(lengths) - 1
    ends[last] = False
    if ends.any():
        step = int(np.argmax(ends))
        name = "terminations" if terminations[step] else "truncations"
        raise InvalidDataError.of(
            name,
            "must be False before the last step of an episode",
            f"{at(name, (step,))} = True; the episode ends at step {int(last[np.searchsorted(last, step)])} "
            "by `lengths`",
            remedy="Cut it there.",
        )


def seed_columns(seeds: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (seeds int64 `[count]`, which of them are given); `seeds` may be None or contain None."""
    if seeds is None:
        return np.zeros(count, np.int64), np.zeros(count, bool)
    if not hasattr(seeds, "__len__") or len(seeds) != count:
        came = len(seeds) if hasattr(seeds, "__len__") else repr(seeds)
        raise InvalidDataError.of("seeds", f"must be {count} numbers or None, one per episode", f"{came}")
    has_seed = np.array([seed is not None for seed in seeds], dtype=bool)
    values = np.array([0 if seed is None else seed for seed in seeds])
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= 2**63:
        raise InvalidDataError.of("seeds", "must be whole numbers from 0 to 2^63 - 1 or None", repr(seeds))
    return values.astype(np.int64), has_seed


def space_type(space: gym.Space[Any], array: np.ndarray) -> np.dtype[Any]:
    """Returns the type of the column for a leaf: that of the space, or that of floats of higher precision."""
    form = np.dtype(space.dtype)
    if array.dtype.kind == "f" and not np.can_cast(array.dtype, form):
        form = array.dtype
    return form.newbyteorder("<")


def exact(array: Any, form: np.dtype[Any], path: ColumnPath) -> Any:
    """Returns the array in the dtype `form`; raises for values that it cannot hold exactly."""
    if array.dtype == form:
        return array
    with np.errstate(all="ignore"):
        result = array.astype(form)
        is_kept = np.can_cast(array.dtype, form) or np.array_equal(
            result, array, equal_nan=array.dtype.kind == "f"
        )
    if not is_kept:
        raise InvalidDataError(
            f"{named(path)} has dtype {array.dtype} and values that {form}, the dtype of this column so far, "
            f"cannot hold exactly. Convert all episodes first, for example with .astype(np.{form})."
        )
    return result


def spec_text(env_spec: Any) -> str | None:
    """Returns the environment's spec as JSON; None if there is none, or if JSON cannot hold it."""
    if env_spec is None or isinstance(env_spec, str):
        return env_spec
    try:
        return env_spec.to_json()
    except (TypeError, ValueError):  # made from a class or a function, which a file cannot store
        return None


def extra_words(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metadata as Minari writes it; raises for other keys and for values that are not JSON."""
    unknown = sorted(set(metadata) - {*WORDS, *LISTS, "rhocover"})
    if unknown:
        known = ", ".join((*WORDS, *LISTS, "rhocover"))
        raise InvalidArgumentError.of(
            "metadata", f"has the key {unknown[0]!r}; expected {known}", remedy="Put it in 'rhocover'."
        )
    words = {key: metadata[key] for key in (*WORDS, *LISTS) if metadata.get(key) is not None}
    for key in WORDS:
        if not isinstance(words.get(key, ""), str):
            raise InvalidArgumentError.of(f"metadata[{key!r}]", "must be text", repr(words[key]))
    words |= {key: _texts(words[key], key) for key in LISTS if key in words}
    if "rhocover" in metadata:
        words["rhocover"] = metadata["rhocover"]
    try:
        return json.loads(json.dumps(words, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError.of(
            "metadata['rhocover']", f"must be JSON without nan and inf ({error})"
        ) from error


def _texts(value: Any, key: str) -> list[str]:
    """Returns one text or several as a list; sets sorted, so that the same input gives the same file."""
    texts = [value] if isinstance(value, str) else sorted(value) if isinstance(value, set) else list(value)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError.of(f"metadata[{key!r}]", "must be text or several texts", repr(value))
    return texts


# The writer.

STEP_COLUMNS = {"rewards": "<f8", "terminations": "?", "truncations": "?"}


class MinariWriter:
    """A Minari data set that is being written; a context manager."""

    def __init__(
        self,
        path: Path | str,
        dataset_id: str,
        *,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        env_spec: EnvSpec | str | None = None,
        overwrite: bool = False,
    ) -> None:
        folders.check_id(dataset_id)
        self.path, self.dataset_id, self.overwrite = (
            absolute_place(path, "path", "folder"),
            dataset_id,
            overwrite,
        )
        folders.remove_staged(self.path)
        folders.check_target(self.path, overwrite=overwrite)
        self._spaces = {"observations": observation_space, "actions": action_space}
        for name, space in self._spaces.items():
            check_space(space, f"{name[:-1]}_space")
            list(space_leaves(space, (name,)))
        self._env_spec = spec_text(env_spec)
        self.num_episodes = self.num_steps = 0
        self._types: dict[ColumnPath, np.dtype[Any]] = {}
        self._is_open = False  # whether the last episode continues
        self._file: EpisodeFile | None = None
        self._staged: Path | None = folders.stage(self.path)
        self._lock = folders.lock_staged(self._staged)

    def __enter__(self) -> MinariWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Removes what was written unless it was finished."""
        if self._file is not None:
            self._file.abandon()
        if self._staged is not None:
            shutil.rmtree(self._staged, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        self._file = self._staged = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def add(self, episode: EpisodeColumns) -> None:
        """Adds one episode."""
        columns = (episode.rewards, episode.terminations, episode.truncations)
        length = len(leaf_array(episode.rewards, ("rewards",)).reshape(-1))
        self.add_many(episode.observations, episode.actions, *columns, [length], [episode.seed])

    def add_many(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminations: Any,
        truncations: Any,
        lengths: Any,
        seeds: Any = None,
    ) -> None:
        """Adds E episodes of N steps in all, one after another: observations [N+E, ...], the rest [N, ...].

        `lengths` [E] are their steps; `seeds` [E] may hold None.
        """
        self.add_piece(FlatColumns(observations, actions, rewards, terminations, truncations, lengths, seeds))

    def add_piece(self, flat: FlatColumns, last_length: int | None = None) -> None:
        """Adds the episodes of a piece; if the last one continues in the next, it has `last_length` steps."""
        if self._staged is None:
            raise InvalidArgumentError("the data set is finished or abandoned; begin another MinariWriter.")
        sizes = episode_lengths(flat.lengths)
        steps = zip(STEP_COLUMNS, (flat.rewards, flat.terminations, flat.truncations), strict=True)
        arrays = {name: step_column(value, name, int(sizes.sum())) for name, value in steps}
        check_ends(arrays["terminations"], arrays["truncations"], sizes)
        chosen = seed_columns(flat.seeds, len(sizes))
        leaves = self._leaves({"observations": flat.observations, "actions": flat.actions}, sizes)
        types = self._types or {path: space_type(space, array) for path, space, array in leaves}
        for path, _, array in leaves:
            arrays["/".join(path)] = exact(array, types[path], path)
        self._types = types
        self._store(Episodes(arrays, sizes, *chosen, has_more=flat.has_more), last_length)
        self.num_episodes += len(sizes) - self._is_open
        self.num_steps += int(sizes.sum())
        self._is_open = flat.has_more

    def _store(self, episodes: Episodes, last_length: int | None) -> None:
        """Writes checked episodes; if this fails, for example because the disk is full, abandons the file."""
        assert self._staged is not None
        try:
            if self._file is None:  # begun when there is something to write
                place = self._staged / folders.DATA / folders.RECORDS
                self._file = EpisodeFile(
                    place, {name: name.startswith("observations") for name in episodes.arrays}
                )
            with naming_file(self.path):
                self._file.add(episodes, last_length)
        except BaseException:
            self.abandon()
            raise

    def _leaves(self, values: Mapping[str, Any], sizes: np.ndarray) -> list[tuple[Any, Any, np.ndarray]]:
        """Returns (path, space, array) of every column of observations and actions, checked."""
        leaves = []
        for name, value in values.items():
            rows = int(sizes.sum()) + len(sizes) * (name == "observations")
            for path, space, array in split(value, self._spaces[name], (name,)):
                check_leaf(array, space, path, rows)
                leaves.append((path, space, array))
        return leaves

    def finish(self, metadata: Mapping[str, Any] | None = None) -> None:
        """Completes the data set and moves it to its path.

        `metadata` has Minari's keys algorithm_name, author, author_email, code_permalink, description and
        requirements, and any JSON under "rhocover".
        """
        if self._file is None or self._staged is None:
            raise InvalidDataError("the data set has no episodes; a Minari data set needs at least one.")
        extra = extra_words(metadata or {})
        with naming_file(self.path):
            size = self._file.close()
        document = self._document(size) | extra
        text = json.dumps(document, allow_nan=False)
        folders.write_atomically(self._staged / folders.DATA / folders.METADATA, text.encode())
        with naming_file(self.path):
            folders.publish(self._staged, self.path, overwrite=self.overwrite)
        self._let_go()
        folders.name_namespaces(self.path, self.dataset_id)

    def _document(self, size: int) -> dict[str, Any]:
        try:
            import minari
            from minari.serialization import serialize_space
        except ImportError as error:
            raise missing_extra("minari", "minari") from error
        spec = {} if self._env_spec is None else {"env_spec": self._env_spec}
        return {
            "total_episodes": self.num_episodes,
            "total_steps": self.num_steps,
            "data_format": "hdf5",
            "jpeg_encoding": False,
            "observation_space": serialize_space(self._spaces["observations"]),
            "action_space": serialize_space(self._spaces["actions"]),
            **spec,
            "dataset_id": self.dataset_id,
            "minari_version": minari.__version__,
            "dataset_size": round(size / 1e6, 1),
        }
