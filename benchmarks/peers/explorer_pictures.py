"""Coverage against steps, a panel for each environment: ours and the best others by name, the rest pale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.peers.explorer_systems import OURS, SYSTEMS
from rhocover.report.figures.drawing import STYLE
from rhocover.report.figures.lines import GREY, Ending, time_axis, write_endings
from rhocover.report.figures.over_time import ratio_axis

OWN = dict(zip(OURS.values(), ("#0072B2", "#56B4E9"), strict=True))
COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#6A3D9A")  # of the best others, best first
PALE, FROM = "0.82", 100  # steps: before that almost nobody has seen every pair
COLUMNS, WIDTH, HEIGHT, LEFT, NAMES, TOP, BETWEEN, BOTTOM = 2, 3.4, 2.5, 0.75, 1.65, 0.85, 0.75, 0.5
HIGHEST = {"worst ratio": 12.0, "divergence": 200.0}  # times the best line: what lies above is cut off
LABELS = {"worst ratio": "worst ratio, target / visited", "divergence": "divergence D₂"}

Lines = Mapping[str, Mapping[str, Sequence[float | None]]]  # system: mean, low, high


def coverage_figure(
    curves: Mapping[str, Lines], marks: Sequence[int], best: Mapping[str, float], name: str, num_seeds: int
) -> Figure:
    """Returns a panel for each environment; lines are means, bands hold 10 % to 90 % of the runs."""
    rows = -(-len(curves) // COLUMNS)
    columns = min(COLUMNS, len(curves))
    width = columns * (LEFT + WIDTH + NAMES) + 0.1
    height = TOP + rows * HEIGHT + (rows - 1) * BETWEEN + BOTTOM
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=150)
        figure.text(
            LEFT / width, 1 - 0.12 / height, f"Coverage against steps: {LABELS[name]}", fontsize=12, va="top"
        )
        note = f"mean of {num_seeds} runs, bands hold 10 % to 90 % of them; pale: the others; less is better"
        figure.text(LEFT / width, 1 - 0.36 / height, note, fontsize=8, va="top", color=GREY)
        for k, (env, lines) in enumerate(curves.items()):
            left = LEFT + (k % COLUMNS) * (LEFT + WIDTH + NAMES)
            below = height - TOP - (k // COLUMNS) * (HEIGHT + BETWEEN) - HEIGHT
            axes = figure.add_axes((left / width, below / height, WIDTH / width, HEIGHT / height))
            axes.set_title(env, fontsize=10, loc="left")
            _panel(axes, lines, np.array(marks), best[env], name)
    return figure


def _panel(axes: Axes, lines: Lines, marks: np.ndarray, best: float, name: str) -> None:
    lines = {x: line for x, line in lines.items() if SYSTEMS[x].play != "desk"}  # it does not walk
    time_axis(axes, int(marks[-1]), min(FROM, int(marks[-1]) // 4))
    named = _named(lines)
    for label, line in lines.items():
        if label not in named:
            axes.plot(marks, _array(line["mean"]), color=PALE, linewidth=0.9, zorder=1.2)
    endings = [_drawn(axes, marks, label, lines[label], colour) for label, colour in reversed(named.items())]
    axes.axhline(best, color=GREY, linestyle="--", linewidth=1, zorder=1.5)
    endings.append(Ending(f"best possible {best:.3g}", best, GREY))
    _heights(axes, [lines[label] for label in named], best, name)
    write_endings(axes, [e for e in endings if np.isfinite(e.height)], HEIGHT)
    axes.set_ylabel(LABELS[name])


def _named(lines: Lines) -> dict[str, str]:
    """Returns the colour of ours and of the best others that have seen every pair."""
    last = {x: line["mean"][-1] for x, line in lines.items() if x not in OWN and line["mean"][-1] is not None}
    others = sorted(last, key=lambda x: last[x])[: len(COLOURS)]
    return OWN | dict(zip(others, COLOURS, strict=False))


def _drawn(axes: Axes, marks: np.ndarray, label: str, line: Mapping[str, Any], colour: str) -> Ending:
    mean = _array(line["mean"])
    is_own = label in OWN
    axes.fill_between(marks, _array(line["low"]), _array(line["high"]), color=colour, alpha=0.15, linewidth=0)
    axes.plot(marks, mean, color=colour, linewidth=2.2 if is_own else 1.4, zorder=3 if is_own else 2)
    return Ending(label, float(mean[-1]), colour)


def _heights(axes: Axes, lines: Sequence[Mapping[str, Any]], best: float, name: str) -> None:
    """Fits the vertical axis to the lines with names, up to a multiple of the best."""
    tall = np.concatenate([np.r_[_array(x["low"]), _array(x["high"])] for x in lines])
    tall = tall[np.isfinite(tall) & (tall > 0)]
    tall = np.append(np.minimum(tall, HIGHEST[name] * best), best)
    if name == "worst ratio":
        ratio_axis(axes, tall, HEIGHT)
    else:
        axes.set_yscale("log")
        axes.set_ylim(tall.min() / 1.15, tall.max() * 1.15)
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _array(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if x is None else x for x in values])
