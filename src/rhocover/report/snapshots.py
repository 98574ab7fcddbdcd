"""Coverage as it grows: which pairs have had too few visits after 100, 1,000, 10,000 steps.

A shorter run with the same seed is the beginning of a longer one, so the counts at some step are those of a
run that ends there. Algorithm 1 cuts its last episode where the budget ends, which keeps this true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run, explore
from rhocover.mdp import MDP
from rhocover.report.figures import summary_figure

MOST = 6  # maps on a page


def snapshots(world: MDP, rho: float, steps: Sequence[int], **arguments: Any) -> list[Run]:
    """Returns a run that ends at each of `steps`, all beginnings of one another; see `explore`."""
    if not len(steps) or len(steps) > MOST or list(steps) != sorted(set(steps)):
        raise InvalidArgumentError(f"`steps` must be 1 to {MOST} increasing numbers, got {list(steps)}.")
    return [explore(world, rho, int(t), trace_points=1, **arguments) for t in steps]


def decades(num_steps: int, first: int = 100) -> list[int]:
    """Returns powers of ten from `first` on and the last step, the latest of them if there are many.

    >>> decades(30_000)
    [100, 1000, 10000, 30000]
    """
    powers = [10**k for k in range(19) if first <= 10**k < num_steps]
    return [*powers, num_steps][-MOST:]


def snapshot_figure(runs: Sequence[Run], title: str = "") -> Figure:
    """Returns a map of target share / visited share for each run, side by side with one colour scale."""
    if not runs:
        raise InvalidArgumentError("`runs` must hold at least one run, got none.")
    panels = {f"after {run.num_steps:,} steps": visit_ratio(run) for run in runs}
    return summary_figure(runs[0].mdp, panels, title, quantity="ratio")


def visit_ratio(run: Run) -> FloatArray:
    """Returns target share / visited share `[S, A]`, inf where never visited; of episodes the worst step."""
    target = run.problem.table(run.coverage.mu_bar)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(target > 0, target / run.occupancy, 0.0)
    return ratio if ratio.ndim == 2 else ratio.max(axis=0)
