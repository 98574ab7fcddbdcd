"""What the sides of a grid of bins measure: the name of each axis, and values on it."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rhocover.checks import FloatArray
from rhocover.layout import Ruler
from rhocover.report.cells import Cells
from rhocover.report.drawing import as_text

MOST_TICKS = 5  # on a side: labels of six letters stand clear of each other on the smallest panel
EVEN = 1e-6  # of a width: bins that differ by no more were meant to be equal
MUTED = "0.3"


def draw_rulers(axes: Axes, cells: Cells, *, across: bool, upwards: bool) -> None:
    """Writes name and values of the first ruler below the cells, and of the second beside them."""
    axes.tick_params(length=2, colors=MUTED)
    first, *second = cells.rulers
    if across:
        places, labels = _within(*ruler_ticks(first), axes.get_xlim())
        axes.set_xticks(places, labels=labels)
        axes.set_xlabel(as_text(first.name), color=MUTED)
    if upwards and second:
        places, labels = ruler_ticks(second[0])
        places, labels = _within(len(second[0].edges) - 2 - places, labels, axes.get_ylim())
        axes.set_yticks(places, labels=labels)
        axes.set_ylabel(as_text(second[0].name), color=MUTED)


def ruler_ticks(ruler: Ruler) -> tuple[FloatArray, list[str]]:
    """Returns where to write what on a side; cell k is from k - 1/2 to k + 1/2.

    Bins of one width have round values, others some of their edges; open ends have none.
    """
    edges = np.array(ruler.edges)
    ends = np.flatnonzero(np.isfinite(edges))
    sides = ends.astype(np.float64) - 0.5
    if ends.size < 2:
        return sides, [f"{edge:.3g}" for edge in edges[ends]]
    known, widths = edges[ends], np.diff(edges[ends])
    if np.ptp(widths) > EVEN * widths.max():
        few = slice(None, None, math.ceil(ends.size / MOST_TICKS))
        return sides[few], [f"{edge:.3g}" for edge in known[few]]
    is_whole = bool(widths[0] == 1 and known[0] % 1 == 0.5)  # cells around whole numbers
    ticks = np.array(MaxNLocator(MOST_TICKS, integer=is_whole).tick_values(known[0], known[-1]))
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    places = sides[0] + (ticks - known[0]) / widths.mean()
    return places, [f"{tick + 0.0:.3g}" for tick in np.round(ticks, 12)]


def _within(
    places: FloatArray, labels: list[str], limits: tuple[float, float]
) -> tuple[list[float], list[str]]:
    """Returns the ticks inside the limits: others would stretch the axis."""
    low, high = sorted(limits)
    inside = [k for k, place in enumerate(places) if low <= place <= high]
    return [float(places[k]) for k in inside], [labels[k] for k in inside]
