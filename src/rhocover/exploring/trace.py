"""What a run reports over time, on a logarithmic grid of steps.

| column | meaning |
|---|---|
| steps | t, how many steps were taken |
| visited | how many pairs that have a weight were visited |
| divergence | D_rho of mubar and d_hat |
| gap | certified: divergence minus what no occupancy falls below, from the plan's dual bound |
| oracle_gap | certified without the plan: log max <p/d_hat, d'> over occupancies d', for any d_hat |
| excess | divergence - D*, of either sign: d_hat is no occupancy |
| pathwise_excess | divergence minus the least with the same flow residual, >= 0 |
| pathwise_gap | how exact the last one is |
| worst_ratio | max mubar/d_hat |
| suboptimality | xi = U* - U(d_hat), of either sign, fluctuates by sigma/sqrt(t) |
| bregman | its controllable part, >= 0, at best kappa_min/t on average |
| regret | pathwise: U of the best with the same flow residual, minus U(d_hat) |
| least_pair, least_count | the pair with a weight that was visited least, and how often |

U is taken with weights that sum to 1. While a pair with a weight is unvisited, coverage is incomplete and
all columns from `divergence` to `regret` are nan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray, IntArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import unknown_name
from rhocover.exploring.problem import Problem
from rhocover.oracles import make_oracle
from rhocover.oracles.response import certified_gap, gradient_reward

COLUMNS = (
    "steps", "visited", "divergence", "gap", "oracle_gap", "excess", "pathwise_excess", "pathwise_gap",
    "worst_ratio", "suboptimality", "bregman", "regret", "least_pair", "least_count",
)  # fmt: skip
WHOLE = ("steps", "visited", "least_pair", "least_count")
PATHWISE_TOLERANCE = 1e-10
LARGEST_READABLE = 8.0  # order up to which U has units that one can read


@dataclass(frozen=True, eq=False)
class Trace:
    """Columns over time; `trace["regret"]` is one of them, `predicted` what theory says of it."""

    columns: Mapping[str, np.ndarray]
    sigma: float
    kappa_min: float
    num_weighted: int

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise unknown_name("column", name, tuple(self.columns))
        return self.columns[name]

    def keys(self) -> tuple[str, ...]:
        """Returns the names of the columns."""
        return tuple(self.columns)

    def __repr__(self) -> str:
        steps = self.columns["steps"]
        return f"Trace({len(self)} rows, steps {steps[0]} to {steps[-1]}; columns: {', '.join(self.columns)})"

    def __len__(self) -> int:
        return int(self.columns["steps"].size)

    @property
    def fluctuation(self) -> FloatArray:
        """sigma/sqrt(t): how far the suboptimality strays, whatever one does."""
        return self.sigma / np.sqrt(self.columns["steps"])

    @property
    def limit(self) -> FloatArray:
        """kappa_min/t: what the Bregman part cannot stay below on average."""
        return self.kappa_min / self.columns["steps"]


def grid_of_steps(num_steps: int, per_decade: int, num_chains: int = 1) -> list[int]:
    """Returns the steps to report at: `per_decade` a decade, and the last; multiples of the chains."""
    powers = range(per_decade * len(str(num_steps)) + 1)
    marks = {-(-round(10 ** (k / per_decade)) // num_chains) * num_chains for k in powers}
    return sorted({mark for mark in marks if mark < num_steps} | {num_steps})


def measure(problem: Problem, counts: IntArray, num_steps: int) -> list[float]:
    """Returns one row of the trace, in the order of `COLUMNS`."""
    coverage, support = problem.coverage, np.flatnonzero(problem.coverage.support)
    least = int(support[np.argmin(counts[support])])
    visited = int(np.count_nonzero(counts[support]))
    row = dict.fromkeys(COLUMNS, np.nan)
    row |= {"steps": num_steps, "visited": visited, "least_pair": least, "least_count": int(counts[least])}
    if visited == support.size:
        d_hat = counts / num_steps
        row["divergence"] = coverage.divergence_unchecked(d_hat)
        row |= _against_the_best(problem, d_hat, row["divergence"])
        row |= _against_the_path(problem, d_hat, row["divergence"])
    return [row[name] for name in COLUMNS]


def _against_the_best(problem: Problem, d_hat: FloatArray, divergence: float) -> dict[str, float]:
    best, limits = problem.best, problem.limits
    return {
        "gap": max(divergence - best.lower_bound, 0.0),
        "oracle_gap": oracle_gap(problem, d_hat),
        "excess": divergence - best.divergence,
        "worst_ratio": problem.coverage.worst_ratio(d_hat),
        "suboptimality": limits.suboptimality(d_hat),
        "bregman": limits.bregman(d_hat),
    }


def _against_the_path(problem: Problem, d_hat: FloatArray, divergence: float) -> dict[str, float]:
    path = problem.pathwise.best(d_hat, tol=PATHWISE_TOLERANCE)
    excess = max(divergence - path.divergence, 0.0)
    regret = regret_in_value(problem.coverage, divergence, excess)
    return {"pathwise_excess": excess, "pathwise_gap": path.gap, "regret": regret}


def oracle_gap(problem: Problem, d_hat: FloatArray) -> float:
    """Returns a certified bound on D(d_hat) - D*, for any d_hat > 0 where there is weight.

    log max <p/d_hat, d'> over occupancies d', p = softmax(rho log mu + (1-rho) log d_hat), by Jensen's
    inequality; at rho = 0 it is the linear bound max <log(mubar/d_hat), d' - d_hat>.
    """
    oracle = problem.once("trace oracle", lambda: make_oracle(problem.members))
    reward = gradient_reward(problem.coverage, d_hat)
    return certified_gap(problem.coverage.rho, reward, d_hat, oracle.respond(reward))


def regret_in_value(coverage: Coverage, divergence: float, excess: float) -> float:
    """Returns U(better) - U(d_hat) for two divergences, `excess` apart; inf beyond float64."""
    rho = coverage.rho
    if rho in (0, 1) or excess == 0:
        return excess
    order = 1.0 if rho == np.inf else rho - 1
    with np.errstate(over="ignore"):
        return float(-np.exp(order * divergence) * np.expm1(-order * excess) / order)


def regret_column(rho: float) -> str:
    """Returns the column to show as the regret: in units of U, or in nats where those say nothing.

    U of order rho grows like the worst ratio to the power rho - 1: beyond 8 a number in its units is
    astronomical. At inf it is a ratio again.
    """
    return "pathwise_excess" if LARGEST_READABLE < rho < np.inf else "regret"


def make_trace(rows: list[list[float]], problem: Problem) -> Trace:
    """Returns the rows as columns, with what theory predicts."""
    table = np.array(rows, float).reshape(-1, len(COLUMNS))
    columns = {
        name: frozen(table[:, k].astype(np.int64) if name in WHOLE else table[:, k].copy())
        for k, name in enumerate(COLUMNS)
    }
    limits = problem.limits
    return Trace(columns, limits.sigma, limits.kappa_min, int(problem.coverage.support.sum()))
