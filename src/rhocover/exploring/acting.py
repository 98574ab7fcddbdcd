"""The inner loops: act, move, count. Compiled, and the same source runs as plain Python.

A step reads uniform numbers that were drawn beforehand, so compiled and interpreted runs see the same
ones and give the same bits. Rows of the model are searched by halving, and by counting where few places
are left: the successor is the first one whose cumulative probability exceeds the uniform number; the last
cumulative entry is exactly 1 and uniform numbers are below 1, so there always is one, and one of
probability zero is never taken.

Several chains advance in turn, one step each, and share the counts.
"""

from __future__ import annotations

import numpy as np

from rhocover.compiling import compiled

FEW = 8  # places that are faster counted than halved: no branch depends on the random number


@compiled
def find(cumulative, low, high, u):
    """Returns the first place in [low, high] whose cumulative value exceeds u."""
    while high - low > FEW:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    place = low
    for k in range(low, high):
        place += cumulative[k] <= u
    return place


@compiled
def move(indptr, successor, cumulative, i, u, visits, moves):
    """Plays pair i: counts it and where it leads, and returns the next state."""
    j = find(cumulative, indptr[i], indptr[i + 1] - 1, u)
    visits[i] += 1
    moves[j] += 1
    return successor[j]


@compiled
def act_sampled(first, indptr, successor, cumulative, cdf, done, uniforms, states, visits, moves, scores):
    """Plays a stochastic policy; `uniforms` is `[steps, chains, 2]`; changes states, visits, moves."""
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            s = states[chain]
            i = find(cdf, first[s], first[s + 1] - 1, uniforms[k, chain, 0])
            states[chain] = move(indptr, successor, cumulative, i, uniforms[k, chain, 1], visits, moves)


@compiled
def lowest(first, s, base, visits, done, rate, scale):
    """Returns the pair of state s with the lowest score (base + visits - done rate) scale."""
    chosen = first[s]
    least = np.inf
    for i in range(first[s], first[s + 1]):
        score = (base[i] + visits[i] - done * rate[i]) * scale[i]
        if score < least:
            least = score
            chosen = i
    return chosen


@compiled
def act_balanced(
    first, indptr, successor, cumulative, base, rate, scale, done, uniforms, states, visits, moves, scores
):
    """Plays the lowest score; `done` counts the block's steps before."""
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            i = lowest(first, states[chain], base, visits, done, rate, scale)
            states[chain] = move(indptr, successor, cumulative, i, uniforms[k, chain, 1], visits, moves)
            done += 1


@compiled
def act_steered(
    first, indptr, successor, cumulative, rate, scale,
    own_first, own_indptr, own_successor, P, pairs, offset, moved, own_rate, weight, inverse, period,
    done, uniforms, states, visits, moves, scores,
):  # fmt: skip
    """Plays the lowest score, with the part that the flow forces taken out anew every `period` steps."""
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            if done % period == 0:
                refresh(
                    own_first, own_indptr, own_successor, P, pairs, offset, moved, own_rate, weight, inverse,
                    done, visits, scores,
                )  # fmt: skip
            i = lowest(first, states[chain], scores, visits, done, rate, scale)
            states[chain] = move(indptr, successor, cumulative, i, uniforms[k, chain, 1], visits, moves)
            done += 1


@compiled
def refresh(first, indptr, successor, P, pairs, offset, moved, rate, weight, inverse, done, visits, scores):
    """Sets `scores` so that scores + visits - done rate = offset + v - W B'(B W B')^-1 B v.

    v = moved + visits - done rate is what was visited beyond plan, B v its flow and its mass, for the
    model that the explorer plans on; `visits` and `scores` are the world's, where pair i is `pairs[i]`.
    """
    num_states = first.size - 1
    right = np.zeros(num_states)  # the last entry holds the mass: the last flow row follows from the others
    for s in range(num_states):
        for i in range(first[s], first[s + 1]):
            v = moved[i] + visits[pairs[i]] - done * rate[i]
            right[num_states - 1] += v
            if s < num_states - 1:
                right[s] += v
            for j in range(indptr[i], indptr[i + 1]):
                if successor[j] < num_states - 1:
                    right[successor[j]] -= P[j] * v
    y = np.zeros(num_states)
    for s in range(num_states):
        total = 0.0
        for r in range(num_states):
            total += inverse[s, r] * right[r]
        y[s] = total
    mass = y[num_states - 1]
    y[num_states - 1] = 0.0  # the potential of the last state, whose row was left out
    for s in range(num_states):
        for i in range(first[s], first[s + 1]):
            lift = y[s] + mass
            for j in range(indptr[i], indptr[i + 1]):
                lift -= P[j] * y[successor[j]]
            scores[pairs[i]] = offset[i] + moved[i] - weight[i] * lift
