"""Bars side by side, on logarithmic axes: ours in blue, the others in grey."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rhocover.report.figures.drawing import STYLE
from rhocover.report.figures.lines import GREY

OURS, THEIRS = "#0072B2", "#9A9A9A"
BAR = 0.21  # inches for one bar
LETTER, PANEL, GAP, HEAD, FOOT = 0.067, 2.1, 0.25, 0.9, 0.35  # inches; a letter of a name
ROOM = 8.0  # the axis goes so many times beyond the longest bar, for its number


def bars_figure(
    panels: Mapping[str, Mapping[str, float]], title: str, note: str, write: Callable[[float], str]
) -> Figure:
    """Returns horizontal bars, a panel for each mapping; `write` says what stands beside a bar."""
    names = list(dict.fromkeys(name for bars in panels.values() for name in bars))
    high = max(value for bars in panels.values() for value in bars.values())
    low = min(value for bars in panels.values() for value in bars.values())
    indent = 0.3 + LETTER * max(len(name) for name in names)
    width = indent + len(panels) * PANEL + (len(panels) - 1) * GAP + 0.3
    height = HEAD + FOOT + BAR * len(names) + 0.2
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=150)
        figure.text(0.2 / width, 1 - 0.16 / height, title, fontsize=12, va="top")
        figure.text(0.2 / width, 1 - 0.42 / height, note, fontsize=8, va="top", color=GREY)
        for k, (panel, bars) in enumerate(panels.items()):
            left = indent + k * (PANEL + GAP)
            box = (left / width, FOOT / height, PANEL / width, (height - HEAD - FOOT) / height)
            axes = figure.add_axes(box)
            axes.set_title(panel, fontsize=9, loc="left")
            _bars(axes, bars, names if k == 0 else [""] * len(names), names, write)
            _limits(axes, low, high, write)
    return figure


def _bars(
    axes: Axes, bars: Mapping[str, float], labels: Sequence[str], names: Sequence[str], write: Any
) -> None:
    for place, name in enumerate(names):
        if name in bars:
            colour = OURS if name.startswith("rhocover") else THEIRS
            axes.barh(place, bars[name], height=0.7, color=colour)
            axes.text(bars[name] * 1.12, place, write(bars[name]), va="center", fontsize=7.5, color="0.2")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)


def _limits(axes: Axes, low: float, high: float, write: Any) -> None:
    axes.set_xscale("log")
    axes.set_xlim(10 ** math.floor(math.log10(low)), high * ROOM)
    axes.xaxis.set_major_locator(LogLocator(10, numticks=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=7)


def short(value: float) -> str:
    """Returns a number with two digits: 1.2k, 35M, 0.012."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.2g}{unit}" if value < 100 * size else f"{value / size:.0f}{unit}"
    return f"{value:.2g}"
