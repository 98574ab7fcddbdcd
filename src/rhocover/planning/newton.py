"""Newton steps for every rho: predictor, centring, corrector, and a step that keeps the flow.

Linearise the equations of `interior_point` at an iterate and eliminate all but nu; with
w = d(-d)/dc = mubar c^(-kappa-1)/rho + x/c and e = z/y what is left is

    K diag(W) K' dnu = K(d + q) - k0 theta,        W = w/(1 + w e),

bordered by the mass multiplier and by theta where those are unknown (alpha = 1 without a floor). Every
other difference follows entry by entry, in forms that do not cancel when both products of a pair vanish.

Three things make it fast at every rho:
- Mehrotra's corrector, extended by the second-order term of mubar c^-kappa;
- steps of different length for primal (x, y, theta) and dual (nu, alpha, c, z) unknowns;
- the flow moves linearly. d = mubar c^-kappa + x bends with c, so a step that is exact to first order
  would throw K d off by as much as the curve bends. x takes up the difference, within a factor of ten
  of its own step. Without this rho = 8 to 1000 take two to three times as many steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.planning.factorisation import NormalEquations, Solution
from rhocover.planning.program import Program

STEP_TO_BOUNDARY = 0.99
LARGEST_LOG_STEP = 2.0  # at rho = 0 no entry of d grows by more than e^2 in a step
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
    """Returns c = 1 and x = m, so that every pair's product is tau m with tau = 1."""
    n, m = program.num_pairs, _centre(program)
    c = np.zeros(n) if program.rho == 0 else np.ones(n)
    nu = 0 * program.unit_potential if program.rho == 0 else program.unit_potential
    x = np.zeros(n) if program.rho == 0 else m.copy()
    alpha = 1.0 if program.has_mass_row and program.rho > 0 else 0.0
    theta = 1.0 if program.rho == 0 else float(point_of(program, c, x).sum())
    if program.floor == 0:
        return Iterate(nu, alpha, theta, c, x, 0.0, 0.0)
    y = np.maximum(point_of(program, c, x) - program.floor * theta, m)
    return Iterate(nu, alpha, theta, c, x, y, m / y)


def _centre(program: Program) -> FloatArray:
    """Returns m: the weights, with something positive where a weight is zero or nearly so."""
    return np.where(
        program.mu_bar > 0, np.maximum(program.mu_bar, 1e-6 / program.num_pairs), 1 / program.num_pairs
    )


def point_of(program: Program, c: FloatArray, x: FloatArray | float) -> FloatArray:
    """Returns d for these multipliers."""
    if program.rho == 0:
        return program.mu_bar * np.exp(-c)
    return program.mu_bar * c ** (-1 / program.rho) + x


class Newton:
    """Newton steps of one program: the factorisation and what belongs to it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._equations = NormalEquations(program.K)
        self._m = _centre(program)
        self._W = np.ones(program.num_pairs)
        self._is_factorised = False
        self._has_mass = program.has_mass_row and program.floor > 0
        self._has_theta = program.rho > 0 and (program.floor > 0 or not program.has_mass_row)

    @property
    def stages(self) -> dict[str, float]:
        """Seconds spent so far in each stage of the linear algebra."""
        return dict(self._equations.seconds)

    def step(self, point: Iterate) -> Iterate:
        """Returns the next iterate: predictor, centring, corrector, step to the boundary."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self._linearise(point)
            tau = _products(point) / self._scale()
            guess = self._direction(point, 0.0, Correction(), refine=False)
            sigma = self._centring(point, guess, tau)
            move = self._direction(point, sigma * tau, self._correction(point, guess, 1 - sigma))
            moved = self._moved(point, move, STEP_TO_BOUNDARY)
        if not (np.isfinite(moved.c).all() and np.isfinite(moved.x).all()):
            raise SolverError("a Newton step left the numbers that float64 can hold.")
        return moved

    def _correction(self, point: Iterate, guess: Iterate, weight: float) -> Correction:
        """Returns the second-order terms of the equations along the predictor."""
        if self._program.rho == 0:
            return Correction(0.0, weight * guess.y * guess.z, 0.0)
        kappa = 1 / self._program.rho
        bend = 0.5 * kappa * (kappa + 1) * (self._d - point.x) * (guess.c / point.c) ** 2
        return Correction(weight * guess.x * guess.c, weight * guess.y * guess.z, weight * bend)

    def project(self, d: FloatArray) -> FloatArray:
        """Returns d moved onto K d = k0 sum d by the last factorisation, and divided by its mass."""
        program = self._program
        if not self._is_factorised:
            return d
        for _ in range(2):
            residual = program.K @ d - program.k0 * d.sum()
            d = d - self._W * self._equations.solve(residual).lift
            d = d / d.sum()
        return d

    def _scale(self) -> float:
        """Returns the sum of m over all products that are relaxed."""
        num = (0 if self._program.rho == 0 else 1) + (1 if self._program.floor > 0 else 0)
        return max(num, 1) * float(self._m.sum())

    def _linearise(self, point: Iterate) -> None:
        """Sets d, w, e, W of this point, factorises, and solves for the borders."""
        program = self._program
        self._d = point_of(program, point.c, point.x)
        if program.rho == 0:
            self._w = self._d
        else:
            curvature = (self._d - point.x) / (program.rho * point.c)
            self._w = curvature + point.x / point.c
        self._e = point.z / point.y if program.floor > 0 else 0.0
        self._W = self._w / (1 + self._w * self._e)
        self._equations.factorise(self._W)
        self._is_factorised = True
        self._set_borders()

    def _set_borders(self) -> None:
        """Sets the columns and the corner that mass and theta add to K diag(W) K'."""
        program, pull = self._program, self._W * self._e * self._program.floor
        columns, corner = [], []
        down = float(np.sum(program.floor**2 * self._e / (1 + self._w * self._e)))
        if self._has_mass:
            columns.append(program.K @ self._W)
            corner.append([float(self._W.sum())])
        if self._has_theta:
            columns.append(program.k0 - (program.K @ pull if program.floor > 0 else 0.0))
            if self._has_mass:
                link = 1 - float(np.sum(pull))
                corner = [[corner[0][0], link], [link, -down]]
            else:
                corner = [[-down]]
        self._corner = np.array(corner)
        self._columns = np.array(columns).T if columns else np.zeros((program.K.shape[0], 0))
        solutions = [self._equations.solve(column) for column in columns]
        self._reduced = np.array([solution.x for solution in solutions]).T
        self._reduced_lift = np.array([solution.lift for solution in solutions]).T

    def _solve(self, flow: FloatArray, borders: list[float], refine: bool) -> tuple[Solution, FloatArray]:
        """Returns (dnu and its lift, border unknowns) of the bordered system, refined as a whole."""
        if not borders:
            return self._equations.solve(flow, refine=refine), np.zeros(0)
        right = np.array(borders)
        first, unknowns = self._solve_borders(flow, right)
        if not refine:
            return first, unknowns
        image = self._program.K @ (self._W * first.lift)
        more, extra = self._solve_borders(
            flow - image - self._columns @ unknowns,
            right - self._columns.T @ first.x - self._corner @ unknowns,
        )
        return Solution(first.x + more.x, first.lift + more.lift), unknowns + extra

    def _solve_borders(self, flow: FloatArray, right: FloatArray) -> tuple[Solution, FloatArray]:
        """Returns one block elimination of the bordered system."""
        inner = self._equations.solve(flow)
        schur = self._corner - self._columns.T @ self._reduced
        unknowns = np.linalg.solve(schur, right - self._columns.T @ inner.x)
        x = inner.x - self._reduced @ unknowns
        return Solution(x, inner.lift - self._reduced_lift @ unknowns), unknowns

    def _direction(self, point: Iterate, tau: float, second: Correction, *, refine: bool = True) -> Iterate:
        """Returns the Newton direction towards products tau m, as an iterate of differences."""
        program, floor = self._program, self._program.floor
        rd = program.KT @ point.nu + point.alpha - point.z - point.c
        rx = second.bend
        if program.rho > 0:
            rx = rx + (tau * self._m - point.x * point.c - second.x) / point.c
        rz, ry = 0.0, 0.0
        if floor > 0:
            rz = (tau * self._m - point.y * point.z - second.y) / point.y
            ry = self._d - floor * point.theta - point.y
        q = (rx - self._w * (rd - rz + self._e * ry)) / (1 + self._w * self._e)
        flow = program.K @ (self._d + q) - program.k0 * point.theta
        borders = []
        if self._has_mass:
            borders.append(float(np.sum(self._d + q)) - point.theta)
        if self._has_theta:
            total = float(program.k0 @ point.nu) + point.alpha - floor * float(np.sum(point.z))
            pull = floor * float(np.sum(rz - self._e * ry - self._e * q))
            borders.append(1 - total + pull)
        solution, unknowns = self._solve(flow, borders, refine)
        dalpha = float(unknowns[0]) if self._has_mass else 0.0
        dtheta = float(unknowns[-1]) if self._has_theta else 0.0
        lift = rd + solution.lift + dalpha
        room, pull = ry + rx - floor * dtheta, 1 + self._w * self._e
        dc = (lift - rz + self._e * room) / pull
        dy = (room - self._w * (lift - rz)) / pull if floor > 0 else 0.0
        dz = (rz - self._e * room + self._w * self._e * lift) / pull if floor > 0 else 0.0
        self._dd = rx - self._w * dc
        dx = np.zeros_like(dc) if program.rho == 0 else rx - second.bend - (point.x / point.c) * dc
        if program.rho > 0 and not self._has_theta:
            dtheta = float(np.sum(self._dd)) + float(self._d.sum()) - point.theta
        return Iterate(solution.x, dalpha, dtheta, dc, dx, dy, dz)

    def _centring(self, point: Iterate, guess: Iterate, tau: float) -> float:
        """Returns sigma: Mehrotra's cube, but tau never falls faster than the flow residual."""
        program = self._program
        if tau == 0:
            return 0.0
        left = _products(self._moved(point, guess, 1.0)) / self._scale()
        sigma = min(1.0, max(0.0, left / tau)) ** 3
        mass = float(self._d.sum())
        flow = float(np.abs(program.K @ self._d - program.k0 * mass).sum())
        return max(sigma, min(1.0, flow / max(tau * self._scale(), 1e-300)))

    def _moved(self, point: Iterate, move: Iterate, share: float) -> Iterate:
        """Returns the point moved by `share` of the way to the boundary, or by the whole step."""
        primal, dual = self._lengths(point, move)
        primal = share * primal if primal < 1 else 1.0
        dual = share * dual if dual < 1 else 1.0
        moved = Iterate(
            nu=point.nu + dual * move.nu,
            alpha=point.alpha + dual * move.alpha,
            theta=point.theta + primal * move.theta,
            c=point.c + dual * move.c,
            x=point.x + primal * move.x,
            y=point.y + primal * move.y,
            z=point.z + dual * move.z,
        )
        if share == 1 or not 0 < self._program.rho < np.inf:
            return moved
        wanted = self._d + primal * self._dd - point_of(self._program, moved.c, 0.0)
        return replace(moved, x=np.clip(wanted, SMALLEST_X * moved.x, LARGEST_X * moved.x))

    def _lengths(self, point: Iterate, move: Iterate) -> tuple[float, float]:
        """Returns how far primal and dual unknowns may go before one reaches zero, at most 1."""
        if self._program.rho == 0:
            growth = max(float(-np.min(move.c)), 1e-300)
            length = min(1.0, LARGEST_LOG_STEP / growth)
            if self._program.floor > 0:
                length = min(length, _to_zero(point.y, move.y), _to_zero(point.z, move.z))
            return length, length
        primal, dual = _to_zero(point.x, move.x), _to_zero(point.c, move.c)
        if self._program.floor > 0:
            primal = min(primal, _to_zero(point.y, move.y))
            dual = min(dual, _to_zero(point.z, move.z))
        return primal, dual


def _products(point: Iterate) -> float:
    """Returns the sum of all products that are to vanish."""
    return float(point.x @ point.c) + float(np.sum(point.y * point.z))


def _to_zero(value: FloatArray | float, move: FloatArray | float) -> float:
    """Returns the largest t <= 1 with value + t move >= 0."""
    shrink = float(np.max(-np.asarray(move) / np.asarray(value), initial=0.0))
    return 1.0 if shrink <= 1 else 1 / shrink
