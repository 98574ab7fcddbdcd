"""How long until everything was tried, nothing being known? Steps until every pair was visited once.

Yardstick: the expected steps of the best policy of someone who knows the model (`budget(visits=1)`). A run
reports 40 times a decade, so its figure is up to 6 % too large. Restarts are part of DeepSea: the bottom
leads back to the start.
"""

from __future__ import annotations

import numpy as np

import rhocover as rc
from benchmarks import report, seeds

SEEDS, ROWS, BAR = 20, 40, 20.0
MODELS = {
    "river_swim(20)": rc.envs.river_swim(num_states=20),
    "deep_sea(10)": rc.envs.deep_sea(),
    "double_chain(31)": rc.envs.double_chain(),
    "six_arms": rc.envs.six_arms(),
    "forked_river_swim": rc.envs.forked_river_swim(),
    "four_rooms": rc.envs.four_rooms(),
}
BARS = ("river_swim(20)", "deep_sea(10)")
KNOWING = ("learned", "from_scratch")


def run() -> None:
    rows, verdicts = [], {}
    for name, mdp in MODELS.items():
        needed = rc.budget(mdp, visits=1).expected_steps
        for model in KNOWING:
            steps = np.array(seeds.over(steps_until_all, [(name, model, seed) for seed in range(SEEDS)]))
            mean, error = seeds.mean_and_error(steps)
            rows.append(
                {"case": name, "model": model, "steps": mean, "± SE": error, "largest": int(steps.max()),
                 "needed when known": needed, "ratio": mean / needed, "largest ratio": steps.max() / needed}
            )  # fmt: skip
            if name in BARS:
                worst = steps.max() / needed
                figures = f"{mean / needed:.2f} on average, {worst:.2f} in the worst of {SEEDS} seeds"
                verdicts[f"{name}, {model}: {figures} (<= {BAR:g})"] = worst <= BAR
    report.write("discovery", rows, verdicts)


def steps_until_all(name: str, model: str, seed: int) -> int:
    """Returns the first reported step by which every pair of the world was visited."""
    mdp, num_steps = MODELS[name], 1_000
    while True:  # twice as long until it is done: the same seed takes the same steps again
        run = rc.explore(mdp, 2, num_steps, model=model, seed=seed, trace_points=ROWS)
        if run.is_complete:
            return int(run.trace["steps"][run.trace["visited"] == mdp.num_pairs][0])
        num_steps *= 2
