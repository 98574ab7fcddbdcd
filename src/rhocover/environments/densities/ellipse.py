"""Coverage of directions: the gradient at features phi, from their second moments.

With M = E_d[phi phi'] over the visits so far and N = E_mu[phi phi'], or the identity, U_rho becomes the
sandwiched Renyi divergence of N and M: how little the visits say about some direction of the features.
One-hot features give the coverage of a table back. With N = I the gradient at phi is

    g(phi) = phi' M^-rho phi,

of which rho = 1 is the elliptical bonus of E3B and LSVI-UCB (D-optimal design), rho = 2 is A-optimal design,
and inf E-optimal: only the least visited direction counts. In general, with s = (rho - 1)/rho, A = N^1/2 M^-s
N^1/2, B = N^1/2 A^(rho-1) N^1/2 and M = V diag(l) V',

    g(phi) = phi' V [F o V'BV] V' phi,    F_ij = (l_i^-s - l_j^-s) / (-s (l_i - l_j)),

and log divided differences at rho = 1. Below rho = 1/2, where this is not convex, B = N^rho and s = rho - 1
(Petz's divergence); at rho = 0 it is the relative entropy tr M (log M - log N), as in `reward`. What is paid
is g relative to its average over the visits, tr(G M), which is exact.

**Ridge.** M has lambda = ridge k/t tr(M) on its diagonal, for k features after t visits: each direction
counts as if it had been seen `ridge` k times. Without (ridge=0) a direction that was never seen has r = inf.

Feature components below 1e-12 of a vector are rounding errors of the directions, and are left out: at large
rho they would be multiplied by lambda^-rho. After many features, the directions are computed again only
every (k/32)^3 visits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.environments.encoding.bins import plain_components
from rhocover.environments.encoding.features import FeatureReader
from rhocover.errors import InvalidArgumentError, calling, inside

MOST_FEATURES = 2048  # a decomposition of more takes minutes
QUICK = 32  # features whose directions are computed again at every visit, in 0.1 ms
NOT_SEEN = 1e-13  # of the largest eigenvalue: what a sum of squares leaves of a direction without visits
NO_PART = 1e-24  # of the squared length of a vector
TIED = 1e-9  # relative difference of eigenvalues that are both the smallest at rho = inf


@dataclass(frozen=True)
class Ellipse:
    """The visits so far as an ellipse: how often each direction of some features was seen.

    `features` are what of an observation: None for all its numbers, component numbers, the name of a field of
    a dictionary, or a function from an observation to k numbers. k features tell at most k places apart.
    `ridge` times k is how often each direction counts as seen before the first visit.
    """

    features: Any = None
    ridge: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.features, str):
            with calling(of="features"):
                object.__setattr__(self, "features", plain_components(self.features))
        ridge = checks.number(self.ridge, "ridge")
        if not 0 <= ridge < math.inf:
            raise InvalidArgumentError.of("ridge", "must be non-negative and finite", f"{ridge:g}")
        object.__setattr__(self, "ridge", ridge)

    def begin(self, rho: float, mu: Any) -> EllipseDensity:
        """Returns the density before the first visit."""
        return EllipseDensity(self, rho, mu)


class EllipseDensity:
    """The gradient of U_rho relative to its average over the visits so far; changes with `add`."""

    def __init__(self, settings: Ellipse, rho: float, mu: Any = None) -> None:
        self._rho, self._ridge = rho, settings.ridge
        self._reader = FeatureReader(settings.features)
        self._sum: FloatArray | None = None  # of phi phi', [k, k]
        self._num = self._num_new = 0
        self._relative: Callable[[FloatArray], FloatArray] | None = None
        if callable(mu):
            expected = "must be an array of observations that matter with Ellipse, not a function"
            remedy = "Draw observations from it, or pass a state code or Neighbours as density."
            raise InvalidArgumentError.of("mu", expected, remedy=remedy)
        self._second: FloatArray | None = None if mu is None else self._second_moments(mu)

    def _second_moments(self, mu: Any) -> FloatArray:
        with inside("mu"):
            phi = self.read(mu)
        if not phi.any():
            raise InvalidArgumentError.of("mu", "must hold observations whose features are not all 0")
        return phi.T @ phi / (phi**2).sum()

    def read(self, observations: Any) -> FloatArray:
        """Returns the features of observations, `[m, k]`."""
        phi = self._reader.many(observations)
        size = phi.shape[1] if self._sum is None else len(self._sum)
        if len(phi) and not phi.shape[1] == size > 0:
            expected = f"must have {max(size, 1)} features each"
            raise InvalidArgumentError.of("observations", expected, f"{phi.shape[1]}")
        if size > MOST_FEATURES:
            remedy = "Pass Ellipse(rhocover.RandomFeatures(64)) for fewer."
            raise InvalidArgumentError.of(
                "features", f"must be at most {MOST_FEATURES}", f"{size}", remedy=remedy
            )
        if not np.isfinite(phi).all():
            raise InvalidArgumentError.of("observations", "must give finite features", "nan or infinite ones")
        return phi

    def add(self, read: FloatArray) -> None:
        """Counts visits with these features."""
        if not len(read):
            return
        self._sum = read.T @ read if self._sum is None else self._sum + read.T @ read
        self._num += len(read)
        self._num_new += len(read)
        if self._num_new >= (len(self._sum) / QUICK) ** 3:
            self._relative = None

    def relative(self, read: FloatArray) -> FloatArray:
        """Returns r of these features, `[m]`: 1 on average over the visits so far, and before the first."""
        if self._sum is None or not self._sum.any():
            return np.ones(len(read))
        if self._relative is None:
            self._relative, self._num_new = self._computed(self._sum), 0
        return self._relative(read)

    def numbers(self) -> dict[str, float]:
        """Returns the number of visits and, without `mu`, 1/k over the share of the least seen direction."""
        numbers: dict[str, float] = {"visits": self._num}
        if self._sum is None or self._second is not None or not self._sum.any():
            return numbers
        shares = np.linalg.eigvalsh(self._sum / np.trace(self._sum))
        is_seen = shares[0] > NOT_SEEN * shares[-1]
        return numbers | {"worst_ratio": float(1 / (len(shares) * shares[0])) if is_seen else math.inf}

    def _computed(self, total: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Returns the function from features to r, at the visits so far."""
        scale = float(np.trace(total))
        own, V = np.linalg.eigh(total / scale)
        own = np.maximum(own, 0.0)  # of the visits, with sum 1
        ridged = own + self._ridge * len(own) / self._num
        seen = ridged > NOT_SEEN * ridged.max()
        directions = Directions(V, seen, own[seen], ridged[seen], scale / self._num)
        return (
            directions.identity(self._rho)
            if self._second is None
            else directions.weighted(self._rho, self._second)
        )


@dataclass(frozen=True, eq=False)
class Directions:
    """Eigenvectors of M, which of them were seen, and their eigenvalues without and with the ridge."""

    V: FloatArray
    seen: Any
    own: FloatArray
    l: FloatArray  # noqa: E741
    scale: float  # the mean squared length of the features

    def parts(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns the components of features along the directions seen and not seen, `[m, ...]`."""
        parts = phi @ self.V / math.sqrt(self.scale)
        parts[parts**2 <= NO_PART * (parts**2).sum(axis=1, keepdims=True)] = 0.0
        return parts[:, self.seen], parts[:, ~self.seen]

    def identity(self, rho: float) -> Callable[[FloatArray], FloatArray]:
        """Returns the function to r where every direction matters equally, N = I."""
        log_l = np.log(self.l)
        if rho == 0:
            mean = -float(self.own @ log_l)
            return self._new_is_infinite(lambda c: np.maximum(1 - c**2 @ log_l - mean, 0), None)
        gains = _powers(log_l.min() - log_l, rho)
        mean = float(gains @ self.own)
        return self._new_is_infinite(lambda c: c**2 @ gains / mean, None)

    def weighted(self, rho: float, N: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Returns the function to r where directions matter as in N."""
        whole = self.V.T @ N @ self.V
        inside_ = whole[np.ix_(self.seen, self.seen)]
        beyond = whole[np.ix_(~self.seen, ~self.seen)]
        if rho == 0:
            return self._new_is_infinite(self._entropy(inside_), beyond)
        B, s = _middle(inside_, self.l, rho)
        G = _differences(np.log(self.l), s) * B
        mean = float(np.diag(G) @ self.own)
        if mean <= 0:  # nothing that matters was seen
            return self._new_is_infinite(lambda c: np.zeros(len(c)), beyond)
        return self._new_is_infinite(lambda c: np.einsum("mi,ij,mj->m", c, G, c) / mean, beyond)

    def _entropy(self, N: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Returns the function to r at rho = 0; features in a direction that does not matter have r = 0."""
        n, W = np.linalg.eigh(N)
        kept = n > NOT_SEEN * n.max()
        if not kept.any():
            return lambda c: np.zeros(len(c))
        U = W[:, kept] @ (np.log(n[kept])[:, None] * W[:, kept].T)
        P = W[:, kept] @ W[:, kept].T
        U = U - P @ (np.log(self.l)[:, None] * P)
        mean = float(np.diag(U) @ self.own / (np.diag(P) @ self.own))

        def relative(c: FloatArray) -> FloatArray:
            r = np.maximum(1 + np.einsum("mi,ij,mj->m", c, U, c) - mean, 0)
            outside = ((c @ W[:, ~kept]) ** 2).sum(axis=1) > 1e-12 * (c**2).sum(axis=1)
            return np.where(outside, 0.0, r)

        return relative

    def _new_is_infinite(
        self, relative: Callable[[FloatArray], FloatArray], weights: FloatArray | None
    ) -> Callable[[FloatArray], FloatArray]:
        """Returns the function that is inf for features in directions that matter and were never seen."""

        def whole(phi: FloatArray) -> FloatArray:
            seen, unseen = self.parts(phi)
            new = unseen**2 if weights is None else (unseen @ weights) * unseen
            return np.where(new.sum(axis=1) > 0, math.inf, relative(seen))

        return whole


def _powers(logs: FloatArray, order: float) -> FloatArray:
    """Returns exp(order logs) for logs with maximum 0; at order inf, 1 for the largest and 0 for others."""
    return (logs >= -TIED).astype(float) if order == math.inf else np.exp(order * logs)


def _middle(N: FloatArray, l: FloatArray, rho: float) -> tuple[FloatArray, float]:  # noqa: E741
    """Returns B up to a factor, and s."""
    if rho < 0.5:
        return _power(N, rho), rho - 1
    s = 1.0 if rho == math.inf else (rho - 1) / rho
    root = _power(N, 0.5)
    A = root @ (l[:, None] ** -s * root)
    return root @ _power(A, rho - 1) @ root, s


def _power(A: FloatArray, order: float) -> FloatArray:
    """Returns the power of a symmetric matrix of no negative eigenvalues, up to a factor, on its range."""
    a, W = np.linalg.eigh((A + A.T) / 2)
    kept = a > NOT_SEEN * a.max()
    if not kept.any():
        return np.zeros_like(A)
    logs = np.log(a[kept])
    values = _powers(logs - logs.max(), order) if order > 0 else np.exp(order * (logs - logs.min()))
    return W[:, kept] @ (values[:, None] * W[:, kept].T)


def _differences(log_l: FloatArray, s: float) -> FloatArray:
    """Returns the divided differences of l^-s over -s, of log l at s = 0: positive, `[k, k]`."""
    x = log_l[:, None] - log_l[None, :]
    equal = np.abs(x) < 1e-8  # where two terms of the series are exact to rounding
    y = np.where(equal, 1.0, x)
    quotient = (y if s == 0 else np.expm1(-s * y) / -s) / np.expm1(y)
    return np.where(equal, 1 - (s + 1) * x / 2, quotient) * np.exp(-(s + 1) * log_l)[None, :]
