"""Pictures that Minari stored as JPEG, one after another; each must have the size that its space has.

The size is asked before anything is unpacked: a picture of a hundred bytes may claim a billion pixels.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from rhocover.errors import InvalidDataError

MOST_BYTES = 2**26  # of one packed picture
BROKEN = (SyntaxError, OSError, ValueError, TypeError, IndexError, KeyError, EOFError, struct.error)


def unpacked(frames: Iterable[Any], shape: tuple[int, ...], what: str) -> np.ndarray:
    """Returns the pictures, uint8 `[T, *shape]`; `what` begins the sentence of a refusal."""
    try:
        return np.stack([_picture(bytes(frame), shape, what) for frame in frames])
    except InvalidDataError:
        raise
    except BROKEN as error:
        raise InvalidDataError(f"{what} holds no JPEG images ({error}).") from error


def _picture(frame: bytes, shape: tuple[int, ...], what: str) -> np.ndarray:
    from PIL.JpegImagePlugin import (
        JpegImageFile,
    )  # Image.open would warn of, and refuse, large ones its own way

    with JpegImageFile(io.BytesIO(frame)) as image:
        if (image.height, image.width) != shape[:2]:
            raise InvalidDataError(
                f"{what} holds a picture of {image.height} x {image.width} pixels; its space has "
                f"{shape[0]} x {shape[1]}."
            )
        return np.asarray(image)
