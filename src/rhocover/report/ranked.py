"""Pairs of a model that lies nowhere: a list, the thinnest first, side by side for several tables.

A map shows where; states without a layout are nowhere, and a raster of them would show neighbours that are
none. So there is one line for each pair with its name, on a logarithmic scale, for as many as can be read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rhocover.checks import FloatArray, IntArray
from rhocover.mdp import MDP
from rhocover.report.drawing import as_text
from rhocover.report.scales import Scale
from rhocover.report.sheet import GAP, LINE, MARGIN, SHARP, Picture, axes_at

MOST_LINES = 20  # pairs: more names cannot be read on a page
NAMES, WIDTH, WIDEST, HEIGHT, BELOW = 1.6, 2.2, 9.0, 0.2, 0.55  # inches; a letter of the names is 0.075
LONGEST_NAME = 20  # letters of a pair's name
MARGIN_SHARE = 0.05  # of the axis on either side: points at its ends are whole
MUTED, LINES, NONE = "0.3", "0.8", "no visit"


def ranked_figure(
    mdp: MDP, panels: Mapping[str, FloatArray], scale: Scale, title: str, *, largest_first: bool
) -> Figure:
    """Returns one list per entry, values per pair `[n]`; the first panel says the order."""
    shown = _order(next(iter(panels.values())), largest_first)
    names = [_short(mdp.pair_name(int(pair))) for pair in shown]
    heading = ": ".join(filter(None, [title, *panels])) if len(panels) == 1 else title
    width = min(WIDTH if len(panels) > 1 else 2 * WIDTH, WIDEST / len(panels))
    top = MARGIN + (LINE if heading else 0) + LINE * (1 + (len(panels) > 1))
    size = (NAMES + len(panels) * (width + GAP) + MARGIN, top + HEIGHT * len(shown) + BELOW + MARGIN)
    figure = Picture(figsize=size, dpi=SHARP)
    _write(figure, heading, _which(mdp, shown, largest_first), size)
    for number, (subtitle, values) in enumerate(panels.items()):
        place = NAMES + number * (width + GAP), top, width, HEIGHT * len(shown)
        axes = axes_at(figure, *place)
        axes.set_title("" if len(panels) == 1 else subtitle, fontsize=10, pad=4)
        _draw(axes, values[shown], scale, names if number == 0 else [], is_middle=number == len(panels) // 2)
    return figure


def _order(values: FloatArray, largest_first: bool) -> IntArray:
    """Returns the pairs to show, the thinnest first; those without a number are left out."""
    known = np.flatnonzero(~np.isnan(values))
    height = -values[known] if largest_first else values[known]
    return known[np.argsort(height, kind="stable")][:MOST_LINES]


def _which(mdp: MDP, shown: IntArray, largest_first: bool) -> str:
    few = "most is missing" if largest_first else "visits are fewest"
    number = "all" if shown.size == mdp.num_pairs else f"{shown.size} of"
    return f"{number} {mdp.num_pairs:,} pairs, where {few} first"


def _write(figure: Figure, heading: str, which: str, size: tuple[float, float]) -> None:
    width, height = size
    if heading:
        figure.text(MARGIN / width, 1 - MARGIN / height, heading, fontsize=12, va="top")
    below = MARGIN + (LINE if heading else 0)
    figure.text(MARGIN / width, 1 - below / height, which, fontsize=9, va="top", color=MUTED)


def _draw(axes: Axes, values: FloatArray, scale: Scale, names: list[str], *, is_middle: bool) -> None:
    """Draws a point for each value, with a line from 1, or from the lower end where 1 is no value."""
    low, high = float(scale.norm.vmin or 0), float(scale.norm.vmax or 1)
    rows, margin = np.arange(values.size), (high / low) ** MARGIN_SHARE
    points, start = np.clip(np.nan_to_num(values, posinf=high), low, high), 1.0 if low < 1 < high else low
    is_known = (values > 0) & np.isfinite(values)
    axes.set_xscale("log")
    axes.set_xlim(low / margin, high * margin)  # before the points: an empty plot has no limits of its own
    axes.hlines(rows[is_known], start, points[is_known], color=LINES, linewidth=2)
    axes.scatter(
        points[is_known], rows[is_known], c=values[is_known], cmap=scale.colours, norm=scale.norm, s=34,
        edgecolors="0.4", linewidths=0.6, zorder=3, gid="values",
    )  # fmt: skip
    for row in rows[~is_known]:
        x, side = (high, "right") if np.isposinf(values[row]) else (low, "left")
        axes.text(x, row, NONE, fontsize=8, va="center", ha=side, color=MUTED)
    axes.set_ylim(values.size - 0.5, -0.5)
    axes.set_yticks(rows if names else [], labels=[as_text(name) for name in names])
    axes.set_xticks(scale.ticks, labels=scale.tick_labels)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(length=2, colors=MUTED)
    axes.set_xlabel(scale.label if is_middle else "", color=MUTED)
    axes.spines[["top", "right"]].set_visible(False)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
