"""Adding: collect what makes the best union with the visits that are there.

With T visits so far and m steps to go, psi is the occupancy whose m psi improves T most (`planning.union`).
Its policy is tracked for an eighth of what is left; then the same is asked again, of what the visits then are
and of the model as it is then known. So neither luck nor what was learned meanwhile is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.exploring.behaviours import Balanced
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.simulator import Visits
from rhocover.exploring.tracking import shares
from rhocover.planning.union import best_addition

SHARE = 8  # of what is left, for one block
SHORTEST = 64  # steps of a block
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Adding:
    """Plays the best addition until `last_step`, counted with the visits before."""

    last_step: int

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns the addition that is best now, for a part of what is left."""
        problem, left = state.problem, max(1, self.last_step - state.num_steps)
        psi = best_addition(problem.members, problem.coverage, state.counts, left, tol=TOLERANCE).psi
        length = min(left, max(SHORTEST, left // SHARE))
        return Block(Balanced(np.zeros(psi.size), psi, 1 / shares(psi)), length)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)
