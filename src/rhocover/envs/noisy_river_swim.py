"""NoisyRiverSwim: RiverSwim with a lottery in every state.

Two more actions, `odd` and `even`. The one that matches the parity of the state throws the swimmer to a
uniformly drawn state, the other one does nothing. The lottery rows are the noisy ones, so a model
estimator must visit them far more often than the rest: the point of the test (Tarbouriech et al. 2020).
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.envs.river_swim import WEAK, river_outcomes
from rhocover.layout import line
from rhocover.mdp import MDP

ODD, EVEN = 2, 3


def noisy_river_swim(*, num_states: int = 12) -> MDP:
    """Returns NoisyRiverSwim: RiverSwim plus, in every state, one action that jumps anywhere.

    Left and right are those of `river_swim`. In state s = 0, 1, ... the action `odd` (if s is odd) or
    `even` (if s is even) leads to each of the S states with probability 1/S; the other one stays.
    Numbering the states from 1 instead would only swap the two labels. The rows of the jumps are full,
    so the model holds about S^2 numbers. Starts in the first state. Communicating. At least 2 states.
    """
    num_states = checks.size(num_states, "num_states", least=2)
    outcomes = river_outcomes(num_states, WEAK) + _lottery(num_states)
    return MDP(
        outcome_matrix(num_states, 4, outcomes),
        num_actions=4,
        start=0,
        action_labels=("left", "right", "odd", "even"),
        layout=line(num_states, [[-1, 0], [1, 0], [0, 0], [0, 0]]),
        name="noisy_river_swim",
    )


def _lottery(num_states: int) -> list[Outcome]:
    states = np.arange(num_states)
    jump = np.where(states % 2 == 1, ODD, EVEN)
    return [
        (states[:, None], jump[:, None], states[None, :], 1 / num_states),
        (states, ODD + EVEN - jump, states, 1.0),
    ]
