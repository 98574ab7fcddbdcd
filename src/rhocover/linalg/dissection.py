"""Nested dissection: an order in which to eliminate the vertices of a symmetric graph.

A separator is a set of vertices without which the rest falls into parts. Eliminating the parts first and the
separator last, recursively (George 1973), fills in O(n log n) entries on planar-like graphs, where the
natural order fills O(n^1.5). Separators here are levels of a breadth-first search from a far vertex. On
grid-like models they fill no more than those of METIS, in a tenth of its time.

There are two users. They share the recursion and the separator step, but choose the level to cut differently:

- `nested_dissection` gives the planner's sparse Cholesky an order alone. Fill matters, so the cut is the
  smallest level that leaves each side a third, without the vertices that touch nothing above it. The
  factorisation finds blocks and their tree itself, so small parts are left as they are, connected or not.
- `dissect` gives the elimination of a chain its fronts. A front is dense and passes what it adds to its
  parent, so a part is always connected. The cut is the whole level at the median, which halves every part.

Both orders affect the last bits of plans and of stationary distributions. Only the graph is used, not the
numbers.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from rhocover.checks import IntArray, Matrix
from rhocover.compiling import compiled

# METIS is optional: on grid-like models our own order fills no more and takes a tenth of the time; on
# irregular graphs METIS (`pip install 'rhocover[fast]'`) finds better separators.


def metis_order(pattern: Matrix) -> IntArray:
    """Returns METIS's order; needs the optional package pymetis."""
    pymetis = importlib.import_module("pymetis")
    graph = _without_diagonal(pattern)
    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
    return np.asarray(pymetis.nested_dissection(adjacency)[0], dtype=np.int64)


def has_metis() -> bool:
    """Whether the optional METIS is installed."""
    return importlib.util.find_spec("pymetis") is not None


def _without_diagonal(pattern: Matrix) -> Matrix:
    coo = pattern.tocoo()
    keep = coo.row != coo.col
    ones = np.ones(int(keep.sum()), np.int8)
    return sp.csr_array((ones, (coo.row[keep], coo.col[keep])), shape=pattern.shape)


LEAF_SIZE = 64  # smaller parts are one dense block: there more steps cost more than arithmetic
LARGEST_SEPARATOR = 4000  # a front is then about 1 GiB at most; larger separators mean an expander
HUB_DEGREE = 20  # times the mean: such states (restarts) hide distances, so they are eliminated last


@dataclass(frozen=True)
class Fronts:
    """States in `order`; front f eliminates order[first[f]:first[f + 1]], and precedes what it divides."""

    order: IntArray
    first: list[int]
    parent: list[int]


def nested_dissection(pattern: Matrix) -> IntArray:
    """Returns the order of elimination: `order[k]` is the k-th vertex of the CSR `pattern`."""
    order = np.arange(pattern.shape[0])
    _dissect(pattern.indptr, pattern.indices, order, LEAF_SIZE, order.size, True)
    return order


SMALL_DEGREE = 64  # a group row with at most as many neighbours is eliminated first: it joins few others


def order_with_groups(pattern: Matrix, num_flow: int, num_groups: int) -> IntArray:
    """Returns the order for flow rows, then rows of groups, then a few that touch almost everything.

    Eliminating a small group first joins the states around it, which are mostly neighbours already; the rest
    is dissected as if the group had never been there. Rows of side conditions, and of groups as large as
    hubs, would make every vertex a neighbour of every other, so they come last.
    """
    degree, rows = np.diff(pattern.indptr), np.arange(pattern.shape[0])
    is_group = (rows >= num_flow) & (rows < num_flow + num_groups)
    is_last = (rows >= num_flow + num_groups) | (is_group & (degree > HUB_DEGREE * degree.mean()))
    is_first = is_group & (degree <= SMALL_DEGREE) & ~is_last
    first, last = np.flatnonzero(is_first), np.flatnonzero(is_last)
    middle = np.flatnonzero(~is_first & ~is_last)
    touched = pattern[middle][:, first]
    joined = sp.csr_array(pattern[middle][:, middle] + touched @ touched.T)
    joined.sort_indices()
    return np.concatenate([first, middle[nested_dissection(joined)], last])


def dissect(graph: Matrix, root: int) -> Fronts | None:
    """Returns the fronts of a chain with this symmetric graph, or None if a separator is too large.

    The root comes first, with the hubs. Then come the fronts level by level, the one whose part had the
    lowest state first.
    """
    hubs = _hubs(graph, root)
    order = np.setdiff1d(np.arange(graph.shape[0]), hubs)
    begin, end, parent, lowest, depth = _dissect(
        graph.indptr, graph.indices, order, LEAF_SIZE, LARGEST_SEPARATOR, False
    )
    if (begin.size and begin[-1] < 0) or hubs.size > LARGEST_SEPARATOR:
        return None
    by_level = np.lexsort((lowest, depth))
    number = np.append(np.argsort(by_level) + 1, 0)  # number[-1], of no parent, is the front of the hubs
    states = np.concatenate([hubs, *(order[begin[f] : end[f]] for f in by_level)])
    first = np.append(0, np.cumsum(np.append(hubs.size, (end - begin)[by_level])))
    return Fronts(states, first.tolist(), [-1, *number[parent[by_level]].tolist()])


def _hubs(graph: Matrix, root: int) -> IntArray:
    """Returns the root and the states with very many neighbours."""
    degree = np.diff(graph.indptr)
    hubs = np.flatnonzero(degree > HUB_DEGREE * degree.mean())
    return np.append(root, hubs[hubs != root])


@compiled
def _dissect(indptr, indices, order, leaf_size, largest, smallest):
    """Sorts `order` in place; returns its blocks: begin, end, parent, lowest vertex of the part, depth.

    Works on segments of `order`, each of them ascending. Vertices that are not in `order` are ignored.
    `smallest` selects the rule for cuts. The last begin is -1 if a separator is larger than `largest`.
    """
    n = indptr.size - 1
    label = np.zeros(n, np.int64)
    level = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    blocks = np.empty((5, order.size), np.int64)
    stack = [(0, order.size, -1, 0)]
    part, count = 0, 0
    while len(stack) > 0:
        low, high, owner, depth = stack.pop()
        if low == high:
            continue
        part += 1
        for k in range(low, high):
            label[order[k]] = part
        first, second, lowest = low, low, order[low]
        if not smallest or high - low > leaf_size:
            num_levels = _search(indptr, indices, order, low, high, label, part, level, queue, smallest)
            if num_levels == 0:  # not connected: the components one after the other
                least = leaf_size if smallest else 0
                for a, b in _components(indptr, indices, order, low, high, label, part, level, queue, least):
                    stack.append((a, b, owner, depth))
                continue
            if high - low > leaf_size and not (smallest and num_levels < 3):
                cut = _cut(order, low, high, level, num_levels, smallest)
                first, second = _three_way(
                    order, low, high, level, cut, indptr, indices, label, part, queue, smallest
                )
        blocks[0, count], blocks[1, count], blocks[2, count] = second, high, owner
        blocks[3, count], blocks[4, count] = lowest, depth
        if high - second > largest:
            blocks[0, count] = -1
            return blocks[:, : count + 1]
        stack.append((low, first, count, depth + 1))
        stack.append((first, second, count, depth + 1))
        count += 1
    return blocks[:, :count]


@compiled
def _search(indptr, indices, order, low, high, label, part, level, queue, smallest):
    """Fills `level` from a far vertex of a segment; returns how many levels, 0 if it is not connected.

    Three sweeps end at a vertex about as far away as any, for small levels. Two are enough for halves, where
    of the farthest vertices the highest is taken.
    """
    root, last = order[low], 0
    for _ in range(3 if smallest else 2):
        for k in range(low, high):
            level[order[k]] = -1
        reached = _levels(indptr, indices, root, label, part, level, queue)
        if reached < high - low:
            return 0
        root = queue[reached - 1]
        last = level[root]
        if not smallest:
            for k in range(reached):
                if level[queue[k]] == last:
                    root = max(root, queue[k])
    return last + 1


@compiled
def _components(indptr, indices, order, low, high, label, part, level, queue, least):
    """Sorts a segment by components, that of the lowest vertex first; returns where they begin and end.

    The last vertices, if at most `least`, are not separated further.
    """
    bounds = [(low, low)]
    found = np.empty(high - low, np.int64)
    for k in range(low, high):
        level[order[k]] = -1
    count = 0
    for k in range(low, high):
        if level[order[k]] < 0 and high - low - count > least:
            reached = _levels(indptr, indices, order[k], label, part, level, queue)
            found[count : count + reached] = np.sort(queue[:reached])
            bounds.append((low + count, low + count + reached))
            count += reached
    bounds.append((low + count, high))
    for k in range(low, high):
        if level[order[k]] < 0:
            found[count] = order[k]
            count += 1
    order[low:high] = found
    return bounds


@compiled
def _cut(order, low, high, level, num_levels, smallest):
    """Returns the level at which to cut a connected segment."""
    sizes = np.zeros(num_levels, np.int64)
    for k in range(low, high):
        sizes[level[order[k]]] += 1
    median = _median_level(sizes, high - low)
    if not smallest:
        return median
    best = _best_cut(sizes, high - low)
    return best if best >= 0 else min(max(median, 1), num_levels - 2)


@compiled
def _levels(indptr, indices, root, label, part, level, queue):
    """Fills `level` and `queue` by breadth-first search inside `part`; returns the number reached."""
    queue[0] = root
    level[root] = 0
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for p in range(indptr[v], indptr[v + 1]):
            w = indices[p]
            if label[w] == part and level[w] < 0:
                level[w] = level[v] + 1
                queue[tail] = w
                tail += 1
    return tail


@compiled
def _best_cut(sizes, total):
    """Returns the level that is smallest among those leaving each side at least a third of the rest."""
    best, best_size, below = -1, total + 1, 0
    for k in range(sizes.size):
        above = total - below - sizes[k]
        if min(below, above) * 3 >= total - sizes[k] and sizes[k] < best_size:
            best, best_size = k, sizes[k]
        below += sizes[k]
    return best


@compiled
def _median_level(sizes, total):
    below = 0
    for k in range(sizes.size):
        below += sizes[k]
        if 2 * below >= total:
            return k
    return sizes.size - 1


@compiled
def _three_way(order, low, high, level, cut, indptr, indices, label, part, queue, trim):
    """Orders a segment as below the cut, above it, separator; returns the two boundaries.

    With `trim` a vertex of the cut level with no neighbour above it belongs to the lower side.
    """
    for k in range(low, high):
        queue[k - low] = order[k]
    count = high - low
    side = np.empty(count, np.int8)
    sizes = np.zeros(3, np.int64)
    for k in range(count):
        v = queue[k]
        s = 0 if level[v] < cut else 1
        if level[v] == cut:
            s = 0 if trim else 2
            for p in range(indptr[v], indptr[v + 1]):
                w = indices[p]
                if label[w] == part and level[w] > cut:
                    s = 2
        side[k] = s
        sizes[s] += 1
    place = np.array([low, low + sizes[0], low + sizes[0] + sizes[1]])
    for k in range(count):
        order[place[side[k]]] = queue[k]
        place[side[k]] += 1
    return low + sizes[0], low + sizes[0] + sizes[1]
