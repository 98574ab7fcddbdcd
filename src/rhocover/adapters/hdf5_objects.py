"""One episode of an HDF5 file through h5py: whatever wrote it, checked before it is believed.

A file from elsewhere may hold anything. Only plain numbers are read (no objects, no text), and JPEG images
where a picture's column does not hold its pixels; each column must have its space's shape and the number
of rows that an episode has.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.adapters.hdf5_writing import Episodes
from rhocover.adapters.minari_columns import Path, check_leaf, is_plain, named
from rhocover.errors import InvalidDataError, RhocoverError, missing_extra

BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, OverflowError)


@dataclass(frozen=True)
class Leaf:
    """A column as the data set's spaces have it; `space` is None for rewards and the ends of episodes."""

    path: Path
    space: Any
    extra: int
    may_be_jpeg: bool = False  # pictures are, unless the file holds them in their own shape

    @property
    def name(self) -> str:
        """Returns the path as HDF5 writes it."""
        return "/".join(self.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of one row."""
        return () if self.space is None else tuple(self.space.shape or ())


@contextmanager
def open_file(path: os.PathLike[str]) -> Iterator[Any]:
    """Returns the file, opened for reading; what h5py says of a damaged one becomes InvalidDataError."""
    try:
        import h5py
    except ImportError as error:
        raise missing_extra("h5py", "minari") from error
    try:
        with h5py.File(path, "r") as file:
            yield file
    except RhocoverError:
        raise
    except BROKEN as error:
        raise InvalidDataError(
            f"`{os.fspath(path)}` is damaged or not an HDF5 file ({error}). Write or download it again."
        ) from error


def row_type(file: Any, index: int, leaf: Leaf) -> np.dtype[Any] | None:
    """Returns the type of a column of episode `index`, None if there is no such dataset."""
    import h5py

    found = file.get(f"episode_{index}/{leaf.name}")
    return found.dtype if isinstance(found, h5py.Dataset) else None


def read_episode(file: Any, index: int, leaves: Sequence[Leaf]) -> Episodes:
    """Returns one episode, checked."""
    group = _open(file.id, f"episode_{index}", index, "the episode")
    arrays = {}
    for leaf in leaves:
        arrays[leaf.name] = _read_leaf(group, leaf, index)
    length = len(arrays["rewards"])
    if not length:
        raise InvalidDataError(f"episode {index} has no steps; remove it from the data set.")
    try:
        for leaf in leaves:
            _check(arrays[leaf.name], leaf, length + leaf.extra)
    except InvalidDataError as error:
        raise InvalidDataError(f"episode {index}: {error}") from error
    seed = _seed(group)
    return Episodes(arrays, np.array([length]), np.array([seed or 0], np.int64), np.array([seed is not None]))


def _open(parent: Any, name: str, index: int, what: str) -> Any:
    """Returns the group or dataset `name`; a missing one is named."""
    from h5py import h5o  # pyright: ignore

    try:
        return h5o.open(parent, name.encode())
    except KeyError as error:
        raise InvalidDataError(f"episode {index}: {what} is missing or damaged ({error}).") from error


def _read_leaf(group: Any, leaf: Leaf, index: int) -> np.ndarray:
    import h5py
    from h5py import h5d, h5s  # pyright: ignore

    found = _open(group, leaf.name, index, named(leaf.path))
    if not isinstance(found, h5d.DatasetID):
        raise InvalidDataError(
            f"episode {index}: {named(leaf.path)} is a group, expected an array of numbers."
        )
    form = found.dtype
    is_bytes = form == np.uint8 or h5py.check_vlen_dtype(form) == np.uint8
    if leaf.may_be_jpeg and is_bytes and found.shape[1:] != leaf.shape:
        return _images(h5py.Dataset(found)[()], leaf, index)
    if not is_plain(form):
        raise InvalidDataError(f"episode {index}: {named(leaf.path)} has dtype {form}, expected numbers.")
    array = np.empty(found.shape, form)
    found.read(h5s.ALL, h5s.ALL, array)
    return array


def _images(frames: Any, leaf: Leaf, index: int) -> np.ndarray:
    """Returns the pictures of a column that was stored as JPEG, uint8 `[T, height, width, ...]`."""
    from PIL import Image, UnidentifiedImageError

    try:
        images = [np.asarray(Image.open(io.BytesIO(bytes(frame)), formats=("JPEG",))) for frame in frames]
        return np.stack(images)
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise InvalidDataError(
            f"episode {index}: {named(leaf.path)} holds no JPEG images ({error})."
        ) from error


def _check(array: np.ndarray, leaf: Leaf, rows: int) -> None:
    if leaf.space is not None:
        check_leaf(array, leaf.space, leaf.path, rows)
    elif array.shape != (rows,):
        raise InvalidDataError(f"{named(leaf.path)} must have shape ({rows},), got {array.shape}.")


def _seed(group: Any) -> int | None:
    """Returns the seed that the episode's first reset was given, if it is a number."""
    from h5py import h5a  # pyright: ignore

    if not h5a.exists(group, b"seed"):
        return None
    attribute = h5a.open(group, b"seed")
    if attribute.shape != () or attribute.dtype.kind not in "iu":
        return None
    value = np.empty((), attribute.dtype)
    attribute.read(value)
    return int(value) if value < 2**63 else None
