"""One episode of an HDF5 file through h5py: whatever wrote it, checked before it is believed.

A file from elsewhere may hold anything. Only plain numbers are read (no objects, no text), and JPEG images
where a picture's column does not hold its pixels; each column must have its space's shape and the number
of rows that an episode has. All this is asked before the first number is read, and a long episode is read
in parts, so what is held does not grow with what a file claims.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.adapters.hdf5_images import MOST_BYTES, unpacked
from rhocover.adapters.hdf5_inside import check_inside, check_size, open_inside
from rhocover.adapters.hdf5_writing import Episodes
from rhocover.adapters.minari_columns import Path, check_form, is_plain, named
from rhocover.errors import InvalidDataError, RhocoverError, missing_extra, shortened
from rhocover.plain_files import check_plain

BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, OverflowError)
MOST_ROW = 2**28  # bytes of the columns of one step: there is no reading less than a step


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


@dataclass(frozen=True)
class Stored:
    """A column of one episode, opened and checked and not yet read."""

    leaf: Leaf
    dataset: Any
    shape: tuple[int, ...]
    form: np.dtype[Any]
    is_jpeg: bool = False

    @property
    def row_bytes(self) -> int:
        """Returns how many bytes a row takes when it is read."""
        return self.form.itemsize * math.prod(self.leaf.shape)


@contextmanager
def open_file(path: os.PathLike[str]) -> Iterator[Any]:
    """Returns the file, opened for reading; what h5py says of a damaged one becomes InvalidDataError."""
    try:
        import h5py
    except ImportError as error:
        raise missing_extra("h5py", "minari") from error
    try:
        check_plain(path)
        with h5py.File(path, "r") as file:
            yield file
    except RhocoverError:
        raise
    except BROKEN as error:
        raise InvalidDataError(
            f"`{os.fspath(path)}` is damaged or not an HDF5 file ({shortened(error)}). "
            "Write or download it again."
        ) from error


def row_type(file: Any, index: int, leaf: Leaf) -> np.dtype[Any] | None:
    """Returns the type of a column of episode `index`, None if there is no such dataset in the file."""
    from h5py import h5d  # pyright: ignore

    try:
        found = open_inside(file.id, (f"episode_{index}", *leaf.path), "")
    except (KeyError, InvalidDataError):  # the reader of single episodes will say which
        return None
    return found.dtype if isinstance(found, h5d.DatasetID) else None


def read_episode(
    file: Any, index: int, leaves: Sequence[Leaf], num_steps: int, part_bytes: int
) -> Iterator[Episodes]:
    """Yields one episode in parts of about `part_bytes`; it has at most `num_steps` steps."""
    group = _open(file.id, (f"episode_{index}",), index, "the episode")
    stored = {leaf.name: _stored(group, leaf, index) for leaf in leaves}
    length = _length(stored["rewards"].shape, index, num_steps)
    file_bytes = file.id.get_filesize()
    for column in stored.values():
        _check(column, index, length, file_bytes)
    row_bytes = sum(column.row_bytes for column in stored.values())
    if row_bytes > MOST_ROW:
        raise InvalidDataError(
            f"episode {index}: a step takes {row_bytes} bytes, at most {MOST_ROW} are read at once."
        )
    yield from _parts(stored, length, max(1, part_bytes // row_bytes), _seed(group))


def _parts(stored: Mapping[str, Stored], length: int, rows: int, seed: int | None) -> Iterator[Episodes]:
    seeds, has_seed = np.array([seed or 0], np.int64), np.array([seed is not None])
    for begin in range(0, length, rows):
        end = min(length, begin + rows)
        arrays = {name: _read(column, begin, end + column.leaf.extra) for name, column in stored.items()}
        yield Episodes(arrays, np.array([end - begin]), seeds, has_seed, has_more=end < length)


def _open(parent: Any, path: Sequence[str], index: int, what: str) -> Any:
    """Returns the group or dataset at `path`; a missing one is named."""
    try:
        return open_inside(parent, path, f"episode {index}: {what}")
    except KeyError as error:
        raise InvalidDataError(
            f"episode {index}: {what} is missing or damaged ({shortened(error)})."
        ) from error


def _stored(group: Any, leaf: Leaf, index: int) -> Stored:
    import h5py
    from h5py import h5d  # pyright: ignore

    found, what = _open(group, leaf.path, index, named(leaf.path)), f"episode {index}: {named(leaf.path)}"
    if not isinstance(found, h5d.DatasetID):
        raise InvalidDataError(f"{what} is a group, expected an array of numbers.")
    check_inside(found, what)
    form, shape = found.dtype, found.shape or ()
    may_be_jpeg = leaf.may_be_jpeg and shape and shape[1:] != leaf.shape
    if may_be_jpeg and (form == np.uint8 or h5py.check_vlen_dtype(form) == np.uint8):
        return Stored(leaf, found, shape, np.dtype(np.uint8), is_jpeg=True)
    if not is_plain(form):
        raise InvalidDataError(f"{what} has dtype {form}, expected numbers.")
    return Stored(leaf, found, shape, form)


def _length(shape: tuple[int, ...], index: int, num_steps: int) -> int:
    """Returns the number of steps by the shape of the rewards."""
    if not shape:
        raise InvalidDataError(
            f"episode {index}: `rewards` must be one number a step, got one alone or none."
        )
    if not shape[0]:
        raise InvalidDataError(f"episode {index} has no steps; remove it from the data set.")
    if shape[0] > num_steps:
        raise InvalidDataError(
            f"episode {index} claims {shape[0]} steps, but the metadata says that all have {num_steps}. "
            "It is damaged, or was changed by hand: write or download it again."
        )
    return shape[0]


def _check(column: Stored, index: int, length: int, file_bytes: int) -> None:
    """Refuses a column that is not what its space and the length of the episode ask for."""
    leaf, shape = column.leaf, column.shape
    what, rows = f"episode {index}: {named(leaf.path)}", length + leaf.extra
    if column.is_jpeg:
        shape = (*shape[:1], *leaf.shape)
    if leaf.space is not None:
        try:
            check_form(shape, column.form, leaf.space, leaf.path, rows)
        except InvalidDataError as error:
            raise InvalidDataError(f"episode {index}: {error}") from error
    elif shape != (rows,):
        raise InvalidDataError(f"{what} must have shape ({rows},), got {shape}.")
    item_bytes = 16 if column.is_jpeg else column.form.itemsize  # of text and other things without a size
    check_size(column.dataset, math.prod(column.shape) * item_bytes, file_bytes, what)


def _read(column: Stored, begin: int, end: int) -> np.ndarray:
    """Returns the rows from `begin` to before `end`."""
    from h5py import h5s  # pyright: ignore

    found = column.dataset
    if column.is_jpeg:
        return unpacked(_frames(column, begin, end), column.leaf.shape, named(column.leaf.path))
    array = np.empty((end - begin, *column.leaf.shape), column.form)
    if end - begin == column.shape[0]:
        found.read(h5s.ALL, h5s.ALL, array)
        return array
    chosen = found.get_space()
    chosen.select_hyperslab((begin, *(0 for _ in column.leaf.shape)), array.shape)
    found.read(h5s.create_simple(array.shape), chosen, array)
    return array


def _frames(column: Stored, begin: int, end: int) -> Iterator[bytes]:
    """Yields packed pictures one by one; many may lead to the same few bytes of the file."""
    import h5py

    data = h5py.Dataset(column.dataset)
    if math.prod(column.shape[1:]) > MOST_BYTES:
        raise InvalidDataError(f"{named(column.leaf.path)} has more than {MOST_BYTES} bytes a picture.")
    for row in range(begin, end):
        yield bytes(np.asarray(data[row]))


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
