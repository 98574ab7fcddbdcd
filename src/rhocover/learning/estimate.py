"""The model estimated from transition counts, and its error against the true model.

Row i of `counts` holds N(s'|i), how often state s' followed pair i; N_i is its sum. The estimate adds k = 1/2
of a visit, spread over the m known states,

    P_hat(s'|i) = (N(s'|i) + k/m) / (N_i + k),

so that it is a communicating model from the first step on: no pair is deterministic, and a pair never visited
may lead anywhere. In a model that is too large for full rows, k is spread over the states to which any action
of the same state led, and a thousandth of k over the first states of the trajectories (and from these over
states never met). Every met state was reached from one of these, so this is communicating, too. All of k on
the first states would distort the plan, with a jump back every N/k steps. An error of order k/N costs N^-2 of
coverage, less than the randomness of the run costs anyway. A posterior sample draws each row from the
Dirichlet distribution whose mean is P_hat.

**Model error** (`model_error`). Here k >= 0 is an argument, and rows with N_i = k = 0 are uniform. A pair's
error is |P_hat_i - P_i|_1 (between 0 and 2), or the squared |P_hat_i - P_i|_2^2. Means are over pairs with
equal weights. The mean of the first is E = (1/SA) sum ||P_hat - P||_1 of Tarbouriech et al. (2020), the mean
of the second is the square of what `theory.budget` calls the model error. To first order in 1/N_i a pair's
expected errors are sum_s' sqrt(2 P(1-P) / (pi N_i)) and sum_s' P(1-P) / N_i. A smoothed row has no zeros, but
all entries that were neither seen nor are possible are equal, so nothing of size n×S is ever stored.

Only the dynamics are estimated here; `reward_free` measures how well one can plan with the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP, check_mdp

SMOOTHING = 0.5
LEAST = 1e-10  # the smallest positive probability: linear programs read 1e-12 as zero
FULL_ENTRIES = 20_000  # up to this n S every state may follow every pair; above it rows stay sparse
HOME = 1e-3  # fraction of k on the first states, in a model with sparse rows


@dataclass(frozen=True, eq=False)
class Estimate:
    """Counts of transitions over the known states, and the model estimated from them."""

    counts: Matrix  # int64 [n, S]
    pair_state: IntArray
    pair_action: IntArray
    num_actions: int
    roots: IntArray  # where trajectories began
    smoothing: float = SMOOTHING
    name: str = ""

    @property
    def num_pairs(self) -> int:
        """The number of pairs."""
        return int(self.pair_state.size)

    @property
    def num_states(self) -> int:
        """The number of known states."""
        return int(self.counts.shape[1])

    @cached_property
    def visits(self) -> IntArray:
        """How often each pair was visited, `[n]`."""
        return np.asarray(self.counts.sum(axis=1)).ravel().astype(np.int64)

    @cached_property
    def model(self) -> MDP:
        """The model of the smoothed estimate."""
        return self._model(self._smoothed())

    def sample(self, generator: np.random.Generator) -> MDP:
        """Returns a model drawn from the posterior: each row from Dirichlet(N + k/m)."""
        rows = self._smoothed()
        draws = generator.standard_gamma(rows.data)
        return self._model(sp.csr_array((draws, rows.indices, rows.indptr), shape=rows.shape))

    def table(self, values: FloatArray) -> FloatArray:
        """Returns values per pair as a table `[S, A]`."""
        return self.model.table(values)

    def _smoothed(self) -> Matrix:
        """Returns N + k/m: rows that sum to N_i + k."""
        n, m = self.counts.shape
        if n * m <= FULL_ENTRIES:
            return sp.csr_array(self.counts.toarray() + self.smoothing / m)
        share = self.smoothing * ((1 - HOME) * self._nearby() + HOME * self._home())
        return (self.counts + share[self.pair_state]).tocsr()

    def _nearby(self) -> Matrix:
        """Returns where each state led under any action, `[S, S]`; to itself if it was never left."""
        n, m = self.counts.shape
        whose = sp.csr_array((np.ones(n), (self.pair_state, np.arange(n))), shape=(m, n))
        total = np.asarray(whose @ self.visits).ravel()
        led = sp.diags_array(1 / np.maximum(total, 1)) @ (whose @ self.counts)
        return sp.csr_array(led + sp.diags_array((total == 0).astype(float)))

    def _home(self) -> Matrix:
        """Returns rows that lead to the first states, and from there also to states never met, `[S, S]`."""
        m, k = self.num_states, self.roots.size
        first = np.arange(0, m * k + 1, k)
        home = sp.csr_array((np.full(m * k, 1 / k), np.tile(self.roots, m), first), shape=(m, m))
        unmet = np.setdiff1d(np.arange(m), np.append(self.counts.indices, self.roots))
        if unmet.size == 0:
            return home
        row = np.zeros(m)
        row[unmet] = 1 / unmet.size
        is_root = np.isin(np.arange(m), self.roots).astype(float)
        away = sp.csr_array(is_root[:, None]) @ sp.csr_array(row[None, :])
        return sp.csr_array(sp.diags_array(1 - is_root / 2) @ home + away / 2)

    def _model(self, rows: Matrix) -> MDP:
        data = np.maximum(_shares(rows.data, rows), LEAST)
        data = _shares(data, rows)
        rows = sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
        return MDP.from_pairs(
            rows, self.pair_state, self.pair_action, num_actions=self.num_actions, name=self.name
        )


def _shares(values: FloatArray, rows: Matrix) -> FloatArray:
    """Returns the entries divided by the sums of their rows; a row without a sum becomes uniform."""
    total, length = np.add.reduceat(values, rows.indptr[:-1]), np.diff(rows.indptr)
    empty = total < 1e-300  # draws may underflow all at once
    values = np.where(np.repeat(empty, length), 1.0, values)
    return values / np.repeat(np.where(empty, length, total), length)


def exact_estimate(mdp: MDP) -> Estimate:
    """Returns the estimate after infinitely many visits: its rows are those of P."""
    return _Exact(
        mdp.transitions, mdp.pair_state, mdp.pair_action, mdp.num_actions, np.array([0]), 0.0, mdp.name
    )


def settled_estimate(mdp: MDP, visits: int = 10**9) -> Estimate:
    """Returns the estimate after `visits` of each pair, with the most likely counts."""
    P = mdp.transitions
    seen = np.maximum(1, np.rint(visits * P.data)).astype(np.int64)
    counts = sp.csr_array((seen, P.indices, P.indptr), shape=P.shape)
    roots = np.array([0])
    return Estimate(counts, mdp.pair_state, mdp.pair_action, mdp.num_actions, roots, name=mdp.name)


class _Exact(Estimate):
    """The true model as an estimate."""

    @cached_property
    def visits(self) -> IntArray:
        """Infinitely many, `[n]`."""
        return np.full(self.num_pairs, np.inf)  # type: ignore[return-value]

    @cached_property
    def model(self) -> MDP:
        """The model."""
        return MDP.from_pairs(
            self.counts, self.pair_state, self.pair_action, num_actions=self.num_actions, name=self.name
        )


# Model error.


@dataclass(frozen=True)
class ModelError:
    """Errors of estimated rows: L1 norms and squared L2 norms, the mean and the largest over pairs."""

    l1_mean: float
    l1_worst: float
    l2_mean: float  # of squared norms
    l2_worst: float
    worst_pair: int  # the first with the largest L1 error; `mdp.pair_name` gives its name
    num_unvisited: int  # pairs that were never tried


def model_error(truth: MDP, transitions: Any, *, smoothing: float = 0.0) -> ModelError:
    """Returns how far the estimate from `transitions` is from `truth`.

    `transitions` holds whole numbers `[n, S]`, sparse or dense: how often each state followed each pair.
    Successors that are impossible in `truth` are not refused; they count as errors like others.

    >>> from rhocover.mdp import MDP
    >>> truth = MDP([[[0.5, 0.5]], [[1.0, 0.0]]])
    >>> round(model_error(truth, [[3, 1], [7, 0]]).l1_mean, 6)  # |3/4 - 1/2| + |1/4 - 1/2| = 1/2, and 0
    0.25
    """
    counts = read_counts(truth, transitions)
    scale, base = shrinkage(counts, checked_smoothing(smoothing))
    l1, l2 = row_errors(truth, counts, scale, base)
    return ModelError(
        l1_mean=float(l1.mean()), l1_worst=float(l1.max()),
        l2_mean=float(l2.mean()), l2_worst=float(l2.max()),
        worst_pair=int(np.argmax(l1)), num_unvisited=int((visits(counts) == 0).sum()),
    )  # fmt: skip


def row_errors(
    truth: MDP, counts: Matrix, scale: FloatArray, base: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Returns the L1 norm and the squared L2 norm of each row of scale N + base - P, two arrays `[n]`."""
    difference = sp.csr_array(counts.multiply(scale[:, None]) - truth.transitions)
    stored = np.diff(difference.indptr)
    pair = np.repeat(np.arange(truth.num_pairs), stored)
    error = np.abs(difference.data + base[pair])
    elsewhere = truth.num_states - stored  # a stored zero counts like one that is not stored
    l1 = np.bincount(pair, error, truth.num_pairs) + elsewhere * base
    l2 = np.bincount(pair, error**2, truth.num_pairs) + elsewhere * base**2
    return l1, l2


def shrinkage(counts: Matrix, smoothing: float) -> tuple[FloatArray, FloatArray]:
    """Returns (scale, base) `[n]` with P_hat(s'|i) = scale_i N(s'|i) + base_i for every s'."""
    weight = visits(counts) + smoothing
    is_known = weight > 0
    scale = np.where(is_known, 1 / np.where(is_known, weight, 1.0), 0.0)
    return scale, np.where(is_known, smoothing * scale, 1.0) / counts.shape[1]


def visits(counts: Matrix) -> FloatArray:
    """Returns how often each pair was tried, `[n]`."""
    return np.asarray(counts.sum(axis=1)).ravel()


def checked_smoothing(smoothing: Any) -> float:
    """Returns a smoothing constant in [0, inf)."""
    smoothing = checks.number(smoothing, "smoothing")
    if not 0 <= smoothing < np.inf:
        raise InvalidArgumentError.of("smoothing", "must be in [0, inf)", f"{smoothing:g}")
    return smoothing


def read_counts(mdp: MDP, transitions: Any) -> Matrix:
    """Returns counts as sparse float64 `[n, S]`, without duplicates; refuses what are not counts."""
    check_mdp(mdp, "truth")
    if not sp.issparse(transitions):
        transitions = checks.any_array(transitions, "transitions")
    checks.check_shape(transitions.shape, "transitions", (mdp.num_pairs, mdp.num_states))
    if transitions.dtype.kind not in "iu":
        raise InvalidArgumentError.of(
            "transitions",
            "must hold whole numbers",
            f"dtype {transitions.dtype}",
            remedy="Convert counts of another type with transitions.astype(np.int64).",
        )
    counts = sp.csr_array(transitions)
    if counts.nnz and counts.data.min() < 0:
        place = int(np.argmin(counts.data))
        row = int(np.searchsorted(counts.indptr, place, side="right")) - 1
        raise InvalidArgumentError.of(
            "transitions",
            "must be non-negative",
            f"transitions[{row}, {counts.indices[place]}] = {counts.data[place]}",
        )
    counts = sp.csr_array(counts, dtype=np.float64, copy=True)
    counts.sum_duplicates()
    return counts
