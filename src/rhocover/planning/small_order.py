"""Newton steps below rho = 1/2: straight down the dual bound.

There d = mubar c^-kappa, kappa = 1/rho > 2, leaves 0 so steeply that it keeps c positive alone, and the x of
`newton` would only hold it up. Without x the best multipliers minimise one smooth function,

    G(nu) = log( sum_i mubar_i c_i^(1-kappa) ) / (kappa - 1),        c = K'nu + 1,

convex because (1 - kappa) log c is; -G is the certified lower bound. With p_i its normalised terms the
gradient is -K(p/c), and p/c is d up to its scale. A Newton step of the sum has the same direction as one of
its logarithm, only the length differs, and by many orders of magnitude where weights are spread widely. So
each step goes to the lowest point of G along the direction, found from its slope -<p/c, dc>.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.planning.newton import Correction, Iterate, Newton, point_of
from rhocover.planning.program import Program

SMALL_ORDER = 0.5
LONGEST = 1e6  # Newton steps of the sum that one step of its logarithm may be
NEAR_ZERO = 1 - 1e-9  # of the way to c = 0, at most
HALVINGS = 60
ROUNDING = 1e-12  # of a slope, whose terms add up to about 1
FLAT = 1e-3  # a slope of this share of the first is flat enough: the next step does the rest


def is_small_order(program: Program) -> bool:
    """Whether these steps apply: no x is needed, and nothing but nu is unknown."""
    is_plain = not program.has_floor and not (program.has_mass_row and bool(program.k0.any()))
    return is_plain and 0 < program.rho < SMALL_ORDER and bool(program.coverage.support.all())


def small_order_start(program: Program) -> Iterate:
    """Returns nu = 0, c = 1, x = 0."""
    c = np.ones(program.num_pairs)
    return Iterate(np.zeros(program.K.shape[0]), 1.0, 1.0, c, np.zeros_like(c), 0.0, 0.0)


class SmallOrderNewton(Newton):
    """The steps of a program at 0 < rho < 1/2 with weights everywhere."""

    def step(self, point: Iterate) -> Iterate:
        """Returns the lowest point along the Newton direction."""
        self._linearise(point)
        move = self._direction(point, 0.0, Correction())
        length = self._lowest(point.c, move.c)
        c, nu = point.c + length * move.c, point.nu + length * move.nu
        if not np.isfinite(c.sum()) or not (c > 0).all():
            raise SolverError("a Newton step left the numbers that float64 can hold.")
        theta = float(point_of(self._program, c, 0.0).sum())
        return Iterate(nu, point.alpha, theta, c, point.x, 0.0, 0.0)

    def _lowest(self, c: FloatArray, dc: FloatArray) -> float:
        """Returns t > 0 near the minimum of G(c + t dc): a bracket is grown, then halved."""
        fall = -float((dc / c).min())
        end = min(LONGEST, NEAR_ZERO / fall if fall > 0 else LONGEST)
        first = self._slope(c, dc, 0.0)
        if first > -ROUNDING:  # the end: what is left of the slope is rounding
            return min(1.0, 0.5 * end)
        low, high, t = 0.0, np.inf, min(1.0, 0.5 * end)
        for _ in range(HALVINGS):
            slope = self._slope(c, dc, t)
            if abs(slope) <= -FLAT * first:
                break
            low, high = (t, high) if slope < 0 else (low, t)
            t = 0.5 * (low + high) if high < np.inf else min(4 * t, 0.5 * (t + end))
        return t

    def _slope(self, c: FloatArray, dc: FloatArray, t: float) -> float:
        """Returns the slope of G at t; the terms are divided by the largest, for they leave float64."""
        there = c + t * dc
        log_term = self._program.coverage.log_mu_bar + (1 - 1 / self._program.rho) * np.log(there)
        p = np.exp(log_term - log_term.max())
        return -float((p / there) @ dc) / float(p.sum())
