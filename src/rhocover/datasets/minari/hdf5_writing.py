"""Writes an HDF5 file of episodes from front to back: batches of data and records, then an index.

    superblock | batch 1: column, column, ..., records | batch 2 ... | index of episodes

Episodes wait until a batch is full (1024 of them, or 16 MB), independent of the pieces in which they were
added. The bytes of the file therefore depend on the episodes only: the same episodes give the same file to
the bit. Memory holds one batch; an episode longer than that may be passed as `StoredRows`. Until `close` the
file has no index, so no reader takes it for complete.

**Records.** A Minari data set is an HDF5 file with one group per episode and one dataset per column. The HDF5
library takes about 50 microseconds for each of these small objects, which for short episodes is more than the
steps themselves took. But the headers of two episodes differ only in a few numbers (lengths, addresses,
number, seed). The bytes of one episode's headers are therefore laid out once, as a NumPy record whose fields
are those numbers; the records of a thousand episodes are then filled by column, and their data are written
as they are.

    record = [group "episode_i"] [nested groups ...] [dataset header of each column ...]

**Templates.** An object (a group, a dataset) begins with a header: a sequence of messages, each with a kind,
a size and a body of whole eight-byte words. A `Template` is a piece of such bytes in which some numbers have
names instead of values; parts are joined into messages, messages into headers.

**Index.** The root group, which maps names to episodes, is of the oldest kind of the format: a heap of names,
leaves with up to 2k entries (name, address) in the order of the names, and a B-tree above them. It is made at
once, from the bottom up, when the addresses are known. The HDF5 library can add to it afterwards.

Only what episodes need is implemented: version 1 object headers, groups that contain their links, contiguous
datasets, plain numbers, int64 attributes. These have neither checksums nor times, and every HDF5 since 1.8
(2008) reads them. Section numbers in the comments are those of the HDF5 File Format Specification, version
3.0 (for the index II.A, III.A.1, III.B, III.D). This module deals with bytes and columns, not with spaces or
Minari.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets.minari.columns import StoredRows, stretches

# Templates.

UNDEFINED = b"\xff" * 8  # the undefined address
NO_MESSAGE, ATTRIBUTE = 0x0000, 0x000C  # IV.A.2.a and IV.A.2.m: a message that is skipped, and an attribute


@dataclass(frozen=True)
class Template:
    """Some bytes, and the numbers in them that differ between episodes: name -> (offset, format)."""

    data: bytes
    fields: Mapping[str, tuple[int, str]]


def fixed(data: bytes) -> Template:
    """Returns bytes that are the same in every episode."""
    return Template(data, {})


def number(name: str, form: str = "<u8") -> Template:
    """Returns a field for a number that differs between episodes."""
    return Template(bytes(np.dtype(form).itemsize), {name: (0, form)})


def join(parts: Sequence[Template]) -> Template:
    """Returns the concatenation of parts, as one part."""
    data, fields = b"", {}
    for part in parts:
        fields.update({name: (len(data) + at, form) for name, (at, form) in part.fields.items()})
        data += part.data
    return Template(data, fields)


def padded(part: Template) -> Template:
    """Returns the part, padded with zeros to a multiple of eight bytes as version 1 headers require."""
    return Template(part.data + bytes(-len(part.data) % 8), part.fields)


def message(kind: int | str, *parts: Template) -> Template:
    """Returns one header message (IV.A.1.a); a `kind` that is a name is filled in per episode."""
    body = padded(join(parts))
    head = number(kind, "<u2") if isinstance(kind, str) else fixed(struct.pack("<H", kind))
    return join([head, fixed(struct.pack("<HB3x", len(body.data), 0)), body])


def object_header(messages: Sequence[Template]) -> Template:
    """Returns a version 1 object header (IV.A.1.a) that one link points to."""
    body = join(messages)
    return join([fixed(struct.pack("<BxHII4x", 1, len(messages), 1, len(body.data))), body])


def type_bytes(dtype: np.dtype[Any]) -> bytes:
    """Returns the datatype message (IV.A.2.d) of a little-endian number, or of h5py's FALSE/TRUE bytes."""
    size = dtype.itemsize
    if dtype.kind == "b":
        names = b"FALSE\0\0\0TRUE\0\0\0\0"
        return struct.pack("<BBBBI", 0x18, 2, 0, 0, 1) + type_bytes(np.dtype("i1")) + names + b"\x00\x01"
    if dtype.kind in "iu":
        return struct.pack("<BBBBIHH", 0x10, 8 * (dtype.kind == "i"), 0, 0, size, 0, 8 * size)
    exponent, mantissa = {2: (5, 10), 4: (8, 23), 8: (11, 52)}[size]
    head = struct.pack("<BBBBIHH", 0x11, 0x20, 8 * size - 1, 0, size, 0, 8 * size)
    return head + struct.pack("<BBBBI", mantissa, exponent, 0, mantissa, 2 ** (exponent - 1) - 1)


def attribute_part(name: str, kind: int | str = ATTRIBUTE) -> Template:
    """Returns an int64 attribute (IV.A.2.m, version 1) whose value is the field `attrs.<name>`."""
    text, form = name.encode() + b"\0", type_bytes(np.dtype("<i8"))
    head = struct.pack("<BxHHH", 1, len(text), len(form), 8)
    scalar = struct.pack("<BBB5x", 1, 0, 0)
    pieces = [fixed(head), padded(fixed(text)), padded(fixed(form)), fixed(scalar)]
    return message(kind, *pieces, number(f"attrs.{name}", "<i8"))


def group_part(links: Mapping[str, str], attributes: Sequence[Template] = ()) -> Template:
    """Returns a group's header (IV.A.2.c, k, g) with its links inside: link name -> field of the address."""
    messages = [message(0x0002, fixed(b"\0\0" + UNDEFINED + UNDEFINED)), message(0x000A, fixed(b"\0\0"))]
    for name, field in links.items():
        text = name.encode()
        charset = b"" if name.isascii() else b"\x01"
        head = struct.pack("<BB", 1, 0x01 | 0x10 * (not name.isascii())) + charset
        messages.append(message(0x0006, fixed(head + struct.pack("<H", len(text)) + text), number(field)))
    return object_header([*messages, *attributes])


# Records.


@dataclass(frozen=True)
class EpisodeColumn:
    """One array of an episode: `length + extra` rows of `shape`; its path is ("observations", "position")."""

    path: tuple[str, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    extra: int  # an episode of T steps has T + 1 observations, T of everything else

    @property
    def name(self) -> str:
        """The path as HDF5 writes it."""
        return "/".join(self.path)

    @property
    def row_bytes(self) -> int:
        """The size of a row in bytes."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


def dataset_part(column: EpisodeColumn) -> Template:
    """Returns the header of a contiguous dataset (IV.A.2.b, d, f, i)."""
    name, rank = column.name, 1 + len(column.shape)
    space = struct.pack("<BBB5x", 1, rank, 0)
    rest = struct.pack(f"<{rank - 1}Q", *column.shape)
    return object_header(
        [
            message(0x0001, fixed(space), number(f"{name}.rows"), fixed(rest)),
            message(0x0003, fixed(type_bytes(column.dtype))),
            message(0x0005, fixed(struct.pack("<BBBBI", 2, 2, 2, 1, 0))),  # the default fill value
            message(
                0x0008, fixed(b"\x03\x01"), number(f"{column.name}.data"), number(f"{column.name}.bytes")
            ),
        ]
    )


@dataclass(frozen=True)
class EpisodeRecord:
    """The template of an episode's headers: `dtype` names its numbers, `links` the offsets of its objects."""

    columns: tuple[EpisodeColumn, ...]
    template: np.ndarray  # one record, shape [1]
    links: Mapping[str, int]  # field of an address -> offset of that object in the record

    def fill(
        self,
        address: int,
        first: int,
        lengths: np.ndarray,
        seeds: np.ndarray,
        has_seed: np.ndarray,
        data: Mapping[str, int],
    ) -> np.ndarray:
        """Returns the records of episodes `first`, `first + 1`, ... to be written at `address`, shape `[E]`.

        `data` is where the block of each column begins: the rows of all these episodes, concatenated.
        """
        records = np.tile(self.template.view(np.uint8), len(lengths)).view(self.template.dtype)
        here = address + records.itemsize * np.arange(len(lengths))
        for field, offset in self.links.items():
            records[field] = here + offset
        records["attrs.id"] = first + np.arange(len(lengths))
        records["attrs.total_steps"] = lengths
        records["seed.kind"] = np.where(has_seed, ATTRIBUTE, NO_MESSAGE)
        records["attrs.seed"] = np.where(has_seed, seeds, 0)
        for column in self.columns:
            rows = lengths + column.extra
            records[f"{column.name}.rows"] = rows
            records[f"{column.name}.bytes"] = rows * column.row_bytes
            records[f"{column.name}.data"] = data[column.name] + (np.cumsum(rows) - rows) * column.row_bytes
        return records


def episode_record(columns: Sequence[EpisodeColumn]) -> EpisodeRecord:
    """Returns the template of an episode with these columns."""
    attributes = [attribute_part("id"), attribute_part("total_steps"), attribute_part("seed", "seed.kind")]
    objects = {path: group_part(links, attributes if not path else ()) for path, links in _groups(columns)}
    objects |= {column.path: dataset_part(column) for column in columns}
    starts = np.cumsum([0, *(len(part.data) for part in objects.values())])
    whole = join(list(objects.values()))
    form = np.dtype(
        {
            "names": list(whole.fields),
            "formats": [form for _, form in whole.fields.values()],
            "offsets": [offset for offset, _ in whole.fields.values()],
            "itemsize": len(whole.data),
        }
    )
    links = {_header(path): int(start) for path, start in zip(objects, starts, strict=False) if path}
    return EpisodeRecord(tuple(columns), np.frombuffer(whole.data, dtype=form), links)


def _header(path: tuple[str, ...]) -> str:
    return "/".join(path) + ".header"


def _groups(columns: Sequence[EpisodeColumn]) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Returns every group on the paths of the columns with its links, that of the episode first."""
    groups: dict[tuple[str, ...], dict[str, str]] = {(): {}}
    for column in columns:
        for depth in range(len(column.path)):
            here, child = column.path[:depth], column.path[: depth + 1]
            groups.setdefault(here, {})[child[-1]] = _header(child)
    return list(groups.items())


# Index.

SUPERBLOCK_BYTES = 96
LEAF_K, TREE_K = 32, 64  # half the capacity of a leaf and a tree node: 2^20 episodes fit below two levels
NOWHERE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
ENTRY = np.dtype([("name", "<u8"), ("header", "<u8"), ("cache", "<u4"), ("_", "<u4"), ("scratch", "V16")])
LEAF = np.dtype([("head", "V6"), ("count", "<u2"), ("entries", ENTRY, (2 * LEAF_K,))])
NODE = np.dtype(
    [
        ("signature", "V4"),
        ("kind", "u1"),  # 0: a tree of a group's names
        ("level", "u1"),
        ("count", "<u2"),
        ("left", "<u8"),
        ("right", "<u8"),
        ("pairs", [("key", "<u8"), ("child", "<u8")], (2 * TREE_K,)),
        ("last", "<u8"),
    ]
)


def root_group(addresses: np.ndarray, position: int) -> tuple[bytes, bytes]:
    """Returns (bytes to write at `position`, superblock): a file of groups episode_0, episode_1, ..."""
    names = np.array([f"episode_{number}" for number in range(len(addresses))], dtype="S24")
    order = np.argsort(names, kind="stable")
    heap = _heap(names, position)
    offsets = 8 + names.dtype.itemsize * order
    leaves, where, last = _leaves(offsets, addresses[order], position + len(heap))
    tree, root = _tree(where, last, position + len(heap) + len(leaves))
    body = heap + leaves + tree
    table = struct.pack("<QQ", root, position)
    header = object_header([message(0x0011, fixed(table))]).data
    return body + header, superblock(position + len(body), table, position + len(body) + len(header))


def superblock(root: int, table: bytes, end: int) -> bytes:
    """Returns the first 96 bytes of the file (II.A, version 0): where its root group and its end are."""
    versions = struct.pack("<8sBBBxBBBx", b"\x89HDF\r\n\x1a\n", 0, 0, 0, 0, 8, 8)
    shape = struct.pack("<HHIQ", LEAF_K, TREE_K, 0, 0) + UNDEFINED + struct.pack("<Q", end) + UNDEFINED
    return versions + shape + struct.pack("<QQII", 0, root, 1, 0) + table


def _heap(names: np.ndarray, position: int) -> bytes:
    """Returns the names, each in 24 bytes behind an empty one at 0, and their heap's header before them."""
    data = bytes(8) + names.tobytes()
    no_free_space = 1  # III.D calls it the offset of the free list; the library writes 1 where there is none
    return struct.pack("<4sB3xQQQ", b"HEAP", 0, len(data), no_free_space, position + 32) + data


def _parts(count: int, size: int) -> np.ndarray:
    """Returns boundaries of equal shares of at most `size`: one share, or each at least half full."""
    return np.linspace(0, count, -(-count // size) + 1).astype(np.int64)


def _leaves(names: np.ndarray, headers: np.ndarray, position: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Returns (bytes, address of each leaf, name that ends it)."""
    bounds = _parts(len(names), 2 * LEAF_K)
    leaves = np.zeros(len(bounds) - 1, LEAF)
    leaves["head"] = np.frombuffer(b"SNOD\x01\0", "V6")
    leaves["count"] = np.diff(bounds)
    row = np.repeat(np.arange(len(leaves)), np.diff(bounds))
    place = np.arange(len(names)) - bounds[row]
    leaves["entries"]["name"][row, place] = names
    leaves["entries"]["header"][row, place] = headers
    where = position + LEAF.itemsize * np.arange(len(leaves))
    return leaves.tobytes(), where, names[bounds[1:] - 1]


def _tree(children: np.ndarray, last: np.ndarray, position: int) -> tuple[bytes, int]:
    """Returns (bytes of all levels, address of the root); `last` are the greatest names below each child."""
    data, level = b"", 0
    while level == 0 or len(children) > 1:
        nodes, children, last = _tree_level(children, last, level, position + len(data))
        data += nodes
        level += 1
    return data, int(children[0])


def _tree_level(
    children: np.ndarray, last: np.ndarray, level: int, position: int
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Returns (bytes, addresses, greatest names) of the nodes above `children`.

    A node of n children has n + 1 keys; child i holds names above key i and up to key i + 1.
    """
    bounds = _parts(len(children), 2 * TREE_K)
    nodes = np.zeros(len(bounds) - 1, NODE)
    where = position + NODE.itemsize * np.arange(len(nodes))
    nodes["signature"], nodes["level"] = np.frombuffer(b"TREE", "V4"), level
    nodes["count"] = np.diff(bounds)
    nodes["left"] = np.concatenate([[NOWHERE], where[:-1].astype(np.uint64)])
    nodes["right"] = np.concatenate([where[1:].astype(np.uint64), [NOWHERE]])
    before = np.concatenate([[0], last])  # before the first name stands the empty one, at 0 of the heap
    for node, begin, end in zip(nodes, bounds[:-1], bounds[1:], strict=True):
        keys, count = before[begin : end + 1], end - begin
        node["pairs"]["child"][:count] = children[begin:end]
        node["pairs"]["key"][:count] = keys[:-1]
        if count < 2 * TREE_K:
            node["pairs"]["key"][count] = keys[-1]
        else:
            node["last"] = keys[-1]
    return nodes.tobytes(), where, last[bounds[1:] - 1]


# The file.

BATCH_EPISODES = 1024
BATCH_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class Episodes:
    """Some episodes: the arrays of each column by name, lengths [E], seeds [E] and which of them are given.

    A reader returns a long episode in parts: `has_more` means that the last one continues in the next part. A
    part of T steps has T + 1 observations; the last of them is the first of the next part. A writer accepts
    a single long episode with `StoredRows` instead of arrays.
    """

    arrays: Mapping[str, Any]
    lengths: np.ndarray
    seeds: np.ndarray
    has_seed: np.ndarray
    has_more: bool = False

    def __len__(self) -> int:
        return len(self.lengths)

    def part(self, columns: Sequence[EpisodeColumn], begin: int, end: int) -> Episodes:
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
        """Returns a copy of the episodes."""
        arrays = {
            name: array if isinstance(array, StoredRows) else array.copy()
            for name, array in self.arrays.items()
        }
        return Episodes(arrays, self.lengths.copy(), self.seeds.copy(), self.has_seed.copy())


def joined(pieces: Sequence[Episodes]) -> Episodes:
    """Returns the concatenation of the pieces."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = {name: np.concatenate([piece.arrays[name] for piece in pieces]) for name in pieces[0].arrays}
    columns = ([getattr(piece, name) for piece in pieces] for name in ("lengths", "seeds", "has_seed"))
    return Episodes(arrays, *map(np.concatenate, columns), has_more=pieces[-1].has_more)


class EpisodeFile:
    """Writes episodes with `add`; `close` completes the file. `addresses` are the positions of episodes."""

    def __init__(self, path: Path, columns: Sequence[EpisodeColumn]) -> None:
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
        """Adds episodes; those that do not fill a batch are copied, so arrays may be reused."""
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
        """Returns how many more episodes fill the batch; more than there are if they do not fill it."""
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
        """Writes the waiting episodes and the index, and syncs the file; returns the number of bytes."""
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
        with suppress(OSError):  # the disk may be full for buffered bytes
            self._file.close()


def _bytes_of(data: Iterable[Any]) -> Iterable[Any]:
    """Yields the bytes of some arrays, stored rows in pieces."""
    for value in data:
        if isinstance(value, bytes):
            yield value
            continue
        for rows in stretches(value):
            yield np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
