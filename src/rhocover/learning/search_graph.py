"""The expected steps to what was tried least, kept right while transitions come in one by one.

A run that discovers a world wants every pair tried once, then every pair tried again, and so on (`level`).
The expected steps g(s) from a state to a wanted pair solve a shortest-path problem over the transitions seen
so far (`shortest_paths` solves one from nothing). Between two steps of a run one row of that problem changes,
so the values are kept, and what a new transition makes wrong is repaired; most often that is nothing that
matters where the agent is. `search` chooses actions by these values.

**Repair.** Each state has its value g, which other states use, and the look-ahead

    h(s) = c_a     if pair (s, a) was never tried,
    h(s) = r       if a pair of s was tried less than `level` times and nothing better follows from
    h(s) = min over pairs i of s of  (N_i + sum_t N(t|i) g(t)) / sum_t N(t|i),     t != s, g(t) finite,

N_i the visits of the pair and N(t|i) how often t followed it: insisting on pair i until it leaves s. r is
`retry`: where one state stands for several places, the way on from the newest states often needs another try
from another place, and comes before what was left untried far behind. States
where g and h differ by more than a tolerance wait in a queue, the lowest min(g, h) first. A g that is too
high becomes h. A g that is much too low first becomes infinite (once in a repair), so that a region whose
nearest wanted pair is gone does not count its values up step by step. The queue is served until the agent's
state agrees with its look-ahead and nothing waits below it: what lies farther away than the next wanted pair
stays as it is (Lifelong Planning A*: Koenig, Likhachev and Furcy 2004; prioritised sweeping: Moore and
Atkeson 1993). Each step costs 1, so the tolerance is a relative error of the steps. A repair that takes long
goes on at the next step, so that a step costs a bounded number of services on average.

**What a try is worth.** Many worlds have actions that hardly ever do anything, such as dropping what one does
not carry. c_a is 1, and `DULL` for an action whose first tries have found 16 times fewer new states than
those of the best one: an untried pair of a dull action waits until nothing better is so near. In the same way
another try of a pair that has never left its state counts more for actions whose second tries hardly ever
changed anything. An action is no longer dull when the ratio has halved; such a change is work for all states.

Compiled; memory in proportion to what was seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled

TOLERANCE = 0.05  # steps: values closer than this are equal
JUMP = 1.0  # steps: a value that rises by more begins anew, at infinity
SERVICES = 32  # states served per step, on average and at most
SAVED = 16  # states that one repair serves at most, over the states there are
RETRY = 8.0  # steps: an untried pair within this distance comes before another try of a pair
BRISK_RETRY = 128.0  # the same where actions leave at once: a place inside a state makes no difference
DULL = 32.0  # steps that an untried pair of a dull action counts: less than another try of a pair
HARDLY = 8.0  # times fewer new states than by the best action: then an action is no longer dull; twice, dull

# What `counters` count.
ACTIONS, STATES, TRANSITIONS, QUEUED, LEVEL, CLOCK, REPAIR, SERVED, STRANDED, WAITING, NEXT_END = range(11)
LEAVING_STEPS, EXITS, CREDIT, UNFINISHED, WALKED, LATE, HOLDS, BRISK, NUM_COUNTERS = range(11, 20)

# Rows of `yields`: pairs tried, states found, what an untried pair counts; the same of another try.
TRIED, FOUND, COST, RETRIED, REVIVED, AGAIN, NUM_YIELDS = range(7)


class Graph(NamedTuple):
    """The transitions and values, in arrays with room for more; pair i is action i % A of state i // A."""

    counters: IntArray
    value: FloatArray  # g, [S]
    ahead: FloatArray  # h, [S]
    best: IntArray  # the pair that attains h, [S]
    queue: IntArray  # a heap of states
    place: IntArray  # of each state in it, -1 outside, [S]
    reset_in: IntArray  # the repair that last set g to infinity, [S]
    into: IntArray  # the newest transition into each state, -1 for none, [S]
    out_of: IntArray  # the newest transition of each pair, [n]
    visits: IntArray  # N_i, [n]
    tries: IntArray  # how often it was chosen: held for several steps is one try, [n]
    left: IntArray  # how often the pair left its state, [n]
    leaving: IntArray  # steps of the attempts in which it did, [n]
    paused: IntArray  # until when the search does without it, [n]
    pauses: IntArray  # how often that was necessary, [n]
    source: IntArray  # the pair of each transition, [k]
    target: IntArray  # the state it led to, [k]
    times: IntArray  # how often, [k]
    next_out: IntArray  # the transition of the same pair before it, [k]
    next_into: IntArray  # the transition into the same state before it, [k]
    yields: FloatArray  # what tries of each action have led to: rows below, [6, A]
    held: (
        IntArray  # of each chain: the pair it holds, for how many steps so far, at most; if lost, [4, chains]
    )
    waiting: IntArray  # paused pairs


# The queue: a binary heap by min(g, h), with the place of each state.


@compiled
def _key(graph, s):
    return min(graph.value[s], graph.ahead[s])


@compiled
def _rise(graph, at):
    """Moves an entry of the queue up until none above it is larger."""
    queue, place = graph.queue, graph.place
    s = queue[at]
    key = _key(graph, s)
    while at > 0 and _key(graph, queue[(at - 1) // 2]) > key:
        queue[at] = queue[(at - 1) // 2]
        place[queue[at]] = at
        at = (at - 1) // 2
    queue[at] = s
    place[s] = at


@compiled
def _sink(graph, at):
    """Moves an entry of the queue down until none below it is smaller."""
    queue, place, size = graph.queue, graph.place, graph.counters[QUEUED]
    s = queue[at]
    key = _key(graph, s)
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _key(graph, queue[child + 1]) < _key(graph, queue[child]):
            child += 1
        if _key(graph, queue[child]) >= key:
            break
        queue[at] = queue[child]
        place[queue[at]] = at
        at = child
    queue[at] = s
    place[s] = at


@compiled
def _enter(graph, s):
    """Puts a state into the queue."""
    graph.queue[graph.counters[QUEUED]] = s
    graph.counters[QUEUED] += 1
    _rise(graph, graph.counters[QUEUED] - 1)


@compiled
def _leave(graph, s):
    """Takes a state out of the queue."""
    at = graph.place[s]
    graph.counters[QUEUED] -= 1
    last = graph.queue[graph.counters[QUEUED]]
    graph.place[s] = -1
    if last != s:
        graph.queue[at] = last
        graph.place[last] = at
        _sink(graph, at)
        _rise(graph, graph.place[last])


# Values.


@compiled
def retry(graph):
    """Returns the steps that another try of a pair counts."""
    return BRISK_RETRY if graph.counters[BRISK] == 1 else RETRY


@compiled
def _look_ahead(graph, s):
    """Returns h of a state and the pair that attains it, -1 if no wanted pair can be reached."""
    A, again = graph.counters[ACTIONS], retry(graph)
    lowest, chosen = np.inf, -1
    for i in range(s * A, s * A + A):
        if graph.tries[i] == 0 and graph.yields[COST, i % A] < lowest:
            lowest, chosen = graph.yields[COST, i % A], i
        if effort(graph, i) < graph.counters[LEVEL] and lowest > again:
            lowest, chosen = again, i
        if graph.paused[i] > graph.counters[CLOCK]:
            continue
        total, leaves = float(graph.visits[i]), 0
        k = graph.out_of[i]
        while k >= 0:
            t = graph.target[k]
            if t != s and graph.value[t] < np.inf:
                total += graph.times[k] * graph.value[t]
                leaves += graph.times[k]
            k = graph.next_out[k]
        if leaves > 0 and total / leaves < lowest:
            lowest, chosen = total / leaves, i
    return lowest, chosen


@compiled
def update(graph, s):
    """Looks ahead from a state; it waits in the queue as long as its value is another one."""
    ahead, graph.best[s] = _look_ahead(graph, s)
    if graph.place[s] >= 0:
        _leave(graph, s)
    graph.ahead[s] = ahead
    if graph.value[s] != ahead and not abs(graph.value[s] - ahead) <= TOLERANCE:
        _enter(graph, s)


@compiled
def _update_sources(graph, s):
    """Looks ahead again from every state that has led to s."""
    A, last = graph.counters[ACTIONS], -1
    k = graph.into[s]
    while k >= 0:
        t = graph.source[k] // A
        if t != s and t != last:
            update(graph, t)
            last = t
        k = graph.next_into[k]


@compiled
def repair(graph, agent):
    """Serves the queue until the agent's state is right and nothing below it waits, or goes on next time."""
    counters = graph.counters
    counters[REPAIR] += 1 - counters[UNFINISHED]
    counters[CREDIT] = min(counters[CREDIT] + SERVICES, SAVED * (4 + counters[STATES]))
    while counters[QUEUED] > 0 and counters[CREDIT] > 0:
        s = graph.queue[0]
        if graph.place[agent] < 0 and _key(graph, s) >= graph.value[agent]:
            break
        counters[SERVED] += 1
        counters[CREDIT] -= 1
        _leave(graph, s)
        rise = graph.ahead[s] - graph.value[s]
        if rise <= JUMP or graph.reset_in[s] == counters[REPAIR]:
            graph.value[s] = graph.ahead[s]
        else:
            graph.reset_in[s] = counters[REPAIR]
            graph.value[s] = np.inf
            update(graph, s)
        _update_sources(graph, s)
    counters[UNFINISHED] = 1 if counters[CREDIT] == 0 else 0


@compiled
def begin_anew(graph):
    """Sets every value to infinity and looks ahead from every state."""
    S = graph.counters[STATES]
    graph.counters[QUEUED] = 0
    graph.value[:S] = np.inf
    graph.ahead[:S] = np.inf
    graph.place[:S] = -1
    for s in range(S):
        update(graph, s)


# What tries of an action are worth, and observing.


@compiled
def _transition(graph, i, t):
    """Returns the number of the transition from pair i to state t, a new one at the first time."""
    k = graph.out_of[i]
    while k >= 0 and graph.target[k] != t:
        k = graph.next_out[k]
    if k < 0:
        k = graph.counters[TRANSITIONS]
        graph.counters[TRANSITIONS] += 1
        graph.source[k], graph.target[k], graph.times[k] = i, t, 0
        graph.next_out[k], graph.out_of[i] = graph.out_of[i], k
        graph.next_into[k], graph.into[t] = graph.into[t], k
    return k


@compiled
def _rate(graph, row, a):
    """Returns how often an action did something new per try, of the kind of tries that begins in this row."""
    return (graph.yields[row + 1, a] + 1) / (graph.yields[row, a] + 1)


@compiled
def weigh(graph, row):
    """Sets what a try of each action counts; looks ahead anew if that has changed."""
    A, best, changed = graph.counters[ACTIONS], 0.0, False
    for a in range(A):
        best = max(best, _rate(graph, row, a))
    for a in range(A):
        ratio, cost = best / _rate(graph, row, a), graph.yields[row + 2, a]
        if ratio >= 2 * HARDLY and cost == 1:
            graph.yields[row + 2, a], changed = DULL, True
        elif ratio <= HARDLY and cost > 1:
            graph.yields[row + 2, a], changed = 1.0, True
    if changed:
        for s in range(graph.counters[STATES]):
            update(graph, s)


@compiled
def effort(graph, i):
    """Returns how often a pair was tried, each try counted by what such tries have led to."""
    return graph.tries[i] * graph.yields[AGAIN, i % graph.counters[ACTIONS]]


@compiled
def observe(graph, i, t, count):
    """Counts that state t followed pair i so often."""
    A = graph.counters[ACTIONS]
    if graph.visits[i] == 0 or graph.into[t] < 0:
        graph.yields[TRIED, i % A] += graph.visits[i] == 0
        graph.yields[FOUND, i % A] += graph.into[t] < 0 and t != i // A
        weigh(graph, TRIED)
    graph.times[_transition(graph, i, t)] += count
    graph.counters[CLOCK] += count
    graph.visits[i] += count
    is_first = t != i // A and graph.left[i] == 0
    if is_first and graph.tries[i] > 1:
        graph.yields[REVIVED, i % A] += 1
        weigh(graph, RETRIED)
    if t != i // A:
        graph.left[i] += count
        graph.counters[EXITS] += count
    if graph.left[i] > 0:
        graph.counters[LEAVING_STEPS] += graph.visits[i] if is_first else count
    update(graph, i // A)


@compiled
def observe_all(graph, pairs, states, counts):
    """Counts many transitions, one after the other."""
    for row in range(pairs.size):
        graph.tries[pairs[row]] += counts[row]
        observe(graph, pairs[row], states[row], counts[row])


@compiled
def replay(graph, pairs, states):
    """Counts the steps of a run in their order: the same pair several times in a row is one try."""
    A, length = graph.counters[ACTIONS], 0
    for row in range(pairs.size):
        i = pairs[row]
        if length == 0 or pairs[row - 1] != i:
            graph.tries[i] += 1
            length = 0
        length += 1
        if states[row] != i // A:
            graph.leaving[i] += length
            length = 0
        observe(graph, i, states[row], 1)
