"""Curves over time of several runs, and how they are drawn.

A `Curve` has the mean and the quantiles of a quantity. The quantity of a run is nan while its coverage is
incomplete. A mean over only the complete runs would favour explorers that fail often, so a point of a curve
is a number only if every run has one there; `num_incomplete` counts the runs that have none.

Each explorer has one colour, a band around its line, and its name at the end of the line. Time is
logarithmic. The names are to the right of the axes, next to the last points of their lines; names that would
overlap are pushed apart and connected to their lines by thin strokes. Their positions are computed in inches
from the numbers, so the same data give the same figure everywhere.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run
from rhocover.report.figures.drawing import LINE, MARGIN, SHARP, NotebookFigure, axes_at

# Mean, quantiles, and the number of runs without a number.

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9


@dataclass(frozen=True, eq=False)
class Curve:
    """One quantity over time, all `[times]`; `low` and `high` are the 10 % and 90 % quantiles."""

    steps: IntArray
    mean: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray
    standard_error: FloatArray  # of the mean; nan for one run
    num_seeds: int
    num_incomplete: IntArray  # runs without a number

    @property
    def has_band(self) -> bool:
        """Whether there is more than one run."""
        return self.num_seeds > 1


def curve_of(steps: Any, values: Any) -> Curve:
    """Returns the curve of `values` `[runs, times]` at `steps` `[times]`; nan means no number yet.

    >>> curve = curve_of([1, 10], [[float("nan"), 2.0], [5.0, 4.0]])
    >>> curve.mean.tolist(), curve.num_incomplete.tolist()
    ([nan, 3.0], [1, 0])
    """
    values = np.atleast_2d(checks.real_array(values, "values"))
    steps = checks.float_array(steps, "steps", (values.shape[1],)).astype(np.int64)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf: values beyond float64 have no spread
        low, median, high = np.quantile(values, [LOW, MIDDLE, HIGH], axis=0)
        mean, error = values.mean(axis=0), standard_error(values)
    lost = np.isnan(values).sum(axis=0).astype(np.int64)
    return Curve(steps, mean, low, median, high, error, len(values), lost)


def standard_error(values: FloatArray) -> FloatArray:
    """Returns the standard error of the mean over the first axis; nan for one value."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        return values.std(axis=0, ddof=1) / math.sqrt(len(values))


def curves_of_runs(runs: Sequence[Run], column: str) -> dict[str, Curve]:
    """Returns the curve of a trace column for each explorer among the runs, in their order."""
    if not runs:
        raise InvalidArgumentError.of("runs", "must hold at least one run", "none")
    steps = runs[0].trace["steps"]
    if not all(np.array_equal(run.trace["steps"], steps) for run in runs):
        raise InvalidArgumentError.of(
            "runs", "must have one grid of steps: the same num_steps and trace_points"
        )
    names = dict.fromkeys(run.explorer for run in runs)
    return {
        name: curve_of(steps, [run.trace[column] for run in runs if run.explorer == name]) for name in names
    }


# Drawing.

COLOURS = {  # Okabe and Ito: safe for colour-blind readers
    "feedback": "#0072B2", "tracking": "#009E73", "stationary": "#E69F00", "algorithm1": "#D55E00",
    "algorithm1_short": "#CC79A7", "algorithm1_adaptive": "#56B4E9",
}  # fmt: skip
CITED = {  # too many colours to be distinguished by every reader, but the names are next to the lines
    "uniform_random": "#9A9A9A", "maxent": "#8C564B", "weighted_maxent": "#B07D62", "fw_modest": "#6A3D9A",
    "active_exploration": "#1B7837", "state_marginal_matching": "#A6A61D", "max_renyi": "#B15928",
    "generative_sampling": "#4D6B1E", "ent_game": "#C2185B", "reward_free": "#7B4173", "rf_ucrl": "#843C39",
    "rf_express": "#D6616B", "cov_game": "#1F3B73",
}  # fmt: skip
OTHERS = ("#000000", "#7F7F7F", "#8C6D31", "#5254A3")
NAMES = {
    "algorithm1": "Algorithm 1", "algorithm1_short": "Algorithm 1, short",
    "algorithm1_adaptive": "Algorithm 1, adaptive", "uniform_random": "uniformly random", "maxent": "MaxEnt",
    "weighted_maxent": "Weighted-MaxEnt", "fw_modest": "FW-MODEST", "active_exploration": "FW-AME",
    "state_marginal_matching": "state matching", "max_renyi": "max Rényi",
    "generative_sampling": "any pair at any time", "ent_game": "EntGame", "reward_free": "reward-free",
    "rf_ucrl": "RF-UCRL", "rf_express": "RF-Express", "cov_game": "CovGame",
}  # fmt: skip
GREY, BAND = "0.35", 0.18
WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM = 5.0, 3.3, 0.85, 1.75, 0.62
ROW = 0.175  # inches from one name to the next
FEW_DECADES = 100  # a shorter time span also has ticks at 2 and 5
THOUSANDS = 100_000  # up to here, a number of steps is written without a power of ten


@dataclass(frozen=True)
class Ending:
    """A name at the right end of the axes, at a height in data units."""

    text: str
    height: float
    colour: str


def colours_of(explorers: Sequence[str]) -> dict[str, str]:
    """Returns the colour of each explorer: a fixed one if its name is known."""
    spare = iter(OTHERS * len(explorers))
    known = COLOURS | CITED
    return {name: known.get(name) or next(spare) for name in explorers}


def display_name(explorer: str) -> str:
    """Returns the name of an explorer as shown in figures."""
    return NAMES.get(explorer, explorer)


def one_panel(title: str, note: str = "") -> tuple[Figure, Axes]:
    """Returns a figure with one panel, its title above and space for names on the right."""
    lines = textwrap.wrap(title, width=58)
    head = LINE * len(lines) + (0.2 if note else 0.0)
    size = LEFT + WIDTH + RIGHT, MARGIN + head + 0.1 + HEIGHT + BOTTOM
    figure = NotebookFigure(figsize=size, dpi=SHARP)
    write_head(figure, lines, note)
    return figure, axes_at(figure, LEFT, MARGIN + head + 0.1, WIDTH, HEIGHT)


def write_head(figure: Figure, lines: Sequence[str], note: str = "") -> None:
    """Writes the title and a smaller note below it."""
    width, height = figure.get_size_inches()
    for number, line in enumerate(lines):
        figure.text(LEFT / width, 1 - (MARGIN + number * LINE) / height, line, fontsize=12, va="top")
    below = MARGIN + len(lines) * LINE - 0.02
    figure.text(LEFT / width, 1 - below / height, note, fontsize=8, va="top", color=GREY)


def draw_curves(axes: Axes, curves: Mapping[str, Curve]) -> list[Ending]:
    """Draws each curve with its band and returns where the lines end."""
    colours = colours_of(list(curves))
    endings = []
    for name, curve in curves.items():
        if curve.has_band:
            band: Any = {"color": colours[name], "alpha": BAND, "linewidth": 0}
            axes.fill_between(curve.steps, curve.low, curve.high, **band)
        axes.plot(curve.steps, curve.mean, color=colours[name], linewidth=1.8, gid=name)
        endings.append(Ending(display_name(name), last_number(curve.mean), colours[name]))
    return endings


def last_number(values: FloatArray) -> float:
    """Returns the last finite value; nan if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else np.nan


def time_axis(axes: Axes, num_steps: int, first: int = 1) -> None:
    """Makes the horizontal axis logarithmic in time, up to the last step."""
    axes.set_xscale("log")
    axes.set_xlim(min(first, num_steps / 2), num_steps)
    subs = (1.0,) if num_steps >= FEW_DECADES * first else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(10, subs=subs, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("steps taken")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def count_text(value: float) -> str:
    """Returns 100, 20,000, and powers of ten from a million on."""
    if value <= THOUSANDS:
        return f"{value:,.0f}"
    power = math.floor(math.log10(value) + 1e-9)
    digit = round(value / 10**power)
    return f"$10^{{{power}}}$" if digit == 1 else f"${digit}\\cdot 10^{{{power}}}$"


def write_endings(axes: Axes, endings: Sequence[Ending], height: float = HEIGHT) -> None:
    """Writes the names to the right of axes of this height, in order and without overlap."""
    known = [(_share(axes, ending.height), ending) for ending in endings if np.isfinite(ending.height)]
    known.sort(key=lambda pair: pair[0])
    wanted = np.array([share for share, _ in known])
    for y, share, (_, ending) in zip(spread(wanted, ROW / height), wanted, known, strict=True):
        stroke = Line2D([1.004, 1.03], [share, y], color=ending.colour, linewidth=0.7, clip_on=False)
        stroke.set_transform(axes.transAxes)
        axes.add_line(stroke)
        axes.text(1.036, y, ending.text, color=ending.colour, va="center", transform=axes.transAxes)


def _share(axes: Axes, value: float) -> float:
    """Returns the relative height of a value on the axes, within [0, 1]."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        low, high, value = np.log(low), np.log(high), np.log(max(value, 1e-300))
    return float(np.clip((value - low) / (high - low), 0, 1))


def spread(wanted: FloatArray, gap: float) -> FloatArray:
    """Returns positions in [0, 1] ordered as `wanted`, at least `gap` apart and as close to it as possible.

    Neighbours that are too close form a block around the mean of their wanted positions, as in isotonic
    regression.
    """
    offset = gap * np.arange(wanted.size)
    blocks: list[tuple[float, int]] = []  # mean of wanted - offset, number of members
    for value in wanted - offset:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, members = blocks.pop()
            mean, count = (mean * count + before * members) / (count + members), count + members
        blocks.append((mean, count))
    level = np.array([mean for mean, count in blocks for _ in range(count)], np.float64)
    top = 1 - (offset[-1] if wanted.size else 0.0)
    return np.clip(level, min(0.0, top), max(0.0, top)) + offset
