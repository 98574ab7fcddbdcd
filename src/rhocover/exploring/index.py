"""How the pairs and transitions of a world are numbered: by its model, or as they are met.

Counts of transitions are a vector, `moves`. In a model, entry j belongs to entry j of its sparse rows. In a
world without a model transitions get numbers as they are seen and keep them, so the counts of an earlier
time are shorter and still mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, IntArray
from rhocover.mdp import MDP


@dataclass(frozen=True, eq=False)
class OpenIndex:
    """The states met so far, each with the same actions; transition k led from a pair to a state."""

    num_states: int
    num_actions: int
    leaves: IntArray  # the pair that transition k left, [transitions]
    arrives: IntArray  # the state that it led to
    weights: FloatArray  # of the pairs, [n]
    roots: IntArray  # states that an episode began in
    name: str = ""

    @property
    def num_pairs(self) -> int:
        """How many pairs there are."""
        return self.num_states * self.num_actions

    @cached_property
    def pair_state(self) -> IntArray:
        """The state of each pair, `[n]`."""
        return np.repeat(np.arange(self.num_states), self.num_actions)

    @cached_property
    def pair_action(self) -> IntArray:
        """The action of each pair, `[n]`."""
        return np.tile(np.arange(self.num_actions), self.num_states)


Index = MDP | OpenIndex


def no_moves(world: Index) -> IntArray:
    """Returns the counts of no transitions."""
    size = world.leaves.size if isinstance(world, OpenIndex) else world.transitions.nnz
    return np.zeros(size, np.int64)


def counts_of_moves(world: Index, moves: IntArray) -> sp.csr_array:
    """Returns how often each state followed each pair, int64 `[n, S]`, from counts per transition."""
    seen = np.flatnonzero(moves)
    if isinstance(world, OpenIndex):
        place = (world.leaves[seen], world.arrives[seen])
        counts = sp.csr_array((moves[seen], place), shape=(world.num_pairs, world.num_states))
        counts.sort_indices()
        return counts
    P = world.transitions
    return sp.csr_array((moves[seen], P.indices[seen], np.searchsorted(seen, P.indptr)), shape=P.shape)


def visits_of_moves(world: Index, moves: IntArray) -> IntArray:
    """Returns how often each pair was visited, int64 `[n]`, from counts per transition."""
    if isinstance(world, OpenIndex):
        visits = np.zeros(world.num_pairs, np.int64)
        np.add.at(visits, world.leaves[: moves.size], moves)
        return visits
    return np.add.reduceat(moves, world.transitions.indptr[:-1])
