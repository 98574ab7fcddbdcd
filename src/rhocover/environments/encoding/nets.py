"""Codes for observations of any dimension: an epsilon-net of observations met so far.

`Net` keeps *leaders*. An observation belongs to the oldest leader within `radius` (Euclidean distance); if
there is none, it becomes a leader itself, and its number is the key. This is *first fit*: as the net grows,
no observation ever changes its key, so counts, data sets and certificates stay valid, and applying the
finished net to the same observations gives the same keys again. Leaders are at least `radius` apart, so equal
weight on codes is equal weight in space; centres of k-means would follow the density of the data instead.

**Search.** Leaders are filed by the cell of a grid of side `radius` in a projection to at most three
dimensions. An orthonormal projection never increases distances, so every leader within the radius is in the
same or a neighbouring cell: only those are compared, in all dimensions, and the result is exact for any
projection. For more than three dimensions the projection is onto the directions in which the first
observations vary most.

**The radius.** "auto" takes 2.5 times the median distance between successive observations of a random
rollout, or of the data set (steps that did not move are left out). For learned features, only steps that
training did not use count. Random actions may hardly move at all, as with a mass that they push to and fro;
then there are more codes than a run can try the actions of, and the run doubles the radius. If they move so
far that the whole world is a few codes, it halves the radius; and so it does where no more codes are found
and there are steps enough for finer ones (`collecting.refits`).

Two observations with one key are one state from here on; a model over codes is an approximation, whose error
no certificate of this library counts.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled
from rhocover.environments.encoding.base import OutsideSpaceError
from rhocover.environments.encoding.bins import plain_components
from rhocover.environments.encoding.encoders import Encoder, LearnedFeatures, is_held_out
from rhocover.environments.encoding.features import FeatureReader, stored_of
from rhocover.errors import InvalidArgumentError, InvalidDataError, inside
from rhocover.layout import Layout
from rhocover.printing import count_of

AUTO = "auto"
STEPS_PER_RADIUS = 2.5  # the median step fits this often into the radius
MOST_PROJECTED = 3  # dimensions of the grid: 27 cells to look into
WIDER = 1 + 1e-6  # of the cells, so that rounding of the projection cannot hide a leader
LEAST_ROOM = 256  # leaders
MAX_LEADERS = 2**24


@compiled
def _bucket(place, shift, size):
    """Returns the bucket of the cell `place + shift`."""
    h = 0
    for k in range(place.size):
        h = (h * 1000003 + place[k] + shift[k]) % 2147483647
    return h * 16807 % 2147483647 & (size - 1)


@compiled
def _place(projection, cell, x, place):
    """Writes the cell of x in the projection."""
    for k in range(projection.shape[0]):
        total = 0.0
        for j in range(x.size):
            total += projection[k, j] * x[j]
        place[k] = np.int64(np.floor(total / cell))


@compiled
def _first_fit(net, x, num_leaders):
    """Returns the oldest leader within the radius of x, or -1."""
    leaders, after, heads, projection, shifts, sizes, place = net
    radius, cell = sizes
    _place(projection, cell, x, place)
    best, most = num_leaders, radius * radius
    for n in range(shifts.shape[0]):
        k = heads[_bucket(place, shifts[n], heads.size)]
        while k >= 0:
            if k < best:
                total = 0.0
                for j in range(x.size):
                    total += (leaders[k, j] - x[j]) ** 2
                    if total > most:
                        break
                if total <= most:
                    best = k
            k = after[k]
    return best if best < num_leaders else -1


@compiled
def _add(net, x, number):
    """Makes x the leader of that number."""
    leaders, after, heads, projection, shifts, sizes, place = net
    _place(projection, sizes[1], x, place)
    leaders[number] = x
    h = _bucket(place, shifts[0], heads.size)  # the first shift is zero
    after[number] = heads[h]
    heads[h] = number


@compiled
def _encode(net, points, num_leaders, keys, first, grows):
    """Writes the keys of points from row `first` on; returns the next row and the number of leaders.

    Stops before a point for which there is no room; without `grows`, points beyond all leaders have key -1.
    """
    for row in range(first, points.shape[0]):
        k = _first_fit(net, points[row], num_leaders)
        if k < 0 and grows:
            if num_leaders == net[0].shape[0]:
                return row, num_leaders
            k = num_leaders
            _add(net, points[row], k)
            num_leaders += 1
        keys[row] = k
    return points.shape[0], num_leaders


@dataclass(frozen=True)
class Net:
    """Codes of observations: the first observations met that are `radius` or more apart.

    `radius` is a distance, or "auto": 2.5 times the median step of a random rollout of `rollout_steps` steps,
    doubled during a run as long as more than half of the actions of the codes met were never tried, and
    halved as long as there are hardly any codes.
    `of` is what of an observation is compared: None for all its numbers, component numbers, the name of a
    field of a dictionary, a function from an observation to a few numbers, a torch module, or
    `LearnedFeatures`. Distances are Euclidean, so numbers that matter should have the same scale.
    """

    radius: float | str = AUTO
    of: Any = None
    rollout_steps: int = 1_000

    def __post_init__(self) -> None:
        if not (isinstance(self.radius, str) and self.radius == AUTO):
            object.__setattr__(self, "radius", checks.positive(self.radius, "radius"))
        is_named = isinstance(self.of, str | LearnedFeatures)
        object.__setattr__(self, "of", self.of if is_named else plain_components(self.of))
        object.__setattr__(
            self, "rollout_steps", checks.integer(self.rollout_steps, "rollout_steps", least=2)
        )

    def fit(self, observations: Any, actions: Any = None, *, then: Any = None) -> NetCode:
        """Returns the code without leaders, its radius and projection from `observations`.

        `then` are the observations one step later; by default each is followed by the next. `LearnedFeatures`
        are trained on them; `actions` are those of `LearnedFeatures.fit`.
        """
        of = self.of.fit(observations, actions) if isinstance(self.of, LearnedFeatures) else self.of
        reader = FeatureReader(of)
        with inside("observations", "of"):
            points = reader.many(observations)
        if len(points) < 2 or not points.shape[1]:
            raise InvalidArgumentError.of(
                "observations", "must hold two or more with numbers", f"{len(points)}"
            )
        if not np.isfinite(points).all():
            about = "of" if callable(self.of) else "observations"
            raise InvalidArgumentError.of(about, "must give finite numbers", "nan or infinite ones")
        if not isinstance(self.radius, str):
            return NetCode(reader, self.radius, _projection(points))
        steps = np.diff(points, axis=0) if then is None else reader.many(then) - points
        radius = STEPS_PER_RADIUS * _median_length(steps, is_trained=of is not self.of)
        return NetCode(reader, radius, _projection(points))


def _median_length(steps: FloatArray, *, is_trained: bool) -> float:
    """Returns the median length of steps `[T, D]` that moved; of those that training did not use."""
    lengths = np.sqrt((steps**2).sum(axis=1))
    held = lengths[is_held_out(lengths.size)]
    lengths = held if is_trained and held.any() else lengths
    if not lengths.any():
        raise InvalidArgumentError.of(
            "radius",
            '"auto" needs observations that change; none of them did',
            remedy="Give a distance: rc.Net(radius=...).",
        )
    return float(np.median(lengths[lengths > 0]))


def _projection(points: FloatArray) -> FloatArray:
    """Returns orthonormal rows, at most three: the directions in which the points vary most."""
    size = points.shape[1]
    if size <= MOST_PROJECTED:
        return np.eye(size)
    spread = points - points.mean(axis=0)
    return np.ascontiguousarray(np.linalg.svd(spread, full_matrices=False)[2][:MOST_PROJECTED])


class NetCode:
    """A net for one run or data set; it grows when it meets an observation beyond all leaders."""

    num_keys: int | None = None  # there may always be more
    every_key: range | None = None
    may_change = (
        False  # whether a run may double or halve the radius: one that was fitted by hand stays as it is
    )

    def __init__(self, reader: FeatureReader, radius: float, projection: FloatArray) -> None:
        self.reader, self.radius, self.num_leaders = reader, radius, 0
        self._projection = projection
        neighbours = sorted(
            itertools.product((-1, 0, 1), repeat=len(projection)), key=lambda s: np.abs(s).sum()
        )
        self._shifts = np.array(neighbours, np.int64)
        self._sizes = np.array([radius, radius * WIDER])
        self._grow(LEAST_ROOM)

    @property
    def of(self) -> Any:
        """What of an observation is compared."""
        return self.reader.of

    @property
    def num_features(self) -> int:
        """How many numbers of an observation are compared."""
        return self._projection.shape[1]

    def scaled(self, factor: float) -> NetCode:
        """Returns a net without leaders whose radius is `factor` times this one's."""
        return NetCode(self.reader, factor * self.radius, self._projection)

    @property
    def leaders(self) -> FloatArray:
        """The leaders so far, `[K, D]`."""
        return self._net[0][: self.num_leaders]

    def _grow(self, room: int) -> None:
        """Makes room for so many leaders, and files those there are."""
        old = self.leaders.copy() if self.num_leaders else np.zeros((0, self._projection.shape[1]))
        leaders, after = np.zeros((room, self._projection.shape[1])), np.full(room, -1, np.int64)
        heads = np.full(1 << (2 * room - 1).bit_length(), -1, np.int64)
        place = np.zeros(len(self._projection), np.int64)
        self._net = (leaders, after, heads, self._projection, self._shifts, self._sizes, place)
        for number, x in enumerate(old):
            _add(self._net, x, number)

    def take_over(self, other: NetCode) -> None:
        """Becomes another net: everything counted under its keys so far must be counted again."""
        self.__dict__.update(other.copy().__dict__)

    def copy(self) -> NetCode:
        """Returns a net with the same leaders that grows for itself."""
        return self.with_leaders(self.leaders)

    def with_leaders(self, leaders: Any) -> NetCode:
        """Returns a net with these leaders, in their order."""
        made = NetCode(self.reader, self.radius, self._projection)
        made._grow(max(LEAST_ROOM, 2 * len(leaders)))
        for number, x in enumerate(np.asarray(leaders, float)):
            _add(made._net, x, number)
        made.num_leaders = len(leaders)
        return made

    def key(self, observation: Any, /) -> int:
        """Returns the number of the oldest leader within the radius, a new one if there is none."""
        x = self.reader.one(observation)
        if x.size != self._projection.shape[1]:
            raise OutsideSpaceError(
                f"an observation has {count_of(x.size, 'number')}, the net {self._projection.shape[1]}."
            )
        k = _first_fit(self._net, x, self.num_leaders)
        if k >= 0:
            return k
        if not np.isfinite(x).all():
            raise OutsideSpaceError(f"an observation holds {x[~np.isfinite(x)][0]}, which has no distance.")
        if self.num_leaders == self._net[0].shape[0]:
            self._grow(2 * self.num_leaders)
        _add(self._net, x, self.num_leaders)
        self.num_leaders += 1
        return self.num_leaders - 1

    def keys(self, observations: Any, /, *, grows: bool = True) -> IntArray:
        """Returns the keys of many observations, `[T]`; without `grows`, -1 beyond all leaders."""
        return self.keys_of(self.reader.many(observations), grows=grows)

    def keys_of(self, points: FloatArray, *, grows: bool = True) -> IntArray:
        """Returns the keys of observations of which the numbers that are compared were read, `[T, D]`."""
        if points.size and points.shape[1] != self.num_features:
            raise OutsideSpaceError(
                f"observations have {points.shape[1]} numbers each, the net {self.num_features}."
            )
        if not np.isfinite(points).all():
            raise OutsideSpaceError("an observation holds a number that has no distance, nan or infinite.")
        keys, row = np.empty(len(points), np.int64), 0
        while row < len(points):
            row, self.num_leaders = _encode(self._net, points, self.num_leaders, keys, row, grows)
            if row < len(points):
                self._grow(2 * self.num_leaders)
        return keys

    def name(self, key: Hashable) -> str:
        """Returns the number of the code and where its leader is."""
        if not isinstance(key, int | np.integer) or not 0 <= key < self.num_leaders:
            return f"code {key}"
        return f"code {key} near ({', '.join(f'{x:.3g}' for x in self.leaders[key][:4])}{self._more})"

    @property
    def _more(self) -> str:
        return ", ..." if self._projection.shape[1] > 4 else ""

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns the places of the leaders of a line or a plane, in cells of the radius; None beyond."""
        size = self._projection.shape[1]
        if size > 2:
            return None
        places = np.zeros((len(keys), 2))
        places[:, :size] = self.leaders[np.asarray(keys, np.int64)] / self.radius
        places[:, 1] *= -1  # upwards
        return Layout(places)

    def document(self) -> dict[str, Any]:
        """Returns radius, projection and leaders, ready for JSON; numbers to the bit."""
        return {
            "kind": "net",
            "radius": self.radius,
            "of": self.reader.document(),
            "projection": self._projection.tolist(),
            "leaders": base64.b64encode(np.ascontiguousarray(self.leaders, "<f8").tobytes()).decode(),
        }


@dataclass(frozen=True)
class StoredNet:
    """What a file says of a net."""

    radius: float
    of: str | tuple[int, ...] | Encoder | None
    projection: tuple[tuple[float, ...], ...]
    leaders: str

    def code(self) -> NetCode:
        """Returns the net."""
        projection = np.array(self.projection, float)
        if projection.ndim != 2 or not 0 < len(projection) <= MOST_PROJECTED or not self.radius > 0:
            raise InvalidDataError("the net has no projection, or no radius.")
        try:
            points = np.frombuffer(base64.b64decode(self.leaders, validate=True), "<f8")
            leaders = points.reshape(-1, projection.shape[1])
        except ValueError as error:
            raise InvalidDataError(f"the leaders of the net are damaged: {error}") from error
        return NetCode(FeatureReader(stored_of(self.of)), self.radius, projection).with_leaders(leaders)
