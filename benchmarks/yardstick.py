"""What people write instead: an occupancy program in CVXPY, in the best form we could find.

Variables are scaled to x = n d, because with sum d = 1 every tolerance is far above the entries. For
each rho several forms are tried and the fastest that arrives counts: power cones or second-order
cones, and for the worst case max t, or the cone form min 1'x with d = mu + x. The time is that from
the model to the occupancy, as it is for `plan`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import rhocover as rc
from rhocover.checks import Matrix


@dataclass(frozen=True)
class Yardstick:
    """The divergence of what CVXPY returned, and how long the fastest form took."""

    divergence: float
    seconds: float
    form: str


def forms(rho: float) -> dict[str, Callable[[Matrix, np.ndarray], tuple[cp.Problem, cp.Expression]]]:
    """Returns the formulations for this rho, each a function of the flow matrix and the target n mubar."""
    if rho == np.inf:
        return {"max t": largest_level, "cone": least_extra}
    if rho == 1:
        return {"log": lambda flow, target: on_simplex(flow, lambda x: -target @ cp.log(x))}
    if rho == 2:
        return {"inv_pos": lambda flow, target: on_simplex(flow, lambda x: target**2 @ cp.inv_pos(x))}
    return {"power": lambda flow, target: on_simplex(
        flow, lambda x: target @ cp.power(cp.multiply(1 / target, x), 1 - rho))}  # fmt: skip


def on_simplex(flow: Matrix, cost: Callable) -> tuple[cp.Problem, cp.Expression]:
    x = cp.Variable(flow.shape[1])
    return cp.Problem(cp.Minimize(cost(x)), [flow @ x == 0, cp.sum(x) == flow.shape[1]]), x


def largest_level(flow: Matrix, target: np.ndarray) -> tuple[cp.Problem, cp.Expression]:
    x, t = cp.Variable(flow.shape[1]), cp.Variable()
    rules = [flow @ x == 0, cp.sum(x) == flow.shape[1], x >= t * target]
    return cp.Problem(cp.Maximize(t), rules), x


def least_extra(flow: Matrix, target: np.ndarray) -> tuple[cp.Problem, cp.Expression]:
    extra = cp.Variable(flow.shape[1])
    rules = [flow @ extra == -(flow @ target), extra >= 0]
    return cp.Problem(cp.Minimize(cp.sum(extra)), rules), extra + target


def solve_with_cvxpy(mdp: rc.MDP, mu: np.ndarray, rho: float, *, tight: bool = False) -> Yardstick:
    """Returns the best of all forms: the fastest, or with `tight` the one of smallest divergence."""
    options = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12} if tight else {}
    found = []
    for name, build in forms(rho).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            flow, target = rc.Occupancies.average(mdp).flow, mdp.num_pairs * mu / mu.sum()
            problem, x = build(flow, target)
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
