"""SixArms: a hub with six arms that pay off ever more rarely.

From the hub, arm i is reached with probability 1, 0.15, 0.1, 0.05, 0.03, 0.01, otherwise the hub is
kept. Getting back is one step, so the hub alone is the bottleneck: a visit to the rarest arm costs a
hundred tries on average, and all but one of the six actions there end it (Strehl and Littman 2008).
"""

from __future__ import annotations

import numpy as np

from rhocover.envs.outcomes import outcome_matrix
from rhocover.layout import circle
from rhocover.mdp import MDP

REACH = np.array([1.0, 0.15, 0.1, 0.05, 0.03, 0.01])
WAY_BACK_FROM_FIRST = 4  # the only action that leaves arm 1


def six_arms() -> MDP:
    """Returns SixArms: a hub, state 0, and the arms 1 to 6; 6 actions.

    In the hub action i = 0, ..., 5 leads to arm i + 1 with probability 1, 0.15, 0.1, 0.05, 0.03, 0.01
    and stays otherwise. In arm 1 the action 4 leads to the hub and every other one stays. In each
    further arm k the action k - 1 stays and every other one leads to the hub. Starts in the hub.
    Communicating.
    """
    pull = np.arange(6)
    arm, action = np.arange(1, 7)[:, None], pull[None, :]
    stays = np.where(arm == 1, action != WAY_BACK_FROM_FIRST, action == arm - 1)
    outcomes = [
        (0, pull, pull + 1, REACH),
        (0, pull, 0, 1 - REACH),
        (arm, action, np.where(stays, arm, 0), 1.0),
    ]
    return MDP(
        outcome_matrix(7, 6, outcomes),
        num_actions=6,
        start=0,
        state_labels=("hub", *(f"arm {k}" for k in range(1, 7))),
        action_labels=[f"pull {k}" for k in range(1, 7)],
        layout=circle(7, centre=True),
        name="six_arms",
    )
