"""How close to the limit do explorers come? Pathwise regret at 30,000 steps, same seeds and budgets for all.

The yardstick is the paper's Algorithm 1 with its own schedule tau_k = 10 k^2. The limit is kappa_min: no
explorer has n E[Breg] below it in the long run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import models, report
from rhocover.theory import Exponent, measured_exponent

STEPS, SEEDS, MANY = 30_000, 40, 2_500
EXPLORERS = (
    "feedback", "tracking", "stationary", "algorithm1", "algorithm1_short", "algorithm1_adaptive",
)  # fmt: skip
LARGE_STEPS = 10_000_000  # for the exponent of Algorithm 1
WINDOWS = ((1_000, 100_000), (1_000_000, LARGE_STEPS))  # early, and where the theorem speaks


def cases() -> dict[str, tuple[rc.MDP, float, Any, float]]:
    """Returns model, rho, weights, and the factor asked of feedback over Algorithm 1, by name."""
    grid, river = models.slippery_grid(10), rc.envs.river_swim()
    garnet = rc.envs.garnet(num_states=10, num_actions=3, num_successors=3)
    return {
        "river_swim(6) rho=2": (river, 2.0, None, 5_000),
        "river_swim(6) rho=5": (river, 5.0, None, 200),
        "garnet(10,3,3) rho=1": (garnet, 1.0, None, 200),
        "noisy_river_swim(12) rho=2": (rc.envs.noisy_river_swim(), 2.0, None, 200),
        "grid 10x10 rho=2 random mu": (grid, 2.0, models.random_weights(grid), 200),
    }


def run() -> None:
    rows, verdicts = [], {}
    for name, (mdp, rho, mu, factor) in cases().items():
        found = {explorer: row_of(name, mdp, rho, mu, explorer) for explorer in EXPLORERS}
        rows += found.values()
        ratio = found["algorithm1"]["regret"] / found["feedback"]["regret"]
        verdicts[f"{name}: feedback {ratio:,.0f} times below algorithm1 (>= {factor:,})"] = ratio >= factor
        early, late = exponents(mdp, rho, mu)
        verdicts[
            f"{name}: exponent of algorithm1 {late.slope:.3f} ± {late.standard_error:.3f} from 10^6 to 10^7 "
            f"steps (<= -1/3; {early.slope:.3f} ± {early.standard_error:.3f} from 10^3 to 10^5)"
        ] = late.slope <= -1 / 3
        worst = max(row["identity error"] for row in found.values())
        verdicts[f"{name}: identity holds to {worst:.0e} (<= 1e-10)"] = worst <= 1e-10
    verdicts |= limit_verdict()
    report.write("explorers", rows, verdicts)


def row_of(name: str, mdp: rc.MDP, rho: float, mu: Any, explorer: str) -> dict[str, Any]:
    runs = [rc.explore(mdp, rho, STEPS, mu, explorer=explorer, seed=k, trace_points=1) for k in range(SEEDS)]
    regret = np.array([run.regret for run in runs])
    breg = STEPS * np.array([run.trace["bregman"][-1] for run in runs])
    return {
        "case": name,
        "explorer": explorer,
        "regret": float(regret.mean()),
        "± SE": float(regret.std(ddof=1) / SEEDS**0.5),
        "n E[Breg]": float(breg.mean()),
        "± SE ": float(breg.std(ddof=1) / SEEDS**0.5),
        "kappa_min": runs[0].trace.kappa_min,
        "identity error": max(run.identity_error() for run in runs),
        "seconds a run": float(np.mean([run.seconds for run in runs])),
    }


def exponents(mdp: rc.MDP, rho: float, mu: Any) -> list[Exponent]:
    """Returns the slope of log regret over log t in each window, averaged over runs, with its error."""
    runs = [
        rc.explore(mdp, rho, LARGE_STEPS, mu, explorer="algorithm1", seed=k, trace_points=5)
        for k in range(SEEDS)
    ]
    steps = runs[0].trace["steps"]
    regret = np.array([run.trace["regret"] for run in runs])
    windows = [(steps >= first) & (steps <= last) for first, last in WINDOWS]
    return [measured_exponent(steps[window], regret[:, window]) for window in windows]


def limit_verdict() -> dict[str, bool]:
    """Returns whether feedback is at the limit: enough runs for a standard error below 3%."""
    mdp = rc.envs.river_swim()
    runs = [rc.explore(mdp, 2.0, STEPS, seed=10_000 + k, trace_points=1) for k in range(MANY)]
    breg, kappa = STEPS * np.array([run.trace["bregman"][-1] for run in runs]), runs[0].trace.kappa_min
    mean, error = float(breg.mean()), float(breg.std(ddof=1) / MANY**0.5)
    return {
        f"n E[Breg] of feedback {mean:.3f} ± {error:.3f} over {MANY} runs, kappa_min {kappa:.4f} "
        f"(within 10%, SE < 3%)": abs(mean / kappa - 1) <= 0.10 and error / mean < 0.03
    }
