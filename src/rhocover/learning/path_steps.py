"""The steps to arrive, state by state: the compiled loops behind `shortest_paths`.

Pair i arrives with probability p_i (`arrival`) and otherwise goes on (`onward`, by rows from `indptr`, to
`successor`); the pairs of state s are first[s] to first[s + 1] - 1. The loops improve `steps` and the pairs
taken in place: a first guess outwards from the arrivals, sweeps, and policy iteration whose policies are
evaluated by elimination without subtraction. `slopes` measures what is left, g = V - Q V.

Knows nothing of when to stop, nor of which loop suits which model.
"""

from __future__ import annotations

import numpy as np

from rhocover.compiling import compiled

MOST_POLICIES = 100  # of policy iteration; ten is many


@compiled
def _value(indptr, successor, onward, arrival, i, s, steps):
    """Returns the steps from s by insisting on pair i until it leads elsewhere."""
    total, leaves = 1.0, arrival[i]
    for j in range(indptr[i], indptr[i + 1]):
        if successor[j] != s and onward[j] > 0:
            total += onward[j] * steps[successor[j]]
            leaves += onward[j]
    return total / leaves if leaves > 0 else np.inf


@compiled
def guess(indptr, successor, onward, arrival, first, order, steps):
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


@compiled
def sweep_once(indptr, successor, onward, arrival, first, order, steps, greedy, all_pairs):
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


@compiled
def slopes(indptr, successor, onward, arrival, first, steps, greedy):
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


@compiled
def improve(indptr, successor, onward, arrival, first, order, choice, steps, margin):
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


@compiled
def iterate_densely(indptr, successor, onward, arrival, first, order, choice, steps, margin):
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
        if not improve(indptr, successor, onward, arrival, first, order, choice, steps, margin):
            break


@compiled
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
