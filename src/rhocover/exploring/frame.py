"""What a learner may know: before the first step a frame, after it also what its transitions tell.

The frame is which states and actions have names, where the run began, and what matters. States join as they
are met, each with all its actions; the estimate is over these alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.exploring.index import Index, OpenIndex, counts_of_moves
from rhocover.learning.estimate import Estimate
from rhocover.learning.rules import Rule
from rhocover.occupancy import Occupancies


@dataclass(frozen=True, eq=False)
class Frame:
    """What a learner may know before the first step: names of states and actions, roots, the objective.

    `world` and `members` are there for their index: which action of which state a pair is. Their
    probabilities are not read.
    """

    world: Index
    members: Occupancies | None  # of the caller's criterion: which step of which pair a pair of the world is
    rho: float
    mu: FloatArray | None  # per pair of the world; None where a rule says it
    rule: Rule | None
    roots: IntArray
    seed: int

    def counts(self, moves: IntArray) -> sp.csr_array:
        """Returns how often each state followed each pair, `[n, S]` of the world."""
        return counts_of_moves(self.world, moves)

    def grown(self, index: Index) -> Frame:
        """Returns the frame of a world that has shown more of itself."""
        if not isinstance(index, OpenIndex):
            return self
        mu = self.mu if self.mu is None else index.weights
        return replace(self, world=index, mu=mu, roots=index.roots)


@dataclass(frozen=True, eq=False)
class Known:
    """The part of the world that is known: its states, their pairs, and the estimate over them."""

    states: IntArray  # the world's numbers, in order
    pairs: IntArray
    estimate: Estimate


def met_states(frame: Frame, counts: sp.csr_array) -> BoolArray:
    """Returns which states of the world were met: a run began there, or a transition led there."""
    met = np.full(frame.world.num_states, isinstance(frame.world, OpenIndex))
    met[frame.roots] = True
    met[counts.indices] = True
    return met


def make_known(frame: Frame, moves: IntArray, *, met_only: bool, smoothing: float) -> Known:
    """Returns what is known from the transitions `moves`, of the states met or of all there are."""
    world = frame.world
    counts = frame.counts(moves)
    met = met_states(frame, counts) if met_only else np.ones(world.num_states, bool)
    states, pairs = np.flatnonzero(met), np.flatnonzero(met[world.pair_state])
    number = np.cumsum(met) - 1
    if states.size < world.num_states:
        counts = counts[pairs]
        shape = (pairs.size, states.size)
        counts = sp.csr_array((counts.data, number[counts.indices], counts.indptr), shape=shape)
    estimate = Estimate(
        counts, number[world.pair_state[pairs]], world.pair_action[pairs], world.num_actions,
        number[frame.roots], smoothing, world.name,
    )  # fmt: skip
    return Known(states, pairs, estimate)
