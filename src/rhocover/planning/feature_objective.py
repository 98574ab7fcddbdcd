"""Coverage of directions: the divergence of two information matrices, its gradient and its curvature.

Features phi `[n, k]` say which direction each pair looks into. Visits d have the information matrix
M = sum_i d_i phi_i phi_i'; the target is N, the same for the weights, or the identity. The objective is the
sandwiched Rényi divergence of N and M, divided so that the scale of N does not matter: with s = (rho-1)/rho,

    D(M) = log( tr A^rho / tr N ) / (rho-1),   A = N^1/2 M^-s N^1/2,
    D(M) = tr N (log N - log M) / tr N         at rho = 1,
    D(M) = log of the largest eigenvalue of N^1/2 M^-1 N^1/2       at rho = inf.

With N = I it is the logarithm of Kiefer's Phi_p, p = rho - 1: D-optimal designs at 1, A-optimal ones at 2 and
E-optimal ones at inf. Features that mark the pairs make all matrices diagonal, and D is the Rényi divergence
of weights and visits. It is convex in M for rho >= 1/2 (Frank and Lieb 2013), and smaller orders are refused.

**Gradient.** With M = V diag(l) V', B = N^1/2 A^(rho-1) N^1/2 and the divided differences of l^-s over -s,

    f_ij = (l_i^-s - l_j^-s) / (-s (l_i - l_j)) = e^(-(s+1) m) sinh(s t) / (s sinh t),

m and t half the sum and half the difference of log l_i and log l_j, the negative gradient is

    G = V [f_ij (V'BV)_ij] V' / tr A^rho,      G = M^-rho / tr M^(1-rho) for N = I.

Nothing cancels where eigenvalues meet, and s = 0 is rho = 1 (f are divided differences of the logarithm).

**Bound.** D(cM) = D(M) - log c, so tr(G M) = 1. F = e^-D is homogeneous and positive, and its superlevel sets
are convex, because D is convex; such a function is concave. So for every M' and every M

    F(M') <= F(M) + F(M) tr(G (M' - M)) = F(M) tr(G M'),   that is   D(M') >= D(M) - log tr(G M').

The largest tr(G M') = sum_i d'_i phi_i'G phi_i over all occupancies d' is the value of a best response, and

    D(M) - D* <= log max_d' tr(G M(d')),

with equality to 0 at the optimum: Kiefer and Wolfowitz's equivalence theorem. For pairs it is the bound of
`frank_wolfe`. At rho = inf F is the largest c with c N <= M. For any W >= 0 with tr(W N) = 1 this gives
F(M') <= tr(W M'), so every such W bounds D* from below by - log max_d' tr(W M(d')).

Matrices are in coordinates in which the features have full rank. N may be singular: N = R R', R `[k, r]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.planning.information import quadratic_forms, svec_places

EPSILON = float(np.finfo(float).eps)
SMALLEST_ORDER = 0.5  # the divergence is not convex below
NULL = 1e-13  # of the largest eigenvalue of N: smaller ones are rounding
TIED = 1e-4  # relative distance of eigenvalues below which the second differences are those of a tie
SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class Local:
    """The objective near one matrix, in the basis T: x'Hx is the second derivative, x = svec(T'dM T)."""

    basis: FloatArray  # T, [k, k]
    gradient: FloatArray  # T^-1 G T'^-1, [k, k]: a feature's score is psi'(this)psi, psi = T'phi
    hessian: FloatArray  # H, [r, r], r = k(k+1)/2

    def scores(self, phi: FloatArray) -> FloatArray:
        """Returns phi_i'G phi_i for each row, `[n]`."""
        return quadratic_forms(phi @ self.basis, self.gradient)


@dataclass(frozen=True, eq=False)
class FeatureCoverage:
    """The divergence of order `rho` in [1/2, inf] between a target N = R R' and information matrices."""

    rho: float
    root: FloatArray  # R, [k, r]

    @classmethod
    def of(cls, rho: float, N: FloatArray) -> FeatureCoverage:
        """Returns the objective for a positive semidefinite target `[k, k]`."""
        size, V = np.linalg.eigh(N)
        kept = size > NULL * size[-1]
        return cls(float(rho), V[:, kept] * np.sqrt(size[kept]))

    @property
    def dimension(self) -> int:
        """The number of features k."""
        return int(self.root.shape[0])

    @cached_property
    def target(self) -> FloatArray:
        """N = R R', `[k, k]`."""
        return self.root @ self.root.T

    @cached_property
    def log_trace(self) -> float:
        """Log of tr N."""
        return float(np.log(np.sum(self.root**2)))

    @property
    def s(self) -> float:
        """The exponent (rho-1)/rho."""
        return 1.0 if self.rho == np.inf else (self.rho - 1) / self.rho

    def divergence(self, M: FloatArray) -> float:
        """Returns D(M); inf if M is singular."""
        size, V = np.linalg.eigh(M)
        return self._divergence(size, V.T @ self.root)

    def _divergence(self, size: FloatArray, C: FloatArray) -> float:
        """Returns D from M's eigenvalues and R in the basis of its eigenvectors."""
        if not size[0] > EPSILON * size[-1] * size.size:
            return np.inf
        if self.rho == 1:
            own = np.sum(self.root**2, axis=0)
            entropy = float(np.sum(own * np.log(own)))  # N's eigenvalues: columns of R are orthogonal
            return float((entropy - np.sum(C**2, axis=1) @ np.log(size)) / np.exp(self.log_trace))
        log_a, _ = self._spectrum(size, C)
        if self.rho == np.inf:
            return float(log_a[-1])
        return (_log_sum(self.rho * log_a) - self.log_trace) / (self.rho - 1)

    def _spectrum(self, size: FloatArray, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns the logarithms of A's eigenvalues, ascending, and its eigenvectors."""
        shift = np.log(size[0] if self.s > 0 else size[-1])
        power = np.exp(-self.s * (np.log(size) - shift))
        a, Y = np.linalg.eigh((C.T * power) @ C)
        return np.log(np.maximum(a, SMALLEST)) - self.s * shift, Y

    def gradient(self, M: FloatArray) -> FloatArray:
        """Returns G = -dD/dM at a positive definite M, with tr(G M) = 1; rho < inf."""
        near = _Eigen.of(self, M)
        return near.V @ near.gradient @ near.V.T

    def local(self, M: FloatArray) -> Local:
        """Returns gradient and curvature at a positive definite M; rho < inf."""
        near = _Eigen.of(self, M)
        return Local(near.V, near.gradient, near.hessian())

    def rounding(self, M: FloatArray) -> float:
        """Returns a bound on the error of D(M): that of M's entries, and that of the sums and eigenvalues."""
        size = np.linalg.eigvalsh(M)
        k = size.size
        if not size[0] > k * EPSILON * size[-1]:
            return np.inf
        order = abs(self.rho - 1)
        digits = 16 * k * EPSILON
        sums = digits * (1 + 1 / order) if order > 0 else digits * (1 + abs(np.log(size[0] / size[-1])))
        return float(digits * size[-1] / size[0] + sums)


# Finite orders.


@dataclass(frozen=True, eq=False)
class _Eigen:
    """What gradient and curvature share: M = V diag(l) V' and A = Y diag(a) Y', eigenvalues as logarithms."""

    coverage: FeatureCoverage
    V: FloatArray
    log_l: FloatArray  # [k]
    Z: FloatArray  # V'R Y, [k, r]
    log_a: FloatArray  # [r]
    log_sum: float  # log tr A^rho

    @classmethod
    def of(cls, coverage: FeatureCoverage, M: FloatArray) -> _Eigen:
        size, V = np.linalg.eigh(M)
        size = np.maximum(size, SMALLEST)
        C = V.T @ coverage.root
        if coverage.rho == 1:
            none = np.zeros(C.shape[1])
            return cls(coverage, V, np.log(size), C, none, coverage.log_trace)
        log_a, Y = coverage._spectrum(size, C)
        return cls(coverage, V, np.log(size), C @ Y, log_a, _log_sum(coverage.rho * log_a))

    @cached_property
    def weighted(self) -> FloatArray:
        """V'BV / tr A^rho, `[k, k]`, entry ij divided by (l_i l_j)^((s+1)/2), so that nothing overflows."""
        half = np.exp(((self.coverage.rho - 1) * self.log_a - self.log_sum) / 2)
        return _product(self.Z, half, -(self.coverage.s + 1) / 2 * self.log_l)

    @cached_property
    def bend(self) -> FloatArray:
        """f_ij times (l_i l_j)^((s+1)/2): sinh(s t) / (s sinh t), at most 1."""
        return np.exp(log_sinh_ratio(self.coverage.s, (self.log_l[:, None] - self.log_l) / 2))

    @cached_property
    def gradient(self) -> FloatArray:
        """V'GV, `[k, k]`."""
        return self.bend * self.weighted

    def hessian(self) -> FloatArray:
        """Returns the second derivative of D in svec coordinates of V'HV, `[k(k+1)/2, k(k+1)/2]`.

        D'' = sum over i, j, k of 2 w_ikj (V'BV)_ij H_ik H_kj / tr A^rho, w the second divided differences of
        l^-s over s, plus the change of A^(rho-1), minus (rho-1) tr(G H)^2.
        """
        H = self._change_of_powers()
        i, j, weight = svec_places(self.log_l.size)
        g = self.gradient[i, j] * weight
        H += self._change_of_root(i, j)
        return H - (self.coverage.rho - 1) * np.outer(g, g)

    def _change_of_powers(self) -> FloatArray:
        """Returns the part in which M^-s bends."""
        k = self.log_l.size
        place = np.zeros((k, k), np.int64)
        i, j, _ = svec_places(k)
        place[i, j] = place[j, i] = np.arange(i.size)
        scale = np.ones((k, k)) / np.sqrt(2.0)
        np.fill_diagonal(scale, 1.0)
        H = np.zeros((i.size, i.size))
        for middle in range(k):
            block = 2 * self._second(middle) * np.outer(scale[middle], scale[middle])
            H[np.ix_(place[middle], place[middle])] += block
        return H

    def _second(self, middle: int) -> FloatArray:
        """Returns w_imj (V'BV)_ij / tr A^rho, `[k, k]`, for one m."""
        x, s = self.log_l, self.coverage.s
        a, b = np.broadcast_arrays(x[:, None], x[None, :])
        triple = np.sort(np.stack([a, b, np.full(a.shape, x[middle])]), axis=0)
        low, mid, high = triple
        base = (s + 1) / 2 * (a + b)  # undone by `weighted`
        outer = np.exp(base - (s + 1) / 2 * (low + mid) + log_sinh_ratio(s, (mid - low) / 2))
        inner = np.exp(base - (s + 1) / 2 * (mid + high) + log_sinh_ratio(s, (high - mid) / 2))
        apart = np.exp(high) - np.exp(low)
        tied = high - low < TIED
        mean = (low + mid + high) / 3
        flat = (s + 1) / 2 * np.exp(base - (s + 2) * mean)
        return np.where(tied, flat, (outer - inner) / np.where(tied, 1.0, apart)) * self.weighted

    def _change_of_root(self, i: IntArray, j: IntArray) -> FloatArray:
        """Returns the part in which A^(rho-1) changes; zero at rho = 1."""
        rho, s, r = self.coverage.rho, self.coverage.s, self.log_a.size
        if rho == 1:
            return np.zeros((i.size, i.size))
        p, q, _ = svec_places(r)
        m, t = (self.log_a[p] + self.log_a[q]) / 2, (self.log_a[p] - self.log_a[q]) / 2
        half = (s + 1) / 2
        Z = self.Z * np.exp(-half * self.log_l)[:, None]
        size = np.exp(((rho - 2) * m + log_sinh_ratio(rho - 1, t) - self.log_sum) / 2)
        size = size * np.where(p == q, 1.0, np.sqrt(2.0))
        J = Z[i][:, p] * Z[j][:, q] + Z[j][:, p] * Z[i][:, q]
        J *= (self.bend[i, j] * np.where(i == j, 0.5, np.sqrt(0.5)))[:, None] * size
        return rho * s * s * (J @ J.T)


def _product(Z: FloatArray, half: FloatArray, log_rows: FloatArray) -> FloatArray:
    """Returns (diag(e^log_rows) Z diag(half)) times its transpose."""
    rows = np.exp(log_rows)[:, None] * Z * half
    return rows @ rows.T


def log_sinh_ratio(s: float, t: FloatArray) -> FloatArray:
    """Returns log of sinh(s t) / (s sinh t), that of t / sinh t at s = 0; even in s and t, and 0 at t = 0."""
    s, t = abs(s), np.abs(t)
    small = t < 1e-5 / max(1.0, s)
    safe = np.where(small, 1.0, t)
    # sinh(x) = e^x (1 - e^-2x) / 2, so that large x do not overflow
    top = safe if s == 0 else -np.expm1(-2 * s * safe) / (2 * s)
    ratio = (s - 1) * safe + np.log(top / (-np.expm1(-2 * safe) / 2))
    return np.where(small, (s * s - 1) * t * t / 6, ratio)


def _log_sum(values: FloatArray) -> float:
    top = float(values.max())
    return top + float(np.log(np.sum(np.exp(values - top))))
