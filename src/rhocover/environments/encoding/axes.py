"""Grids of bins: one axis per dimension, and one integer key per cell.

An axis with inner edges e_1 < ... < e_{n-1} has n bins: bin k holds e_k <= x < e_{k+1}, the first holds
everything below e_1, the last everything from e_{n-1} on. A value below `least` or above `most` is refused,
and so is NaN, for which every comparison is false. `locate` maps one point to its cell (by bisection on
lists, because a NumPy call costs microseconds), `locate_many` maps an array; both compare the same float64
numbers, so they agree on every edge.

A grid of at most 2^62 cells is numbered without gaps, the last dimension running fastest, as NumPy ravels an
array; files store these keys as int64. The cells of a larger grid cannot be listed: the key of a cell is the
integer whose bytes are the bin numbers of its dimensions side by side, and the number of cells is None. Both
keys are exact, and the cost per dimension is the same for a thousand dimensions as for one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.environments.encoding.base import OutsideSpaceError, repr_of
from rhocover.errors import InvalidArgumentError, shortened
from rhocover.printing import count_of

# The key of a cell, and the cell of a key.

MAX_KEYS = 2**62  # keys are int64 in files
MOST_WORDS = 64  # dimensions that the name of a cell lists in full


def num_keys(counts: Sequence[int]) -> int | None:
    """Returns the number of cells of a grid; None if there are too many to number without gaps."""
    total = 1
    for count in counts:
        total *= count
        if total > MAX_KEYS:
            return None
    return total


class GridCode:
    """Base class of codes whose keys number the cells of a grid with `counts` cells per dimension."""

    counts: Any  # tuple[int, ...]; a field or a property
    called: ClassVar[str]  # what messages call a key if there are too many keys to give their range

    @property
    def num_keys(self) -> int | None:
        """How many cells there are; None if there are too many to number without gaps."""
        return num_keys(self.counts)

    @property
    def every_key(self) -> range | None:
        """The keys of all cells; None if there are too many to number without gaps."""
        return None if self.num_keys is None else range(self.num_keys)

    def _cell(self, key: Hashable) -> tuple[int, ...]:
        cell = cell_of(key, self.counts) if isinstance(key, int) else None
        if cell is None:
            most = self.called if self.num_keys is None else f"from 0 to {self.num_keys - 1}"
            raise InvalidArgumentError.of("key", f"must be {most}", shortened(repr_of(key)))
        return cell


def wide_type(counts: Sequence[int]) -> np.dtype:
    """Returns the smallest big-endian integer type that can hold every bin number."""
    width = (max(counts) - 1).bit_length()
    return np.dtype(
        next(kind for kind, bits in ((">u1", 8), (">u2", 16), (">u4", 32), (">u8", 64)) if width <= bits)
    )


def wide_key(cell: Sequence[int], kind: np.dtype) -> int:
    """Returns the key of a cell of a grid that is too large to number without gaps."""
    return int.from_bytes(np.array(cell, kind).tobytes(), "big")


def cell_of(key: int, counts: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the bin numbers of a key's cell, one per dimension; None if no cell has this key."""
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
    except OverflowError:  # negative, or longer than every key
        return None
    is_cell = all(bin_number < count for bin_number, count in zip(cell, counts, strict=True))
    return tuple(cell) if is_cell else None


def cell_name(word: Callable[[int], str], length: int, key: int) -> str:
    """Returns the name of a cell: a text per dimension; beyond 64, those of the first four and a hash."""
    if length <= MOST_WORDS:
        return f"({', '.join(map(word, range(length)))})"
    mark = sha256(key.to_bytes(key.bit_length() // 8 + 1, "big")).hexdigest()[:12]
    return f"({', '.join(map(word, range(4)))} and {length - 4} more: {mark})"


# The bins of one dimension, and the cell in which a point lies.


@dataclass(frozen=True)
class Axis:
    """The bins of one dimension: inner edges, ascending; accepted values; ends of the outer bins; name.

    `least` and `most` bound the accepted values. `low` and `high` are the ends of the outer bins that names
    and figures show, -inf and inf if they are open.
    """

    inner: tuple[float, ...]
    low: float
    high: float
    least: float
    most: float
    name: str

    @property
    def num_bins(self) -> int:
        """How many bins there are."""
        return len(self.inner) + 1

    @cached_property
    def _ends(self) -> tuple[float, ...]:
        return (self.low, *self.inner, self.high)

    @cached_property
    def _num_decimals(self) -> int:  # cached, because it depends on the ends of all bins
        return _decimals(self._ends)

    def words(self, number: int) -> str:
        """Returns the text of a bin: `position -0.30..-0.15`, with `below` or `from` if an end is open."""
        low, high = self._ends[number], self._ends[number + 1]
        decimals = self._num_decimals
        if math.isinf(low) and math.isinf(high):
            return f"{self.name} any"
        if math.isinf(low):
            return f"{self.name} below {_text(high, decimals)}"
        if math.isinf(high):
            return f"{self.name} from {_text(low, decimals)}"
        return f"{self.name} {_text(low, decimals)}..{_text(high, decimals)}"


def _decimals(ends: Sequence[float]) -> int:
    """Returns the number of decimals that shows two digits of the narrowest bin's width."""
    widths = [b - a for a, b in pairwise(ends) if math.isfinite(b - a) and b > a]
    return min(max(1 - math.floor(math.log10(min(widths))), 0), 12) if widths else 6


def _text(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0 turns -0.0 into 0.0


class Listed(list[float]):
    """Python numbers with the `tolist` of a small array, whose creation costs more than reading it."""

    def tolist(self) -> Listed:
        """Returns the numbers themselves."""
        return self


def locate(axes: Sequence[Axis], what: str) -> Callable[[Any], int]:
    """Returns the function from one point, an array with one number per axis, to the key of its cell.

    One and two axes have code of their own, because this runs at every step of an environment. Numbers that
    are not in an array are passed as `Listed`.
    """
    if len(axes) == 1:
        return _locate_on_one(axes[0], what)
    if len(axes) == 2:
        return _locate_on_two(axes[0], axes[1], what)
    is_wide = num_keys([axis.num_bins for axis in axes]) is None
    return (_locate_on_wide if is_wide else _locate_on_many)(axes, what)


def _locate_on_one(axis: Axis, what: str) -> Callable[[Any], int]:
    inner, least, most = list(axis.inner), axis.least, axis.most

    def find(point: Any) -> int:
        try:
            (x,) = point.tolist()
            if least <= x <= most:
                return bisect_right(inner, x)
        except (AttributeError, TypeError, ValueError):
            pass
        return _find_slowly(point, (axis,), what)

    return find


def _locate_on_two(first: Axis, second: Axis, what: str) -> Callable[[Any], int]:
    inner_x, least_x, most_x = list(first.inner), first.least, first.most
    inner_y, least_y, most_y = list(second.inner), second.least, second.most
    width = second.num_bins

    def find(point: Any) -> int:
        try:
            x, y = point.tolist()
            if least_x <= x <= most_x and least_y <= y <= most_y:
                return bisect_right(inner_x, x) * width + bisect_right(inner_y, y)
        except (AttributeError, TypeError, ValueError):
            pass
        return _find_slowly(point, (first, second), what)

    return find


def _locate_on_many(axes: Sequence[Axis], what: str) -> Callable[[Any], int]:
    cuts = [(list(axis.inner), axis.least, axis.most, axis.num_bins) for axis in axes]

    def find(point: Any) -> int:
        number = 0
        try:
            values = point.tolist()
            for x, (inner, least, most, count) in zip(values, cuts):  # noqa: B905 (`strict` takes 0.3 us)
                if not least <= x <= most:
                    break
                number = number * count + bisect_right(inner, x)
            else:
                if len(values) == len(cuts):
                    return number
        except (AttributeError, TypeError):
            pass
        return _find_slowly(point, axes, what)

    return find


def _locate_on_wide(axes: Sequence[Axis], what: str) -> Callable[[Any], int]:
    """Returns the same function for grids with more cells than int64 can number."""
    cuts = [(list(axis.inner), axis.least, axis.most) for axis in axes]
    kind = wide_type([axis.num_bins for axis in axes])

    def find(point: Any) -> int:
        (row,) = as_points([point], len(axes), what)
        cell = []
        for x, axis, (inner, least, most) in zip(row.tolist(), axes, cuts, strict=True):
            if not least <= x <= most:
                raise _refusal(x, axis, what)
            cell.append(bisect_right(inner, x))
        return wide_key(cell, kind)

    return find


def _find_slowly(point: Any, axes: Sequence[Axis], what: str) -> int:
    """Returns the cell of a point of an unusual type (a list, a matrix), or raises with the reason."""
    return int(locate_many(as_points([point], len(axes), what), axes, what)[0])


def as_points(values: Any, num_axes: int, what: str) -> FloatArray:
    """Returns many points as float64 `[T, num_axes]`; raises if they do not have `num_axes` numbers each."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise OutsideSpaceError(
            f"{what} must be {count_of(num_axes, 'number')}, got rows of different lengths."
        ) from error
    if array.dtype.kind not in "fiub":
        raise OutsideSpaceError(f"{what} must be {count_of(num_axes, 'number')}, got dtype {array.dtype}.")
    if array.ndim == 0 or (len(array) and array[0].size != num_axes):
        got = f"{array[0].size} in shape {array.shape[1:]}" if array.ndim else "a single one"
        raise OutsideSpaceError(f"{what} must be {count_of(num_axes, 'number')}, got {got}.")
    return array.reshape(len(array), num_axes).astype(np.float64)


def locate_many(points: FloatArray, axes: Sequence[Axis], what: str) -> IntArray:
    """Returns the keys `[T]` of the cells of points `[T, axes]`."""
    numbers = np.zeros(len(points), np.int64)
    for column, axis in enumerate(axes):
        x = np.ascontiguousarray(points[:, column])
        inside = (x >= axis.least) & (x <= axis.most)
        if not inside.all():
            raise _refusal(float(x[np.argmin(inside)]), axis, what)
        numbers = numbers * axis.num_bins + np.searchsorted(np.array(axis.inner), x, side="right")
    return numbers


def _refusal(value: float, axis: Axis, what: str) -> OutsideSpaceError:
    if math.isnan(value):
        return OutsideSpaceError(
            f"{what} has {axis.name} = nan (not a number): a computation diverged or divided by zero."
        )
    return OutsideSpaceError(
        f"{what} has {axis.name} = {value:g}, expected {axis.least:g} to {axis.most:g}, the bounds of its "
        "space. Correct the bounds of the space or the values, or clip the values with a wrapper."
    )
