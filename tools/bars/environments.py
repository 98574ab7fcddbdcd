"""How well are real environments covered? Tables, ten-to-the-six steps on ice, and two that are binned.

1. The toy_text tables: recurrent states, best worst ratio at rho = inf, that of the uniformly random policy.
2. collect() on FrozenLake8x8-v1, 10^6 steps at rho = inf, known and learned, judged by the table's 14.757.
   The environment's own time limit of 200 steps is in force.
3. MountainCar-v0 (12x11 bins) and Pendulum-v1 (8x8 bins, 3 torques), 10^5 steps: state bins met, pairs met,
   and the worst ratio over the pairs that any of the runs met. Yardsticks: the uniformly random policy, and
   MaxEnt as it is best: told of all bins beforehand.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from benchmarks import report, seeds
from rhocover.occupancy import Occupancies

TABLES = {
    "FrozenLake-v1": (11, 4.068, 12.5), "FrozenLake8x8-v1": (53, 14.757, 1785),
    "CliffWalking-v1": (37, 1.520, 43.6), "Taxi-v4": (400, 1.020, 4.1),
}  # fmt: skip
LAKE_STEPS, LAKE_BARS = 1_000_000, {"known": 1.10, "learned": 1.25}
BIN_STEPS, SEEDS = 100_000, 5
EXPLORERS = ("feedback", "tracking", "uniform_random", "maxent")


def angle_and_speed(observation: Any) -> tuple[float, float]:
    return math.atan2(observation[1], observation[0]), float(observation[2])


BINNED: dict[str, dict[str, Any]] = {
    "MountainCar-v0": {"states": rc.Bins((12, 11))},
    "Pendulum-v1": {
        "states": rc.Bins((8, 8), low=(-math.pi, -8), high=(math.pi, 8), of=angle_and_speed), "actions": 3
    },
}  # fmt: skip


def run() -> None:
    verdicts: dict[str, bool] = {}
    rows = [*tables(verdicts), *lake(verdicts), *binned(verdicts)]
    columns = {name: "" for row in rows for name in row}
    report.write("environments", [columns | row for row in rows], verdicts)


def tables(verdicts: dict[str, bool]) -> list[dict[str, Any]]:
    """Returns the figures of the tables."""
    rows = []
    for name, (states, best, uniform) in TABLES.items():
        mdp = rc.MDP.from_gymnasium(gym.make(name))
        found = rc.plan(mdp, float("inf")).worst_ratio
        policy = 1 / np.bincount(mdp.pair_state)[mdp.pair_state]
        d = Occupancies.average(mdp).from_policy(policy)
        random = float(1 / mdp.num_pairs / d.min())
        rows.append({"case": name, "states": mdp.num_states, "worst ratio": found, "random policy": random})
        same = abs(found - best) < 1e-3 and abs(random / uniform - 1) < 0.01
        verdicts[f"{name}: {states} states, {best:g}, random {uniform:g}"] = same and mdp.num_states == states
    return rows


def lake(verdicts: dict[str, bool]) -> list[dict[str, Any]]:
    """Returns what collections on the large lake come to."""
    jobs = [("known", "feedback"), ("learned", "feedback"), ("known", "uniform_random")]
    best, rows = TABLES["FrozenLake8x8-v1"][1], []
    for (model, explorer), found in zip(jobs, seeds.over(collected, jobs), strict=True):
        rows.append({"case": f"lake 8x8, {model}, {explorer}", "worst ratio": found})
        if explorer == "feedback":
            bar = LAKE_BARS[model]
            words = (
                f"collect on FrozenLake 8x8, {model}: {found:.2f} = {found / best:.3f} of {best} (<= {bar:g})"
            )
            verdicts[words] = found <= bar * best
    return rows


def collected(model: str, explorer: str) -> float:
    """Returns the worst ratio of a collection, judged by the table."""
    with tempfile.TemporaryDirectory() as folder:
        env = gym.make("FrozenLake8x8-v1")
        found = rc.collect(
            env, float("inf"), LAKE_STEPS, out=Path(folder, "set"), model=model, explorer=explorer
        )
        return rc.audit(found.path, float("inf"), model=gym.make("FrozenLake8x8-v1")).worst_ratio


def binned(verdicts: dict[str, bool]) -> list[dict[str, Any]]:
    """Returns how many bins are met, and how evenly."""
    rows = []
    for name in BINNED:
        jobs = [(name, explorer, seed) for explorer in EXPLORERS for seed in range(SEEDS)]
        shares = seeds.over(visits, jobs)
        met = {pair for share in shares for pair in share}
        bins = {}
        for k, explorer in enumerate(EXPLORERS):
            mine = shares[k * SEEDS : (k + 1) * SEEDS]
            bins[explorer] = [len({key for key, _ in share}) for share in mine]
            worst = [max(1 / len(met) / share.get(pair, 1e-300) for pair in met) for share in mine]
            finite = [ratio for ratio in worst if ratio < 1e200]
            rows.append(
                {"case": f"{name}, {explorer}", "states": float(np.mean(bins[explorer])),
                 "fewest bins": min(bins[explorer]), "pairs": float(np.mean([len(share) for share in mine])),
                 "of": len(met), "worst ratio": float(np.mean(finite)) if len(finite) == SEEDS else math.inf}
            )  # fmt: skip
        mean = {explorer: float(np.mean(found)) for explorer, found in bins.items()}
        mine, others = mean.pop("feedback"), {other: mean[other] for other in ("uniform_random", "maxent")}
        words = f"{name}: feedback met {mine:g} bins on average over {SEEDS} seeds, others {others}"
        verdicts[words] = all(mine > other for other in others.values())
    return rows


def visits(name: str, explorer: str, seed: int) -> dict[Any, float]:
    """Returns the share of the visits of each (key, action) met."""
    run = rc.explore(
        gym.make(name), 2, BIN_STEPS, model="learned", explorer=explorer, seed=seed, **BINNED[name]
    )
    counts = run.tally.counts  # type: ignore[attr-defined]
    where = np.argwhere(counts > 0)
    return {(run.tally.keys[s], a): counts[s, a] / run.num_steps for s, a in where.tolist()}  # type: ignore
