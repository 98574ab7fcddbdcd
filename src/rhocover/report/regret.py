"""What acting cost: pathwise regret, or its Bregman part, against the steps taken.

Both axes are logarithmic, so a power of t is a straight line. Two guides help to read them:

- kappa_min/t. The Bregman part cannot stay below it on average. The pathwise regret can: it has the world's
  own noise taken out, and kappa_min/t is what that noise costs anyone, so regret below it no longer matters.
- t^(-1/3), the rate of the theorem for Algorithm 1: a stroke to lay a line's slope against, not a bound.
  The theorem is about U* - U(d_hat); that is above the regret but for noise of order t^(-1/2), so the rate
  holds for the regret, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.report.curves import Curve
from rhocover.report.drawing import drawing
from rhocover.report.lines import GREY, Ending, draw_curves, one_panel, time_axis, write_endings

Part = Literal["regret", "bregman"]
NAMES = {"regret": "pathwise regret", "bregman": "Bregman part"}
UNITS = {"U": r"units of $U_\rho$", "nats": "nats"}
GUIDES = {"regret": r"noise $\kappa_{\min}/t$", "bregman": r"limit $\kappa_{\min}/t$"}
THEOREM = -1 / 3
NAME_WIDTH = 0.27  # of the axes: how long the name of the slope is
MOST_DECADES = 9  # on the vertical axis; what lies lower is rounding


def regret_figure(
    curves: Mapping[str, Curve],
    *,
    kappa_min: float = np.nan,
    theorem_for: str | None = None,
    part: Part = "regret",
    unit: Literal["U", "nats"] = "U",
    title: str = "",
) -> Figure:
    """Returns regret against steps, a line with its 10 % to 90 % band for each explorer.

    `kappa_min` adds the line kappa_min/t, `theorem_for` the slope -1/3 beside that explorer's line. `part`
    is "regret" or "bregman", `unit` that of the curves.
    """
    if part not in NAMES:
        raise InvalidArgumentError(f"`part` must be 'regret' or 'bregman', got {part!r}.")
    if not curves:
        raise InvalidArgumentError("`curves` must hold at least one curve, got none.")
    with drawing():
        figure, axes = one_panel(title, note_of(curves))
        _draw(axes, curves, part, kappa_min, theorem_for)
        axes.set_ylabel(f"{NAMES[part]} ({UNITS[unit]})")
        _name_the_missing(axes, curves)
    return figure


def _name_the_missing(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Says which explorers have no line, and why: a picture without them would seem complete."""
    missing = [name for name, curve in curves.items() if not np.isfinite(curve.mean).any()]
    if missing and len(missing) < len(curves):
        text = f"no number: {', '.join(missing)}"
        axes.text(0.01, 0.02, text, transform=axes.transAxes, color=GREY, fontsize="small")


def note_of(curves: Mapping[str, Curve]) -> str:
    """Returns what lines and bands are, in words."""
    number = max(curve.num_seeds for curve in curves.values())
    return f"mean of {number} runs; bands hold 10 % to 90 % of them" if number > 1 else "one run"


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
    """Draws the rate t^(-1/3) over an explorer's last decade, above all lines and bands, with its name."""
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
    lift = (high / low) ** (-THEOREM * NAME_WIDTH)  # how much higher the stroke is where its name begins
    axes.annotate(
        "slope $-1/3$ (theorem)", (float(t[-1]), float(line[-1] * lift)), (-2, 1),
        textcoords="offset points", fontsize=8, color=GREY, ha="right", va="bottom",
    )  # fmt: skip


def _upper(curve: Curve) -> FloatArray:
    return curve.high if curve.has_band else curve.mean


def _limit_heights(axes: Axes, curves: Mapping[str, Curve], kappa_min: float) -> None:
    """Fits the vertical axis to lines and bands, over a few decades at most."""
    heights = np.concatenate([np.r_[curve.mean, curve.low, curve.high] for curve in curves.values()])
    heights = heights[np.isfinite(heights) & (heights > 0)]
    last = next(iter(curves.values())).steps[-1]
    if np.isfinite(kappa_min) and kappa_min > 0:
        heights = np.append(heights, kappa_min / last)
    if heights.size:
        high = 3 * heights.max()
        axes.set_ylim(max(heights.min() / 2, high / 10**MOST_DECADES), high)
