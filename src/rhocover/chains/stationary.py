"""Stationary distributions: pi = pi P on the one recurrent class, each entry with a small relative error.

The chain's own time scale is divided out first: F is the chain of jumps between distinct states, and pi_s
is proportional to flow_s / (probability of leaving s). The flow is found by elimination along separators;
by logarithms where its range leaves float64; by sweeps where there are no small separators. However it was
found, it is accepted only if the inflow of every state equals its outflow.

**Elimination without subtraction** (Grassmann, Taksar and Heyman 1985), front by front. State k is removed by
F[i, j] += F[i, k] F[k, j] / out_k, out_k = sum_j F[k, j]. Front by front from the last, the rates among the
pivots and their border are assembled, the pivots are eliminated, and what they add to the border is passed to
the parent front. Then flow_k = sum_{i < k} flow_i F[i, k] / out_k, from the root on. All numbers are
non-negative, so only their range can be a problem, and that is detected (`RangeError`).

**Elimination on logarithms**, for chains whose flows differ by more than the range of float64: the same
formulas, dense and state by state, with products as sums and sums as logaddexp2.

**Sweeps**, for chains without small separators: the flow by iteration. Such chains (large random graphs) mix
fast. That several starts agree is evidence, not proof; if a chain mixes too slowly, an error is raised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.chains.classes import read_chain, recurrent_part, row_of
from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.compiling import compiled
from rhocover.errors import SolverError
from rhocover.linalg.dissection import Fronts, dissect

# Elimination without subtraction.

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

    A flow that underflows in states that the chain leaves quickly is correctly 0. In states that it rarely
    leaves (pivot or rate small) the inflow may be denormal or 0 although the mass is not.
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
    below them, exchange with. `place` is scratch memory: a state's row in this front.
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

    Row k becomes F[k, :k] / out_k. Within a panel each row and column is updated when its turn comes; the
    rest of the front is updated once per panel. The diagonal holds numbers that are never read.
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


# Elimination on logarithms.


def log_flow(jumps: Matrix) -> tuple[FloatArray, IntArray]:
    """Returns the flow by the same elimination on logarithms: any range, 1e-12 of accuracy, slowly."""
    with np.errstate(divide="ignore"):
        F = np.log2(jumps.toarray())
    pivot = np.zeros(F.shape[0])
    for k in range(F.shape[0] - 1, 0, -1):
        pivot[k] = np.logaddexp2.reduce(F[k, :k])
        F[:k, :k] = np.logaddexp2(F[:k, :k], F[:k, k, None] + (F[k, :k] - pivot[k]))
    flow = np.zeros(F.shape[0])
    for k in range(1, F.shape[0]):
        flow[k] = np.logaddexp2.reduce(flow[:k] + F[:k, k]) - pivot[k]
    exponent = np.ceil(flow - flow.max()).astype(np.int64)
    return np.exp2(flow - flow.max() - exponent), exponent


# Sweeps.

MAX_SWEEPS = 5000
SWEEP_AGREEMENT = 1e-13  # a few hundred roundings; starts cannot agree more closely


def swept_flow(jumps: Matrix) -> FloatArray:
    """Returns the flow by iterating from three starts, even and all in one state, until they agree."""
    arrivals = sp.csr_array(jumps.T)
    flow = np.zeros((jumps.shape[0], 3))
    flow[:, 0] = 1 / jumps.shape[0]
    flow[0, 1] = flow[-1, 2] = 1.0
    for _ in range(MAX_SWEEPS // 10):
        for _ in range(10):
            flow = (flow + arrivals @ flow) / 2  # the halves keep periodic chains from oscillating
        flow /= flow.sum(axis=0)
        if (np.ptp(flow, axis=1) <= SWEEP_AGREEMENT * flow[:, 0]).all():
            return flow[:, 0]
    raise SolverError(
        f"the chain of {jumps.shape[0]} states has no small separators to eliminate along, and after "
        f"{MAX_SWEEPS} sweeps from different starts {np.ptp(flow, axis=1).sum():.2g} of the flow is still "
        "undecided. It mixes too slowly for iteration: merge or remove states first."
    )


# Stationary distributions.

LOG_STATES = 500  # up to this many states logarithms take about a second
MAX_RESTARTS = 8
BALANCE_TOLERANCE = 1e-10  # elimination leaves 1e-15 to 1e-13; anything near 1e-10 is a failure


def stationary_distribution(chain: Any) -> FloatArray:
    """Returns the stationary distribution of a chain with one recurrent class, shape `[S]`.

    The transitions to other states are taken as given, and the probability to stay is 1 minus their sum.
    Transient states get 0; periodic chains and weak couplings are allowed. Nothing is subtracted, so each
    entry has a relative error of about 1e-14, down to 1e-308, where the range of float64 ends.

    Two cases are less accurate. If parts are coupled by less than 1e-303, logarithms are used (1e-12) up to
    500 states, and `SolverError` is raised above. If no 4,000 states or fewer separate the chain (large
    random graphs, not grids), it is iterated from three starts until all agree to 1e-13 in every entry, which
    is evidence but not a proof; if it mixes too slowly for that, `SolverError` is raised.
    """
    rows = read_chain(chain)
    states, part = recurrent_part(rows)
    result = np.zeros(rows.shape[0])
    result[states] = irreducible_distribution(part)
    return result


def irreducible_distribution(part: Matrix) -> FloatArray:
    """Returns the stationary distribution of an irreducible chain."""
    if part.shape[0] == 1:
        return np.ones(1)
    jumps, rate = _jump_chain(part)
    digits, exponent = _flow(jumps, rate)
    _check_balance(jumps, np.ldexp(digits, exponent - exponent[digits > 0].max()))
    rate_digits, rate_exponent = np.frexp(rate)  # flow / rate may leave float64 before it is normalised
    exponent = exponent - rate_exponent
    weight = np.ldexp(digits / rate_digits, exponent - exponent[digits > 0].max())
    return weight / weight.sum()


def _jump_chain(part: Matrix) -> tuple[Matrix, FloatArray]:
    """Returns the chain seen only when the state changes, and the probability of changing, `[S]`."""
    row = row_of(part)
    moves = part.indices != row
    row, column, data = row[moves], part.indices[moves], part.data[moves]
    rate = np.bincount(row, data, part.shape[0]).astype(np.float64, copy=False)
    return sp.csr_array((data / rate[row], (row, column)), shape=part.shape), rate


def _check_balance(jumps: Matrix, flow: FloatArray) -> None:
    """Refuses a flow whose inflow and outflow differ in some state, relative to its size."""
    error = np.abs(jumps.T @ flow - flow)
    allowed = BALANCE_TOLERANCE * flow + TINY
    if not (np.isfinite(flow).all() and (flow >= 0).all() and (error <= allowed).all()):
        raise SolverError(
            f"the stationary distribution was not found: the flow through {int((~(error <= allowed)).sum())} "
            f"of {flow.size} states is off by more than {BALANCE_TOLERANCE:g} of itself."
        )


def _flow(jumps: Matrix, rate: FloatArray) -> tuple[FloatArray, IntArray]:
    """Returns the stationary flow of a chain of jumps, up to a factor, as digits and exponents of 2.

    The root, eliminated last, is the unit of the flow. If a state outweighs it by more than the range of
    float64, the elimination detects it; that state is the next root, or logarithms are used.
    """
    graph = sp.csr_array(jumps + jumps.T)
    root = int(np.argmax(np.diff(graph.indptr)))
    for _ in range(MAX_RESTARTS):
        fronts = dissect(graph, root)
        if fronts is None:
            return np.frexp(swept_flow(jumps))
        try:
            return np.frexp(eliminate(jumps, rate, fronts))
        except RangeError as error:
            root = error.state
            if rate.size <= LOG_STATES:
                return log_flow(jumps)
    raise SolverError(
        "parts of the chain are coupled by less than 1e-303: float64 cannot hold their relative "
        "weights. Set such probabilities to 0 and treat the classes one by one."
    )


# The mass of each state at each step, where every transition leads to the next step: one sweep.


def layered_masses(flow: Any, inflow: FloatArray, node: IntArray, policy: FloatArray) -> FloatArray:
    """Returns the masses m with m = inflow + what flows in, `[rows]`, of rows that are ordered by step.

    `flow` is the flow matrix `[rows, entries]`, `node` the row that an entry leaves from and `policy` its
    probability there. A Python loop over a million steps would take minutes.
    """
    return _swept(flow.indptr, flow.indices, flow.data, inflow, node, policy)


@compiled
def _swept(
    begins: IntArray, columns: IntArray, values: FloatArray, inflow: FloatArray, node: IntArray,
    policy: FloatArray,
) -> FloatArray:  # fmt: skip
    mass = np.empty(inflow.size)
    for row in range(inflow.size):
        leaving = 0.0
        for k in range(begins[row], begins[row + 1]):
            entry = columns[k]
            if node[entry] != row:  # its own entries leave, all others come from the step before
                leaving += values[k] * (mass[node[entry]] * policy[entry])
        mass[row] = inflow[row] - leaving
    return mass
