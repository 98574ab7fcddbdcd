"""How good is the worst pair at rho = inf? max (1/SA)/d_hat after 50,000 steps, uniform weights.

Yardsticks: the best possible in the long run, and a tracker of the plan alone, whose maximum over noisy
counts is biased. Re-planning on the counts is what feedback does at large rho.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import models, report

STEPS, SEEDS = 50_000, 40
BARS = {"noisy_river_swim(12)": 1.17, "wheel(5)": 1.18}
EXPLORERS = ("feedback", "tracking", "stationary", "algorithm1")
SMALL = 12  # states up to which a linear program every 50 steps is affordable, for algorithm1_short


def run() -> None:
    grid = models.slippery_grid(10)
    cases = {
        "noisy_river_swim(12)": (rc.envs.noisy_river_swim(), None),
        "wheel(5)": (rc.envs.wheel(), None),
        "river_swim(6)": (rc.envs.river_swim(), None),
        "garnet(50,4,5)": (rc.envs.garnet(), None),
        "grid 10x10 random mu": (grid, models.random_weights(grid)),
    }
    rows = [row_of(name, *case, explorer) for name, case in cases.items() for explorer in chosen(case[0])]
    found = {(row["case"], row["explorer"]): row for row in rows}
    verdicts = {}
    for name, bar in BARS.items():
        ours, tracker = (found[name, key]["worst ratio"] for key in ("feedback", "tracking"))
        verdicts[f"{name}: {ours:.4f} (<= {bar}; tracking the plan alone: {tracker:.4f})"] = ours <= bar
    report.write("worst_case", rows, verdicts)


def chosen(mdp: rc.MDP) -> tuple[str, ...]:
    return (*EXPLORERS, "algorithm1_short") if mdp.num_states <= SMALL else EXPLORERS


def row_of(name: str, mdp: rc.MDP, mu: Any, explorer: str) -> dict[str, Any]:
    runs = [
        rc.explore(mdp, float("inf"), STEPS, mu, explorer=explorer, seed=k, trace_points=1)
        for k in range(SEEDS)
    ]
    complete = [run for run in runs if run.is_complete]
    worst = np.array([run.worst_ratio for run in complete])
    return {
        "case": name,
        "explorer": explorer,
        "worst ratio": float(worst.mean()),
        "± SE": float(worst.std(ddof=1) / len(worst) ** 0.5),
        "best possible": runs[0].best.worst_ratio,
        "incomplete runs": SEEDS - len(complete),
        "seconds a run": float(np.mean([run.seconds for run in runs])),
    }
