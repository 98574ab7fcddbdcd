"""State codes of observations that are integers already: a single one, or an array of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, ClassVar

import numpy as np

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.documents import to_document
from rhocover.environments.encoding.axes import GridCode, cell_name, wide_key, wide_type
from rhocover.environments.encoding.base import OutsideSpaceError, grid_layout
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.layout import Layout, Ruler

ORDINALS = ("first", "second")
WIDEST = 10_000  # cells per side; with more, a figure could not show any of them
_REMEDY = parse_text("Correct the environment's space, or pass `states` as a function of an observation.")


@dataclass(frozen=True)
class WholeNumber:
    """The integers from `start` to `start + count - 1`; the key is the number itself."""

    is_lossless: ClassVar[bool] = True  # no two observations have one key
    count: int
    start: int = 0
    key: Callable[[Any], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", whole_number(self.start, self.count))

    def __reduce__(self) -> Any:
        return WholeNumber, (self.count, self.start)

    @property
    def num_keys(self) -> int:
        """How many states there are."""
        return self.count

    @property
    def every_key(self) -> range:
        """All keys."""
        return range(self.start, self.start + self.count)

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the keys of many observations as int64 `[T]`."""
        return whole_numbers(observations, self.start, self.count)

    def name(self, key: Hashable) -> str:
        """Returns the number as text."""
        return str(key)

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns None: a number has no position."""
        return None

    def document(self) -> dict[str, Any]:
        """Returns count and start, ready for JSON."""
        return {"kind": "discrete", **to_document(self)}


@dataclass(frozen=True)
class WholeNumbers(GridCode):
    """Arrays of integers; the key is the index in a ravelled array of shape `counts`, last number fastest."""

    called: ClassVar[str] = "the key of a state"
    is_lossless: ClassVar[bool] = True
    counts: tuple[int, ...]
    start: tuple[int, ...]
    key: Callable[[Any], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        find = ravelled_number if self.num_keys is not None else wide_number
        object.__setattr__(self, "key", find(self.counts, self.start))

    def __reduce__(self) -> Any:
        return WholeNumbers, (self.counts, self.start)

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the keys of many observations, `[T]`."""
        if self.num_keys is None:
            raise InvalidArgumentError(
                "the space has more values than int64 can number: call `key` for each observation.",
                argument="observations",
            )
        return ravelled_numbers(observations, self.counts, self.start)

    def name(self, key: Hashable) -> str:
        """Returns the numbers as text, `(3, 1)`."""
        cell = self._cell(key)
        return cell_name(lambda k: str(cell[k] + self.start[k]), len(cell), key)  # type: ignore[arg-type]

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns the positions of keys of one or two numbers, the second upwards; otherwise None."""
        if len(self.counts) > 2 or max(self.counts) > WIDEST:
            return None
        ends = zip(self.start, self.counts, ORDINALS, strict=False)
        rulers = [Ruler(f"{name} number", _between(first, count)) for first, count, name in ends]
        return grid_layout(rulers, [self._cell(key) for key in keys])

    def document(self) -> dict[str, Any]:
        """Returns counts and starts, ready for JSON."""
        return {"kind": "multi_discrete", **to_document(self)}


def _between(first: int, count: int) -> tuple[float, ...]:
    """Returns the ends of cells of width 1 around `count` integers."""
    return tuple(first + k - 0.5 for k in range(count + 1))


def whole_number(start: int, count: int, what: str = "an observation") -> Callable[[Any], int]:
    """Returns the function that returns an integer of the range as a Python int and raises for all else."""
    end = start + count

    def read(value: Any) -> int:
        try:
            number = index(value)  # takes NumPy integers too; raises for a float, even for 3.0
        except TypeError:
            raise _refusal(what, value, f"a whole number from {start} to {end - 1}") from None
        if start <= number < end:
            return number
        raise _refusal(what, value, f"{start} to {end - 1}")

    return read


def whole_numbers(values: Any, start: int, count: int, what: str = "an observation") -> IntArray:
    """Returns many integers of the range as int64 `[T]`; raises for the first that is not one."""
    array = checks.any_array(values, "observations")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        got = f"shape {array.shape} and dtype {array.dtype}"
        raise OutsideSpaceError(f"{what} must be one whole number, so T of them have shape (T,), got {got}.")
    outside = (array < start) | (array > start + count - 1)
    if outside.any():
        raise _refusal(what, array[np.argmax(outside)], f"{start} to {start + count - 1}")
    return array.astype(np.int64)


def ravelled_number(
    counts: tuple[int, ...], start: tuple[int, ...], what: str = "an observation"
) -> Callable[[Any], int]:
    """Returns the function from one array of integers to its index in a ravelled array of shape `counts`."""
    ranges = [(first, first + count, count) for first, count in zip(start, counts, strict=True)]

    def read(value: Any) -> int:
        place = 0
        try:
            numbers = value.tolist()
            for number, (first, end, count) in zip(numbers, ranges):  # noqa: B905 (`strict` takes 0.3 us)
                if number.__class__ is not int or not first <= number < end:
                    break
                place = place * count + number - first
            else:
                if len(numbers) == len(ranges):
                    return place
        except (AttributeError, TypeError):
            pass
        return int(ravelled_numbers([value], counts, start, what)[0])

    return read


def wide_number(
    counts: tuple[int, ...], start: tuple[int, ...], what: str = "an observation"
) -> Callable[[Any], int]:
    """Returns the same function for spaces with more combinations than int64 can number."""
    kind, first = wide_type(counts), np.array(start, np.int64)

    def read(value: Any) -> int:
        (numbers,) = _checked_rows([value], counts, start, what)
        return wide_key((numbers - first).tolist(), kind)

    return read


def ravelled_numbers(
    values: Any, counts: tuple[int, ...], start: tuple[int, ...], what: str = "an observation"
) -> IntArray:
    """Returns the indices `[T]` of many arrays of integers, `[T, ...]`."""
    array = _checked_rows(values, counts, start, what)
    places = np.zeros(len(array), np.int64)
    for column, first, count in zip(array.T, start, counts, strict=True):
        places = places * count + column - first
    return places


def _checked_rows(values: Any, counts: tuple[int, ...], start: tuple[int, ...], what: str) -> IntArray:
    """Returns many arrays of integers as rows `[T, n]`; raises if one lies outside the space."""
    array = checks.any_array(values, "observations")
    size = math.prod(array.shape[1:])
    if array.ndim < 1 or size != len(counts) or array.dtype.kind not in "iub":
        got = f"shape {array.shape[1:]} and dtype {array.dtype}"
        raise OutsideSpaceError(f"{what} must be {len(counts)} whole numbers, got {got}.")
    array = array.reshape(-1, len(counts)).astype(np.int64)
    for column, first, count in zip(array.T, start, counts, strict=True):
        whole_numbers(column, first, count, f"{what}'s part")
    return array


def _refusal(what: str, value: Any, expected: str) -> OutsideSpaceError:
    outside = f"{what} is {value!r}, outside its space: expected {expected}."
    return OutsideSpaceError(outside, remedy=_REMEDY)
