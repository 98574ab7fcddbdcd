"""Episodes out of an HDF5 file, a chunk at a time: in bulk where this library wrote them, else one by one.

The HDF5 library takes about 60 microseconds to open and read a small dataset, five of them an episode. But an
episode that was written from a template (`hdf5_records`) can be recognised: its bytes are the template's,
but for the numbers, and the numbers agree with each other. A chunk of such episodes is read as records, and
its data in a few long reads. One that differs in anything (Minari's own, or touched since) is read through
h5py. Both ways give the same arrays; what is damaged is refused, and nothing is unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import RawIOBase
from typing import Any

import numpy as np

from rhocover.adapters.hdf5_messages import ATTRIBUTE, NO_MESSAGE
from rhocover.adapters.hdf5_objects import Leaf, open_file, read_episode, row_type
from rhocover.adapters.hdf5_records import Column, EpisodeRecord, episode_record
from rhocover.adapters.hdf5_writing import Episodes, joined
from rhocover.adapters.minari_columns import is_plain
from rhocover.adapters.stored_rows import StoredRows, read_into

CHUNK_BYTES = 2**26


def read_hdf5(
    path: os.PathLike[str], leaves: Sequence[Leaf], indices: Sequence[int], chunk_episodes: int,
    *, is_lazy: bool = False,
) -> Iterator[Episodes]:  # fmt: skip
    """Returns the episodes of these numbers in order, at most `chunk_episodes` or about 64 MB at a time.

    One episode may be larger; with `is_lazy` its observations are `StoredRows` where this library wrote it,
    to be read before the next episodes are asked for.
    """
    with open_file(path) as file, open(path, "rb", buffering=0) as raw:
        where = _addresses(file, indices)
        record = _record(file, leaves, indices[0])
        done = 0
        while done < len(indices):
            chunk = slice(done, done + chunk_episodes)
            episodes = None
            if record is not None and where is not None:
                episodes = _read_records(raw, record, where[chunk], np.asarray(indices[chunk]), is_lazy)
            if episodes is None:
                episodes = _read_one_by_one(file, leaves, indices[chunk])
            yield episodes
            done += len(episodes)


def _addresses(file: Any, indices: Sequence[int]) -> np.ndarray | None:
    """Returns where the headers of these episodes are; None if some are missing or no plain links."""
    found: dict[bytes, int] = {}
    file.id.links.iterate(lambda name, info: found.__setitem__(name, info.u), info=True)
    try:
        return np.array([found[b"episode_%d" % index] for index in indices], dtype=np.int64)
    except (KeyError, TypeError, ValueError):  # the reader of single episodes will say which
        return None


def _record(file: Any, leaves: Sequence[Leaf], index: int) -> EpisodeRecord | None:
    """Returns the template that this library would have written episode `index` with, if it can have."""
    columns = []
    for leaf in leaves:
        form = row_type(file, index, leaf)
        if form is None or not is_plain(form):
            return None
        columns.append(Column(leaf.path, form, leaf.shape, leaf.extra))
    return episode_record(columns)


def _read_records(
    file: RawIOBase, record: EpisodeRecord, where: np.ndarray, indices: np.ndarray, is_lazy: bool
) -> Episodes | None:
    """Returns the episodes whose records are at `where`, or fewer if they are large; None if one differs."""
    size, end = record.template.itemsize, os.fstat(file.fileno()).st_size
    if where.min() < 0 or where.max() > end - size:
        return None
    raw = gather(file, where, np.full(len(where), size))
    records = raw.view(record.template.dtype)
    lengths = records["rewards.rows"].astype(np.int64)
    if not _is_ours(record, raw, where, indices, end):
        return None
    row_bytes = sum(column.row_bytes for column in record.columns)
    count = 1 + int(np.searchsorted(np.cumsum(lengths[:-1]) * row_bytes, CHUNK_BYTES))
    records, lengths = records[:count], lengths[:count]
    is_long = is_lazy and count == 1 and int(lengths[0]) * row_bytes > CHUNK_BYTES
    arrays = {
        column.name: (_stored_rows if is_long and column.extra else _rows)(file, column, records)
        for column in record.columns
    }
    return Episodes(arrays, lengths, records["attrs.seed"].copy(), records["seed.kind"] == ATTRIBUTE)


def _is_ours(
    record: EpisodeRecord, raw: np.ndarray, where: np.ndarray, indices: np.ndarray, end: int
) -> bool:
    """Returns whether all records are the template's bytes with numbers that agree and stay in the file."""
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


def _rows(file: RawIOBase, column: Column, records: np.ndarray) -> np.ndarray:
    """Returns the rows of one column of all these records, one after another."""
    begin, size = (records[f"{column.name}.{field}"].astype(np.int64) for field in ("data", "bytes"))
    rows = int(records[f"{column.name}.rows"].sum())
    return gather(file, begin, size).view(column.dtype).reshape(rows, *column.shape)


def _stored_rows(file: RawIOBase, column: Column, records: np.ndarray) -> StoredRows:
    """Returns the rows of one column of the only record, still in the file."""
    begin, rows = (int(records[f"{column.name}.{field}"][0]) for field in ("data", "rows"))
    return StoredRows(file, begin, column.dtype, (rows, *column.shape))


def gather(file: RawIOBase, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the bytes of these stretches of the file, one after another; neighbours are read at once."""
    result = np.empty(int(sizes.sum()), np.uint8)
    is_new = np.concatenate([[True], begins[1:] != begins[:-1] + sizes[:-1]])
    first = np.flatnonzero(is_new)
    stretches = zip(begins[first], np.add.reduceat(sizes, first), strict=True)
    done = 0
    for begin, size in stretches:
        read_into(file, result.data[done : done + size], int(begin))
        done += int(size)
    return result


def _read_one_by_one(file: Any, leaves: Sequence[Leaf], indices: Sequence[int]) -> Episodes:
    """Returns episodes through h5py, as many of them as about 64 MB hold and at least one."""
    pieces, size = [], 0
    for index in indices:
        pieces.append(read_episode(file, index, leaves))
        size += sum(array.nbytes for array in pieces[-1].arrays.values())
        if size >= CHUNK_BYTES:
            break
    return joined(pieces)
