"""Newton steps for every rho: predictor, centring, corrector, and a step that keeps the flow.

Linearise the equations of `interior_point` at an iterate and eliminate all but nu. Without a floor, with
w = -dd/dc = mubar c^(-kappa-1)/rho + x/c and the dual residual r = K'nu + alpha - c, what is left is

    K diag(w) K' dnu = K(d + q) - k0 theta,        q = (tau m - x c)/c - w r,

bordered by theta for the criteria with an inflow. All other differences follow entry by entry.

Three things make it fast at every rho:
- Mehrotra's corrector, extended by the second-order term of mubar c^-kappa;
- steps of different length for primal (x, y, theta) and dual (nu, alpha, c, z) unknowns;
- the flow moves linearly. d = mubar c^-kappa + x bends with c, so a step that is exact to first order
  would violate K d by as much as the curve bends. x compensates for the difference, within a factor of ten
  of its own step. Without this rho = 8 to 1000 take two to three times as many steps.

**With a floor**, y = d - floor theta >= 0 has the multiplier z, y z = tau m. With e = z/y the eliminated
system has W = w/(1 + w e) in place of w, and the mass multiplier alpha becomes an unknown. The differences of
c, y and z are written so that nothing cancels when both products of a pair vanish: at the floor c and y are
near 1e-10 while z is near 1.

**With a mass row and an inflow**, {K d = k0 theta, 1'd = theta}. Such sets contain the occupancies with a
given flow residual: those of trajectories of finite length, whose in- and outflow of a state differ by
chance. The mass multiplier alpha and theta are both unknown, and border the system:

    [K W K'   K w   k0] [dnu   ]   [K(d + q) - k0 theta ]
    [(K w)'   1'w   1 ] [dalpha] = [1'(d + q) - theta   ]
    [k0'      1     0 ] [dtheta]   [1 - alpha - k0'nu   ]

**Below rho = 1/2** the steps minimise the dual bound directly. There d = mubar c^-kappa, kappa = 1/rho > 2,
is so steep near c = 0 that it keeps c positive by itself, and x would only slow the method down. Without x
the best multipliers minimise one smooth function,

    G(nu) = log( sum_i mubar_i c_i^(1-kappa) ) / (kappa - 1),        c = K'nu + 1,

convex because (1 - kappa) log c is; -G is the certified lower bound. With p_i its normalised terms the
gradient is -K(p/c), and p/c is d up to its scale. A Newton step of the sum has the same direction as one
of its logarithm, only the length differs, and by many orders of magnitude where weights are spread
widely. So each step goes to the lowest point of G along the direction, found from its slope -<p/c, dc>.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.linalg.normal_equations import Borders, NormalEquations
from rhocover.planning.program import SMALL_ORDER, Program

STEP_TO_BOUNDARY = 0.99
LARGEST_LOG_STEP = 2.0  # at rho < 1/2 no entry of d grows by more than e^2 in a step
WARM = 0.1  # of tau, at a warm start; less saves a step near the optimum and costs many steps away from it
ROUGH = 1e-13  # a flow residual after projection that is not only rounding
SMALLEST_X, LARGEST_X = 0.1, 10.0  # how far x may deviate from its own step to keep the flow linear


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
    if program.start is not None:
        return _given_start(program, program.start, m)
    if program.rho == 0:
        return Iterate(nu, 0.0, 1.0, np.zeros(n), np.zeros(n), 0.0, 0.0)
    c = np.ones(n)
    theta = program.mass_of(point_of(program, c, m))
    return Iterate(nu, 1.0, theta, c, m, 0.0, 0.0)


def _given_start(program: Program, nu: FloatArray, m: FloatArray) -> Iterate:
    """Returns the start with the program's own multipliers, and products m."""
    inside = program.has_slack
    alpha = 0.0 if program.rho == 0 else program.scale
    c = program.KT @ nu + alpha * program.mass
    m = (
        m if program.rho == 0 else (program.scale - 1) * m
    )  # at small orders all but the weights' c is of order rho
    x = m / c if inside is None else np.where(inside, m / np.where(inside, c, 1.0), 0.0)
    theta = 1.0 if program.rho == 0 else program.mass_of(point_of(program, c, x))
    return Iterate(nu, alpha, theta, c, x, 0.0, 0.0)


def warm_point(program: Program, nu: FloatArray) -> Iterate:
    """Returns where to start from the potential of a similar program, for rho > 0.

    Its own products would be too small to leave a wrong corner, so they start at WARM times those of a cold
    start.
    """
    m = centre_of(program)
    c = np.maximum(program.KT @ nu + program.mass, WARM)
    x = WARM * m / c
    return Iterate(nu, 1.0, program.mass_of(point_of(program, c, x)), c, x, 0.0, 0.0)


def centre_of(program: Program) -> FloatArray:
    """Returns m: the weights, with a positive number where a weight is zero or almost zero."""
    n = program.num_pairs
    return np.where(program.mu_bar > 0, np.maximum(program.mu_bar, 1e-6 / n), 1 / n)


def point_of(program: Program, c: FloatArray, x: FloatArray | float) -> FloatArray:
    """Returns d for these multipliers."""
    if program.rho == 0:
        return program.mu_bar * np.exp(-c) + x
    if program.rho == np.inf:
        return program.mu_bar + x
    if program.rho == 2:  # a square root costs a tenth of a power
        return program.mu_bar / np.sqrt(c) + x
    if program.has_slack is not None:  # 0 times infinity
        c = np.where(program.coverage.support, c, 1.0)
    return program.mu_bar * c ** (-1 / program.rho) + x


class Newton:
    """Newton steps of one program without a floor, with their factorisation."""

    PROJECTIONS = 2  # projections onto the flow equations: one solve, and one for its rounding

    def __init__(self, program: Program) -> None:
        self._program = program
        self._equations = NormalEquations(program.K, program.KT, program.groups)
        self._m = centre_of(program)
        self._inside = program.has_slack
        if self._inside is not None:
            self._m = np.where(self._inside, self._m, 0.0)
        self._has_x = program.rho > 0 or self._inside is not None
        self._num_products = float(self._m.sum())  # the sum of all products is tau times this
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

        At large rho the entries of the last W differ by so many orders of magnitude that the residual is more
        than rounding. Then the change is the smallest relative to d, which takes one more factorisation.
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
            residual = program.K @ d - program.k0 * program.mass_of(d)
            d = d - self._W * self._equations.solve(residual).lift
            d = d / program.mass_of(d)
        return d

    def _linearise(self, point: Iterate) -> None:
        """Computes what predictor and corrector share, and factorises."""
        program = self._program
        self._set_slopes(point)
        self._rd = program.KT @ point.nu + (point.alpha * program.mass - point.c)
        self._miss = program.K @ self._d - program.k0 * point.theta
        self._factorise(self._w)
        self._set_borders()

    def _set_borders(self) -> None:
        """Sets the columns that border the factorised matrix: here theta's, if theta is unknown."""
        if self._has_theta:
            self._borders.set(self._program.k0[:, None], np.zeros((1, 1)))

    def _set_slopes(self, point: Iterate) -> None:
        """Sets d, and the derivatives of d and x with respect to c."""
        program = self._program
        self._d = point_of(program, point.c, point.x)
        self._theta = program.mass_of(self._d)
        self._w: FloatArray = self._d
        if not self._has_x:
            return
        self._c = point.c if self._inside is None else np.where(self._inside, point.c, 1.0)  # that of an x
        self._pull = point.x / self._c  # -dx/dc at a constant product
        self._w = self._d - point.x + self._pull if program.rho == 0 else self._pull
        if 0 < program.rho < np.inf:
            self._w = self._pull + (self._d - point.x) / (program.rho * point.c)

    def _factorise(self, W: FloatArray) -> None:
        self._W = W
        self._equations.factorise(W)
        self._borders.W = W
        self._is_factorised = True

    def _correction(self, point: Iterate, guess: Iterate, weight: float) -> Correction:
        """Returns the second-order terms of the equations along the predictor."""
        if not self._has_x:
            return Correction()
        if self._program.rho in (0, np.inf):
            return Correction(weight * guess.x * guess.c)
        kappa = 1 / self._program.rho
        bend = 0.5 * kappa * (kappa + 1) * (self._d - point.x) * (guess.c / point.c) ** 2
        return Correction(weight * guess.x * guess.c, bend=weight * bend)

    def _product_step(self, point: Iterate, tau: float, second: Correction) -> FloatArray | float:
        """Returns the contribution of x and of the curve to d at constant c."""
        if not self._has_x:
            return 0.0
        return (tau * self._m - second.x) / self._c - point.x + second.bend

    def _direction(self, point: Iterate, tau: float, second: Correction, *, refine: bool = True) -> Iterate:
        """Returns the Newton direction towards products tau m, as an iterate of differences."""
        program = self._program
        rx = self._product_step(point, tau, second)
        flow = self._miss + program.K @ (rx - self._w * self._rd)
        dtheta = 0.0
        if self._has_theta:
            solution, unknowns = self._borders.solve(
                flow, [program.scale - point.alpha - float(program.k0 @ point.nu)], refine
            )
            dtheta = float(unknowns[0])
        else:
            solution = self._equations.solve(flow, refine=refine)
        dc = self._rd + solution.lift
        self._dd = rx - self._w * dc
        dx = rx - second.bend - self._pull * dc if self._has_x else 0.0 * dc
        if program.rho > 0 and not self._has_theta:
            dtheta = program.mass_of(self._dd) + self._theta - point.theta
        return Iterate(solution.x, 0.0, dtheta, dc, dx, 0.0, 0.0)

    def _centring(self, point: Iterate, guess: Iterate, tau: float) -> float:
        """Returns sigma: Mehrotra's cube, but tau never falls faster than the flow residual."""
        if tau == 0:
            return 0.0
        left = products_of(self._moved(point, guess, 1.0)) / self._num_products
        sigma = min(1.0, max(0.0, left / tau)) ** 3
        flow = self._program.missed(self._d, self._theta) * self._theta
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
        program, inside = self._program, slice(None) if self._inside is None else self._inside
        if program.rho == 0:
            growth = max(-float(move.c[program.coverage.support].min()), 1e-300)
            dual = min(1.0, LARGEST_LOG_STEP / growth)
            if self._has_x:
                dual = min(dual, to_zero(point.c[inside], move.c[inside]))
                dual = min(dual, to_zero(point.x[inside], move.x[inside]))
            return dual, dual
        primal, dual = to_zero(point.x[inside], move.x[inside]), to_zero(point.c, move.c)
        if program.rho < SMALL_ORDER:  # c^-kappa grows faster than a step to the boundary allows for
            fall = max(-float((move.c / point.c)[program.coverage.support].min()), 1e-300)
            dual = min(dual, LARGEST_LOG_STEP * program.rho / fall)
        if program.start is not None:  # x of the groups is too small to make up for different lengths
            primal = dual = min(primal, dual)
        return primal, dual


def products_of(point: Iterate) -> float:
    """Returns the sum of all products, which vanishes at the optimum."""
    return float(point.x @ point.c) + float(np.sum(point.y * point.z))


def to_zero(value: FloatArray, move: FloatArray) -> float:
    """Returns the largest t <= 1 with value + t move >= 0."""
    shrink = -float((move / value).min())
    return 1.0 if shrink <= 1 else 1 / shrink


# Steps with a floor.


def floored_start(program: Program) -> Iterate:
    """Returns the start without a floor, with y >= m and y z = m added."""
    point, m = starting_point(program), centre_of(program)
    y = np.maximum(point_of(program, point.c, point.x) - program.floor * point.theta, m)
    return Iterate(point.nu, point.alpha, point.theta, point.c, point.x, y, m / y)


class FlooredNewton(Newton):
    """The steps of a program with a positive floor."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._has_mass = program.has_mass_row
        self._has_theta = program.rho > 0
        self._num_products *= 1 if program.rho == 0 else 2

    def _linearise(self, point: Iterate) -> None:
        program = self._program
        self._set_slopes(point)
        self._e = np.asarray(point.z / point.y)
        self._both = 1 + self._w * self._e
        self._rd = program.KT @ point.nu + (point.alpha * program.mass - point.z - point.c)
        self._ry = self._d - program.floor * point.theta - point.y
        self._miss = program.K @ self._d - program.k0 * point.theta
        self._factorise(self._w / self._both)
        self._borders.set(*self._border_blocks())

    def _border_blocks(self) -> tuple[FloatArray, FloatArray]:
        """Returns (C, D) for the mass multiplier and theta, whichever are unknown."""
        program, share = self._program, self._W * self._e * self._program.floor
        columns, corner = [], np.zeros((2, 2))
        if self._has_mass:
            columns.append(program.K @ (self._W * program.mass))
            corner[0] = program.mass_of(self._W * program.mass), 1 - program.mass_of(share)
        if self._has_theta:
            columns.append(program.k0 - program.K @ share)
            corner[1] = 1 - program.mass_of(share), -(program.floor**2 * self._e / self._both).sum()
        used = [k for k, has in enumerate((self._has_mass, self._has_theta)) if has]
        empty = np.zeros((program.K.shape[0], 0))
        return np.array(columns).T if columns else empty, corner[np.ix_(used, used)]

    def _correction(self, point: Iterate, guess: Iterate, weight: float) -> Correction:
        second = super()._correction(point, guess, weight)
        return Correction(second.x, weight * guess.y * guess.z, second.bend)

    def _direction(self, point: Iterate, tau: float, second: Correction, *, refine: bool = True) -> Iterate:
        program, floor = self._program, self._program.floor
        rx = self._product_step(point, tau, second)
        rz = (tau * self._m - second.y) / point.y - point.z
        q = (rx - self._w * (self._rd - rz + self._e * self._ry)) / self._both
        flow = self._miss + program.K @ q
        solution, dalpha, dtheta = self._unknowns(point, flow, q, rz, refine)
        lift = self._rd + solution.lift + dalpha * program.mass
        room = self._ry + rx - floor * dtheta
        dc = (lift - rz + self._e * room) / self._both
        dy = (room - self._w * (lift - rz)) / self._both
        dz = (rz - self._e * room + self._w * self._e * lift) / self._both
        self._dd = rx - self._w * dc
        dx = rx - second.bend - self._pull * dc if self._has_x else 0.0 * dc
        return Iterate(solution.x, dalpha, dtheta, dc, dx, dy, dz)

    def _unknowns(self, point: Iterate, flow: FloatArray, q: FloatArray, rz: FloatArray, refine: bool):
        """Returns (dnu, dalpha, dtheta) of the bordered system."""
        program, floor, right = self._program, self._program.floor, []
        if self._has_mass:
            right.append(program.mass_of(self._d + q) - point.theta)
        if self._has_theta:
            total = float(program.k0 @ point.nu) + point.alpha - float(np.sum(floor * point.z))
            right.append(program.scale - total + float((floor * (rz - self._e * (self._ry + q))).sum()))
        solution, unknowns = self._borders.solve(flow, right, refine)
        dalpha = float(unknowns[0]) if self._has_mass else 0.0
        return solution, dalpha, float(unknowns[-1]) if self._has_theta else 0.0

    def _lengths(self, point: Iterate, move: Iterate) -> tuple[float, float]:
        primal, dual = super()._lengths(point, move)
        primal = min(primal, to_zero(point.y, move.y))  # pyright: ignore
        dual = min(dual, to_zero(point.z, move.z))  # pyright: ignore
        if self._program.rho == 0:
            primal = dual = min(primal, dual)
        return primal, dual


# Steps with a mass row and an inflow.


class ShiftedNewton(Newton):
    """The steps of a program with a mass row, an inflow and no floor."""

    PROJECTIONS = 6  # dividing by the mass changes the right side, by less each time

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._has_theta = program.rho > 0

    def _set_borders(self) -> None:
        program = self._program
        columns = np.array([program.K @ self._w, program.k0]).T
        corner = np.array([[self._w.sum(), 1.0], [1.0, 0.0]])
        used = 1 + self._has_theta  # at rho = 0 theta is 1
        self._borders.set(columns[:, :used], corner[:used, :used])

    def _direction(self, point: Iterate, tau: float, second: Correction, *, refine: bool = True) -> Iterate:
        program = self._program
        rx = self._product_step(point, tau, second)
        q = rx - self._w * self._rd
        flow = self._miss + program.K @ q
        right = [float((self._d + q).sum()) - point.theta]
        if self._has_theta:
            right.append(1 - point.alpha - float(program.k0 @ point.nu))
        solution, unknowns = self._borders.solve(flow, right, refine)
        dalpha = float(unknowns[0])
        dc = self._rd + solution.lift + dalpha
        self._dd = rx - self._w * dc
        dx = rx - second.bend - self._pull * dc if self._has_x else 0.0 * dc
        return Iterate(solution.x, dalpha, float(unknowns[-1]) if self._has_theta else 0.0, dc, dx, 0.0, 0.0)


# Steps below rho = 1/2.

LONGEST = 1e6  # at most this many times a Newton step of the sum
NEAR_ZERO = 1 - 1e-9  # of the way to c = 0, at most
HALVINGS = 60
ROUNDING = 1e-12  # of a slope, whose terms sum to about 1
FLAT = 1e-3  # a slope below this fraction of the first is small enough to stop


def is_small_order(program: Program) -> bool:
    """Whether these steps apply: no x is needed, and only nu is unknown."""
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
        if first > -ROUNDING:  # the end: the rest of the slope is rounding
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
        """Returns the slope of G at t; the terms are divided by the largest, because they may overflow."""
        there = c + t * dc
        log_term = self._program.coverage.log_mu_bar + (1 - 1 / self._program.rho) * np.log(there)
        p = np.exp(log_term - log_term.max())
        return -float((p / there) @ dc) / float(p.sum())
