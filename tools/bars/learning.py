"""Does t times the regret stay bounded when the transitions are learned? Beside it: Algorithm 1.

Pathwise regret in units of U at rho = 2, uniform weights, 20 seeds; the true model judges. Plug-in
Algorithm 1 is the same belief with the paper's explorer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import report, seeds

SEEDS, STEPS, FROM, PAPER_STEPS = 20, 100_000, 3_000, 30_000
MODELS = {
    "river_swim(6)": rc.envs.river_swim(),
    "garnet(10,3,3)": rc.envs.garnet(num_states=10, num_actions=3, num_successors=3),
}
LARGEST, FACTOR = 3.0, 100.0


def run() -> None:
    rows, verdicts = [], {}
    for name in MODELS:
        ours = curve(name, "feedback", STEPS)
        late = {t: value for t, value in ours.items() if t >= FROM}
        spread = max(late.values()) / min(late.values())
        paper = curve(name, "algorithm1", PAPER_STEPS)[PAPER_STEPS] / PAPER_STEPS
        here = curve(name, "feedback", PAPER_STEPS)[PAPER_STEPS] / PAPER_STEPS
        rows += [{"case": name, "t": t, "t·R": value} for t, value in ours.items() if t >= 1000]
        rows += [{"case": f"{name}, algorithm1", "t": PAPER_STEPS, "t·R": PAPER_STEPS * paper}]
        verdicts[f"{name}: largest t·R / smallest from t = {FROM} on is {spread:.2f} (<= {LARGEST:g})"] = (
            spread <= LARGEST
        )
        verdicts[
            f"{name}: algorithm1 / feedback at t = {PAPER_STEPS} is {paper / here:.0f} (>= {FACTOR:g})"
        ] = paper / here >= FACTOR
    report.write("learning", rows, verdicts)


def curve(name: str, explorer: str, num_steps: int) -> dict[int, float]:
    """Returns the mean of t·R over the seeds, for the steps of the trace; nan where a seed is incomplete."""
    found = seeds.over(scaled_regret, [(name, explorer, num_steps, seed) for seed in range(SEEDS)])
    steps = found[0][0].tolist()
    return dict(zip(steps, np.mean([values for _, values in found], axis=0).tolist(), strict=True))


def scaled_regret(name: str, explorer: str, num_steps: int, seed: int) -> tuple[Any, Any]:
    run = rc.explore(MODELS[name], 2, num_steps, explorer=explorer, model="learned", seed=seed)
    return run.trace["steps"], run.trace["steps"] * run.trace["regret"]
