"""The bytes of an HDF5 object header, put together from parts, with names for the numbers that vary.

An object (a group, a dataset) begins with a header: a row of messages, each of a kind, a size and a body of
whole eight-byte words. A `Part` is a stretch of such bytes in which some numbers have names, not values;
parts are joined into messages, messages into headers. Only what episodes need is here: version 1 headers,
groups that hold their links, plain numbers, int64 attributes. Section numbers in the comments are those of
the HDF5 File Format Specification, version 3.0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

UNDEFINED = b"\xff" * 8  # an address that leads nowhere
NO_MESSAGE, ATTRIBUTE = 0x0000, 0x000C  # IV.A.2.a and IV.A.2.m: a message that is skipped, and an attribute


@dataclass(frozen=True)
class Part:
    """Some bytes, and the numbers in them that differ between episodes: name -> (offset, format)."""

    data: bytes
    fields: Mapping[str, tuple[int, str]]


def fixed(data: bytes) -> Part:
    """Returns bytes that are the same in every episode."""
    return Part(data, {})


def number(name: str, form: str = "<u8") -> Part:
    """Returns room for a number that each episode has its own of."""
    return Part(bytes(np.dtype(form).itemsize), {name: (0, form)})


def join(parts: Sequence[Part]) -> Part:
    """Returns the parts one after another, as one part."""
    data, fields = b"", {}
    for part in parts:
        fields.update({name: (len(data) + at, form) for name, (at, form) in part.fields.items()})
        data += part.data
    return Part(data, fields)


def padded(part: Part) -> Part:
    """Returns the part, filled with zeros to a multiple of eight bytes as version 1 headers ask."""
    return Part(part.data + bytes(-len(part.data) % 8), part.fields)


def message(kind: int | str, *parts: Part) -> Part:
    """Returns one header message (IV.A.1.a); a `kind` that is a name is filled in per episode."""
    body = padded(join(parts))
    head = number(kind, "<u2") if isinstance(kind, str) else fixed(struct.pack("<H", kind))
    return join([head, fixed(struct.pack("<HB3x", len(body.data), 0)), body])


def object_header(messages: Sequence[Part]) -> Part:
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


def attribute_part(name: str, kind: int | str = ATTRIBUTE) -> Part:
    """Returns an int64 attribute (IV.A.2.m, version 1) whose value is the field `attrs.<name>`."""
    text, form = name.encode() + b"\0", type_bytes(np.dtype("<i8"))
    head = struct.pack("<BxHHH", 1, len(text), len(form), 8)
    scalar = struct.pack("<BBB5x", 1, 0, 0)
    pieces = [fixed(head), padded(fixed(text)), padded(fixed(form)), fixed(scalar)]
    return message(kind, *pieces, number(f"attrs.{name}", "<i8"))


def group_part(links: Mapping[str, str], attributes: Sequence[Part] = ()) -> Part:
    """Returns a group's header (IV.A.2.c, k, g) with its links inside: link name -> field of the address."""
    messages = [message(0x0002, fixed(b"\0\0" + UNDEFINED + UNDEFINED)), message(0x000A, fixed(b"\0\0"))]
    for name, field in links.items():
        text = name.encode()
        charset = b"" if name.isascii() else b"\x01"
        head = struct.pack("<BB", 1, 0x01 | 0x10 * (not name.isascii())) + charset
        messages.append(message(0x0006, fixed(head + struct.pack("<H", len(text)) + text), number(field)))
    return object_header([*messages, *attributes])
