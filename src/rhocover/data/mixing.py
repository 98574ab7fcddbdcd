"""How far the shares of visits may be off, and whether the data has settled.

d_hat is the share of each pair among T steps that depend on each other. With K stretches of L steps and the
share x_k of a pair in stretch k, batch means (Schmeiser 1982) give

    sigma^2 = L var(x_k),   standard error = sqrt(sigma^2 / T),   interval = ± t_{K-1} standard errors,

right as far as stretches are long enough to be almost independent. Summed over pairs, sigma^2 against the
p(1-p) that independent steps would have is the integrated autocorrelation time; T divided by it is how many
independent steps the data is worth. It may be more than T: visits that are steered to be even, are.

Two signs that all this does not hold are looked for. Neighbouring stretches that are alike: the data is too
short for how slowly it moves. Shares that differ between the first half and the second by more than chance:
the behaviour changed along the way, as that of everything that learns does. The interval is then of no
steady behaviour; d_hat itself is what it is.

What it does not know: the bias of a short run towards where it began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy import stats

from rhocover.checks import FloatArray, Matrix, frozen
from rhocover.data.tally import Tally

FEWEST = 8  # stretches, below which their spread says nothing
ALIKE = 0.3  # correlation of neighbours; the variance is then 1.6 times what it seems
CHANCE = 1e-3  # that a steady behaviour is said to have changed
LEAST_VISITS = 2  # of a pair a stretch, on average, for its halves to be compared
SHUFFLED = 0.1  # of the rows that do not go on where the one before led


@dataclass(frozen=True, eq=False)
class Mixing:
    """What the stretches of a data set say about its shares of visits."""

    error: FloatArray  # [S, A] standard error of d_hat; nan where nothing can be said
    half_width: FloatArray  # [S, A] of the interval around d_hat
    level: float  # of the interval
    autocorrelation_time: float  # in steps; 1 is independent
    effective_steps: float
    correlation: float  # of neighbouring stretches
    num_changed: int  # pairs whose share differs between the halves
    num_batches: int
    batch_length: int
    is_settled: bool
    statement: str


def find_mixing(tally: Tally, level: float = 0.95) -> Mixing:
    """Returns error bars of d_hat and whether they can be trusted."""
    K, L, T, shape = tally.batches.shape[0], tally.batch_length, tally.num_steps, tally.visits.shape
    if K < FEWEST:
        nothing = frozen(np.full(shape, np.nan))
        text = (
            f"{T} steps are too few for error bars" if K else "no error bars: its stretches were not counted"
        )
        return Mixing(nothing, nothing, level, np.nan, np.nan, np.nan, 0, K, L, False, text)
    mean, variance = _moments(tally.batches)  # of counts: L times the shares
    error = np.sqrt(variance / L / T).reshape(shape)
    spread = float(np.sum(mean * (L - mean))) / L
    time = float(variance.sum()) / spread if spread > 0 else 1.0
    correlation, changed = _correlation(tally.batches, mean, variance), _changed(tally.batches)
    worth = T / time if time > 0 else np.inf
    return Mixing(
        error=frozen(error),
        half_width=frozen(float(stats.t.ppf((1 + level) / 2, K - 1)) * error),
        level=level,
        autocorrelation_time=time,
        effective_steps=worth,
        correlation=correlation,
        num_changed=changed,
        num_batches=K,
        batch_length=L,
        is_settled=correlation <= ALIKE and not changed and tally.num_jumps <= SHUFFLED * T,
        statement=_statement(tally, correlation, changed, worth),
    )


def _moments(batches: Matrix) -> tuple[FloatArray, FloatArray]:
    """Returns mean and variance of each column of sparse counts `[K, n]`."""
    (K, n), data = batches.shape, batches.data.astype(float)
    mean = np.bincount(batches.indices, weights=data, minlength=n) / K
    squares = np.bincount(batches.indices, weights=data * data, minlength=n)
    return mean, np.maximum(squares - K * mean**2, 0.0) / (K - 1)


def _correlation(batches: Matrix, mean: FloatArray, variance: FloatArray) -> float:
    """Returns the correlation of neighbouring stretches, all pairs together; 0 where nothing varies."""
    K = batches.shape[0]
    total = (K - 1) * float(variance.sum())
    if total <= 0:
        return 0.0
    products = float(_some(batches, 0, K - 1).multiply(_some(batches, 1, K)).sum())
    ends = batches[[0, K - 1]].sum(axis=0)  # every stretch but these has two neighbours
    return (products - float(mean @ (2 * K * mean - ends)) + (K - 1) * float(mean @ mean)) / total


def _changed(batches: Matrix) -> int:
    """Returns how many pairs have another share in the second half, by t-tests of CHANCE together."""
    half = batches.shape[0] // 2
    (a, var_a), (b, var_b) = _moments(_some(batches, 0, half)), _moments(_some(batches, half, 2 * half))
    often = a + b >= 2 * LEAST_VISITS
    if not often.any():
        return 0
    bound = float(stats.t.isf(CHANCE / 2 / int(often.sum()), 2 * half - 2))
    difference = np.abs(a - b)[often]
    return int(np.count_nonzero(difference > bound * np.sqrt((var_a + var_b)[often] / half) + 1e-9))


def _some(batches: Matrix, first: int, last: int) -> Matrix:
    """Returns rows first..last-1 without copying their entries, as SciPy's slices would."""
    begin, end = batches.indptr[first], batches.indptr[last]
    rows = batches.data[begin:end], batches.indices[begin:end], batches.indptr[first : last + 1] - begin
    return sp.csr_array(rows, shape=(last - first, batches.shape[1]))


def _statement(tally: Tally, correlation: float, changed: int, worth: float) -> str:
    """Returns what this means, in words."""
    if tally.num_jumps > SHUFFLED * tally.num_steps:
        return (
            f"{tally.num_jumps} of {tally.num_steps} rows do not go on where the row before led: if rows "
            "were shuffled, error bars are too small"
        )
    if correlation > ALIKE:
        return "too short for how slowly it moves: error bars are too small"
    if changed:
        return f"the behaviour changed along the way: {changed} pairs have another share in the second half"
    return f"settled: worth about {worth:.3g} independent steps of {tally.num_steps}"
