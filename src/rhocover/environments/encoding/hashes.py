"""Codes by hashing: signs of random projections, and images made small.

`SimHash` keeps the signs of a few random projections of an observation (Charikar 2002; for counts in
exploration: Tang et al. 2017). Observations at an angle theta agree in each sign with probability
1 - theta/pi, so `bits` decides how fine the code is; about the mean of a random rollout, if it is fitted.

`ImageCells` makes an image grey, averages it over a grid of few cells and rounds the averages to few levels
(Ecoffet et al. 2021). What moves by less than a cell, or is fainter than a level, does not change the code.

Both follow from their settings and a seed, so a file stores these and the code is the same again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled
from rhocover.environments.encoding.base import OutsideSpaceError
from rhocover.environments.encoding.bins import plain_components
from rhocover.environments.encoding.encoders import Encoder
from rhocover.environments.encoding.features import FeatureReader, random_rows, stored_of
from rhocover.errors import InvalidArgumentError, InvalidDataError, inside
from rhocover.layout import Layout

MOST_BITS = 62  # of a key that is an int64
GREY = np.array([0.299, 0.587, 0.114])  # how bright red, green and blue look (ITU-R BT.601)


@compiled
def _signs(rows, points, centre, keys):
    """Writes the signs of the projections of each point as bits; sums in one order, so the same anywhere."""
    for t in range(points.shape[0]):
        key = 0
        for k in range(rows.shape[0]):
            total = 0.0
            for j in range(rows.shape[1]):
                total += rows[k, j] * (points[t, j] - centre[j])
            key = 2 * key + (total > 0)
        keys[t] = key


@dataclass(frozen=True)
class SimHash:
    """Codes of observations: the signs of `bits` random projections of what `of` picks (see `Net`).

    `fit` centres them on the mean of some observations; a run does that with a random rollout.
    """

    bits: int = 16
    of: Any = None
    seed: int = 0
    rollout_steps: int = 1_000

    def __post_init__(self) -> None:
        bits = checks.integer(self.bits, "bits", least=1)
        if bits > MOST_BITS:
            raise InvalidArgumentError.of("bits", f"must be at most {MOST_BITS}", f"{bits}")
        object.__setattr__(self, "seed", checks.integer(self.seed, "seed", least=0))
        object.__setattr__(self, "of", self.of if isinstance(self.of, str) else plain_components(self.of))

    def fit(self, observations: Any) -> SimHashCode:
        """Returns the code, centred on the mean of `observations`."""
        reader = FeatureReader(self.of)
        with inside("observations", "of"):
            points = reader.many(observations)
        if not points.size:
            raise InvalidArgumentError.of("observations", "must hold at least one with numbers", "none")
        if not np.isfinite(points).all():
            about = "of" if callable(self.of) else "observations"
            raise InvalidArgumentError.of(about, "must give finite numbers", "nan or infinite ones")
        return SimHashCode(self.bits, self.seed, reader, tuple(points.mean(axis=0).tolist()))


@dataclass(frozen=True)
class SimHashCode:
    """A hash for observations of one length."""

    bits: int
    seed: int
    reader: FeatureReader
    centre: tuple[float, ...]
    num_keys: int | None = field(default=None, init=False)  # most of them are never met
    every_key: range | None = field(default=None, init=False)

    def key(self, observation: Any, /) -> int:
        """Returns the signs as a whole number."""
        return int(self._of_points(self.reader.one(observation).reshape(1, -1))[0])

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the keys of many observations, `[T]`."""
        return self._of_points(self.reader.many(observations))

    def _of_points(self, points: FloatArray) -> IntArray:
        if points.shape[1] != len(self.centre) or not np.isfinite(points).all():
            raise OutsideSpaceError(
                f"observations must be {len(self.centre)} finite numbers, got {points.shape[1]} of them."
            )
        keys = np.empty(len(points), np.int64)
        _signs(random_rows(self.bits, len(self.centre), self.seed), points, np.array(self.centre), keys)
        return keys

    def name(self, key: Hashable) -> str:
        """Returns the signs as bits."""
        return f"hash {int(key):0{self.bits}b}" if isinstance(key, int | np.integer) else f"hash {key}"

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns None: hashes have no place."""
        return None

    def document(self) -> dict[str, Any]:
        """Returns the settings."""
        of, centre = self.reader.document(), list(self.centre)
        return {"kind": "simhash", "bits": self.bits, "seed": self.seed, "of": of, "centre": centre}


@dataclass(frozen=True)
class StoredSimHash:
    """What a file says of a hash."""

    bits: int
    seed: int
    of: str | tuple[int, ...] | Encoder | None
    centre: tuple[float, ...]

    def code(self) -> SimHashCode:
        """Returns the code."""
        if not 0 < self.bits <= MOST_BITS or self.seed < 0 or not self.centre:
            raise InvalidDataError("the hash has no bits, no seed or no centre.")
        return SimHashCode(self.bits, self.seed, FeatureReader(stored_of(self.of)), self.centre)


@dataclass(frozen=True)
class ImageCells:
    """Codes of images: grey averages over a grid of `shape` (rows, columns), rounded to `levels`.

    An image is `[height, width]` or `[height, width, colours]`, of numbers from 0 to `brightest`. `of` may be
    the name of a field of a dictionary, or a function that returns the image.
    """

    shape: tuple[int, int] = (8, 8)
    levels: int = 8
    of: Any = None
    brightest: float = 255.0
    num_keys: int | None = field(default=None, init=False, repr=False)
    every_key: range | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        shape = tuple(self.shape) if isinstance(self.shape, Sequence) else ()
        if len(shape) != 2:
            raise InvalidArgumentError.of("shape", "must be two numbers, rows and columns", repr(self.shape))
        object.__setattr__(self, "shape", tuple(checks.integer(n, "shape", least=1) for n in shape))
        levels = checks.integer(self.levels, "levels", least=2)
        if levels > 256:
            raise InvalidArgumentError.of("levels", "must be at most 256", f"{levels}")
        object.__setattr__(self, "brightest", checks.positive(self.brightest, "brightest"))
        if self.of is not None and not isinstance(self.of, str) and not callable(self.of):
            raise InvalidArgumentError.of("of", "must be a field's name or a function", repr(self.of))

    def key(self, observation: Any, /) -> bytes:
        """Returns the level of each cell, one byte each."""
        image = FeatureReader(self.of).pick(observation)
        array = np.asarray(image, float)
        grey = array @ GREY if array.ndim == 3 and array.shape[2] == 3 else array
        grey = grey.mean(axis=2) if grey.ndim == 3 else grey
        if grey.ndim != 2 or grey.shape[0] < self.shape[0] or grey.shape[1] < self.shape[1]:
            raise OutsideSpaceError(
                f"an image has shape {array.shape}, expected at least {self.shape} pixels."
            )
        if not np.isfinite(grey).all():
            raise OutsideSpaceError("an image holds a number that is not finite.")
        cells = _averaged(grey, self.shape) / self.brightest
        return np.clip(np.floor(cells * self.levels), 0, self.levels - 1).astype(np.uint8).tobytes()

    def keys(self, observations: Any, /) -> IntArray:
        """Refuses: the keys of images are not numbers."""
        raise InvalidArgumentError.of("states", "gives keys one by one: call `key` for each observation")

    def name(self, key: Hashable) -> str:
        """Returns the levels of the cells, row by row."""
        if not isinstance(key, bytes) or len(key) != self.shape[0] * self.shape[1]:
            return f"image {key!r}"
        rows = [key[k : k + self.shape[1]].hex() for k in range(0, len(key), self.shape[1])]
        return f"image {'/'.join(rows)}"

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns None: images have no place."""
        return None

    def document(self) -> dict[str, Any]:
        """Returns the settings."""
        of = FeatureReader(self.of).document()
        shape = list(self.shape)
        return {"kind": "image", "shape": shape, "levels": self.levels, "of": of, "brightest": self.brightest}


def _averaged(grey: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Returns the means over a grid of cells, each pixel in one cell."""
    for axis, cells in enumerate(shape):
        ends = np.arange(cells) * grey.shape[axis] // cells
        width = np.diff([*ends, grey.shape[axis]])
        grey = np.add.reduceat(grey, ends, axis=axis) / np.expand_dims(width, 1 - axis)
    return grey


@dataclass(frozen=True)
class StoredImageCells:
    """What a file says of image cells."""

    shape: tuple[int, int]
    levels: int
    of: str | None
    brightest: float

    def code(self) -> ImageCells:
        """Returns the code."""
        return ImageCells(self.shape, self.levels, stored_of(self.of), self.brightest)
