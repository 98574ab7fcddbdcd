"""What people write instead: an occupancy program in CVXPY, in the best form we could find.

Variables are scaled to x = n d, because with sum d = 1 every tolerance is far above the entries. For
each rho several forms are tried and the fastest that arrives counts: power cones or second-order
cones, and for the worst case max t, or the cone form min 1'x with d = mu + x.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import rhocover as rc


@dataclass(frozen=True)
class Yardstick:
    """The divergence of what CVXPY returned, and how long the fastest form took."""

    divergence: float
    seconds: float
    form: str


def forms(mdp: rc.MDP, mu: np.ndarray, rho: float) -> dict[str, tuple[cp.Problem, cp.Variable]]:
    """Returns the formulations for this rho."""
    flow = rc.Occupancies.average(mdp).flow
    n, target = mdp.num_pairs, mdp.num_pairs * mu / mu.sum()
    x = cp.Variable(n)
    simplex = [flow @ x == 0, cp.sum(x) == n]
    if rho == np.inf:
        t, extra = cp.Variable(), cp.Variable(n)
        cone = cp.Problem(cp.Minimize(cp.sum(extra)), [flow @ extra == -(flow @ target), extra >= 0])
        return {
            "max t": (cp.Problem(cp.Maximize(t), [*simplex, x >= t * target]), x),
            "cone": (cone, extra + target),
        }
    if rho == 1:
        return {"log": (cp.Problem(cp.Maximize(target @ cp.log(x)), simplex), x)}
    ratio = cp.multiply(1 / target, x)
    if rho == 2:
        return {"inv_pos": (cp.Problem(cp.Minimize(target @ cp.inv_pos(ratio)), simplex), x)}
    return {"power": (cp.Problem(cp.Minimize(target @ cp.power(ratio, 1 - rho)), simplex), x)}


def solve_with_cvxpy(mdp: rc.MDP, mu: np.ndarray, rho: float, *, tight: bool = False) -> Yardstick:
    """Returns the best of all forms: the fastest, or with `tight` the one of smallest divergence."""
    options = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12} if tight else {}
    found = []
    for name, (problem, x) in forms(mdp, mu, rho).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            try:
                problem.solve(solver="CLARABEL", **options)
            except cp.SolverError:
                continue
            seconds = time.perf_counter() - began
        if x.value is None:
            continue
        d = np.maximum(np.asarray(x.value), 1e-300)
        found.append(Yardstick(rc.Coverage(rho, mu).divergence(d / d.sum()), seconds, name))
    if not found:
        return Yardstick(np.nan, np.inf, "none arrived")
    return min(found, key=lambda y: y.divergence if tight else y.seconds)
