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
from scipy.sparse import csgraph

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.learning.path_steps import (
    MOST_POLICIES,
    guess,
    improve,
    iterate_densely,
    slopes,
    sweep_once,
)
from rhocover.learning.proper_policy import proper_policy

FEW = 128  # states that are eliminated densely
ENOUGH = 1e-4  # relative error of the steps at which sweeps end: certified, and finer than any estimate
ROUNDING = 1e-12  # relative: a smaller gain is no reason to change an action
ROUNDS = 12  # of sweeps, before they give way to factors
SMALL = 1e10  # multiplications that a factorisation may cost
SWEEPS = 20  # between two looks at the error; two of them over all pairs


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
        iterate_densely(*model, order, choice, steps, ROUNDING)
        return ShortestPaths(choice, steps, _attained(*model, steps, choice))
    guess(*model, order, steps)
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
    """Returns the error of the steps as they are."""
    greedy = choice.copy()
    least, _, most = slopes(indptr, successor, onward, arrival, first, steps, greedy)
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
        if not improve(*model, order, choice, steps, 1e3 * ROUNDING):
            return
