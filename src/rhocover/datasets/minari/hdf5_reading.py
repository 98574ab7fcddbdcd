"""Reads the episodes of an HDF5 file through h5py, in chunks of bounded memory.

An episode of more than about 64 MB is read in parts. Damaged files raise an error, and nothing is unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from rhocover.datasets.minari.columns import Episodes, joined
from rhocover.datasets.minari.hdf5_objects import Leaf, open_file, read_episode

CHUNK_BYTES = 2**26


def read_hdf5(
    path: os.PathLike[str],
    leaves: Sequence[Leaf],
    indices: Sequence[int],
    chunk_episodes: int,
    num_steps: int,
) -> Iterator[Episodes]:
    """Returns the episodes of these numbers in order, at most `chunk_episodes` or about 64 MB at a time.

    None of them has more than `num_steps` steps.
    """
    with open_file(path) as file:
        for done in range(0, len(indices), chunk_episodes):
            yield from _read_one_by_one(file, leaves, indices[done : done + chunk_episodes], num_steps)


def _read_one_by_one(
    file: Any, leaves: Sequence[Leaf], indices: Sequence[int], num_steps: int
) -> Iterator[Episodes]:
    """Yields episodes through h5py, up to about 64 MB at a time, and larger ones in parts."""
    parts = (read_episode(file, index, leaves, num_steps, CHUNK_BYTES) for index in indices)
    return gathered(chain.from_iterable(parts), len(indices))


def gathered(parts: Iterable[Episodes], most: int) -> Iterator[Episodes]:
    """Yields the same parts joined, at most `most` or about 64 MB at a time."""
    pieces, size = [], 0
    for part in parts:
        pieces.append(part)
        size += sum(array.nbytes for array in part.arrays.values())
        if size >= CHUNK_BYTES or part.has_more or len(pieces) == most:
            yield joined(pieces)
            pieces, size = [], 0
    if pieces:
        yield joined(pieces)
