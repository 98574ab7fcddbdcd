"""RiverSwim: a chain of states in a river whose current runs left.

Swimming left, with the current, always works. Swimming right mostly stays where it is, sometimes gains
a state and sometimes loses one, so the right end is reached only by insisting. Two sets of numbers go
by the same name in the literature; both are here, under two names.

| right from      | `river_swim`                         | `river_swim_strong_current`         |
|-----------------|--------------------------------------|-------------------------------------|
| the first state | stay 0.4, right 0.6                  | stay 0.7, right 0.3                 |
| a middle state  | left 0.05, stay 0.6, right 0.35      | left 0.1, stay 0.6, right 0.3       |
| the last state  | left 0.4, stay 0.6                   | left 0.7, stay 0.3                  |

The strong current is Strehl and Littman's (2008); the other is that of Osband, Russo and Van Roy (2013).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover import checks
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.layout import line
from rhocover.mdp import MDP

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Current:
    """What swimming right does: gain or lose a state in the middle, leave either end."""

    gain: float
    lose: float
    leave_first: float
    leave_last: float


WEAK = Current(gain=0.35, lose=0.05, leave_first=0.6, leave_last=0.4)
STRONG = Current(gain=0.3, lose=0.1, leave_first=0.3, leave_last=0.7)


def river_swim(*, num_states: int = 6) -> MDP:
    """Returns RiverSwim: left always works, right works against a weak current.

    Left moves one state to the left, and stays in the first. Right: in the first state stay 0.4,
    right 0.6; in the middle left 0.05, stay 0.6, right 0.35; in the last left 0.4, stay 0.6.
    Starts in the first state. Communicating. At least 2 states.
    """
    return _river("river_swim", num_states, WEAK)


def river_swim_strong_current(*, num_states: int = 6) -> MDP:
    """Returns RiverSwim with the strong current: right is slower and the last state slips away.

    Left moves one state to the left, and stays in the first. Right: in the first state stay 0.7,
    right 0.3; in the middle left 0.1, stay 0.6, right 0.3; in the last left 0.7, stay 0.3.
    Starts in the first state. Communicating. At least 2 states.
    """
    return _river("river_swim_strong_current", num_states, STRONG)


def river_outcomes(num_states: int, current: Current) -> list[Outcome]:
    """Returns the outcomes of swimming left and right."""
    states = np.arange(num_states)
    middle, last = states[1:-1], num_states - 1
    return [
        (states, LEFT, np.maximum(states - 1, 0), 1.0),
        (0, RIGHT, 0, 1 - current.leave_first),
        (0, RIGHT, 1, current.leave_first),
        (middle, RIGHT, middle - 1, current.lose),
        (middle, RIGHT, middle, 1 - current.gain - current.lose),
        (middle, RIGHT, middle + 1, current.gain),
        (last, RIGHT, last - 1, current.leave_last),
        (last, RIGHT, last, 1 - current.leave_last),
    ]


def _river(name: str, num_states: int, current: Current) -> MDP:
    num_states = checks.size(num_states, "num_states", least=2)
    return MDP(
        outcome_matrix(num_states, 2, river_outcomes(num_states, current)),
        num_actions=2,
        start=0,
        action_labels=("left", "right"),
        layout=line(num_states, [[-1, 0], [1, 0]]),
        name=name,
    )
