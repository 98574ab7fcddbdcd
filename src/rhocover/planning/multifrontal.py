"""Sparse Cholesky factorisation M = L L' by dense blocks (multifrontal, Duff and Reid 1983).

Supernodes are visited children first. Each gathers its part of M and the update matrices of its
children, factorises its own columns with dense LAPACK, and hands what is left to its parent:

    [L11        ]   columns of the supernode          U = - L21 L21'  (+ children's)  goes to the parent
    [L21  ...   ]   rows below them

Scatter loops are compiled; everything cubic is BLAS.
"""

from __future__ import annotations

import itertools

import numpy as np
from numba import njit
from scipy.linalg.blas import dgemv, dsyrk, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from rhocover.checks import FloatArray, IntArray
from rhocover.planning.factorisation import NotPositiveDefiniteError
from rhocover.planning.symbolic import Symbolic


class MultifrontalFactor:
    """The factor of one matrix; `indptr`, `indices` are its lower triangle by columns, in factor order."""

    def __init__(self, symbolic: Symbolic, indptr: IntArray, indices: IntArray, values: FloatArray) -> None:
        self._rows = np.split(symbolic.rows, symbolic.start[1:-1])
        self._spans = list(itertools.pairwise(symbolic.first.tolist()))
        self._blocks: list[tuple[FloatArray, FloatArray]] = []
        children = _children(symbolic.parent)
        local = np.empty(symbolic.order.size, np.int64)
        updates: dict[int, FloatArray] = {}
        for k, ((low, high), rows) in enumerate(zip(self._spans, self._rows, strict=True)):
            top, below, rest = _empty_blocks(high - low, rows.size)
            _gather(low, high, rows, indptr, indices, values, local, top, below)
            for child in children[k]:
                _extend_add(low, high, self._rows[child], local, updates.pop(child), top, below, rest)
            top, below = _eliminate(low, top, below)
            self._blocks.append((top, below))
            if rows.size:
                updates[k] = dsyrk(-1.0, below, beta=1.0, c=rest, lower=1, overwrite_c=1)

    def solve(self, right: FloatArray) -> FloatArray:
        """Returns M^-1 right for a vector, in factor order."""
        x = right.copy()
        for (low, high), rows, (top, below) in zip(self._spans, self._rows, self._blocks, strict=True):
            part = dtrsv(top, x[low:high], lower=1)
            x[low:high] = part
            if rows.size:
                x[rows] -= dgemv(1.0, below, part)
        for k in range(len(self._blocks) - 1, -1, -1):
            (low, high), rows, (top, below) = self._spans[k], self._rows[k], self._blocks[k]
            part = x[low:high]
            if rows.size:
                part = part - dgemv(1.0, below, x[rows], trans=1)
            x[low:high] = dtrsv(top, part, lower=1, trans=1)
        return x


def _children(parent: IntArray) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(parent.size)]
    for k, p in enumerate(parent.tolist()):
        if p >= 0:
            children[p].append(k)
    return children


def _empty_blocks(width: int, height: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (
        np.zeros((width, width), order="F"),
        np.zeros((height, width), order="F"),
        np.zeros((height, height), order="F"),
    )


def _eliminate(low: int, top: FloatArray, below: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns (L11, L21): the supernode's own columns of the factor."""
    top, info = dpotrf(top, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"pivot {low + info - 1} is not positive.")
    if below.size:
        below = dtrsm(1.0, top, below, side=1, lower=1, trans_a=1, overwrite_b=1)
    return top, below


@njit(cache=True)
def _gather(low, high, rows, indptr, indices, values, local, top, below):
    """Writes the columns [low, high) of M into the blocks; notes where each row lies in `local`."""
    for k in range(rows.size):
        local[rows[k]] = k
    for j in range(low, high):
        for p in range(indptr[j], indptr[j + 1]):
            i = indices[p]
            if i < high:
                top[i - low, j - low] = values[p]
            else:
                below[local[i], j - low] = values[p]


@njit(cache=True)
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
