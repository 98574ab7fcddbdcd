"""A fill-reducing order of a sparse symmetric matrix, by nested dissection.

Take a graph apart by a small set of vertices whose removal leaves two halves, number the halves first
and the separator last, and go on with the halves (George 1973). Eliminating in that order fills in
O(n log n) entries on planar-like graphs, where the natural order fills O(n^1.5).

Separators here are levels of a breadth-first search from a far vertex: among the levels that leave each
side a third, the smallest. On grid-like models this fills no more than METIS and takes a tenth of
its time; on irregular graphs METIS (optional, `pip install 'rhocover[fast]'`) finds better ones.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from rhocover.checks import BoolArray, IntArray, Matrix
from rhocover.compiling import compiled

LEAF_SIZE = 64  # parts this small are one dense block of the factor anyway


def nested_dissection(pattern: Matrix) -> IntArray:
    """Returns the order in which to eliminate: `order[k]` is the k-th vertex of the CSR `pattern`."""
    return _dissect(pattern.indptr, pattern.indices, LEAF_SIZE)


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
def _dissect(indptr, indices, leaf_size):
    """Returns the nested-dissection order; works in place on segments [low, high) of `order`."""
    n = indptr.size - 1
    order = np.arange(n)
    label = np.zeros(n, np.int64)
    level = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    stack = [(0, n)]
    part = 0
    while len(stack) > 0:
        low, high = stack.pop()
        part += 1
        for k in range(low, high):
            label[order[k]] = part
        if high - low <= leaf_size:
            continue
        reached = 0
        root = order[low]
        for _ in range(3):  # three sweeps end at a vertex about as far away as any
            for k in range(low, high):
                level[order[k]] = -1
            reached = _levels(indptr, indices, root, label, part, level, queue)
            root = queue[reached - 1]
        if reached < high - low:  # not connected: the component first, the rest after it
            middle = _split(order, low, high, level, queue)
            stack.append((low, middle))
            stack.append((middle, high))
            continue
        depth = level[queue[reached - 1]] + 1
        if depth < 3:
            continue
        sizes = np.zeros(depth, np.int64)
        for k in range(low, high):
            sizes[level[order[k]]] += 1
        cut = _best_cut(sizes, reached)
        if cut < 0:
            cut = min(max(_median_level(sizes, reached), 1), depth - 2)
        first, second = _three_way(order, low, high, level, cut, indptr, indices, label, part, queue)
        stack.append((low, first))
        stack.append((first, second))
    return order


@compiled
def _split(order, low, high, level, queue):
    """Moves the reached vertices of a segment to its front; returns where they end."""
    front, back = low, 0
    for k in range(low, high):
        v = order[k]
        if level[v] >= 0:
            order[front] = v
            front += 1
        else:
            queue[back] = v
            back += 1
    for k in range(back):
        order[front + k] = queue[k]
    return front


@compiled
def _three_way(order, low, high, level, cut, indptr, indices, label, part, queue):
    """Orders a segment as below the cut, above it, separator; returns the two boundaries.

    A vertex of the cut level with no neighbour above it belongs to the lower side.
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
            s = 0
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


# Nested dissection: in which order to eliminate the states of a chain.
#
# A separator is a set of states without which the rest of the graph falls into parts; it is eliminated
# after them, as one dense front. Parts are cut half-way between two far ends, all of them at once, until
# they are small. Knows of a graph alone, not of probabilities.

LEAF_STATES = 64  # parts this small are one dense front: below it Python costs more than arithmetic
LARGEST_SEPARATOR = 4000  # a front is then about 1 GiB at most; larger separators mean an expander
HUB_DEGREE = 20  # times the mean: such states (restarts) hide distances, so they are eliminated last


@dataclass(frozen=True)
class Fronts:
    """States in `order`; front f eliminates order[first[f]:first[f + 1]], and precedes what it divides."""

    order: IntArray
    first: list[int]
    parent: list[int]


def dissect(graph: Matrix, root: int) -> Fronts | None:
    """Returns a nested dissection of a symmetric graph, or None if a separator is too large.

    The root comes first, with the hubs. Then all parts are cut at once, again and again; `owner` is the
    front that cut a state's part off.
    """
    pieces = [_hubs(graph, root)]
    sizes, parents = [np.array([pieces[0].size])], [np.array([-1])]
    states = np.setdiff1d(np.arange(graph.shape[0]), pieces[0])
    graph, owner, num_fronts = graph[states][:, states], np.zeros(states.size, np.int64), 1
    while sizes[-1].max() <= LARGEST_SEPARATOR:
        if not states.size:
            return _joined(pieces, sizes, parents)
        count, part = csgraph.connected_components(graph, directed=False)
        cut, keep = _cut(graph, part)
        pieces.append(states[cut])
        sizes.append(np.bincount(part[cut]))
        parents.append(owner[cut[np.cumsum(sizes[-1]) - 1]])
        states, graph, owner = states[keep], graph[keep][:, keep], num_fronts + part[keep]
        num_fronts += count
    return None


def _joined(pieces: list[IntArray], sizes: list[IntArray], parents: list[IntArray]) -> Fronts:
    """Returns the fronts, given level by level as their states, their sizes and their parents."""
    first = np.append(0, np.cumsum(np.concatenate(sizes)))
    return Fronts(np.concatenate(pieces), first.tolist(), np.concatenate(parents).tolist())


def _hubs(graph: Matrix, root: int) -> IntArray:
    """Returns the root and the states with very many neighbours."""
    degree = np.diff(graph.indptr)
    hubs = np.flatnonzero(degree > HUB_DEGREE * degree.mean())
    return np.append(root, hubs[hubs != root])


def _cut(graph: Matrix, part: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the states of the separators, part by part, and the states that stay."""
    is_cut = _separators(graph, part)
    cut = np.flatnonzero(is_cut)
    return cut[np.argsort(part[cut], kind="stable")], np.flatnonzero(~is_cut)


def _separators(graph: Matrix, part: IntArray) -> BoolArray:
    """Returns which states to take out: of each part a level half-way from its far end, or all if small."""
    size = np.bincount(part)
    some = np.unique(part, return_index=True)[1]
    by_depth = np.lexsort((depths(graph, some), part))
    depth = depths(graph, by_depth[np.cumsum(size) - 1])
    middle = np.lexsort((depth, part))[np.cumsum(size) - 1 - size // 2]
    return (depth == depth[middle][part]) | (size <= LEAF_STATES)[part]


def depths(graph: Matrix, roots: IntArray) -> IntArray:
    """Returns how many steps each state is from the nearest root, shape `[S]`; -1 out of reach.

    A state S that leads to every root makes it one search; its tree is then walked by pointer doubling.
    """
    num_states = graph.shape[0]
    indices = np.concatenate([graph.indices, roots.astype(graph.indices.dtype)])
    indptr = np.append(graph.indptr, indices.size)
    rooted = sp.csr_array((np.ones(indices.size), indices, indptr), shape=(num_states + 1, num_states + 1))
    _, before = csgraph.breadth_first_order(rooted, num_states)
    jump = np.where(before < 0, num_states, before)
    depth = (np.arange(num_states + 1) != num_states).astype(np.int64)
    while (jump != num_states).any():
        depth, jump = depth + depth[jump], jump[jump]
    return np.where(before < 0, -1, depth - 1)[:num_states]
