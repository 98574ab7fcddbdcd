"""Limits for every explorer: the fluctuation of the suboptimality, and the limit of its controllable part.

All values are in units of U_rho with normalised weights. Prices g = lambda + A'h support the optimum: for
every d, on or off the set of occupancies,

    U(d) <= <g, d> + U^(g),      U^(g) = max_d U(d) - <g, d>                       (Fenchel-Young).

Over occupancies <g, d> = lambda, so lambda + U^(g) bounds U* from above, with equality at the best
prices. For visits d_hat of n steps <A'h, d_hat> telescopes, under any behaviour, to

    xi = lambda + U^(g) - U(d_hat) = Breg - (1/n) [h(s_1) - h(s_{n+1}) + M_n],
    Breg = <g, d_hat> + U^(g) - U(d_hat) >= 0,      M_n = sum_t h(s_{t+1}) - (P h)(s_t, a_t).

M_n is a martingale that no behaviour can influence: xi fluctuates by sigma/sqrt(n), sigma^2 = sum_i d*_i
Var_{P_i}(h), and is negative half of the time for a good explorer. Breg is what can be controlled (at
finite rho it is the Bregman distance of d_hat from d*), and it, too, has a floor, because the flow
residual of d_hat is a random walk: liminf n E[Breg] >= kappa_min for every behaviour, if all weights are
positive and rho is finite (docs/limit.md has the proof),

    kappa_min = 1/2 tr[(B H^-1 B')^-1 Sigma_W],   H = diag(rho mubar^rho / d*^(rho+1)),
    Sigma_W = sum_i d*_i (diag P_i - P_i P_i').

Prices come from a plan's dual potential, so the identity holds up to rounding however accurate the plan is.
At rho = inf there is no curvature and no kappa_min; sigma is that of the prices found.

**Projection** (`FlowProjection`): the smallest vector with a given flow residual. For B = [A; 1'] (the flow
equations of the average criterion and the mass), a diagonal metric H = 1/W and a right side r, the vector g
with B g = r and the smallest g'Hg is

    g = W B' (B W B')^-1 r,     g'Hg = r' (B W B')^-1 r.

So I - W B' (B W B')^-1 B projects onto the directions that do not change flow and mass, orthogonally in H.

**Exponents** (`measured_exponent`): how regret falls with time, by least squares in logarithms.
log regret = intercept + slope log t is fitted for each run separately. The exponent is the mean of the
runs' slopes, its standard error that of the mean: times within one run depend on each other, runs do not.
A single run has only the least-squares error of its own fit, which assumes independent residuals and is too
small.

**Pathwise optima** (`PathwiseProblem`). The visits d_hat of a run of finite length are not an occupancy: the
inflow and outflow of a state differ by the run's two ends and by chance, A d_hat = b. No explorer controls b,
so it should be compared with the best point with the same residual,

    max { U_rho(d) : A d = A d_hat, 1'd = 1, d >= 0 },

and the distance of d_hat from it is its pathwise regret. The same interior-point method solves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, Matrix, frozen
from rhocover.coverage import Coverage, log_sum_exp
from rhocover.errors import InvalidArgumentError
from rhocover.linalg.normal_equations import NormalEquations, one_blas_thread
from rhocover.occupancy import Occupancies
from rhocover.planning.interior_point import interior_point
from rhocover.planning.program import Program, dual_bound, make_program, slack_of_point

# Projection.

DENSE_STATES = 256  # up to this many states the inverse is a small dense matrix


class FlowProjection:
    """Least-norm corrections over the pairs of one set, for one vector of weights W > 0, `[n]`."""

    def __init__(self, members: Occupancies, W: FloatArray) -> None:
        self._K = members.flow[:-1]
        self.W = W / float(W.max())
        self._size = float(W.max())
        self._equations = NormalEquations(self._K)
        self._equations.factorise(self.W)
        self._column = self._equations.solve(self._K @ self.W)
        self._rest = float(self.W.sum()) - float((self._K @ self.W) @ self._column.x)

    def explained(self, v: FloatArray, *, refine: bool = True) -> FloatArray:
        """Returns the least-norm g with B g = B v: the part of v that is forced by flow and mass."""
        return self._least_norm(self._K @ v, float(v.sum()), refine)

    def energy(self, flow: FloatArray) -> float:
        """Returns r'(B W B')^-1 r for r = (flow without its last row, 0)."""
        g = self._least_norm(flow, 0.0, True)
        return float(g @ (g / self.W)) / self._size

    def inverse(self) -> FloatArray:
        """Returns (B W B')^-1 as a dense matrix `[S, S]`, W scaled as in `W`, the mass last."""
        num_states = self._K.shape[0] + 1
        columns = []
        for row in np.eye(num_states):
            inner = self._equations.solve(row[:-1])
            alpha = (row[-1] - float(self.W @ inner.lift)) / self._rest
            columns.append(np.append(inner.x - alpha * self._column.x, alpha))
        return np.array(columns).T.copy()

    def _least_norm(self, flow: FloatArray, mass: float, refine: bool) -> FloatArray:
        inner = self._equations.solve(flow, refine=refine)
        alpha = (mass - float(self.W @ inner.lift)) / self._rest
        return self.W * (inner.lift + alpha * (1 - self._column.lift))


# Limits.

EXACT_STATES = 1500  # up to this size kappa_min is an exact trace, above it a mean over random probes
PROBES, FEWEST, SOLVED_STATES = 200, 20, 2_000_000  # number of probes; fewer for very large models
NEAR_ONE = 1e-6  # near rho = 1, 1/(1-rho) in U costs the digits of differences: U_1 is used instead
LARGEST_LOG = 600.0  # beyond e^600 U itself leaves float64
LEAST_CURVATURE = 1e-10  # of the largest; pairs without weight have none, and can absorb any residual


@dataclass(frozen=True, eq=False)
class Limits:
    """Prices of an optimum and what follows from them; `potential` is h `[S]`, `price` is g `[n]`.

    Where U itself leaves float64 (large rho, far from the target) all numbers are nan.
    """

    coverage: Coverage  # with weights that sum to 1
    level: float  # lambda
    price: FloatArray
    potential: FloatArray
    conjugate: float  # U^(g)
    sigma: float
    kappa_min: float  # nan at rho = inf
    kappa_error: float  # standard error of kappa_min; 0 where it is exact

    @property
    def value(self) -> float:
        """An upper bound on U* over occupancies, tight up to the plan's gap."""
        return self.level + self.conjugate

    def suboptimality(self, d_hat: FloatArray) -> float:
        """Returns xi, the paper's U* - U(d_hat); of either sign for visits of a finite run."""
        return self.value - self.coverage.value(d_hat)

    def bregman(self, d_hat: FloatArray) -> float:
        """Returns the controllable part of the suboptimality, >= 0 up to rounding."""
        return float(self.price @ d_hat) + self.conjugate - self.coverage.value(d_hat)


def find_limits(members: Occupancies, coverage: Coverage, d_star: FloatArray, nu: FloatArray) -> Limits:
    """Returns the limits for an average-criterion set, from a plan's occupancy `[n]` and potential `[S]`."""
    rho = 1.0 if abs(coverage.rho - 1) <= NEAR_ONE else coverage.rho
    coverage = Coverage(rho, coverage.mu_bar)
    level, scale = _scaled_prices(members, coverage, nu)
    h = scale * nu
    price = level + members.flow.T @ h
    price = price if coverage.rho == 0 else np.maximum(price, 0.0)
    conjugate = _conjugate(coverage, price) if np.isfinite(scale) else np.nan
    kappa, error = _kappa_min(members, coverage, d_star)
    return Limits(
        coverage, level, frozen(price), frozen(h), conjugate, _sigma(members, d_star, h), kappa, error
    )


def _scaled_prices(members: Occupancies, coverage: Coverage, nu: FloatArray) -> tuple[float, float]:
    """Returns (lambda, scale) so that lambda + scale A'nu are the best prices along this potential."""
    rho, lift, k = coverage.rho, members.flow.T @ nu, coverage.support
    if rho == 0:
        return log_sum_exp(coverage.log_mu_bar - 1 - lift), 1.0
    total = 1.0 + max(0.0, -1.0 - float(lift.min()))  # prices y = total + A'nu >= 0
    log_total, log_scale = float(np.log(total)), -float(np.log(total))
    if rho != 1:
        power = 1.0 if rho == np.inf else (rho - 1) / rho
        with np.errstate(divide="ignore"):
            log_y = np.log(np.maximum(total + lift[k], 0.0))
        log_sum = log_sum_exp(coverage.log_mu_bar[k] + power * log_y)
        log_scale = log_sum - 2 * log_total if rho == np.inf else rho * (log_sum - log_total)
    if not abs(log_scale) <= LARGEST_LOG:
        return np.nan, np.nan
    scale = float(np.exp(log_scale))
    return scale * total, scale


def _conjugate(coverage: Coverage, price: FloatArray) -> float:
    """Returns max_d U(d) - <price, d> over d >= 0."""
    rho, k = coverage.rho, coverage.support
    mu, g = coverage.mu_bar[k], price[k]
    if rho == 0:
        return float(np.sum(mu * np.exp(-1 - g)))
    if rho == np.inf:
        return -2 * float(np.sqrt(g @ mu))
    with np.errstate(divide="ignore"):
        if rho == 1:
            return float(np.sum(mu * (np.log(mu) - np.log(g) - 1)))
        return rho / (1 - rho) * float(np.sum(mu * g ** ((rho - 1) / rho)))


def _sigma(members: Occupancies, d_star: FloatArray, h: FloatArray) -> float:
    P = members.mdp.transitions
    centred = h - float(h.mean())
    size = float(np.abs(centred).max()) or 1.0  # squares of h itself may leave float64
    centred = centred / size
    variance = P @ centred**2 - (P @ centred) ** 2
    return size * float(np.sqrt(np.sum(d_star * np.maximum(variance, 0.0))))


def _kappa_min(members: Occupancies, coverage: Coverage, d_star: FloatArray) -> tuple[float, float]:
    """Returns (kappa_min, its standard error)."""
    if coverage.rho == np.inf:
        return np.nan, np.nan
    log_H = coverage.log_curvature(np.maximum(d_star, 1e-300))
    top = float(log_H.max())
    if not abs(top) <= LARGEST_LOG:
        return np.nan, np.nan
    projection = FlowProjection(members, np.exp(-np.maximum(log_H, top + np.log(LEAST_CURVATURE))))
    if members.mdp.num_states <= EXACT_STATES:
        return _exact_trace(projection, members.mdp.transitions, d_star), 0.0
    return _probed_trace(projection, members.mdp.transitions, d_star)


def _exact_trace(projection: FlowProjection, P: Matrix, d_star: FloatArray) -> float:
    """Returns half the trace, one eigenvector of Sigma_W at a time."""
    weighted = P.multiply(d_star[:, None]).tocsr()
    covariance = np.diag(np.asarray(weighted.sum(axis=0)).ravel()) - (P.T @ weighted).toarray()
    values, vectors = np.linalg.eigh(covariance)
    used = [k for k in range(values.size) if values[k] > 1e-15]
    return 0.5 * float(np.sum([values[k] * projection.energy(vectors[:-1, k]) for k in used]))


def _probed_trace(projection: FlowProjection, P: Matrix, d_star: FloatArray) -> tuple[float, float]:
    """Returns the mean of half the energy of random residuals of covariance Sigma_W, and its error."""
    generator = np.random.default_rng(0)
    probes = max(FEWEST, min(PROBES, SOLVED_STATES // P.shape[1]))
    energies = [0.5 * projection.energy(_residual(generator, P, d_star)[:-1]) for _ in range(probes)]
    return float(np.mean(energies)), float(np.std(energies, ddof=1) / np.sqrt(probes))


def _residual(generator: np.random.Generator, P: Matrix, d_star: FloatArray) -> FloatArray:
    """Returns a normal vector `[S]` of covariance sum_i d_i (diag P_i - P_i P_i')."""
    root, pair = np.sqrt(P.data), np.repeat(np.arange(d_star.size), np.diff(P.indptr))
    noise = root * generator.standard_normal(root.size)
    total = np.bincount(pair, weights=noise, minlength=d_star.size)
    spread = np.sqrt(d_star)[pair] * (noise - P.data * total[pair])
    return np.bincount(P.indices, weights=spread, minlength=P.shape[1]).astype(float)


# Exponents.


class Exponent(NamedTuple):
    """A fitted exponent, its standard error, and how many entries could not be used."""

    slope: float
    standard_error: float
    num_left_out: int


def measured_exponent(t: Any, regret: Any) -> Exponent:
    """Returns (slope, standard error, entries left out) of log regret over log t.

    `t` is `[times]`, `regret` `[times]` or `[runs, times]`. Entries that are not positive and finite have no
    logarithm: they are left out and counted. Many of them bias the slope upwards (the smallest are
    missing), so check the count. A run with fewer than two remaining entries is left out entirely.

    >>> slope, error, left_out = measured_exponent([10, 100, 1000], [[3e-1, 3e-2, 3e-3], [1e-1, 1e-2, 1e-3]])
    >>> print(f"{slope:.3f} +- {error:.3f}, {left_out} left out")
    -1.000 +- 0.000, 0 left out
    """
    log_t = np.log(_checked_times(t))
    curves = np.atleast_2d(checks.real_array(regret, "regret"))
    checks.check_shape(curves.shape, "regret", (None, log_t.size))
    usable = np.isfinite(curves) & (curves > 0)
    usable &= (usable.sum(axis=1) >= 2)[:, None]
    fits = [_line(log_t[k], np.log(curve[k])) for curve, k in zip(curves, usable, strict=True) if k.any()]
    if not fits:
        raise InvalidArgumentError.of(
            "regret", "must have a run with at least two positive, finite entries", "none"
        )
    slope, error = np.array(fits).T
    if len(fits) > 1:
        error = slope.std(ddof=1) / math.sqrt(len(fits))
    return Exponent(float(slope.mean()), float(np.ravel(error)[0]), int((~usable).sum()))


def _checked_times(t: Any) -> FloatArray:
    t = checks.float_array(t, "t", (None,))
    if not (t > 0).all() or np.unique(t).size < max(t.size, 2):
        raise InvalidArgumentError.of("t", "must hold at least two times, positive and all different")
    return t


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Returns the slope of the least-squares line and its standard error; nan for two points."""
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    freedom = x.size - 2
    return slope, math.sqrt(residual @ residual / freedom / (x @ x)) if freedom else math.nan


# Pathwise optima.

MAX_STEPS = 100


@dataclass(frozen=True, eq=False)
class Pathwise:
    """The best point with a given flow residual, per pair, its divergence, and a certified gap."""

    occupancy: FloatArray
    divergence: float
    gap: float  # certified: no point with this residual has a divergence below divergence - gap


class PathwiseProblem:
    """Pathwise optima of one average-criterion set and one objective, for many visits."""

    def __init__(self, members: Occupancies, coverage: Coverage) -> None:
        self._members = members
        self._program = make_program(members, coverage)

    def best(self, d_hat: FloatArray, *, tol: float = 1e-9) -> Pathwise:
        """Returns the best point with the flow residual of `d_hat`, which is positive where mu is."""
        program = self._shifted(d_hat)
        with one_blas_thread():
            end = interior_point(program, tol=0.5 * tol, max_steps=MAX_STEPS)
        d = np.maximum(end.d, 0.0)
        divergence = program.coverage.divergence_unchecked(d)
        slack = slack_of_point(program, end.multipliers, d)
        gap = max(divergence - dual_bound(program, end.multipliers), 0.0) + slack
        return Pathwise(d, divergence, gap if np.isfinite(gap) else np.inf)

    def _shifted(self, d_hat: FloatArray) -> Program:
        return replace(self._program, k0=self._program.K @ d_hat)
