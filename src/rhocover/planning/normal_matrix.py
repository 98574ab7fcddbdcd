"""The matrix K diag(w) K' of a Newton step, re-filled for each w without finding its pattern again.

Every column i of K adds w_i times its outer product with itself. Where each product lands in the lower
triangle of the result is worked out once; after that a fill is one compiled pass over a list of places.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit

from rhocover.checks import FloatArray, IntArray, Matrix


def normal_pattern(K: Matrix) -> Matrix:
    """Returns the symmetric pattern of K K' in CSR form, as ones."""
    ones = sp.csr_array((np.ones(K.nnz, np.float32), K.indices, K.indptr), shape=K.shape)
    pattern = (ones @ ones.T).tocsr()
    pattern.sort_indices()
    return pattern


class NormalMatrix:
    """The lower triangle of K diag(w) K', rows and columns in the given order, stored by columns."""

    def __init__(self, K: Matrix, pattern: Matrix, order: IntArray) -> None:
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        self.indptr, self.indices = _lower_pattern(pattern, place)
        columns = K.tocsc()
        self._K_indptr = columns.indptr.astype(np.int64)
        self._K_rows = place[columns.indices]
        self._K_values = columns.data
        sizes = np.diff(self._K_indptr)
        self._places = np.empty(int(np.sum(sizes * (sizes + 1) // 2)), np.int64)
        _find_places(self._K_indptr, self._K_rows, self.indptr, self.indices, self._places)
        if self.indices.size < 2**31:
            self._places = self._places.astype(np.int32)

    def fill(self, w: FloatArray) -> FloatArray:
        """Returns the entries for these weights, in the order of `indices`."""
        values = np.zeros(self.indices.size)
        _fill(self._K_indptr, self._K_values, w, self._places, values)
        return values


def _lower_pattern(pattern: Matrix, place: IntArray) -> tuple[IntArray, IntArray]:
    coo = pattern.tocoo()
    row, column = place[coo.row], place[coo.col]
    low = row >= column
    ones = np.ones(int(low.sum()), np.int8)
    matrix = sp.csc_array((ones, (row[low], column[low])), shape=pattern.shape)
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


@njit(cache=True)
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


@njit(cache=True)
def _fill(K_indptr, K_values, w, places, values):
    k = 0
    for i in range(K_indptr.size - 1):
        for p in range(K_indptr[i], K_indptr[i + 1]):
            scaled = w[i] * K_values[p]
            for q in range(K_indptr[i], p + 1):
                values[places[k]] += scaled * K_values[q]
                k += 1
