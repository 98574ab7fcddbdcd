"""Pictures of a comparison: what acting cost, and what the worst pair got, for one model and one order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rhocover.experiments.comparison import Comparison
from rhocover.exploring.trace import regret_column
from rhocover.report.drawing import as_text
from rhocover.report.ratios import worst_ratio_figure
from rhocover.report.regret import Part, regret_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"regret": "What acting cost", "bregman": "What could be controlled"}


def comparison_regret_figure(
    comparison: Comparison, env: str, rho: float, *, part: Part = "regret", title: str = ""
) -> Figure:
    """Returns regret, or its Bregman part, against steps for every explorer."""
    theorem = [name for name in comparison.explorers if comparison.follows_theorem(name)]
    column = regret_column(rho) if part == "regret" else part
    in_nats = column == "pathwise_excess"
    return regret_figure(
        comparison.curves(env, rho, column),
        kappa_min=np.nan if in_nats else comparison.fact(env, rho, "kappa_min"),
        unit="nats" if in_nats else "U",
        theorem_for=theorem[0] if theorem else None,
        part=part,
        title=title or f"{TITLES.get(part, part)}: {as_text(env)}, {order_name(rho)}",
    )


def comparison_worst_ratio_figure(comparison: Comparison, env: str, rho: float, *, title: str = "") -> Figure:
    """Returns the worst ratio against steps for every explorer, and that of the best plan."""
    return worst_ratio_figure(
        comparison.curves(env, rho, "worst_ratio"),
        best=comparison.fact(env, rho, "best_worst_ratio"),
        title=title or f"The worst pair: {as_text(env)}, {order_name(rho)}",
    )


def order_name(rho: float) -> str:
    """Returns rho as it is written in a picture."""
    return rf"$\rho$ = {'∞' if rho == float('inf') else f'{rho:g}'}"
