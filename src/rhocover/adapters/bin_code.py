"""The code of binned observations: which cell of a grid one lies in, by number, name and place."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhocover import checks
from rhocover.adapters.axes import Axis, Listed, as_points, locate, locate_many
from rhocover.adapters.grid_keys import cell_name, cell_of, num_keys
from rhocover.adapters.naming import ask, function_name, grid_layout, repr_of
from rhocover.adapters.state_code import OutsideSpaceError
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError, shortened
from rhocover.layout import Layout, Ruler

Features = Callable[[Any], Any] | Sequence[int] | int | None  # as a user may write them
Components = Callable[[Any], Any] | tuple[int, ...] | None  # as they are kept
WHAT = "an observation"


@dataclass(frozen=True)
class BinCode:
    """Cells of the grid that `axes` span, numbered with the last axis running fastest (see `grid_keys`).

    `of` is what of an observation the axes cut: None for all components, component numbers, or a function.
    """

    axes: tuple[Axis, ...]
    of: Components = None
    key: Callable[[Any], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _key_function(self.axes, self.of))

    def __reduce__(self) -> Any:
        return BinCode, (self.axes, self.of)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many bins each axis has."""
        return tuple(axis.num_bins for axis in self.axes)

    @property
    def num_keys(self) -> int | None:
        """How many cells there are; None where they are too many to be numbered without gaps."""
        return num_keys(self.counts)

    @property
    def every_key(self) -> range | None:
        """The numbers of the cells; None where they are too many."""
        return None if self.num_keys is None else range(self.num_keys)

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the cells of many observations, `[T]`; a function `of` is called once for each."""
        if self.num_keys is None:
            raise InvalidArgumentError(
                "`states` has more bins than int64 can number: call `key` for each observation."
            )
        return locate_many(self.features(observations, len(self.axes)), self.axes, WHAT)

    def features(self, observations: Any, length: int | None = None) -> FloatArray:
        """Returns what is cut of many observations, `[T, n]`; refuses another n than `length`."""
        if callable(self.of):
            observations = [ask(self.of, observation) for observation in observations]
        array = checks.any_array(observations, "observations")
        if array.ndim == 0:
            raise InvalidArgumentError("`observations` must be a list or an array of them, got one number.")
        array = array.reshape(len(array), -1 if array.size else math.prod(array.shape[1:]))
        if isinstance(self.of, tuple) and array.size:
            array = _columns(array, self.of)
        return as_points(array, array.shape[1] if length is None else length, WHAT)

    def name(self, key: Hashable) -> str:
        """Returns the ends of the cell in every dimension, in words."""
        cell = self._cell(key)
        return cell_name(lambda k: self.axes[k].words(cell[k]), len(cell), key)  # type: ignore[arg-type]

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns a place for each cell, the first dimension to the right and the second upwards."""
        rulers = [Ruler(axis.name, (axis.low, *axis.inner, axis.high)) for axis in self.axes]
        return grid_layout(rulers, [self._cell(key) for key in keys]) if len(rulers) <= 2 else None

    def _cell(self, key: Hashable) -> tuple[int, ...]:
        cell = cell_of(key, self.counts) if isinstance(key, int) else None
        if cell is None:
            most = "the number of a bin" if self.num_keys is None else f"from 0 to {self.num_keys - 1}"
            raise InvalidArgumentError(f"`key` must be {most}, got {shortened(repr_of(key))}.")
        return cell

    def document(self) -> dict[str, Any]:
        """Returns the edges and names; open ends are null, a function is its name."""
        return {
            "kind": "bins",
            "edges": [list(axis.inner) for axis in self.axes],
            "ends": [[_finite(axis.low), _finite(axis.high)] for axis in self.axes],
            "names": [axis.name for axis in self.axes],
            "of": function_name(self.of) if callable(self.of) else self.of and list(self.of),
        }

    def within(self, bounds: Sequence[tuple[float, float, float, float]]) -> BinCode:
        """Returns the same cells, refusing what lies outside these bounds, which also end the open bins."""
        if len(bounds) != len(self.axes):
            raise InvalidArgumentError(
                f"`states` cuts {len(self.axes)} numbers, the observation space has {len(bounds)}. "
                "Fit the bins on observations of this environment."
            )
        axes = [_bounded(axis, *bound) for axis, bound in zip(self.axes, bounds, strict=True)]
        return replace(self, axes=tuple(axes))


def _key_function(axes: tuple[Axis, ...], of: Any) -> Callable[[Any], int]:
    find = locate(axes, WHAT)
    if of is None:
        return find
    if callable(of):
        return lambda observation: find(_listed(ask(of, observation)))
    return lambda observation: find(_picked(observation, of))


def _listed(values: Any) -> Any:
    """Returns what a function of the user's gave: an array, a few numbers, or one."""
    if hasattr(values, "tolist") and np.ndim(values):
        return values
    try:
        return Listed(map(float, values if isinstance(values, tuple | list) else (values,)))
    except (TypeError, ValueError):
        return values  # no numbers: refused with the reason where it is read


def _picked(observation: Any, of: tuple[int, ...]) -> Any:
    """Returns the components of one observation."""
    try:
        values = observation.ravel().tolist()
        return Listed([values[k] for k in of])
    except (AttributeError, IndexError):  # a list, or too short
        return _columns(checks.any_array(observation, "observation").reshape(1, -1), of)[0]


def _columns(array: NDArray[Any], of: tuple[int, ...]) -> NDArray[Any]:
    """Returns the components of many observations, `[T, len(of)]`; refuses observations without them."""
    if array.shape[1] <= max(of):
        raise OutsideSpaceError(f"{WHAT} has {array.shape[1]} numbers, bins cut number {max(of)} of them.")
    return array[:, list(of)]


def _bounded(axis: Axis, low: float, high: float, least: float, most: float) -> Axis:
    low = low if math.isinf(axis.low) else axis.low
    high = high if math.isinf(axis.high) else axis.high
    return replace(axis, low=low, high=high, least=least, most=most)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def plain_components(of: Features) -> Components:
    """Returns `of` as None, a function, or component numbers."""
    if of is None or callable(of):
        return of
    numbers = np.atleast_1d(of) if isinstance(of, np.ndarray) else of if isinstance(of, Sequence) else [of]
    if isinstance(of, str) or len(numbers) == 0:
        raise InvalidArgumentError(f"`of` must be component numbers or a function, got {of!r}.")
    return tuple(checks.integer(number, "of", least=0) for number in numbers)
