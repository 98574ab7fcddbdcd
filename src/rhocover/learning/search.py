"""The way to what was tried least, kept up to date while transitions come in one by one.

A run that discovers a world wants every pair tried once, then every pair tried again, and so on (`level`).
The expected steps g(s) from a state to a wanted pair solve a shortest-path problem over the transitions seen
so far (`shortest_paths` solves one from nothing). Between two steps of a run one row of that problem changes,
so `Search` keeps the values and repairs what a new transition makes wrong; most often that is nothing that
matters where the agent is.

**Repair.** Each state has its value g, which other states use, and the look-ahead

    h(s) = 1       if a pair of s was never tried,
    h(s) = RETRY   if a pair of s was tried less than `level` times and nothing better follows from
    h(s) = min over pairs i of s of  (N_i + sum_t N(t|i) g(t)) / sum_t N(t|i),     t != s, g(t) finite,

N_i the visits of the pair and N(t|i) how often t followed it: insisting on pair i until it leaves s. States
where g and h differ by more than a tolerance wait in a queue, the lowest min(g, h) first. A g that is too
high becomes h. A g that is much too low first becomes infinite (once in a repair), so that a region whose
nearest wanted pair is gone does not count its values up step by step. The queue is served until the agent's
state agrees with its look-ahead and nothing waits below it: what lies farther away than the next wanted pair
stays as it is (Lifelong Planning A*: Koenig, Likhachev and Furcy 2004; prioritised sweeping: Moore and
Atkeson 1993). Each step costs 1, so the tolerance is a relative error of the steps.

The level rises when no wanted pair can be reached within the steps that it usually takes to leave as
many states as there are, or none was reached in so many choices. A repair that takes long goes on at the next
step, so that a step costs a bounded number of services on average.

**Holding an action.** Where one state stands for several steps of the environment (a code of observations),
trying its actions in turn cancels their moves, and a run can stay in one code for good. So an action is held
while the state does not change, and counts as one try: an action that has never left its state for as long as
those that leave take on average (and at least `level` steps), an action that has left it for three times as
long as it took. Where nothing leaves a state, actions are held for random times, longer and longer: it may
take a long push, or the right rhythm.

**Aliases.** A code can cover two places, such as both sides of a wall. An action that has led from one of
them to another state fails in the other, however often it is tried. When an action that used to leave was
held in vain, the search does without it for some steps, and for twice as many when it fails again. Then it
acts at random for a moment: the same actions from the same place inside a code would fail in the same way.

Compiled; memory in proportion to what was seen; the same transitions give the same choices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled

TOLERANCE = 0.05  # steps: values closer than this are equal
JUMP = 1.0  # steps: a value that rises by more begins anew, at infinity
SERVICES = 32  # states served per step, on average and at most
SAVED = 16  # states that one repair serves at most, over the states there are
LONGEST_HOLD = 64  # steps of an action that has never left a state that others leave
STUCK_HOLD = 4096  # steps of an action in a state that nothing has left, at most
STUCK = 2  # times the usual hold of every action in a state that nothing has left: then holds are random
PATIENCE = 3  # an action that leaves is held for this many times its mean
FIRST_PAUSE = 64  # steps without an action that failed, doubled each time
DOUBLINGS = 20  # of holds and pauses, at most
RARELY = 64  # the level rises at most once in this share of the states: it is work for all of them
MOST_WAITING = 4096  # pauses whose end is noticed at once; others end when their state is looked at
RETRY = 128.0  # steps: an untried pair within this distance comes before another try of a pair
LEAST_ROOM = 64  # states
NEVER = 1 << 62
FORBIDDEN = 1 << 61  # tries of a pair that cannot be played: it is never the least tried, nor wanted

# What `counters` count.
ACTIONS, STATES, TRANSITIONS, QUEUED, LEVEL, CLOCK, REPAIR, SERVED, STRANDED, WAITING, NEXT_END = range(11)
LEAVING_STEPS, EXITS, CREDIT, UNFINISHED, WALKED, NUM_COUNTERS = range(11, 17)


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
    held: IntArray  # the pair that each chain holds, for how many steps so far and at most, [3, chains]
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
def _look_ahead(graph, s):
    """Returns h of a state and the pair that attains it, -1 if no wanted pair can be reached."""
    A = graph.counters[ACTIONS]
    lowest, chosen = np.inf, -1
    for i in range(s * A, s * A + A):
        if graph.tries[i] == 0:
            return 1.0, i
        if graph.tries[i] < graph.counters[LEVEL] and lowest > RETRY:
            lowest, chosen = RETRY, i
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
def _update(graph, s):
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
            _update(graph, t)
            last = t
        k = graph.next_into[k]


@compiled
def _repair(graph, agent):
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
            _update(graph, s)
        _update_sources(graph, s)
    counters[UNFINISHED] = 1 if counters[CREDIT] == 0 else 0


@compiled
def _begin_anew(graph):
    """Sets every value to infinity and looks ahead from every state."""
    S = graph.counters[STATES]
    graph.counters[QUEUED] = 0
    graph.value[:S] = np.inf
    graph.ahead[:S] = np.inf
    graph.place[:S] = -1
    for s in range(S):
        _update(graph, s)


# Observing.


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
def _observe(graph, i, t, count):
    """Counts that state t followed pair i so often."""
    A = graph.counters[ACTIONS]
    graph.times[_transition(graph, i, t)] += count
    graph.counters[CLOCK] += count
    graph.visits[i] += count
    is_first = t != i // A and graph.left[i] == 0
    if t != i // A:
        graph.left[i] += count
        graph.counters[EXITS] += count
    if graph.left[i] > 0:
        graph.counters[LEAVING_STEPS] += graph.visits[i] if is_first else count
    _update(graph, i // A)


@compiled
def _observe_all(graph, pairs, states, counts):
    """Counts many transitions, one after the other."""
    for row in range(pairs.size):
        graph.tries[pairs[row]] += counts[row]
        _observe(graph, pairs[row], states[row], counts[row])


@compiled
def _replay(graph, pairs, states):
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
        _observe(graph, i, states[row], 1)


# Choosing.


@compiled
def _random(number, seed):
    """Returns a whole number below 2147483647 that looks random."""
    return (number * 48271 + seed) % 2147483647 * 16807 % 2147483647


@compiled
def _limit(graph, i, seed):
    """Returns for how many steps pair i is held while its state does not change."""
    if graph.left[i] > 0:
        usual = 2 + PATIENCE * -(-graph.leaving[i] // graph.left[i])
        return max(usual, min(usual << min(graph.pauses[i], DOUBLINGS), LONGEST_HOLD))
    A, total, exits = graph.counters[ACTIONS], 0, 0
    for j in range(i // A * A, i // A * A + A):
        total += graph.visits[j]
        exits += graph.left[j]
    usual = -(-graph.counters[LEAVING_STEPS] // max(graph.counters[EXITS], 1))
    hold = min(max(usual, graph.counters[LEVEL]), LONGEST_HOLD)
    if exits > 0 or total < STUCK * A * usual:
        return hold
    return 1 + _random(graph.counters[CLOCK], seed) % max(hold, min(total // A, STUCK_HOLD))


@compiled
def _pause(graph, i):
    """Does without a pair for some steps that no longer leads where it led."""
    counters = graph.counters
    graph.paused[i] = counters[CLOCK] + (FIRST_PAUSE << min(graph.pauses[i], DOUBLINGS))
    graph.pauses[i] += 1
    if counters[WAITING] < graph.waiting.size:
        graph.waiting[counters[WAITING]] = i
        counters[WAITING] += 1
        counters[NEXT_END] = min(counters[NEXT_END], graph.paused[i])
    _update(graph, i // counters[ACTIONS])


@compiled
def _end_pauses(graph):
    """Takes back the pairs whose pause is over."""
    counters, kept = graph.counters, 0
    counters[NEXT_END] = NEVER
    for k in range(counters[WAITING]):
        i = graph.waiting[k]
        if graph.paused[i] > counters[CLOCK]:
            graph.waiting[kept] = i
            kept += 1
            counters[NEXT_END] = min(counters[NEXT_END], graph.paused[i])
        else:
            _update(graph, i // counters[ACTIONS])
    counters[WAITING] = kept


@compiled
def _least_tried(graph, s, seed):
    """Returns the pair of the state that was tried least; equals in an order that looks random."""
    A, found, least = graph.counters[ACTIONS], -1, 0
    for i in range(s * A, s * A + A):
        rank = _random(i + 7919 * graph.tries[i], seed)
        is_less = found < 0 or graph.tries[i] < graph.tries[found]
        if is_less or (graph.tries[i] == graph.tries[found] and rank < least):
            found, least = i, rank
    return found


@compiled
def _way(graph, s, seed):
    """Returns the pair that leads to what is wanted; raises the level if that is out of reach."""
    counters = graph.counters
    _repair(graph, s)
    usual = -(-counters[LEAVING_STEPS] // max(counters[EXITS], 1))
    far = RETRY + usual * counters[STATES]
    if graph.ahead[s] > far or counters[WALKED] > far:
        counters[STRANDED] += 1
        if counters[STRANDED] * RARELY < counters[STATES]:
            return _least_tried(graph, s, seed)
        counters[STRANDED] = counters[WALKED] = 0
        counters[LEVEL] += 1
        _begin_anew(graph)
        _repair(graph, s)
    is_on_the_way = graph.ahead[s] < np.inf and graph.ahead[s] != RETRY
    return graph.best[s] if is_on_the_way else _least_tried(graph, s, seed)


@compiled
def _shake(graph, s, seed):
    """Returns a random pair of a state, to get to another place inside it."""
    i = s * graph.counters[ACTIONS] + _random(graph.counters[CLOCK], seed) % graph.counters[ACTIONS]
    return i if graph.tries[i] < FORBIDDEN else _least_tried(graph, s, seed)


@compiled
def _next(graph, s, seed):
    """Returns the pair to begin in state s: an untried one, or the way to what is wanted."""
    if graph.counters[CLOCK] >= graph.counters[NEXT_END]:
        _end_pauses(graph)
    i = _least_tried(graph, s, seed)
    return i if graph.tries[i] == 0 else _way(graph, s, seed)


@compiled
def _choose(graph, chain, s, seed):
    """Returns the pair to play in state s: the one held, or the next one."""
    counters, held, in_vain = graph.counters, graph.held, False
    i = held[0, chain]
    if i >= 0 and i // counters[ACTIONS] == s:
        if held[1, chain] < held[2, chain]:
            held[1, chain] += 1
            return i
        in_vain = graph.left[i] > 0
        if in_vain:
            _pause(graph, i)
    elif i >= 0:
        graph.leaving[i] += held[1, chain]
        graph.pauses[i] = max(graph.pauses[i] - 1, 0)
    i = _shake(graph, s, seed) if in_vain else _next(graph, s, seed)
    counters[WALKED] = 0 if graph.tries[i] < counters[LEVEL] else counters[WALKED] + 1
    limit = _limit(graph, i, seed)
    held[0, chain], held[1, chain] = i, 1
    held[2, chain] = 1 + _random(counters[CLOCK] + 1, seed) % limit if in_vain else limit
    graph.tries[i] += 1
    return i


class Search:
    """Chooses actions that lead to what was tried least, from the transitions observed so far.

    States are numbered 0, 1, ... as they are met (`add_states`), each with the same number of actions.
    `choose` returns the pair to play, `observe` counts where it led. Several chains may act on one search.
    """

    def __init__(self, num_actions: int, seed: int = 0, num_chains: int = 1) -> None:
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0]) % 2147483647
        counters = np.zeros(NUM_COUNTERS, np.int64)
        counters[[ACTIONS, LEVEL, NEXT_END]] = num_actions, 1, NEVER
        held, waiting = np.full((3, num_chains), -1, np.int64), np.zeros(MOST_WAITING, np.int64)
        states, pairs, transitions = _columns(LEAST_ROOM, num_actions, LEAST_ROOM)
        self._graph = Graph._make([counters, *states, *pairs, *transitions, held, waiting])

    @property
    def num_states(self) -> int:
        """How many states were met."""
        return int(self._graph.counters[STATES])

    @property
    def level(self) -> int:
        """How often each pair is to be tried by now."""
        return int(self._graph.counters[LEVEL])

    @property
    def num_served(self) -> int:
        """How many states were served by repairs so far."""
        return int(self._graph.counters[SERVED])

    def _make_room(self, num_states: int, num_transitions: int) -> None:
        """Makes room for so many states and transitions, twice as many if there is too little."""
        g = self._graph
        S, K = g.value.size, g.source.size
        if num_states <= S and num_transitions <= K:
            return
        S, K = S if num_states <= S else 2 * num_states, K if num_transitions <= K else 2 * num_transitions
        states, pairs, transitions = _columns(S, int(g.counters[ACTIONS]), K)
        for old, new in zip(g[1:-2], (*states, *pairs, *transitions), strict=True):
            new[: old.size] = old
        self._graph = Graph._make([g.counters, *states, *pairs, *transitions, g.held, g.waiting])

    def add_states(self, number: int) -> None:
        """Makes the states with numbers below `number` known."""
        before = self.num_states
        if number > before:
            self._make_room(number, 0)
            self._graph.counters[STATES] = number
            self._graph.counters[CREDIT] += SAVED * (number - before)
            for s in range(before, number):
                _update(self._graph, s)

    def observe(self, pair: int, state: int) -> None:
        """Counts that a state followed a pair."""
        if state >= self.num_states:
            self.add_states(state + 1)
        if self._graph.counters[TRANSITIONS] == self._graph.source.size:
            self._make_room(0, self._graph.source.size + 1)
        _observe(self._graph, pair, state, 1)

    def observe_all(self, pairs: Any, states: Any, counts: Any = None) -> None:
        """Counts that each of `states` followed its pair, `counts` times each (once by default)."""
        pairs, states = np.asarray(pairs, np.int64), np.asarray(states, np.int64)
        counts = np.ones(pairs.size, np.int64) if counts is None else np.asarray(counts, np.int64)
        if pairs.size:
            self.add_states(
                1 + max(int(states.max()), int(pairs.max()) // int(self._graph.counters[ACTIONS]))
            )
            self._make_room(0, int(self._graph.counters[TRANSITIONS]) + pairs.size)
            _observe_all(self._graph, pairs, states, counts)

    def allow(self, pair: int, *, is_allowed: bool) -> None:
        """Takes a pair that cannot be played out of the search, or into it again."""
        state = pair // int(self._graph.counters[ACTIONS])
        self.add_states(state + 1)
        if is_allowed != (self._graph.tries[pair] < FORBIDDEN):
            self._graph.tries[pair] = 0 if is_allowed else FORBIDDEN
            _update(self._graph, state)

    def replay(self, pairs: Any, states: Any) -> None:
        """Counts the steps of one chain in their order: which pairs were played, and where each led.

        Afterwards the search knows how often each was tried, and how long it took to leave.
        """
        pairs, states = np.asarray(pairs, np.int64), np.asarray(states, np.int64)
        if pairs.size:
            num_actions, room = int(self._graph.counters[ACTIONS]), int(self._graph.counters[TRANSITIONS])
            self.add_states(1 + max(int(states.max()), int(pairs.max()) // num_actions))
            self._make_room(0, room + np.unique(np.stack([pairs, states]), axis=1).shape[1])
            _replay(self._graph, pairs, states)

    def choose(self, state: int, chain: int = 0) -> int:
        """Returns the pair to play in a state."""
        if state >= self.num_states:
            self.add_states(state + 1)
        return int(_choose(self._graph, chain, state, self._seed))

    def expected_steps(self, state: int) -> float:
        """Returns the expected steps from a state to a wanted pair, infinite if none can be reached."""
        _repair(self._graph, state)
        return float(self._graph.value[state])


def _columns(
    num_states: int, num_actions: int, num_transitions: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """Returns empty arrays per state, per pair and per transition, in the order of `Graph`."""
    S, n, K = num_states, num_states * num_actions, num_transitions
    states = [np.full(S, np.inf), np.full(S, np.inf), *(np.full(S, -1, np.int64) for _ in range(5))]
    pairs = [np.full(n, -1, np.int64), *(np.zeros(n, np.int64) for _ in range(6))]
    return states, pairs, [np.full(K, -1, np.int64) for _ in range(5)]
