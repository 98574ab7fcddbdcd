"""Does planning over codes find more than learners that chase rewards? Cells that nobody knew of, by steps.

Worlds are in `code_worlds`; the rows are `explore` from scratch (`feedback`) and PPO with intrinsic rewards,
each with the same steps and 6 seeds. Every run is one process and one line of out/bars/codes.jsonl, so runs
go on in the background and are never repeated:

    python -m tools.bars.codes maze embedded --seeds 6            # what is missing, then the table
    python -m tools.bars.codes montezuma --steps 100000 --only feedback
    python -m tools.bars.codes --one maze feedback 0 51200        # one run

Needs torch, Stable-Baselines3, gymnasium-robotics, minigrid and ale-py for the worlds that use them, and
rllte-core for the rows of RLeXplore (see `rlexplore`).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from rhocover.environments.sources import EnvSource
from rhocover.experiments.env_runs import EnvTask, find, make_env_explorer
from tools.bars import rlexplore
from tools.bars.code_worlds import WORLDS

RUNS = Path("out/bars/codes.jsonl")
SEEDS, OURS, RHO = 6, "feedback", 2.0
SHARE = 0.95
BESIDE = ("uniform_random", "counts")  # shown, not part of the bars
Job = tuple[str, str, int, int]  # world, explorer, seed, steps


def one(world: str, explorer: str, seed: int, num_steps: int) -> dict[str, Any]:
    """Returns what one run found, ready for a line of the file."""
    asked, began = WORLDS[world], time.process_time()
    task = EnvTask(
        EnvSource("function", world, "", asked.make), asked.states, asked.actions, asked.held_out,
        _made(explorer), seed, num_steps // asked.repeat, RHO, None, "from_scratch",
    )  # fmt: skip
    found = find(task)
    return {
        "world": world, "explorer": explorer, "seed": seed, "num_steps": num_steps, "codes": found.codes.size,
        "cells": found.cells.size, "reachable": asked.reachable(),
        "cell_steps": (found.cells * asked.repeat).tolist(), "cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip


def _made(explorer: str) -> Any:
    return rlexplore.EXPLORERS.get(explorer) or make_env_explorer(explorer)[1]


def known() -> dict[Job, dict[str, Any]]:
    """Returns the runs in the file, by job."""
    lines = RUNS.read_text().splitlines() if RUNS.exists() else []
    runs = [json.loads(line) for line in lines]
    return {(r["world"], r["explorer"], r["seed"], r["num_steps"]): r for r in runs}


def start(job: Job) -> None:
    """Runs one job in its own process, which adds its line to the file."""
    command = [sys.executable, "-m", "tools.bars.codes", "--one", *map(str, job)]
    subprocess.run(command, check=True)


def measure(worlds: list[str], num_seeds: int, num_steps: int | None, only: list[str], workers: int) -> None:
    """Runs what is missing, a seed of everything before the next seed, and prints tables and verdicts."""
    jobs = [
        (world, explorer, seed, num_steps or WORLDS[world].num_steps)
        for seed in range(num_seeds)
        for world in worlds
        for explorer in rows_of(world)
        if not only or explorer in only
    ]
    missing = [job for job in jobs if job not in known()]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(start, missing))
    runs = known()
    rows, verdicts = [], {}
    for world in worlds:
        found = {
            x: [runs[job] for job in jobs if job[:2] == (world, x) and job in runs] for x in rows_of(world)
        }
        found = {x: several for x, several in found.items() if several}
        rows += [row(world, x, several) for x, several in found.items()]
        verdicts |= verdict(world, found)
    report.write("codes", rows, verdicts)


def rows_of(world: str) -> tuple[str, ...]:
    """Returns the explorers of a world: ours, those of the bar, and those beside them."""
    theirs = rlexplore.NAMES if rlexplore.is_installed() else ()
    return tuple(dict.fromkeys((OURS, *WORLDS[world].others, *BESIDE, *theirs)))


def times(runs: list[dict[str, Any]], share: float) -> list[float]:
    """Returns when each run had seen this share of the reachable cells; inf for never."""
    found = []
    for run in runs:
        needed = math.ceil(share * run["reachable"]) if run["reachable"] else 1
        steps = run["cell_steps"]
        found.append(float(steps[needed - 1]) if len(steps) >= needed else math.inf)
    return found


def row(world: str, explorer: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a line of the table: means with ranges over the seeds."""
    cells, total = [run["cells"] for run in runs], runs[0]["reachable"]
    is_known = total is not None
    return {
        "world": world, "explorer": explorer, "seeds": len(runs), "steps": runs[0]["num_steps"],
        "codes": spread([run["codes"] for run in runs]), "cells": spread(cells), "of": total or "?",
        "share": spread([c / total for c in cells], 3) if is_known else "-",
        "95 % at": spread(times(runs, SHARE)) if is_known else "-",
        "all at": spread(times(runs, 1.0)) if is_known else "-",
        "CPU s": round(float(np.mean([run["cpu_s"] for run in runs])), 1),
    }  # fmt: skip


def spread(values: list[Any], digits: int = 0) -> str:
    """Returns a mean with the least and the largest behind it."""
    mean = f"{np.mean(values):,.{digits}f}"
    return f"{mean} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def verdict(world: str, found: dict[str, list[dict[str, Any]]]) -> dict[str, bool]:
    """Returns the bar of a world, if it was run: ours against the best of the others."""
    others = {x: found[x] for x in WORLDS[world].others if x in found}
    if OURS not in found or not others:
        return {}
    ours, seeds = found[OURS], len(found[OURS])
    if world.startswith(("maze", "embedded")):
        return _maze_verdict(world, ours, others)
    if world.startswith("pointmaze"):
        means = {x: float(np.mean([r["cells"] / r["reachable"] for r in runs])) for x, runs in found.items()}
        rival = max(others, key=means.__getitem__)
        said = f"{world}: mean share of {seeds} seeds {means[OURS]:.3f} (>= {SHARE:g}), above {rival}"
        return {f"{said} {means[rival]:.3f}": means[OURS] >= SHARE and means[OURS] > means[rival]}
    if world.startswith(("montezuma", "platforms")):
        rooms = {x: float(np.mean([run["cells"] for run in runs])) for x, runs in found.items()}
        rival = max(others, key=rooms.__getitem__)
        said = f"{world}: mean rooms {rooms[OURS]:.1f}, more than {rival} {rooms[rival]:.1f}"
        return {said: rooms[OURS] > rooms[rival]}
    mine, theirs = max(times(ours, 1.0)), min(min(times(runs, 1.0)) for runs in others.values())
    said = (
        f"{world}: all codes at {mine:,.0f} (worst of {seeds}), at most half of the best other {theirs:,.0f}"
    )
    return {said: math.isfinite(mine) and mine <= theirs / 2}


def _maze_verdict(world: str, ours: list[Any], others: dict[str, list[Any]]) -> dict[str, bool]:
    least = min(run["cells"] / run["reachable"] for run in ours)
    most = {x: max(run["cells"] / run["reachable"] for run in runs) for x, runs in others.items()}
    rival = max(most, key=most.__getitem__)
    ratio = least / most[rival]
    return {
        f"{world}: least share of {len(ours)} seeds {least:.3f} (>= {SHARE:g})": least >= SHARE,
        f"{world}: that / the best run of the others ({rival}): {ratio:.2f} (>= 2)": ratio >= 2,
    }


def run() -> None:
    """Runs all worlds with their bars; the last takes hours."""
    measure(list(WORLDS), SEEDS, None, [], 2)


def main() -> None:
    """Runs what the arguments name."""
    parser = argparse.ArgumentParser(
        "python -m tools.bars.codes", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=", ".join(WORLDS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, help="instead of the steps of the world")
    parser.add_argument("--only", nargs="*", default=[], help="explorers")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--one", nargs=4, metavar=("WORLD", "EXPLORER", "SEED", "STEPS"))
    given = parser.parse_args()
    if given.one is None:
        measure(given.worlds or list(WORLDS), given.seeds, given.steps, given.only, given.workers)
        return
    world, explorer, seed, num_steps = given.one
    line = json.dumps(one(world, explorer, int(seed), int(num_steps)))
    RUNS.parent.mkdir(parents=True, exist_ok=True)
    with RUNS.open("a") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
