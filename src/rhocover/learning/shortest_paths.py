"""Stochastic shortest paths: which actions arrive soonest, and after how many steps on average.

Pair i arrives with probability p_i and otherwise goes on to state s with probability Q[i, s] (row sums are 1
- p_i). The fewest expected steps solve (Bertsekas and Tsitsiklis 1991)

    V(s) = min_{i of s} 1 + sum_s' Q[i, s'] V(s'),

finite exactly where some policy arrives for sure. Those states, and a first policy that arrives, are found
on the graph (`proper_policy`); policy iteration begun there stays proper and ends at the optimum.

**Few states**: policy iteration, each policy evaluated by elimination without subtraction (as in
`chains.elimination`), so every entry is right to a few roundings, also where arriving takes 1e12 steps.
**Many states**: sweeps in the order of the steps, so that news travels outwards in one sweep; if these are
not enough, policy iteration with sparse factors. (Sweeps are slow where the chain mixes slowly, and there
small sets of states separate it, so factors are small; where factors would be huge, sweeps are quick.)

**Certificate.** Each step costs 1, so a residual is a relative error. Let g = V - Q V for the pairs that
attain the minimum, and 0 < a <= g <= b. Then V >= a + Q V for those pairs and V <= b + Q V for all, and by
iterating, a V_policy <= V <= b V*. Dividing V by the mean of g is also what makes sweeps fast where arriving
is rare everywhere.

Where nothing arrives for sure but something may, the policy heads for it on the graph; the steps are
infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numba import njit
from scipy.sparse import csgraph

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.learning.proper_policy import proper_policy

FEW = 128  # states that are eliminated densely
ENOUGH = 1e-4  # relative error of the steps at which sweeps end: certified, and finer than any estimate
ROUNDING = 1e-12  # relative: a smaller gain is no reason to change an action
ROUNDS = 12  # of sweeps, before they give way to factors
SMALL = 1e10  # multiplications that a factorisation may cost
SWEEPS = 20  # between two looks at the error; two of them over all pairs
MOST_POLICIES = 100  # of policy iteration; ten is many


@dataclass(frozen=True, eq=False)
class ShortestPaths:
    """The pair each state takes `[S]` (-1 where nothing can arrive) and the expected steps `[S]`."""

    choice: IntArray
    steps: FloatArray
    error: float  # relative: (1 - error) policy's steps <= steps <= (1 + error) fewest steps


def shortest_paths(
    onward: Matrix, arrival: FloatArray, first: IntArray, warm: IntArray | None = None
) -> ShortestPaths:
    """Returns the policy that arrives soonest.

    `onward` is Q `[n, S]` (csr), `arrival` p `[n]`; the pairs of state s are first[s] to first[s + 1] - 1.
    A state without pairs has arrived; a pair that leads nowhere is never taken. `warm` `[S]` is a choice of
    pairs (-1 for none) to begin with.
    """
    model = (onward.indptr.astype(np.int64), onward.indices.astype(np.int64), onward.data, arrival, first)
    warm = np.full(first.size - 1, -1, np.int64) if warm is None else warm
    choice, order, steps = proper_policy(*model, warm)
    if order.size <= FEW:
        _iterate_densely(*model, order, choice, steps, ROUNDING)
        return ShortestPaths(choice, steps, _attained(*model, steps, choice))
    _guess(*model, order, steps)
    error = _sweep(*model, order, choice, steps, ROUNDS)
    if error > _enough(steps) and _has_small_factors(onward[choice[order]][:, order]):
        _iterate_factorised(model, onward, order, choice, steps)
        error = _attained(*model, steps, choice)
    elif error > _enough(steps):
        error = _sweep(*model, order, choice, steps, 100 * ROUNDS)
    return ShortestPaths(choice, steps, error)


def _enough(steps: FloatArray) -> float:
    """Returns the error to stop at: residuals of V are known to a few roundings of V, not better."""
    return ENOUGH + 1e-14 * float(steps.max(initial=0.0, where=np.isfinite(steps)))


def _sweep(indptr, successor, onward, arrival, first, order, choice, steps, rounds) -> float:
    """Improves the steps by sweeps; returns their error; changes `choice` to match if that is proper.

    In turn: two sweeps over all pairs, many over the best ones alone.
    """
    model = (indptr, successor, onward, arrival, first)
    error, greedy = np.inf, choice.copy()
    for _ in range(rounds):
        for k in range(SWEEPS):
            _sweep_once(*model, order, steps, greedy, k < 2)
            order = np.ascontiguousarray(order[::-1])
        order = np.ascontiguousarray(order[np.argsort(steps[order], kind="stable")])
        least, mean, most = _slopes(*model, steps, greedy)
        if least > 0:
            steps /= mean
            choice[:] = greedy
        error = max(1 - least / mean, most / mean - 1) if least > 0 else np.inf
        if error <= _enough(steps):
            break
    return float(error)


def _attained(indptr, successor, onward, arrival, first, steps, choice) -> float:
    """Returns the error of the steps as they are."""
    greedy = choice.copy()
    least, _, most = _slopes(indptr, successor, onward, arrival, first, steps, greedy)
    return max(1 - least, most - 1, 0.0)


def _has_small_factors(chain: Matrix) -> bool:
    """Returns whether a banded order of the states, an upper bound, makes a factorisation cheap."""
    graph: Matrix = sp.csr_array(chain + chain.T)
    place = np.empty(graph.shape[0], np.int64)
    place[csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(place.size)
    rows = np.repeat(place, np.diff(graph.indptr))
    band = np.abs(rows - place[graph.indices]).max(initial=1)
    return place.size * float(band) ** 2 <= SMALL


def _iterate_factorised(
    model: tuple[Any, Any, Any, Any, Any],
    onward: Matrix,
    order: IntArray,
    choice: IntArray,
    steps: FloatArray,
) -> None:
    """Policy iteration from the proper `choice`; sparse factors evaluate."""
    for _ in range(MOST_POLICIES):
        chain = onward[choice[order]][:, order]
        factors = sla.splu(sp.csc_array(sp.eye_array(order.size) - chain))
        steps[order] = factors.solve(np.ones(order.size))
        if not _improve(*model, order, choice, steps, 1e3 * ROUNDING):
            return


@njit(cache=True)
def _value(indptr, successor, onward, arrival, i, s, steps):
    """Returns the steps from s by insisting on pair i until it leads elsewhere."""
    total, leaves = 1.0, arrival[i]
    for j in range(indptr[i], indptr[i + 1]):
        if successor[j] != s and onward[j] > 0:
            total += onward[j] * steps[successor[j]]
            leaves += onward[j]
    return total / leaves if leaves > 0 else np.inf


@njit(cache=True)
def _guess(indptr, successor, onward, arrival, first, order, steps):
    """Fills in steps, state by state away from the arrivals, as if the states not yet filled in led back."""
    steps[order] = np.inf
    for s in order:
        best = np.inf
        for i in range(first[s], first[s + 1]):
            total, leaves = 1.0, arrival[i]
            for j in range(indptr[i], indptr[i + 1]):
                if steps[successor[j]] < np.inf:
                    total += onward[j] * steps[successor[j]]
                    leaves += onward[j]
            if leaves > 0:
                best = min(best, total / leaves)
        steps[s] = best


@njit(cache=True)
def _sweep_once(indptr, successor, onward, arrival, first, order, steps, greedy, all_pairs):
    """Replaces the steps of each state in turn by the best that its pairs give, or its greedy pair."""
    for s in order:
        if all_pairs:
            best = np.inf
            for i in range(first[s], first[s + 1]):
                value = _value(indptr, successor, onward, arrival, i, s, steps)
                if value < best:
                    best = value
                    greedy[s] = i
            steps[s] = best
        else:
            steps[s] = _value(indptr, successor, onward, arrival, greedy[s], s, steps)


@njit(cache=True)
def _slopes(indptr, successor, onward, arrival, first, steps, greedy):
    """Returns the least, mean and largest g = V - Q V over the states, for the greedy pairs, kept."""
    least, total, count, most = np.inf, 0.0, 0, 0.0
    for s in range(first.size - 1):
        if steps[s] < np.inf and first[s] < first[s + 1]:
            slope = -np.inf
            for i in range(first[s], first[s + 1]):
                ahead, mass = 0.0, arrival[i]
                for j in range(indptr[i], indptr[i + 1]):
                    if onward[j] > 0:
                        ahead += onward[j] * steps[successor[j]]
                        mass += onward[j]
                if mass > 0 and steps[s] - ahead > slope:
                    slope = steps[s] - ahead
                    greedy[s] = i
            least = min(least, slope)
            most = max(most, slope)
            total += slope
            count += 1
    return (least, total / count, most) if count > 0 else (1.0, 1.0, 1.0)


@njit(cache=True)
def _improve(indptr, successor, onward, arrival, first, order, choice, steps, margin):
    """Changes choices for pairs that are better by the relative margin; returns whether any was."""
    changed = False
    for s in order:
        best = steps[s] * (1 - margin)
        for i in range(first[s], first[s + 1]):
            value = _value(indptr, successor, onward, arrival, i, s, steps)
            if value < best:
                best = value
                choice[s] = i
                changed = True
    return changed


@njit(cache=True)
def _iterate_densely(indptr, successor, onward, arrival, first, order, choice, steps, margin):
    """Policy iteration from the proper `choice`; elimination without subtraction evaluates."""
    place = np.full(steps.size, -1, np.int64)
    place[order] = np.arange(order.size)
    for _ in range(MOST_POLICIES):
        chain = np.zeros((order.size, order.size))
        arrives = np.empty(order.size)
        for k in range(order.size):
            i = choice[order[k]]
            arrives[k] = arrival[i]
            for j in range(indptr[i], indptr[i + 1]):
                if place[successor[j]] >= 0:
                    chain[k, place[successor[j]]] += onward[j]
                else:
                    arrives[k] += onward[j]  # a state without pairs has arrived
        steps[order] = _eliminate(chain, arrives)
        if not _improve(indptr, successor, onward, arrival, first, order, choice, steps, margin):
            break


@njit(cache=True)
def _eliminate(chain, arrives):
    """Returns the expected steps `[m]` to arrive; overwrites its arguments.

    State k hands its arrivals, its steps and its moves to those before it, in proportion to how it
    leaves; all numbers are non-negative, so no digits are lost.
    """
    m = arrives.size
    cost = np.ones(m)
    leaves = np.empty(m)
    for k in range(m - 1, -1, -1):
        leaves[k] = arrives[k] + chain[k, :k].sum()
        for i in range(k):
            if chain[i, k] > 0:
                share = chain[i, k] / leaves[k]
                chain[i, :k] += share * chain[k, :k]
                arrives[i] += share * arrives[k]
                cost[i] += share * cost[k]
    for k in range(m):
        cost[k] = (cost[k] + (chain[k, :k] * cost[:k]).sum()) / leaves[k]
    return cost
