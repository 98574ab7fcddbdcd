"""The structure of a sparse Cholesky factor, from the pattern of the matrix alone.

For a symmetric matrix in a fill-reducing order it computes the elimination tree (Liu 1990), its
postorder, the column counts of the factor (Gilbert, Ng and Peyton 1994), and a partition of the columns
into supernodes: runs of columns with (nearly) one row structure, so that the numbers can be
computed by dense kernels. Small subtrees become one supernode each: a few stored zeros cost less than
many tiny kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import IntArray, Matrix
from rhocover.compiling import compiled

SUBTREE_COLUMNS = 48  # a subtree with at most this many columns is one supernode
RELAXED_COLUMNS = 24  # a supernode this narrow may be merged with the one before it
RELAXED_ZEROS = 0.15  # ... if at most this share of the merged block is zeros


@dataclass(frozen=True, eq=False)
class Symbolic:
    """Supernode k holds columns [first[k], first[k+1]) and, below them, rows[start[k]:start[k+1]]."""

    order: IntArray  # order[k]: which row of the given matrix is the k-th of the factor
    indptr: IntArray  # the matrix's own lower triangle by columns, in that order
    indices: IntArray
    first: IntArray  # [supernodes + 1]
    start: IntArray  # [supernodes + 1]
    rows: IntArray  # sorted within each supernode
    parent: IntArray  # [supernodes], -1 for a root
    num_entries: int  # of the factor, stored zeros included

    @property
    def num_operations(self) -> float:
        """Multiplications and additions of one numeric factorisation."""
        width = np.diff(self.first).astype(float)
        height = np.diff(self.start).astype(float)
        return float(np.sum(width**3 / 3 + width**2 * height + width * height**2))


def analyse(pattern: Matrix, order: IntArray) -> Symbolic:
    """Returns the supernodal structure of the factor of a matrix with this symmetric CSR pattern."""
    parent = _elimination_tree(pattern.indptr, pattern.indices, order, inverse(order))
    post = _postorder(parent)
    order, parent = order[post], _relabelled(parent, post)
    indptr, indices = _lower_triangle(pattern.indptr, pattern.indices, order, inverse(order))
    counts = _column_counts(indptr, indices, parent)
    first = _supernodes(parent, counts, SUBTREE_COLUMNS, RELAXED_COLUMNS, RELAXED_ZEROS)
    start, rows, super_parent = _row_structure(indptr, indices, parent, counts, first)
    width, height = np.diff(first), np.diff(start)
    entries = int(np.sum(width * (width + 1) // 2 + width * height))
    return Symbolic(order, indptr, indices, first, start, rows, super_parent, entries)


def inverse(order: IntArray) -> IntArray:
    """Returns where each element stands in an order."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return place


def _relabelled(parent: IntArray, post: IntArray) -> IntArray:
    """Returns the same tree with its vertices numbered in postorder."""
    above = parent[post]
    return np.where(above < 0, -1, inverse(post)[above])


@compiled
def _lower_triangle(indptr, indices, order, place):
    """Returns (indptr, indices) of the permuted lower triangle by columns, rows sorted."""
    n = order.size
    start = np.zeros(n + 1, np.int64)
    for k in range(n):
        count = 0
        for p in range(indptr[order[k]], indptr[order[k] + 1]):
            if place[indices[p]] >= k:
                count += 1
        start[k + 1] = start[k] + count
    rows = np.empty(start[n], np.int64)
    for k in range(n):
        fill = start[k]
        for p in range(indptr[order[k]], indptr[order[k] + 1]):
            if place[indices[p]] >= k:
                rows[fill] = place[indices[p]]
                fill += 1
        rows[start[k] : fill].sort()
    return start, rows


@compiled
def _elimination_tree(indptr, indices, order, place):
    """Returns parent[j] = the first row below j in column j of the factor, -1 for roots."""
    n = order.size
    parent = np.full(n, -1, np.int64)
    ancestor = np.full(n, -1, np.int64)
    for k in range(n):
        for p in range(indptr[order[k]], indptr[order[k] + 1]):
            i = place[indices[p]]
            while i != -1 and i < k:  # climb, pointing every vertex passed at k
                above = ancestor[i]
                ancestor[i] = k
                if above == -1:
                    parent[i] = k
                i = above
    return parent


@compiled
def _postorder(parent):
    """Returns the vertices with every subtree contiguous and children before parents."""
    n = parent.size
    head = np.full(n + 1, -1, np.int64)
    following = np.full(n, -1, np.int64)
    for v in range(n - 1, -1, -1):
        p = parent[v] if parent[v] >= 0 else n
        following[v] = head[p]
        head[p] = v
    post = np.empty(n, np.int64)
    stack = np.empty(n + 1, np.int64)
    stack[0] = n
    top, k = 0, 0
    while top >= 0:
        v = stack[top]
        child = head[v]
        if child == -1:
            top -= 1
            if v < n:
                post[k] = v
                k += 1
        else:
            head[v] = following[child]
            top += 1
            stack[top] = child
    return post


@compiled
def _find(ancestor, v):
    root = v
    while ancestor[root] != root:
        root = ancestor[root]
    while ancestor[v] != root:
        ancestor[v], v = root, ancestor[v]
    return root


@compiled
def _column_counts(indptr, indices, parent):
    """Returns the number of entries in each column of the factor, the diagonal included.

    Row i of the factor is a subtree of the tree; column j gets a new entry for each row subtree of
    which it is a leaf, and loses one where two branches of the same row subtree meet.
    """
    n = parent.size
    first = np.full(n, -1, np.int64)  # first descendant in postorder
    delta = np.zeros(n, np.int64)
    for j in range(n):
        if first[j] == -1:
            delta[j] = 1
        k = j
        while k != -1 and first[k] == -1:
            first[k] = j
            k = parent[k]
    last_first = np.full(n, -1, np.int64)
    last_leaf = np.full(n, -1, np.int64)
    ancestor = np.arange(n)
    for j in range(n):
        if parent[j] != -1:
            delta[parent[j]] -= 1
        for p in range(indptr[j], indptr[j + 1]):
            i = indices[p]
            if i <= j or first[j] <= last_first[i]:
                continue
            last_first[i] = first[j]
            delta[j] += 1
            if last_leaf[i] != -1:
                delta[_find(ancestor, last_leaf[i])] -= 1
            last_leaf[i] = j
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for j in range(n):
        if parent[j] != -1:
            delta[parent[j]] += delta[j]
    return delta


@compiled
def _subtree_sizes(parent):
    size = np.ones(parent.size, np.int64)
    for j in range(parent.size):
        if parent[j] != -1:
            size[parent[j]] += size[j]
    return size


@compiled
def _run_end(j, parent, counts, size, subtree_columns):
    """Returns the last column of the supernode that begins at j, before any merging."""
    root = j
    while parent[root] != -1 and size[parent[root]] <= subtree_columns:
        root = parent[root]
    if size[root] <= subtree_columns:  # a whole small subtree
        return root
    while j + 1 < parent.size and parent[j] == j + 1 and counts[j] == counts[j + 1] + 1:
        j += 1  # a chain of columns with one structure
    return j


@compiled
def _supernodes(parent, counts, subtree_columns, relaxed_columns, relaxed_zeros):
    """Returns the first column of each supernode, and n at the end."""
    n = parent.size
    size = _subtree_sizes(parent)
    first = np.empty(n + 1, np.int64)
    zeros = np.zeros(n + 1)
    num, j = 0, 0
    while j < n:
        end = _run_end(j, parent, counts, size, subtree_columns)
        first[num], zeros[num] = j, 0.0
        num += 1
        # Merge with the supernode before, if it is a child of this one and few zeros are stored for it.
        while num > 1 and first[num - 1] <= parent[first[num - 1] - 1] <= end:
            low, here = first[num - 2], first[num - 1]
            width, height = end - low + 1, counts[end] - 1
            lost = (here - low) * (height + end - here + 2 - counts[here - 1])
            lost += zeros[num - 2] + zeros[num - 1]
            block = width * (width + 1) / 2 + width * height
            narrow = width <= relaxed_columns and lost <= 0.5 * block
            if not narrow and lost > relaxed_zeros * block:
                break
            num -= 1
            zeros[num - 1] = lost
        j = end + 1
    first[num] = n
    return first[: num + 1].copy()


@compiled
def _row_structure(indptr, indices, parent, counts, first):
    """Returns (start, rows, parent) of the supernodes; rows are the union over columns and children."""
    num = first.size - 1
    n = parent.size
    owner = np.empty(n, np.int64)
    for k in range(num):
        for j in range(first[k], first[k + 1]):
            owner[j] = k
    start = np.zeros(num + 1, np.int64)
    for k in range(num):
        start[k + 1] = start[k] + counts[first[k + 1] - 1] - 1
    rows = np.empty(start[num], np.int64)
    above = np.full(num, -1, np.int64)
    head = np.full(num, -1, np.int64)
    following = np.full(num, -1, np.int64)
    mark = np.full(n, -1, np.int64)
    for k in range(num):
        fill = start[k]
        last = first[k + 1] - 1
        fill = _add_rows(indices[indptr[first[k]] : indptr[last + 1]], last, k, mark, rows, fill)
        child = head[k]
        while child != -1:
            fill = _add_rows(rows[start[child] : start[child + 1]], last, k, mark, rows, fill)
            child = following[child]
        rows[start[k] : fill].sort()
        if fill > start[k]:
            above[k] = owner[rows[start[k]]]
            following[k] = head[above[k]]
            head[above[k]] = k
    return start, rows, above


@compiled
def _add_rows(found, last, k, mark, rows, fill):
    """Appends what was found below row `last` and is not yet marked as supernode k's; returns the new end."""
    for i in found:
        if i > last and mark[i] != k:
            mark[i] = k
            rows[fill] = i
            fill += 1
    return fill
