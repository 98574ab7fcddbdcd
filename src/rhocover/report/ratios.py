"""The worst pair over time: max of target share / visited share, beside the best that is possible.

At rho = inf this is the objective itself. A worst ratio of 2 means that one pair has had half of its share
and no pair less; before every pair was visited there is no number and the line has not begun.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.report.curves import Curve
from rhocover.report.drawing import drawing
from rhocover.report.lines import GREY, HEIGHT, Ending, draw_curves, one_panel, time_axis, write_endings
from rhocover.report.regret import note_of
from rhocover.report.scales import ratio_text

TICKS = np.array([1, 1.1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6])
HEADROOM = 1.04
APART = 0.22  # inches from one tick to the next


def worst_ratio_figure(curves: Mapping[str, Curve], *, best: float = np.nan, title: str = "") -> Figure:
    """Returns the worst ratio against steps, a line with its band for each explorer, and the `best` one."""
    if not curves:
        raise InvalidArgumentError("`curves` must hold at least one curve, got none.")
    with drawing():
        figure, axes = one_panel(title, note_of(curves))
        draw_worst_ratio(axes, curves, best)
    return figure


def draw_worst_ratio(axes: Axes, curves: Mapping[str, Curve], best: float) -> None:
    """Draws the lines, the best possible one, and a ratio axis that holds them."""
    first = next(iter(curves.values()))
    known = [curve.steps[np.isfinite(curve.mean)] for curve in curves.values()]
    begin = min((int(steps[0]) for steps in known if steps.size), default=1)
    time_axis(axes, int(first.steps[-1]), begin)
    endings = draw_curves(axes, curves)
    if np.isfinite(best):
        axes.axhline(best, color=GREY, linestyle="--", linewidth=1, gid="best", zorder=1.5)
        endings.append(Ending(f"best plan {best:.4g}", best, GREY))
    heights = np.concatenate([np.r_[curve.mean, curve.low, curve.high] for curve in curves.values()])
    ratio_axis(axes, np.append(heights, best))
    write_endings(axes, endings)


def ratio_axis(axes: Axes, heights: FloatArray, panel: float = HEIGHT) -> None:
    """Makes the vertical axis, `panel` inches long, logarithmic over the finite ratios among `heights`."""
    heights = heights[np.isfinite(heights)]
    low, high = (heights.min() / HEADROOM, heights.max() * HEADROOM) if heights.size else (1.0, 2.0)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(list(_ticks(low, high, APART / panel))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: ratio_text(value)))
    axes.set_ylabel("worst ratio, target / visited")


def _ticks(low: float, high: float, apart: float) -> FloatArray:
    """Returns round ratios within the axis, this share of it apart; of a narrow axis three of its own."""
    kept: list[float] = []
    for tick in TICKS:
        if low <= tick <= high and (not kept or np.log(tick / kept[-1]) > apart * np.log(high / low)):
            kept.append(float(tick))
    return np.array(kept if len(kept) > 1 else np.round(np.geomspace(low, high, 5)[1:-1], 3))
