"""Second eigenvalues of large sparse matrices, by Krylov iteration off the first eigenvector.

The first eigenvector is known and is projected out of everything, so the second eigenvalue is the largest
that is left. Good to about 1e-10; where matrices are small, dense spectra are better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

from rhocover.chains.dissection import dissect
from rhocover.checks import FloatArray, Matrix
from rhocover.errors import SolverError

DENSE_SPECTRUM = 1000  # states; a dense spectrum takes about a second there


def second_value(A: Matrix, root: FloatArray) -> float:
    """Returns the largest eigenvalue of a symmetric A, 0 <= A <= 1, off its eigenvector `root`.

    Where small separators exist the gap may be tiny but a factorisation is cheap, so the inverse of
    shift - A is iterated; where they do not, the gap is wide and A itself will do.
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
    """Returns the largest |eigenvalue| of `apply` off `root`; the start is fixed, so the answer is too."""
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
