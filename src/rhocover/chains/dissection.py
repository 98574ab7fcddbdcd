"""Nested dissection: in which order to eliminate the states of a chain.

A separator is a set of states without which the rest of the graph falls into parts; it is eliminated after
them, as one dense front. Parts are cut half-way between two far ends, all of them at once, until they are
small. Knows of a graph alone, not of probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph

from rhocover.chains.classes import depths
from rhocover.checks import BoolArray, IntArray, Matrix

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
