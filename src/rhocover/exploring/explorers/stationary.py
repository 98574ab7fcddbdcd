"""Play the best policy and let the law of large numbers do the rest.

Visits then miss d* by the noise of the policy's own choices as well as by that of the world:
the pathwise regret falls as 1/n, with a constant that feedback removes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.worlds import SamplePolicy, Visits

LONG = 1 << 24  # steps of a block: nothing changes between blocks


@dataclass(frozen=True)
class Stationary:
    """Plays pi*, the policy of the best plan, at every step."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns pi*."""
        problem = state.problem
        return Block(SamplePolicy(problem.mdp.per_pair(problem.best.policy, "policy")), LONG)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)


LONG = 1 << 24
