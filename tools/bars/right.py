"""Is every plan right? All rho on all named models, uniform and random weights; and is the proof one, too.

Yardsticks: the reference values of RiverSwim-6, and CVXPY + Clarabel at tolerance 1e-11 on small models,
against which plans that were stopped early must not claim a smaller gap than they have.
"""

from __future__ import annotations

import numpy as np

import rhocover as rc
from benchmarks import models, report
from benchmarks.yardstick import solve_with_cvxpy

REFERENCE = {
    1: 0.148958613, 1.5: 0.224795624, 2: 0.293000580, 3: 0.396901096, 5: 0.504778357,
    10: 0.584927933, 100: 0.646744883, 1000: 0.652373344, float("inf"): 0.65299309,
}  # fmt: skip


def run() -> None:
    rows = [
        sweep(name, mdp, kind)
        for name, mdp in models.named_models().items()
        for kind in ("uniform", "random")
    ]
    errors = [abs(rc.plan(rc.envs.river_swim(), rho).divergence - d) for rho, d in REFERENCE.items()]
    claims = [claim for name in ("river_swim", "wheel", "noisy_river_swim") for claim in early_claims(name)]
    report.write(
        "right",
        rows,
        {
            "certified gap <= 1e-8 everywhere": all(row["failures"] == 0 for row in rows),
            f"at most 80 Newton steps ({max(row['most steps'] for row in rows)})": all(
                row["most steps"] <= 80 for row in rows
            ),
            f"reference values to 1e-7 (largest error {max(errors):.1e})": max(errors) <= 1e-7,
            f"no certificate below the true gap ({len(claims)} early stops)": all(claims),
        },
    )


def sweep(name: str, mdp: rc.MDP, kind: str) -> dict[str, object]:
    mu = None if kind == "uniform" else models.random_weights(mdp)
    plans = [rc.plan(mdp, rho, mu, throw=False) for rho in models.RHOS]
    return {
        "model": name,
        "weights": kind,
        "failures": sum(p.gap > 1e-8 or p.status is not rc.planning.PlanStatus.SOLVED for p in plans),
        "largest gap": max(p.gap for p in plans),
        "largest flow residual": max(p.residuals.flow for p in plans),
        "most steps": max(p.steps for p in plans),
        "seconds": sum(p.seconds for p in plans),
    }


def early_claims(name: str) -> list[bool]:
    """Returns, for plans stopped after 1, 2, ... steps, whether gap >= true gap (up to the yardstick's)."""
    mdp, claims = rc.envs.make(name), []
    for rho in (1, 2, 8, float("inf")):
        best = solve_with_cvxpy(mdp, np.ones(mdp.num_pairs), rho, tight=True)
        for steps in range(1, 12):
            plan = rc.plan(mdp, rho, max_steps=steps, throw=False)
            claims.append(plan.gap >= plan.divergence - best.divergence - 1e-8)
    return claims
