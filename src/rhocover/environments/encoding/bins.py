"""Bins: real-valued observations become states, the cells of a grid.

`Bins` divides every dimension into bins of equal width, `QuantileBins` at quantiles of the observations of a
random rollout, so that each bin holds about the same number of them. Bin k of a dimension holds
e_k <= x < e_{k+1}; the last one also holds its upper end. `of` selects what is binned: component numbers, or
a function from an observation to a few numbers, such as the angle that Pendulum gives as a cosine and a sine.

Two observations in one cell count as one state. What the environment does next depends on where in the cell
it is, so a model over cells is an approximation, and the certificates of this library do not include its
error.
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
from rhocover.errors import (
    Call,
    InvalidArgumentError,
    InvalidDataError,
    Setting,
    inside,
    parse_text,
)
from rhocover.layout import Layout, Ruler

# The code of binned observations.

Features = Callable[[Any], Any] | Sequence[int] | int | None  # as a user may write them
Components = Callable[[Any], Any] | tuple[int, ...] | None  # as they are kept
WHAT = "an observation"


@dataclass(frozen=True)
class StoredBins:
    """Bins as files store them, axis by axis: inner edges, ends (null if open), names."""

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
    """The cells of the grid of `axes`, numbered with the last axis running fastest (see `axes`).

    `of` selects what is binned: None for all components, component numbers, or a function of an observation.
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
        """Returns the numbers of each observation that are binned, `[T, n]`; raises if n is not `length`."""
        if callable(self.of):
            observations = [ask(self.of, observation) for observation in observations]
        array = checks.any_array(observations, "observations")
        if array.ndim == 0:
            raise InvalidArgumentError.of(
                "observations", "must be a list or an array of observations", "one number"
            )
        array = array.reshape(len(array), -1 if array.size else math.prod(array.shape[1:]))
        if isinstance(self.of, tuple) and array.size:
            array = _columns(array, self.of)
        return as_points(array, array.shape[1] if length is None else length, WHAT)

    def name(self, key: Hashable) -> str:
        """Returns the ends of the cell in every dimension, as text."""
        cell = self._cell(key)
        return cell_name(lambda k: self.axes[k].words(cell[k]), len(cell), key)  # type: ignore[arg-type]

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns the position of each cell, the first dimension to the right and the second upwards."""
        rulers = [Ruler(axis.name, (axis.low, *axis.inner, axis.high)) for axis in self.axes]
        return grid_layout(rulers, [self._cell(key) for key in keys]) if len(rulers) <= 2 else None

    def document(self) -> dict[str, Any]:
        """Returns edges and names, ready for JSON; open ends are null, a function is stored as its name."""
        stored = StoredBins(
            edges=tuple(axis.inner for axis in self.axes),
            ends=tuple((_finite(axis.low), _finite(axis.high)) for axis in self.axes),
            names=tuple(axis.name for axis in self.axes),
            of=function_name(self.of) if callable(self.of) else self.of,
        )
        return {"kind": "bins", **to_document(stored)}

    def within(self, bounds: Sequence[tuple[float, float, float, float]]) -> BinCode:
        """Returns the same cells with these bounds: they end open bins, and values outside are refused."""
        if len(bounds) != len(self.axes):
            raise InvalidArgumentError.of(
                "states",
                f"bins {len(self.axes)} numbers, but the observation space has {len(bounds)}",
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
    """Returns the result of a user's function (an array, a few numbers, or one) in a form for `locate`."""
    if hasattr(values, "tolist") and np.ndim(values):
        return values
    try:
        return Listed(map(float, values if isinstance(values, tuple | list) else (values,)))
    except (TypeError, ValueError):
        return values  # not numbers: `locate` raises with the reason


def _picked(observation: Any, of: tuple[int, ...]) -> Any:
    """Returns the chosen components of one observation."""
    try:
        values = observation.ravel().tolist()
        return Listed([values[k] for k in of])
    except (AttributeError, IndexError):  # a list, or too short
        return _columns(checks.any_array(observation, "observation").reshape(1, -1), of)[0]


def _columns(array: NDArray[Any], of: tuple[int, ...]) -> NDArray[Any]:
    """Returns the chosen components of many observations, `[T, len(of)]`; raises if there are too few."""
    if array.shape[1] <= max(of):
        raise OutsideSpaceError.of(
            "of",
            f"must hold numbers of components, 0 to {array.shape[1] - 1} in these observations",
            f"{max(of)}",
        )
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


# Bins as a user describes them.

MAX_BINS = 2**20  # per dimension; every edge is kept in memory
MAX_EDGES = 2**23  # over all dimensions: a few hundred megabytes
UNBOUNDED = float(np.finfo(np.float32).max)  # the bound that some spaces give when they have none


@dataclass(frozen=True)
class Bins:
    """Bins of equal width: `counts` of them per dimension, one number for all dimensions or one each.

    `low` and `high` are one number for all dimensions or one each; None takes the bound of the space, which
    must then be finite. If they are narrower than the space, or if `of` is a function, values beyond them
    count in the outer bins. NaN always raises an error, and so does an observation outside the space.

    `of` is None (all components), one or several component numbers, or a function from an observation to
    one number per dimension of the bins; with a function, `low` and `high` must be given.

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
    """Bins that hold equally many observations of a random rollout each; `fit` computes their edges.

    `counts`, `of` and `names` are those of `Bins`. The outer bins are open: they also hold everything beyond
    the observations of the rollout. If many observations have the same value, quantiles coincide and there
    are fewer bins than requested. `rollout_steps` is the length of the rollout if the library runs it.
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
            raise InvalidArgumentError.of("observations", "must contain at least one observation", "none")
        checks.float_array(points, "observations")
        if points.shape[1] == 0:
            raise InvalidArgumentError.of("observations", "must contain numbers", "empty observations")
        counts = _counts(self.counts, points.shape[1])
        names = axis_names(self.names, of, points.shape[1])
        axes = [_quantile_axis(*parts) for parts in zip(points.T, counts, names, strict=True)]
        return BinCode(tuple(axes), of)


EQUAL_BINS = ("Pass ", Setting("states", "rc.Bins(8)", "bins:8"), " for 8 equal bins in each dimension.")


def _uniform_axis(
    count: int, low: float, high: float, bound: tuple[float, float, float, float], name: str
) -> Axis:
    if not low < high:
        raise InvalidArgumentError.of(
            "low", parse_text("must be below `high`"), f"{low:g} and {high:g} for {name}", remedy=EQUAL_BINS
        )
    inner = np.linspace(low, high, count + 1)[1:-1].tolist()
    least, most = bound[2], bound[3]
    return Axis(tuple(inner), min(low, bound[0]), max(high, bound[1]), least, most, name)


def _quantile_axis(values: np.ndarray, count: int, name: str) -> Axis:
    """Returns the axis with observed values as edges: each bin holds its lower edge, so none is empty."""
    inner = np.unique(np.quantile(values, np.arange(1, count) / count, method="higher"))
    inner = inner[inner > values.min()]  # a bin below the smallest value would be empty
    return Axis(tuple(inner.tolist()), -math.inf, math.inf, -math.inf, math.inf, name)


def space_bounds(space: Any, of: Components, length: int | None) -> list[tuple[float, float, float, float]]:
    """Returns, per dimension, the bounds of the space and the smallest and largest accepted value.

    A float64 observation of a float32 space may exceed a bound by rounding, so one unit in the last place
    beyond the bound is accepted. Numbers from a function have no bounds.
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
    """Returns one finite end per dimension: the given one, or else the bound of the space."""
    values = list(given) if checks.any_array(given, which).ndim else [given] * len(bounds)
    if len(values) != len(bounds):
        raise InvalidArgumentError.of(
            which, f"must be one number or {len(bounds)}, one per dimension", f"{len(values)}"
        )
    return [_end(value, which, k, bound) for k, (value, bound) in enumerate(zip(values, bounds, strict=True))]


ENDS = Call(
    "say where its bins end: Bins(..., low=[...], high=[...]), one number per dimension; None takes the "
    "space's bound.",
    "say where its bins end, LOW:HIGH for each dimension: bins:8,8@-1:1,-5:5.",
)


def _end(value: Any, which: str, dimension: int, bound: float) -> float:
    if value is None:
        if math.isinf(bound):
            raise InvalidArgumentError(
                f"dimension {dimension} of the observations has no finite {which} bound.",
                argument=which,
                remedy=("Pass ", Setting("states", "rc.Net()", "net"), ", or ", ENDS),
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
            "counts",
            f"must be one number or {length}, one per dimension",
            f"{len(values)}",
            remedy=EQUAL_BINS,
        )
    try:
        values = [checks.integer(value, "counts", least=1) for value in values]
    except InvalidArgumentError as error:
        error.add_remedy(EQUAL_BINS)
        raise
    if max(values) > MAX_BINS:
        raise InvalidArgumentError.of("counts", f"must be at most {MAX_BINS} per dimension", f"{max(values)}")
    if sum(values) > MAX_EDGES:
        raise InvalidArgumentError.of(
            "counts",
            f"must be at most {MAX_EDGES} bins, summed over all dimensions",
            f"{sum(values)} in {length} dimensions",
            remedy="Use fewer bins, or bin only the components that matter: Bins(..., of=...).",
        )
    return values


def axis_names(names: Sequence[str] | None, of: Components, length: int) -> list[str]:
    """Returns the names of the dimensions; by default x and the number of the component."""
    if names is not None:
        return list(checks.labels(names, "names", length) or ())
    numbers = of if isinstance(of, tuple) else range(length)
    return [f"x{number}" for number in numbers]


def _known_length(*values: Any) -> int | None:
    """Returns the length of the first value that has one."""
    several = (list, tuple, range)
    lengths = [len(v) for v in values if isinstance(v, several) or (isinstance(v, np.ndarray) and v.ndim)]
    return lengths[0] if lengths else None
