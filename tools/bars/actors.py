"""How close do 64 actors come to the limit, that know of each other only between rounds? After 2^20 steps.

Five models, known and learned, rho = 1, 2 and inf. The yardstick at finite rho is kappa_min: no explorer has
n E[Breg] below it in the long run, however its steps are divided. At inf there is no kappa_min: the yardstick
is one actor, told of every step. Regret is linear in deviations there, and those of 64 actors add up like
sqrt(64).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import report

STEPS, WORKERS, SEEDS, FACTOR = 2**20, 64, 4, 3.0
NAMES = ("river_swim", "four_rooms", "garnet", "grid_world", "noisy_river_swim")
ORDERS = (1.0, 2.0, float("inf"))


def models() -> dict[str, rc.MDP]:
    """Returns the models by name."""
    found = [rc.envs.make(name) for name in NAMES]
    return {f"{mdp.name}({mdp.num_states})": mdp for mdp in found}


def run() -> None:
    rows = [
        row_of(name, mdp, model, rho)
        for name, mdp in models().items()
        for model in ("known", "learned")
        for rho in ORDERS
    ]
    verdicts = {sentence(row): row["of the limit"] <= FACTOR for row in rows}
    report.write("actors", rows, verdicts)


def sentence(row: dict[str, Any]) -> str:
    yardstick = "one actor" if row["rho"] == np.inf else "the limit"
    found = f"{row['of the limit']:.2f} times {yardstick} (<= {FACTOR:g})"
    return f"{row['case']}, {row['model']}, rho = {row['rho']:g}: {found}"


def row_of(name: str, mdp: rc.MDP, model: str, rho: float) -> dict[str, Any]:
    found = [explored(mdp, model, rho, seed, workers=WORKERS) for seed in range(SEEDS)]
    scaled = STEPS * np.array([run.trace["bregman"][-1] for run in found])
    limit = found[0].trace.kappa_min
    if rho == np.inf:
        limit = STEPS * float(
            np.mean([explored(mdp, model, rho, seed).trace["bregman"][-1] for seed in range(SEEDS)])
        )
    return {
        "case": name,
        "model": model,
        "rho": rho,
        "n E[Breg]": float(scaled.mean()),
        "± SE": float(scaled.std(ddof=1) / SEEDS**0.5),
        "limit": limit,
        "of the limit": float(scaled.mean()) / limit,
        "n E[regret]": STEPS * float(np.mean([run.regret for run in found])),
        "seconds a run": float(np.mean([run.seconds for run in found])),
    }


def explored(mdp: rc.MDP, model: str, rho: float, seed: int, **given: Any) -> rc.Run:
    return rc.explore(mdp, rho, STEPS, model=model, seed=seed, trace_points=1, **given)  # pyright: ignore
