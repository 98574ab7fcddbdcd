"""The sparse back end: nested dissection, supernodes, multifrontal Cholesky."""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray, Matrix
from rhocover.compiling import compiled
from rhocover.planning.factorisation import NotPositiveDefiniteError
from rhocover.planning.multifrontal import MultifrontalFactor, Workspace
from rhocover.planning.normal_matrix import NormalMatrix, normal_pattern
from rhocover.planning.ordering import has_metis, metis_order, nested_dissection
from rhocover.planning.symbolic import Symbolic, analyse, inverse

METIS_PAYS = 2e9  # operations of one factorisation below which METIS costs more than it saves
PLANAR = 300.0  # operations over n^1.5: about 100 on slippery grids, where METIS does no better


class SparseBackend:
    """Factorises in a fill-reducing order that is found once for the pattern."""

    def __init__(self, K: Matrix, symbolic: Symbolic) -> None:
        self._symbolic = symbolic
        self._matrix = NormalMatrix(K, symbolic)
        self._diagonal = symbolic.indptr[:-1]
        self._factor: MultifrontalFactor | None = None
        self._workspace = Workspace()
        self._scale = np.ones(K.shape[0])

    @classmethod
    def try_analyse(cls, K: Matrix, dense_share: float) -> SparseBackend | None:
        """Returns the back end, or None where the factor fills more than `dense_share` of a triangle."""
        pattern = normal_pattern(K)
        triangle = 0.5 * K.shape[0] ** 2
        if pattern.nnz > dense_share * triangle:
            return None
        symbolic = best_analysis(pattern)
        if symbolic.num_entries > dense_share * triangle and triangle < 2e8:
            return None
        return cls(K, symbolic)

    def factorise(self, w: FloatArray, extra: float) -> None:
        """Factorises for these weights."""
        values = self._matrix.fill(w)
        diagonal = values[self._diagonal]
        if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
            raise NotPositiveDefiniteError("a diagonal entry is not positive.")
        scale = 1 / np.sqrt(diagonal)
        _rescale(self._symbolic.indptr, self._symbolic.indices, scale, values)
        values[self._diagonal] += extra
        self._scale = scale[inverse(self._symbolic.order)]
        self._factor = MultifrontalFactor(self._symbolic, values, self._workspace)

    def solve(self, right: FloatArray) -> FloatArray:
        """Returns one forward and backward substitution, not refined."""
        assert self._factor is not None
        order = self._symbolic.order
        solution = np.empty_like(right)
        solution[order] = self._factor.solve((self._scale * right)[order])
        return self._scale * solution


def best_analysis(pattern: Matrix) -> Symbolic:
    """Returns the analysis of our own order, or of METIS's where that is installed and fills less."""
    own = analyse(pattern, nested_dissection(pattern))
    planar = PLANAR * pattern.shape[0] ** 1.5
    if own.num_operations < max(METIS_PAYS, planar) or not has_metis():
        return own
    metis = analyse(pattern, metis_order(pattern))
    return min(own, metis, key=lambda symbolic: symbolic.num_operations)


@compiled
def _rescale(indptr, indices, scale, values):
    for j in range(indptr.size - 1):
        for p in range(indptr[j], indptr[j + 1]):
            values[p] *= scale[indices[p]] * scale[j]
