"""Policies that arrive, from the graph alone: from which states it is sure, and by which pairs.

A pair may arrive (p_i > 0) or lead on to states. From a state an arrival is possible if some path of pairs
leads to one; it is sure for some policy if, in addition, the pairs taken never lead where it is not
possible. So: search backwards from the arrivals; take out the states not found, with them every pair that
may lead there, and with each pair that is the last of its state that state; search again among the rest,
until all are found. Each state then takes the pair by which it was found, one step nearer on the graph, and
from everywhere the policy arrives with probability 1.

Plain loops, compiled.
"""

from __future__ import annotations

import numpy as np

from rhocover.compiling import compiled

LIKELY = 0.5  # an arrival worth a walk; a doubt about a pair with many visits is not


@compiled
def proper_policy(indptr, successor, onward, arrival, first, warm):
    """Returns a pair for each state, the states that arrive for sure, and 0 or infinite steps.

    The pairs are proper where it is sure, and head for an arrival where it is possible; else -1.
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

    Backwards from the arrivals, breadth first: by the warm pairs alone, then by all that are alive from the
    likely arrivals, then from all.
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
    """Takes on every state not found that has an arrival more likely than `least`, by its likeliest."""
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
    """Takes on every state that a pair alive leads from to the queue; the queue grows."""
    place = 0
    while place < len(queue):
        s = queue[place]
        for i in ahead[begin[s] : begin[s + 1]]:
            t = owner[i]
            if alive[i] and choice[t] < 0 and not arrived[t] and (not only_warm or warm[t] == i):
                choice[t] = i
                queue.append(t)
        place += 1
