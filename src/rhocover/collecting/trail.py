"""What a run in an environment leaves beside its counts of transitions: beginnings, ends, what came before.

Where an episode ends the counts of a run go on with the next start, as the model does that it is planned on.
The trail remembers which of them were ends, so that a tally can say what the environment did. It also keeps
the first steps one by one, for the test of whether its states are Markov.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.learning.markov import MarkovTest, markov_test

FIRST = 1 << 18  # steps that are kept one by one: some megabytes, and a second for the test
ENDED = -1  # the next state of a step that ended its episode


class Trail:
    """Takes the steps of a run in order; pairs and states have the numbers of its map."""

    def __init__(self) -> None:
        self.starts: Counter[int] = Counter()  # how often an episode began in a state
        self.restarts: Counter[tuple[int, int]] = Counter()  # ends: the pair, and the start that followed
        self.num_cut = 0  # episodes that a time limit ended
        self.end_keys: dict[Hashable, None] = {}  # what was shown where episodes ended, in order
        self._is_open: dict[int, bool] = {}  # which copies are in the middle of an episode
        self._kept: list[tuple[Any, ...]] = []  # states, actions, next states, whether they began, copies
        self._num_kept = 0

    @property
    def num_episodes(self) -> int:
        """Episodes of one step or more."""
        return self.starts.total()

    @property
    def num_truncated(self) -> int:
        """Those that did not end: cut by a time limit, or by the end of the run."""
        return self.num_cut + sum(self._is_open.values())

    def add(
        self, states: IntArray, actions: IntArray, pairs: IntArray, nexts: IntArray, ended: BoolArray,
        cut: BoolArray, copies: IntArray,
    ) -> None:  # fmt: skip
        """Takes steps, `[T]` each: whether they ended or cut their episode, and which copy made them."""
        began = self._began(ended | cut, copies)
        self.starts.update(states[began].tolist())
        self.restarts.update(zip(pairs[ended].tolist(), nexts[ended].tolist(), strict=True))
        self.num_cut += int(np.count_nonzero(cut & ~ended))
        num = min(FIRST - self._num_kept, states.size)
        if num > 0:
            columns = (states, actions, np.where(ended, ENDED, nexts), began, copies)
            self._kept.append(tuple(column[:num].astype(np.int32) for column in columns))
            self._num_kept += num

    def _began(self, over: BoolArray, copies: IntArray) -> BoolArray:
        """Returns which steps are the first of their episode."""
        began = np.empty(over.size, bool)
        for copy in np.unique(copies).tolist():
            own = np.flatnonzero(copies == copy)
            began[own[1:]] = over[own[:-1]]
            began[own[0]] = not self._is_open.get(copy, False)
            self._is_open[copy] = not over[own[-1]]
        return began

    def markov_test(self) -> MarkovTest:
        """Returns whether the states were seen not to be Markov, by the first steps."""
        columns = zip(*self._kept, strict=True) if self._kept else ([np.zeros(0, np.int64)] for _ in range(5))
        return markov_test(*(np.concatenate(parts) for parts in columns))
