"""The visits of the policy behind a solver's point, and what the point's own errors may cost."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import RhocoverError
from rhocover.occupancy import Occupancies
from rhocover.planning.limits import SolverResult
from rhocover.planning.problem import PlanningProblem
from rhocover.planning.program import rounding_of_point, slack_of_point

EVALUATED_STATES = 100_000  # up to this size, evaluating the policy is faster than planning
FLOW_ROUNDING = 1e-13  # of a row, relative to the flow through it


def visits_of_policy(problem: PlanningProblem, found: SolverResult, tol: float) -> tuple[FloatArray, float]:
    """Returns the occupancy of the policy of the solver's point, and what to add to the gap for its errors.

    The policy amplifies the point's residuals of the flow equations, the more the slower its chain mixes:
    1e-10 can become nats. So the policy's own visits are computed, each entry to 14 digits. Above 100,000
    states that takes longer than planning. There, for a finite rho, the point itself is used if the flow of
    every state and of every nearly closed part holds up to rounding. To first order, evaluation would change
    the divergence by the residual times the potentials, and this is added to the gap.
    """
    program, members = problem.program, problem.members
    d = _linked(problem, np.maximum(found.d, 0.0), 0.25 * tol)
    is_large = d.size > 0 and members.flow.shape[0] > EVALUATED_STATES and program.rho < np.inf
    if not (is_large and program.row_error(d) <= FLOW_ROUNDING):
        visits = _evaluated(problem, d, 0.25 * tol)
        if visits is not None and not program.has_floor:
            return visits, rounding_of_point(program, visits)
        d = d if visits is None else visits  # a policy's visits may be below a floor by rounding
    return d, slack_of_point(program, found.multipliers, d)


def _evaluated(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray | None:
    """Returns the occupancy of d's policy; None if no method finds it.

    A policy with several recurrent classes has no unique occupancy; a share of the uniform policy's visits
    connects them.
    """
    members = problem.members
    with suppress(RhocoverError):
        return members.from_policy(members.to_policy(d))
    with suppress(RhocoverError):
        return members.from_policy(members.to_policy(joined(members, d, share)))
    return None


def _linked(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits if pairs without weight may be needed.

    At the optimum the pairs that connect weighted parts may have no visits at all, and a policy that never
    takes them stays in one part forever. The share costs at most log 1/(1 - share) in divergence.
    """
    members, coverage = problem.members, problem.program.coverage
    if coverage.support.all() or members.criterion != "average":
        return d
    return joined(members, d, share)


def joined(members: Occupancies, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits."""
    count = np.bincount(members.node)
    return (1 - share) * d + share * members.from_policy(1 / count[members.node])
