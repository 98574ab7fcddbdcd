"""The contract of explorers: `init`, `policy`, `update`.

An explorer is a value with settings. What it knows is a `State`; `policy(state)` says how to act in the
next block and for how long; `update(state, visits)` takes in what the block saw. Both are pure: the same
state gives the same block to the bit, which is what makes runs resumable. Whatever an explorer needs to
remember besides the counts goes into `memory`, as arrays, and is stored with the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.belief import Belief
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import Behaviour, Visits


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
        """What is to be covered, as far as it is known."""
        return self.belief.problem

    def after(self, visits: Visits, **memory: Any) -> State:
        """Returns the state after a block; `memory` replaces entries of that name."""
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
    """How to act next, and for how many steps; a Frank-Wolfe explorer adds its direction psi."""

    behaviour: Behaviour
    num_steps: int
    direction: FloatArray | None = None
    gap: float = float("nan")  # of Frank-Wolfe: <grad U(d_hat), psi - d_hat>
    whole: bool = False  # not to be cut short where the belief wants to look again
    in_world: bool = False  # the behaviour is over the world's pairs, not over those of the belief


class Explorer(Protocol):
    """Decides how to act, one block at a time."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        ...

    def policy(self, state: State) -> Block:
        """Returns how to act in the next block."""
        ...

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state after a block that saw `visits`."""
        ...


class CountsOnly:
    """The `init` and `update` of an explorer that remembers nothing but the visits."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)


def renewed(explorer: Explorer, state: State) -> State:
    """Returns the state with its belief's new problem, over other pairs perhaps.

    An explorer says what that means for its memory with a method `renew(state)`; one without it begins
    anew with the visits so far. One with `keep_memory` goes on as it is.
    """
    belief = state.belief.renewed()
    if getattr(explorer, "keep_memory", False):
        return replace(state, belief=belief, counts=belief.counts)
    return begun(explorer, replace(state, belief=belief))


def begun(explorer: Explorer, state: State) -> State:
    """Returns the state of an explorer that begins with the belief and the visits of another state."""
    fresh, counts = explorer.init(state.belief), state.belief.counts
    state = replace(fresh, counts=counts, num_steps=state.num_steps, num_blocks=state.num_blocks)
    renew = getattr(explorer, "renew", None)
    return state if renew is None else renew(state)


def initial_state(belief: Belief, **memory: Any) -> State:
    """Returns the state of no steps."""
    return State(belief, np.zeros(belief.problem.mdp.num_pairs, np.int64), 0, 0, memory)
