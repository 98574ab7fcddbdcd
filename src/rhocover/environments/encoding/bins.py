"""Observations of real numbers as states: the cells of a grid.

`Bins` cuts every dimension into equal parts, `QuantileBins` at quantiles of what a random rollout observed,
so that each part holds about as many of them. Bin k of a dimension holds e_k <= x < e_{k+1}; the last one
also holds its upper end. `of` says what of an observation is cut: component numbers, or a function from an
observation to a few numbers, such as the angle that Pendulum gives as a cosine and a sine.

Two observations in one cell are one state from here on. What the environment does there depends on where in
the cell it is, so a model over cells is an approximation, whose error no certificate of this library counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.documents import to_document
from rhocover.environments.encoding.axes import (
    Axis,
    GridCode,
    Listed,
    as_points,
    cell_name,
    locate,
    locate_many,
)
from rhocover.environments.encoding.base import OutsideSpaceError, ask, function_name, grid_layout
from rhocover.errors import Argument, Call, InvalidArgumentError, InvalidDataError, inside, parse_text
from rhocover.layout import Layout, Ruler

# The code of binned observations: which cell of a grid one lies in, by number, name and place.

Features = Callable[[Any], Any] | Sequence[int] | int | None  # as a user may write them
Components = Callable[[Any], Any] | tuple[int, ...] | None  # as they are kept
WHAT = "an observation"


@dataclass(frozen=True)
class StoredBins:
    """What a file says of bins, axis by axis: inner edges, ends (null: open), names."""

    edges: tuple[tuple[float, ...], ...]
    ends: tuple[tuple[float | None, float | None], ...]
    names: tuple[str, ...]
    of: str | tuple[int, ...] | None

    def axes(self) -> tuple[Axis, ...]:
        """Returns the axes, without the bounds of a space."""
        return tuple(_axis(*part) for part in zip(self.edges, self.ends, self.names, strict=True))


def _axis(edges: tuple[float, ...], ends: tuple[float | None, float | None], name: str) -> Axis:
    low, high = -math.inf if ends[0] is None else ends[0], math.inf if ends[1] is None else ends[1]
    low, *inner, high = map(float, (low, *edges, high))
    if not all(a < b for a, b in pairwise((low, *inner, high))):
        raise InvalidDataError(f"the edges of the bins of {name} do not ascend: {(low, *inner, high)}.")
    return Axis(tuple(inner), low, high, -math.inf, math.inf, name)


@dataclass(frozen=True)
class BinCode(GridCode):
    """Cells of the grid that `axes` span, numbered with the last axis running fastest (see `axes`).

    `of` is what of an observation the axes cut: None for all components, component numbers, or a function.
    """

    called: ClassVar[str] = "the number of a bin"
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

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the cells of many observations, `[T]`; a function `of` is called once for each."""
        if self.num_keys is None:
            raise InvalidArgumentError.of(
                "states", "has more bins than int64 can number: call `key` for each observation"
            )
        return locate_many(self.features(observations, len(self.axes)), self.axes, WHAT)

    def features(self, observations: Any, length: int | None = None) -> FloatArray:
        """Returns what is cut of many observations, `[T, n]`; refuses another n than `length`."""
        if callable(self.of):
            observations = [ask(self.of, observation) for observation in observations]
        array = checks.any_array(observations, "observations")
        if array.ndim == 0:
            raise InvalidArgumentError.of("observations", "must be a list or an array of them", "one number")
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

    def document(self) -> dict[str, Any]:
        """Returns the edges and names; open ends are null, a function is its name."""
        stored = StoredBins(
            edges=tuple(axis.inner for axis in self.axes),
            ends=tuple((_finite(axis.low), _finite(axis.high)) for axis in self.axes),
            names=tuple(axis.name for axis in self.axes),
            of=function_name(self.of) if callable(self.of) else self.of,
        )
        return {"kind": "bins", **to_document(stored)}

    def within(self, bounds: Sequence[tuple[float, float, float, float]]) -> BinCode:
        """Returns the same cells, refusing what lies outside these bounds, which also end the open bins."""
        if len(bounds) != len(self.axes):
            raise InvalidArgumentError.of(
                "states",
                f"cuts {len(self.axes)} numbers, the observation space has {len(bounds)}",
                remedy="Fit the bins on observations of this environment.",
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
        raise InvalidArgumentError.of("of", "must be component numbers or a function", repr(of))
    return tuple(checks.integer(number, "of", least=0) for number in numbers)


# Observations of real numbers as states: the cells of a grid.

MAX_BINS = 2**20  # a dimension; every edge is kept
MAX_EDGES = 2**23  # of all dimensions: some hundred megabytes
UNBOUNDED = float(np.finfo(np.float32).max)  # what spaces say where they mean no bound


@dataclass(frozen=True)
class Bins:
    """Bins of equal width: `counts` of them, one number for all dimensions or one each.

    `low` and `high` are one number for all dimensions or one each; None takes the bound of the space, which
    must then be finite. Where they are narrower than the space, or where `of` is a function, what lies beyond
    them counts in the outer bins. NaN is always refused, and so is an observation outside the space.

    `of` is None (all components), one or several component numbers, or a function from an observation to as
    many numbers as there are bins' dimensions; with a function, `low` and `high` must be given.

    >>> import gymnasium as gym
    >>> from rhocover.environments.encoding import Bins, read_state_code
    >>> bins = Bins((12, 11), names=("position", "velocity"))
    >>> code = read_state_code(bins, gym.make("MountainCar-v0").observation_space)
    >>> code.num_keys, code.name(65)
    (132, '(position -0.45..-0.30, velocity 0.057..0.070)')
    """

    counts: int | Sequence[int]
    low: Any = None
    high: Any = None
    of: Features = None
    names: Sequence[str] | None = None

    def code(self, space: Any) -> BinCode:
        """Returns the code of these bins for the observations of a Box space."""
        of = plain_components(self.of)
        bounds = space_bounds(space, of, _known_length(self.counts, self.low, self.high, self.names))
        lows = _ends(self.low, "low", [b[0] for b in bounds])
        highs = _ends(self.high, "high", [b[1] for b in bounds])
        counts = _counts(self.counts, len(bounds))
        names = axis_names(self.names, of, len(bounds))
        axes = [_uniform_axis(*parts) for parts in zip(counts, lows, highs, bounds, names, strict=True)]
        return BinCode(tuple(axes), of)


@dataclass(frozen=True)
class QuantileBins:
    """Bins that held equally many observations of a random rollout; `fit` finds their edges.

    `counts`, `of` and `names` are those of `Bins`. The outer bins are open: they hold whatever lies
    beyond its observations. Where many observations are one value, quantiles coincide and there
    are fewer bins than asked for. `rollout_steps` is how long a random rollout is where one is made for you.
    """

    counts: int | Sequence[int]
    of: Features = None
    names: Sequence[str] | None = None
    rollout_steps: int = 10_000

    def fit(self, observations: Any) -> BinCode:
        """Returns the code whose edges are the quantiles of `observations`, `[T, ...]`."""
        of = plain_components(self.of)
        with inside("observations", "of"):
            points = BinCode((), of).features(observations, _known_length(self.counts, self.names))
        if len(points) == 0:
            raise InvalidArgumentError.of("observations", "must hold at least one observation", "none")
        checks.float_array(points, "observations")
        if points.shape[1] == 0:
            raise InvalidArgumentError.of("observations", "must hold numbers", "none of each")
        counts = _counts(self.counts, points.shape[1])
        names = axis_names(self.names, of, points.shape[1])
        axes = [_quantile_axis(*parts) for parts in zip(points.T, counts, names, strict=True)]
        return BinCode(tuple(axes), of)


def _uniform_axis(
    count: int, low: float, high: float, bound: tuple[float, float, float, float], name: str
) -> Axis:
    if not low < high:
        raise InvalidArgumentError.of(
            "low", parse_text("must be below `high`"), f"{low:g} and {high:g} for {name}"
        )
    inner = np.linspace(low, high, count + 1)[1:-1].tolist()
    least, most = bound[2], bound[3]
    return Axis(tuple(inner), min(low, bound[0]), max(high, bound[1]), least, most, name)


def _quantile_axis(values: np.ndarray, count: int, name: str) -> Axis:
    """Returns the axis cut at observed values: each bin holds its lower edge, so none is empty."""
    inner = np.unique(np.quantile(values, np.arange(1, count) / count, method="higher"))
    inner = inner[inner > values.min()]  # below the least value there is nothing
    return Axis(tuple(inner.tolist()), -math.inf, math.inf, -math.inf, math.inf, name)


def space_bounds(space: Any, of: Components, length: int | None) -> list[tuple[float, float, float, float]]:
    """Returns, per dimension, the bounds of the space and the least and most value that is let through.

    A float64 observation of a float32 space may lie beyond a bound by rounding, so one unit in the last place
    is let through. Features that a function makes have no bounds.
    """
    if callable(of):
        return [(-math.inf, math.inf, -math.inf, math.inf)] * (1 if length is None else length)
    low, high = np.ravel(space.low), np.ravel(space.high)
    if of is not None:
        wrong = [k for k in of if not 0 <= k < low.size]
        if wrong:
            raise InvalidArgumentError.of(
                "of", f"must hold component numbers from 0 to {low.size - 1}", f"{wrong[0]}"
            )
        low, high = low[list(of)], high[list(of)]
    return [_bound(a, b) for a, b in zip(low, high, strict=True)]


def _bound(low: Any, high: Any) -> tuple[float, float, float, float]:
    ends = [-math.inf if low <= -UNBOUNDED else float(low), math.inf if high >= UNBOUNDED else float(high)]
    if not np.issubdtype(low.dtype, np.floating):
        return ends[0], ends[1], ends[0], ends[1]
    least = -math.inf if math.isinf(ends[0]) else float(np.nextafter(low, low.dtype.type(-math.inf)))
    most = math.inf if math.isinf(ends[1]) else float(np.nextafter(high, high.dtype.type(math.inf)))
    return ends[0], ends[1], least, most


def _ends(given: Any, which: str, bounds: list[float]) -> list[float]:
    """Returns one finite end per dimension, from what was given or else from the space."""
    values = list(given) if checks.any_array(given, which).ndim else [given] * len(bounds)
    if len(values) != len(bounds):
        raise InvalidArgumentError.of(which, f"must be one number or {len(bounds)}", f"{len(values)}")
    return [_end(value, which, k, bound) for k, (value, bound) in enumerate(zip(values, bounds, strict=True))]


ENDS = Call(
    "for example Bins(..., low=[...], high=[...]) with one number a dimension; None takes the space's bound.",
    "LOW:HIGH a dimension, such as bins:8,8@-1:1,-5:5.",
)


def _end(value: Any, which: str, dimension: int, bound: float) -> float:
    if value is None:
        if math.isinf(bound):
            raise InvalidArgumentError(
                (
                    f"dimension {dimension} has no finite ",
                    Argument(which),
                    ": say where its bins should end, ",
                    ENDS,
                ),
                argument=which,
            )
        return bound
    result = checks.number(value, which)
    if math.isinf(result):
        raise InvalidArgumentError.of(which, "must be finite", f"{result:g} for dimension {dimension}")
    return result


def _counts(counts: Any, length: int) -> list[int]:
    values = list(counts) if checks.any_array(counts, "counts").ndim else [counts] * length
    if len(values) != length:
        raise InvalidArgumentError.of(
            "counts", f"must be one number or {length}, one a dimension", f"{len(values)}"
        )
    values = [checks.integer(value, "counts", least=1) for value in values]
    if max(values) > MAX_BINS:
        raise InvalidArgumentError.of("counts", f"must be at most {MAX_BINS} a dimension", f"{max(values)}")
    if sum(values) > MAX_EDGES:
        raise InvalidArgumentError.of(
            "counts",
            f"must come to at most {MAX_EDGES} bins over all dimensions",
            f"{sum(values)} over {length}",
            remedy="Take fewer, or name what matters of an observation: Bins(..., of=...).",
        )
    return values


def axis_names(names: Sequence[str] | None, of: Components, length: int) -> list[str]:
    """Returns the names of the dimensions; without any, x and the component's number."""
    if names is not None:
        return list(checks.labels(names, "names", length) or ())
    numbers = of if isinstance(of, tuple) else range(length)
    return [f"x{number}" for number in numbers]


def _known_length(*values: Any) -> int | None:
    """Returns the length of the first value that has one."""
    several = (list, tuple, range)
    lengths = [len(v) for v in values if isinstance(v, several) or (isinstance(v, np.ndarray) and v.ndim)]
    return lengths[0] if lengths else None
