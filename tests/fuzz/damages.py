"""Ways in which files go wrong: bytes, text, values behind a right checksum, and what stands in a file's place.

Every damage is a function of a generator, so that a seed and a number name it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator

# --- bytes ----------------------------------------------------------------------------------------------


def _stretch(payload: bytes, rng: Rng) -> tuple[int, int]:
    """Returns where a stretch of 1 to 64 bytes begins and ends."""
    begin = int(rng.integers(len(payload)))
    return begin, min(len(payload), begin + 2 ** int(rng.integers(7)))


def cut(payload: bytes, rng: Rng) -> bytes:
    return payload[: int(rng.integers(len(payload)))]


def cut_at_the_front(payload: bytes, rng: Rng) -> bytes:
    return payload[int(rng.integers(1, len(payload))) :]


def flipped(payload: bytes, rng: Rng) -> bytes:
    wrong = bytearray(payload)
    for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
        wrong[int(rng.integers(len(wrong)))] ^= 1 << int(rng.integers(8))
    return bytes(wrong)


def overwritten(payload: bytes, rng: Rng) -> bytes:
    begin, end = _stretch(payload, rng)
    fill = (bytes(end - begin), b"\xff" * (end - begin), rng.bytes(end - begin))[int(rng.integers(3))]
    return payload[:begin] + fill + payload[end:]


def inserted(payload: bytes, rng: Rng) -> bytes:
    begin, end = _stretch(payload, rng)
    return payload[:begin] + rng.bytes(end - begin) + payload[begin:]


def deleted(payload: bytes, rng: Rng) -> bytes:
    begin, end = _stretch(payload, rng)
    return payload[:begin] + payload[end:]


def repeated(payload: bytes, rng: Rng) -> bytes:
    begin, end = _stretch(payload, rng)
    return payload[:end] + payload[begin:]


def swapped(payload: bytes, rng: Rng) -> bytes:
    """Returns the payload with two stretches of equal length exchanged, as blocks of a disk might be."""
    size = min(2 ** int(rng.integers(7)), len(payload) // 2)
    a, b = sorted(int(place) for place in rng.integers(len(payload) - size + 1, size=2))
    b = max(b, min(a + size, len(payload) - size))
    return (
        payload[:a]
        + payload[b : b + size]
        + payload[a + size : b]
        + payload[a : a + size]
        + payload[b + size :]
    )


def lengthened(payload: bytes, rng: Rng) -> bytes:
    return payload + (b"\0", b"\n", rng.bytes(100), payload)[int(rng.integers(4))]


BYTES: tuple[Callable[[bytes, Rng], bytes], ...] = (
    cut, cut_at_the_front, flipped, flipped, flipped, overwritten, overwritten, inserted, deleted, repeated,
    swapped, lengthened,
)  # fmt: skip

# --- text -----------------------------------------------------------------------------------------------

WORDS = (
    "", "-1", "0", "1", "7", "1.5", "nan", "inf", "-inf", "1e400", "1e15", "99999999999999999999", "-0",
    "null", "true", "None", "x", "ü", "\0", "\ufeff", '"', "[", "{", "}", ",", ";", "\n", "\r", "1_0", "٣", "0x1",
    "  3 ", "[[[[", "{}", "\\u0000", "'", "1,2",
)  # fmt: skip


def other_word(payload: bytes, rng: Rng) -> bytes:
    """Returns a text in which one number or name is another word."""
    words = [*re.finditer(rb"[\w.+-]+", payload)]
    if not words:
        return inserted(payload, rng)
    found = words[int(rng.integers(len(words)))]
    new = WORDS[int(rng.integers(len(WORDS)))].encode()
    return payload[: found.start()] + new + payload[found.end() :]


def other_line(payload: bytes, rng: Rng) -> bytes:
    """Returns a text with a line left out, doubled, or moved to another place."""
    lines = payload.splitlines(keepends=True)
    k, way = int(rng.integers(len(lines))), int(rng.integers(3))
    line = lines[k]
    rest = lines[:k] + lines[k + 1 :]
    place = int(rng.integers(len(rest) + 1))
    chosen = (rest, [*lines[:k], line, *lines[k:]], [*rest[:place], line, *rest[place:]])
    return b"".join(chosen[way])


TEXT = (*BYTES, *(other_word,) * 12, *(other_line,) * 2)

# --- values behind a right checksum ---------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 0.5, 1e308, -1e308, float("nan"), float("inf"), 10**12, 10**30, -(10**30), "",
    "text", "inf", "-1", [], {}, [None], [[]], ["a", "b", "c"], {"a": 1}, {"name": "nobody"}, "[" * 2000, [0] * 2000,
)  # fmt: skip
TYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "uint64", "bool")
Tensors = dict[str, np.ndarray]


def other_entry(tensors: Tensors, document: dict[str, Any], rng: Rng) -> tuple[Tensors, dict[str, Any]]:
    """Returns a document in which one entry, at any depth, is missing or another value."""
    return tensors, _other_value(document, rng)


def _other_value(value: Any, rng: Rng) -> Any:
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = places[int(rng.integers(len(places)))]
    result = value.copy()
    inner = value[place]
    if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
        result[place] = _other_value(inner, rng)
    elif rng.random() < 0.15:
        del result[place]
    else:
        result[place] = VALUES[int(rng.integers(len(VALUES)))]
    return result


def other_tensor(tensors: Tensors, document: dict[str, Any], rng: Rng) -> tuple[Tensors, dict[str, Any]]:
    """Returns tensors of which one is missing, renamed, or of another type, shape or content."""
    name = sorted(tensors)[int(rng.integers(len(tensors)))]
    rest = {key: array for key, array in tensors.items() if key != name}
    way = int(rng.integers(10))
    if way == 0:
        return rest, document
    if way == 1:
        return rest | {f"{name}x": tensors[name]}, document
    if way == 2:
        other = sorted(tensors)[int(rng.integers(len(tensors)))]
        return tensors | {name: tensors[other]}, document
    return rest | {name: _other_array(tensors[name], way, rng)}, document


def _other_array(array: np.ndarray, way: int, rng: Rng) -> np.ndarray:
    if way in (3, 4):
        with np.errstate(all="ignore"):
            return array.astype(TYPES[int(rng.integers(len(TYPES)))])
    if way == 5:
        return _other_shape(array, rng)
    if way == 6 and array.size:
        return rng.permutation(array.ravel()).reshape(array.shape)
    wrong = array.copy().reshape(-1)
    if wrong.size:
        with np.errstate(all="ignore"):
            wrong[int(rng.integers(wrong.size))] = _wrong_number(wrong.dtype, rng)
    return wrong.reshape(array.shape)


def _other_shape(array: np.ndarray, rng: Rng) -> np.ndarray:
    flat = array.reshape(-1)
    shapes = (
        array[None], flat, flat[:0], flat[:-1], flat[::2], np.concatenate([flat, flat]), array.T,
        np.zeros((), array.dtype), np.zeros((*array.shape, 2), array.dtype), np.zeros((0, 3), array.dtype),
    )  # fmt: skip
    return np.ascontiguousarray(shapes[int(rng.integers(len(shapes)))])


def _wrong_number(dtype: np.dtype[Any], rng: Rng) -> Any:
    if dtype.kind == "b":
        return bool(rng.integers(2))
    if dtype.kind == "f":
        return rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 5e-324, 0.5])
    return np.array(rng.choice([-1, 0, 1, 5, 127, 10**6, 2**31, 2**62, -(2**63)])).astype(dtype)


# --- what stands in a file's place ----------------------------------------------------------------------


def nothing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    """Puts a pipe there that nobody writes to: opening it would wait for ever."""
    path.unlink()
    os.mkfifo(path)


def listening(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets end at 108 bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def unreadable(path: Path) -> None:
    path.chmod(0)  # root reads it all the same, and finds it whole


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


PLACES: Mapping[str, Callable[[Path], None]] = {
    made.__name__: made
    for made in (nothing, empty, folder, loop, dangling, pipe, listening, unreadable, endless)
}
