"""DoubleChain: a line that can be walked both ways, with slips in the opposite direction.

Left and right play the same part, so the uniform policy visits every pair equally often: the uniform
occupancy is attainable and optimal for every rho. An explorer that does badly here has no excuse.
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.envs.outcomes import outcome_matrix
from rhocover.layout import line
from rhocover.mdp import MDP

LEFT, RIGHT = 0, 1


def double_chain(*, num_states: int = 31, failure: float = 0.1) -> MDP:
    """Returns the DoubleChain: two actions, each slips into the opposite one with `failure`.

    The intended move happens with probability 1 - failure, the opposite one with `failure`; a move
    beyond an end stays there. Starts in the middle, state num_states // 2. Communicating for every
    `failure` in [0, 1]. At least 2 states. Published runs use 0.05 and 0.1.
    """
    num_states = checks.size(num_states, "num_states", least=2)
    failure = checks.probability(failure, "failure")
    states = np.arange(num_states)
    left, right = np.maximum(states - 1, 0), np.minimum(states + 1, num_states - 1)
    outcomes = [
        (states, LEFT, left, 1 - failure),
        (states, LEFT, right, failure),
        (states, RIGHT, right, 1 - failure),
        (states, RIGHT, left, failure),
    ]
    return MDP(
        outcome_matrix(num_states, 2, outcomes),
        num_actions=2,
        start=num_states // 2,
        action_labels=("left", "right"),
        layout=line(num_states, [[-1, 0], [1, 0]]),
        name="double_chain",
    )
