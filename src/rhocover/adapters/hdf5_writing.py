"""A file of episodes, written front to back: blocks of data, the episodes' records, the index at the end.

    superblock | batch 1: column, column, ..., records | batch 2 ... | index of episodes

Episodes wait until a batch is full (1024 of them, or 16 MB), whatever the pieces in which they came. So the
bytes of the file depend on the episodes alone, and the same episodes give the same file to the bit.
Memory holds one batch; an episode longer than that may come as `StoredRows`. Until `close` the file has no
index, and no reader takes it for whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.adapters.hdf5_index import SUPERBLOCK_BYTES, root_group
from rhocover.adapters.hdf5_records import Column, episode_record
from rhocover.adapters.stored_rows import StoredRows, stretches

BATCH_EPISODES = 1024
BATCH_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class Episodes:
    """Some episodes: the arrays of each column by name, lengths [E], seeds [E] and which of them count.

    A reader gives a long episode in parts: `has_more` says that the last one goes on in what comes next. A
    part of T steps has T + 1 observations, too; the last of them is the first of the next part. A writer
    takes a long episode that stands alone with `StoredRows` in the place of arrays.
    """

    arrays: Mapping[str, Any]
    lengths: np.ndarray
    seeds: np.ndarray
    has_seed: np.ndarray
    has_more: bool = False

    def __len__(self) -> int:
        return len(self.lengths)

    def part(self, columns: Sequence[Column], begin: int, end: int) -> Episodes:
        """Returns episodes begin..end-1, as views."""
        if (begin, end) == (0, len(self)):
            return self
        first, last = int(self.lengths[:begin].sum()), int(self.lengths[:end].sum())
        arrays = {
            c.name: self.arrays[c.name][first + c.extra * begin : last + c.extra * end] for c in columns
        }
        chosen = slice(begin, end)
        return Episodes(arrays, self.lengths[chosen], self.seeds[chosen], self.has_seed[chosen])

    def copy(self) -> Episodes:
        """Returns the same episodes in memory of their own."""
        arrays = {
            name: array if isinstance(array, StoredRows) else array.copy()
            for name, array in self.arrays.items()
        }
        return Episodes(arrays, self.lengths.copy(), self.seeds.copy(), self.has_seed.copy())


def joined(pieces: Sequence[Episodes]) -> Episodes:
    """Returns the pieces one after another."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = {name: np.concatenate([piece.arrays[name] for piece in pieces]) for name in pieces[0].arrays}
    columns = ([getattr(piece, name) for piece in pieces] for name in ("lengths", "seeds", "has_seed"))
    return Episodes(arrays, *map(np.concatenate, columns), has_more=pieces[-1].has_more)


class EpisodeFile:
    """Takes episodes with `add`; `close` makes the file whole. `addresses` is where each episode begins."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.num_episodes = 0
        self._record = episode_record(columns)
        self._batch_steps = max(1, BATCH_BYTES // sum(column.row_bytes for column in columns))
        self._waiting: list[Episodes] = []
        self._waiting_episodes = self._waiting_steps = 0
        self._addresses: list[np.ndarray] = []
        self._position = SUPERBLOCK_BYTES  # zeros until `close`
        self._file = open(path, "xb")  # noqa: SIM115 - closed by `close` or `abandon`
        self._file.seek(self._position)

    def add(self, episodes: Episodes) -> None:
        """Adds episodes; what does not fill a batch is copied and waits, so arrays may be reused."""
        done = 0
        while done < len(episodes):
            room = self._room(episodes.lengths[done:])
            piece = episodes.part(self.columns, done, min(done + room, len(episodes)))
            is_full = done + room <= len(episodes)
            self._wait(piece if is_full else piece.copy())
            if is_full:
                self._write_batch()
            done += len(piece)

    def _room(self, lengths: np.ndarray) -> int:
        """Returns how many more episodes fill the batch; more than there are if these do not."""
        by_number = BATCH_EPISODES - self._waiting_episodes
        steps = np.cumsum(lengths[:by_number])
        return min(by_number, 1 + int(np.searchsorted(steps, self._batch_steps - self._waiting_steps)))

    def _wait(self, piece: Episodes) -> None:
        self._waiting.append(piece)
        self._waiting_episodes += len(piece)
        self._waiting_steps += int(piece.lengths.sum())

    def _write_batch(self) -> None:
        waiting = self._waiting
        self._waiting, self._waiting_episodes, self._waiting_steps = [], 0, 0
        data = {c.name: self._write(*(piece.arrays[c.name] for piece in waiting)) for c in self.columns}
        lengths, seeds, has_seed = (
            np.concatenate([getattr(piece, name) for piece in waiting])
            for name in ("lengths", "seeds", "has_seed")
        )
        records = self._record.fill(self._position, self.num_episodes, lengths, seeds, has_seed, data)
        begin = self._write(records.view(np.uint8))
        self._addresses.append(begin + records.itemsize * np.arange(lengths.size))
        self.num_episodes += lengths.size

    def _write(self, *data: Any) -> int:
        """Writes bytes and arrays, then zeros to a multiple of eight bytes; returns where they begin."""
        begin = self._position
        for raw in _bytes_of(data):
            self._file.write(raw)
            self._position += len(raw)
        padding = -(self._position - begin) % 8
        self._file.write(bytes(padding))
        self._position += padding
        return begin

    def close(self) -> int:
        """Writes what waits and the index, makes all of it durable; returns the number of bytes."""
        if self._waiting:
            self._write_batch()
        index, superblock = root_group(np.concatenate(self._addresses), self._position)
        self._write(index)
        self._file.seek(0)
        self._file.write(superblock)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._position

    def abandon(self) -> None:
        """Closes the file as it is: no reader will open it."""
        with suppress(OSError):  # what waits to be written may find no room
            self._file.close()


def _bytes_of(data: Iterable[Any]) -> Iterable[Any]:
    """Returns the bytes of some arrays, stored rows a stretch at a time."""
    for value in data:
        if isinstance(value, bytes):
            yield value
            continue
        for rows in stretches(value):
            yield np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
