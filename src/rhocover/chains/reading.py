"""Reading: the chain that a policy makes, and what a caller may pass as a chain.

A chain may be dense or sparse, may list an entry twice and may store zeros. It leaves here as rows in
canonical form: sorted, each entry once, no zeros, non-negative, sums of 1. Nothing behind this door checks
again, and what the caller passed is never touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP


def policy_chain(mdp: MDP, policy: Any) -> Matrix:
    """Returns the chain of a policy, sparse `[S, S]`; `policy` holds pi(a | s) as `[n]` or `[S, A]`."""
    choice = mdp.per_pair(policy, "policy")
    checks.check_nonnegative(checks.float_array(policy, "policy"), "policy")  # named as the caller wrote it
    sums = np.bincount(mdp.pair_state, choice, mdp.num_states)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-8)
    if wrong.size:
        raise InvalidArgumentError(
            f"`policy` must sum to 1 in every state, got {sums[wrong[0]]:.9g} in state {wrong[0]}. "
            "Divide it by its sum over the actions of the state."
        )
    chain = mixture(mdp, choice / sums[mdp.pair_state])
    chain.sort_indices()
    chain.eliminate_zeros()  # products of two probabilities may underflow
    return chain


def mixture(mdp: MDP, weight: FloatArray) -> Matrix:
    """Returns sum_a weight(s, a) P(. | s, a) per state, `[S, S]`; no entry is stored twice.

    SciPy's search for strong components does not return if one is.
    """
    used = weight > 0
    first = np.append(0, np.cumsum(used))[np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1))]
    shape = (mdp.num_states, mdp.num_pairs)
    return sp.csr_array(
        sp.csr_array((weight[used], np.flatnonzero(used), first), shape=shape) @ mdp.transitions
    )


def read_chain(chain: Any) -> Matrix:
    """Returns `chain` as canonical rows without stored zeros; what is not a chain is refused."""
    rows = _read_matrix(chain)
    checks.check_shape(rows.shape, "chain", (rows.shape[0], rows.shape[0]))
    _refuse_entries(rows, ~np.isfinite(rows.data), "finite")
    _refuse_entries(rows, rows.data < 0, "non-negative")
    rows.eliminate_zeros()
    is_single = getattr(chain, "dtype", None) == np.float32
    _refuse_sums(rows, tolerance=1e-5 if is_single else 1e-8)  # S roundings of 6e-8
    return rows


def _read_matrix(chain: Any) -> Matrix:
    if not sp.issparse(chain):
        chain = sp.csr_array(np.atleast_2d(checks.real_array(chain, "chain")))
    if chain.ndim != 2 or 0 in chain.shape or chain.dtype.kind not in "fiu":
        raise InvalidArgumentError(
            f"`chain` must be a matrix [S, S] of real numbers, got shape {chain.shape}, dtype {chain.dtype}."
        )
    rows = sp.csr_array(chain, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    return rows


def _refuse_entries(rows: Matrix, bad: BoolArray, rule: str) -> None:
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        entry = checks.at("chain", (int(row_of(rows)[place]), int(rows.indices[place])))
        raise InvalidArgumentError(f"`chain` must be {rule}, got {entry} = {rows.data[place]:g}.")


def _refuse_sums(rows: Matrix, tolerance: float) -> None:
    sums = np.asarray(rows.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if wrong.size:
        raise InvalidArgumentError(
            f"`chain` must have rows that sum to 1, got {sums[wrong[0]]:.9g} in row {wrong[0]}."
        )


def row_of(rows: Matrix) -> IntArray:
    """Returns the row of each stored entry."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
