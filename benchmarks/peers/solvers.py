"""Solvers that people use instead of `plan`, behind one function.

Each solver gets its time limit as an option; `workers` ends what does not keep to it.

Forms. Variables are scaled to x = n d, because with sum d = 1 every tolerance is far above the entries; for
each rho all forms that CVXPY accepts are offered, and the fastest that arrives counts. "naive" is the form
that the definition suggests: d itself, sum mu^rho d^(1-rho) / (1-rho), max mu/d, and CVXPY's default solver.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks.peers.workers import Clock
from benchmarks.yardstick import largest_level, least_extra, on_simplex
from rhocover.checks import FloatArray, Matrix

INF = float("inf")
SMALLEST = 1e-300  # shares of zero have no divergence; solvers return some, and negative ones
OPTIONS: dict[str, Callable[[float], dict[str, Any]]] = {
    "CLARABEL": lambda seconds: {"time_limit": seconds},
    "SCS": lambda seconds: {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 10**7, "time_limit_secs": seconds},
}


@dataclass(frozen=True, eq=False)
class Solved:
    """What a solver returned, and how long it took from the model to the occupancy."""

    seconds: float  # of the processor or by the clock, whichever is less
    wall: float  # by the clock
    status: str
    occupancy: FloatArray | None = None  # per pair, as it came: not normalised, not clipped


def forms(solver: str, rho: float) -> list[str]:
    """Returns the names of the forms of this rho that a solver can take; HiGHS takes linear programs."""
    if solver == "HiGHS":
        return ["simplex", "interior point"] if rho == INF else []
    if solver == "naive":
        return ["naive"]
    if rho == INF:
        return ["max t", "cone"]
    if rho == 1:
        return ["log"]
    if rho < 1:
        return ["power"]
    return ["inverse", "log-sum-exp"] if rho == 2 else ["power", "power cone", "log-sum-exp"]


def solve(mdp: rc.MDP, mu: FloatArray, rho: float, solver: str, form: str, limit: float) -> Solved:
    """Returns what one solver makes of one form, within about `limit` seconds if it keeps its promise."""
    clock = Clock()
    flow, share = rc.Occupancies.average(mdp).flow, mu / mu.sum()
    run = with_highs if solver == "HiGHS" else with_cvxpy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            status, d = run(flow, share, rho, solver, form, limit)
        except Exception as error:  # whatever a solver dies of is its status
            status, d = f"{type(error).__name__} of the solver", None
    return Solved(clock.seconds, clock.wall, status, d)


def with_highs(
    flow: Matrix, share: FloatArray, rho: float, solver: str, form: str, limit: float
) -> tuple[str, FloatArray | None]:
    """Solves min 1'x, A x = -A mubar, x >= 0: its minimum is t* of the worst case; scaled by n."""
    from scipy.optimize import linprog

    target = share.size * share
    method = {"simplex": "highs-ds", "interior point": "highs-ipm"}[form]
    found = linprog(
        np.ones(share.size), A_eq=flow, b_eq=-(flow @ target), method=method, options={"time_limit": limit}
    )
    return found.message.split(".")[0], None if found.x is None else found.x + target


def with_cvxpy(
    flow: Matrix, share: FloatArray, rho: float, solver: str, form: str, limit: float
) -> tuple[str, FloatArray | None]:
    """Solves a form by CVXPY with one solver."""
    solver = "CLARABEL" if solver == "naive" else solver  # CVXPY's default for cones
    problem, x = _naive(flow, share, rho) if form == "naive" else _scaled(flow, share, rho, form)
    problem.solve(solver=solver, **OPTIONS[solver](limit))
    return problem.status, None if x.value is None else np.asarray(x.value)


def _naive(flow: Matrix, mu: FloatArray, rho: float) -> tuple[Any, Any]:
    import cvxpy as cp

    d = cp.Variable(flow.shape[1])
    if rho == INF:
        goal = cp.Minimize(cp.max(cp.multiply(mu, cp.inv_pos(d))))
    elif rho == 1:
        goal = cp.Maximize(cp.sum(cp.multiply(mu, cp.log(d))))
    else:
        goal = cp.Maximize(cp.sum(cp.multiply(mu**rho, cp.power(d, 1 - rho))) / (1 - rho))
    return cp.Problem(goal, [flow @ d == 0, cp.sum(d) == 1, d >= 0]), d


def _scaled(flow: Matrix, share: FloatArray, rho: float, form: str) -> tuple[Any, Any]:
    import cvxpy as cp

    target = share.size * share
    if form in ("max t", "cone"):
        return (largest_level if form == "max t" else least_extra)(flow, target)
    costs = {
        "log": lambda x: -target @ cp.log(x),
        "inverse": lambda x: target**2 @ cp.inv_pos(x),
        "power": lambda x: np.sign(rho - 1) * (
            target @ cp.power(cp.multiply(1 / target, x), 1 - rho, approx=True)),
        "power cone": lambda x: target @ cp.power(cp.multiply(1 / target, x), 1 - rho, approx=False),
        "log-sum-exp": lambda x: cp.log_sum_exp(
            np.log(share) - (rho - 1) * (cp.log(x) - np.log(target))),
    }  # fmt: skip
    return on_simplex(flow, costs[form])


def prepared(mdp: rc.MDP, mu: FloatArray) -> Callable[..., Solved]:
    """Returns `solve` for one model, for a worker; a small problem before it imports everything."""
    river = rc.envs.river_swim()
    for solver, form, rho in (("CLARABEL", "log", 1), ("SCS", "log", 1), ("HiGHS", "simplex", INF)):
        solve(river, np.ones(river.num_pairs), rho, solver, form, 10.0)
    return partial(solve, mdp, mu)


def judged(mdp: rc.MDP, coverage: rc.Coverage, found: Solved, best: float) -> dict[str, Any]:
    """Returns how far from the best an answer is, what it misses of the flow, and whether it failed.

    The flow is in units of the mean share of a pair. An answer that is more than 1e-6 off in either has
    failed, and so has one that the solver did not call (almost) optimal.
    """
    if found.occupancy is None or not np.isfinite(found.occupancy).all():
        return {"error": None, "flow": None, "failure": found.status}
    d = np.maximum(found.occupancy, SMALLEST)
    d = d / d.sum()
    error = coverage.divergence(d) - best
    flow = d.size * float(np.abs(rc.Occupancies.average(mdp).flow @ d).max())
    failure = "" if max(abs(error), flow) <= 1e-6 else f"off by {max(abs(error), flow):.0e}"
    return {"error": error, "flow": flow, "failure": failure}
