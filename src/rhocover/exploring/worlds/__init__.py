"""Worlds: where chains act. The protocol, and how pairs and transitions of a world are numbered.

A world has a position (the states of its chains, and a generator), follows a behaviour, and counts what it
sees. `simulator` makes one from a model; `rhocover.collecting` makes one from an environment.

Pairs are numbered by a model, or as they are met. Counts of transitions are a vector, `moves`. In a model,
entry j belongs to entry j of its sparse rows. In a world without a model transitions get numbers as they are
seen and keep them, so the counts of an earlier time are shorter and still mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.worlds.behaviours import Behaviour
from rhocover.mdp import MDP

if TYPE_CHECKING:
    from types import FrameType

    from rhocover.exploring.problem import Problem
    from rhocover.exploring.runs.runner import Runner, RunState
    from rhocover.exploring.runs.spec import RunSpec


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


@dataclass(eq=False)
class Position:
    """Where the chains are, `[chains]`, and the generator that decides where they go. It moves."""

    states: IntArray
    generator: np.random.Generator


@dataclass(eq=False)
class Visits:
    """What was seen: visits of pairs `[n]` in this block, and of transitions `[nnz]` in the whole run.

    Counts are sums, so what many workers saw merges by addition. `moves` is aligned with
    `mdp.transitions`: entry j counts how often successor `indices[j]` followed. It is not cleared
    between blocks, because it is long and blocks may be short.
    """

    pairs: IntArray
    moves: IntArray
    num_steps: int  # of this block
    scores: FloatArray  # what a steered behaviour carries from step to step, [n]
    index: Index  # what the numbers of pairs and transitions mean

    def __add__(self, other: Visits) -> Visits:
        steps = self.num_steps + other.num_steps
        return Visits(self.pairs + other.pairs, self.moves + other.moves, steps, self.scores, self.index)

    @property
    def total(self) -> IntArray:
        """Visits of each pair in the whole run, `[n]`."""
        return visits_of_moves(self.index, self.moves)

    def next_block(self) -> None:
        """Clears what belongs to the block."""
        self.pairs[:] = 0
        self.num_steps = 0

    @classmethod
    def none(cls, mdp: Index) -> Visits:
        """Returns the visits of no steps at all."""
        n = mdp.num_pairs
        return cls(np.zeros(n, np.int64), no_moves(mdp), 0, np.zeros(n), mdp)


class World(Protocol):
    """Where chains act: a simulated model, one environment, or a vector of them. `run` needs no more."""

    num_chains: int

    @property
    def problem(self) -> Problem | None:
        """The true problem; None where nobody has a model."""
        ...

    @property
    def is_foreign(self) -> Callable[[FrameType | None], bool] | None:
        """Says whether a frame runs code of somebody else, which may never end; None: none ever does."""
        ...

    @property
    def batch_steps(self) -> int:
        """Steps to take between two looks at the clock and at Ctrl-C."""
        ...

    def opened(self) -> AbstractContextManager[Any]:
        """Returns what has to be open while the world is acted in."""
        ...

    def start(self, spec: RunSpec) -> RunState:
        """Returns the state of a run before its first step."""
        ...

    def follow(self, behaviour: Behaviour) -> Any:
        """Returns the behaviour as what `advance` takes."""
        ...

    def advance(self, position: Position, act: Any, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps; changes the position and what was seen."""
        ...

    def marks(self, spec: RunSpec) -> list[int]:
        """Returns the steps to report at; the last one ends the run."""
        ...

    def measure(self, counts: IntArray, num_steps: int) -> list[float]:
        """Returns a row of the trace."""
        ...

    def result(self, spec: RunSpec, runner: Runner, seconds: float) -> Any:
        """Returns the finished run."""
        ...
