"""The interface of explorers: `init`, `policy`, `update`.

An explorer is a frozen object with settings. What it knows is in a `State`: `policy(state)` returns how to
act in the next block and for how long, and `update(state, visits)` returns the state after the visits of the
block. Both are pure functions: the same state gives the same block to the bit, so that runs can be resumed.
Anything that an explorer needs to remember besides the counts goes into `memory`, as arrays, and is stored
with the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.belief import Belief
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import BlockBehaviour, Visits


@dataclass(frozen=True, eq=False)
class State:
    """What an explorer knows between two blocks."""

    belief: Belief
    counts: IntArray  # visits of each pair so far, [n]
    num_steps: int
    num_blocks: int
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """The problem to plan on, by the current belief."""
        return self.belief.problem

    def after(self, visits: Visits, **memory: Any) -> State:
        """Returns the state after a block; `memory` replaces the entries of the same names."""
        return replace(
            self,
            belief=self.belief.observe(visits),
            counts=self.counts + visits.pairs,
            num_steps=self.num_steps + visits.num_steps,
            num_blocks=self.num_blocks + 1,
            memory={**self.memory, **memory},
        )


@dataclass(frozen=True, eq=False)
class Block:
    """How to act next and for how many steps; a Frank-Wolfe explorer adds its direction psi."""

    behaviour: BlockBehaviour
    num_steps: int
    direction: FloatArray | None = None
    gap: float = float("nan")  # of Frank-Wolfe: <grad U(d_hat), psi - d_hat>
    whole: bool = False  # if True, the block is not shortened when the belief wants a new problem
    in_world: bool = False  # whether the behaviour is over the world's pairs instead of the belief's


class Explorer(Protocol):
    """Decides how to act, one block at a time."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        ...

    def policy(self, state: State) -> Block:
        """Returns how to act in the next block."""
        ...

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state after a block with these visits."""
        ...


class CountsOnly:
    """The `init` and `update` of an explorer that remembers only the visits."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)


def renewed(explorer: Explorer, state: State) -> State:
    """Returns the state with its belief's new problem, which may have other pairs.

    An explorer with a method `renew(state)` adapts its memory there; one without it starts again with the
    visits so far. One with `keep_memory` keeps its memory unchanged.
    """
    belief = state.belief.renewed()
    if getattr(explorer, "keep_memory", False):
        return replace(state, belief=belief, counts=belief.counts)
    return begun(explorer, replace(state, belief=belief))


def begun(explorer: Explorer, state: State) -> State:
    """Returns the first state of an explorer that takes over the belief and visits of another state."""
    fresh, counts = explorer.init(state.belief), state.belief.counts
    state = replace(fresh, counts=counts, num_steps=state.num_steps, num_blocks=state.num_blocks)
    renew = getattr(explorer, "renew", None)
    return state if renew is None else renew(state)


def initial_state(belief: Belief, **memory: Any) -> State:
    """Returns the state before the first step."""
    return State(belief, np.zeros(belief.problem.mdp.num_pairs, np.int64), 0, 0, memory)
