"""One primal-dual interior-point method for every rho from 0 to infinity; leximin at infinity.

The optimum over the cone {K d = k0 theta, d >= floor theta} is stationary with multipliers (nu, alpha, z):

    c = K'nu + alpha - z >= 0,      d = mubar c^-kappa + x,     kappa = 1/rho,
    x >= 0,  x c = 0,               y = d - floor theta >= 0,   z >= 0,  y z = 0,
    K d = k0 theta,                 k0'nu + alpha - floor sum z = 1.

For finite rho the objective is its own barrier and x vanishes; kappa = 0 is exactly the minimax linear
program (d = mubar + x), so one code covers both ends. At rho = 0 stationarity is d = mubar exp(-c) with
theta = 1. Products are relaxed to tau m and driven to zero by the Newton steps of `rhocover.planning.newton`.
Every iterate has its own certificate; the best iterate is returned, whatever stopped the method.

**Leximin** (`leximin`) is the limit of the optima d*_rho as rho grows. At rho = inf the minimax occupancy is
rarely unique: pairs that are not the worst may get anything above their share. Leximin maximises the worst
d/mu, fixes the pairs that cannot be raised any further, maximises the worst of the rest, and so on. Each
level is one linear program

    max t   s.t.   d in D,   d_i >= t mubar_i for free pairs,   d_i >= level_i mubar_i for held ones,

and a pair is held when its multiplier is positive: it is then tight in every solution of the level.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, FloatArray
from rhocover.errors import SolverError
from rhocover.linear_program import LinearProgram
from rhocover.occupancy import Occupancies
from rhocover.planning.newton import (
    FlooredNewton,
    Iterate,
    Newton,
    ShiftedNewton,
    SmallOrderNewton,
    floored_start,
    is_small_order,
    point_of,
    products_of,
    small_order_start,
    starting_point,
    warm_point,
)
from rhocover.planning.program import Multipliers, Program, dual_bound

PATIENCE = 25  # steps without a better point after which float64 allows no more
FAR = 1e-6  # above this gap a rising bound is progress; below, it may be rounding
NEAR = 1e-5  # a flow residual that a projection can remove
ROUNDING = 1e-15  # a flow residual that no projection improves
FLOW_TOLERANCE = 1e-10  # the last projection takes the flow residual from here to rounding


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of the method after some steps; `d` sums to 1."""

    steps: int
    seconds: float
    d: FloatArray
    multipliers: Multipliers
    program: Program
    flow: float  # residual of the equations and of the floor at d
    tau: float  # sum of the products, which vanishes at the optimum
    stages: Mapping[str, float] = field(default_factory=dict)  # seconds in each stage, at the end
    taken: int = 0  # steps in all, at the end; the best point may be an earlier one

    @property
    def distance(self) -> float:
        """Distance from feasibility and complementarity; cheaper to compute than the gap."""
        return self.flow + self.tau

    @cached_property
    def divergence(self) -> float:
        """The divergence of the point; inf if it is not a valid point."""
        if not np.isfinite(self.d.sum()):
            return np.inf
        program = self.program
        d = np.maximum(self.d, program.floor) if program.has_floor else self.d
        return program.divergence(d)

    @cached_property
    def lower_bound(self) -> float:
        """A lower bound on the divergence of every point of the set."""
        return dual_bound(self.program, self.multipliers)

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
    warm: FloatArray | None = None,
    deadline: float = np.inf,
) -> Progress:
    """Returns the best point found: gap and flow within `tol`, or the best that `max_steps` and time allow.

    `deadline` is a reading of `time.perf_counter`.

    `warm` is nu of a similar program; programs with a floor or an inflow start cold anyway.
    """
    began = time.perf_counter()
    newton, point = _prepared(program, warm)
    best = state = proved = _measure(program, point, 0, 0.0)
    since = taken = 0  # the step at which the distance last fell; the steps so far
    for steps in range(1, max_steps + 1):
        state = _finished(program, newton, state, tol)
        if _is_done(state, tol) or time.perf_counter() >= deadline:
            break
        if steps > since + PATIENCE:
            if not _proves_more(state, proved):
                break
            since, proved = steps, state
        try:
            with np.errstate(all="ignore"):  # overflow is detected by its value
                point = newton.step(point)
        except (SolverError, np.linalg.LinAlgError):
            break
        taken = steps
        state = _measure(program, point, steps, time.perf_counter() - began)
        since = steps if best.distance > ROUNDING and state.distance < 0.9 * best.distance else since
        best = _better(best, state)
        if report is not None:
            report(state)
    state = _finished(program, newton, state if _is_done(state, tol) else best, tol)
    end = state if _is_done(state, tol) else _projected(program, newton, best)
    return replace(end, stages=newton.stages, taken=taken, seconds=time.perf_counter() - began)


def _proves_more(state: Progress, before: Progress) -> bool:
    """Whether the bound has risen since then: far from the optimum the flow residual may fall late."""
    risen = state.lower_bound - before.lower_bound
    return bool(abs(state.gap) > FAR and risen > 0.01 * abs(state.gap))


def _finished(program: Program, newton: Newton, state: Progress, tol: float) -> Progress:
    """Returns the state, projected onto the flow equations if only these are not satisfied.

    Near the optimum the gap is second order in the distance once the flow holds, so a projection, which
    needs no new factorisation, often saves the last step.
    """
    if state.flow > NEAR or state.flow <= ROUNDING or abs(state.gap) > 100 * (state.flow + tol):
        return state
    projected = _projected(program, newton, state)
    return projected if _is_done(projected, tol) else state


def _prepared(program: Program, warm: FloatArray | None) -> tuple[Newton, Iterate]:
    if program.has_floor:
        return FlooredNewton(program), floored_start(program)
    if program.has_mass_row and program.k0.any():
        return ShiftedNewton(program), starting_point(program)
    if is_small_order(program):
        return SmallOrderNewton(program), small_order_start(program)
    if warm is not None and program.has_mass_row and program.rho > 0:
        return Newton(program), warm_point(program, warm)
    return Newton(program), starting_point(program)


def _is_done(state: Progress, tol: float) -> bool:
    return state.flow <= min(tol, FLOW_TOLERANCE) and abs(state.gap) <= tol


def _better(best: Progress, state: Progress) -> Progress:
    """Returns the better of two points; of two equally good ones the one with the better bound."""
    if state.distance < 0.9 * best.distance:
        return state
    return min(best, state, key=_badness) if state.distance < 10 * best.distance else best


def _badness(state: Progress) -> float:
    bad = abs(state.gap) + state.flow
    return bad if np.isfinite(bad) else np.inf


def _measure(program: Program, point: Iterate, steps: int, seconds: float) -> Progress:
    d = point_of(program, point.c, point.x)
    mass = program.mass_of(d)
    multipliers = Multipliers(point.nu, point.alpha, point.z)
    tau = products_of(point) / mass
    return Progress(steps, seconds, d / mass, multipliers, program, _missed(program, d / mass), tau)


def _missed(program: Program, d: FloatArray) -> float:
    """Returns the residual of the equations at d, relative to the flow, and that of the floor."""
    flow = program.missed(d)
    return flow + float(np.maximum(program.floor - d, 0.0).sum()) if program.has_floor else flow


def _projected(program: Program, newton: Newton, state: Progress) -> Progress:
    """Returns the state with d projected onto the flow equations, if that reduces their residual."""
    if state.flow <= ROUNDING:
        return state
    d = newton.project(state.d)
    flow = _missed(program, d)
    is_better = np.isfinite(flow) and d.min() >= 0 and flow < state.flow
    return replace(state, d=d, flow=flow) if is_better else state


# Leximin.

SLACKS = (1e-10, 1e-9, 3e-9, 8e-9)  # that fixed pairs may lose: rounding could make a level infeasible
POSITIVE = 1e-9  # of a level's multipliers, which sum to 1


@dataclass(frozen=True, eq=False)
class Leximin:
    """The occupancy, and the level d/mubar at which each pair was held (nan for zero weights)."""

    d: FloatArray
    level: FloatArray
    num_levels: int
    potential: FloatArray  # of the first level: the minimax certificate


def leximin(members: Occupancies, mu_bar: FloatArray) -> Leximin:
    """Returns the weighted leximin occupancy, per entry of the set, with the least slack that works."""
    for slack in SLACKS[:-1]:
        try:
            return _leximin(members, mu_bar, slack)
        except SolverError:
            continue
    return _leximin(members, mu_bar, SLACKS[-1])


def _leximin(members: Occupancies, mu_bar: FloatArray, slack: float) -> Leximin:
    level = np.full(members.num_pairs, np.nan)
    free = mu_bar > 0
    d, potential, count = np.zeros(0), None, 0
    while free.any():
        d, value, dual, tight = _raise_free(members, mu_bar, free, level * (1 - slack))
        potential = dual if potential is None else potential
        level[free & tight] = value
        free = free & ~tight
        count += 1
    assert potential is not None
    return Leximin(d, level, count, potential)


def _raise_free(
    members: Occupancies, mu_bar: FloatArray, free: BoolArray, level: FloatArray
) -> tuple[FloatArray, float, FloatArray, BoolArray]:
    """Returns (d, t, row multipliers, which free pairs are tight in every solution)."""
    matrix, right_side = members.equations()
    due = np.where(free, mu_bar, 0.0)
    held = ~free & (mu_bar > 0)
    lower = np.maximum(members.floor, np.where(held, level * mu_bar, 0.0))
    lower = np.where(free, 0.0, lower)
    program = LinearProgram(
        sp.hstack([matrix, (matrix @ due)[:, None]], format="csr"), right_side, np.append(lower, 0.0)
    )
    costs = np.zeros(members.num_pairs + 1)
    costs[-1] = 1.0
    solution = program.solve(costs)
    t = float(solution.x[-1])
    price = matrix.T @ solution.dual * due  # sums to 1 over the free pairs
    tight = price > POSITIVE * price.max()
    return solution.x[:-1] + t * due, t, solution.dual, tight & free
