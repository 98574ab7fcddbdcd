"""Figures of coverage: the visits, the pairs that have too few, and the effect of rho.

A *map* shows one number per pair on the cells of the model's layout; a model without a layout has a *ranked
list* of its pairs instead. A *summary* is several maps or lists with one scale. A *frontier* shows divergence
and worst ratio against rho from 0 to infinity. *Snapshots* are maps of a run after 100, 1,000, 10,000 steps.
Every function takes plain values and returns a matplotlib figure that pyplot does not manage: no window
opens, no display is needed, and nothing has to be closed.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run, explore
from rhocover.files import write_atomically
from rhocover.mdp import MDP
from rhocover.report.figures.drawing import (
    GAP,
    LINE,
    MARGIN,
    SHARP,
    NotebookFigure,
    as_text,
    axes_at,
    drawing,
    drawn,
)
from rhocover.report.figures.maps import (
    Scale,
    is_split,
    map_figure,
    occupancy_scale,
    ratio_scale,
    ratio_text,
    ratios_above_one,
)

# Ranked lists of pairs for models without a layout, least covered first, side by side for several tables. A
# raster would show neighbours that do not exist. So each pair has a line with its name, on a logarithmic
# scale, for as many pairs as are readable.

MOST_LINES = 20  # pairs: more names are not readable on a page
NAMES, WIDTH, WIDEST, HEIGHT, BELOW = 1.6, 2.2, 9.0, 0.2, 0.55  # inches; a character of a name is 0.075 wide
LONGEST_NAME = 20  # characters of a pair's name
MARGIN_SHARE = 0.05  # of the axis on either side, so that points at its ends are not cut off
MUTED, LINES, NONE = "0.3", "0.8", "no visit"


def ranked_figure(
    mdp: MDP, panels: Mapping[str, FloatArray], scale: Scale, title: str, *, largest_first: bool
) -> Figure:
    """Returns one list per entry, with values per pair `[n]`; the first panel determines the order."""
    shown = _order(next(iter(panels.values())), largest_first)
    names = [_short(mdp.pair_name(int(pair))) for pair in shown]
    heading = ": ".join(filter(None, [title, *panels])) if len(panels) == 1 else title
    width = min(WIDTH if len(panels) > 1 else 2 * WIDTH, WIDEST / len(panels))
    top = MARGIN + (LINE if heading else 0) + LINE * (1 + (len(panels) > 1))
    size = (NAMES + len(panels) * (width + GAP) + MARGIN, top + HEIGHT * len(shown) + BELOW + MARGIN)
    figure = NotebookFigure(figsize=size, dpi=SHARP)
    _write(figure, heading, _which(mdp, shown, largest_first), size)
    for number, (subtitle, values) in enumerate(panels.items()):
        place = NAMES + number * (width + GAP), top, width, HEIGHT * len(shown)
        axes = axes_at(figure, *place)
        axes.set_title("" if len(panels) == 1 else subtitle, fontsize=10, pad=4)
        _draw(axes, values[shown], scale, names if number == 0 else [], is_middle=number == len(panels) // 2)
    return figure


def _order(values: FloatArray, largest_first: bool) -> IntArray:
    """Returns the pairs to show, least covered first, without those whose value is nan."""
    known = np.flatnonzero(~np.isnan(values))
    height = -values[known] if largest_first else values[known]
    return known[np.argsort(height, kind="stable")][:MOST_LINES]


def _which(mdp: MDP, shown: IntArray, largest_first: bool) -> str:
    first = "largest ratio" if largest_first else "fewest visits"
    number = "all" if shown.size == mdp.num_pairs else f"{shown.size} of"
    return f"{number} {mdp.num_pairs:,} pairs, {first} first"


def _write(figure: Figure, heading: str, which: str, size: tuple[float, float]) -> None:
    width, height = size
    if heading:
        figure.text(MARGIN / width, 1 - MARGIN / height, heading, fontsize=12, va="top")
    below = MARGIN + (LINE if heading else 0)
    figure.text(MARGIN / width, 1 - below / height, which, fontsize=9, va="top", color=MUTED)


def _draw(axes: Axes, values: FloatArray, scale: Scale, names: list[str], *, is_middle: bool) -> None:
    """Draws one point per value, with a line from 1, or from the lower end if 1 is not on the axis."""
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


# The frontier, from matching on average to protecting the worst pair. D_rho of the optimum rises with rho and
# its worst ratio falls; since the worst ratio is exp(D_inf), both end in the minimax optimum at rho = inf. At
# rho = 0 the divergence is KL(visits || weights), as in every table: the slope of D_rho there, whose own
# limit is 0. So it is a point of its own, with its name, and not connected to the others.

TICKS = np.array([0, 0.25, 1, 2, 4, 8, 32, 128, np.inf])
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.35"  # Okabe and Ito: safe for colour-blind readers
HEADROOM = 0.06
ABOVE: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
LOWEST = 0.1  # nats; a smaller range would show rounding errors as curves
AT_ZERO = r"at $\rho$ = 0: KL(visits ‖ weights)"


def place(rho: FloatArray) -> FloatArray:
    """Returns the position sqrt(rho) / (1 + sqrt(rho)) on the axis: 0 and inf are its ends, 1 its middle."""
    with np.errstate(invalid="ignore"):  # inf/inf, replaced by its limit
        root = np.sqrt(rho)
        return np.where(np.isinf(rho), 1.0, root / (1 + root))


def draw_frontier(rho: FloatArray, divergence: FloatArray, worst_ratio: FloatArray, title: str) -> Figure:
    """Returns the figure; the arguments `[k]` are already checked."""
    lines = textwrap.wrap(title, width=60)
    top = MARGIN + LINE * (len(lines) + 1)
    figure = NotebookFigure(figsize=(6.8, top + 3.0 + 0.6), dpi=SHARP)
    axes = axes_at(figure, 0.78, top, 5.25, 3.0)
    axes.annotate("\n".join(lines), (0, 1), (0, 28), fontsize=12, **ABOVE)
    log_worst = np.log(worst_ratio)
    axes.plot(place(rho), log_worst, "s-", color=ORANGE, label="worst ratio", markersize=4.5)
    above = rho > 0
    axes.plot(
        place(rho[above]), divergence[above], "o-", color=BLUE, label=r"divergence $D_\rho$", markersize=4.5
    )
    if not above.all():
        _draw_slope(axes, float(divergence[0]))
    if np.isinf(rho[-1]):
        label = f"minimax optimum, worst ratio {worst_ratio[-1]:.4g}"
        axes.axhline(log_worst[-1], color=GREY, linestyle="--", linewidth=1, label=label, zorder=1)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=3, frameon=False, columnspacing=1.6)
    _scale_axes(axes, np.concatenate([divergence, log_worst]))
    return figure


def _draw_slope(axes: Axes, divergence: float) -> None:
    """Draws the divergence at rho = 0, which is not the limit of the others."""
    axes.plot([0], [divergence], "o", color=BLUE, markerfacecolor="white", markersize=5.5, gid="at zero")
    axes.annotate(
        AT_ZERO, (0, divergence), (7, 0), textcoords="offset points", fontsize=8, color=BLUE, va="center"
    )


def _scale_axes(axes: Axes, heights: FloatArray) -> None:
    low, high = min(0.0, heights.min()), max(heights.max(), LOWEST)
    margin = HEADROOM * (high - low)
    axes.set_ylim(low - margin / 2, high + margin)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks(place(TICKS), labels=[f"{tick:g}" if tick < np.inf else "∞" for tick in TICKS])
    axes.set_xlabel(r"$\rho$  (0: entropy, 1: relative entropy, ∞: worst pair)")
    axes.set_ylabel(r"divergence $D_\rho$ (nats)", color=BLUE)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    right = axes.twinx()
    right.set_ylim(axes.get_ylim())
    ticks = np.append(1.0, ratios_above_one(float(np.exp(axes.get_ylim()[1]))))
    right.set_yticks(np.log(ticks), labels=[ratio_text(tick) for tick in ticks])
    right.set_ylabel("worst ratio, target / visited", color=ORANGE)
    right.spines[["top", "left"]].set_visible(False)


# The public functions.

Quantity = Literal["occupancy", "ratio"]
FORMATS = (".png", ".svg", ".pdf")


def occupancy_figure(mdp: MDP, occupancy: Any, title: str = "") -> Figure:
    """Returns a map of each pair's share of the visits, given as `[S, A]` or `[n]`."""
    return summary_figure(mdp, {"": occupancy}, title)


def ratio_figure(mdp: MDP, ratio: Any, title: str = "") -> Figure:
    """Returns a map of target/visits of each pair, `[S, A]` or `[n]`; red is too few visits, blue too many.

    A ratio may be infinite (never visited: black) or 0 (no weight: hatched).
    """
    return summary_figure(mdp, {"": ratio}, title, quantity="ratio")


def summary_figure(
    mdp: MDP, panels: Mapping[str, Any], title: str = "", *, quantity: Quantity = "occupancy"
) -> Figure:
    """Returns one map per entry of `panels` (subtitle: values), side by side with one colour scale.

    A model without a layout gets ranked lists instead, of the fewest visits or the largest ratios.
    """
    if quantity not in _KINDS:
        raise InvalidArgumentError.of("quantity", "must be 'occupancy' or 'ratio'", repr(quantity))
    if not panels:
        raise InvalidArgumentError.of("panels", "must hold at least one map", "none")
    read, choose, merged = _KINDS[quantity]
    values = {subtitle: read(mdp, table) for subtitle, table in panels.items()}
    with drawing():
        scale = choose(list(values.values()), "" if is_split(mdp) else merged)
        if mdp.layout is None:
            return ranked_figure(mdp, values, scale, title, largest_first=quantity == "ratio")
        return map_figure(mdp, values, scale, title)


def frontier_figure(rho: Any, divergence: Any, worst_ratio: Any, title: str = "") -> Figure:
    """Returns D_rho and the worst ratio of the optimum against rho, each `[k]`, rho from 0 to inf.

    The two curves share one axis: the worst ratio is exp(D_inf), so on the logarithmic scale on the right
    they bracket the minimax optimum and meet it at rho = inf, if that point is given. The divergence at
    rho = 0 is that of a plan, KL(visits || weights), and drawn apart from the curve.
    """
    rho = _increasing(rho)
    divergence = checks.float_array(divergence, "divergence", rho.shape)
    worst_ratio = checks.float_array(worst_ratio, "worst_ratio", rho.shape)
    if (worst_ratio <= 0).any():
        raise InvalidArgumentError.of("worst_ratio", "must be positive", f"{worst_ratio.min():g}")
    with drawing():
        return draw_frontier(rho, divergence, worst_ratio, title)


def save_figure(figure: Figure, path: Path | str, *, overwrite: bool = False, dpi: int = 150) -> None:
    """Writes the figure as PNG, SVG or PDF, by the suffix of `path`, completely or not at all.

    The same figure gives the same bytes: no dates, no random identifiers. A figure that pyplot manages is
    closed afterwards; the figures of this module need no closing.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InvalidArgumentError.of("path", f"must end in {', '.join(FORMATS)}", repr(path.name))
    kind = path.suffix.lower()[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    write_atomically(path, drawn(figure, kind, dpi=dpi, metadata=undated.get(kind)), overwrite=overwrite)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def _occupancies(mdp: MDP, occupancy: Any) -> FloatArray:
    values = mdp.per_pair(occupancy, "occupancy")
    checks.check_nonnegative(values, "occupancy")
    return values if is_split(mdp) else np.bincount(mdp.pair_state, values, mdp.num_states).astype(float)


def _ratios(mdp: MDP, ratio: Any) -> FloatArray:
    """Returns ratios per pair, or the largest of each state; nan if a pair has weight 0."""
    values = checks.real_array(ratio, "ratio")
    if values.shape == (mdp.num_states, mdp.num_actions):
        values = values[mdp.pair_state, mdp.pair_action]
    checks.check_shape(values.shape, "ratio", (mdp.num_pairs,))
    if np.isnan(values).any():
        raise InvalidArgumentError.of("ratio", "must not hold nan; use inf for pairs that were never visited")
    checks.check_nonnegative(values, "ratio")
    if not is_split(mdp):
        largest = np.zeros(mdp.num_states)
        np.maximum.at(largest, mdp.pair_state, values)
        values = largest
    return np.where(values > 0, values, np.nan)


def _increasing(rho: Any) -> FloatArray:
    values = checks.real_array(rho, "rho")
    checks.check_shape(values.shape, "rho", (None,))
    checks.check_nonnegative(values, "rho")
    if values.size < 2 or not (np.diff(values) > 0).all():
        raise InvalidArgumentError.of("rho", "must hold at least two values in increasing order")
    return values


_KINDS = {
    "occupancy": (_occupancies, occupancy_scale, ", all actions"),
    "ratio": (_ratios, ratio_scale, ", worst action"),
}


# Snapshots of a run. A shorter run with the same seed is the beginning of a longer one, so the counts at a
# step are those of a run that ends there. Algorithm 1 cuts its last episode at the budget, so this holds for
# it, too.

MOST = 6  # maps in a figure


def snapshots(world: MDP, rho: float, steps: Sequence[int], **arguments: Any) -> list[Run]:
    """Returns one run per entry of `steps`, each the beginning of the next; for arguments see `explore`."""
    if not len(steps) or len(steps) > MOST or list(steps) != sorted(set(steps)):
        raise InvalidArgumentError.of("steps", f"must be 1 to {MOST} increasing numbers", f"{list(steps)}")
    return [explore(world, rho, int(t), trace_points=1, **arguments) for t in steps]


def decades(num_steps: int, first: int = 100) -> list[int]:
    """Returns powers of ten from `first` on and the last step; only the latest if there are many.

    >>> decades(30_000)
    [100, 1000, 10000, 30000]
    """
    powers = [10**k for k in range(19) if first <= 10**k < num_steps]
    return [*powers, num_steps][-MOST:]


def snapshot_figure(runs: Sequence[Run], title: str = "") -> Figure:
    """Returns one map of target share / visited share per run, side by side with one colour scale."""
    if not runs:
        raise InvalidArgumentError.of("runs", "must hold at least one run", "none")
    panels = {f"after {run.num_steps:,} steps": visit_ratio(run) for run in runs}
    return summary_figure(runs[0].mdp, panels, title, quantity="ratio")


def visit_ratio(run: Run) -> FloatArray:
    """Returns target share / visited share `[S, A]`, inf if never visited, of an episode's worst step."""
    target = run.problem.table(run.coverage.mu_bar)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(target > 0, target / run.occupancy, 0.0)
    return ratio if ratio.ndim == 2 else ratio.max(axis=0)
