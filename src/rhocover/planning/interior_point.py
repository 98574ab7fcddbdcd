"""One primal-dual interior-point method for every rho from 0 to infinity.

The optimum over the cone {K d = k0 theta, d >= floor theta} is stationary with multipliers (nu, alpha, z):

    c = K'nu + alpha - z >= 0,      d = mubar c^-kappa + x,     kappa = 1/rho,
    x >= 0,  x c = 0,               y = d - floor theta >= 0,   z >= 0,  y z = 0,
    K d = k0 theta,                 k0'nu + alpha - floor sum z = 1.

For finite rho the objective is its own barrier and x vanishes; kappa = 0 is exactly the minimax linear
program (d = mubar + x), so one code covers both ends. At rho = 0 stationarity is d = mubar exp(-c) with
theta = 1. Products are relaxed to tau m and driven to zero by Newton steps with Mehrotra's
predictor-corrector; eliminating everything but nu leaves one system with K diag(W) K' per step.
`mass` and `theta` are bordered, and only where they are unknown: alpha = 1 without a floor.

Two details decide whether it works for rho in [8, 1000]: tau never falls faster than the flow residual,
and the second-order correction is scaled by (1 - sigma)^2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.planning.certificate import Multipliers, dual_bound
from rhocover.planning.factorisation import NormalEquations
from rhocover.planning.program import Program

STEP_TO_BOUNDARY = 0.99
FLOW_TOLERANCE = 1e-10  # the last projection takes the flow residual from here to rounding
LARGEST_LOG_STEP = 2.0  # at rho = 0 no entry of d grows by more than e^2 in a step


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
class Progress:
    """Where the method stands after some steps; `d` sums to 1."""

    steps: int
    seconds: float
    d: FloatArray
    multipliers: Multipliers
    divergence: float
    lower_bound: float
    flow: float  # 1-norm of K d - k0
    tau: float

    @property
    def gap(self) -> float:
        """Divergence minus the certified lower bound."""
        return self.divergence - self.lower_bound


def interior_point(
    program: Program,
    *,
    tol: float,
    max_steps: int,
    report: Callable[[Progress], None] | None = None,
) -> Progress:
    """Returns the best point found: gap and flow within `tol`, or whatever `max_steps` allowed."""
    began = time.perf_counter()
    newton = Newton(program)
    point = _start(program)
    best: Progress | None = None
    for steps in range(max_steps + 1):
        state = _measure(program, point, steps, time.perf_counter() - began)
        if report is not None:
            report(state)
        if best is None or _badness(state) < _badness(best):
            best = state
        if _is_done(state, tol) or steps == max_steps:
            break
        try:
            point = newton.step(point)
        except (SolverError, np.linalg.LinAlgError):
            break
    assert best is not None
    return _polished(program, newton, best, time.perf_counter() - began)


def _is_done(state: Progress, tol: float) -> bool:
    return abs(state.gap) <= tol and state.flow <= min(tol, FLOW_TOLERANCE)


def _badness(state: Progress) -> float:
    """Orders iterates: both the gap and the flow residual have to go."""
    bad = abs(state.gap) + state.flow
    return bad if np.isfinite(bad) else np.inf


def _start(program: Program) -> Iterate:
    """Returns c = 1 and x = m, so that every pair's product is tau m with tau = 1."""
    n, m = program.num_pairs, _centre(program)
    c = np.zeros(n) if program.rho == 0 else np.ones(n)
    nu = 0 * program.unit_potential if program.rho == 0 else program.unit_potential
    x = np.zeros(n) if program.rho == 0 else m.copy()
    alpha = 1.0 if program.has_mass_row and program.rho > 0 else 0.0
    theta = 1.0 if program.rho == 0 else float(_point(program, c, x).sum())
    if program.floor == 0:
        return Iterate(nu, alpha, theta, c, x, 0.0, 0.0)
    y = np.maximum(_point(program, c, x) - program.floor * theta, m)
    return Iterate(nu, alpha, theta, c, x, y, m / y)


def _centre(program: Program) -> FloatArray:
    """Returns m: the weights, with something positive where a weight is zero or nearly so."""
    return np.where(
        program.mu_bar > 0, np.maximum(program.mu_bar, 1e-6 / program.num_pairs), 1 / program.num_pairs
    )


def _point(program: Program, c: FloatArray, x: FloatArray) -> FloatArray:
    """Returns d for these multipliers."""
    if program.rho == 0:
        return program.mu_bar * np.exp(-c)
    return program.mu_bar * c ** (-1 / program.rho) + x


def _measure(program: Program, point: Iterate, steps: int, seconds: float) -> Progress:
    d = _point(program, point.c, point.x)
    mass = float(d.sum())
    flow = float(np.abs(program.K @ d - program.k0 * mass).sum()) / mass
    multipliers = Multipliers(point.nu, point.alpha, point.z)
    lower = dual_bound(program, multipliers)
    d = d / mass
    tau = float(point.x @ point.c) + float(np.sum(point.y * point.z))
    return Progress(steps, seconds, d, multipliers, _divergence(program, d), lower, flow, tau / mass)


def _divergence(program: Program, d: FloatArray) -> float:
    return program.coverage.divergence(np.maximum(d, program.floor)) if np.isfinite(d).all() else np.inf


def _polished(program: Program, newton: Newton, state: Progress, seconds: float) -> Progress:
    """Returns the state with d projected onto the flow equations, if that made them hold better."""
    d = newton.project(state.d)
    flow = float(np.abs(program.K @ d - program.k0 * d.sum()).sum())
    if not (np.isfinite(d).all() and d.min() >= 0 and flow < state.flow):
        return replace(state, seconds=seconds)
    return replace(state, d=d, flow=flow, divergence=_divergence(program, d), seconds=seconds)


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

    def step(self, point: Iterate) -> Iterate:
        """Returns the next iterate: predictor, centring, corrector, step to the boundary."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self._linearise(point)
            products = float(point.x @ point.c) + float(np.sum(point.y * point.z))
            tau = products / self._scale(point)
            guess = self._direction(point, 0.0, 0.0, 0.0)
            sigma = self._centring(point, guess, tau)
            weight = (1 - sigma) ** 2
            move = self._direction(point, sigma * tau, weight * guess.x * guess.c, weight * guess.y * guess.z)
            length = self._length(point, move)
        moved = _advance(point, move, STEP_TO_BOUNDARY * length if length < 1 else 1.0)
        if not (np.isfinite(moved.c).all() and np.isfinite(moved.nu).all()):
            raise SolverError("a Newton step left the numbers that float64 can hold.")
        return moved

    def project(self, d: FloatArray) -> FloatArray:
        """Returns d moved onto K d = k0 sum d by the last factorisation, and divided by its mass."""
        program = self._program
        if not self._is_factorised:
            return d
        for _ in range(2):
            residual = program.K @ d - program.k0 * d.sum()
            d = d - self._W * (program.KT @ self._equations.solve(residual))
            d = d / d.sum()
        return d

    def _scale(self, point: Iterate) -> float:
        """Returns the sum of m over all products that are relaxed."""
        num = (0 if self._program.rho == 0 else 1) + (1 if self._program.floor > 0 else 0)
        return max(num, 1) * float(self._m.sum())

    def _linearise(self, point: Iterate) -> None:
        """Sets d, w, e, W of this point, factorises, and solves for the borders."""
        program = self._program
        self._d = _point(program, point.c, point.x)
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
        self._reduced = np.array([self._equations.solve(column) for column in columns]).T

    def _solve(self, flow: FloatArray, borders: list[float]) -> tuple[FloatArray, FloatArray]:
        """Returns (dnu, border unknowns) of the bordered system, refined once as a whole."""
        if not borders:
            return self._equations.solve(flow), np.zeros(0)
        right = np.array(borders)
        dnu, unknowns = self._solve_borders(flow, right)
        image = self._program.K @ (self._W * (self._program.KT @ dnu))
        more_nu, more = self._solve_borders(
            flow - image - self._columns @ unknowns,
            right - self._columns.T @ dnu - self._corner @ unknowns,
        )
        return dnu + more_nu, unknowns + more

    def _solve_borders(self, flow: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns one block elimination of the bordered system."""
        dnu = self._equations.solve(flow)
        schur = self._corner - self._columns.T @ self._reduced
        unknowns = np.linalg.solve(schur, right - self._columns.T @ dnu)
        return dnu - self._reduced @ unknowns, unknowns

    def _direction(
        self, point: Iterate, tau: float, second_x: FloatArray | float, second_y: FloatArray | float
    ) -> Iterate:
        """Returns the Newton direction towards products tau m, as an iterate of differences."""
        program, floor = self._program, self._program.floor
        rd = program.KT @ point.nu + point.alpha - point.z - point.c
        rx = 0.0 if program.rho == 0 else (tau * self._m - point.x * point.c - second_x) / point.c
        rz, ry = 0.0, 0.0
        if floor > 0:
            rz = (tau * self._m - point.y * point.z - second_y) / point.y
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
        dnu, unknowns = self._solve(flow, borders)
        dalpha = float(unknowns[0]) if self._has_mass else 0.0
        dtheta = float(unknowns[-1]) if self._has_theta else 0.0
        lift = rd + program.KT @ dnu + dalpha
        room, pull = ry + rx - floor * dtheta, 1 + self._w * self._e
        dc = (lift - rz + self._e * room) / pull
        dy = (room - self._w * (lift - rz)) / pull if floor > 0 else 0.0
        dz = (rz - self._e * room + self._w * self._e * lift) / pull if floor > 0 else 0.0
        dx = np.zeros_like(dc) if program.rho == 0 else rx - (point.x / point.c) * dc
        dd = rx - self._w * dc
        if program.rho > 0 and not self._has_theta:
            dtheta = float(np.sum(dd)) + float(self._d.sum()) - point.theta
        return Iterate(dnu, dalpha, dtheta, dc, dx, dy, dz)

    def _centring(self, point: Iterate, guess: Iterate, tau: float) -> float:
        """Returns sigma: Mehrotra's cube, but tau never falls faster than the flow residual."""
        program = self._program
        if tau == 0:
            return 0.0
        moved = _advance(point, guess, self._length(point, guess))
        left = float(moved.x @ moved.c) + float(np.sum(moved.y * moved.z))
        sigma = min(1.0, max(0.0, left / self._scale(point) / tau)) ** 3
        mass = float(self._d.sum())
        flow = float(np.abs(program.K @ self._d - program.k0 * mass).sum()) / mass
        products = tau * self._scale(point) / mass
        return max(sigma, min(1.0, 0.1 * flow / max(products, 1e-300)))

    def _length(self, point: Iterate, move: Iterate) -> float:
        """Returns how far the point may move before something positive reaches zero, at most 1."""
        length = 1.0
        if self._program.rho == 0:
            length = min(1.0, LARGEST_LOG_STEP / max(float(-np.min(move.c)), 1e-300))
        else:
            length = min(_to_zero(point.x, move.x), _to_zero(point.c, move.c))
        if self._program.floor > 0:
            length = min(length, _to_zero(point.y, move.y), _to_zero(point.z, move.z))
        return length


def _to_zero(value: FloatArray | float, move: FloatArray | float) -> float:
    """Returns the largest t <= 1 with value + t move >= 0."""
    shrink = float(np.max(-np.asarray(move) / np.asarray(value), initial=0.0))
    return 1.0 if shrink <= 1 else 1 / shrink


def _advance(point: Iterate, move: Iterate, t: float) -> Iterate:
    return Iterate(
        point.nu + t * move.nu,
        point.alpha + t * move.alpha,
        point.theta + t * move.theta,
        point.c + t * move.c,
        point.x + t * move.x,
        point.y + t * move.y,
        point.z + t * move.z,
    )
