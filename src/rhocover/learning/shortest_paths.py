"""Stochastic shortest paths: the policy that arrives in the fewest expected steps, and how many these are.

Pair i arrives with probability p_i and otherwise goes on to state s with probability Q[i, s] (its row sums to
1 - p_i). The fewest expected steps solve (Bertsekas and Tsitsiklis 1991)

    V(s) = min_{i of s} 1 + sum_s' Q[i, s'] V(s').

They are finite exactly where some policy arrives with probability 1 (a proper policy). These states, and a
first proper policy, are found on the graph (`proper_policy`); policy iteration that starts from a proper
policy stays proper and ends at the optimum. Where arriving is possible, but not with probability 1, the
policy goes towards an arrival on the graph and the steps are infinite.

**Few states**: policy iteration, where each policy is evaluated by elimination without subtraction (as in
`chains.stationary`), so every entry is accurate to a few roundings, even where arriving takes 1e12 steps.
**Many states**: sweeps in the order of the steps, so that one sweep carries a change from the arrivals
outwards; if these do not converge, policy iteration with sparse factors. (Sweeps are slow where the chain
mixes slowly; such a chain has small separators, so its factors are small. Where factors would be huge, sweeps
are fast.)

**Certificate.** Each step costs 1, so a residual is a relative error. Let g = V - Q V for the pairs that
attain the minimum, and 0 < a <= g <= b. Then V >= a + Q V for those pairs and V <= b + Q V for all, and by
iterating, a V_policy <= V <= b V*. Dividing V by the mean of g also makes sweeps fast where arriving is rare
everywhere.

**Proper policies on the graph.** Arriving is possible from a state if some path of pairs leads to an arrival
(p_i > 0). Some policy arrives with probability 1 if, in addition, its pairs never lead to a state from which
arriving is impossible. The algorithm searches backwards from the arrivals. It removes the states that were
not found, every pair that may lead to them, and every state whose last pair was removed; then it searches
again among the rest, until all are found. Each state takes the pair by which it was found, which is one step
nearer on the graph, so from everywhere the policy arrives with probability 1.

The compiled loops share one notation: `arrival` is p; `onward` holds the values of Q by rows, with `indptr`
and the columns `successor`; the pairs of state s are first[s] to first[s + 1] - 1. They update `steps` and
the chosen pairs in place; `shortest_paths` decides which of them to use and when to stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse import csgraph

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.compiling import compiled

# Compiled loops that improve `steps` and the chosen pairs in place.

MOST_POLICIES = 100  # of policy iteration; ten is many


@compiled
def _value(indptr, successor, onward, arrival, i, s, steps):
    """Returns the expected steps from s if pair i is repeated until it leaves s."""
    total, leaves = 1.0, arrival[i]
    for j in range(indptr[i], indptr[i + 1]):
        if successor[j] != s and onward[j] > 0:
            total += onward[j] * steps[successor[j]]
            leaves += onward[j]
    return total / leaves if leaves > 0 else np.inf


@compiled
def guess(indptr, successor, onward, arrival, first, order, steps):
    """Fills in first `steps`, outwards from the arrivals, as if states not yet filled in led back to s."""
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
    """Replaces the steps of each state in turn by those of its best pair, or of its greedy pair."""
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
    """Returns the least, mean and largest g = V - Q V over the states, and stores the greedy pairs."""
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
    """Changes a choice if another pair is better by the relative margin; returns whether any changed."""
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
    """Policy iteration from the proper `choice`; elimination without subtraction evaluates policies."""
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

    Eliminating state k adds its arrivals, steps and transitions to the states before it, in proportion to how
    often they move to k; all numbers are non-negative, so no digits are lost.
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


# Proper policies on the graph.

LIKELY = 0.5  # arrivals above this are searched from first; a pair with many visits has a tiny one


@compiled
def proper_policy(indptr, successor, onward, arrival, first, warm):
    """Returns a pair for each state, the states that arrive with probability 1, and 0 or infinite steps.

    The pairs are proper in those states, lead towards an arrival where one is possible, and are -1 elsewhere.
    """
    num_states, n = first.size - 1, arrival.size
    owner = np.empty(n, np.int64)
    for s in range(num_states):
        owner[first[s] : first[s + 1]] = s
    begin, ahead = _transpose(indptr, successor, onward, num_states)
    alive = np.ones(n, np.bool_)
    left = first[1:] - first[:-1]
    arrived = left == 0
    choice, order = _search(begin, ahead, owner, arrival, first, alive, arrived, warm)
    found = choice.copy()
    gone = np.zeros(num_states, np.bool_)
    while True:
        stack = [s for s in range(num_states) if found[s] < 0 and not arrived[s] and not gone[s]]
        if len(stack) == 0:
            break
        for s in stack:
            gone[s] = True
        while len(stack) > 0:
            s = stack.pop()
            alive[first[s] : first[s + 1]] = False
            for i in ahead[begin[s] : begin[s + 1]]:
                t = owner[i]
                if alive[i]:
                    alive[i] = False
                    left[t] -= 1
                    if left[t] == 0 and not gone[t]:
                        gone[t] = True
                        stack.append(int(t))
        found, order = _search(begin, ahead, owner, arrival, first, alive, arrived, warm)
    steps = np.zeros(num_states)
    for s in range(num_states):
        if gone[s]:
            steps[s] = np.inf
        elif not arrived[s]:
            choice[s] = found[s]
    return choice, order, steps


@compiled
def _transpose(indptr, successor, onward, num_states):
    """Returns which pairs may lead to each state s: ahead[begin[s]:begin[s + 1]]."""
    begin = np.zeros(num_states + 2, np.int64)
    for j in range(successor.size):
        if onward[j] > 0:
            begin[successor[j] + 2] += 1
    begin = np.cumsum(begin)
    ahead = np.empty(begin[-1], np.int64)
    for i in range(indptr.size - 1):
        for j in range(indptr[i], indptr[i + 1]):
            if onward[j] > 0:
                ahead[begin[successor[j] + 1]] = i
                begin[successor[j] + 1] += 1
    return begin[:-1], ahead


@compiled
def _search(begin, ahead, owner, arrival, first, alive, arrived, warm):
    """Returns a pair for each state that leads towards an arrival, or -1, and the states in order.

    The search goes backwards from the arrivals, breadth first: along the warm pairs alone, then along all
    remaining pairs from the likely arrivals, then from all arrivals.
    """
    num_states = first.size - 1
    choice = np.full(num_states, -1, np.int64)
    queue = [-1 for _ in range(0)]
    for s in range(num_states):
        i = warm[s]
        if i >= 0 and alive[i] and arrival[i] > 0:
            choice[s] = i
            queue.append(s)
        elif arrived[s]:
            queue.append(s)
    _spread(begin, ahead, owner, alive, arrived, choice, queue, warm, True)
    for least in (LIKELY, 0.0):
        _seed(arrival, first, alive, arrived, choice, queue, least)
        _spread(begin, ahead, owner, alive, arrived, choice, queue, warm, False)
    return choice, np.array([s for s in queue if not arrived[s]], dtype=np.int64)


@compiled
def _seed(arrival, first, alive, arrived, choice, queue, least):
    """Adds every state not yet found that has an arrival above `least`, with its most likely one."""
    for s in range(first.size - 1):
        if choice[s] < 0 and not arrived[s]:
            likeliest = least
            for i in range(first[s], first[s + 1]):
                if alive[i] and arrival[i] > likeliest:
                    likeliest = arrival[i]
                    choice[s] = i
            if choice[s] >= 0:
                queue.append(s)


@compiled
def _spread(begin, ahead, owner, alive, arrived, choice, queue, warm, only_warm):
    """Adds every state with a remaining pair into a state of the queue; the queue grows meanwhile."""
    place = 0
    while place < len(queue):
        s = queue[place]
        for i in ahead[begin[s] : begin[s + 1]]:
            t = owner[i]
            if alive[i] and choice[t] < 0 and not arrived[t] and (not only_warm or warm[t] == i):
                choice[t] = i
                queue.append(t)
        place += 1


# The solver.

FEW = 128  # up to this many states, policies are evaluated by dense elimination
ENOUGH = 1e-4  # certified relative error at which sweeps end: more accurate than any estimate
ROUNDING = 1e-12  # relative: a smaller gain is no reason to change an action
ROUNDS = 12  # of sweeps, before factors are used
SMALL = 1e10  # multiplications that a factorisation may cost
SWEEPS = 20  # per round, after which the error is computed; two of them are over all pairs


@dataclass(frozen=True, eq=False)
class ShortestPaths:
    """The pair each state takes `[S]` (-1 where nothing can arrive) and the expected steps `[S]`."""

    choice: IntArray
    steps: FloatArray
    error: float  # relative: (1 - error) policy's steps <= steps <= (1 + error) fewest steps


def shortest_paths(
    onward: Matrix, arrival: FloatArray, first: IntArray, warm: IntArray | None = None
) -> ShortestPaths:
    """Returns the policy that arrives in the fewest expected steps.

    `onward` is Q `[n, S]` (csr), `arrival` p `[n]`; the pairs of state s are first[s] to first[s + 1] - 1.
    A state without pairs has arrived; a pair that leads nowhere is never taken. `warm` `[S]` is a choice of
    pairs (-1 for none) to start from.
    """
    model = (onward.indptr.astype(np.int64), onward.indices.astype(np.int64), onward.data, arrival, first)
    warm = np.full(first.size - 1, -1, np.int64) if warm is None else warm
    choice, order, steps = proper_policy(*model, warm)
    if order.size <= FEW:
        iterate_densely(*model, order, choice, steps, ROUNDING)
        return ShortestPaths(choice, steps, _attained(*model, steps, choice))
    guess(*model, order, steps)
    error = _sweep(model, order, choice, steps, ROUNDS)
    if error > _enough(steps) and _has_small_factors(onward[choice[order]][:, order]):
        _iterate_factorised(model, onward, order, choice, steps)
        error = _attained(*model, steps, choice)
    elif error > _enough(steps):
        error = _sweep(model, order, choice, steps, 100 * ROUNDS)
    return ShortestPaths(choice, steps, error)


def _enough(steps: FloatArray) -> float:
    """Returns the error to stop at: residuals cannot be more accurate than a few roundings of V."""
    return ENOUGH + 1e-14 * float(steps.max(initial=0.0, where=np.isfinite(steps)))


def _sweep(model, order, choice, steps, rounds) -> float:
    """Improves the steps by sweeps and returns their error; updates `choice` if the greedy pairs are proper.

    Each round has two sweeps over all pairs and many over the best pairs alone.
    """
    error, greedy = np.inf, choice.copy()
    for _ in range(rounds):
        for k in range(SWEEPS):
            sweep_once(*model, order, steps, greedy, k < 2)
            order = np.ascontiguousarray(order[::-1])
        order = np.ascontiguousarray(order[np.argsort(steps[order], kind="stable")])
        least, mean, most = slopes(*model, steps, greedy)
        if least > 0:
            steps /= mean
            choice[:] = greedy
        error = max(1 - least / mean, most / mean - 1) if least > 0 else np.inf
        if error <= _enough(steps):
            break
    return float(error)


def _attained(indptr, successor, onward, arrival, first, steps, choice) -> float:
    """Returns the relative error of `steps`."""
    greedy = choice.copy()
    least, _, most = slopes(indptr, successor, onward, arrival, first, steps, greedy)
    return max(1 - least, most - 1, 0.0)


def _has_small_factors(chain: Matrix) -> bool:
    """Returns whether a factorisation is cheap, by the upper bound of a banded order of the states."""
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
    """Policy iteration from the proper `choice`; policies are evaluated with sparse factors."""
    for _ in range(MOST_POLICIES):
        chain = onward[choice[order]][:, order]
        factors = sla.splu(sp.csc_array(sp.eye_array(order.size) - chain))
        steps[order] = factors.solve(np.ones(order.size))
        if not improve(*model, order, choice, steps, 1e3 * ROUNDING):
            return
