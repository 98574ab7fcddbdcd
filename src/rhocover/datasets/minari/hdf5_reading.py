"""Reads the episodes of an HDF5 file in chunks: in bulk if this library wrote them, otherwise one by one.

The HDF5 library takes about 60 microseconds to open and read a small dataset, and an episode has five of
them. But an episode that was written from a template (`hdf5_writing`) can be recognised: except for the
numbers, its bytes are those of the template, and the numbers agree with each other. A chunk of such episodes
is read as records, and its data in a few long reads. An episode that differs in any way (written by Minari,
or changed since) is read through h5py. Both ways give the same arrays; damaged files raise an error, and
nothing is unpickled. An episode of more than about 64 MB is read in parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from io import RawIOBase
from itertools import chain
from typing import Any

import numpy as np

from rhocover.datasets.minari.columns import is_plain, read_into
from rhocover.datasets.minari.hdf5_objects import Leaf, open_file, read_episode, row_type
from rhocover.datasets.minari.hdf5_writing import (
    ATTRIBUTE,
    NO_MESSAGE,
    EpisodeColumn,
    EpisodeRecord,
    Episodes,
    episode_record,
    joined,
)

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
    with open_file(path) as file, open(path, "rb", buffering=0) as raw:
        where = _addresses(file, indices)
        record = _record(file, leaves, indices[0])
        done = 0
        while done < len(indices):
            chunk, records = slice(done, done + chunk_episodes), None
            if record is not None and where is not None:
                records = _records(raw, record, where[chunk], np.asarray(indices[chunk]), num_steps)
            if record is not None and records is not None:
                yield from _read_records(raw, record, records)
                done += len(records)
            else:
                yield from _read_one_by_one(file, leaves, indices[chunk], num_steps)
                done += len(indices[chunk])


def _addresses(file: Any, indices: Sequence[int]) -> np.ndarray | None:
    """Returns the positions of these episodes' headers; None if one is missing or not a plain link."""
    from h5py import h5l  # pyright: ignore

    found: dict[bytes, int] = {}

    def note(name: bytes, info: Any) -> None:
        if info.type == h5l.TYPE_HARD:
            found[name] = info.u

    file.id.links.iterate(note, info=True)
    try:
        return np.array([found[b"episode_%d" % index] for index in indices], dtype=np.int64)
    except (KeyError, TypeError, ValueError):  # the reader of single episodes will say which
        return None


def _record(file: Any, leaves: Sequence[Leaf], index: int) -> EpisodeRecord | None:
    """Returns the template with which this library would have written episode `index`, if it could have."""
    columns = []
    for leaf in leaves:
        form = row_type(file, index, leaf)
        if form is None or not is_plain(form):
            return None
        columns.append(EpisodeColumn(leaf.path, form, leaf.shape, leaf.extra))
    return episode_record(columns)


def _records(
    file: RawIOBase, record: EpisodeRecord, where: np.ndarray, indices: np.ndarray, num_steps: int
) -> np.ndarray | None:
    """Returns the records at `where`, or fewer if their episodes are large; None if one differs."""
    size, end = record.template.itemsize, os.fstat(file.fileno()).st_size
    if where.min() < 0 or where.max() > end - size:
        return None
    raw = gather(file, where, np.full(len(where), size))
    records = raw.view(record.template.dtype)
    lengths = records["rewards.rows"].astype(np.int64)
    if not _is_ours(record, raw, where, indices, end) or lengths.max() > num_steps:
        return None
    sizes = np.cumsum(lengths * _row_bytes(record))
    return records[: max(1, int(np.searchsorted(sizes, CHUNK_BYTES, side="right")))]


def _row_bytes(record: EpisodeRecord) -> int:
    return sum(column.row_bytes for column in record.columns)


def _read_records(file: RawIOBase, record: EpisodeRecord, records: np.ndarray) -> Iterator[Episodes]:
    """Yields the episodes of some records together, or a large one in parts."""
    lengths = records["rewards.rows"].astype(np.int64)
    rows = max(1, CHUNK_BYTES // _row_bytes(record)) if len(records) == 1 else int(lengths.max())
    seeds, has_seed = records["attrs.seed"].copy(), records["seed.kind"] == ATTRIBUTE
    for begin in range(0, int(lengths.max()), rows):
        part = np.minimum(lengths - begin, rows)
        arrays = {column.name: _rows(file, column, records, begin, part) for column in record.columns}
        yield Episodes(arrays, part, seeds, has_seed, has_more=bool((begin + part < lengths)[-1]))


def _is_ours(
    record: EpisodeRecord, raw: np.ndarray, where: np.ndarray, indices: np.ndarray, end: int
) -> bool:
    """Returns whether all records have the template's bytes, and numbers that agree and stay in the file."""
    size, records = record.template.itemsize, raw.view(record.template.dtype)
    mask = np.full(size, 0xFF, np.uint8)
    for form, offset, *_ in (record.template.dtype.fields or {}).values():
        mask[offset : offset + form.itemsize] = 0
    if ((raw.reshape(-1, size) ^ record.template.view(np.uint8)) & mask).any():
        return False
    lengths = records["rewards.rows"]
    agrees = (lengths >= 1) & (lengths < end) & (records["attrs.id"] == indices)
    agrees &= (records["attrs.total_steps"] == lengths) & np.isin(
        records["seed.kind"], (ATTRIBUTE, NO_MESSAGE)
    )
    for field, offset in record.links.items():
        agrees &= records[field] == where + offset
    for column in record.columns:
        rows, data = records[f"{column.name}.rows"], records[f"{column.name}.data"]
        size = records[f"{column.name}.bytes"]
        agrees &= (rows == lengths + np.uint64(column.extra)) & (size == rows * np.uint64(column.row_bytes))
        agrees &= (data <= end) & (size <= end) & (data + size <= end)
    return bool(agrees.all())


def _rows(
    file: RawIOBase, column: EpisodeColumn, records: np.ndarray, begin: int, lengths: np.ndarray
) -> np.ndarray:
    """Returns the rows of one column for some steps of all these records from step `begin`, in order."""
    rows = lengths + column.extra
    first = records[f"{column.name}.data"].astype(np.int64) + begin * column.row_bytes
    data = gather(file, first, rows * column.row_bytes)
    return data.view(column.dtype).reshape(int(rows.sum()), *column.shape)


def gather(file: RawIOBase, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the bytes of these ranges of the file, concatenated; neighbours are read together."""
    result = np.empty(int(sizes.sum()), np.uint8)
    is_new = np.concatenate([[True], begins[1:] != begins[:-1] + sizes[:-1]])
    first = np.flatnonzero(is_new)
    stretches = zip(begins[first], np.add.reduceat(sizes, first), strict=True)
    done = 0
    for begin, size in stretches:
        read_into(file, result.data[done : done + size], int(begin))
        done += int(size)
    return result


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
