"""The stationary explorer: plays the best policy at every step.

By the law of large numbers the visits converge to d*. They deviate from it by the noise of the policy's own
choices as well as by that of the transitions: the pathwise regret falls as 1/n, with a constant that feedback
removes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhocover.exploring.explorers import Block, CountsOnly, State
from rhocover.exploring.worlds import SamplePolicy

LONG = 1 << 24  # steps of a block: nothing changes between blocks


@dataclass(frozen=True)
class Stationary(CountsOnly):
    """Plays pi*, the policy of the best plan, at every step."""

    def policy(self, state: State) -> Block:
        """Returns pi*."""
        problem = state.problem
        return Block(SamplePolicy(problem.mdp.per_pair(problem.best.policy, "policy")), LONG)
