"""Counts that grow: states get their numbers as they are met.

The hot path of every wrapper, so it is made of plain lists and dictionaries (a NumPy element costs five
times a list's). A `Trajectory` follows one environment and tells the counter what happened; several
trajectories may share one counter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

import numpy as np

from rhocover.adapters.visits import Visits, make_visits, ordered
from rhocover.checks import IntArray


class VisitCounter:
    """Counts of pairs, moves, ends and starts; pair `s*A + a` of state number s keeps its number for ever."""

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions
        self.keys: list[Hashable] = []
        self.counts: list[int] = []  # [S*A]
        self.num_steps = 0
        self.listener: Callable[[int], None] | None = None  # told of each pair, just after it was counted
        self._number: dict[Hashable, int] = {}
        self._moves: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._ends: defaultdict[int, int] = defaultdict(int)
        self._starts: defaultdict[int, int] = defaultdict(int)
        self._num_truncated = 0

    def state(self, key: Hashable) -> int:
        """Returns the number of the state, a new one if it was not met before."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.keys)
            self.keys.append(key)
            self.counts += [0] * self.num_actions
        return number

    def start(self, state: int) -> None:
        """Counts an episode that began in `state`."""
        self._starts[state] += 1

    def visit(self, pair: int, next_state: int | None, *, is_cut: bool = False) -> None:
        """Counts a step that went on to `next_state`, or ended its episode (None)."""
        self.counts[pair] += 1
        self.num_steps += 1
        if next_state is None:
            self._ends[pair] += 1
        else:
            self._moves[pair, next_state] += 1
            self._num_truncated += is_cut
        if self.listener is not None:
            self.listener(pair)

    def visits(self) -> Visits:
        """Returns what was counted so far, as a value."""
        keys = ordered(self.keys)
        met = np.array(
            [self._number[key] for key in keys], np.int64
        )  # the numbers of the keys, in their order
        place = np.empty(len(keys), np.int64)
        place[met] = np.arange(len(keys))
        A = self.num_actions
        cells = np.array([(p, s, n) for (p, s), n in self._moves.items()], np.int64).reshape(-1, 3).T
        cells = np.stack([place[cells[0] // A] * A + cells[0] % A, place[cells[1]], cells[2]])
        counts = np.array(self.counts, np.int64).reshape(-1, A)[met]
        ends = _dense(self._ends, len(keys) * A).reshape(-1, A)[met]
        return make_visits(
            keys, counts, cells, ends, _dense(self._starts, len(keys))[met], self._num_truncated
        )


class Trajectory:
    """Where one environment is, as far as it told: the state of the observation it last returned.

    `state` is None between an end and the next start. A step in that time is no visit, and neither is one
    that raised: the pair is what was last returned and the action that was then taken.
    """

    def __init__(self, counter: VisitCounter) -> None:
        self.counter = counter
        self.state: int | None = None

    def start(self, key: Hashable) -> None:
        """Begins an episode in the state of `key`."""
        self.state = self.counter.state(key)
        self.counter.start(self.state)

    def pair(self, action: int) -> int | None:
        """Returns the pair that a step with `action` would visit; None if it would visit none."""
        return None if self.state is None else self.state * self.counter.num_actions + action

    def move(self, pair: int, key: Hashable, *, is_cut: bool = False) -> None:
        """Counts a step that went on to the state of `key`; with `is_cut` the episode stopped there."""
        next_state = self.counter.state(key)
        self.counter.visit(pair, next_state, is_cut=is_cut)
        self.state = None if is_cut else next_state

    def end(self, pair: int) -> None:
        """Counts a step that ended the episode."""
        self.counter.visit(pair, None)
        self.state = None


def _dense(counts: dict[int, int], length: int) -> IntArray:
    array = np.zeros(length, np.int64)
    array[list(counts)] = list(counts.values())
    return array
