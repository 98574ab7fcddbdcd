"""Reads one episode of an HDF5 file through h5py, whichever program wrote it, and checks it first.

A file from elsewhere may contain anything. Only plain numbers are read (no objects, no text), and JPEG
images if the column of an image does not contain its pixels; each column must have the shape of its space
and the number of rows of its episode. All this is checked before the first number is read, and a long
episode is read in parts, so memory does not grow with the size that a file claims.

HDF5 lets a file refer to things outside: links to other files, data sets assembled from other files, data
sets whose bytes are in any file of the machine, filters that are programs loaded from a folder. A file from
elsewhere could thus present a private file as states, block forever on a pipe, or run a program. Only objects
inside the file are opened. A data set of a few bytes may also claim to have terabytes, and a JPEG image of a
hundred bytes a billion pixels; both raise an error before memory is allocated.
"""

from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.datasets.minari.columns import ColumnPath, Episodes, check_form, is_plain, named
from rhocover.errors import InvalidDataError, RhocoverError, missing_extra, shortened
from rhocover.files import check_plain

# Objects inside the file.

FILTERS = {
    1: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    32000: "lzf",
}  # none of them is loaded from a file
MOST_CHUNK = 2**28  # bytes of one chunk, which HDF5 unpacks as a whole; usual chunks have about 2^20
MOST_RATIO = 1100  # unpacked bytes per stored byte; gzip reaches at most 1032
FEW_BYTES = 2**16  # up to which the stored size is not checked, because the check takes time
REMEDY = "Only data inside the file are read: copy the data into it, or write the data set again."


def open_inside(parent: Any, path: Sequence[str], what: str) -> Any:
    """Returns the group or data set at `path` below the group `parent`, reached by plain links only.

    `what` is the subject of error messages; a missing object raises KeyError.
    """
    from h5py import h5g, h5o  # pyright: ignore

    for name in path:
        if not isinstance(parent, h5g.GroupID):
            raise KeyError(f"there is no {name!r}, because its parent is not a group")
        _check_link(parent, name.encode(), what)
        parent = h5o.open(parent, name.encode())
    return parent


def _check_link(group: Any, name: bytes, what: str) -> None:
    from h5py import h5l  # pyright: ignore

    try:
        kind = group.links.get_info(name).type
    except RuntimeError as error:  # raised by h5py if there is no such name
        raise KeyError(str(error)) from error
    if kind == h5l.TYPE_HARD:
        return
    if kind == h5l.TYPE_EXTERNAL:
        to = shortened(repr(group.links.get_val(name)[0].decode(errors="replace")))
        raise InvalidDataError(f"{what} is a link to another file, {to}. {REMEDY}")
    link = "a soft link" if kind == h5l.TYPE_SOFT else "a link of a kind that HDF5 does not know"
    raise InvalidDataError(f"{what} is {link}. {REMEDY}")


def check_inside(dataset: Any, what: str) -> None:
    """Raises if the numbers of a data set are not in the file, or need more than HDF5 itself to be read.

    Must be called before the shape is read, which HDF5 may look for in other files.
    """
    from h5py import h5d  # pyright: ignore

    made = dataset.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL:
        raise InvalidDataError(f"{what} is assembled from other files (a virtual data set). {REMEDY}")
    if made.get_external_count():
        other = shortened(repr(made.get_external(0)[0].decode(errors="replace")))
        raise InvalidDataError(f"{what} has its numbers in another file, {other}. {REMEDY}")
    if made.get_layout() == h5d.CHUNKED:
        _check_chunk(math.prod(made.get_chunk()), dataset, what)
    for number in range(made.get_nfilters()):
        if (code := made.get_filter(number)[0]) not in FILTERS:
            raise InvalidDataError(
                f"{what} is packed with the HDF5 filter {code}, which is a separate program. Supported "
                f"filters: {', '.join(FILTERS.values())}. Write the data set again with one of them."
            )


def _check_chunk(items: int, dataset: Any, what: str) -> None:
    if items <= MOST_CHUNK // 256 or (size := items * dataset.get_type().get_size()) <= MOST_CHUNK:
        return  # for few items the type need not be read: no number has 256 bytes
    raise InvalidDataError(
        f"{what} is stored in chunks of {size} bytes; at most {MOST_CHUNK} are read at once. Write the data "
        "set again with smaller chunks."
    )


def check_chunks(dataset: Any, shape: Sequence[int], file_bytes: int, what: str) -> None:
    """Raises if the list of chunks is damaged: HDF5 trusts it, and a wrong one can end the process."""
    from h5py import h5d  # pyright: ignore

    made = dataset.get_create_plist()
    if made.get_layout() != h5d.CHUNKED:
        return
    chunk, seen = made.get_chunk(), set()

    def is_wrong(info: Any) -> bool | None:
        place, end = info.chunk_offset, info.byte_offset + info.size
        is_placed = all(
            at % size == 0 and at < most for at, size, most in zip(place, chunk, shape, strict=True)
        )
        is_stored = info.byte_offset > 0 and info.size > 0 and end <= file_bytes
        is_new = place not in seen
        seen.add(place)
        return None if is_placed and is_stored and is_new else True

    if dataset.chunk_iter(is_wrong):
        raise InvalidDataError(
            f"{what} has a damaged list of chunks: one is outside the file or the data, or comes twice. "
            "Write or download the data set again."
        )


def check_size(dataset: Any, claimed: int, file_bytes: int, what: str) -> None:
    """Raises if a data set claims more bytes than its stored bytes can unpack to."""
    if claimed <= FEW_BYTES:
        return
    stored = dataset.get_storage_size()
    if claimed > MOST_RATIO * stored or stored > file_bytes:
        raise InvalidDataError(
            f"{what} claims {claimed} bytes of numbers, but the file of {file_bytes} bytes stores {stored} "
            "for them: they were never written, or are malicious. Write or download the data set again."
        )


# Images that Minari stored as JPEG; each must have the size of its space.

MOST_BYTES = 2**26  # of one packed image
BROKEN_IMAGE = (SyntaxError, OSError, ValueError, TypeError, IndexError, KeyError, EOFError, struct.error)


def unpacked(frames: Iterable[Any], shape: tuple[int, ...], what: str) -> np.ndarray:
    """Returns the images, uint8 `[T, *shape]`; `what` is the subject of error messages."""
    try:
        return np.stack([_picture(bytes(frame), shape, what) for frame in frames])
    except InvalidDataError:
        raise
    except BROKEN_IMAGE as error:
        raise InvalidDataError(f"{what} does not contain JPEG images ({error}).") from error


def _picture(frame: bytes, shape: tuple[int, ...], what: str) -> np.ndarray:
    from PIL.JpegImagePlugin import (
        JpegImageFile,
    )  # Image.open would warn of, and refuse, large ones its own way

    with JpegImageFile(io.BytesIO(frame)) as image:
        if (image.height, image.width) != shape[:2]:
            raise InvalidDataError(
                f"{what} contains an image of {image.height} x {image.width} pixels; its space has "
                f"{shape[0]} x {shape[1]}."
            )
        return np.asarray(image)


# Episodes.

BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, OverflowError)
MOST_ROW = 2**28  # bytes of the columns of one step, which is the least that can be read


@dataclass(frozen=True)
class Leaf:
    """A column according to the spaces; `space` is None for rewards, terminations and truncations."""

    path: ColumnPath
    space: Any
    extra: int
    may_be_jpeg: bool = False  # pictures are, unless the file holds them in their own shape

    @property
    def name(self) -> str:
        """The path as HDF5 writes it."""
        return "/".join(self.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return () if self.space is None else tuple(self.space.shape or ())


@dataclass(frozen=True)
class StoredColumn:
    """A column of one episode, opened and checked but not yet read."""

    leaf: Leaf
    dataset: Any
    shape: tuple[int, ...]
    form: np.dtype[Any]
    is_jpeg: bool = False

    @property
    def row_bytes(self) -> int:
        """The size of a row in bytes when it is read."""
        return self.form.itemsize * math.prod(self.leaf.shape)


@contextmanager
def open_file(path: os.PathLike[str]) -> Iterator[Any]:
    """Returns the file, opened for reading; errors of h5py for damaged files become InvalidDataError."""
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
            f"episode {index}: a step has {row_bytes} bytes, but at most {MOST_ROW} are read at once."
        )
    yield from _parts(stored, length, max(1, part_bytes // row_bytes), _seed(group))


def _parts(
    stored: Mapping[str, StoredColumn], length: int, rows: int, seed: int | None
) -> Iterator[Episodes]:
    seeds, has_seed = np.array([seed or 0], np.int64), np.array([seed is not None])
    for begin in range(0, length, rows):
        end = min(length, begin + rows)
        arrays = {name: _read(column, begin, end + column.leaf.extra) for name, column in stored.items()}
        yield Episodes(arrays, np.array([end - begin]), seeds, has_seed, has_more=end < length)


def _open(parent: Any, path: Sequence[str], index: int, what: str) -> Any:
    """Returns the group or dataset at `path`; raises with its name if it is missing."""
    try:
        return open_inside(parent, path, f"episode {index}: {what}")
    except KeyError as error:
        raise InvalidDataError(
            f"episode {index}: {what} is missing or damaged ({shortened(error)})."
        ) from error


def _stored(group: Any, leaf: Leaf, index: int) -> StoredColumn:
    import h5py
    from h5py import h5d  # pyright: ignore

    found, what = _open(group, leaf.path, index, named(leaf.path)), f"episode {index}: {named(leaf.path)}"
    if not isinstance(found, h5d.DatasetID):
        raise InvalidDataError(f"{what} is a group, expected an array of numbers.")
    check_inside(found, what)
    form, shape = found.dtype, found.shape or ()
    may_be_jpeg = leaf.may_be_jpeg and shape and shape[1:] != leaf.shape
    if may_be_jpeg and (form == np.uint8 or h5py.check_vlen_dtype(form) == np.uint8):
        return StoredColumn(leaf, found, shape, np.dtype(np.uint8), is_jpeg=True)
    if not is_plain(form):
        raise InvalidDataError(f"{what} has dtype {form}, expected numbers.")
    return StoredColumn(leaf, found, shape, form)


def _length(shape: tuple[int, ...], index: int, num_steps: int) -> int:
    """Returns the number of steps by the shape of the rewards."""
    if not shape:
        raise InvalidDataError(
            f"episode {index}: `rewards` must be one number per step, got a single number or none."
        )
    if not shape[0]:
        raise InvalidDataError(f"episode {index} has no steps; remove it from the data set.")
    if shape[0] > num_steps:
        raise InvalidDataError(
            f"episode {index} claims {shape[0]} steps, but according to the metadata all episodes together "
            f"have {num_steps}. It is damaged, or was changed by hand: write or download it again."
        )
    return shape[0]


def _check(column: StoredColumn, index: int, length: int, file_bytes: int) -> None:
    """Raises if a column does not match its space and the length of the episode."""
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
    check_chunks(column.dataset, column.shape, file_bytes, what)


def _read(column: StoredColumn, begin: int, end: int) -> np.ndarray:
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


def _frames(column: StoredColumn, begin: int, end: int) -> Iterator[bytes]:
    """Yields packed images one by one; many may refer to the same few bytes of the file."""
    import h5py

    data = h5py.Dataset(column.dataset)
    if math.prod(column.shape[1:]) > MOST_BYTES:
        raise InvalidDataError(f"{named(column.leaf.path)} has more than {MOST_BYTES} bytes per image.")
    for row in range(begin, end):
        yield bytes(np.asarray(data[row]))


def _seed(group: Any) -> int | None:
    """Returns the seed of the episode's reset, if it is a number."""
    from h5py import h5a  # pyright: ignore

    if not h5a.exists(group, b"seed"):
        return None
    attribute = h5a.open(group, b"seed")
    if attribute.shape != () or attribute.dtype.kind not in "iu":
        return None
    value = np.empty((), attribute.dtype)
    attribute.read(value)
    return int(value) if value < 2**63 else None
