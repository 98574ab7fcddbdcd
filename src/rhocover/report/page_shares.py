"""Two curves for pages: the shares of all pairs in order, and how many pairs were visited over time.

The first stands where a map would tell nothing: states that lie nowhere, or too many of them. The second
stands where coverage is incomplete and there is nothing else to draw over time.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rhocover.checks import FloatArray, IntArray
from rhocover.report.drawing import drawing
from rhocover.report.frontier import BLUE
from rhocover.report.lines import GREY, Ending, one_panel, time_axis, write_endings
from rhocover.report.page_words import share_words

MOST_POINTS = 2_000  # on a curve
MOST_TICKS = 8
HEADROOM = 1.15
BELOW = 2.0  # so far below the least share lie pairs without a visit: clear of it, and off its ticks


def shares_figure(ratio: FloatArray, best: FloatArray | None = None) -> Figure:
    """Returns the shares 1/ratio of all pairs in increasing order, and those of the best plan.

    A pair without a visit is drawn below all others, at a line of its own that is called "none".
    """
    lines = {"visited": (1 / ratio, BLUE)} | ({} if best is None else {"best plan": (1 / best, GREY)})
    shares = np.concatenate([share for share, _ in lines.values()])
    least, has_none = float(shares[shares > 0].min(initial=1.0)), bool((shares == 0).any())
    lowest = least / BELOW if has_none else least
    with drawing():
        figure, axes = one_panel("")
        axes.axhline(1, color=GREY, linestyle="--", linewidth=1, gid="due", zorder=1.5)
        endings = [Ending("its share", 1.0, GREY)]
        for name, (share, colour) in lines.items():
            place, height = _thinned(np.maximum(np.sort(share), lowest))
            axes.plot(place, height, color=colour, linewidth=1.8, gid=name)
            endings.append(Ending(name, float(height[-1]), colour))
        _share_axes(axes, lowest / HEADROOM, HEADROOM * float(shares.max()), len(ratio))
        if has_none:
            _name_none(axes, lowest, least)
        write_endings(axes, endings)
    return figure


def discovery_figure(steps: IntArray, visited: IntArray, number: int) -> Figure:
    """Returns how many of `number` pairs were visited by each of `steps`."""
    last = int(visited[-1])
    with drawing():
        figure, axes = one_panel("")
        time_axis(axes, int(steps[-1]), int(steps[0]))
        axes.plot(steps, visited, color=BLUE, linewidth=1.8, gid="visited")
        axes.axhline(number, color=GREY, linestyle="--", linewidth=1, gid="all", zorder=1.5)
        axes.set_ylim(0, 1.06 * number)
        axes.set_ylabel("pairs visited")
        endings = [Ending(f"visited: {last:,}", last, BLUE), Ending(f"all: {number:,}", number, GREY)]
        write_endings(axes, endings)
    return figure


def _share_axes(axes: Axes, low: float, high: float, number: int) -> None:
    axes.set_yscale("log")
    axes.set_ylim(low, max(high, HEADROOM))
    axes.yaxis.set_major_locator(FixedLocator(_ticks(low, max(high, HEADROOM))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: share_words(value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlim(0, number)
    axes.set_xlabel("pairs, the least covered first")
    axes.set_ylabel("visits, as a share of what was asked")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _name_none(axes: Axes, lowest: float, least: float) -> None:
    """Calls the line of pairs without a visit by its name: it is no share."""
    shares = _ticks(least / HEADROOM, axes.get_ylim()[1])
    axes.yaxis.set_major_locator(FixedLocator([lowest, *shares]))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: share_words(value) if value > lowest else "none")
    )


def _ticks(low: float, high: float) -> list[float]:
    """Returns round shares within the axis, 100% among them, few enough to be read."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**power for power in powers for m in mantissas if low <= m * 10.0**power <= high]
        if len(ticks) <= MOST_TICKS:
            return ticks
    return [tick for tick in ticks if round(np.log10(tick)) % (len(ticks) // MOST_TICKS + 1) == 0]


def _thinned(share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns places and heights of at most `MOST_POINTS` points, the first and the last among them."""
    kept = np.unique(np.linspace(0, len(share) - 1, min(len(share), MOST_POINTS)).astype(np.int64))
    return kept.astype(float) + 0.5, share[kept]
