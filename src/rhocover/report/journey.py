"""One run over time: how far its visits are from the target, and what of that was chance.

Three panels over one axis of steps:

- divergence D_rho of the visits, and the best that any policy reaches in the long run;
- worst ratio, and that of the best plan;
- suboptimality xi = U* - U(d_hat), of either sign, within the band +-sigma/sqrt(t) of the world's own noise.

Where coverage was incomplete there are no numbers, and the panels say until when that was.
"""

from __future__ import annotations

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rhocover.checks import BoolArray, FloatArray
from rhocover.exploring import Run
from rhocover.report.drawing import as_text, drawing
from rhocover.report.frontier import BLUE, ORANGE
from rhocover.report.lines import (
    BOTTOM,
    GREY,
    LEFT,
    RIGHT,
    WIDTH,
    Ending,
    last_number,
    spoken,
    time_axis,
    write_endings,
    write_head,
)
from rhocover.report.ratios import ratio_axis
from rhocover.report.sheet import LINE, MARGIN, SHARP, Picture, axes_at

PANEL, BETWEEN = 1.45, 0.16  # inches
BLACK = "0.15"


def run_figure(run: Run, title: str = "") -> Figure:
    """Returns divergence, worst ratio and suboptimality of a run against steps, with what is possible."""
    steps = run.trace["steps"]
    known = np.isfinite(run.trace["divergence"])
    first = int(steps[known][0]) if known.any() else int(steps[0])
    with drawing():
        figure, panels = _sheet(run, title, first if known.any() else None)
        for axes in panels:
            time_axis(axes, int(steps[-1]), first)
        _divergence(panels[0], run, known)
        _worst_ratio(panels[1], run, known)
        _suboptimality(panels[2], run, known)
        _share_axis(panels)
    return figure


def _sheet(run: Run, title: str, first: int | None) -> tuple[Figure, list[Axes]]:
    name = as_text(run.mdp.name or "the model")
    lines = textwrap.wrap(title or rf"{spoken(run.explorer)} on {name}, $\rho$ = {_order(run.rho)}", width=58)
    top = MARGIN + LINE * len(lines) + 0.3
    height = top + 3 * PANEL + 2 * BETWEEN + BOTTOM
    figure = Picture(figsize=(LEFT + WIDTH + RIGHT, height), dpi=SHARP)
    write_head(figure, lines, _note(run, first))
    y = [top + k * (PANEL + BETWEEN) for k in range(3)]
    return figure, [axes_at(figure, LEFT, place, WIDTH, PANEL) for place in y]


def _note(run: Run, first: int | None) -> str:
    text = f"{run.num_steps:,} steps, seed {run.seed}"
    if first is None:
        return f"{text}; coverage stayed {run.coverage_text}: there are no numbers to draw"
    return f"{text}; every pair was visited by step {first:,}, where the lines begin"


def _order(rho: float) -> str:
    return "∞" if np.isinf(rho) else f"{rho:g}"


def _divergence(axes: Axes, run: Run, known: BoolArray) -> None:
    values, best = run.trace["divergence"], run.best.divergence
    axes.plot(run.trace["steps"], values, color=BLUE, linewidth=1.8, gid="divergence")
    axes.axhline(best, color=GREY, linestyle="--", linewidth=1, gid="best", zorder=1.5)
    _fit(axes, np.append(values[known], best))
    axes.set_ylabel("divergence\n(nats)")
    _name_both(axes, last_number(values), BLUE, best)


def _worst_ratio(axes: Axes, run: Run, known: BoolArray) -> None:
    values, best = run.trace["worst_ratio"], run.best.worst_ratio
    axes.plot(run.trace["steps"], values, color=ORANGE, linewidth=1.8, gid="worst_ratio")
    axes.axhline(best, color=GREY, linestyle="--", linewidth=1, gid="best", zorder=1.5)
    ratio_axis(axes, np.append(values[known], best), PANEL)
    axes.set_ylabel("worst ratio,\ntarget / visited")
    _name_both(axes, last_number(values), ORANGE, best)


def _name_both(axes: Axes, last: float, colour: str, best: float) -> None:
    endings = [Ending("this run", last, colour), Ending(f"long-run best {best:.4g}", best, GREY)]
    write_endings(axes, endings, PANEL)


def _suboptimality(axes: Axes, run: Run, known: BoolArray) -> None:
    steps, values, noise = run.trace["steps"], run.trace["suboptimality"], run.trace.fluctuation
    noise = np.where(known, noise, np.nan)
    axes.axhline(0, color=GREY, linestyle="--", linewidth=1, gid="best", zorder=1.5)
    if np.isfinite(noise).any():
        axes.fill_between(steps, -noise, noise, color="0.5", alpha=0.22, linewidth=0, gid="noise")
    axes.plot(steps, values, color=BLACK, linewidth=1.8, gid="suboptimality")
    heights = np.concatenate([values, noise, -noise])
    _fit(axes, heights[np.isfinite(heights)])
    axes.set_ylabel("suboptimality\n$U^* - U$")
    endings = [Ending("this run", last_number(values), BLACK)]
    if np.isfinite(noise).any():
        endings.append(Ending(r"noise $\pm\sigma/\sqrt{t}$", -last_number(noise), GREY))
    write_endings(axes, endings, PANEL)


def _fit(axes: Axes, heights: FloatArray) -> None:
    low, high = heights.min(initial=np.inf), heights.max(initial=-np.inf)
    if not low < high:  # nothing to show, or one number
        low, high = (0.0, 1.0) if low > high else (low - 0.5, low + 0.5)
    margin = 0.08 * (high - low)
    axes.set_ylim(low - margin, high + margin)


def _share_axis(panels: list[Axes]) -> None:
    """Leaves the numbers of the steps to the lowest panel, and aligns the words at the left."""
    for axes in panels[:-1]:
        axes.set_xlabel("")
        axes.tick_params(axis="x", labelbottom=False)
    for axes in panels:
        axes.yaxis.set_label_coords(-0.62 / WIDTH, 0.5)
        axes.yaxis.label.set_verticalalignment("center")
