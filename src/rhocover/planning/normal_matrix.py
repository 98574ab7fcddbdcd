"""The matrix K diag(w) K' of a Newton step, re-filled for each w without finding its pattern again.

Every column i of K adds w_i times its outer product with itself. Where each product lands in the lower
triangle of the result is worked out once; after that a fill is one compiled pass over a list of places.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, Matrix
from rhocover.compiling import compiled
from rhocover.planning.symbolic import Symbolic, inverse


def normal_pattern(K: Matrix) -> Matrix:
    """Returns the symmetric pattern of K K' in CSR form, as ones."""
    ones = sp.csr_array((np.ones(K.nnz, np.float32), K.indices, K.indptr), shape=K.shape)
    pattern = (ones @ ones.T).tocsr()
    pattern.sort_indices()
    return pattern


class NormalMatrix:
    """The lower triangle of K diag(w) K' in the order and the pattern of an analysis, by columns."""

    def __init__(self, K: Matrix, symbolic: Symbolic) -> None:
        self._size = symbolic.indices.size
        columns = K.tocsc()
        self._K_indptr = columns.indptr.astype(np.int64)
        self._K_values = columns.data
        sizes = np.diff(self._K_indptr)
        dtype = np.int32 if self._size < 2**31 else np.int64
        self._places = np.empty(int(np.sum(sizes * (sizes + 1) // 2)), dtype)
        rows = inverse(symbolic.order)[columns.indices]
        _find_places(self._K_indptr, rows, symbolic.indptr, symbolic.indices, self._places)

    def fill(self, w: FloatArray) -> FloatArray:
        """Returns the entries for these weights, in the order of the analysis's `indices`."""
        values = np.zeros(self._size)
        _fill(self._K_indptr, self._K_values, w, self._places, values)
        return values


@compiled
def _find_places(K_indptr, K_rows, indptr, indices, places):
    """Fills `places` with the position of each product K[a, i] K[b, i] in the lower triangle."""
    k = 0
    for i in range(K_indptr.size - 1):
        for p in range(K_indptr[i], K_indptr[i + 1]):
            for q in range(K_indptr[i], p + 1):
                row, column = max(K_rows[p], K_rows[q]), min(K_rows[p], K_rows[q])
                low, high = indptr[column], indptr[column + 1]
                while low < high:
                    middle = (low + high) // 2
                    if indices[middle] < row:
                        low = middle + 1
                    else:
                        high = middle
                places[k] = low
                k += 1


@compiled
def _fill(K_indptr, K_values, w, places, values):
    k = 0
    for i in range(K_indptr.size - 1):
        for p in range(K_indptr[i], K_indptr[i + 1]):
            scaled = w[i] * K_values[p]
            for q in range(K_indptr[i], p + 1):
                values[places[k]] += scaled * K_values[q]
                k += 1
