"""Pictures of plans: where the visits go, which pairs fall short, what rho buys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rhocover.checks import FloatArray
from rhocover.cli.inputs import order_text
from rhocover.planning import Plan
from rhocover.report.figures import frontier_figure, save_figure, summary_figure

LEAST_FRONTIER = 3  # fewer points are not a curve


def occupancy_picture(
    plans: Sequence[Plan], title: str, path: Path, *, first: Mapping[str, FloatArray] | None = None
) -> None:
    """Writes a map of the visits of each plan, all steps together; `first` are panels before them."""
    panels = dict(first or {}) | {panel_name(plan): visits(plan) for plan in plans}
    save_figure(summary_figure(plans[0].mdp, panels, title), path)


def ratio_picture(plans: Sequence[Plan], title: str, path: Path) -> None:
    """Writes a map of target share / visited share of each plan."""
    panels = {panel_name(plan): ratio(plan) for plan in plans}
    save_figure(summary_figure(plans[0].mdp, panels, title, quantity="ratio"), path)


def frontier_picture(plans: Sequence[Plan], title: str, path: Path) -> None:
    """Writes divergence and worst ratio against rho; nothing if fewer than three plans are finite.

    The curve starts from its limit D_0 = 0; what a plan at rho = 0 reports is the slope there.
    """
    points = sorted((plan.rho, plan.divergence if plan.rho > 0 else 0.0, plan.worst_ratio) for plan in plans)
    points = [point for point in points if np.isfinite(point[1:]).all()]
    if len(points) >= LEAST_FRONTIER:
        rho, divergence, worst_ratio = np.array(points).T
        save_figure(frontier_figure(rho, divergence, worst_ratio, title), path)


def panel_name(plan: Plan) -> str:
    """Returns the subtitle of a map."""
    return f"$\\rho$ = {order_text(plan.rho).replace('inf', '∞')}"


def visits(plan: Plan) -> FloatArray:
    """Returns the share of the visits of each pair `[S, A]`, over all steps."""
    return plan.occupancy if plan.occupancy.ndim == 2 else plan.occupancy.sum(axis=0)


def ratio(plan: Plan) -> FloatArray:
    """Returns target share / visited share `[S, A]`; with a horizon the worst step counts."""
    return plan.ratio if plan.ratio.ndim == 2 else plan.ratio.max(axis=0)
