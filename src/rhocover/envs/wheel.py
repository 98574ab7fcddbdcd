"""Wheel: a hub that throws onto a ring, and a ring that can be walked and left at will.

Only two kinds of pair are random, the hub's spin and the ring's noisy step; all others are
deterministic. Uniform coverage wastes most of its steps on rows that hold no surprise, which is what
the environment was made to show (Tarbouriech et al. 2020).
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.layout import circle
from rhocover.mdp import MDP

LEFT, RIGHT, SELF, CENTRE, NOISY = range(5)
SPIN = NOISY  # the fifth action spins in the centre and is the noisy step on the ring


def wheel(*, num_states: int = 5) -> MDP:
    """Returns the Wheel: a centre, state 0, and a ring of the other states; 5 actions.

    In the centre the first four actions stay and the fifth, SPIN, leads to each ring state with the
    same probability. On the ring LEFT and RIGHT lead to the neighbours, SELF stays, CENTRE leads to
    the centre, and NOISY does each of these four with probability 1/4. Starts in the centre.
    Communicating. At least 3 states; with 3, both neighbours are the same state.
    """
    num_states = checks.size(num_states, "num_states", least=3)
    return MDP(
        outcome_matrix(num_states, 5, _centre(num_states) + _ring(num_states)),
        num_actions=5,
        start=0,
        state_labels=("centre", *(f"ring {i}" for i in range(1, num_states))),
        action_labels=("left", "right", "self", "centre", "noisy/spin"),
        layout=circle(num_states, centre=True),
        name="wheel",
    )


def _centre(num_states: int) -> list[Outcome]:
    return [
        (0, np.arange(SPIN), 0, 1.0),
        (0, SPIN, np.arange(1, num_states), 1 / (num_states - 1)),
    ]


def _ring(num_states: int) -> list[Outcome]:
    place = np.arange(num_states - 1)
    left = 1 + (place - 1) % place.size
    right = 1 + (place + 1) % place.size
    targets = {LEFT: left, RIGHT: right, SELF: place + 1, CENTRE: 0}
    sure = [(place + 1, action, target, 1.0) for action, target in targets.items()]
    noisy = [(place + 1, NOISY, target, 1 / 4) for target in targets.values()]
    return sure + noisy
