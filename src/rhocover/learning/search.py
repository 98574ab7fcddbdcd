"""A search that leads a run to what was tried least, also where states are coarse or hide something.

`Search` is told every transition and chooses every action: an untried pair, or the first step of the way to
one, by values that `search_graph` keeps right. The level rises when no wanted pair can be reached within the
steps that it usually takes to leave as many states as there are, or none was reached in so many choices.

**Holding an action.** Where one state stands for several steps of the environment (a code of observations),
trying its actions in turn cancels their moves, and a run can stay in one code for good. So an action is held
while the state does not change, and counts as one try: an action that has never left its state for as long as
those that leave take on average (and at least `level` steps), an action that has left it for three times as
long as it took. Where nothing leaves a state, actions are held for random times, longer and longer: it may
take a long push, or the right rhythm. Where actions that leave do so at once, none is held.

**Aliases.** A code can cover two places, such as both sides of a wall. An action that has led from one of
them to another state fails in the other, however often it is tried. When an action that used to leave was
held in vain, the search does without it for some steps, and for twice as many when it fails again. Then it
acts at random for a moment: the same actions from the same place inside a code would fail in the same way.
When an episode begins, the world is as it was, and every action is taken back.

**Lost ways.** A step can lead to a state from where the way to what is wanted is much longer than it was: a
key was put down. If the state does not show all there is, an action that did nothing there before may undo
it, so those are tried again first, about as often as the logarithm of the visits.

Compiled; memory in proportion to what was seen; the same transitions give the same choices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.compiling import compiled
from rhocover.learning.search_graph import (
    ACTIONS,
    AGAIN,
    BRISK,
    CLOCK,
    COST,
    CREDIT,
    EXITS,
    HOLDS,
    LATE,
    LEAVING_STEPS,
    LEVEL,
    NEXT_END,
    NUM_COUNTERS,
    NUM_YIELDS,
    RETRIED,
    SAVED,
    SERVED,
    STATES,
    STRANDED,
    TRANSITIONS,
    WAITING,
    WALKED,
    Graph,
    begin_anew,
    effort,
    observe,
    observe_all,
    repair,
    replay,
    retry,
    update,
    weigh,
)

LONGEST_HOLD = 64  # steps of an action that has never left a state that others leave
STUCK_HOLD = 4096  # steps of an action in a state that nothing has left, at most
STUCK = 2  # times the usual hold of every action in a state that nothing has left: then holds are random
PATIENCE = 3  # an action that leaves is held for this many times its mean
FIRST_PAUSE = 64  # steps without an action that failed, doubled each time
DOUBLINGS = 20  # of holds and pauses, at most
RARELY = 64  # the level rises at most once in this share of the states: it is work for all of them
MOST_WAITING = 4096  # pauses whose end is noticed at once; others end when their state is looked at
SELDOM = 64  # if less than one in so many leaves later than at once, no action is held
LEAST_HOLDS = 256  # before that is judged; then at every doubling
LEAST_ROOM = 64  # states
NEVER = 1 << 62
FORBIDDEN = 1 << 50  # tries of a pair that cannot be played: it is never the least tried, nor wanted


@compiled
def _judge(graph):
    """Notes whether actions that leave a state do so at once; judged when the holds have doubled."""
    counters = graph.counters
    if counters[HOLDS] >= LEAST_HOLDS and counters[HOLDS] & (counters[HOLDS] - 1) == 0:
        is_brisk = 1 if SELDOM * counters[LATE] < counters[HOLDS] else 0
        if is_brisk != counters[BRISK]:
            counters[BRISK] = is_brisk
            begin_anew(graph)


@compiled
def _random(number, seed):
    """Returns a whole number below 2147483647 that looks random."""
    return (number * 48271 + seed) % 2147483647 * 16807 % 2147483647


@compiled
def _usual(graph):
    """Returns how many steps it usually takes to leave a state, rounded up."""
    return -(-graph.counters[LEAVING_STEPS] // max(graph.counters[EXITS], 1))


@compiled
def _limit(graph, i, seed):
    """Returns for how many steps pair i is held while its state does not change."""
    if graph.left[i] > 0:
        if graph.counters[BRISK] == 1:
            return max(2 * -(-graph.leaving[i] // graph.left[i]), 1)
        usual = 2 + PATIENCE * -(-graph.leaving[i] // graph.left[i])
        return max(usual, min(usual << min(graph.pauses[i], DOUBLINGS), LONGEST_HOLD))
    A, total, exits = graph.counters[ACTIONS], 0, 0
    for j in range(i // A * A, i // A * A + A):
        total += graph.visits[j]
        exits += graph.left[j]
    usual = _usual(graph)
    hold = 1 if graph.counters[BRISK] == 1 else min(max(usual, graph.counters[LEVEL]), LONGEST_HOLD)
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
    update(graph, i // counters[ACTIONS])


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
            update(graph, i // counters[ACTIONS])
    counters[WAITING] = kept


@compiled
def _least_tried(graph, s, seed):
    """Returns the pair of the state that was tried least; equals in an order that looks random."""
    A, found, least = graph.counters[ACTIONS], -1, 0.0
    for i in range(s * A, s * A + A):
        rank = _random(i + 7919 * graph.tries[i], seed) * graph.yields[COST, i % A]
        own, fewest = effort(graph, i), effort(graph, max(found, 0))
        if found < 0 or own < fewest or (own == fewest and rank < least):
            found, least = i, rank
    return found


@compiled
def _way(graph, s, seed):
    """Returns the pair that leads to what is wanted; raises the level if that is out of reach."""
    counters = graph.counters
    repair(graph, s)
    far = retry(graph) + _usual(graph) * counters[STATES]
    if graph.ahead[s] > far or counters[WALKED] > far:
        counters[STRANDED] += 1
        if counters[STRANDED] * RARELY < counters[STATES]:
            return _least_tried(graph, s, seed)
        counters[STRANDED] = counters[WALKED] = 0
        counters[LEVEL] += 1
        begin_anew(graph)
        repair(graph, s)
    is_on_the_way = graph.ahead[s] < np.inf and graph.ahead[s] != retry(graph)
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
    is_now = graph.tries[i] == 0 and graph.yields[COST, i % graph.counters[ACTIONS]] == 1
    return i if is_now else _way(graph, s, seed)


@compiled
def _idle(graph, s):
    """Returns the least tried of the pairs that have never left a state, -1 if all were often tried."""
    A, found, total = graph.counters[ACTIONS], -1, 0
    for i in range(s * A, s * A + A):
        total += graph.visits[i]
        if graph.left[i] == 0 and (found < 0 or effort(graph, i) < effort(graph, found)):
            found = i
    return found if found >= 0 and 2.0 ** effort(graph, found) <= 2 * total else -1


@compiled
def _is_lost(graph, i, s):
    """Whether pair i led to a state from where the way to what is wanted is much longer than it was."""
    A = graph.counters[ACTIONS]
    return graph.ahead[s] > graph.ahead[i // A] + A


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
        counters[LATE] += held[1, chain] > 1
        counters[HOLDS] += 1
        _judge(graph)
        graph.pauses[i] = max(graph.pauses[i] - 1, 0)
    before = i
    i = _shake(graph, s, seed) if in_vain else _next(graph, s, seed)
    if before >= 0 and before // counters[ACTIONS] != s:
        held[3, chain] = 1 if _is_lost(graph, before, s) else 0
    if held[3, chain] == 1 and not in_vain:
        idle = _idle(graph, s)
        if idle >= 0:
            i = idle
    counters[WALKED] = 0 if effort(graph, i) < counters[LEVEL] else counters[WALKED] + 1
    if graph.tries[i] > 0 and graph.left[i] == 0:
        graph.yields[RETRIED, i % counters[ACTIONS]] += 1
        weigh(graph, RETRIED)
    limit = _limit(graph, i, seed)
    held[0, chain], held[1, chain] = i, 1
    held[2, chain] = 1 + _random(counters[CLOCK] + 1, seed) % limit if in_vain else limit
    graph.tries[i] += 1
    return i


@compiled
def _begin_episode(graph, chain):
    """Forgets what is held and takes every paused pair back: the world is as it was at the start."""
    graph.held[:, chain] = -1
    for k in range(graph.counters[WAITING]):
        graph.paused[graph.waiting[k]] = graph.counters[CLOCK]
    _end_pauses(graph)


class Search:
    """Chooses actions that lead to what was tried least, from the transitions observed so far.

    States are numbered 0, 1, ... as they are met (`add_states`), each with the same number of actions.
    `choose` returns the pair to play, `observe` counts where it led. Several chains may act on one search.
    """

    def __init__(self, num_actions: int, seed: int = 0, num_chains: int = 1) -> None:
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0]) % 2147483647
        counters = np.zeros(NUM_COUNTERS, np.int64)
        counters[[ACTIONS, LEVEL, NEXT_END]] = num_actions, 1, NEVER
        yields = np.zeros((NUM_YIELDS, num_actions))
        yields[[COST, AGAIN]] = 1
        held, waiting = np.full((4, num_chains), -1, np.int64), np.zeros(MOST_WAITING, np.int64)
        states, pairs, transitions = _columns(LEAST_ROOM, num_actions, LEAST_ROOM)
        self._graph = Graph._make([counters, *states, *pairs, *transitions, yields, held, waiting])

    @property
    def num_states(self) -> int:
        """How many states were met."""
        return int(self._graph.counters[STATES])

    @property
    def level(self) -> int:
        """How often each pair is to be tried by now."""
        return int(self._graph.counters[LEVEL])

    @property
    def costs(self) -> FloatArray:
        """The steps that an untried pair of each action counts, `[A]`."""
        return self._graph.yields[COST].copy()

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
        for old, new in zip(g[1:-3], (*states, *pairs, *transitions), strict=True):
            new[: old.size] = old
        self._graph = Graph._make([g.counters, *states, *pairs, *transitions, g.yields, g.held, g.waiting])

    def add_states(self, number: int) -> None:
        """Makes the states with numbers below `number` known."""
        before = self.num_states
        if number > before:
            self._make_room(number, 0)
            self._graph.counters[STATES] = number
            self._graph.counters[CREDIT] += SAVED * (number - before)
            for s in range(before, number):
                update(self._graph, s)

    def observe(self, pair: int, state: int) -> None:
        """Counts that a state followed a pair."""
        if state >= self.num_states:
            self.add_states(state + 1)
        if self._graph.counters[TRANSITIONS] == self._graph.source.size:
            self._make_room(0, self._graph.source.size + 1)
        observe(self._graph, pair, state, 1)

    def observe_all(self, pairs: Any, states: Any, counts: Any = None) -> None:
        """Counts that each of `states` followed its pair, `counts` times each (once by default)."""
        pairs, states = np.asarray(pairs, np.int64), np.asarray(states, np.int64)
        counts = np.ones(pairs.size, np.int64) if counts is None else np.asarray(counts, np.int64)
        if pairs.size:
            self.add_states(
                1 + max(int(states.max()), int(pairs.max()) // int(self._graph.counters[ACTIONS]))
            )
            self._make_room(0, int(self._graph.counters[TRANSITIONS]) + pairs.size)
            observe_all(self._graph, pairs, states, counts)

    def allow(self, pair: int, *, is_allowed: bool) -> None:
        """Takes a pair that cannot be played out of the search, or into it again."""
        state = pair // int(self._graph.counters[ACTIONS])
        self.add_states(state + 1)
        if is_allowed != (self._graph.tries[pair] < FORBIDDEN):
            self._graph.tries[pair] = 0 if is_allowed else FORBIDDEN
            update(self._graph, state)

    def replay(self, pairs: Any, states: Any) -> None:
        """Counts the steps of one chain in their order: which pairs were played, and where each led.

        Afterwards the search knows how often each was tried, and how long it took to leave.
        """
        pairs, states = np.asarray(pairs, np.int64), np.asarray(states, np.int64)
        if pairs.size:
            num_actions, room = int(self._graph.counters[ACTIONS]), int(self._graph.counters[TRANSITIONS])
            self.add_states(1 + max(int(states.max()), int(pairs.max()) // num_actions))
            self._make_room(0, room + np.unique(np.stack([pairs, states]), axis=1).shape[1])
            replay(self._graph, pairs, states)

    def choose(self, state: int, chain: int = 0) -> int:
        """Returns the pair to play in a state."""
        if state >= self.num_states:
            self.add_states(state + 1)
        return int(_choose(self._graph, chain, state, self._seed))

    def begin_episode(self, chain: int = 0) -> None:
        """Notes that the world of a chain begins anew: actions that failed in it may work again."""
        _begin_episode(self._graph, chain)

    def expected_steps(self, state: int) -> float:
        """Returns the expected steps from a state to a wanted pair, infinite if none can be reached."""
        repair(self._graph, state)
        return float(self._graph.value[state])


def _columns(
    num_states: int, num_actions: int, num_transitions: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """Returns empty arrays per state, per pair and per transition, in the order of `Graph`."""
    S, n, K = num_states, num_states * num_actions, num_transitions
    states = [np.full(S, np.inf), np.full(S, np.inf), *(np.full(S, -1, np.int64) for _ in range(5))]
    pairs = [np.full(n, -1, np.int64), *(np.zeros(n, np.int64) for _ in range(6))]
    return states, pairs, [np.full(K, -1, np.int64) for _ in range(5)]
