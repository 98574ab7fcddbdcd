"""The tracking explorer: plays, in each state, the action furthest behind its share, argmin_a T(s,a)/d*(s,a).

Choosing actions by their counts removes the noise of the policy's choices. The states themselves are still
visited more or less often than planned, which is not corrected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.exploring.explorers import Block, CountsOnly, State
from rhocover.exploring.problem import positive_shares
from rhocover.exploring.worlds import LowestScore

LONG = 1 << 24  # steps of a block: nothing changes between blocks


@dataclass(frozen=True)
class Tracking(CountsOnly):
    """Keeps the counts of a state's actions in proportion to the best plan."""

    def policy(self, state: State) -> Block:
        """Returns the rule with the counts so far as its base."""
        base, nothing = state.counts + state.problem.idle, np.zeros(state.counts.size)
        return Block(LowestScore(base, nothing, 1 / positive_shares(state.problem.d_star)), LONG)
