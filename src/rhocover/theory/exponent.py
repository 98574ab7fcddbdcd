"""The exponent of a measured curve: how regret falls with time, by least squares in logarithms.

log regret = intercept + slope log t is fitted for each run by itself. The exponent is the mean of the runs'
slopes, its standard error that of the mean: times within one run depend on each other, runs do not. One run
alone has only the least-squares error of its own fit, which takes its residuals for independent and is too
small.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError


class Exponent(NamedTuple):
    """A fitted exponent, its standard error, and how many entries could not be used."""

    slope: float
    standard_error: float
    num_left_out: int


def measured_exponent(t: Any, regret: Any) -> Exponent:
    """Returns (slope, standard error, entries left out) of log regret over log t.

    `t` is `[times]`, `regret` `[times]` or `[runs, times]`. Entries that are not positive and finite have no
    logarithm: they are left out and counted. Many of them bias the slope upwards (the smallest are
    missing), so look at the count. A run with fewer than two entries left is left out whole.

    >>> slope, error, left_out = measured_exponent([10, 100, 1000], [[3e-1, 3e-2, 3e-3], [1e-1, 1e-2, 1e-3]])
    >>> print(f"{slope:.3f} +- {error:.3f}, {left_out} left out")
    -1.000 +- 0.000, 0 left out
    """
    log_t = np.log(_checked_times(t))
    curves = np.atleast_2d(checks.real_array(regret, "regret"))
    checks.check_shape(curves.shape, "regret", (None, log_t.size))
    usable = np.isfinite(curves) & (curves > 0)
    usable &= (usable.sum(axis=1) >= 2)[:, None]
    fits = [_line(log_t[k], np.log(curve[k])) for curve, k in zip(curves, usable, strict=True) if k.any()]
    if not fits:
        raise InvalidArgumentError(
            "`regret` must have a run with at least two positive, finite entries, got none."
        )
    slope, error = np.array(fits).T
    if len(fits) > 1:
        error = slope.std(ddof=1) / math.sqrt(len(fits))
    return Exponent(float(slope.mean()), float(np.ravel(error)[0]), int((~usable).sum()))


def _checked_times(t: Any) -> FloatArray:
    t = checks.float_array(t, "t", (None,))
    if not (t > 0).all() or np.unique(t).size < max(t.size, 2):
        raise InvalidArgumentError("`t` must hold at least two times, positive and all different.")
    return t


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Returns the slope of the least-squares line and its standard error; nan for two points."""
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    freedom = x.size - 2
    return slope, math.sqrt(residual @ residual / freedom / (x @ x)) if freedom else math.nan
