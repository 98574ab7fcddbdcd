"""How does planning grow? Grids from 10^4 to 10^6 states at rho = 2, each in a process of its own.

Own processes, so that the memory reported is that of one plan.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

from benchmarks import models, report

GROWTH = 300 ** (1 / 2)  # per factor of ten in states: 300 from 10^4 to 10^6
LIMIT_GB = 12


def run() -> None:
    rows = [measured(size) for size in (100, 300, 1000)]
    small, middle, large = rows
    verdicts = {
        f"time(10^6)/time(10^4) = {large['seconds'] / small['seconds']:.0f} <= 300": large["seconds"]
        <= 300 * small["seconds"],
        f"time(9*10^4)/time(10^4) = {middle['seconds'] / small['seconds']:.1f} within the same growth": (
            middle["seconds"] <= 300 ** (0.5 * 0.9542425) * small["seconds"]
        ),
        f"under {LIMIT_GB} GB ({large['peak GB']:.1f})": large["peak GB"] < LIMIT_GB,
        "gap <= 1e-8 at every size": all(row["gap"] <= 1e-8 for row in rows),
    }
    report.write("large", rows, verdicts)


def measured(size: int) -> dict:
    """Returns the row that `python -m tools.bars.large SIZE` prints in a fresh process."""
    command = [sys.executable, "-m", "tools.bars.large", str(size)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one(size: int) -> dict:
    """Plans on one grid; the least of five runs where they are short."""
    import rhocover as rc

    rc.plan(models.slippery_grid(30), 2)  # loads what was compiled before
    mdp = models.slippery_grid(size)
    mu = models.random_weights(mdp)
    runs = [rc.plan(mdp, 2, mu) for _ in range(5 if size <= 300 else 1)]
    plan = min(runs, key=lambda p: p.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    stages = {f"{stage} s": seconds for stage, seconds in plan.stages.items()}
    rest = plan.seconds - sum(plan.stages.values())
    return {
        "states": mdp.num_states, "pairs": mdp.num_pairs, "seconds": plan.seconds, "steps": plan.steps,
        "gap": plan.gap, "peak GB": peak, **stages, "rest s": rest,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(one(int(sys.argv[1]))))
