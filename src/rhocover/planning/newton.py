"""Newton steps for every rho: predictor, centring, corrector, and a step that keeps the flow.

Linearise the equations of `interior_point` at an iterate and eliminate all but nu. Without a floor, with
w = -dd/dc = mubar c^(-kappa-1)/rho + x/c and the dual residual r = K'nu + alpha - c, what is left is

    K diag(w) K' dnu = K(d + q) - k0 theta,        q = (tau m - x c)/c - w r,

bordered by theta for the criteria with an inflow. (`floored` adds what a floor brings.) All other
differences follow entry by entry.

Three things make it fast at every rho:
- Mehrotra's corrector, extended by the second-order term of mubar c^-kappa;
- steps of different length for primal (x, y, theta) and dual (nu, alpha, c, z) unknowns;
- the flow moves linearly. d = mubar c^-kappa + x bends with c, so a step that is exact to first order
  would throw K d off by as much as the curve bends. x takes up the difference, within a factor of ten
  of its own step. Without this rho = 8 to 1000 take two to three times as many steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.planning.borders import Borders
from rhocover.planning.factorisation import NormalEquations
from rhocover.planning.program import Program

STEP_TO_BOUNDARY = 0.99
LARGEST_LOG_STEP = 2.0  # at rho < 1/2 no entry of d grows by more than e^2 in a step
WARM = 0.1  # of tau, at a warm start; less saves a step more near the optimum and loses many away from it
ROUGH = 1e-13  # a flow residual after projection that is more than rounding
SMALLEST_X, LARGEST_X = 0.1, 10.0  # how far x may leave its own step to keep the flow linear


@dataclass(frozen=True, eq=False)
class Iterate:
    """The unknowns. Without a floor y and z are zero; without a mass row alpha is zero."""

    nu: FloatArray
    alpha: float
    theta: float
    c: FloatArray
    x: FloatArray
    y: FloatArray | float
    z: FloatArray | float


@dataclass(frozen=True, eq=False)
class Correction:
    """Second-order terms of x c, of y z, and of the curve mubar c^-kappa."""

    x: FloatArray | float = 0.0
    y: FloatArray | float = 0.0
    bend: FloatArray | float = 0.0


def starting_point(program: Program) -> Iterate:
    """Returns nu = 0, alpha = c = 1 and x = m, so that every pair's product is tau m with tau = 1."""
    n, m, nu = program.num_pairs, centre_of(program), np.zeros(program.K.shape[0])
    if program.rho == 0:
        return Iterate(nu, 0.0, 1.0, np.zeros(n), np.zeros(n), 0.0, 0.0)
    c = np.ones(n)
    theta = float(point_of(program, c, m).sum())
    return Iterate(nu, 1.0, theta, c, m, 0.0, 0.0)


def warm_point(program: Program, nu: FloatArray) -> Iterate:
    """Returns where to start from the potential of a similar program, for rho > 0.

    Its own products would be too small to leave a wrong corner: they begin at WARM of those of a cold start.
    """
    m = centre_of(program)
    c = np.maximum(program.KT @ nu + 1.0, WARM)
    x = WARM * m / c
    return Iterate(nu, 1.0, float(point_of(program, c, x).sum()), c, x, 0.0, 0.0)


def centre_of(program: Program) -> FloatArray:
    """Returns m: the weights, with something positive where a weight is zero or nearly so."""
    n = program.num_pairs
    return np.where(program.mu_bar > 0, np.maximum(program.mu_bar, 1e-6 / n), 1 / n)


def point_of(program: Program, c: FloatArray, x: FloatArray | float) -> FloatArray:
    """Returns d for these multipliers."""
    if program.rho == 0:
        return program.mu_bar * np.exp(-c)
    if program.rho == np.inf:
        return program.mu_bar + x
    if program.rho == 2:  # a square root costs a tenth of a power
        return program.mu_bar / np.sqrt(c) + x
    return program.mu_bar * c ** (-1 / program.rho) + x


class Newton:
    """Newton steps of one program without a floor: the factorisation and what belongs to it."""

    PROJECTIONS = 2  # onto the flow equations: one solve, and one for what it rounded

    def __init__(self, program: Program) -> None:
        self._program = program
        self._equations = NormalEquations(program.K, program.KT)
        self._m = centre_of(program)
        self._num_products = float(self._m.sum())  # what tau multiplies, all products together
        self._W = np.ones(program.num_pairs)
        self._is_factorised = False
        self._borders = Borders(self._equations, program.K)
        self._has_theta = program.rho > 0 and not program.has_mass_row

    @property
    def stages(self) -> dict[str, float]:
        """Seconds spent so far in each stage of the linear algebra."""
        return dict(self._equations.seconds)

    def step(self, point: Iterate) -> Iterate:
        """Returns the next iterate: predictor, centring, corrector, step to the boundary."""
        self._linearise(point)
        tau = products_of(point) / self._num_products
        guess = self._direction(point, 0.0, Correction(), refine=False)
        sigma = self._centring(point, guess, tau)
        move = self._direction(point, sigma * tau, self._correction(point, guess, 1 - sigma))
        moved = self._moved(point, move, STEP_TO_BOUNDARY)
        if not np.isfinite(moved.c.sum() + moved.x.sum()):
            raise SolverError("a Newton step left the numbers that float64 can hold.")
        return moved

    def project(self, d: FloatArray) -> FloatArray:
        """Returns d moved onto K d = k0 sum d by the last factorisation, and divided by its mass.

        At large rho the last W runs over so many digits that this leaves more than rounding. Then the move
        is the least in proportion to d itself, which takes one more factorisation.
        """
        if not self._is_factorised:
            return d
        moved = self._projected(d)
        if self._program.missed(moved) <= ROUGH or not moved.min() > 0:
            return moved
        try:
            self._factorise(moved)
        except SolverError:
            return moved
        again = self._projected(moved)
        return (
            again if again.min() > 0 and self._program.missed(again) < self._program.missed(moved) else moved
        )

    def _projected(self, d: FloatArray) -> FloatArray:
        program = self._program
        for _ in range(self.PROJECTIONS):
            residual = program.K @ d - program.k0 * d.sum()
            d = d - self._W * self._equations.solve(residual).lift
            d = d / d.sum()
        return d

    def _linearise(self, point: Iterate) -> None:
        """Sets what predictor and corrector share, and factorises."""
        program = self._program
        self._set_slopes(point)
        self._rd = program.KT @ point.nu + (point.alpha - point.c)
        self._miss = program.K @ self._d - program.k0 * point.theta
        self._factorise(self._w)
        self._set_borders()

    def _set_borders(self) -> None:
        """Sets the columns beside the factorised matrix: here theta's, where theta is unknown."""
        if self._has_theta:
            self._borders.set(self._program.k0[:, None], np.zeros((1, 1)))

    def _set_slopes(self, point: Iterate) -> None:
        """Sets d, and how it and x answer to c."""
        program = self._program
        self._d = point_of(program, point.c, point.x)
        self._pull = point.x / point.c  # -dx/dc at a constant product
        self._w: FloatArray = self._d if program.rho == 0 else self._pull
        if 0 < program.rho < np.inf:
            self._w = self._pull + (self._d - point.x) / (program.rho * point.c)

    def _factorise(self, W: FloatArray) -> None:
        self._W = W
        self._equations.factorise(W)
        self._borders.W = W
        self._is_factorised = True

    def _correction(self, point: Iterate, guess: Iterate, weight: float) -> Correction:
        """Returns the second-order terms of the equations along the predictor."""
        if self._program.rho == 0:
            return Correction()
        if self._program.rho == np.inf:
            return Correction(weight * guess.x * guess.c)
        kappa = 1 / self._program.rho
        bend = 0.5 * kappa * (kappa + 1) * (self._d - point.x) * (guess.c / point.c) ** 2
        return Correction(weight * guess.x * guess.c, bend=weight * bend)

    def _product_step(self, point: Iterate, tau: float, second: Correction) -> FloatArray | float:
        """Returns what x and the curve contribute to d at constant c."""
        if self._program.rho == 0:
            return 0.0
        return (tau * self._m - second.x) / point.c - point.x + second.bend

    def _direction(self, point: Iterate, tau: float, second: Correction, *, refine: bool = True) -> Iterate:
        """Returns the Newton direction towards products tau m, as an iterate of differences."""
        program = self._program
        rx = self._product_step(point, tau, second)
        flow = self._miss + program.K @ (rx - self._w * self._rd)
        dtheta = 0.0
        if self._has_theta:
            solution, unknowns = self._borders.solve(
                flow, [1 - point.alpha - float(program.k0 @ point.nu)], refine
            )
            dtheta = float(unknowns[0])
        else:
            solution = self._equations.solve(flow, refine=refine)
        dc = self._rd + solution.lift
        self._dd = rx - self._w * dc
        dx = 0.0 * dc if program.rho == 0 else rx - second.bend - self._pull * dc
        if program.rho > 0 and not self._has_theta:
            dtheta = float(self._dd.sum() + self._d.sum()) - point.theta
        return Iterate(solution.x, 0.0, dtheta, dc, dx, 0.0, 0.0)

    def _centring(self, point: Iterate, guess: Iterate, tau: float) -> float:
        """Returns sigma: Mehrotra's cube, but tau never falls faster than the flow residual."""
        if tau == 0:
            return 0.0
        left = products_of(self._moved(point, guess, 1.0)) / self._num_products
        sigma = min(1.0, max(0.0, left / tau)) ** 3
        flow = self._program.missed(self._d) * float(self._d.sum())
        return max(sigma, min(1.0, flow / max(tau * self._num_products, 1e-300)))

    def _moved(self, point: Iterate, move: Iterate, share: float) -> Iterate:
        """Returns the point moved by `share` of the way to the boundary, or by the whole step."""
        primal, dual = self._lengths(point, move)
        primal = share * primal if primal < 1 else 1.0
        dual = share * dual if dual < 1 else 1.0
        c, x = point.c + dual * move.c, point.x + primal * move.x
        if share < 1 and 0 < self._program.rho < np.inf:
            wanted = self._d + primal * self._dd - point_of(self._program, c, 0.0)
            x = np.minimum(np.maximum(wanted, SMALLEST_X * x), LARGEST_X * x)
        return Iterate(
            nu=point.nu + dual * move.nu,
            alpha=point.alpha + dual * move.alpha,
            theta=point.theta + primal * move.theta,
            c=c,
            x=x,
            y=point.y + primal * move.y,
            z=point.z + dual * move.z,
        )

    def _lengths(self, point: Iterate, move: Iterate) -> tuple[float, float]:
        """Returns how far primal and dual unknowns may go before one reaches zero, at most 1."""
        if self._program.rho == 0:
            growth = max(-float(move.c.min()), 1e-300)
            length = min(1.0, LARGEST_LOG_STEP / growth)
            return length, length
        dual = to_zero(point.c, move.c)
        if self._program.rho < 0.5:  # c^-kappa grows faster than any step to the boundary foresees
            fall = max(-float((move.c / point.c)[self._program.coverage.support].min()), 1e-300)
            dual = min(dual, LARGEST_LOG_STEP * self._program.rho / fall)
        return to_zero(point.x, move.x), dual


def products_of(point: Iterate) -> float:
    """Returns the sum of all products that are to vanish."""
    return float(point.x @ point.c) + float(np.sum(point.y * point.z))


def to_zero(value: FloatArray, move: FloatArray) -> float:
    """Returns the largest t <= 1 with value + t move >= 0."""
    shrink = -float((move / value).min())
    return 1.0 if shrink <= 1 else 1 / shrink
