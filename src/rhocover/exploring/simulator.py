"""A world made from a model: any number of chains, sparse, fast, and repeatable to the bit.

Where a world stands is a `Position`: the chains' states and the random generator. It can be stored at any
step and continued from there. Two uniform numbers are drawn for each step, one to act and one to move,
whatever the behaviour, so two behaviours meet the same luck as long as they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.acting import act_balanced, act_sampled, act_steered
from rhocover.exploring.behaviours import (
    Behaviour,
    Sampled,
    Steered,
    checked_behaviour,
    choice_cdf,
    cumulative,
    first_pairs,
)
from rhocover.exploring.index import Index, no_moves, visits_of_moves
from rhocover.mdp import MDP

Act = Callable[..., None]

DRAWS = 1 << 16  # uniform numbers drawn at a time
STRETCH = 1 << 20  # steps between two looks at the clock and at Ctrl-C: some hundredths of a second


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


def steering(behaviour: Steered) -> tuple[Any, ...]:
    """Returns what the compiled loop needs to bring scores up to date."""
    model, rule = behaviour.model, behaviour
    P, pairs = model.transitions, rule.pairs
    flow = (first_pairs(model), P.indptr.astype(np.int64), P.indices.astype(np.int64), P.data)
    pairs = np.arange(model.num_pairs) if pairs is None else pairs.astype(np.int64)
    start = rule.rate[pairs]  # of the model's own pairs
    return *flow, pairs, rule.offset, rule.moved, start, rule.weight, rule.inverse, rule.period


class World(Protocol):
    """Where chains act; what a `Runner` drives."""

    num_chains: int

    @property
    def stretch(self) -> int:
        """Steps to take between two looks at the clock and at Ctrl-C."""
        ...

    def follow(self, behaviour: Behaviour) -> Any:
        """Returns the behaviour as what `advance` takes."""
        ...

    def advance(self, position: Position, act: Any, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps; changes the position and what was seen."""
        ...


class Simulator:
    """Acts in a model; `start` is a distribution over its states."""

    stretch: int = STRETCH

    def __init__(self, mdp: MDP, start: FloatArray, num_chains: int = 1) -> None:
        self.mdp = mdp
        self.num_chains = num_chains
        self._start_cdf = np.cumsum(start)
        self._start_cdf[np.flatnonzero(start)[-1] :] = 1.0
        P, rows = mdp.transitions, mdp.transitions.indptr.astype(np.int64)
        narrow = np.int32 if P.nnz < 2**31 else np.int64  # half the memory to go through at random
        self._model = (
            first_pairs(mdp), rows.astype(narrow), P.indices.astype(narrow), cumulative(P.data, rows)
        )  # fmt: skip

    def begin(self, seed: int) -> Position:
        """Returns the first position: each chain's state drawn from the start distribution."""
        generator = np.random.Generator(np.random.PCG64(seed))
        states = np.searchsorted(self._start_cdf, generator.random(self.num_chains), side="right")
        return Position(states.astype(np.int64), generator)

    def follow(self, behaviour: Behaviour) -> Act:
        """Returns the loop that acts in this way."""
        behaviour = checked_behaviour(behaviour, self.mdp)
        if isinstance(behaviour, Sampled):
            return partial(act_sampled, *self._model, choice_cdf(behaviour.policy, self.mdp))
        if isinstance(behaviour, Steered):
            return partial(act_steered, *self._model, behaviour.rate, behaviour.scale, *steering(behaviour))
        return partial(act_balanced, *self._model, behaviour.base, behaviour.rate, behaviour.scale)

    def advance(self, position: Position, act: Act, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps, counted over all chains: a multiple of their number.

        `seen` has the visits of the block so far, and takes the new ones. Uniform numbers are drawn in
        chunks from one stream, so where a stretch is cut makes no difference.
        """
        left = num_steps // self.num_chains
        while left > 0:
            rounds = min(left, max(1, DRAWS // (2 * self.num_chains)))
            uniforms = position.generator.random((rounds, self.num_chains, 2))
            act(seen.num_steps, uniforms, position.states, seen.pairs, seen.moves, seen.scores)
            left -= rounds
            seen.num_steps += rounds * self.num_chains
