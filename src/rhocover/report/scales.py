"""Which colour a number gets, and how the colour bar explains it.

An occupancy runs from 0 upwards in viridis, whose lightness grows evenly and survives colour blindness
and grey printing. A ratio target/visits runs symmetrically around 1 on a logarithmic red-blue scale, so
that half the visits and twice the visits are equally far from white; a pair never visited is black.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.ticker import MaxNLocator

from rhocover.checks import FloatArray

SMALLEST_SPREAD = 1.1  # below it a perfect match would be painted in its own rounding errors
STEPS = {0: "step", 2: "100 steps", 3: "1,000 steps", 4: "10,000 steps", 5: "100,000 steps"}


@dataclass(frozen=True)
class Scale:
    """A colour map with its range, and the words and ticks of its colour bar."""

    colours: Colormap
    norm: Normalize
    label: str
    ticks: FloatArray
    tick_labels: tuple[str, ...]
    ends: tuple[str, str] = ("", "")
    extend: Literal["neither", "max"] = "neither"


def occupancy_scale(panels: Sequence[FloatArray]) -> Scale:
    """Returns the scale from 0 to the largest share, read in visits per round number of steps."""
    largest = max(float(values.max()) for values in panels)
    largest = largest if largest > 0 else 1.0
    power = _steps_power(largest)
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, largest)
    ticks = ticks[(ticks >= 0) & (ticks <= largest * (1 + 1e-9))]  # the last tick may be the maximum
    steps = STEPS.get(power, f"$10^{{{power}}}$ steps")
    return Scale(
        colours=matplotlib.colormaps["viridis"],
        norm=Normalize(0, largest),
        label=f"visits per {steps}",
        ticks=ticks,
        tick_labels=tuple(f"{tick * 10**power:.3g}" for tick in ticks),
    )


def ratio_scale(panels: Sequence[FloatArray]) -> Scale:
    """Returns the logarithmic scale around 1 that holds every finite, positive ratio."""
    ratios = np.concatenate([values.ravel() for values in panels])
    is_inside = np.isfinite(ratios) & (ratios > 0)
    spread = float(np.exp(np.abs(np.log(ratios[is_inside])).max(initial=0.0)))
    spread = max(spread, SMALLEST_SPREAD)
    is_unseen = bool(np.isposinf(ratios).any())
    ticks = ratio_ticks(1 / spread, spread)
    return Scale(
        colours=matplotlib.colormaps["RdBu_r"].with_extremes(over="black"),
        norm=LogNorm(1 / spread, spread),
        label="target share / visited share",
        ticks=ticks,
        tick_labels=tuple(ratio_text(tick) for tick in ticks),
        ends=("too many visits", "too few (black: none)" if is_unseen else "too few visits"),
        extend="max" if is_unseen else "neither",
    )


def ratio_ticks(low: float, high: float) -> FloatArray:
    """Returns between three and nine readable ratios from `low` to `high`, for a logarithmic axis."""
    if high / low <= 6:
        ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    else:
        decades = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = (decades[:, None] * _mantissas(high / low)).ravel()
    return ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]  # ends belong to the axis


def ratio_text(ratio: float) -> str:
    """Returns 1/5 for 0.2, 5 for 5, 10⁴ for 10000."""
    if 0.001 <= ratio < 1 and abs(1 / ratio - round(1 / ratio)) < 1e-9:  # 1/r is whole up to rounding
        return f"1/{round(1 / ratio)}"
    if 0.001 <= ratio < 10_000:
        return f"{ratio:.4g}"
    return f"$10^{{{round(math.log10(ratio))}}}$"


def _mantissas(span: float) -> FloatArray:
    """Returns 1, 2, 5 on up to two decades, 1 alone beyond; every other decade beyond eight."""
    return np.array([1.0, 2.0, 5.0]) if span <= 400 else np.array([1.0])


def _steps_power(share: float) -> int:
    """Returns the k for which the largest share is between 1 and 1000 visits in 10^k steps."""
    power = max(0, math.ceil(-math.log10(share)) + 1)
    return 2 if power in (1, 2) else power
