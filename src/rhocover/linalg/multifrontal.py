"""Sparse Cholesky factorisation M = L L' by dense blocks (multifrontal, Duff and Reid 1983).

Supernodes are visited children first. Each gathers its part of M and the update matrices of its
children, factorises its own columns with dense LAPACK, and passes the rest to its parent:

    [L11        ]   columns of the supernode          U = - L21 L21'  (+ children's)  goes to the parent
    [L21  ...   ]   rows below them

Scatter loops are compiled; everything cubic is BLAS.

**The matrix K diag(w) K'** of a Newton step is filled for each w without computing its pattern again. Every
column i of K adds w_i times its outer product with itself. The place of each product in the lower triangle is
computed once; after that, a fill is one compiled pass over a list of places.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.compiling import compiled
from rhocover.linalg.dissection import has_metis, metis_order, nested_dissection, order_with_groups
from rhocover.linalg.normal_equations import NotPositiveDefiniteError
from rhocover.linalg.symbolic import Symbolic, analyse, inverse

dsyrk, dtrsm = get_blas_funcs(("syrk", "trsm"), dtype=np.float64)
(dpotrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)


class Workspace:
    """Memory that is reused by the next factorisation.

    The operating system provides new memory page by page; on 10^6 states that alone took a fifth of the time.
    Sizes are rounded up to powers of two, so that blocks can be reused.
    """

    def __init__(self) -> None:
        self._entries = np.zeros(0)
        self._free: dict[int, list[FloatArray]] = {}

    def entries(self, size: int) -> FloatArray:
        """Returns zeros for all blocks of the factor; overwrites the previous factor."""
        if self._entries.size != size:
            self._entries = np.zeros(size)
        else:
            self._entries.fill(0.0)
        return self._entries

    def square(self, side: int) -> FloatArray:
        """Returns a zero matrix in column order."""
        size = 1 << (side * side).bit_length()
        pieces = self._free.get(size)
        piece = pieces.pop() if pieces else np.empty(size)
        matrix = piece[: side * side].reshape((side, side), order="F")
        matrix.fill(0.0)
        return matrix

    def release(self, matrix: FloatArray) -> None:
        """Takes a matrix back; it must not be used afterwards."""
        piece = matrix.base
        while isinstance(piece, np.ndarray) and isinstance(piece.base, np.ndarray):
            piece = piece.base
        assert isinstance(piece, np.ndarray)
        self._free.setdefault(piece.size, []).append(piece)


class MultifrontalFactor:
    """The factor of one matrix, whose `values` are in the order of the analysis's `indices`."""

    def __init__(self, symbolic: Symbolic, values: FloatArray, workspace: Workspace) -> None:
        self._symbolic = symbolic
        self._offset = _block_offsets(symbolic)
        self._entries = workspace.entries(int(self._offset[-1]))
        spans = list(itertools.pairwise(symbolic.first.tolist()))
        rows = np.split(symbolic.rows, symbolic.start[1:-1])
        children = _children(symbolic.parent)
        local = np.empty(symbolic.order.size, np.int64)
        updates: dict[int, FloatArray] = {}
        for k, (low, high) in enumerate(spans):
            top, below = self._blocks(k, high - low, rows[k].size)
            rest = workspace.square(rows[k].size)
            _gather(low, high, rows[k], symbolic.indptr, symbolic.indices, values, local, top, below)
            for child in children[k]:
                update = updates.pop(child)
                _extend_add(low, high, rows[child], local, update, top, below, rest)
                workspace.release(update)
            _eliminate(low, top, below)
            if rows[k].size:
                dsyrk(-1.0, below, beta=1.0, c=rest, lower=1, overwrite_c=1)
                updates[k] = rest

    def _blocks(self, k: int, width: int, height: int) -> tuple[FloatArray, FloatArray]:
        """Returns views of the k-th supernode's blocks L11 and L21."""
        begin = int(self._offset[k])
        middle = begin + width * width
        top = self._entries[begin:middle].reshape((width, width), order="F")
        below = self._entries[middle : middle + height * width].reshape((height, width), order="F")
        return top, below

    def solve(self, right: FloatArray) -> FloatArray:
        """Returns M^-1 right for a vector, in factor order."""
        x = right.copy()
        symbolic = self._symbolic
        _substitute(symbolic.first, symbolic.start, symbolic.rows, self._offset, self._entries, x)
        return x


def _block_offsets(symbolic: Symbolic) -> IntArray:
    """Returns where each supernode's numbers begin, and their total at the end."""
    width, height = np.diff(symbolic.first), np.diff(symbolic.start)
    return np.concatenate([[0], np.cumsum(width * (width + height))])


def _children(parent: IntArray) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(parent.size)]
    for k, p in enumerate(parent.tolist()):
        if p >= 0:
            children[p].append(k)
    return children


def _eliminate(low: int, top: FloatArray, below: FloatArray) -> None:
    """Turns the gathered blocks into L11 and L21, in place."""
    _, info = dpotrf(top, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"pivot {low + info - 1} is not positive.")
    if below.size:
        dtrsm(1.0, top, below, side=1, lower=1, trans_a=1, overwrite_b=1)


@compiled
def _gather(low, high, rows, indptr, indices, values, local, top, below):
    """Writes the columns [low, high) of M into the blocks; stores the place of each row in `local`."""
    for k in range(rows.size):
        local[rows[k]] = k
    for j in range(low, high):
        for p in range(indptr[j], indptr[j + 1]):
            i = indices[p]
            if i < high:
                top[i - low, j - low] = values[p]
            else:
                below[local[i], j - low] = values[p]


@compiled
def _extend_add(low, high, child_rows, local, update, top, below, rest):
    """Adds a child's update matrix (lower triangle) into the blocks of its parent."""
    count = child_rows.size
    inside = 0
    while inside < count and child_rows[inside] < high:
        inside += 1
    place = np.empty(count, np.int64)
    for k in range(inside):
        place[k] = child_rows[k] - low
    for k in range(inside, count):
        place[k] = local[child_rows[k]]
    for j in range(inside):
        c = place[j]
        for i in range(j, inside):
            top[place[i], c] += update[i, j]
        for i in range(inside, count):
            below[place[i], c] += update[i, j]
    for j in range(inside, count):
        c = place[j]
        for i in range(j, count):
            rest[place[i], c] += update[i, j]


@compiled
def _substitute(first, start, rows, offset, entries, x):
    """Solves L L' x = x in place: forward through the supernodes, then backward."""
    buffer = np.empty(np.max(start[1:] - start[:-1]))
    for k in range(first.size - 1):
        own = x[first[k] : first[k + 1]]
        below = rows[start[k] : start[k + 1]]
        _forward(entries[offset[k] : offset[k + 1]], own, buffer[: below.size])
        for i in range(below.size):
            x[below[i]] -= buffer[i]
    for k in range(first.size - 2, -1, -1):
        below = rows[start[k] : start[k + 1]]
        for i in range(below.size):
            buffer[i] = x[below[i]]
        own = x[first[k] : first[k + 1]]
        _backward(entries[offset[k] : offset[k + 1]], own, buffer[: below.size])


@compiled
def _forward(block, own, sums):
    """Solves L11 own = own in place and sets sums = L21 own; columns are contiguous."""
    width, height = own.size, sums.size
    sums[:] = 0.0
    for j in range(width):
        column = block[j * width + j : (j + 1) * width]
        value = own[j] / column[0]
        own[j] = value
        later = own[j:]
        for i in range(1, width - j):
            later[i] -= column[i] * value
        column = block[width * width + j * height : width * width + (j + 1) * height]
        for i in range(height):
            sums[i] += column[i] * value


@compiled(fastmath={"reassoc", "contract"})
def _backward(block, own, values):
    """Solves L11' own = own - L21' values in place."""
    width, height = own.size, values.size
    for j in range(width - 1, -1, -1):
        column = block[width * width + j * height : width * width + (j + 1) * height]
        total = 0.0
        for i in range(height):
            total += column[i] * values[i]
        column = block[j * width + j : (j + 1) * width]
        later = own[j:]
        for i in range(1, width - j):
            total += column[i] * later[i]
        own[j] = (own[j] - total) / column[0]


# The matrix K diag(w) K'.


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


# The sparse back end: nested dissection, supernodes, multifrontal Cholesky.

METIS_PAYS = 2e9  # below this many operations per factorisation METIS costs more than it saves
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
    def try_analyse(
        cls, K: Matrix, dense_share: float, groups: tuple[int, int] | None = None
    ) -> SparseBackend | None:
        """Returns the back end, or None if the factor fills more than `dense_share` of a triangle.

        `groups` are the numbers of flow rows and of rows of groups, if K has others than flow rows.
        """
        pattern = normal_pattern(K)
        triangle = 0.5 * K.shape[0] ** 2
        if pattern.nnz > dense_share * triangle:
            return None
        if groups is None:
            symbolic = best_analysis(pattern)
        else:
            symbolic = analyse(pattern, order_with_groups(pattern, *groups))
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
    """Returns the analysis of our own order, or of METIS's if it is installed and fills less."""
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
