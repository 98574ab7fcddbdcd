"""Density by neighbours: the coverage gradient at points of a continuous space, from distances.

The visits so far are n stored points. If the k-th nearest of them is at distance e from z, the density of
visits at z is about k/(n V e^D), where D is the intrinsic dimension of the points and V the volume of the
unit ball in D dimensions. The visits within e make up a mass that is Gamma(k)/n distributed, hence

    (n V e^D)^rho Gamma(k)/Gamma(k + rho)

is unbiased for d(z)^-rho to first order in 1/n, with a squared coefficient of variation of about rho^2/k:
k >= 4 rho^2 keeps it below 1/4. Times mu(z)^rho it is the gradient of U_rho at z. If mu is given by M samples
of what matters, the k-th of them at distance e_mu, the gradient (mu/d)^rho is estimated by

    ((n/M) (e/e_mu)^D)^rho Gamma(k)^2 / (Gamma(k + rho) Gamma(k - rho)),    k > rho.

At rho = 0 it is log(mu/d) up to a constant: D log e, plus log mu(z) or minus D log e_mu. As in `reward`, what
is paid is relative to the average over the visits so far, here over some of the stored points, each without
itself. Near a face of the space e is too large, at a corner of c faces by a factor of up to 2^(c rho) in the
gradient; the cap of the reward bounds that.

The density of visits has mass 1, however long the run: n is the number of stored points (see `points`), a
uniform sample of the visits, and not the number of visits.

D is the estimate of Levina and Bickel (2004), averaged as proposed by MacKay and Ghahramani: 1/D is the mean
of log(e_k/e_j) over stored points and j < k. It is rounded: a smooth set has a whole number of dimensions.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree  # type: ignore[attr-defined]
from scipy.special import logsumexp

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.environments.densities.points import MOST_RECENT, PointStore
from rhocover.environments.encoding.base import ask
from rhocover.environments.encoding.bins import plain_components
from rhocover.environments.encoding.features import FeatureReader
from rhocover.errors import InvalidArgumentError, RhocoverWarning, inside

LARGEST_RHO = math.sqrt(MOST_RECENT) / 2  # 16: there 4 rho^2 is the largest k
NUM_AVERAGED = 512  # stored points over which the gradient is averaged; at rho = 2 to about a quarter
NUM_FOR_DIMENSION = 8  # neighbours; with 16, faces make 3 of 4 dimensions in one of ten data sets
MOST_DIMENSIONS = 4  # beyond, most points are near a face, and the nearest points are hardly nearer
ENOUGH_TO_WARN = 1024  # points; the dimension of fewer is that of a few trajectories
MANY = 64  # points for which a new tree costs less than comparing the recent points one by one
CLOSEST = 2.0**-20  # of the spread: smaller distances count as this, so that equal points have a density


@dataclass(frozen=True)
class Neighbours:
    """The density of visits, from the distance to the `k`-th nearest earlier visit.

    `of` is what of an observation is compared: None for all its numbers, component numbers, the name of a
    field of a dictionary, or a function from an observation to a few numbers. Distances are Euclidean, so
    numbers that matter should have the same scale; more than four independent numbers are too many. The
    relative standard deviation of the gradient is rho/sqrt(k): a larger `k` has less noise and less detail.
    """

    k: int = 16
    of: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checks.integer(self.k, "k", least=2, most=MOST_RECENT))
        object.__setattr__(self, "of", self.of if isinstance(self.of, str) else plain_components(self.of))

    def begin(self, rho: float, mu: Any) -> NeighbourDensity:
        """Returns the density before the first visit."""
        return NeighbourDensity(self, rho, mu)


# The estimators.


def log_gradient(log_e: Any, num: int, dimension: float, k: int, rho: float) -> Any:
    """Returns log of the estimate of d^-rho, from the k-th distances e to `num` points."""
    log_ball = dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)
    return rho * (math.log(num) + log_ball + dimension * log_e) + math.lgamma(k) - math.lgamma(k + rho)


def log_gradient_to(
    log_e: Any, log_e_mu: Any, num: int, num_mu: int, dimension: float, k: int, rho: float
) -> Any:
    """Returns log of the estimate of (mu/d)^rho, from the k-th distances to points and to samples of mu."""
    constant = 2 * math.lgamma(k) - math.lgamma(k + rho) - math.lgamma(k - rho)
    return rho * (math.log(num / num_mu) + dimension * (log_e - log_e_mu)) + constant


def intrinsic_dimension(distances: FloatArray) -> float:
    """Returns the estimate of Levina and Bickel from rising distances above 0, `[m, k]`; nan if all equal."""
    logs = np.log(distances[:, -1:]) - np.log(distances[:, :-1])
    total = float(logs.sum())
    return logs.size / total if total > 0 else math.nan


# The density of a run.

Points = tuple[FloatArray, FloatArray]  # `[m, size]`, and the logarithms of their weights, `[m]`


class NeighbourDensity:
    """The gradient of U_rho relative to its average over the visits so far; changes with `add`."""

    def __init__(self, settings: Neighbours, rho: float, mu: Any = None) -> None:
        self._k, self._rho = settings.k, rho
        self._reader = FeatureReader(settings.of)
        self._store: PointStore | None = None
        self._is_ready = self._is_warned = False
        self._dimension, self._closest, self._average = 1, 0.0, 0.0
        check_order(settings.k, rho)
        self._weight = mu if callable(mu) else None
        self._targets = None if mu is None or callable(mu) else self._samples(mu)

    def _samples(self, mu: Any) -> cKDTree:
        """Returns the samples of what matters, as a tree."""
        with inside("mu"):
            points = self._points(mu)
        if len(points) < self._k or self._k <= self._rho:
            least = max(len(points), math.floor(self._rho) + 1)
            expected = f"as samples must be at least k of them, and k above rho = {self._rho:g}"
            got = f"{len(points)} samples and k = {self._k}"
            raise InvalidArgumentError.of("mu", expected, got, remedy=f"Collect {least} samples or more.")
        return cKDTree(points)

    def read(self, observations: Any) -> Points:
        """Returns the points of observations and the logarithms of their weights."""
        points = self._points(observations)
        if self._weight is None:
            return points, np.zeros(len(points))
        weights = np.array([read_weight(self._weight, observation) for observation in observations])
        with np.errstate(divide="ignore"):
            return points, np.log(weights)

    def _points(self, observations: Any) -> FloatArray:
        points = self._reader.many(observations)
        size = points.shape[1] if self._store is None else self._store.size
        if len(points) and not points.shape[1] == size > 0:
            expected = f"must have {max(size, 1)} numbers each"
            raise InvalidArgumentError.of("observations", expected, f"{points.shape[1]}")
        if not np.isfinite(points).all():
            raise InvalidArgumentError.of("observations", "must give finite numbers", "nan or infinite ones")
        return points

    def add(self, read: Points) -> None:
        """Counts visits of these points."""
        points, log_weights = read
        if self._store is None and len(points):
            self._store = PointStore(points.shape[1])
        if self._store is not None:
            self._store.add(points, log_weights)
            if self._store.is_due:
                self._renew(self._store)

    def relative(self, read: Points) -> FloatArray:
        """Returns r of these points, `[m]`: 1 on average over the visits so far, and while there are few."""
        points, log_weights = read
        r = np.ones(len(points))
        if self._store is not None and self._is_ready and len(points):
            if self._store.num_recent and len(points) > MANY:
                self._renew(self._store)
            e = self._store.distances(points, self._k)
            log_g = self._log_gradient(points, log_weights, e, self._store.num_searched)
            r = np.maximum(1 + log_g - self._average, 0) if self._rho == 0 else _exp(log_g - self._average)
        r[log_weights == -np.inf] = 0.0
        return r

    def numbers(self) -> dict[str, float]:
        """Returns the number of visits and the dimension of the points."""
        numbers: dict[str, float] = {"visits": 0 if self._store is None else self._store.num_added}
        return numbers | ({"dimension": self._dimension} if self._is_ready else {})

    def _log_gradient(self, points: FloatArray, log_mu: FloatArray, e: FloatArray, num: int) -> FloatArray:
        """Returns log of (mu/d)^rho at points whose k-th distances to `num` others are e; log(mu/d) at 0."""
        rho, k, dimension, log_e = self._rho, self._k, self._dimension, np.log(np.maximum(e, self._closest))
        if self._targets is not None:
            to = self._targets.query(points, k)[0][:, -1]
            log_to = np.log(np.maximum(to, self._closest))
            if rho > 0:
                return log_gradient_to(log_e, log_to, num, self._targets.n, dimension, k, rho)
            return dimension * (log_e - log_to)
        return (
            log_mu + dimension * log_e
            if rho == 0
            else rho * log_mu + log_gradient(log_e, num, dimension, k, rho)
        )

    def _renew(self, store: PointStore) -> None:
        """Builds the search tree again, and everything that is estimated from the stored points."""
        store.build()
        if store.num_stored < self._k + 2:
            return
        points, log_weights, near = store.some(NUM_AVERAGED, self._k)
        self._is_ready = True
        self._closest = max(CLOSEST * store.spread, np.finfo(float).tiny)
        self._dimension = self._dimension_of(near[:, :NUM_FOR_DIMENSION], store)
        log_g = self._log_gradient(points, log_weights, near[:, -1], store.num_stored - 1)
        weighted = log_g[log_weights > -np.inf]
        if not weighted.size:
            self._average = -math.inf  # next to it every weighted point is infinitely good
        else:
            self._average = float(
                weighted.mean() if self._rho == 0 else logsumexp(log_g) - math.log(len(log_g))
            )

    def _dimension_of(self, near: FloatArray, store: PointStore) -> int:
        """Returns the dimension of the stored points, a whole number."""
        found = intrinsic_dimension(near[near[:, 0] > self._closest])
        dimension = store.size if math.isnan(found) else min(max(round(found), 1), store.size)
        if dimension > MOST_DIMENSIONS and store.num_stored >= ENOUGH_TO_WARN and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"the observations have about {dimension} dimensions. Beyond {MOST_DIMENSIONS} the density "
                "of neighbours is mostly noise: choose what matters with Neighbours(of=...).",
                RhocoverWarning,
                stacklevel=2,
            )
        return dimension


def check_order(k: int, rho: float) -> None:
    """Refuses an order for which no k is enough, and warns if k neighbours are few for this one."""
    if rho > LARGEST_RHO:
        raise InvalidArgumentError.of(
            "rho",
            f"must be at most {LARGEST_RHO:g} with Neighbours, whose noise grows with rho",
            f"{rho:g}",
            remedy="Pass rho=4 and Neighbours(k=64), or a state code as density.",
        )
    if k < 4 * rho**2:
        warnings.warn(
            f"with Neighbours(k={k}) at rho = {rho:g} the reward has a relative standard deviation of about "
            f"{rho / math.sqrt(k):.2g}. With k={math.ceil(4 * rho**2)} or more it is at most 0.5.",
            RhocoverWarning,
            stacklevel=2,
        )


def read_weight(mu: Any, observation: Any) -> float:
    """Returns the weight that the user's function gives an observation."""
    value = checks.number(ask(mu, observation, "mu"), "mu(observation)")
    if not 0 <= value < math.inf:
        raise InvalidArgumentError.of("mu(observation)", "must be non-negative and finite", f"{value:g}")
    return value


def _exp(log_r: FloatArray) -> FloatArray:
    return np.exp(np.minimum(log_r, 700.0))  # e^700 is finite; far beyond every cap
