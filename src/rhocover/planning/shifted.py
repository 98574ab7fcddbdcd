"""Newton steps for {K d = k0 theta, 1'd = theta} with both a mass row and an inflow.

Such sets hold the occupancies whose flow residual is prescribed: what a trajectory of finite length could
have visited, whose in- and outflow of a state differ by chance. The mass multiplier alpha and theta are
both unknown, and border the system:

    [K W K'   K w   k0] [dnu   ]   [K(d + q) - k0 theta ]
    [(K w)'   1'w   1 ] [dalpha] = [1'(d + q) - theta   ]
    [k0'      1     0 ] [dtheta]   [1 - alpha - k0'nu   ]
"""

from __future__ import annotations

import numpy as np

from rhocover.planning.newton import Correction, Iterate, Newton
from rhocover.planning.program import Program


class ShiftedNewton(Newton):
    """The steps of a program with a mass row, an inflow and no floor."""

    PROJECTIONS = 6  # dividing by the mass shifts the right side, by a smaller part each time

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
        dx = 0.0 * dc if program.rho == 0 else rx - second.bend - self._pull * dc
        return Iterate(solution.x, dalpha, float(unknowns[-1]) if self._has_theta else 0.0, dc, dx, 0.0, 0.0)
