"""Newton steps with a floor: y = d - floor theta >= 0 with multiplier z, y z = tau m.

With e = z/y the eliminated system has W = w/(1 + w e) in place of w, and the mass multiplier alpha
becomes an unknown. The differences of c, y and z are written so that nothing cancels when both products
of a pair vanish: at the floor c and y are near 1e-10 while z is near 1.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.planning.newton import Correction, Iterate, Newton, centre_of, point_of, starting_point, to_zero
from rhocover.planning.program import Program


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
        self._rd = program.KT @ point.nu + (point.alpha - point.z - point.c)
        self._ry = self._d - program.floor * point.theta - point.y
        self._miss = program.K @ self._d - program.k0 * point.theta
        self._factorise(self._w / self._both)
        self._borders.set(*self._border_blocks())

    def _border_blocks(self) -> tuple[FloatArray, FloatArray]:
        """Returns (C, D) for the mass multiplier and theta, whichever are unknown."""
        program, share = self._program, self._W * self._e * self._program.floor
        columns, corner = [], np.zeros((2, 2))
        if self._has_mass:
            columns.append(program.K @ self._W)
            corner[0] = self._W.sum(), 1 - share.sum()
        if self._has_theta:
            columns.append(program.k0 - program.K @ share)
            corner[1] = 1 - share.sum(), -(program.floor**2 * self._e / self._both).sum()
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
        lift = self._rd + solution.lift + dalpha
        room = self._ry + rx - floor * dtheta
        dc = (lift - rz + self._e * room) / self._both
        dy = (room - self._w * (lift - rz)) / self._both
        dz = (rz - self._e * room + self._w * self._e * lift) / self._both
        self._dd = rx - self._w * dc
        dx = 0.0 * dc if program.rho == 0 else rx - second.bend - self._pull * dc
        return Iterate(solution.x, dalpha, dtheta, dc, dx, dy, dz)

    def _unknowns(self, point: Iterate, flow: FloatArray, q: FloatArray, rz: FloatArray, refine: bool):
        """Returns (dnu, dalpha, dtheta) of the bordered system."""
        program, floor, right = self._program, self._program.floor, []
        if self._has_mass:
            right.append(float((self._d + q).sum()) - point.theta)
        if self._has_theta:
            total = float(program.k0 @ point.nu) + point.alpha - float(np.sum(floor * point.z))
            right.append(1 - total + float((floor * (rz - self._e * (self._ry + q))).sum()))
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
