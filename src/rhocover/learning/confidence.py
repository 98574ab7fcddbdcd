"""Sets that hold an unknown transition matrix at all times at once, from counts of what followed each pair.

A pair's successors are independent draws from its row p, in whatever order pairs are visited. For draws with
counts k_j (N in all) and a Dirichlet prior of parameters alpha_j (A in all) the mixture likelihood ratio

    L_N(p) = Gamma(A)/Gamma(N + A) prod_j Gamma(k_j + alpha_j) / (Gamma(alpha_j) p_j^k_j)

is a non-negative martingale that starts at 1, so by Ville's inequality it stays below 1/delta for ever with
probability 1 - delta (method of mixtures, Robbins 1970). Its logarithm is N KL(p_hat, p) less what depends on
the counts alone, so for all N at once, with E_a(k) = log Gamma(k+a)/Gamma(a) - k log k + k,

    N KL(p_hat, p) <= log 1/delta + E_A(N) - sum_j E_alpha_j(k_j).                                      (*)

With all alpha_j = 1 the right side is below log 1/delta + (m-1) log(e (1 + N/(m-1))), m categories, the
threshold of Jonsson et al. (2020, Prop. 1). Here alpha_j = 1/S: a successor costs log S when it is seen and
nothing before, so a row of few successors is learned almost as fast among many states as among few. Half
of delta goes to each of

- **balls**: (*) for each of the n rows, with delta/2n;
- **intervals**: (*) for each entry against all others (prior 1/S, 1 - 1/S), with delta/2nS.

Both hold together, so the smaller of their two maxima of p.v bounds the true one (the maximum over their
intersection, smaller still, is not computed). By Pinsker's inequality a ball lies in an L1 ball. How the
maxima are found is in `worst_rows`.

Knows nothing of planning, and nothing of structure: each row is learned from its own counts alone.
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
from rhocover.errors import InvalidArgumentError
from rhocover.learning.worst_rows import EITHER, interval_ends, solve_rows
from rhocover.transitions import read_sparse

FAR = 50.0  # from here on Stirling's series is exact, and differences of log Gamma would cancel


@dataclass(frozen=True, eq=False)
class Intervals:
    """Bounds of entries: of seen successors aligned with `counts.data`, and one for all unseen of a row.

    An unseen successor has the lower bound 0.
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
    form: IntArray | None = None  # [n], EITHER, INTERVAL or BALL of `worst_rows`; None is EITHER everywhere

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
        """Returns rows that attain `highest`, sparse `[n, S]`; each lies in the set its row uses."""
        _, _, indptr, columns, data = self._solve(values, True)
        return sp.csr_array((data, columns, indptr), shape=self.counts.shape)

    def settled_at(self, values: Any) -> ConfidenceSet:
        """Returns the same set with each row's form fixed to the one that is smaller for these values.

        Each row then ranges over one convex set, whatever values it is asked for next.
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
        raise InvalidArgumentError(f"`counts` must hold whole numbers, got dtype {given.dtype}.")
    matrix = read_sparse(given, "counts")[0].astype(np.int64)
    matrix.eliminate_zeros()
    if (matrix.data < 0).any():
        raise InvalidArgumentError(f"`counts` must be non-negative, got {int(matrix.data.min())}.")
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
