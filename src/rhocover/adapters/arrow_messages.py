"""How many bytes the messages of an Arrow file unpack to, asked before they are.

An Arrow file is eight bytes, then a stream of messages, each a little table (a FlatBuffer) and a body. The
table of a record batch lists the buffers of its body; where they are packed, each begins with the number of
bytes that it unpacks to, and Arrow makes room for so many. Minari packs none.
"""

from __future__ import annotations

import struct
from typing import Any

HEAD = b"ARROW1\0\0"
OLD_PACKING = b"ARROW:experimental_compression"  # how it was said before Arrow 1.0


def open_stream(path: Any, names: list[str], most_bytes: int) -> tuple[Any, Any]:
    """Returns (file, reader of record batches of the named columns); refuses batches of more bytes."""
    from pyarrow import ipc, memory_map

    file = memory_map(str(path))
    if file.read(len(HEAD)) != HEAD:
        raise ValueError("it does not begin as an Arrow file")
    messages = ipc.MessageReader.open_stream(file)
    schema = ipc.read_schema(messages.read_next_message())
    for message in messages:
        if message.type != "record batch":
            raise ValueError(f"it has a message of the kind {message.type}, expected numbers alone")
        if (claimed := unpacked_bytes(message.metadata.to_pybytes(), memoryview(message.body))) > most_bytes:
            raise ValueError(f"it claims {claimed} bytes of numbers; its steps take at most {most_bytes}")
    file.seek(len(HEAD))
    fields = [schema.get_field_index(name) for name in names]
    if min(fields) < 0:
        raise ValueError(f"it lacks the column {names[fields.index(-1)]!r}")
    options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    return file, ipc.open_stream(file, options=options)


def unpacked_bytes(table: bytes, body: memoryview) -> int:
    """Returns how many bytes of room a record batch asks for: none where it is read as it lies."""
    if OLD_PACKING in table:
        raise ValueError("it is packed as no Arrow since 1.0 does")
    batch = _followed(table, _field(table, _followed(table, 0), 2))
    if _field(table, batch, 3) is None:
        return 0
    buffers = _followed(table, _field(table, batch, 2))
    places = struct.iter_unpack("<qq", table[buffers + 4 :][: 16 * _number(table, buffers)])
    return sum(_claimed(body[begin : begin + size]) for begin, size in places)


def _claimed(buffer: memoryview) -> int:
    claimed = struct.unpack("<q", buffer[:8])[0] if len(buffer) >= 8 else 0
    return len(buffer) if claimed < 0 else claimed  # -1: this one is not packed


def _field(table: bytes, place: int, number: int) -> int | None:
    """Returns where a field of the table at `place` is; None where it is left out."""
    listed = place - struct.unpack_from("<i", table, place)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", table, listed)[0]:
        return None
    offset = struct.unpack_from("<H", table, listed + 4 + 2 * number)[0]
    return place + offset if offset else None


def _followed(table: bytes, place: int | None) -> int:
    """Returns where the number at `place` leads to."""
    if place is None:
        raise ValueError("it has a message without a batch")
    return place + _number(table, place)


def _number(table: bytes, place: int) -> int:
    return struct.unpack_from("<I", table, place)[0]
