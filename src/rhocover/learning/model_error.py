"""Model error: how far the transition probabilities that counts suggest are from the true ones.

With N(s'|i) the times that state s' followed pair i, N_i their sum, and a smoothing constant k >= 0,

    P_hat(s'|i) = (N(s'|i) + k/S) / (N_i + k);      uniform over the S states where N_i = k = 0.

A pair's error is |P_hat_i - P_i|_1 (between 0 and 2), or the squared |P_hat_i - P_i|_2^2. Means are over
pairs with equal weights. The mean of the first is E = (1/SA) sum ||P_hat - P||_1 of Tarbouriech et al.
(2020), the mean of the second is the square of what `theory.budget` calls the model error. To first
order in 1/N_i a pair's expected errors are sum_s' sqrt(2 P(1-P) / (pi N_i)) and sum_s' P(1-P) / N_i.

A smoothed row is nowhere zero, but outside of what was seen and what is possible all its entries are the same
number, so nothing of size n×S is ever stored. What is estimated here is the dynamics alone; what the
estimate is good for is the subject of `reward_free`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, Matrix
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP, check_mdp


@dataclass(frozen=True)
class ModelError:
    """Errors of estimated rows: L1 norms and squared L2 norms, the mean and the largest over pairs."""

    l1_mean: float
    l1_worst: float
    l2_mean: float  # of squared norms
    l2_worst: float
    worst_pair: int  # the first with the largest L1 error; `mdp.pair_name` says its name
    num_unvisited: int  # pairs that were never tried


def model_error(truth: MDP, transitions: Any, *, smoothing: float = 0.0) -> ModelError:
    """Returns how far the estimate from `transitions` is from `truth`.

    `transitions` holds whole numbers `[n, S]`, sparse or dense: how often each state followed each pair.
    Successors that `truth` calls impossible are not refused; they are errors like others.

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
    elsewhere = truth.num_states - stored  # a stored zero and one that is not stored count alike
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
        raise InvalidArgumentError(f"`smoothing` must be in [0, inf), got {smoothing:g}.")
    return smoothing


def read_counts(mdp: MDP, transitions: Any) -> Matrix:
    """Returns counts as sparse float64 `[n, S]`, each entry once; what does not count is refused."""
    check_mdp(mdp, "truth")
    if not sp.issparse(transitions):
        transitions = checks.any_array(transitions, "transitions")
    checks.check_shape(transitions.shape, "transitions", (mdp.num_pairs, mdp.num_states))
    if transitions.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"`transitions` must hold whole numbers, got dtype {transitions.dtype}. Counts in another type: "
            "transitions.astype(np.int64)."
        )
    counts = sp.csr_array(transitions)
    if counts.nnz and counts.data.min() < 0:
        place = int(np.argmin(counts.data))
        row = int(np.searchsorted(counts.indptr, place, side="right")) - 1
        raise InvalidArgumentError(
            f"`transitions` must be non-negative, got transitions[{row}, {counts.indices[place]}] = "
            f"{counts.data[place]}."
        )
    counts = sp.csr_array(counts, dtype=np.float64, copy=True)
    counts.sum_duplicates()
    return counts
