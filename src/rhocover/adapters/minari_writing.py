"""Minari data sets, written in bulk: same folders, names and keys as Minari 0.5, a hundredth of the time.

    with MinariWriter(path, "frozen_lake/covered-v0", observation_space=..., action_space=...) as writer:
        writer.add_many(observations, actions, rewards, terminations, truncations, lengths)
        writer.finish({"description": "..."})

The data set is put together under a hidden name beside `path` and renamed when it is whole and on the disk;
leaving the block without `finish`, by an exception or not, removes it. Numbers are stored without loss, in
the space's own type or, for floats that are finer than that, in theirs. Images are stored as they are, not
as JPEG. Datasets are contiguous: Minari appends episodes to the set, but cannot lengthen one of these.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.adapters import minari_checks as checks
from rhocover.adapters import minari_folders as folders
from rhocover.adapters.hdf5_records import Column
from rhocover.adapters.hdf5_writing import EpisodeFile, Episodes
from rhocover.adapters.minari_columns import EpisodeColumns, check_leaf, leaf_array, space_leaves, split
from rhocover.adapters.spaces import check_space
from rhocover.checks import absolute_place
from rhocover.errors import InvalidArgumentError, InvalidDataError, missing_extra
from rhocover.files import naming_file

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec


STEP_COLUMNS = {"rewards": "<f8", "terminations": "?", "truncations": "?"}


def write_minari(
    path: Path | str,
    dataset_id: str,
    episodes: Iterable[EpisodeColumns],
    *,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    env_spec: EnvSpec | str | None = None,
    metadata: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Writes the episodes as a Minari data set at `path`; see `MinariWriter`."""
    writer = MinariWriter(
        path, dataset_id, observation_space=observation_space, action_space=action_space,
        env_spec=env_spec, overwrite=overwrite,
    )  # fmt: skip
    with writer:
        for episode in episodes:
            writer.add(episode)
        writer.finish(metadata)


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
        self._env_spec = checks.spec_text(env_spec)
        self.num_episodes = self.num_steps = 0
        self._columns: tuple[Column, ...] = ()
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

        `lengths` [E] are their steps; `seeds` [E] may hold None. The arrays may be reused afterwards.
        """
        if self._staged is None:
            raise InvalidArgumentError("the data set is finished or abandoned; begin another MinariWriter.")
        sizes = checks.episode_lengths(lengths)
        steps = zip(STEP_COLUMNS, (rewards, terminations, truncations), strict=True)
        arrays = {name: checks.step_column(value, name, int(sizes.sum())) for name, value in steps}
        checks.check_ends(arrays["terminations"], arrays["truncations"], sizes)
        chosen = checks.seed_columns(seeds, len(sizes))
        leaves = self._leaves({"observations": observations, "actions": actions}, sizes)
        columns = self._columns or tuple(checks.space_column(*leaf) for leaf in leaves)
        for column, (path, _, array) in zip(columns, leaves, strict=True):
            arrays[column.name] = checks.exact(array, column.dtype, path)
        self._store(columns, Episodes(arrays, sizes, *chosen))
        self._columns = columns
        self.num_episodes += len(sizes)
        self.num_steps += int(sizes.sum())

    def _store(self, columns: tuple[Column, ...], episodes: Episodes) -> None:
        """Writes checked episodes; a file that this fails on, on a full disk for one, is given up."""
        assert self._staged is not None
        try:
            if self._file is None:  # begun when the types of its columns are known
                steps = (Column((name,), np.dtype(form), (), 0) for name, form in STEP_COLUMNS.items())
                self._file = EpisodeFile(self._staged / folders.DATA / folders.RECORDS, (*columns, *steps))
            with naming_file(self.path):
                self._file.add(episodes)
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
        """Makes the data set whole at its place.

        `metadata`: what Minari calls algorithm_name, author, author_email, code_permalink, description and
        requirements, and any JSON under "rhocover".
        """
        if self._file is None or self._staged is None:
            raise InvalidDataError("the data set has no episodes; a Minari data set needs at least one.")
        extra = checks.extra_words(metadata or {})
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
