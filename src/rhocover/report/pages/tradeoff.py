"""The page of a trade-off: the best coverage for several least returns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from rhocover.planning import Tradeoff
from rhocover.planning.problem import counted_visits
from rhocover.report import pages
from rhocover.report.figures import BLUE
from rhocover.report.figures.drawing import as_text, drawing
from rhocover.report.figures.lines import one_panel

CAPTION = (
    "Each point is the best coverage with at least this return. The slope is the price: how much divergence "
    "one more unit of return costs."
)


def page_of_tradeoff(curve: Tradeoff) -> pages.Page:
    """Returns the page of a trade-off."""
    first = curve.plans[0]
    entries = [
        *pages.model_entries(curve.mdp), ("rho", pages.order_words(curve.rho)),
        ("weights mu", pages.weights_words(first.weights, first.unit)), ("covered", f"{first.unit}s"),
        ("visits that count", counted_visits(first.discount, first.horizon)), ("dropped", first.restriction),
    ]  # fmt: skip
    return replace(
        head_of_tradeoff(curve),
        sections=pages.sections(
            pages.section("Coverage against return", tradeoff_picture(curve), points_table(curve)),
            pages.settings_section(entries),
            pages.glossary_section("mu", "rho", "divergence", "worst ratio", "certified gap", "plan"),
        ),
    )


def head_of_tradeoff(curve: Tradeoff) -> pages.Page:
    """Returns the page of a trade-off without its sections: both ends of the curve."""
    first, last = curve.plans[0], curve.plans[-1]
    verdict = pages.Verdict(
        f"The best coverage has a return of {curve.returns[0]:.4g}, the best return is {curve.best:.4g}. "
        f"Between them the divergence rises from {pages.small_words(first.divergence)} to "
        f"{pages.small_words(last.divergence)} at a return of {curve.returns[-1]:.4g}."
    )
    numbers = (
        pages.KeyNumber(f"{curve.best:.4g}", "best return", "No policy has more."),
        pages.KeyNumber(f"{curve.returns[0]:.4g}", "return of the best coverage", "Without any condition."),
        pages.KeyNumber(
            pages.small_words(float(curve.gap.max())), "certified gap", "The largest of all points."
        ),
    )
    title = f"{curve.mdp.name or 'the model'}, rho = {pages.order_words(curve.rho)}"
    return pages.Page("Coverage against return", title, verdict, numbers)


def points_table(curve: Tradeoff) -> pages.Table:
    """Returns one row per point."""
    rows = tuple(
        (f"{value:.4g}", f"{plan.divergence:.6f}", f"{plan.gap:.1e}", pages.ratio_words(plan.worst_ratio),
         f"{price:.4g}")
        for value, price, plan in zip(curve.returns, curve.price, curve.plans, strict=True)
    )  # fmt: skip
    headings = ("return", "divergence, nats", "certified gap", "worst ratio", "price of a unit")
    return pages.Table("The best coverage with at least this return.", headings, rows)


def tradeoff_picture(curve: Tradeoff, title: str = "") -> pages.Picture:
    """Returns the curve of divergence against return with its caption."""
    usual = f"Coverage of {as_text(curve.mdp.name or 'the model')} against return"
    low, high = (pages.small_words(float(curve.divergence[k])) for k in (0, -1))
    alt = (
        f"A curve that rises from a divergence of {low} at a return of {curve.returns[0]:.4g} to {high} at "
        f"{curve.returns[-1]:.4g}. The table has all points."
    )
    return pages.Picture(_figure(curve, title or usual), CAPTION, alt)


def _figure(curve: Tradeoff, title: str) -> Figure:
    with drawing():
        figure, axes = one_panel(title)
        shown = np.isfinite(curve.divergence)
        line = {"color": BLUE, "linewidth": 1.8, "marker": "o", "markersize": 4}
        axes.plot(curve.returns[shown], curve.divergence[shown], gid="frontier", **line)
        axes.axvline(curve.best, color="0.35", linestyle="--", linewidth=1, gid="best", zorder=1.5)
        axes.set_xlabel("return (dashed: the best possible)")
        axes.set_ylabel("divergence, nats")
        axes.set_ylim(bottom=0)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
