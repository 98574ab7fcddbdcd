"""Confidence sets for an unknown transition matrix, valid at all times at once, from transition counts.

A pair's successors are independent draws from its row p, in whatever order pairs are visited. For draws with
counts k_j (N in all) and a Dirichlet prior of parameters alpha_j (A in all) the mixture likelihood ratio

    L_N(p) = Gamma(A)/Gamma(N + A) prod_j Gamma(k_j + alpha_j) / (Gamma(alpha_j) p_j^k_j)

is a non-negative martingale that starts at 1, so by Ville's inequality it stays below 1/delta forever with
probability 1 - delta (method of mixtures, Robbins 1970). Its logarithm is N KL(p_hat, p) minus terms that
depend on the counts alone, so for all N at once, with E_a(k) = log Gamma(k+a)/Gamma(a) - k log k + k,

    N KL(p_hat, p) <= log 1/delta + E_A(N) - sum_j E_alpha_j(k_j).                                      (*)

With all alpha_j = 1 the right side is below log 1/delta + (m-1) log(e (1 + N/(m-1))), m categories, the
threshold of Jonsson et al. (2020, Prop. 1). Here alpha_j = 1/S: a successor costs log S when it is seen and
nothing before, so a row with few successors is learned almost as fast among many states as among few. Half
of delta is spent on each of

- **balls**: (*) for each of the n rows, with delta/2n;
- **intervals**: (*) for each entry against all others (prior 1/S, 1 - 1/S), with delta/2nS.

Both hold together, so the smaller of their two maxima of p.v bounds the true one (the maximum over their
intersection, smaller still, is not computed). By Pinsker's inequality a ball lies in an L1 ball.

**The maxima** (`solve_rows`). The largest p.v, and a row that attains it, are computed for each of the two
sets:

- ball, KL(p_hat, p) <= epsilon. By Jensen's inequality, every p in it and every x >= 0 satisfy, with
  top = max v, p.v <= top + x - exp(sum_j p_hat_j log(top + x - v_j) - epsilon). The best x is found by
  bisection, and any x gives a bound (Honda and Takemura 2010; Filippi et al. 2010 use it for planning);
- intervals: every entry gets its lower bound, and the remaining mass goes to the best entries up to their
  upper bounds. States are sorted once; a row visits its own successors and the best others until its mass is
  used up.

For a row with two entries the ball is an interval, kl(p_hat, p) <= level, whose ends are found by bisection.

Structure is not used: each row is learned from its own counts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.compiling import compiled
from rhocover.errors import InvalidArgumentError
from rhocover.transitions import read_sparse

# Compiled loops: the rows of a confidence set with the highest value.

EITHER, INTERVAL, BALL = 0, 1, 2  # which of its two sets a row uses
HALVINGS = 64  # of a bracket; its outer end is used, so that the set is never too small


@compiled
def interval_ends(shares, levels):
    """Returns the ends of {q: kl(p, q) <= level}, each rounded outwards."""
    lower, upper = np.empty(shares.size), np.empty(shares.size)
    for i in range(shares.size):
        p, level = shares[i], levels[i]
        if p == 0.0 or p == 1.0 or level == np.inf:
            reach = np.exp(-level)
            lower[i] = reach if p == 1.0 else 0.0
            upper[i] = 1.0 if p == 1.0 else -np.expm1(-level)
        else:
            lower[i] = _end(p, level, 0.0)
            upper[i] = _end(p, level, 1.0)
    return lower, upper


@compiled
def _end(p, level, outer):
    """Returns a q between p and `outer` where kl(p, q) reaches the level, rounded outwards."""
    inner = p
    for _ in range(HALVINGS):
        q = 0.5 * (inner + outer)
        inside = -p * np.log1p((q - p) / p) - (1 - p) * np.log1p((p - q) / (1 - p)) <= level
        inner, outer = (q, outer) if inside else (inner, q)
    return outer


@compiled
def solve_rows(indptr, indices, shares, ball, lower, upper, unseen, values, order, form, keep_rows):
    """Returns highest values and chosen forms `[n]`, and their rows as (indptr, columns, data)."""
    n, S = ball.size, values.size
    highest, chosen, ends = np.empty(n), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    columns, data = np.empty(indices.size + 2 * n, np.int64), np.empty(indices.size + 2 * n)
    place = np.full(S, -1, np.int64)
    found_columns, found = np.empty((2, S), np.int64), np.empty((2, S))
    for i in range(n):
        a, b = indptr[i], indptr[i + 1]
        own, size, value = indices[a:b], np.zeros(2, np.int64), np.full(2, np.inf)
        if form[i] != BALL:
            size[0], value[0] = _fill_intervals(
                own, lower[a:b], upper[a:b], unseen[i], values, order, place, found_columns[0], found[0]
            )
        if form[i] != INTERVAL:
            size[1], value[1] = _fill_ball(
                own, shares[a:b], ball[i], values, order[0], found_columns[1], found[1]
            )
        k = 0 if value[0] <= value[1] else 1
        highest[i], chosen[i], ends[i + 1] = value[k], k + 1, ends[i]
        if keep_rows:
            ends[i + 1] += size[k]
            while ends[i + 1] > data.size:
                columns, data = np.append(columns, columns), np.append(data, data)
            columns[ends[i] : ends[i + 1]] = found_columns[k, : size[k]]
            data[ends[i] : ends[i + 1]] = found[k, : size[k]]
    return highest, chosen, ends, columns[: ends[n]], data[: ends[n]]


@compiled
def _fill_intervals(own, lower, upper, unseen, values, order, place, columns, row):
    """Writes the best row within the intervals; returns its number of entries and its value."""
    size = own.size
    columns[:size], row[:size] = own, lower
    place[own] = np.arange(size)
    left, k = 1 - lower.sum(), 0
    while left > 0 and k < order.size:
        state = order[k]
        j = place[state]
        given = min(left, unseen if j < 0 else upper[j] - lower[j])
        if j >= 0:
            row[j] += given
        elif given > 0:
            columns[size], row[size], size = state, given, size + 1
        left, k = left - given, k + 1
    place[own] = -1
    return size, np.sum(row[:size] * values[columns[:size]])


@compiled
def _fill_ball(own, shares, epsilon, values, best, columns, row):
    """Writes the best row within KL(shares, row) <= epsilon; returns its number of entries and its value."""
    top, size = values[best], own.size
    if epsilon == np.inf:
        columns[0], row[0] = best, 1.0
        return 1, top
    below = top - values[own]
    columns[:size], row[:size] = own, shares
    widest = below.max()
    if widest == 0:
        return size, top
    mean = np.sum(shares * below)
    # Kantorovich's inequality: the slope is negative beyond x (x + widest) = widest^2 / 4 epsilon
    low, high = 1e-18 * widest, widest * (0.5 / np.sqrt(epsilon) + 1e-18)
    for _ in range(HALVINGS):
        x = np.sqrt(low * high)
        low, high = (x, high) if _slope(shares, below, mean, x)[0] > epsilon else (low, x)
        if high <= low * (1 + 1e-12):
            break
    spread, log_mean = _slope(shares, below, mean, high)
    row[:size] = shares / (below + high)
    row[:size] *= np.exp(spread - epsilon) / row[:size].sum()
    rest, k = max(1 - row[:size].sum(), 0.0), 0
    while k < size and own[k] != best:
        k += 1
    columns[k], row[k] = best, rest + (row[k] if k < size else 0.0)
    return max(size, k + 1), top - mean - (mean + high) * np.expm1(log_mean - epsilon)


@compiled
def _slope(shares, below, mean, x):
    """Returns log E[1/u] + E[log u] and E[log u] for u = (below + x)/(mean + x), which has mean 1."""
    excess, log_mean = 0.0, 0.0
    for j in range(shares.size):
        y = (below[j] - mean) / (mean + x)
        u = (below[j] + x) / (mean + x)
        excess += shares[j] * y * y / u  # E[1/u] - 1 without cancellation
        log_mean += shares[j] * (np.log(u) if u < 0.5 else np.log1p(y))
    return np.log1p(excess) + log_mean, log_mean


# The confidence set.

FAR = 50.0  # above it Stirling's series is exact, and differences of log Gamma would cancel


@dataclass(frozen=True, eq=False)
class Intervals:
    """Bounds of entries: of seen successors, aligned with `counts.data`, and one for all unseen of a row.

    The lower bound of an unseen successor is 0.
    """

    lower: FloatArray  # [nnz]
    upper: FloatArray  # [nnz]
    unseen: FloatArray  # [n]


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """Rows that the counts do not refute; build it with `make_confidence`.

    >>> known = make_confidence([[3, 1], [0, 0]], delta=0.1)
    >>> known.highest(np.array([0.0, 1.0])).round(2), known.lowest(np.array([0.0, 1.0])).round(2)
    (array([0.9, 1. ]), array([0., 0.]))
    """

    counts: Matrix  # csr_array int64 [n, S]: how often s' followed pair i, no stored zeros
    delta: float  # all rows are inside at all times with probability >= 1 - delta
    form: IntArray | None = None  # [n], EITHER, INTERVAL or BALL ; None is EITHER everywhere

    @cached_property
    def visits(self) -> IntArray:
        """How often each pair was visited, `[n]`."""
        return frozen(np.asarray(self.counts.sum(axis=1)).ravel().astype(np.int64))

    @cached_property
    def shares(self) -> FloatArray:
        """The empirical probability of each stored successor, `[nnz]`."""
        return frozen(self.counts.data / self.visits[self._row])

    @cached_property
    def ball(self) -> FloatArray:
        """The largest KL(p_hat, p) of each row `[n]`; inf for unvisited rows."""
        num_rows, num_states = self.counts.shape
        prior = _prior(num_states)
        seen = np.bincount(self._row, weights=_evidence(self.counts.data, prior), minlength=num_rows)
        level = np.log(2 * num_rows / self.delta) + _evidence(self.visits, num_states * prior) - seen
        return frozen(_per_visit(level, self.visits))

    @cached_property
    def l1_radius(self) -> FloatArray:
        """The largest L1 distance of a row from its empirical one `[n]`, by Pinsker; at most 2."""
        return frozen(np.minimum(2.0, np.sqrt(2 * self.ball)))

    @cached_property
    def intervals(self) -> Intervals:
        """Lower and upper bounds of all entries."""
        num_rows, num_states = self.counts.shape
        share = self.delta / 2 / num_rows / num_states
        lower, upper = mixture_interval(
            self.counts.data, self.visits[self._row], share, prior=_prior(num_states)
        )
        nothing = np.zeros(num_rows, np.int64)
        unseen = mixture_interval(nothing, self.visits, share, prior=_prior(num_states))[1]
        return Intervals(frozen(lower), frozen(upper), frozen(unseen))

    def highest(self, values: Any) -> FloatArray:
        """Returns a bound on P_i . values that no row of the set exceeds, `[n]`."""
        return self._solve(values, False)[0]

    def lowest(self, values: Any) -> FloatArray:
        """Returns a bound on P_i . values that no row of the set falls below, `[n]`."""
        return 0.0 - self.highest(-checks.float_array(values, "values"))

    def highest_rows(self, values: Any) -> Matrix:
        """Returns rows that attain `highest`, sparse `[n, S]`; each lies in the set that gave the bound."""
        _, _, indptr, columns, data = self._solve(values, True)
        return sp.csr_array((data, columns, indptr), shape=self.counts.shape)

    def settled_at(self, values: Any) -> ConfidenceSet:
        """Returns the same set with each row's form fixed to the one that is smaller for these values.

        Each row then ranges over one convex set, whatever values follow.
        """
        return replace(self, form=frozen(self._solve(values, False)[1]))

    @cached_property
    def _row(self) -> IntArray:
        return np.repeat(np.arange(self.counts.shape[0]), np.diff(self.counts.indptr))

    def _solve(
        self, values: Any, keep_rows: bool
    ) -> tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray]:
        values = checks.float_array(values, "values", (self.counts.shape[1],))
        form = frozen(np.full(self.counts.shape[0], EITHER, np.int64)) if self.form is None else self.form
        bounds, order = self.intervals, np.argsort(-values, kind="stable")
        return solve_rows(
            self.counts.indptr, self.counts.indices, self.shares, self.ball,
            bounds.lower, bounds.upper, bounds.unseen, values, order, form, keep_rows,
        )  # fmt: skip


def make_confidence(counts: Any, delta: float) -> ConfidenceSet:
    """Returns the set of rows that `counts` `[n, S]` (whole numbers, dense or sparse) do not refute."""
    delta = checks.probability(delta, "delta", open_ends=True)
    given = counts if sp.issparse(counts) else checks.any_array(counts, "counts")
    if given.dtype.kind not in "iu":
        raise InvalidArgumentError.of("counts", "must hold whole numbers", f"dtype {given.dtype}")
    matrix = read_sparse(given, "counts")[0].astype(np.int64)
    matrix.eliminate_zeros()
    if (matrix.data < 0).any():
        raise InvalidArgumentError.of("counts", "must be non-negative", f"{int(matrix.data.min())}")
    return ConfidenceSet(frozen_matrix(matrix), delta)


def mixture_interval(
    counts: IntArray, visits: IntArray, delta: float, *, prior: float = 0.5
) -> tuple[FloatArray, FloatArray]:
    """Returns (lower, upper) of the probability of an event seen `counts` times in `visits` draws.

    Each holds at all times at once with probability 1 - delta: (*) with the prior (prior, 1 - prior).
    """
    others = visits - counts
    level = np.log(1 / delta) + _evidence(visits, 1.0)
    level = _per_visit(level - _evidence(counts, prior) - _evidence(others, 1 - prior), visits)
    return interval_ends(counts / np.maximum(visits, 1), level)


def _prior(num_states: int) -> float:
    return 1 / max(num_states, 2)  # with one state there is nothing to learn, and no entry against others


def _evidence(counts: IntArray, prior: float) -> FloatArray:
    """Returns log Gamma(k+a)/Gamma(a) - k log k + k, 0 at k = 0; exact to 1e-11 for counts up to 1e15."""
    k = np.maximum(counts, 1).astype(float)
    x = k + prior
    series = 1 / (12 * x) - 1 / (360 * x**3)
    large = k * np.log1p(prior / k) + (prior - 0.5) * np.log(x) - prior + 0.5 * np.log(2 * np.pi) + series
    small = gammaln(np.minimum(x, FAR)) - k * np.log(k) + k
    return np.where(counts == 0, 0.0, np.where(x < FAR, small, large) - gammaln(prior))


def _per_visit(level: FloatArray, visits: IntArray) -> FloatArray:
    return np.where(visits > 0, level / np.maximum(visits, 1), np.inf)
