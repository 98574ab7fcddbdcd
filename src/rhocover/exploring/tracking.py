"""Play, in each state, the action that is furthest behind its share: argmin_a T(s,a)/d*(s,a).

Deterministic counts take the noise of the policy's choices away; what is left is that the states
themselves are visited more or less often than planned, and that is not corrected for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray
from rhocover.exploring.behaviours import Balanced
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.problem import Problem
from rhocover.exploring.simulator import Visits

LONG = 1 << 24
SMALLEST_SHARE = 1e-9  # of 1/n: a pair with less is visited once and then left alone
NEGLIGIBLE = 1e-3  # of 1/n: a pair of no weight with less is not visited for its own sake


@dataclass(frozen=True)
class Tracking:
    """Keeps the counts of a state's actions in proportion to the best plan."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns the rule with the counts so far as its base."""
        base, nothing = state.counts + one_too_many(state.problem), np.zeros(state.counts.size)
        return Block(Balanced(base, nothing, 1 / shares(state.problem.d_star)), LONG)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)


def shares(d_star: FloatArray) -> FloatArray:
    """Returns d*, at least a little everywhere, so that one can divide by it."""
    return np.maximum(d_star, SMALLEST_SHARE / d_star.size)


def one_too_many(problem: Problem) -> FloatArray:
    """Returns 1 for pairs of no weight that the plan hardly visits, 0 elsewhere.

    Added to the counts it makes up for visits being whole numbers: a pair whose share is next to nothing
    would be behind until its first visit, and get it for nothing.
    """
    idle = ~problem.coverage.support & (problem.d_star < NEGLIGIBLE / problem.d_star.size)
    return idle.astype(float)
