"""The flow equations with a row for every set that is nearly closed.

Two parts of a model that exchange states once in 10^9 steps have potentials near 10^9 apart, and within
float64 nothing is left of what happens inside either; nor does the sum of d's flows through the states of
a part, each to 16 digits, say anything about the exchange. Both are matters of the basis. The flow of a
whole set C of states is the sum of its states' rows, and in that row everything that stays inside cancels:

    sum_{i in C} P(leaves C | i) d_i  -  sum_{i not in C} P(enters C | i) d_i  =  0,

small numbers, computed without subtraction. So the states are grouped into strongly connected parts by
moves of probability above 10^-3, those into parts by rarer moves, and so on, up to the whole. Each part
has its row, but for one part of each larger one, whose row the others' rows imply. A row's multiplier is the
potential of its part relative to the larger one. Without rare moves this is the flow matrix without its
last row. Under a discount near 1 the whole itself is nearly closed, and has a row, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.occupancy import Occupancies

RARE = 1e-3  # a move below this costs three of the sixteen digits: from here on it is worth a row
MAX_LEVELS = 12  # of parts within parts


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows K of an occupancy set, `[m, N]`, and what their multipliers say of each state.

    Row k is the flow of the states with `labels[level[k]] == part[k]`.
    """

    K: Matrix
    k0: FloatArray
    labels: list[IntArray]  # per level, from the whole to single states: the part of each state
    level: IntArray
    part: IntArray
    head: IntArray  # a state whose potential is the part's
    base: IntArray  # a state whose potential is the larger part's; -1 where there is none

    def potential(self, nu: FloatArray) -> FloatArray:
        """Returns the potential of each state, `[S]`, from the multipliers of the rows."""
        total = np.zeros(self.labels[0].size)
        for k, labels in enumerate(self.labels):
            here = self.level == k
            step = np.zeros(labels.max(initial=0) + 1)
            step[self.part[here]] = nu[here]
            total += step[labels]
        return total

    def multipliers(self, potential: FloatArray) -> FloatArray:
        """Returns the multipliers of the rows, `[m]`, from a potential of each state."""
        return potential[self.head] - np.where(self.base >= 0, potential[self.base], 0.0)


def flow_rows(members: Occupancies) -> Rows:
    """Returns the flow equations of a set, independent, with a row for every nearly closed part."""
    labels = _nested_parts(members)
    level, part, head, base = (np.concatenate(column) for column in zip(*_tree(members, labels), strict=True))
    blocks = [members.flow_of_parts(parts)[part[level == k]] for k, parts in enumerate(labels)]
    K = sp.csr_array(sp.vstack(blocks, format="csr"))
    inflow = [_summed(members.inflow, parts)[part[level == k]] for k, parts in enumerate(labels)]
    return Rows(K, np.concatenate(inflow), labels, level, part, head, base)


def _summed(values: FloatArray, part: IntArray) -> FloatArray:
    return np.bincount(part, values, int(part.max(initial=0)) + 1).astype(np.float64, copy=False)


def _nested_parts(members: Occupancies) -> list[IntArray]:
    """Returns partitions of the states from the whole to single states, each within the one before."""
    num_states = members.flow.shape[0]
    whole, single = np.zeros(num_states, np.int64), np.arange(num_states)
    if members.criterion == "horizon" or num_states == 0:
        return [single]
    moves = _moves(members)
    found = [whole]
    for threshold in _thresholds(moves.data):
        labels = _strong_parts(moves, threshold)
        if labels.max() > found[-1].max():
            found.append(labels)
    if found[-1].max() + 1 < num_states:
        found.append(single)
    is_open = members.discount is not None and members.discount <= 1 - RARE
    return found[1:] if is_open and len(found) == 2 else found


def _moves(members: Occupancies) -> Matrix:
    """Returns the largest probability of each move between two states, over actions, `[S, S]`."""
    flow = members.flow.tocoo()
    state = members.mdp.pair_state[flow.col]
    away = (flow.row != state) & (flow.data < 0)
    source, target, size = state[away], flow.row[away], -flow.data[away]
    order = np.lexsort((size, target, source))
    source, target, size = source[order], target[order], size[order]
    last = np.append((np.diff(source) != 0) | (np.diff(target) != 0), True)[: size.size]
    shape = (flow.shape[0], flow.shape[0])
    return sp.csr_array((size[last], (source[last], target[last])), shape=shape)


def _strong_parts(moves: Matrix, threshold: float) -> IntArray:
    """Returns the strongly connected part of each state, by the moves more likely than `threshold`."""
    often = moves.data > threshold
    source = np.repeat(np.arange(moves.shape[0]), np.diff(moves.indptr))[often]
    graph = sp.csr_array((moves.data[often], (source, moves.indices[often])), shape=moves.shape)
    return connected_components(graph, connection="strong")[1].astype(np.int64)


def _thresholds(sizes: FloatArray) -> list[float]:
    """Returns at which probabilities to cut, rarest first: each decade below RARE that has moves."""
    rare = sizes[sizes <= RARE]
    decades = np.unique(np.ceil(np.log10(rare)))
    if decades.size > MAX_LEVELS:
        decades = decades[np.linspace(0, decades.size - 1, MAX_LEVELS).astype(int)]
    return [float(10.0**decade) for decade in decades]


def _tree(
    members: Occupancies, labels: list[IntArray]
) -> list[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Returns, per level, (level, part, head, base) of its rows: all parts but one of each larger part.

    The part without a row is the largest; among equals the one with the last state. Its head is that of the
    larger part, so that the potential of the larger part is a state's own.
    """
    heads = _heads(labels)
    rows = []
    for k, parts in enumerate(labels):
        count = parts.max(initial=0) + 1
        if k == 0:
            part = np.arange(count) if members.criterion != "average" else np.zeros(0, np.int64)
            base = np.full(part.size, -1)
        else:
            above = np.zeros(count, np.int64)
            above[parts] = labels[k - 1]
            base = heads[k - 1][above]
            part = np.flatnonzero(heads[k] != base)
            base = base[part]
        rows.append((np.full(part.size, k), part, heads[k][part], base))
    return rows


def _heads(labels: list[IntArray]) -> list[IntArray]:
    """Returns the head of each part, per level: within a part, the head of its largest part."""
    heads = [labels[-1]] if labels[-1].max(initial=0) + 1 == labels[-1].size else [_last(labels[-1])]
    for k in range(len(labels) - 2, -1, -1):
        size = np.bincount(labels[k + 1])
        above = labels[k][heads[-1]]  # the larger part of each part below, by its head
        order = np.lexsort((_last(labels[k + 1]), size, above))
        last = np.append(np.diff(above[order]) != 0, True)
        heads.append(heads[-1][order[last]])
    return heads[::-1]


def _last(labels: IntArray) -> IntArray:
    """Returns the last state of each part."""
    last = np.zeros(labels.max(initial=0) + 1, np.int64)
    np.maximum.at(last, labels, np.arange(labels.size))
    return last
