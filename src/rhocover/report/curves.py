"""Curves over time of several runs: mean, quantiles and how many runs had no number yet.

A quantity of a run is nan while coverage is incomplete. A mean over the runs that happen to be complete
would favour explorers that fail often, so a point of a curve is a number only if every run has one there;
`num_incomplete` says how many had none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run

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
    """Returns the curve of `values` `[runs, times]` at `steps` `[times]`; nan is a run without a number.

    >>> curve = curve_of([1, 10], [[float("nan"), 2.0], [5.0, 4.0]])
    >>> curve.mean.tolist(), curve.num_incomplete.tolist()
    ([nan, 3.0], [1, 0])
    """
    values = np.atleast_2d(checks.real_array(values, "values"))
    steps = checks.float_array(steps, "steps", (values.shape[1],)).astype(np.int64)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf: a value beyond float64 has no spread
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
    """Returns the curve of a trace column for each explorer among the runs, in the order they come."""
    if not runs:
        raise InvalidArgumentError("`runs` must hold at least one run, got none.")
    steps = runs[0].trace["steps"]
    if not all(np.array_equal(run.trace["steps"], steps) for run in runs):
        raise InvalidArgumentError("`runs` must have one grid of steps: the same num_steps and trace_points.")
    names = dict.fromkeys(run.explorer for run in runs)
    return {
        name: curve_of(steps, [run.trace[column] for run in runs if run.explorer == name]) for name in names
    }
