"""Compiled sweeps over the rows of a sparse matrix, one call for many of them.

Sums run over a row from its first entry to its last, and nothing is reassociated, so that the bits are those
of `reward + keep * (matrix @ h)` in SciPy and NumPy; what is saved is their temporaries and a Python call a
sweep. `first` is where the entries of each node begin; the entries of a node are one run.
"""

from __future__ import annotations

import numpy as np

from rhocover.compiling import compiled


@compiled
def best_entry(indptr, indices, data, begin, end, reward, keep, h):
    """Returns the largest of reward + keep (row @ h) over a run of entries, and the first that has it."""
    most, best = -np.inf, begin
    for i in range(begin, end):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * h[indices[p]]
        if reward[i] + keep * total > most:
            most, best = reward[i] + keep * total, i
    return most, best


@compiled
def best_values(indptr, indices, data, first, reward, keep, h, sweeps):
    """Returns h after so many sweeps h <- max over the entries of a node of reward + keep (row @ h)."""
    for _ in range(sweeps):
        after = np.empty_like(h)
        for s in range(first.size):
            last = first[s + 1] if s + 1 < first.size else reward.size
            after[s], _ = best_entry(indptr, indices, data, first[s], last, reward, keep, h)
        h = after
    return h


@compiled
def improved_values(indptr, indices, data, first, reward, keep, h, sweeps):
    """Returns h after one sweep over all entries and so many over those that were best in it.

    And by how much more the first sweep changed one node than another.
    """
    after, chosen = np.empty_like(h), np.empty(first.size, np.int64)
    low, high = np.inf, -np.inf
    for s in range(first.size):
        last = first[s + 1] if s + 1 < first.size else reward.size
        after[s], chosen[s] = best_entry(indptr, indices, data, first[s], last, reward, keep, h)
        low, high = min(low, after[s] - h[s]), max(high, after[s] - h[s])
    for _ in range(sweeps):
        h, after = after, np.empty_like(h)
        for s in range(first.size):
            total = 0.0
            for p in range(indptr[chosen[s]], indptr[chosen[s] + 1]):
                total += data[p] * h[indices[p]]
            after[s] = reward[chosen[s]] + keep * total
    return after, high - low


@compiled
def moved_visits(indptr, indices, data, inflow, keep, x, sweeps):
    """Returns x after so many sweeps x <- inflow + keep (x @ matrix), and how much moved in the last."""
    last = x
    for _ in range(sweeps):
        after = inflow.copy()
        for s in range(x.size):
            share = keep * x[s]
            for p in range(indptr[s], indptr[s + 1]):
                after[indices[p]] += share * data[p]
        last, x = x, after
    return x, np.abs(x - last).sum()
