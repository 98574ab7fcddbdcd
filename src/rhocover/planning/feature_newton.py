"""A primal-dual interior point for coverage of directions: Newton steps in the space of information matrices.

With M(d) = sum_i d_i phi_i phi_i' and an objective D with D(cM) = D(M) - log c (`feature_objective`), solve

    minimise D(M(d)) + sum_i d_i   over   K d = k0, d >= 0.

The second term fixes the scale: if K d = 0 leaves it free, the optimum has sum d = 1, and if K d = k0 implies
sum d = 1, it is a constant. Stationarity, with multipliers nu and z >= 0 and scores q_i = phi_i'G phi_i, is

    z = 1 - q - K'nu,        z_i d_i = tau.

A step solves the linearised equations, in which the curvature has rank r = k(k+1)/2 at most. With its factor
C L `[n, r]`, C = svec(psi_i psi_i') in the basis of the objective, H = L L', and w = d/z,

    dd = w (b + K'dnu - C L t),   t = L'C'dd,   b = -residual + (tau - d z)/d,

and eliminating dd and dnu leaves r equations, (1 + P'diag(w)P) t = ..., where P = C L - K'X is C L without
what the flow equations can absorb: a weighted least-squares fit with the matrix K diag(w) K', which
`linalg.normal_equations` factorises as for pairs. So a step costs n r^2 operations and r + 2 sparse solves,
never a matrix over pairs. Where visits are not at their bound w exceeds 1e10, and the eliminated equations
lose that many digits; the answer is refined against the equations before elimination.

Three rules make it converge from the uniform policy in about 15 steps:
- predictor and corrector (Mehrotra) share a factorisation;
- the equations bend with M, so primal and dual take the same step, and it is halved until the residual falls;
- tau never falls faster than the residual of stationarity.

**At rho = inf** the objective is -log c under the condition M - c N = X >= 0, whose multiplier W >= 0 takes
the place of G: q_i = phi_i'W phi_i, tr(W N) = 1/c, X W = tau. In the basis T in which T'X T = 1 and the
multiplier is diagonal, T^-1 W T'^-1 = diag(omega), the symmetrised equation (Helmberg, Rendl, Vanderbei and
Wolkowicz 1996) is

    dW_ij = tau 1_ij - omega_i 1_ij - (omega_i + omega_j)/2 dX_ij,       dX = dM - dc N,

so the curvature is diagonal, H_ij = (omega_i + omega_j)/2. c is one more unknown in front of -N, with 1/c^2
in the place of z/d and no flow equations: eliminated beforehand, it would cancel the direction in which M
reaches N. W follows t rather than dd, whose rounding the curvature multiplies by 1/tau. All else is as above.

Nothing is proved here: `features` computes the bound afterwards, from the policy's own visits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from rhocover.checks import FloatArray, Matrix
from rhocover.errors import SolverError
from rhocover.linalg.normal_equations import NormalEquations
from rhocover.planning.feature_objective import FeatureCoverage
from rhocover.planning.information import Atoms, svec_places

TO_BOUNDARY = 0.99
ENOUGH = 0.01  # of a step: how much the squared residual has to fall
FIRST_TRIES, LAST_TRIES = 3, 30  # halvings with the corrector, and without it
RIDGE = 1e-13  # of the largest curvature: H may be singular
LEAST_CENTRING, MOST_CENTRING = 1e-4, 0.8  # of the sum of products, from one step to the next
RESIDUAL_SHARE = 0.1  # tau stays above this share of the residual
BELOW_TOLERANCE = 0.03  # of tol: smaller products gain nothing, and cost digits
PATIENCE = 15  # steps without a better point after which float64 allows no more
REFINEMENTS = 5
LIFT = 1e-14  # of the diagonal: directions of different sizes make the equations singular to rounding
SMALLEST = 1e-300
FAILURES = (SolverError, np.linalg.LinAlgError, ValueError)  # of a factorisation: float64 ends here


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """Visits over {K d = k0, d >= 0}."""

    coverage: FeatureCoverage
    atoms: Atoms
    K: Matrix  # [m, n]
    k0: FloatArray  # [m]

    @property
    def is_smooth(self) -> bool:
        """Whether the objective has a gradient."""
        return self.coverage.rho < np.inf

    @cached_property
    def KT(self) -> Matrix:
        """The transpose of K, by rows."""
        return self.K.T if isinstance(self.K, np.ndarray) else self.K.T.tocsr()


@dataclass(frozen=True, eq=False)
class DesignState:
    """Visits and multipliers after some steps; at rho = inf also c and the matrix multiplier."""

    d: FloatArray
    z: FloatArray
    nu: FloatArray
    c: float
    W: FloatArray  # [k, k]: G where the objective is smooth
    steps: int = 0
    seconds: float = 0.0
    mu: float = np.inf  # the sum of all products
    dual: float = np.inf  # the residual of stationarity, weighted by d
    flow: float = np.inf  # the largest residual of K d = k0
    paid: float = np.inf  # what that residual costs at the prices nu

    @property
    def gap(self) -> float:
        """An estimate of the distance from the optimum."""
        return self.mu + self.off

    @property
    def off(self) -> float:
        """The residuals in the same unit."""
        return self.dual + self.paid


def solve_design(
    problem: DesignProblem,
    d: FloatArray,
    *,
    tol: float,
    max_steps: int,
    report: Callable[[DesignState], None] | None = None,
    deadline: float = np.inf,
) -> DesignState:
    """Returns the visits at which the estimated gap is `tol`, or the best of those reached.

    `d > 0` is where to start; K d = k0 need not hold exactly. `deadline` reads `time.perf_counter`.
    """
    began, newton = time.perf_counter(), _Newton(problem, tol)
    state = best = newton.start(d)
    for steps in range(1, max_steps + 1):
        if state.gap <= tol or steps > best.steps + PATIENCE or time.perf_counter() >= deadline:
            break
        with np.errstate(all="ignore"):  # overflow is detected by its value
            following = newton.step(state)
        if following is None:
            break
        state = replace(following, steps=steps, seconds=time.perf_counter() - began)
        best = state if state.gap < best.gap else best
        if report is not None:
            report(state)
    return replace(best, steps=state.steps)


@dataclass(frozen=True, eq=False)
class _Way:
    """A direction: of visits and multipliers, and of c and W in the basis T of the objective."""

    d: FloatArray
    z: FloatArray
    nu: FloatArray
    c: float = 0.0
    X: FloatArray | None = None  # T'dX T, [k, k]
    W: FloatArray | None = None  # T^-1 dW T'^-1, [k, k]


class _Newton:
    """Steps for one problem."""

    def __init__(self, problem: DesignProblem, tol: float) -> None:
        self.problem = problem
        self.K = problem.K if problem.is_smooth else _with_free_unknown(problem.K)
        self.KT = self.K.T if isinstance(self.K, np.ndarray) else self.K.T.tocsr()
        self.equations = NormalEquations(self.K, self.KT)
        self._least = BELOW_TOLERANCE * tol

    def start(self, d: FloatArray) -> DesignState:
        """Returns visits d with multipliers at which every product d z is the same."""
        problem, k = self.problem, self.problem.atoms.dimension
        z, nu = 1 / d.size / d, np.zeros(problem.K.shape[0])
        M = problem.atoms.information(d)
        if problem.is_smooth:
            return self.measured(DesignState(d, z, nu, 1.0, problem.coverage.gradient(M)), M)
        c = 0.5 * float(np.exp(-problem.coverage.divergence(M)))
        W = np.linalg.inv(M - c * problem.coverage.target) / k
        return self.measured(DesignState(d, z, nu, c, (W + W.T) / 2), M)

    def measured(self, state: DesignState, M: FloatArray) -> DesignState:
        """Returns the state with its residuals."""
        problem, d = self.problem, state.d
        dual, primal = self._residuals(state)
        mu, off = float(d @ state.z), 0.0
        if not problem.is_smooth:
            mu += float(np.sum((M - state.c * problem.coverage.target) * state.W))
            off = abs(state.c * float(np.sum(state.W * problem.coverage.target)) - 1)
        return replace(
            state, mu=mu, dual=float(np.abs(dual) @ d) + off, flow=float(np.abs(primal).max(initial=0.0)),
            paid=float(np.abs(state.nu) @ np.abs(primal)),
        )  # fmt: skip

    def _residuals(self, state: DesignState) -> tuple[FloatArray, FloatArray]:
        """Returns the residuals of stationarity `[n]` and of the flow `[m]`."""
        problem = self.problem
        scores = problem.atoms.scores(state.W)
        return 1 - scores - problem.KT @ state.nu - state.z, problem.k0 - problem.K @ state.d

    def step(self, state: DesignState) -> DesignState | None:
        """Returns the state after one step; None if float64 allows none."""
        try:
            block = (_Smooth if self.problem.is_smooth else _Minimax)(self.problem, state)
            solver = _Eliminated(self, block)
            first = self._direction(state, solver, block.shift(0.0), -state.d * state.z)
            centring = self._centring(state, block, first)
            share = max(centring * state.mu, min(RESIDUAL_SHARE * state.off, 10 * state.mu), self._least)
            tau = (share if self.problem.is_smooth else share / 2) / state.d.size
            shift = block.shift(share / 2 / self.problem.atoms.dimension, first)
            bent = tau - state.d * state.z - first.d * first.z * block.longest(state, first) ** 2
            way = self._direction(state, solver, shift, bent)
            found = self._searched(state, block, way, tau, FIRST_TRIES)
            if found is None:
                way = self._direction(state, solver, shift, tau - state.d * state.z)
                found = self._searched(state, block, way, tau, LAST_TRIES)
            return found
        except FAILURES:
            return None

    def _centring(self, state: DesignState, block: _Block, first: _Way) -> float:
        """Returns how far the products should fall: the less the predictor achieves, the less."""
        a = block.longest(state, first)
        after = float((state.d + a * first.d) @ (state.z + a * first.z)) / float(state.d @ state.z)
        return min(max(max(after, 0.0) ** 3, (1 - a) ** 3, LEAST_CENTRING), MOST_CENTRING)

    def _direction(
        self, state: DesignState, solver: _Eliminated, shift: FloatArray, products: FloatArray
    ) -> _Way:
        """Returns the direction towards products `d z + products`; `shift` is what W does on its own."""
        dual, primal = self._residuals(state)
        b = solver.block.right(-dual + products / state.d) + solver.C @ shift
        dv, dnu, t = solver.solve(b, primal)
        dd = dv[: state.d.size]
        way = _Way(dd, (products - state.z * dd) / state.d, dnu)
        return solver.block.follow(way, dv, t, shift)

    def _searched(
        self, state: DesignState, block: _Block, way: _Way, tau: float, tries: int
    ) -> DesignState | None:
        """Returns the state after the longest of some steps that reduces the residual enough."""
        before = self._residual(state, state, tau)
        longest = block.longest(state, way)
        a = TO_BOUNDARY * longest if longest < 1 else 1.0
        for _ in range(tries):
            following = block.moved(state, way, a)
            if following is not None:
                after = self._residual(state, following[0], tau)
                if not self.problem.is_smooth or after <= (1 - ENOUGH * a) * before:
                    return self.measured(*following)
            a /= 2
        return None

    def _residual(self, metric: DesignState, state: DesignState, tau: float) -> float:
        """Returns the squared residual of stationarity and of the products, in the metric of a step."""
        dual, _ = self._residuals(state)
        size = metric.d * metric.z
        return float(np.sum(metric.d / metric.z * dual**2) + np.sum((state.d * state.z - tau) ** 2 / size))


# The objective at one point.


class _Smooth:
    """The objective of finite order: W is its gradient G, which follows M."""

    def __init__(self, problem: DesignProblem, state: DesignState) -> None:
        self._problem = problem
        self._near = problem.coverage.local(problem.atoms.information(state.d))
        self.C, self.root = problem.atoms.vectors(self._near.basis), _root(self._near.hessian)
        self.w = state.d / state.z

    def right(self, b: FloatArray) -> FloatArray:
        return b

    def shift(self, tau: float, first: _Way | None = None) -> FloatArray:
        return np.zeros(self.root.shape[0])

    def longest(self, state: DesignState, way: _Way) -> float:
        return _longest(state, way)

    def follow(self, way: _Way, dv: FloatArray, t: FloatArray, shift: FloatArray) -> _Way:
        return way

    def moved(self, state: DesignState, way: _Way, a: float) -> tuple[DesignState, FloatArray] | None:
        """Returns the state after a step and its information matrix."""
        d = state.d + a * way.d
        M = self._problem.atoms.information(d)
        G = self._problem.coverage.gradient(M)
        if not np.isfinite(G).all():
            return None
        return replace(state, d=d, z=state.z + a * way.z, nu=state.nu + a * way.nu, W=G), M


class _Minimax:
    """The condition M - c N = X >= 0 and its multiplier W."""

    def __init__(self, problem: DesignProblem, state: DesignState) -> None:
        self._problem, self._state = problem, state
        N = problem.coverage.target
        self._X = problem.atoms.information(state.d) - state.c * N
        lower = np.linalg.cholesky(self._X)
        omega, U = np.linalg.eigh(lower.T @ state.W @ lower)
        self._omega = np.maximum(omega, SMALLEST)
        self._T = np.asarray(np.linalg.solve(lower.T, U), np.float64)
        self._i, self._j, self._weight = svec_places(len(N))
        target = self._svec(self._T.T @ N @ self._T)
        self._mean = (self._omega[self._i] + self._omega[self._j]) / 2
        self.C = np.vstack([problem.atoms.vectors(self._T), -target])
        self.root = np.sqrt(self._mean)
        self.w = np.append(state.d / state.z, state.c**2)
        self._missing = 1 / state.c - float(target @ self._svec(np.diag(self._omega)))

    def _svec(self, H: FloatArray) -> FloatArray:
        return H[self._i, self._j] * self._weight

    def _smat(self, h: FloatArray) -> FloatArray:
        H = np.zeros_like(self._X)
        H[self._i, self._j] = H[self._j, self._i] = h / self._weight
        return H

    def right(self, b: FloatArray) -> FloatArray:
        """Returns the right side with that of c."""
        return np.append(b, self._missing)

    def shift(self, tau: float, first: _Way | None = None) -> FloatArray:
        """Returns by how much W should change where M and c stay, as a vector."""
        own = tau * np.eye(len(self._X)) - np.diag(self._omega)
        if first is not None and first.X is not None and first.W is not None:
            a = self.longest(self._state, first)
            own = own - a * a * (first.X @ first.W + first.W @ first.X) / 2
        return self._svec(own)

    def follow(self, way: _Way, dv: FloatArray, t: FloatArray, shift: FloatArray) -> _Way:
        """Returns the direction with those of c and W that belong to it.

        W follows t: computed from dv, its error would be that of dv times the largest curvature, 1/tau.
        """
        X, W = self._smat(self.C.T @ dv), self._smat(shift - self.root * t)
        return replace(way, c=float(dv[-1]), X=X, W=W)

    def longest(self, state: DesignState, way: _Way) -> float:
        """Returns the longest step that keeps d, z, X, W and c non-negative."""
        assert way.X is not None
        assert way.W is not None
        root = 1 / np.sqrt(self._omega)
        least = min(
            float(np.linalg.eigvalsh(way.X)[0]), float(np.linalg.eigvalsh(root[:, None] * way.W * root)[0]),
            way.c / state.c,
        )  # fmt: skip
        return min(_longest(state, way), -1 / least if least < -1 else 1.0)

    def moved(self, state: DesignState, way: _Way, a: float) -> tuple[DesignState, FloatArray] | None:
        """Returns the state after a step and its information matrix."""
        assert way.W is not None
        d, c = state.d + a * way.d, state.c + a * way.c
        M = self._problem.atoms.information(d)
        W = state.W + a * self._T @ way.W @ self._T.T
        if not np.isfinite(W).all():
            return None
        following = replace(state, d=d, z=state.z + a * way.z, nu=state.nu + a * way.nu, c=c, W=(W + W.T) / 2)
        return following, M


_Block = _Smooth | _Minimax


def _longest(state: DesignState, way: _Way) -> float:
    """Returns the longest step that keeps d and z non-negative, at most 1."""
    least = min(float(np.min(way.d / state.d)), float(np.min(way.z / state.z)))
    return -1 / least if least < -1 else 1.0


# The equations of a step.


class _Eliminated:
    """The r equations that are left of one step, factorised."""

    def __init__(self, newton: _Newton, block: _Block) -> None:
        self._K, self._KT, self._equations = newton.K, newton.KT, newton.equations
        self.block, self.C, self._w = block, block.C, block.w
        self._CL = self.C @ block.root if block.root.ndim == 2 else self.C * block.root
        self._equations.factorise(self._w)
        right = self._K @ (self._w[:, None] * self._CL)
        self._X = self._equations.solve_columns(right)
        image = self._K @ (self._w[:, None] * (self._KT @ self._X))
        self._X = self._X + self._equations.solve_columns(right - image)  # refined once
        self._P = self._CL - self._KT @ self._X
        S = (self._P.T * self._w) @ self._P
        S.flat[:: len(S) + 1] += 1.0
        self._scale = 1 / np.sqrt(S.diagonal())
        S *= self._scale[:, None] * self._scale
        S.flat[:: len(S) + 1] += LIFT
        self._factor = cho_factor(S, lower=True, overwrite_a=True)

    def solve(self, b: FloatArray, flow: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns dd with K dd = flow, dnu and t, refined against the equations before elimination."""
        dd, dnu, t = self._once(b, flow, 0.0)
        smallest = np.inf
        for _ in range(REFINEMENTS):
            left = b - dd / self._w - self._CL @ t + self._KT @ dnu
            curve = self._CL.T @ dd - t
            size = float(np.sum(self._w * left**2) + np.sum(curve**2))
            if not 0 < size < 0.1 * smallest:
                break
            more = self._once(left, flow - self._K @ dd, curve)
            dd, dnu, t, smallest = dd + more[0], dnu + more[1], t + more[2], size
        return dd, dnu, t

    def _once(
        self, b: FloatArray, flow: FloatArray, curve: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns (dd, dnu, t) for t = L'C'dd + curve."""
        y = self._equations.solve(flow - self._K @ (self._w * b))
        free = self._w * (b + y.lift)
        t = self._scale * cho_solve(self._factor, self._scale * (self._CL.T @ free + curve))
        return free - self._w * (self._P @ t), y.x + self._X @ t, t


def _with_free_unknown(K: Matrix) -> Matrix:
    """Returns K with one more column, of zeros."""
    if isinstance(K, np.ndarray):
        return np.hstack([K, np.zeros((K.shape[0], 1))])
    return sp.csr_array(sp.hstack([K, sp.csr_array((K.shape[0], 1))], format="csr"))


def _root(H: FloatArray) -> FloatArray:
    """Returns L with L L' = H, up to a ridge."""
    H = H + RIDGE * float(np.abs(H.diagonal()).max()) * np.eye(len(H))
    try:
        return np.asarray(np.linalg.cholesky(H), np.float64)
    except np.linalg.LinAlgError:  # indefinite by rounding
        size, U = np.linalg.eigh(H)
        return np.asarray(U * np.sqrt(np.maximum(size, RIDGE * size[-1])), np.float64)
