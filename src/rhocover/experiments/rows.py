"""Where a comparison ends: one row for each model, order and explorer, every mean beside what is possible.

| number | beside it |
|---|---|
| regret | 0: the best for the same noise |
| scaled_bregman, n times the Bregman part | kappa_min, which no explorer stays below on average |
| worst_ratio | that of the best plan |
| excess, divergence - D* | 0 in the long run; of either sign in a finite run |
| exponent of the regret, over the last two decades of steps | the theorem's: at most -1/3 for Algorithm 1 |
| model_error, the mean L1 error of rows estimated from the transitions seen | 0 in the long run |

Means are over all seeds, or nan if a seed never saw every pair: a mean over the others would flatter. The
model error has a mean always: a row never seen is estimated as uniform.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.trace import regret_column
from rhocover.report.curves import standard_error
from rhocover.theory import measured_exponent

if TYPE_CHECKING:
    from rhocover.experiments.comparison import Comparison

THEOREM = -1 / 3  # up to a logarithm
FITTED = 100  # the exponent is fitted from num_steps/100 on


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its standard error; the error is nan for one seed."""

    mean: float
    standard_error: float

    def __str__(self) -> str:
        error = "" if math.isnan(self.standard_error) else f" ± {self.standard_error:.1g}"
        return "-" if math.isnan(self.mean) else f"{self.mean:.4g}{error}"


@dataclass(frozen=True)
class Row:
    """One explorer on one model at one order, after the last step."""

    env: str
    rho: float
    explorer: str
    num_seeds: int
    num_incomplete: int
    regret: Estimate
    regret_unit: str  # "U", or "nats" for 8 < rho < inf, where U has no readable unit
    scaled_bregman: Estimate
    kappa_min: float
    worst_ratio: Estimate
    best_worst_ratio: float
    excess: Estimate
    exponent: Estimate
    theorem_exponent: float | None
    model_error: Estimate

    def summary(self) -> dict[str, Any]:
        """Returns the row ready for JSON: None where there is no number, infinities as text."""
        return _plain(asdict(self))

    def __str__(self) -> str:
        head = f"{self.env} rho={self.rho:g} {self.explorer}:"
        if self.num_incomplete:
            return f"{head} {self.num_incomplete} of {self.num_seeds} seeds incomplete"
        return (
            f"{head} regret {self.regret}, worst ratio {self.worst_ratio} (best {self.best_worst_ratio:.4g})"
        )


def make_row(comparison: Comparison, env: str, rho: float, explorer: str) -> Row:
    """Returns the row of one explorer on one model at one order."""

    def last(column: str) -> FloatArray:
        return comparison.values(env, rho, explorer, column)[:, -1]

    return Row(
        env=env,
        rho=rho,
        explorer=explorer,
        num_seeds=len(comparison.seeds),
        num_incomplete=int(comparison.num_incomplete(env, rho, explorer)[-1]),
        regret=estimate(last(regret_column(rho))),
        regret_unit="U" if regret_column(rho) == "regret" else "nats",
        scaled_bregman=estimate(comparison.num_steps * last("bregman")),
        kappa_min=comparison.fact(env, rho, "kappa_min"),
        worst_ratio=estimate(last("worst_ratio")),
        best_worst_ratio=comparison.fact(env, rho, "best_worst_ratio"),
        excess=estimate(last("excess")),
        exponent=exponent(comparison.steps, comparison.values(env, rho, explorer, regret_column(rho))),
        theorem_exponent=THEOREM if comparison.follows_theorem(explorer) else None,
        model_error=estimate(comparison.at_end(env, rho, explorer, "model_error")),
    )


def estimate(values: FloatArray) -> Estimate:
    """Returns the mean of values, one for each seed, with its standard error."""
    with np.errstate(invalid="ignore"):
        return Estimate(float(values.mean()), float(standard_error(values)))


def exponent(steps: Any, regret: FloatArray) -> Estimate:
    """Returns the exponent of regret over the last two decades of steps; nan before all seeds have one."""
    late = (steps >= steps[-1] / FITTED) & ~np.isnan(regret).any(axis=0)
    try:
        slope, error, _ = measured_exponent(steps[late], regret[:, late])
    except InvalidArgumentError:  # fewer than two times, or no regret to take a logarithm of
        return Estimate(math.nan, math.nan)
    return Estimate(slope, error)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
