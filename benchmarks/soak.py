"""Does it last? 10^9 simulated steps in one run, and 10^4 plans in one process, without growth of memory.

The run is stored, interrupted half-way and taken up again. Its visits must add up, and flow must be
conserved: a state is left as often as it is entered, up to one at the ends. Plans go over random models,
orders, weights and criteria, each certified. Memory is read when a tenth of the work is done, everything is
compiled and every cache is full, and again at the end.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rhocover as rc
from benchmarks import report

ORDERS = (0.0, 0.5, 1.0, 2.0, 8.0, 64.0, float("inf"))
CRITERIA = ({"discount": 0.9, "start": 0}, {"horizon": 4, "start": 0}, {"eta": 1e-5})
ALLOWED = 8.0  # MB, the allocator's own slack: a plan that kept its factor would add ten times that


def run(num_steps: int = 10**9, num_plans: int = 10**4) -> bool:
    rows = [soak_run(num_steps), soak_plans(num_plans)]
    verdicts = {f"{row['what']}: grown by {row['grown MB']:.1f} MB (<= {ALLOWED:g}), {row['wrong']} wrong": (
        row["grown MB"] <= ALLOWED and row["wrong"] == 0) for row in rows}  # fmt: skip
    report.write("soak", rows, verdicts)
    return all(verdicts.values())


def soak_run(num_steps: int) -> dict:
    """One long run, interrupted half-way and resumed."""
    mdp, began, seen = rc.envs.noisy_river_swim(), time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        try:
            rc.explore(mdp, 2.0, num_steps, seed=0, out=out, report=_watch(seen, stop=num_steps // 2))
        except KeyboardInterrupt:
            found = rc.resume(out, report=_watch(seen, stop=None))
    early = next(megabytes for steps, megabytes in seen if steps >= num_steps // 10)
    wrong = int(found.counts.sum() != num_steps) + int(imbalance(found) > 1)
    return {
        "what": f"run of {num_steps:,} steps", "seconds": time.perf_counter() - began, "MB": seen[-1][1],
        "grown MB": seen[-1][1] - early, "wrong": wrong, "largest gap": found.gap,
    }  # fmt: skip


def _watch(seen: list[tuple[int, float]], stop: int | None) -> Callable[[int, int], None]:
    def note(done: int, total: int) -> None:
        seen.append((done, resident()))
        if stop is not None and done >= stop:
            raise KeyboardInterrupt

    return note


def imbalance(found: rc.Run) -> int:
    """Returns by how much exits and entries of a state differ at most."""
    left = np.bincount(found.problem.mdp.pair_state, found.visits)
    entered = np.asarray(found.transitions.sum(axis=0)).ravel()
    return int(np.abs(left - entered).max())


def soak_plans(num_plans: int) -> dict:
    """Many plans of models that are all different."""
    began, early, wrong, largest = time.perf_counter(), resident(), 0, 0.0
    for k in range(num_plans):
        plan = rc.plan(**random_question(k))
        wrong += not (plan.gap <= 1e-8 and abs(plan.occupancy.sum() - 1) < 1e-9)
        largest = max(largest, plan.gap)
        if k == num_plans // 10:
            early = resident()
    return {
        "what": f"{num_plans:,} plans", "seconds": time.perf_counter() - began, "MB": resident(),
        "grown MB": resident() - early, "wrong": wrong, "largest gap": largest,
    }  # fmt: skip


def random_question(k: int) -> dict:
    """Returns the arguments of the k-th plan: small models, now and then one for the sparse back end."""
    rng = np.random.default_rng(k)
    size = 400 if k % 50 == 49 else int(rng.integers(3, 60))
    mdp = rc.envs.garnet(num_states=size, num_actions=int(rng.integers(2, 5)), num_successors=3, seed=k)
    criterion = CRITERIA[k % 10] if k % 10 < len(CRITERIA) else {}
    mu = None if criterion else np.exp(rng.normal(size=(size, mdp.num_actions)))
    return {"mdp": mdp, "rho": ORDERS[k % len(ORDERS)], "mu": mu, "restrict": True, **criterion}


def resident() -> float:
    """Returns the memory of this process in MB, with what nobody refers to given back first."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--plans", type=int, default=10**4)
    asked = parser.parse_args()
    sys.exit(0 if run(asked.steps, asked.plans) else 1)
