"""One whole number for a cell of a grid of any number of dimensions, and the cell of a number.

While a grid has at most 2^62 cells they are numbered without gaps, the last dimension running fastest, as
NumPy ravels an array: that is what files hold as int64. A larger grid cannot be listed by anybody; its cells
get the whole number whose bytes are the bins of each dimension side by side, and how many of them there are
is not said (None). Both are exact, and as fast for a thousand dimensions as for one, by dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

import numpy as np

MAX_KEYS = 2**62  # keys are int64 in files
MOST_WORDS = 64  # dimensions that the name of a cell spells out


def num_keys(counts: Sequence[int]) -> int | None:
    """Returns the number of cells of a grid; None where they are more than can be numbered without gaps."""
    total = 1
    for count in counts:
        total *= count
        if total > MAX_KEYS:
            return None
    return total


def wide_type(counts: Sequence[int]) -> np.dtype:
    """Returns the type of whole numbers that holds a bin of each dimension, first byte first."""
    width = (max(counts) - 1).bit_length()
    return np.dtype(
        next(kind for kind, bits in ((">u1", 8), (">u2", 16), (">u4", 32), (">u8", 64)) if width <= bits)
    )


def wide_key(cell: Sequence[int], kind: np.dtype) -> int:
    """Returns the number of a cell of a grid that is too large to be numbered without gaps."""
    return int.from_bytes(np.array(cell, kind).tobytes(), "big")


def cell_of(key: int, counts: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the bins of a number, one a dimension; None for a number that no cell has."""
    return _numbered_cell(key, counts) if num_keys(counts) is not None else _wide_cell(key, counts)


def _numbered_cell(key: int, counts: Sequence[int]) -> tuple[int, ...] | None:
    cell = []
    for count in reversed(counts):
        key, bin_number = divmod(key, count)
        cell.append(bin_number)
    return tuple(reversed(cell)) if key == 0 else None


def _wide_cell(key: int, counts: Sequence[int]) -> tuple[int, ...] | None:
    kind = wide_type(counts)
    try:
        cell = np.frombuffer(key.to_bytes(len(counts) * kind.itemsize, "big"), kind).tolist()
    except OverflowError:  # negative, or longer than any
        return None
    is_cell = all(bin_number < count for bin_number, count in zip(cell, counts, strict=True))
    return tuple(cell) if is_cell else None


def cell_name(word: Callable[[int], str], length: int, key: int) -> str:
    """Returns what a cell is called: a word for each dimension, or for the first and a fingerprint."""
    if length <= MOST_WORDS:
        return f"({', '.join(map(word, range(length)))})"
    mark = sha256(key.to_bytes(key.bit_length() // 8 + 1, "big")).hexdigest()[:12]
    return f"({', '.join(map(word, range(4)))} and {length - 4} more: {mark})"
