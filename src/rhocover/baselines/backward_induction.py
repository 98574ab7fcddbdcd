"""Backward induction on pooled counts: the compiled loops behind `episodic`.

With P_hat = N(s' | s,a)/N(s,a) of transitions added up over the steps, uniform where nothing was seen,

    Q_h(s,a) = min(cap_h, gain_h(s,a) + growth sum_s' P_hat(s' | s,a) max_b Q_{h+1}(s',b)),    Q_H = 0,

steps counted from 0. Among actions of equal value the one is played that was visited least, over all steps;
the papers do not say.

Knows nothing of runs: pairs, entries and states are numbers here.
"""

from __future__ import annotations

import numpy as np

from rhocover.compiling import compiled

TIE = 1e-12  # relative difference of values that rounding may make


@compiled
def pooled(moves, place, indptr, num_entries):
    """Returns P_hat per entry: transitions added up over steps, divided by each pair's own sum."""
    P = np.zeros(num_entries)
    for j in range(moves.size):
        if place[j] >= 0:
            P[place[j]] += moves[j]
    for i in range(indptr.size - 1):
        row = P[indptr[i] : indptr[i + 1]]
        total = row.sum()
        if total > 0:
            row /= total
    return P


@compiled
def backward_induction(first, indptr, indices, P, is_seen, gain, growth, cap, visits):
    """Returns (Q `[H, pairs]`, choice `[H, S]`) of the module's equation."""
    H, S = gain.shape[0], first.size - 1
    Q, choice, value = np.empty(gain.shape), np.empty((H, S), np.int64), np.zeros(S)
    for h in range(H - 1, -1, -1):
        anywhere = value.mean()
        for i in range(is_seen.size):
            ahead = 0.0
            for j in range(indptr[i], indptr[i + 1]):
                ahead += P[j] * value[indices[j]]
            Q[h, i] = min(cap[h], gain[h, i] + growth * (ahead if is_seen[i] else anywhere))
        for s in range(S):
            value[s] = Q[h, first[s] : first[s + 1]].max()
            choice[h, s] = _least_visited_best(Q[h], value[s], first[s], first[s + 1], visits)
    return Q, choice


@compiled
def _least_visited_best(Q, best, begin, end, visits):
    """Returns the least visited of the pairs whose value is the best but for rounding."""
    chosen = -1
    for i in range(begin, end):
        if Q[i] >= best - TIE * abs(best) and (chosen < 0 or visits[i] < visits[chosen]):
            chosen = i
    return chosen
