"""The rows of a confidence set that are worst for given values: the compiled loops behind `confidence`.

A row p is in a ball around its empirical one, KL(p_hat, p) <= epsilon, and has its entries in intervals.
Of each of the two sets the largest p.v, and a row that attains it:

- ball. By Jensen's inequality every p in it and every x >= 0 have, with top = max v,
  p.v <= top + x - exp(sum_j p_hat_j log(top + x - v_j) - epsilon). The best x is found by bisection, and any
  x gives a bound (Honda and Takemura 2010; Filippi et al. 2010 use it for planning);
- intervals: lower bounds first, the rest to the best entries up to their upper bounds. States are sorted
  once; a row looks at its own successors and at the best others until its mass is given out.

Of a row with two entries the ball is an interval, kl(p_hat, p) <= level, and bisection finds its ends.

Knows nothing of how large the sets have to be.
"""

from __future__ import annotations

import numpy as np

from rhocover.compiling import compiled

EITHER, INTERVAL, BALL = 0, 1, 2  # which of its two sets a row uses
HALVINGS = 64  # of a bracket; what is left of it is given to the larger set


@compiled
def interval_ends(shares, levels):
    """Returns the ends of {q: kl(p, q) <= level}, each rounded outwards."""
    lower, upper = np.empty(shares.size), np.empty(shares.size)
    for i in range(shares.size):
        p, level = shares[i], levels[i]
        if p == 0.0 or p == 1.0 or level == np.inf:
            reach = np.exp(-level)
            lower[i] = reach if p == 1.0 else 0.0
            upper[i] = 1.0 if p == 1.0 else -np.expm1(-level)
        else:
            lower[i] = _end(p, level, 0.0)
            upper[i] = _end(p, level, 1.0)
    return lower, upper


@compiled
def _end(p, level, outer):
    """Returns a q between p and `outer` where kl(p, q) passes the level, or next beyond."""
    inner = p
    for _ in range(HALVINGS):
        q = 0.5 * (inner + outer)
        inside = -p * np.log1p((q - p) / p) - (1 - p) * np.log1p((p - q) / (1 - p)) <= level
        inner, outer = (q, outer) if inside else (inner, q)
    return outer


@compiled
def solve_rows(indptr, indices, shares, ball, lower, upper, unseen, values, order, form, keep_rows):
    """Returns highest values and chosen forms `[n]`, and their rows as (indptr, columns, data)."""
    n, S = ball.size, values.size
    highest, chosen, ends = np.empty(n), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    columns, data = np.empty(indices.size + 2 * n, np.int64), np.empty(indices.size + 2 * n)
    place = np.full(S, -1, np.int64)
    found_columns, found = np.empty((2, S), np.int64), np.empty((2, S))
    for i in range(n):
        a, b = indptr[i], indptr[i + 1]
        own, size, value = indices[a:b], np.zeros(2, np.int64), np.full(2, np.inf)
        if form[i] != BALL:
            size[0], value[0] = _fill_intervals(
                own, lower[a:b], upper[a:b], unseen[i], values, order, place, found_columns[0], found[0]
            )
        if form[i] != INTERVAL:
            size[1], value[1] = _fill_ball(
                own, shares[a:b], ball[i], values, order[0], found_columns[1], found[1]
            )
        k = 0 if value[0] <= value[1] else 1
        highest[i], chosen[i], ends[i + 1] = value[k], k + 1, ends[i]
        if keep_rows:
            ends[i + 1] += size[k]
            while ends[i + 1] > data.size:
                columns, data = np.append(columns, columns), np.append(data, data)
            columns[ends[i] : ends[i + 1]] = found_columns[k, : size[k]]
            data[ends[i] : ends[i + 1]] = found[k, : size[k]]
    return highest, chosen, ends, columns[: ends[n]], data[: ends[n]]


@compiled
def _fill_intervals(own, lower, upper, unseen, values, order, place, columns, row):
    """Writes the best row within the intervals; returns its number of entries and its value."""
    size = own.size
    columns[:size], row[:size] = own, lower
    place[own] = np.arange(size)
    left, k = 1 - lower.sum(), 0
    while left > 0 and k < order.size:
        state = order[k]
        j = place[state]
        given = min(left, unseen if j < 0 else upper[j] - lower[j])
        if j >= 0:
            row[j] += given
        elif given > 0:
            columns[size], row[size], size = state, given, size + 1
        left, k = left - given, k + 1
    place[own] = -1
    return size, np.sum(row[:size] * values[columns[:size]])


@compiled
def _fill_ball(own, shares, epsilon, values, best, columns, row):
    """Writes the best row within KL(shares, row) <= epsilon; returns its number of entries and its value."""
    top, size = values[best], own.size
    if epsilon == np.inf:
        columns[0], row[0] = best, 1.0
        return 1, top
    below = top - values[own]
    columns[:size], row[:size] = own, shares
    widest = below.max()
    if widest == 0:
        return size, top
    mean = np.sum(shares * below)
    # Kantorovich's inequality: the slope is negative beyond x (x + widest) = widest^2 / 4 epsilon
    low, high = 1e-18 * widest, widest * (0.5 / np.sqrt(epsilon) + 1e-18)
    for _ in range(HALVINGS):
        x = np.sqrt(low * high)
        low, high = (x, high) if _slope(shares, below, mean, x)[0] > epsilon else (low, x)
        if high <= low * (1 + 1e-12):
            break
    spread, log_mean = _slope(shares, below, mean, high)
    row[:size] = shares / (below + high)
    row[:size] *= np.exp(spread - epsilon) / row[:size].sum()
    rest, k = max(1 - row[:size].sum(), 0.0), 0
    while k < size and own[k] != best:
        k += 1
    columns[k], row[k] = best, rest + (row[k] if k < size else 0.0)
    return max(size, k + 1), top - mean - (mean + high) * np.expm1(log_mean - epsilon)


@compiled
def _slope(shares, below, mean, x):
    """Returns log E[1/u] + E[log u] and E[log u] for u = (below + x)/(mean + x), which has mean 1."""
    excess, log_mean = 0.0, 0.0
    for j in range(shares.size):
        y = (below[j] - mean) / (mean + x)
        u = (below[j] + x) / (mean + x)
        excess += shares[j] * y * y / u  # E[1/u] - 1 without cancellation
        log_mean += shares[j] * (np.log(u) if u < 0.5 else np.log1p(y))
    return np.log1p(excess) + log_mean, log_mean
