"""Choosing one action at a time, for worlds that cannot be stepped inside a compiled loop.

The same rules as in `exploring.acting`, one call a step: what is chosen is counted at once, so that the
next choice knows of it. Arrays have room for states that are met during a block; pairs of such a state
choose uniformly, or in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled
from rhocover.exploring.acting import find, lowest, refresh
from rhocover.exploring.behaviours import (
    Balanced,
    Behaviour,
    Sampled,
    Steered,
    checked_behaviour,
    choice_cdf,
    cumulative,
)
from rhocover.exploring.index import Index, OpenIndex
from rhocover.exploring.simulator import Visits, steering
from rhocover.mdp import MDP

Choose = Callable[[int, int], int]  # (state, steps of the block before) -> pair

DRAWS = 256  # uniform numbers drawn at a time
NEVER = 1 << 62


@compiled
def take_sampled(first, cdf, visits, s, u):
    """Returns the pair of state s that u draws, and counts it."""
    i = find(cdf, first[s], first[s + 1] - 1, u)
    visits[i] += 1
    return i


@compiled
def take_lowest(first, table, visits, s, done):
    """Returns the pair of state s with the lowest score, and counts it; rows are base, rate and scale."""
    i = lowest(first, s, table[0], visits, done, table[1], table[2])
    visits[i] += 1
    return i


class Chooser:
    """A behaviour as a function of the state, with room for states that are met meanwhile.

    It holds the block's visits and scores; `fit` has the run's own point to them. Scores of a `Steered`
    behaviour are brought up to date by `refresh`, which is due whenever `until_refresh` says 0.
    """

    def __init__(self, behaviour: Behaviour, index: Index, generator: np.random.Generator) -> None:
        self._behaviour = checked_behaviour(behaviour, index) if isinstance(index, MDP) else behaviour
        self._generator = generator
        self._num_pairs = index.num_pairs
        self._uniforms: list[float] = []
        self._steering = steering(behaviour) if isinstance(behaviour, Steered) else None
        self._refreshed = -1
        self.room = 0  # pairs

    def fit(self, seen: Visits, index: Index) -> None:
        """Makes room for the pairs known now and as many more, and has `seen` show them."""
        n = index.num_pairs
        if self.room < n:
            self.room = 2 * n if isinstance(index, OpenIndex) else n
            self.visits, self.scores = np.zeros(self.room, np.int64), np.zeros(self.room)
            self.visits[: seen.pairs.size] = seen.pairs
            self._bind(index)
            self._refreshed = -1
        seen.pairs, seen.scores, seen.index = self.visits[:n], self.scores[:n], index

    def _bind(self, index: Index) -> None:
        """Makes the choice over all pairs there is room for; those met since are chosen in turn."""
        rule, first = self._behaviour, _first_pairs(index, self.room)
        if isinstance(rule, Sampled):
            self.take: Choose = self._sampling(first, _cdf(self._roomy(rule.policy, 1.0), index, first))
            return
        base = self._roomy(rule.base, 0.0) if isinstance(rule, Balanced) else self.scores
        table = np.stack([base, self._roomy(rule.rate, 0.0), self._roomy(rule.scale, 1.0)])
        self.scores = table[0]
        self.take = partial(take_lowest, first, table, self.visits)

    def _roomy(self, values: FloatArray, rest: float) -> FloatArray:
        result = np.full(self.room, rest)
        result[: self._num_pairs] = values
        return result

    def _sampling(self, first: IntArray, cdf: FloatArray) -> Choose:
        uniforms, visits = self._uniforms, self.visits

        def take(state: int, done: int) -> int:
            if not uniforms:
                uniforms.extend(self._generator.random(DRAWS).tolist())
            return take_sampled(first, cdf, visits, state, uniforms.pop())

        return take

    def until_refresh(self, done: int) -> int:
        """Returns how many steps may be taken before scores are to be brought up to date."""
        if self._steering is None:
            return NEVER
        last = self._refreshed
        return (
            0 if last < 0 or done % self._period == 0 != done - last else self._period - done % self._period
        )

    @property
    def _period(self) -> int:
        assert self._steering is not None
        return self._steering[-1]

    def refresh(self, done: int) -> None:
        """Brings the scores up to date after `done` steps of the block."""
        assert self._steering is not None
        *model, _ = self._steering
        refresh(*model, done, self.visits, self.scores)  # pyright: ignore
        self._refreshed = done

    def choose(self, state: int, done: int) -> int:
        """Returns the pair to play in a state, and counts it."""
        if self.until_refresh(done) == 0:
            self.refresh(done)
        return self.take(state, done)


def _first_pairs(index: Index, room: int) -> IntArray:
    """Returns where each state's pairs begin, with room for states to come."""
    if isinstance(index, OpenIndex):
        return np.arange(0, room + 1, index.num_actions, dtype=np.int64)
    return np.searchsorted(index.pair_state, np.arange(index.num_states + 1)).astype(np.int64)


def _cdf(policy: FloatArray, index: Index, first: IntArray) -> FloatArray:
    if isinstance(index, MDP):
        return choice_cdf(policy, index)
    total = np.add.reduceat(policy, first[:-1])
    return cumulative(policy / np.repeat(total, index.num_actions), first)
