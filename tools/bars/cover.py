"""Is covering groups never worse than CVXPY + Clarabel, and five times faster? Ratios in one run.

States are covered with random weights, without a condition and under a cost budget. On four small models the
yardstick runs at tolerance 1e-12; what it returns is divided by its sum, which moves it off the flow
equations and the budget by its own residuals, so "worse" means by more than 1e-7. On the 100x100 grid both
run at their usual tolerances; times are processor times, because the machine may have other work. States
against pairs is the processor time of a plan on a 300x300 grid.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import rhocover as rc
from benchmarks import models, report
from rhocover.checks import FloatArray

INF = float("inf")
ORDERS = (1.0, 2.0, INF)
SMALL = {
    "river_swim(6)": rc.envs.river_swim, "four_rooms": rc.envs.four_rooms,
    "grid 20x20": lambda: models.slippery_grid(20), "garnet(200)": lambda: rc.envs.garnet(num_states=200),
}  # fmt: skip
FASTER, AS_PAIRS, WORSE = 5, 2, 1e-7
CLOSE = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


def run() -> None:
    rows = [
        compared(name, make(), rho, has_budget=budget, options=CLOSE)
        for name, make in SMALL.items() for rho in ORDERS for budget in (False, True)
    ]  # fmt: skip
    large = models.slippery_grid(100)
    rc.plan(models.slippery_grid(30), 2, cover="states")  # compiles
    raced = [
        compared("grid 100x100", large, rho, has_budget=budget) for rho in ORDERS for budget in (False, True)
    ]
    verdicts = {
        f"{label(row)}: {row['ours - cvxpy']:.1e} (<= {WORSE:g}), gap {row['gap']:.1e}": row["ours - cvxpy"]
        <= WORSE
        and row["gap"] <= 1e-8
        for row in (*rows, *raced)
    }
    verdicts |= {
        f"{label(row)}: {row['ratio']:.1f}x faster, at least {FASTER}x": row["ratio"] >= FASTER
        for row in raced
    }
    slower = states_against_pairs()
    verdicts[f"states / pairs on the 300x300 grid: {slower:.2f}x, at most {AS_PAIRS}x"] = slower <= AS_PAIRS
    report.write("cover", [*rows, *raced], verdicts)


def label(row: dict[str, Any]) -> str:
    return f"{row['model']} rho={row['rho']:g}{' with a budget' if row['budget'] else ''}"


def compared(
    name: str, mdp: rc.MDP, rho: float, *, has_budget: bool, options: dict[str, float] | None = None
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    mu, cost = rng.uniform(0.1, 1.0, mdp.num_states), rng.uniform(size=mdp.num_pairs)
    limit = 0.98 * float(cost @ uniform_visits(mdp)) if has_budget else INF
    asked = rc.at_most(cost, limit) if has_budget else None
    ours, plan = timed(lambda: rc.plan(mdp, rho, mu, cover="states", subject_to=asked))
    theirs, divergence = timed(lambda: yardstick(mdp, mu, rho, (cost, limit), options or {}))
    return {
        "model": name, "rho": rho, "budget": has_budget, "steps": plan.steps, "gap": plan.gap, "ours s": ours,
        "cvxpy s": theirs, "ours - cvxpy": plan.divergence - divergence, "ratio": theirs / ours,
    }  # fmt: skip


def uniform_visits(mdp: rc.MDP) -> FloatArray:
    share = 1 / np.bincount(mdp.pair_state)[mdp.pair_state]
    return rc.Occupancies.average(mdp).from_policy(mdp.table(share))


def yardstick(
    mdp: rc.MDP, mu: FloatArray, rho: float, budget: tuple[FloatArray, float], options: dict[str, float]
) -> float:
    """Returns the divergence of what CVXPY returns; inf if it returns nothing."""
    n, (cost, limit) = mdp.num_pairs, budget
    C = sp.csr_array((np.ones(n), (mdp.pair_state, np.arange(n))), shape=(mdp.num_states, n))
    target, x = mdp.num_states * mu / mu.sum(), cp.Variable(n)
    y = C @ x
    rules = [rc.Occupancies.average(mdp).flow @ x == 0, cp.sum(x) == mdp.num_states, x >= 0]
    rules += [cost @ x <= limit * mdp.num_states] if np.isfinite(limit) else []
    if rho == INF:
        t = cp.Variable()
        problem = cp.Problem(cp.Maximize(t), [*rules, y >= t * target])
    else:
        loss = -target @ cp.log(y) if rho == 1 else target**2 @ cp.inv_pos(y)
        problem = cp.Problem(cp.Minimize(loss), rules)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver="CLARABEL", **options)
        except cp.SolverError:
            return INF
    if x.value is None:
        return INF
    d = np.maximum(np.asarray(x.value), 1e-300)
    return rc.Coverage(rho, mu).divergence(C @ (d / d.sum()))


def states_against_pairs() -> float:
    """Returns the processor time of states over that of pairs, with the same random weights."""
    mdp = models.slippery_grid(300)
    mu = (
        mdp.table(models.random_weights(mdp))
        if models.random_weights(mdp).ndim == 1
        else models.random_weights(mdp)
    )
    pairs, _ = timed(lambda: rc.plan(mdp, 2.0, mu))
    states, _ = timed(lambda: rc.plan(mdp, 2.0, mu.sum(axis=1), cover="states"))
    return states / pairs


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = act()
    return time.process_time() - began, result
