"""The best addition to existing visits: the occupancy psi whose union with them has the best coverage.

There are N visits T, and a budget of m more. Whatever policy collects them, in the long run its visits are
m psi with an occupancy psi, so the union's shares are

    d = (1 - w) T/N + w psi,      w = m/(N + m),   psi in D.

At a finite rho psi is found by Newton steps along a barrier, at rho = inf by a linear program. In both cases
the best response of D certifies how far the result is from the best possible: no union earns more of a reward
r than <r, before> + w max <r, psi>, with before = (1 - w) T/N.

**Newton steps along a barrier.** With beta = visits/m, the visits so far in units of the m new ones, the
union's shares are w (beta + psi), and

    min  D_rho(mubar || w (beta + psi)),     psi in D,

is convex in psi. beta may dwarf psi by nine orders of magnitude for one pair and vanish for another, so
psi itself is the unknown and beta only enters the derivatives: with p the divergence's normalised terms
and q = p/(beta + psi), the gradient is -q and the Hessian rho diag(p/(beta + psi)^2) - (rho - 1) q q'. At
rho = 0 the gradient is log((beta + psi)/mubar) and the Hessian diag(1/(beta + psi)).

The uniform policy's occupancy lies inside D; from there

    min  t D / scale - sum_i log(psi_i) / n,     K psi = 0, 1'psi = 1,

is followed as t grows; its solutions are within scale/t of the best. Every step stays in D, so whatever
stops the method, psi is an occupancy; the certificate says how far it is from the best. Line searches use
slopes, because where new visits hardly change the divergence, differences of its values are only rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, SolverError
from rhocover.linalg.normal_equations import Borders, NormalEquations, one_blas_thread
from rhocover.linear_program import LinearProgram
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, make_oracle
from rhocover.oracles.response import gradient_reward
from rhocover.planning.program import Program, make_program

# Newton steps along a barrier.

GROWTH = 20.0  # of t, from one centre to the next
CENTRED = 0.1  # squared Newton decrement at which t may grow
EXACT = 1e-8  # and at the end, where it matters for the certificate
MAX_STEPS = 300
ROUNDING = 1e-12  # of the scale: float64 cannot resolve less
NEAR_ZERO = 0.99  # of the way to the boundary, at most


@dataclass(frozen=True, eq=False)
class _Derivatives:
    """Of D at a psi, in units of the scale: gradient -q, Hessian diag(h) - c q q'."""

    q: FloatArray
    h: FloatArray
    c: float


def best_psi(
    program: Program, start: FloatArray, beta: FloatArray, share: float, *, tol: float
) -> FloatArray:
    """Returns the psi whose union with `beta` has the smallest divergence, to about `tol` nats.

    `start` is an occupancy that visits every pair; `share` is w.
    """
    solver = _Barrier(program, beta, share, start)
    psi, t, last = start, 1.0, max(tol / solver.scale, ROUNDING)
    for _ in range(MAX_STEPS):
        try:
            with np.errstate(all="ignore"):  # overflow is detected by its value
                way, decrement = solver.direction(psi, t)
                moved = solver.moved(psi, way, t)
        except (SolverError, np.linalg.LinAlgError):
            break
        if not np.isfinite(moved).all() or not moved.min() > 0:
            break
        psi = moved
        if 1 / t <= last and decrement <= EXACT:
            break
        if 1 / t > last and decrement <= CENTRED:
            t *= GROWTH
    return psi


class _Barrier:
    """Derivatives and Newton directions of one problem."""

    def __init__(self, program: Program, beta: FloatArray, share: float, start: FloatArray) -> None:
        self._program, self._beta, self._share = program, beta, share
        self._equations = NormalEquations(program.K, program.KT)
        self._borders = Borders(self._equations, program.K)
        self.scale = 1.0  # how much the gradient differs between pairs, which new visits can change
        self.scale = max(float(np.ptp(self._derivatives(start).q)), 1e-300)
        self._each = 1 / program.num_pairs
        self._price = np.zeros(program.num_pairs)  # K'nu + alpha, an upper bound on q

    def direction(self, psi: FloatArray, t: float) -> tuple[FloatArray, float]:
        """Returns the Newton direction, which does not change flow and mass, and the squared decrement.

        The multipliers of the last step are subtracted from the gradient first: near the optimum they are
        almost all of it, and the rest would be lost in their rounding.
        """
        found = self._derivatives(psi)
        gradient = -t * (found.q - self._price) - self._each / psi
        W = 1 / (t * found.h + self._each / psi**2)
        c = t * found.c
        self._factorise(W, found.q, c)
        right = [-float(W @ gradient)] + ([c * float((W * found.q) @ gradient)] if c else [])
        solution, unknowns = self._borders.solve(-(self._program.K @ (W * gradient)), right, True)
        pull = solution.lift + unknowns[0]
        self._price = self._price + pull / t
        way = -W * (gradient + pull - (c * unknowns[1] * found.q if c else 0.0))
        return way, -float(gradient @ way)

    def moved(self, psi: FloatArray, way: FloatArray, t: float) -> FloatArray:
        """Returns psi moved along the direction until the objective stops falling, or almost."""
        fall = -float((way / psi).min())
        length = min(1.0, NEAR_ZERO / fall if fall > 0 else 1.0)
        first = self._slope(psi, way, t)
        while length > 1e-12 and self._slope(psi + length * way, way, t) > -0.5 * first:
            length *= 0.5
        return psi + length * way

    def _slope(self, psi: FloatArray, way: FloatArray, t: float) -> float:
        return -float((t * (self._derivatives(psi).q - self._price) + self._each / psi) @ way)

    def _factorise(self, W: FloatArray, q: FloatArray, c: float) -> None:
        """Borders K W K' by the mass and, if the Hessian has one, by the rank-one term."""
        self._equations.factorise(W)
        self._borders.W = W
        K, Wq = self._program.K, W * q
        columns, corner = [K @ W], np.array([[W.sum()]])
        if c:
            columns.append(-c * (K @ Wq))
            both = -c * float(Wq.sum())
            corner = np.array([[W.sum(), both], [both, c * c * float(Wq @ q) - c]])
        self._borders.set(np.array(columns).T.reshape(K.shape[0], len(columns)), corner)

    def _derivatives(self, psi: FloatArray) -> _Derivatives:
        coverage, d = self._program.coverage, self._beta + psi
        if coverage.rho == 0:
            log_ratio = coverage.log_mu_bar - np.log(self._share * d)
            return _Derivatives(log_ratio / self.scale, 1 / d / self.scale, 0.0)
        p = _terms(coverage, d)
        q = p / d
        h = coverage.rho * q / d
        return _Derivatives(q / self.scale, h / self.scale, (coverage.rho - 1) * self.scale)


def _terms(coverage: Coverage, d: FloatArray) -> FloatArray:
    """Returns p, the softmax of rho log mubar + (1 - rho) log d, 0 without weight."""
    log_p = np.full(d.shape, -np.inf)
    k = coverage.support
    log_p[k] = coverage.rho * coverage.log_mu_bar[k] + (1 - coverage.rho) * np.log(d[k])
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


# The addition and its certificate.


@dataclass(frozen=True, eq=False)
class Addition:
    """The occupancy `psi` to add, the union's shares `d`, its divergence and a certified gap, in nats."""

    psi: FloatArray
    d: FloatArray
    divergence: float
    gap: float


def best_addition(
    members: Occupancies, coverage: Coverage, visits: Any, num_steps: int, *, tol: float = 1e-6
) -> Addition:
    """Returns the occupancy whose `num_steps` visits make the best union with `visits` `[n]`."""
    if members.criterion != "average":
        raise InvalidArgumentError.of("members", "must be of the average criterion, because data is")
    visits = np.asarray(visits, float)
    total = float(visits.sum()) + num_steps
    before, share = visits / total, num_steps / total
    oracle = make_oracle(members)
    with one_blas_thread():
        if coverage.rho == np.inf:
            return _worst_case(members, coverage, before, share, oracle)
        start = members.from_policy(1 / np.bincount(members.node)[members.node])
        program = make_program(members, coverage)
        psi = best_psi(program, start, visits / num_steps, share, tol=0.5 * tol * share)
    return _certified(coverage, _occupancy(members, psi), before, share, oracle)


def _occupancy(members: Occupancies, psi: FloatArray) -> FloatArray:
    """Returns the occupancy of psi's policy, which has no residual flow from rounding."""
    return members.from_policy(members.to_policy(np.maximum(psi, 0.0)))


def _certified(
    coverage: Coverage, psi: FloatArray, before: FloatArray, share: float, oracle: Oracle
) -> Addition:
    """Returns the addition with its certified gap: how much more the best response earns than psi.

    It is computed as a difference, because the new visits' part may be a tiny part of the whole reward.
    """
    d = before + share * psi
    reward, divergence = gradient_reward(coverage, d), coverage.divergence_unchecked(d)
    more = share * max(oracle.respond(reward).upper_bound - float(reward @ psi), 0.0)
    gap = more if coverage.rho == 0 else float(np.log1p(more))
    return Addition(frozen(psi), frozen(d), divergence, gap)


def _worst_case(
    members: Occupancies, coverage: Coverage, before: FloatArray, share: float, oracle: Oracle
) -> Addition:
    """Returns the addition with the largest t such that every pair of the union has t of its share.

    With t_0 the least share before and t = t_0 + w u, a pair requires psi_i - mubar_i u >= -(what it has
    above t_0)/w: these numbers are near 1 however small w is. The pair at t_0 bounds u by 1/mubar.
    """
    A, b = members.equations()
    support = np.flatnonzero(coverage.support)
    mu, n, k = coverage.mu_bar[support], members.num_pairs, support.size
    pick = sp.csr_array((np.ones(k), (np.arange(k), support)), shape=(k, n))
    matrix = sp.csr_array(
        sp.block_array([[A, None, None], [pick, sp.csr_array(-mu[:, None]), -sp.eye_array(k)]])
    )
    ratio = before[support] / mu
    ahead = np.minimum((before[support] - mu * ratio.min()) / share, 2 * mu / mu[ratio.argmin()])
    right = np.concatenate([b, -ahead])
    costs = np.zeros(n + 1 + k)
    costs[n] = 1.0
    solution = LinearProgram(matrix, right, 0.0).solve(costs)
    psi = np.maximum(solution.x[:n], 0.0)
    psi /= psi.sum()
    d = before + share * psi
    weights = np.zeros(n)
    weights[support] = np.abs(solution.dual[-k:]) * mu
    bound = _certified_level(coverage, before, share, weights, oracle)
    divergence = coverage.divergence_unchecked(d)
    return Addition(frozen(psi), frozen(d), divergence, float(max(divergence + np.log(bound), 0.0)))


def _certified_level(
    coverage: Coverage, before: FloatArray, share: float, weights: FloatArray, oracle: Oracle
) -> float:
    """Returns an upper bound on the least share of every union: a mean over pairs, with any weights."""
    if not weights.any():
        return np.inf
    reward = np.zeros(weights.size)
    used = weights > 0
    reward[used] = weights[used] / weights.sum() / coverage.mu_bar[used]
    return float(reward @ before) + share * oracle.respond(reward).upper_bound
