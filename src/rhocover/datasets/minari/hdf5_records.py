"""An episode as one record of bytes: HDF5 object headers made from a template, thousands at a time.

A Minari data set is an HDF5 file with a group per episode and a dataset per column. The HDF5 library takes
about 50 microseconds for each of these small objects, which for short episodes is more than the steps
themselves took. But the headers of two episodes differ only in a few numbers (lengths, addresses, number,
seed). So the bytes of one episode's headers are laid out once, as a NumPy record whose fields are those
numbers; the records of a thousand episodes are then filled by column, and their data is written as it is.

    record = [group "episode_i"] [nested groups ...] [dataset header of each column ...]

What is used of the format has neither checksums nor times, and every HDF5 since 1.8 (2008) reads it: version
1 object headers, groups that hold their links, contiguous datasets (`hdf5_messages`). This module knows bytes
and columns, nothing of spaces or of Minari.

The bytes of an HDF5 object header, put together from parts, with names for the numbers that vary.

An object (a group, a dataset) begins with a header: a row of messages, each of a kind, a size and a body
of whole eight-byte words. A `Template` is a stretch of such bytes in which some numbers have names, not
values; parts are joined into messages, messages into headers. Only what episodes need is here: version 1
headers, groups that hold their links, plain numbers, int64 attributes. Section numbers in the comments
are those of the HDF5 File Format Specification, version 3.0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# The bytes of an HDF5 object header, put together from parts, with names for the numbers that vary.

UNDEFINED = b"\xff" * 8  # an address that leads nowhere
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
    """Returns room for a number that each episode has its own of."""
    return Template(bytes(np.dtype(form).itemsize), {name: (0, form)})


def join(parts: Sequence[Template]) -> Template:
    """Returns the parts one after another, as one part."""
    data, fields = b"", {}
    for part in parts:
        fields.update({name: (len(data) + at, form) for name, (at, form) in part.fields.items()})
        data += part.data
    return Template(data, fields)


def padded(part: Template) -> Template:
    """Returns the part, filled with zeros to a multiple of eight bytes as version 1 headers ask."""
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


# An episode as one record of bytes: HDF5 object headers made from a template, thousands at a time.


@dataclass(frozen=True)
class EpisodeColumn:
    """One array of an episode: `length + extra` rows of `shape`; its path is ("observations", "position")."""

    path: tuple[str, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    extra: int  # an episode of T steps has T + 1 observations, T of everything else

    @property
    def name(self) -> str:
        """Returns the path as HDF5 writes it."""
        return "/".join(self.path)

    @property
    def row_bytes(self) -> int:
        """Returns how many bytes a row takes."""
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
    """The template of an episode's headers: `dtype` names its numbers, `links` where its objects begin."""

    columns: tuple[EpisodeColumn, ...]
    template: np.ndarray  # one record, shape [1]
    links: Mapping[str, int]  # field of an address -> where in the record that object begins

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

        `data` says where each column's block begins: the rows of all these episodes, one after another.
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
    """Returns every group that the columns' paths pass through, the episode's own first, with its links."""
    groups: dict[tuple[str, ...], dict[str, str]] = {(): {}}
    for column in columns:
        for depth in range(len(column.path)):
            here, child = column.path[:depth], column.path[: depth + 1]
            groups.setdefault(here, {})[child[-1]] = _header(child)
    return list(groups.items())
