"""The inner loops: act, move, count. Compiled, and the same source runs as plain Python.

A step reads uniform numbers that were drawn beforehand, so compiled and interpreted runs see the same
ones and give the same bits. Rows of the model are searched by halving: the successor is the first one
whose cumulative probability exceeds the uniform number; the last cumulative entry is exactly 1 and
uniform numbers are below 1, so there always is one, and one of probability zero is never taken.

Several chains advance in turn, one step each, and share the counts.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def find(cumulative, low, high, u):
    """Returns the first place in [low, high] whose cumulative value exceeds u."""
    while low < high:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def act_sampled(first, indptr, successor, cumulative, cdf, done, uniforms, states, visits, moves):
    """Plays a stochastic policy; `uniforms` is `[steps, chains, 2]`; changes states, visits, moves."""
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            s = states[chain]
            i = find(cdf, first[s], first[s + 1] - 1, uniforms[k, chain, 0])
            j = find(cumulative, indptr[i], indptr[i + 1] - 1, uniforms[k, chain, 1])
            visits[i] += 1
            moves[j] += 1
            states[chain] = successor[j]


@njit(cache=True)
def act_balanced(
    first, indptr, successor, cumulative, base, rate, scale, done, uniforms, states, visits, moves
):
    """Plays the lowest score; `done` counts the block's steps before."""
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            s = states[chain]
            chosen = first[s]
            lowest = np.inf
            for i in range(first[s], first[s + 1]):
                score = (base[i] + visits[i] - done * rate[i]) * scale[i]
                if score < lowest:
                    lowest = score
                    chosen = i
            j = find(cumulative, indptr[chosen], indptr[chosen + 1] - 1, uniforms[k, chain, 1])
            visits[chosen] += 1
            moves[j] += 1
            states[chain] = successor[j]
            done += 1
