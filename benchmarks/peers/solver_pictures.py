"""Pictures of times: over rho, over the number of states, in panels that share one key.

Colours belong to names, ours is blue. A cross stands where an answer failed: at the time that was spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rhocover.report.figures import save_figure
from rhocover.report.figures.drawing import STYLE
from rhocover.report.figures.lines import GREY

OURS = "this library"
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#7F7F7F")  # Okabe and Ito
WIDTH, HEIGHT, LEFT, BOTTOM, GAP, HEAD, KEY = 2.55, 1.9, 0.65, 0.5, 0.5, 0.75, 0.3
TICKS = {
    1e-5: "10 µs", 1e-4: "0.1 ms", 1e-3: "1 ms", 1e-2: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s",
    100.0: "100 s",
}  # fmt: skip


def panels(names: Sequence[str], columns: int, title: str, note: str) -> tuple[Figure, list[Axes]]:
    """Returns a figure with a panel for each name, in rows of so many columns, seconds upwards."""
    rows = -(-len(names) // columns)
    width = LEFT + columns * (WIDTH + GAP)
    height = HEAD + rows * (HEIGHT + BOTTOM + 0.3) + KEY
    figure = Figure(figsize=(width, height), dpi=150)
    figure.text(0.2 / width, 1 - 0.16 / height, title, fontsize=12, va="top")
    figure.text(0.2 / width, 1 - 0.42 / height, note, fontsize=8, va="top", color=GREY)
    found = []
    for k, name in enumerate(names):
        left = LEFT + (k % columns) * (WIDTH + GAP)
        top = HEAD + 0.2 + (k // columns) * (HEIGHT + BOTTOM + 0.3)
        box = (left / width, 1 - (top + HEIGHT) / height, WIDTH / width, HEIGHT / height)
        found.append(figure.add_axes(box))
        found[-1].set_title(name, fontsize=9, loc="left")
    return figure, found


def seconds_axis(axes: Axes) -> None:
    """Makes the upward axis logarithmic seconds with a light grid."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _duration(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def whole_decades(axes: Axes) -> None:
    """Lets the upward axis begin and end with powers of ten, so that it has at least two ticks."""
    low, high = np.log10(axes.dataLim.intervaly)
    axes.set_ylim(10 ** np.floor(low - 0.05), 10 ** np.ceil(high + 0.05))


def _duration(value: float) -> str:
    near = min(TICKS, key=lambda tick: abs(np.log10(value / tick)))
    return TICKS[near] if abs(np.log10(value / near)) < 0.1 else f"{value:g} s"


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Returns the colour of each name; ours is blue, the others take theirs in turn."""
    others = [name for name in names if name != OURS]
    return {OURS: "#0072B2"} | {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(others)}


def write_key(figure: Figure, axes: Axes, colours: Mapping[str, str]) -> None:
    """Writes the names in their colours in one line at the foot of the figure."""
    handles = [axes.plot([], [], "o-", color=colour, markersize=3.5)[0] for colour in colours.values()]
    figure.legend(handles, list(colours), loc="lower center", ncol=len(colours), frameon=False, fontsize=8)


def draw_line(
    axes: Axes, x: Sequence[float], rows: Sequence[Mapping[str, Any]], key: str, colour: str
) -> None:
    """Draws times over x: a line through what is right, a cross where it failed."""
    y = [np.nan if row.get(key) is None else float(row[key]) for row in rows]
    is_right = [key == "ours" or not row.get("failure") for row in rows]
    axes.plot(x, np.where(is_right, y, np.nan), "o-", color=colour, markersize=3.5, linewidth=1.5)
    failed = ~np.array(is_right) & np.isfinite(y)
    if failed.any():
        axes.plot(np.array(x)[failed], np.array(y)[failed], "x", color=colour, markersize=6)


def draw_rhos(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws seconds over rho, a panel for each model."""
    rhos = sorted({row["rho"] for row in rows}, key=float)
    names, peers = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "peer"))
    colours = colours_of([OURS, *peers])
    with matplotlib.rc_context(STYLE):
        note = "seconds from the model to the occupancy, over rho; a cross is a failure: no answer, or off"
        figure, all_axes = panels(names, min(3, len(names)), "Planning", note + " by more than 1e-6")
        for name, axes in zip(names, all_axes, strict=True):
            seconds_axis(axes)
            axes.set_xticks(range(len(rhos)), [f"{float(rho):g}" for rho in rhos])
            axes.set_xlim(-0.4, len(rhos) - 0.6)
            own = [row for row in rows if row["model"] == name]
            for peer in peers:
                found = [row for row in own if row["peer"] == peer]
                places = [rhos.index(row["rho"]) for row in found]
                draw_line(axes, places, found, "theirs", colours[peer])
            ours = {row["rho"]: row for row in own}
            places = [rhos.index(rho) for rho in ours]
            draw_line(axes, places, list(ours.values()), "ours", colours[OURS])
            whole_decades(axes)
        write_key(figure, all_axes[0], colours)
    save_figure(figure, path, overwrite=True)


def draw_sizes(
    lines: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], title: str, note: str, path: Path
) -> None:
    """Draws seconds over states; `lines` has a panel's names and, for each, rows with states and seconds."""
    names = list(dict.fromkeys(name for panel in lines.values() for name in panel))
    colours = {name: colour for name, colour in colours_of([OURS, *names]).items() if name in names}
    with matplotlib.rc_context(STYLE):
        figure, all_axes = panels(list(lines), min(2, len(lines)), title, note)
        for panel, axes in zip(lines.values(), all_axes, strict=True):
            seconds_axis(axes)
            axes.set_xscale("log")
            axes.set_xlabel("states")
            for name, rows in panel.items():
                draw_line(axes, [row["states"] for row in rows], rows, "seconds", colours[name])
            whole_decades(axes)
        write_key(figure, all_axes[0], colours)
    save_figure(figure, path, overwrite=True)
