"""The maximum of a weighted entropy, -sum_i w_i d_i log d_i over the occupancies of a model.

This objective, of the Weighted-MaxEnt heuristic, is outside the family of rho, so `plan` has no optimum for
it. Models of the size of a published table are small: sequential quadratic programming finds the maximum,
and the Frank-Wolfe gap max_{d'} <gradient, d' - d> over the whole set says how far away it can be at most,
because the objective is concave. With large models this is not the way.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.oracles import best_response

TINY = 1e-12  # d log d is flat enough there, and its gradient finite
GAP = 1e-6


def weighted_entropy_optimum(mdp: MDP, w: FloatArray) -> FloatArray:
    """Returns the d that maximises -sum w d log d, `[n]`; its value is within 1e-6 of the best."""
    from scipy.optimize import minimize

    members = Occupancies.average(mdp)
    w = w / w.max()
    A = np.vstack([members.flow.toarray()[1:], np.ones(mdp.num_pairs)])  # the flow rows sum to zero
    b = np.append(np.zeros(mdp.num_states - 1), 1.0)
    found = minimize(
        lambda d: float(w @ (d * np.log(d))), members.max_floor()[1], jac=lambda d: w * (np.log(d) + 1),
        method="SLSQP", bounds=[(TINY, 1.0)] * mdp.num_pairs,
        constraints={"type": "eq", "fun": lambda d: A @ d - b, "jac": lambda d: A},
        options={"maxiter": 1000, "ftol": 1e-14},
    )  # fmt: skip
    d = np.maximum(found.x, TINY)
    gradient = -w * (np.log(d) + 1)
    gap = best_response(members, gradient).upper_bound - float(gradient @ d)
    if not gap <= GAP or members.flow_error(d) > GAP:
        raise SolverError(f"the weighted entropy's maximum was missed by {gap:.1e} ({found.message}).")
    return d
