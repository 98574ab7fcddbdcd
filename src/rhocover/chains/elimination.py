"""Elimination without subtraction (Grassmann, Taksar and Heyman 1985), front by front.

State k is taken out by F[i, j] += F[i, k] F[k, j] / out_k, out_k = sum_j F[k, j]. Front by front from the
last, the rates among the pivots and their border are assembled, the pivots are eliminated, and what they
add to the border is handed to the parent front. Then flow_k = sum_{i < k} flow_i F[i, k] / out_k, from the
root on. All numbers are non-negative, so only their range can fail, and that is told (`RangeError`).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.chains.dissection import Fronts
from rhocover.checks import FloatArray, IntArray, Matrix

PANEL = 64  # pivots whose effect on the rest of a front is one matrix product
TINY = 1e-303  # a sum of a thousand denormal roundings (5e-324) is 5e-18 of it


class RangeError(Exception):
    """The weight of `state` relative to the root has left float64."""

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self.state = state


def eliminate(jumps: Matrix, rate: FloatArray, fronts: Fronts) -> FloatArray:
    """Returns the stationary flow by elimination from the last front to the root and back."""
    jumps = sp.csr_array(jumps[fronts.order][:, fronts.order])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # `RangeError` tells
        columns, pivot = _factor(jumps, fronts)
        flow = _substitute(columns, fronts)
    _check_range(flow, pivot, rate[fronts.order], fronts)
    result = np.empty(flow.size)
    result[fronts.order] = flow
    return result


def _check_range(flow: FloatArray, pivot: FloatArray, rate: FloatArray, fronts: Fronts) -> None:
    """Refuses a flow in which underflow was magnified.

    A flow that underflows where the chain does not linger is 0 and right. Where it does linger (few
    leave: pivot or rate small) what came in may be denormal, or nothing, and what stays may not.
    """
    lingers = pivot * rate < 1e-10
    lost = ((flow * pivot < TINY) & lingers) | (pivot < TINY)
    if lost.any():
        raise RangeError(int(fronts.order[np.argmax(lost)]))


def _factor(jumps: Matrix, fronts: Fronts) -> tuple[list[tuple[IntArray, FloatArray]], FloatArray]:
    """Returns, per front, its border and the columns F[:, k] / out_k of its pivots; and all out_k."""
    arrivals = sp.csr_array(jumps.T)
    place = np.empty(jumps.shape[0], np.int64)
    pending: list[list[tuple[IntArray, FloatArray]]] = [[] for _ in fronts.parent]
    columns, pivot = [], np.ones(jumps.shape[0])
    for f in reversed(range(len(fronts.parent))):
        a, b = fronts.first[f], fronts.first[f + 1]
        border, F = _assemble(jumps, arrivals, a, b, pending[f], place)
        pending[f] = []
        pivot[a:b] = _censor(F, border.size)
        if not pivot[a:b].all():
            raise RangeError(int(fronts.order[a + int(np.argmin(pivot[a:b]))]))
        columns.append((border, F[:, border.size :] / pivot[a:b]))
        if f:
            pending[fronts.parent[f]].append((border, F[: border.size, : border.size].copy()))
    return columns[::-1], pivot


def _assemble(
    jumps: Matrix,
    arrivals: Matrix,
    a: int,
    b: int,
    updates: list[tuple[IntArray, FloatArray]],
    place: IntArray,
) -> tuple[IntArray, FloatArray]:
    """Returns the border of the pivots a..b-1 and the rates among border and pivots, in that order.

    The border is every state not yet eliminated (those below a) that the pivots, or what was eliminated
    below them, exchange with. `place` is scratch: a state's row in this front.
    """
    leads, comes = (m.indices[m.indptr[a] : m.indptr[b]] for m in (jumps, arrivals))
    known = [leads, comes, *(border for border, _ in updates)]
    border = np.unique(np.concatenate([states[states < a] for states in known]))
    size = border.size + b - a
    place[border], place[a:b] = np.arange(border.size), np.arange(border.size, size)
    F = np.zeros((size, size))
    for matrix, limit, target in ((jumps, b, F), (arrivals, a, F.T)):
        entries = slice(matrix.indptr[a], matrix.indptr[b])
        row = np.repeat(np.arange(border.size, size), np.diff(matrix.indptr[a : b + 1]))
        here = matrix.indices[entries] < limit
        target[row[here], place[matrix.indices[entries][here]]] = matrix.data[entries][here]
    for border_below, update in updates:
        F[np.ix_(place[border_below], place[border_below])] += update
    return border, F


def _censor(F: FloatArray, border: int) -> FloatArray:
    """Eliminates the states after `border` in place, last first; returns out_k, 0 where one was lost.

    Row k becomes F[k, :k] / out_k. Within a panel each row and column is brought up to date when its turn
    comes; the rest of the front is, once a panel. The diagonal holds rubbish that nothing reads.
    """
    out = np.ones(F.shape[0] - border)
    for high in range(F.shape[0], border, -PANEL):
        low = max(border, high - PANEL)
        for k in range(high - 1, max(low, 1) - 1, -1):
            F[k, :k] += F[k, k + 1 : high] @ F[k + 1 : high, :k]
            F[:k, k] += F[:k, k + 1 : high] @ F[k + 1 : high, k]
            out[k - border] = F[k, :k].sum()
            if out[k - border] == 0:
                return out
            F[k, :k] /= out[k - border]
        F[:low, :low] += F[:low, low:high] @ F[low:high, :low]
    return out


def _substitute(columns: list[tuple[IntArray, FloatArray]], fronts: Fronts) -> FloatArray:
    """Returns the flow in the fronts' order: flow_k = sum_{i < k} flow_i F[i, k] / out_k, root 1."""
    flow = np.zeros(fronts.order.size)
    flow[0] = 1.0
    for f, (border, column) in enumerate(columns):
        a, b = fronts.first[f], fronts.first[f + 1]
        flow[a:b] += flow[border] @ column[: border.size]
        inside = column[border.size :]
        for k in range(1, b - a):
            flow[a + k] += flow[a : a + k] @ inside[:k, k]
        lost = ~np.isfinite(flow[a:b])
        if lost.any():
            raise RangeError(int(fronts.order[a + int(np.argmax(lost))]))
    return flow
