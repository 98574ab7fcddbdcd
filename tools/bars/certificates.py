"""Does the certificate without the model hold, and how tight is it? 200 seeded runs, delta = 0.1.

A run violates it if at any look the least divergence that is certified exceeds that of the best plan of the
true model. Looks are at all rows of the trace, because the certificate promises to hold at all times at
once. Tightness is the certified gap beside the plug-in one and the true one, at the end.
"""

from __future__ import annotations

from typing import Any

import rhocover as rc
from benchmarks import report, seeds

SEEDS, DELTA = 200, 0.1
LOOKS = (300, 3_000, 20_000)
CASES = {
    "river_swim(6) rho 2": (rc.envs.river_swim(), 2.0),
    "river_swim(6) rho inf": (rc.envs.river_swim(), float("inf")),
    "wheel(5) rho 1": (rc.envs.wheel(), 1.0),
    "two states rho 2": (rc.MDP([[[0.7, 0.3], [0.1, 0.9]], [[0.4, 0.6], [0.9, 0.1]]]), 2.0),
}
TIGHTNESS = (3_000, 30_000, 300_000)


def run() -> None:
    rows, verdicts = [], {}
    for name in CASES:
        misses = sum(seeds.over(is_violated, [(name, seed) for seed in range(SEEDS)]))
        rows += [tightness(name, num_steps) for num_steps in TIGHTNESS]
        allowed = int(DELTA * SEEDS)
        verdicts[f"{name}: violated in {misses} of {SEEDS} runs (<= {allowed})"] = misses <= allowed
    report.write("certificates", rows, verdicts)


def is_violated(name: str, seed: int) -> bool:
    """Whether the bound was above the truth at some look; explorers of different habits take turns."""
    mdp, rho = CASES[name]
    explorer = ("feedback", "tracking", "uniform_random")[seed % 3]
    best = rc.plan(mdp, rho, tol=1e-10)
    for num_steps in LOOKS:  # the same seed takes the same steps again
        run = rc.explore(mdp, rho, num_steps, explorer=explorer, model="learned", seed=seed, trace_points=1)
        if run.is_complete and run.certificate(DELTA).lower_bound > best.divergence + 1e-9:
            return True
    return False


def tightness(name: str, num_steps: int) -> dict[str, Any]:
    mdp, rho = CASES[name]
    run = rc.explore(mdp, rho, num_steps, model="learned", seed=0, trace_points=1)
    found = run.certificate(DELTA)
    return {
        "case": name, "steps": num_steps, "certified gap": found.gap, "plug-in gap": found.plug_in_gap,
        "true gap": run.divergence - run.best.divergence, "best divergence": run.best.divergence,
        "certified bound": found.lower_bound,
    }  # fmt: skip
