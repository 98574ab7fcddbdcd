"""The best coverage that a trajectory with these flow residuals could have had.

The visits d_hat of a run of finite length are not an occupancy: what came into a state and what left it
differ by the run's two ends and by chance, A d_hat = b. Nobody can act on b, so what an explorer is to
be measured against is the best point with the same residual,

    max { U_rho(d) : A d = A d_hat, 1'd = 1, d >= 0 },

and the distance of d_hat from it is its pathwise regret. The same interior-point method solves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.occupancy import Occupancies
from rhocover.planning.certificate import dual_bound, slack_of_point
from rhocover.planning.interior_point import interior_point
from rhocover.planning.program import Program, make_program
from rhocover.planning.threads import one_blas_thread

MAX_STEPS = 100


@dataclass(frozen=True, eq=False)
class Pathwise:
    """The best point with a given flow residual: per pair, its divergence, and how sure that is."""

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
