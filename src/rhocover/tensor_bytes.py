"""Tensors as the bytes of a safetensors file, put together here in one piece of memory.

The bytes are those that safetensors' own writer gives. It holds three copies of them, and ends the process
where there is no memory for one; here there is one copy, and a MemoryError.

    8 bytes: length of the header | header, JSON, padded with blanks | tensors, widest numbers first
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

ORDER = ("u8", "i8", "f8", "f4", "u4", "i4", "f2", "u2", "i2", "i1", "u1", "b1")  # so that all are aligned
LETTERS = {"u": "U", "i": "I", "f": "F"}


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Returns the file that holds these tensors and texts."""
    names = sorted(tensors, key=lambda name: (ORDER.index(tensors[name].dtype.str[1:]), name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        begin, end = end, end + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": _kind(tensors[name].dtype), "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = [_little(tensors[name]).reshape(-1).view(np.uint8).data for name in names]
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def _kind(dtype: np.dtype) -> str:
    return "BOOL" if dtype.kind == "b" else f"{LETTERS[dtype.kind]}{8 * dtype.itemsize}"


def _little(array: np.ndarray) -> np.ndarray:
    """Returns the array in one piece, with the lowest byte of each number first."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
