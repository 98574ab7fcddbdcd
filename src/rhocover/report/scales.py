"""Which colour a number gets, and how the colour bar explains it.

An occupancy runs on a logarithmic scale, because shares differ by factors and what is rare is what matters,
in viridis, whose lightness grows evenly and survives colour blindness and grey printing; no visit at all is
white. A ratio target/visits runs symmetrically around 1 on a logarithmic red-blue scale, so that half the
visits and twice the visits are equally far from white; a pair never visited is black.
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
LEAST_RANGE = 2.0  # of an occupancy scale: equal shares are one colour, not their rounding errors
MOST_RANGE = 1e6  # beyond it a colour would stand for more than a factor of ten
ROUNDING = 1e-9  # the largest value lies inside its own scale, whatever exp(log(x)) makes of it
STEPS = {2: "100 steps", 3: "1,000 steps", 4: "10,000 steps", 5: "100,000 steps"}


@dataclass(frozen=True)
class Scale:
    """A colour map with its range, and the words and ticks of its colour bar."""

    colours: Colormap
    norm: Normalize
    label: str
    ticks: FloatArray
    tick_labels: tuple[str, ...]
    outline: str
    ends: tuple[str, str] = ("", "")
    extend: Literal["neither", "min", "max"] = "neither"


def occupancy_scale(panels: Sequence[FloatArray], note: str = "") -> Scale:
    """Returns the logarithmic scale up to the largest share, read in visits per round number of steps."""
    shares = np.concatenate([values.ravel() for values in panels])
    largest = float(shares.max()) or 1.0
    smallest = float(shares[shares > 0].min(initial=largest))
    least = max(min(smallest, largest / LEAST_RANGE), largest / MOST_RANGE)
    power, has_none = _steps_power(largest), bool((shares == 0).any())
    ticks = _log_ticks(least, largest)
    steps = STEPS.get(power, f"$10^{{{power}}}$ steps")
    low = "least: this or fewer" if smallest < least else ""
    return Scale(
        colours=matplotlib.colormaps["viridis"].with_extremes(under="white"),
        norm=LogNorm(least, largest),
        label=f"visits per {steps}{note}, log scale",
        ticks=ticks,
        tick_labels=tuple(f"{tick * 10**power:.3g}" for tick in ticks),
        outline="0.7",
        ends=("white: none" if has_none else low, ""),
        extend="min" if has_none else "neither",
    )


def ratio_scale(panels: Sequence[FloatArray], note: str = "") -> Scale:
    """Returns the logarithmic scale around 1 that holds every finite, positive ratio."""
    ratios = np.concatenate([values.ravel() for values in panels])
    is_inside = np.isfinite(ratios) & (ratios > 0)
    spread = float(np.exp(np.abs(np.log(ratios[is_inside])).max(initial=0.0)))
    spread = max(spread * (1 + ROUNDING), SMALLEST_SPREAD)
    is_unseen = bool(np.isposinf(ratios).any())
    above = ratios_above_one(spread)
    ticks = np.concatenate([1 / above[::-1], [1.0], above])
    return Scale(
        colours=matplotlib.colormaps["RdBu_r"].with_extremes(over="black"),
        norm=LogNorm(1 / spread, spread),
        label=f"target share / visited share{note}",
        ticks=ticks,
        tick_labels=(*(f"1/{ratio_text(t)}" for t in above[::-1]), "1", *map(ratio_text, above)),
        outline="0.7",
        ends=("too many visits", "too few (black: none)" if is_unseen else "too few visits"),
        extend="max" if is_unseen else "neither",
    )


def ratios_above_one(largest: float) -> FloatArray:
    """Returns at most five round ratios in (1, largest], spread over a logarithmic axis."""
    if largest <= 4:
        ticks = _round_numbers(1, largest, 3)
    else:
        decades = 10.0 ** np.arange(math.floor(math.log10(largest)) + 1)
        mantissas = np.array([1.0, 2.0, 5.0]) if largest <= 50 else np.array([1.0])
        ticks = (decades[:, None] * mantissas).ravel()[:: math.ceil(len(decades) / 5)]
    return np.array([tick for tick in ticks if 1 < tick <= largest])


def _log_ticks(low: float, high: float) -> FloatArray:
    """Returns at most six round numbers from `low` to `high`, spread over a logarithmic axis."""
    powers = np.arange(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1.0)
    for mantissas in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        ticks = (10.0 ** powers[:, None] * np.array(mantissas)).ravel()
        ticks = ticks[(ticks >= low) & (ticks <= high * (1 + ROUNDING))]
        if len(ticks) <= 6:
            return ticks
    return ticks[:: math.ceil(len(ticks) / 6)]


def ratio_text(ratio: float) -> str:
    """Returns 1.25, 50, 1000, and powers of ten from there on."""
    return f"{ratio:.4g}" if ratio < 10_000 else f"$10^{{{round(math.log10(ratio))}}}$"


def _round_numbers(low: float, high: float, count: int) -> FloatArray:
    """Returns about `count` round numbers from `low` to `high`, which may be one of them."""
    ticks = np.array(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high), float)
    return ticks[(ticks >= low) & (ticks <= high * (1 + ROUNDING))]


def _steps_power(share: float) -> int:
    """Returns the k for which the largest share is between 1 and 1000 visits in 10^k steps."""
    power = max(0, math.ceil(-math.log10(share)) + 1)
    return 2 if power in (1, 2) else power
