"""The frontier: what the axis rho buys, from matching on average to guarding the worst pair.

D_rho of the optimum rises with rho and its worst ratio falls; since the worst ratio is exp(D_inf), both
end in the minimax optimum at rho = inf. The horizontal place of rho is sqrt(rho) / (1 + sqrt(rho)), so
that 0 and infinity are points of the axis, and 1 is its middle.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rhocover.checks import FloatArray
from rhocover.report.scales import ratio_text, ratios_above_one
from rhocover.report.sheet import LINE, MARGIN, SHARP, Picture, axes_at

TICKS = np.array([0, 0.25, 1, 2, 4, 8, 32, 128, np.inf])
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.35"  # Okabe and Ito: told apart by every eye
HEADROOM = 0.06
ABOVE: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
LOWEST = 0.1  # nats; a lower axis would show rounding errors as curves


def place(rho: FloatArray) -> FloatArray:
    """Returns where rho stands on the axis, in [0, 1]."""
    with np.errstate(invalid="ignore"):  # inf/inf, replaced by its limit
        root = np.sqrt(rho)
        return np.where(np.isinf(rho), 1.0, root / (1 + root))


def draw_frontier(rho: FloatArray, divergence: FloatArray, worst_ratio: FloatArray, title: str) -> Figure:
    """Returns the figure; the arguments are checked, all `[k]`."""
    lines = textwrap.wrap(title, width=60)
    top = MARGIN + LINE * (len(lines) + 1)
    figure = Picture(figsize=(6.8, top + 3.0 + 0.6), dpi=SHARP)
    axes = axes_at(figure, 0.78, top, 5.25, 3.0)
    axes.annotate("\n".join(lines), (0, 1), (0, 28), fontsize=12, **ABOVE)
    log_worst = np.log(worst_ratio)
    axes.plot(place(rho), log_worst, "s-", color=ORANGE, label="worst ratio", markersize=4.5)
    axes.plot(place(rho), divergence, "o-", color=BLUE, label=r"divergence $D_\rho$", markersize=4.5)
    if np.isinf(rho[-1]):
        label = f"minimax optimum, worst ratio {worst_ratio[-1]:.4g}"
        axes.axhline(log_worst[-1], color=GREY, linestyle="--", linewidth=1, label=label, zorder=1)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=3, frameon=False, columnspacing=1.6)
    _scale_axes(axes, np.concatenate([divergence, log_worst]))
    return figure


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
