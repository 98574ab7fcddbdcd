"""The HDF5 file of a Minari data set, while it is written: a group per episode, an array per column.

    episode_0                     attributes: id, total_steps, and seed if there is one
        observations              [T + 1, ...], or a group with an array for each component
        actions                   [T, ...]
        rewards, terminations, truncations    [T]

The length of an episode is known when it begins, so its arrays are contiguous, and it may be written in
parts. Types and shapes are those of the first episode; nothing in the file depends on when it was written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets.minari.columns import Episodes
from rhocover.errors import missing_extra


class EpisodeFile:
    """Writes episodes with `add`; `close` completes the file."""

    def __init__(self, path: Path, is_observation: Mapping[str, bool]) -> None:
        try:
            import h5py
            from h5py import h5d, h5g, h5p, h5s, h5t  # pyright: ignore
        except ImportError as error:
            raise missing_extra("h5py", "minari") from error
        self._path, self._is_observation = path, is_observation
        self._file = h5py.File(path, "x")
        self._d, self._g, self._s, self._t = h5d, h5g, h5s, h5t
        self._timeless = h5p.create(h5p.DATASET_CREATE)
        self._timeless.set_obj_track_times(False)
        self._between = h5p.create(h5p.LINK_CREATE)
        self._between.set_create_intermediate_group(True)
        self._types: dict[np.dtype[Any], Any] = {}
        self._open: dict[str, Any] = {}  # the arrays of the episode that is written in parts
        self._done = 0  # its steps so far
        self.num_episodes = 0

    def add(self, episodes: Episodes, last_length: int | None = None) -> None:
        """Adds episodes; `last_length` is that of the last one if it continues in the next call."""
        ends = np.cumsum(episodes.lengths)
        for k, end in enumerate(ends.tolist()):
            length = int(episodes.lengths[k])
            is_last = k == len(ends) - 1
            if k or not self._done:
                seed = int(episodes.seeds[k]) if episodes.has_seed[k] else None
                whole = last_length if is_last and last_length else length
                self._begin(episodes.arrays, whole, seed)
            for name, array in episodes.arrays.items():
                extra = int(self._is_observation[name])
                first = end - length + extra * k
                self._write(self._open[name], array[first : first + length + extra])
            self._done = self._done + length if is_last and episodes.has_more else 0

    def _begin(self, arrays: Mapping[str, np.ndarray], length: int, seed: int | None) -> None:
        """Makes the group of the next episode and its arrays."""
        group = self._g.create(self._file.id, b"episode_%d" % self.num_episodes)
        attributes = {b"id": self.num_episodes, b"total_steps": length}
        for name, value in (attributes if seed is None else attributes | {b"seed": seed}).items():
            self._attribute(group, name, value)
        for name, array in arrays.items():
            shape = (length + int(self._is_observation[name]), *array.shape[1:])
            self._open[name] = self._d.create(
                group, name.encode(), self._type(array.dtype), self._s.create_simple(shape),
                dcpl=self._timeless, lcpl=self._between,
            )  # fmt: skip
        self.num_episodes += 1

    def _attribute(self, group: Any, name: bytes, value: int) -> None:
        from h5py import h5a  # pyright: ignore

        made = h5a.create(group, name, self._type(np.dtype("<i8")), self._s.create(self._s.SCALAR))
        made.write(np.array(value, np.int64))

    def _type(self, form: np.dtype[Any]) -> Any:
        if form not in self._types:
            self._types[form] = self._t.py_create(form, logical=True)
        return self._types[form]

    def _write(self, dataset: Any, rows: np.ndarray) -> None:
        """Writes rows from the step on that the episode has come to."""
        rows = np.ascontiguousarray(rows)
        if rows.shape == dataset.shape:
            dataset.write(self._s.ALL, self._s.ALL, rows)
            return
        chosen = dataset.get_space()
        chosen.select_hyperslab((self._done, *(0 for _ in rows.shape[1:])), rows.shape)
        dataset.write(self._s.create_simple(rows.shape), chosen, rows)

    def close(self) -> int:
        """Completes and syncs the file; returns the number of bytes."""
        self._open.clear()
        self._file.close()
        with open(self._path, "rb+") as file:
            os.fsync(file.fileno())
        return self._path.stat().st_size

    def abandon(self) -> None:
        """Closes the file as it is."""
        self._open.clear()
        self._file.close()
