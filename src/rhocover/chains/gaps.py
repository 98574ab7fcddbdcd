"""Spectral gaps: how fast a chain forgets where it started.

With M = D^(1/2) P D^(-1/2), D = diag(pi), the absolute spectral gap is 1 - max |lambda| over all eigenvalues
but one copy of 1, and the pseudo-spectral gap (Paulin 2015) is max_k (1 - sigma_2(M^k)^2) / k; sigma_2 is the
second singular value. The copy of 1 belongs to sqrt(pi), here `root`, and is removed. Whether a chain is
periodic is found from its graph, not from eigenvalues.

For large sparse matrices the second eigenvalue is found by Krylov iteration: the first eigenvector is known
and is projected out of everything, so the second eigenvalue is the largest of the rest. It is accurate to
about 1e-10; for small matrices dense spectra are more accurate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh, splu

from rhocover import checks
from rhocover.chains.classes import period_of, read_chain, recurrent_part, row_of
from rhocover.chains.stationary import irreducible_distribution
from rhocover.checks import FloatArray, Matrix
from rhocover.errors import SolverError
from rhocover.linalg.dissection import dissect

# Second eigenvalues by Krylov iteration.

DENSE_SPECTRUM = 1000  # states; a dense spectrum takes about a second there


def second_value(A: Matrix, root: FloatArray) -> float:
    """Returns the largest eigenvalue of a symmetric A, 0 <= A <= 1, other than that of `root`.

    With small separators the gap may be tiny, but a factorisation is cheap, so the inverse of shift - A is
    iterated; without them the gap is wide, and A itself is iterated.
    """
    A = sp.csr_array(A)
    if dissect(A, 0) is None:
        return largest_value(eigsh, lambda x: A @ x, root)
    shift = 1 + 1e-6
    factors = splu(
        sp.csc_array(shift * sp.eye_array(A.shape[0]) - A),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return shift - 1 / largest_value(eigsh, factors.solve, root)


def largest_value(method: Any, apply: Callable[[Any], Any], root: FloatArray) -> float:
    """Returns the largest |eigenvalue| of `apply` without `root`; a fixed start makes it repeatable."""
    v0 = np.random.default_rng(0).standard_normal(root.size)
    operator = _Projected(apply, root)
    try:
        values = method(operator, k=1, v0=v0, ncv=64, maxiter=300, tol=1e-10, return_eigenvectors=False)
    except ArpackError as error:
        raise SolverError(
            f"the second eigenvalue was not found: {error}. Up to {DENSE_SPECTRUM} states it always is."
        ) from error
    return float(np.abs(values).max())


class _Projected(LinearOperator):
    """x -> apply(x - root (root . x)) without its part along root."""

    def __init__(self, apply: Callable[[Any], Any], root: FloatArray) -> None:
        super().__init__(np.dtype(np.float64), (root.size, root.size))
        self._apply, self._root = apply, root

    def _matvec(self, x: Any) -> Any:
        return self._project(self._apply(self._project(x.ravel())))

    def _project(self, x: Any) -> Any:
        return x - self._root * (self._root @ x)


# Spectral gaps.

POWER_FILL = 4  # times the entries of M: denser powers are not worth their cost
EVERY_POWER = 32  # pseudo_spectral_gap tries each k up to this, and doubles afterwards


def is_reversible(chain: Any) -> bool:
    """Returns whether pi_s P(s_next | s) is symmetric on the one recurrent class, to 1e-9 of itself."""
    return _is_symmetric(_symmetrised(chain)[0])


def spectral_gap(chain: Any) -> float:
    """Returns the absolute spectral gap: 1 - max |lambda| over all eigenvalues but one copy of 1.

    Taken on the one recurrent class; 0 if that is periodic, 1 if it is a single state. The number bounds
    mixing of reversible chains; of others it is only the rate in the long run, and `pseudo_spectral_gap` is
    the one to use. Up to 1,000 states the absolute error is about 1e-14; above that, by Krylov iteration, it
    is about 1e-10, and the result is rather too large than too small.
    """
    M, root = _symmetrised(chain)
    symmetric = _is_symmetric(M)
    if root.size == 1 or period_of(M) > 1:
        return float(root.size == 1)
    if root.size > DENSE_SPECTRUM and symmetric:
        return _gap(math.sqrt(max(0.0, second_value(M @ M, root))))
    if root.size > DENSE_SPECTRUM:
        return _gap(largest_value(eigs, lambda x: M @ x, root))
    dense = M.toarray() - np.outer(root, root)
    values = np.linalg.eigvalsh((dense + dense.T) / 2) if symmetric else np.linalg.eigvals(dense)
    return _gap(float(np.abs(values).max()))


def pseudo_spectral_gap(chain: Any, *, max_power: int = 1024) -> float:
    """Returns max over k <= `max_power` of (1 - sigma_2(M^k)^2) / k, Paulin's pseudo-spectral gap.

    Any single k is a valid lower bound, so it is safe to leave some out, and none is needed once 1/k is
    below the best so far. Up to 1,000 states every k to 32 is tried and then each doubling: exact if the
    gap is above 1/32, else at least half of the maximum (the numerators grow with k) unless `max_power`
    ends it. Larger chains try doublings while M^k stays sparse, to about 1e-10 each.
    """
    max_power = checks.integer(max_power, "max_power", least=1)
    M, root = _symmetrised(chain)
    if root.size == 1 or period_of(M) > 1:
        return float(root.size == 1)
    squared_norms = _dense_norms if root.size <= DENSE_SPECTRUM else _sparse_norms
    best = 0.0
    for k, squared in squared_norms(M, root):
        if k > max_power or k * best >= 1:
            break
        best = max(best, _gap(squared) / k)
    return best


def _dense_norms(M: Matrix, root: FloatArray) -> Iterator[tuple[int, float]]:
    """Yields k and sigma_2(M^k)^2 for k = 1, 2, ..., 32, 64, 128, ..."""
    base = power = M.toarray() - np.outer(root, root)
    k = 1
    while True:
        yield k, float(np.linalg.eigvalsh(power.T @ power)[-1])
        power, k = (power @ base, k + 1) if k < EVERY_POWER else (power @ power, 2 * k)


def _sparse_norms(M: Matrix, root: FloatArray) -> Iterator[tuple[int, float]]:
    """Yields k and sigma_2(M^k)^2 for k = 1, 2, 4, ... while M^k is sparse."""
    power, k = M, 1
    while power.nnz <= POWER_FILL * M.nnz:
        yield k, second_value(power.T @ power, root)
        power, k = power @ power, 2 * k


def _gap(largest: float) -> float:
    return max(0.0, 1.0 - largest)  # rounding may put an eigenvalue just above 1


def _is_symmetric(M: Matrix) -> bool:
    return bool((abs(M - M.T) - 1e-9 * (M + M.T)).max() <= 0)


def _symmetrised(chain: Any) -> tuple[Matrix, FloatArray]:
    """Returns M = D^(1/2) P D^(-1/2) on the one recurrent class, and the unit vector sqrt(pi)."""
    M = recurrent_part(read_chain(chain))[1]
    root = np.sqrt(irreducible_distribution(M))
    if not root.all():
        raise SolverError(f"{(root == 0).sum()} states are visited with probability below 1e-308: no gap.")
    row = row_of(M)
    M.data *= root[row] / root[M.indices] / np.bincount(row, M.data)[row]  # rows may be 1e-8 off 1
    return M, root
