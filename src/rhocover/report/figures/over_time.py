"""Figures over time: regret, worst ratio, and one run in three panels.

`regret_figure` draws the pathwise regret, or the Bregman part of the suboptimality, against the steps. Both
axes are logarithmic, so a power of t is a straight line. Two guides help to read them:

- kappa_min/t. The Bregman part cannot stay below it on average. The pathwise regret can, because the noise of
  the environment is removed from it. kappa_min/t is the loss that this noise causes for every explorer, so
  regret below it no longer matters.
- t^(-1/3), the rate of the theorem for Algorithm 1: a line to compare slopes with, not a bound. The theorem
  is about U* - U(d_hat), which is at least the regret up to noise of order t^(-1/2), so the rate holds for
  the regret, too.

`worst_ratio_figure` draws the worst ratio, max of target share / visited share, and the best possible one. At
rho = inf this is the objective itself. A worst ratio of 2 means that one pair has half of its share and no
pair has less. The line starts when every pair has been visited; before that there is no number.

`run_figure` draws one run in three panels over the same axis of steps:

- divergence D_rho of the visits, and the best that any policy reaches in the long run;
- worst ratio, and that of the best plan;
- suboptimality xi = U* - U(d_hat), which may be negative, with the band +-sigma/sqrt(t) of the noise.

While coverage is incomplete there are no numbers, and a note says when that ended.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rhocover.checks import BoolArray, FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run
from rhocover.report.figures import BLUE, ORANGE
from rhocover.report.figures.drawing import LINE, MARGIN, SHARP, NotebookFigure, as_text, axes_at, drawing
from rhocover.report.figures.lines import (
    BOTTOM,
    GREY,
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    Curve,
    Ending,
    display_name,
    draw_curves,
    last_number,
    one_panel,
    time_axis,
    write_endings,
    write_head,
)
from rhocover.report.figures.maps import ratio_text

# Pathwise regret, or the Bregman part of the suboptimality, against steps.

Part = Literal["regret", "bregman"]
NAMES = {"regret": "pathwise regret", "bregman": "Bregman part"}
UNITS = {"U": r"units of $U_\rho$", "nats": "nats"}
GUIDES = {"regret": r"noise $\kappa_{\min}/t$", "bregman": r"limit $\kappa_{\min}/t$"}
THEOREM = -1 / 3
NAME_WIDTH = 0.27  # of the axes: the length of the label of the slope
MOST_DECADES = 9  # on the vertical axis; values below are rounding errors


def regret_figure(
    curves: Mapping[str, Curve],
    *,
    kappa_min: float = np.nan,
    theorem_for: str | None = None,
    part: Part = "regret",
    unit: Literal["U", "nats"] = "U",
    title: str = "",
) -> Figure:
    """Returns regret against steps, with one line and its 10 % to 90 % band per explorer.

    `kappa_min` adds the line kappa_min/t, `theorem_for` the slope -1/3 over that explorer's last decade.
    `part` is "regret" or "bregman", `unit` is the unit of the curves.
    """
    if part not in NAMES:
        raise InvalidArgumentError.of("part", "must be 'regret' or 'bregman'", repr(part))
    if not curves:
        raise InvalidArgumentError.of("curves", "must hold at least one curve", "none")
    with drawing():
        figure, axes = one_panel(title, note_of(curves))
        _draw(axes, curves, part, kappa_min, theorem_for)
        axes.set_ylabel(f"{NAMES[part]} ({UNITS[unit]})")
        _name_the_missing(axes, curves)
    return figure


def _name_the_missing(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Lists the explorers that have no line, so that the figure does not look complete without them."""
    missing = [name for name, curve in curves.items() if not np.isfinite(curve.mean).any()]
    if missing and len(missing) < len(curves):
        text = f"coverage incomplete: {', '.join(missing)}"
        axes.text(0.01, 0.02, text, transform=axes.transAxes, color=GREY, fontsize="small")


def note_of(curves: Mapping[str, Curve]) -> str:
    """Returns a note that explains lines and bands."""
    number = max(curve.num_seeds for curve in curves.values())
    return f"mean of {number} runs; bands from the 10 % to the 90 % quantile" if number > 1 else "one run"


def _draw(
    axes: Axes, curves: Mapping[str, Curve], part: Part, kappa_min: float, theorem_for: str | None
) -> None:
    shown = [curve for curve in curves.values() if np.isfinite(curve.mean).any()]
    first = next(iter(curves.values()))
    begin = min((int(curve.steps[np.isfinite(curve.mean)][0]) for curve in shown), default=1)
    time_axis(axes, int(first.steps[-1]), begin)
    axes.set_yscale("log")
    endings = draw_curves(axes, curves)
    if np.isfinite(kappa_min) and kappa_min > 0:
        endings.append(_guide(axes, first.steps[first.steps >= begin], kappa_min, GUIDES[part]))
    if theorem_for is not None and theorem_for in curves:
        _slope(axes, curves, theorem_for)
    _limit_heights(axes, curves, kappa_min)
    write_endings(axes, endings)


def _guide(axes: Axes, steps: Any, kappa_min: float, text: str) -> Ending:
    axes.plot(steps, kappa_min / steps, color=GREY, linestyle="--", linewidth=1, gid="limit", zorder=1.5)
    return Ending(text, float(kappa_min / steps[-1]), GREY)


def _slope(axes: Axes, curves: Mapping[str, Curve], explorer: str) -> None:
    """Draws the rate t^(-1/3) over an explorer's last decade, above all lines and bands, with a label."""
    curve = curves[explorer]
    t = curve.steps[np.isfinite(curve.mean)].astype(float)
    t = t[t >= t[-1] / 10] if t.size else t
    if t.size < 2:
        return
    tall = np.concatenate([_upper(other) * other.steps**-THEOREM for other in curves.values()])
    late = np.concatenate([(other.steps >= t[0]) & np.isfinite(_upper(other)) for other in curves.values()])
    line = 1.4 * tall[late].max() * t**THEOREM
    axes.plot(t, line, color=GREY, linewidth=0.8, gid="theorem")
    low, high = axes.get_xlim()
    lift = (high / low) ** (-THEOREM * NAME_WIDTH)  # how much higher the line is where its label begins
    axes.annotate(
        "slope $-1/3$ (theorem)", (float(t[-1]), float(line[-1] * lift)), (-2, 1),
        textcoords="offset points", fontsize=8, color=GREY, ha="right", va="bottom",
    )  # fmt: skip


def _upper(curve: Curve) -> FloatArray:
    return curve.high if curve.has_band else curve.mean


def _limit_heights(axes: Axes, curves: Mapping[str, Curve], kappa_min: float) -> None:
    """Fits the vertical axis to lines and bands, over at most `MOST_DECADES` decades."""
    heights = np.concatenate([np.r_[curve.mean, curve.low, curve.high] for curve in curves.values()])
    heights = heights[np.isfinite(heights) & (heights > 0)]
    last = next(iter(curves.values())).steps[-1]
    if np.isfinite(kappa_min) and kappa_min > 0:
        heights = np.append(heights, kappa_min / last)
    if heights.size:
        high = 3 * heights.max()
        axes.set_ylim(max(heights.min() / 2, high / 10**MOST_DECADES), high)


# The worst ratio against steps.

TICKS = np.array([1, 1.1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6])
HEADROOM = 1.04
APART = 0.22  # inches from one tick to the next


def worst_ratio_figure(curves: Mapping[str, Curve], *, best: float = np.nan, title: str = "") -> Figure:
    """Returns the worst ratio against steps, with one line and band per explorer, and the `best` one."""
    if not curves:
        raise InvalidArgumentError.of("curves", "must hold at least one curve", "none")
    with drawing():
        figure, axes = one_panel(title, note_of(curves))
        draw_worst_ratio(axes, curves, best)
    return figure


def draw_worst_ratio(axes: Axes, curves: Mapping[str, Curve], best: float) -> None:
    """Draws the lines, the best possible ratio, and an axis that fits them."""
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
    """Returns round ratios, at least this share of the axis apart; three other values if it is narrow."""
    kept: list[float] = []
    for tick in TICKS:
        if low <= tick <= high and (not kept or np.log(tick / kept[-1]) > apart * np.log(high / low)):
            kept.append(float(tick))
    return np.array(kept if len(kept) > 1 else np.round(np.geomspace(low, high, 5)[1:-1], 3))


# One run in three panels.

PANEL, BETWEEN = 1.45, 0.16  # inches
BLACK = "0.15"


def run_figure(run: Run, title: str = "") -> Figure:
    """Returns divergence, worst ratio and suboptimality of a run against steps, with the best possible."""
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
    lines = textwrap.wrap(
        title or rf"{display_name(run.explorer)} on {name}, $\rho$ = {_order(run.rho)}", width=58
    )
    top = MARGIN + LINE * len(lines) + 0.3
    height = top + 3 * PANEL + 2 * BETWEEN + BOTTOM
    figure = NotebookFigure(figsize=(LEFT + WIDTH + RIGHT, height), dpi=SHARP)
    write_head(figure, lines, _note(run, first))
    y = [top + k * (PANEL + BETWEEN) for k in range(3)]
    return figure, [axes_at(figure, LEFT, place, WIDTH, PANEL) for place in y]


def _note(run: Run, first: int | None) -> str:
    text = f"{run.num_steps:,} steps, seed {run.seed}"
    if first is None:
        return f"{text}; coverage at the end: {run.coverage_text}, so there are no numbers to draw"
    return f"{text}; the lines begin at step {first:,}, when every pair had been visited"


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
    if not low < high:  # nothing to show, or a single value
        low, high = (0.0, 1.0) if low > high else (low - 0.5, low + 0.5)
    margin = 0.08 * (high - low)
    axes.set_ylim(low - margin, high + margin)


def _share_axis(panels: list[Axes]) -> None:
    """Shows the step numbers only on the lowest panel, and aligns the labels on the left."""
    for axes in panels[:-1]:
        axes.set_xlabel("")
        axes.tick_params(axis="x", labelbottom=False)
    for axes in panels:
        axes.yaxis.set_label_coords(-0.62 / WIDTH, 0.5)
        axes.yaxis.label.set_verticalalignment("center")
