"""The way to something new, kept up to date while transitions come in one by one.

`evidence.find_discovery_target` solves a shortest-path problem from nothing: pair i leads to something new with
probability p_i (1 if it was never tried, k/(N_i + k) after N_i tries), and otherwise to the states that followed
it before, as often as they did. Between two steps of a run only one row of that problem changes. `Search` keeps
its values and repairs what a new transition makes wrong, which is most often nothing that matters where the
agent is.

**Repair.** Each state has two values: g, which its predecessors use, and the one-step look-ahead

    h(s) = min over pairs i of s of  (1 + sum_s' Q[i, s'] g(s')) / (p_i + sum_s' Q[i, s']),   s' != s, g(s') finite.

States where they differ by more than a tolerance wait in a queue, those with the lowest min(g, h) first. A state
whose g is too high takes g = h. One whose g is much too low is set to infinity first, so that a region whose only
exit was lost does not count its values up step by step. The queue is served until the agent's state agrees with
its look-ahead and nothing waits below it: what is farther away than the next thing worth reaching stays as it is
(Lifelong Planning A*: Koenig, Likhachev and Furcy 2004; prioritised sweeping: Moore and Atkeson 1993). Every step
costs 1, so a tolerance of 0.05 is a relative error of 5 % of the steps.

**Holding an action.** Where one state stands for several steps of the environment (a code of observations), trying
its actions in turn cancels their moves, and a run can stay in one code for good. So an action is held while the
state does not change: for as many steps as it takes to leave a state with an action that does leave it, on
average over the run; and where no action has left a state yet, for ever longer.

**The size of k.** A deterministic world should be searched by untried pairs alone, a noisy one has to be doubted.
k is estimated from the retries so far: (1 + retries that met a new state) / (10 + sum of 1/N_i over retries).

Compiled, memory in proportion to what was seen, and deterministic: the same transitions give the same choices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.compiling import compiled

NONE = -1
TOLERANCE = 0.05  # steps: values closer than this are equal
JUMP = 1.0  # steps: a value that rises by more begins anew, at infinity
LONGEST_HOLD = 64  # steps of a held action in a state that has been left before
STUCK_HOLD = 4096  # and in one that was never left
LEAST_PRIOR, MOST_PRIOR = 1e-3, 1.0
FIRST_NEW, FIRST_TRIES = 1.0, 10.0  # k is 0.1 before anything was retried
LEAST_ROOM = 64  # states

# Entries of `integers`
STATES, TRANSITIONS, QUEUED, LEAVING, EXITS, EXPANDED = range(6)
# Entries of `numbers`
PRIOR, NEW, TRIES = range(3)


@compiled
def _evaluate(graph, s):
    """Returns the look-ahead of state s and the pair that attains it."""
    integers, _, values, first, visits, pending, arrives, counts, after_pair = graph[:9]
    blocked = graph[18]
    level, A = integers[6], visits.size // values.shape[1]
    best, chosen = np.inf, -1
    for i in range(s * A, s * A + A):
        if visits[i] + pending[i] < level:
            return 1.0, i
        if blocked[0, i] > integers[8]:
            continue
        total, leaves = float(visits[i]), 0
        k = first[i]
        while k >= 0:
            t = arrives[k]
            if t != s and values[0, t] < np.inf:
                total += counts[k] * values[0, t]
                leaves += counts[k]
            k = after_pair[k]
        if leaves > 0 and total / leaves < best:
            best, chosen = total / leaves, i
    return best, chosen


@compiled
def _key(values, s):
    return min(values[0, s], values[1, s])


@compiled
def _rise(heap, place, values, at):
    """Moves an entry of the queue up until none above it is larger."""
    s = heap[at]
    key = _key(values, s)
    while at > 0:
        parent = (at - 1) // 2
        if _key(values, heap[parent]) <= key:
            break
        heap[at] = heap[parent]
        place[heap[at]] = at
        at = parent
    heap[at] = s
    place[s] = at


@compiled
def _sink(heap, place, values, at, size):
    """Moves an entry of the queue down until none below it is smaller."""
    s = heap[at]
    key = _key(values, s)
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _key(values, heap[child + 1]) < _key(values, heap[child]):
            child += 1
        if _key(values, heap[child]) >= key:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = s
    place[s] = at


@compiled
def _leave_queue(integers, heap, place, values, s):
    """Takes a state out of the queue."""
    at = place[s]
    integers[2] -= 1
    last = heap[integers[2]]
    place[s] = -1
    if last != s:
        heap[at] = last
        place[last] = at
        _sink(heap, place, values, at, integers[2])
        _rise(heap, place, values, place[last])


@compiled
def _update(graph, s):
    """Looks ahead from a state, and queues it if its value is another one."""
    integers, values, greedy, heap, place = graph[0], graph[2], graph[10], graph[11], graph[12]
    ahead, chosen = _evaluate(graph, s)
    greedy[s] = chosen
    if place[s] >= 0:
        values[1, s] = ahead
        _sink(heap, place, values, place[s], integers[2])
        _rise(heap, place, values, place[s])
    g = values[0, s]
    values[1, s] = ahead
    is_same = g == ahead or abs(g - ahead) <= 0.05
    if is_same and place[s] >= 0:
        _leave_queue(integers, heap, place, values, s)
    elif not is_same and place[s] < 0:
        heap[integers[2]] = s
        place[s] = integers[2]
        integers[2] += 1
        _rise(heap, place, values, place[s])


@compiled
def _update_before(graph, s):
    """Looks ahead again from every state that has led to s."""
    arriving, leaves, after_state, visits, values = graph[9], graph[13], graph[14], graph[4], graph[2]
    A = visits.size // values.shape[1]
    last = -1
    k = arriving[s]
    while k >= 0:
        t = leaves[k] // A
        if t != s and t != last:
            _update(graph, t)
            last = t
        k = after_state[k]


@compiled
def _repair(graph, agent):
    """Serves the queue until the agent's state is right, and nothing nearer waits."""
    integers, values, heap, place = graph[0], graph[2], graph[11], graph[12]
    stamp = graph[17]
    integers[9] += 1
    for _ in range(64 + 16 * integers[0]):
        if integers[2] == 0:
            return
        s = heap[0]
        if place[agent] < 0 and _key(values, s) >= values[0, agent]:
            return
        integers[5] += 1
        _leave_queue(integers, heap, place, values, s)
        is_lower = values[0, s] > values[1, s] or values[1, s] - values[0, s] <= 1.0
        if is_lower or stamp[s] == integers[9]:
            values[0, s] = values[1, s]
        else:
            stamp[s] = integers[9]
            values[0, s] = np.inf
            _update(graph, s)
        _update_before(graph, s)


@compiled
def _observe(graph, i, t, count):
    """Counts that state t followed pair i; the pair's state is looked at again."""
    integers, numbers, values, first, visits, pending, arrives, counts, after_pair, arriving = graph[:10]
    left, leaves, after_state = graph[15], graph[13], graph[14]
    A = visits.size // values.shape[1]
    s = i // A
    integers[8] += count
    k = first[i]
    while k >= 0 and arrives[k] != t:
        k = after_pair[k]
    if k < 0:
        k = integers[1]
        integers[1] += 1
        arrives[k], leaves[k], counts[k] = t, i, 0
        after_pair[k], first[i] = first[i], k
        after_state[k], arriving[t] = arriving[t], k
    counts[k] += count
    visits[i] += count
    if t != s:
        if left[i] == 0:
            integers[3] += visits[i]
        else:
            integers[3] += count
        left[i] += count
        integers[4] += count
    elif left[i] > 0:
        integers[3] += count
    _update(graph, s)
    return k


@compiled
def _observe_many(graph, pairs, states, counts):
    """Counts transitions one after the other."""
    pending = graph[5]
    for k in range(pairs.size):
        _observe(graph, pairs[k], states[k], counts[k])
        pending[pairs[k]] = max(pending[pairs[k]] - 1, 0)


@compiled
def _limit(graph, i):
    """Returns for how many steps pair i is held while its state does not change."""
    integers, visits, values, left, blocked = graph[0], graph[4], graph[2], graph[15], graph[18]
    if left[i] > 0:
        return (2 + 3 * blocked[2, i] // left[i]) << min(blocked[1, i], 20)
    A = visits.size // values.shape[1]
    total, exits = 0, 0
    for j in range(i // A * A, i // A * A + A):
        total += visits[j]
        exits += left[j]
    if exits == 0:
        return min(1 + total // A, 4096)
    return min(max(-(-integers[3] // integers[4]), integers[6]), 64)


@compiled
def _block(graph, i):
    """Does without a pair for a while that does not lead where it led before."""
    integers, blocked, waiting = graph[0], graph[18], graph[19]
    blocked[0, i] = integers[8] + (64 << min(blocked[1, i], 20))
    blocked[1, i] += 1
    if integers[10] < waiting.size:
        waiting[integers[10]] = i
        integers[10] += 1
        integers[11] = min(integers[11], blocked[0, i])
    _update(graph, i // (graph[4].size // graph[2].shape[1]))


@compiled
def _unblock(graph):
    """Takes pairs back whose time is over."""
    integers, blocked, waiting = graph[0], graph[18], graph[19]
    A = graph[4].size // graph[2].shape[1]
    kept, integers[11] = 0, 1 << 62
    for k in range(integers[10]):
        i = waiting[k]
        if blocked[0, i] > integers[8]:
            waiting[kept] = i
            kept += 1
            integers[11] = min(integers[11], blocked[0, i])
        else:
            _update(graph, i // A)
    integers[10] = kept


@compiled
def _mixed(x):
    """Returns a whole number scrambled (splitmix64), so that untried actions have a random order."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _untried(graph, s, seed):
    """Returns a pair of the state that was never tried, -1 if there is none."""
    integers, visits, pending, values = graph[0], graph[4], graph[5], graph[2]
    A = visits.size // values.shape[1]
    found, least = -1, np.uint64(0)
    for i in range(s * A, s * A + A):
        if visits[i] + pending[i] < integers[6]:
            rank = _mixed(np.int64(i) * 2654435761 + seed + visits[i])
            if found < 0 or rank < least:
                found, least = i, rank
    return found


@compiled
def _begin_anew(graph):
    """Sets every value to infinity and queues every state, for a new k."""
    integers, values, heap, place = graph[0], graph[2], graph[11], graph[12]
    integers[2] = 0
    values[:, : integers[0]] = np.inf
    place[: integers[0]] = -1
    for s in range(integers[0]):
        _update(graph, s)


@compiled
def _raise_level(graph, s, seed):
    """Wants more tries of every pair, now that nothing wanted can be reached; returns the next pair."""
    integers, visits, pending, values, greedy = graph[0], graph[4], graph[5], graph[2], graph[10]
    integers[7] += 1
    if integers[7] * 64 >= integers[0]:
        integers[7] = 0
        integers[6] += 1
        _begin_anew(graph)
        i = _untried(graph, s, seed)
        if i >= 0:
            return i
        _repair(graph, s)
        if values[1, s] <= integers[0]:
            return greedy[s]
    A = visits.size // values.shape[1]
    found = s * A
    for i in range(s * A, s * A + A):
        if visits[i] + pending[i] < visits[found] + pending[found]:
            found = i
    return found


@compiled
def _choose(graph, chain, s, seed):
    """Returns the pair to play in state s: the held one, an untried one, or the way to something new."""
    integers, visits, pending, values, greedy = graph[0], graph[4], graph[5], graph[2], graph[10]
    left, held, blocked = graph[15], graph[16], graph[18]
    A = visits.size // values.shape[1]
    i = held[0, chain]
    if i >= 0 and i // A == s:
        if held[1, chain] < _limit(graph, i):
            held[1, chain] += 1
            pending[i] += 1
            return i
        if left[i] > 0:
            _block(graph, i)
    elif i >= 0:  # it has left its state
        blocked[2, i] += held[1, chain]
        blocked[1, i] = max(blocked[1, i] - 1, 0)
    if integers[8] >= integers[11]:
        _unblock(graph)
    i = _untried(graph, s, seed)
    if i < 0:
        _repair(graph, s)
        i = greedy[s] if values[1, s] <= integers[0] else _raise_level(graph, s, seed)
    held[0, chain], held[1, chain] = i, 1
    pending[i] += 1
    return i


class Search:
    """Chooses actions that lead to something new, from the transitions observed so far.

    States are numbered 0, 1, ... as they are met (`add_states`), each with the same number of actions; pair i is
    action i % A of state i // A. `observe` counts a transition, `choose` returns the pair to play.
    """

    def __init__(self, num_actions: int, seed: int = 0, num_chains: int = 1) -> None:
        self._A, self._seed = num_actions, seed % 2**31
        self.integers, self.numbers = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1 << 62]), np.array([0.1, FIRST_NEW, FIRST_TRIES])
        self._held = np.full((2, num_chains), NONE, np.int64)
        self._waiting = np.zeros(4096, np.int64)
        self._per_state: list[Any] = []
        self._per_pair: list[Any] = []
        self._per_transition: list[Any] = []
        self._room(0, 0)

    @property
    def num_states(self) -> int:
        """How many states were met."""
        return int(self.integers[STATES])

    @property
    def prior(self) -> float:
        """The k of the values: how many tries the doubt about a pair is worth."""
        return float(self.numbers[PRIOR])

    @property
    def hold(self) -> int:
        """For how many steps an action is held in a state that does not change."""
        return int(min(-(-self.integers[LEAVING] // max(self.integers[EXITS], 1)), LONGEST_HOLD))

    def _room(self, states: int, transitions: int) -> None:
        """Makes room for so many more states and transitions."""
        need_s, need_k = self.num_states + states, int(self.integers[TRANSITIONS]) + transitions
        if not self._per_state or self._per_state[1].size < need_s:
            size, A = max(2 * need_s, LEAST_ROOM), self._A
            values = np.full((2, size), np.inf)
            arriving, greedy, heap, place, stamp = (np.full(size, NONE, np.int64) for _ in range(5))
            self._per_state = _refilled(self._per_state, [values, arriving, greedy, heap, place, stamp])
            pairs = [np.full(size * A, NONE, np.int64), *(np.zeros(size * A, np.int64) for _ in range(3))]
            pairs.append(np.zeros((3, size * A), np.int64))
            self._per_pair = _refilled(self._per_pair, pairs)
        if not self._per_transition or self._per_transition[0].size < need_k:
            size = max(2 * need_k, 4 * LEAST_ROOM)
            columns = [np.full(size, NONE, np.int64) for _ in range(5)]
            self._per_transition = _refilled(self._per_transition, columns)
        values, arriving, greedy, heap, place, stamp = self._per_state
        first, visits, pending, left, blocked = self._per_pair
        arrives, counts, after_pair, leaves, after_state = self._per_transition
        self._graph = (
            self.integers, self.numbers, values, first, visits, pending, arrives, counts, after_pair,
            arriving, greedy, heap, place, leaves, after_state, left, self._held,
            stamp, blocked, self._waiting,
        )  # fmt: skip

    def add_states(self, number: int) -> None:
        """Makes the states with numbers below `number` known."""
        if number <= self.num_states:
            return
        self._room(number - self.num_states, 0)
        for s in range(self.num_states, number):
            self.integers[STATES] = s + 1
            _update(self._graph, s)

    def observe(self, pair: int, state: int, count: int = 1) -> None:
        """Counts that `state` followed `pair`."""
        if self._per_transition[0].size <= self.integers[TRANSITIONS]:
            self._room(0, 1)
        _observe(self._graph, pair, state, count)
        pending = self._per_pair[2]
        if pending[pair] > 0:
            pending[pair] -= 1

    def observe_many(self, pairs: Any, states: Any) -> None:
        """Counts transitions, one after the other."""
        pairs, states = np.asarray(pairs, np.int64), np.asarray(states, np.int64)
        if pairs.size:
            self.add_states(int(max(states.max(), pairs.max() // self._A)) + 1)
            self._room(0, pairs.size)
            _observe_many(self._graph, pairs, states, np.ones(pairs.size, np.int64))

    def observe_counts(self, index: Any, moves: Any) -> None:
        """Counts transitions that were seen before, `moves[k]` times from `index.leaves[k]` each."""
        size = moves.size
        self.add_states(index.num_states)
        self._room(0, size)
        seen = np.flatnonzero(moves)
        _observe_many(self._graph, index.leaves[:size][seen], index.arrives[:size][seen], moves[seen])

    def choose(self, state: int, chain: int = 0) -> int:
        """Returns the pair to play in a state."""
        return _choose(self._graph, chain, state, self._seed)

    def _renew_prior(self) -> None:
        """Takes a new k when the estimate has changed by a factor of two; all values are then made anew."""
        k = min(max(self.numbers[NEW] / self.numbers[TRIES], LEAST_PRIOR), MOST_PRIOR)
        if not 0.5 < k / self.prior < 2:
            self.numbers[PRIOR] = k
            _begin_anew(self._graph)

    def steps(self, state: int) -> float:
        """Returns the expected steps from a state to something new."""
        _repair(self._graph, state)
        return float(self._per_state[0][0, state])


def _refilled(before: list[Any], arrays: list[Any]) -> list[Any]:
    """Returns the new arrays with the old contents at their beginning."""
    for old, new in zip(before, arrays, strict=False):
        new[..., : old.shape[-1]] = old
    return arrays
