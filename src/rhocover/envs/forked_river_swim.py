"""ForkedRiverSwim: two rivers from one spring, with a way across at every point but the ends.

The rivers differ in nothing but their far ends, which only swimming reaches: at the end itself there is
no crossing. An explorer must therefore climb both. After Russo and Proutiere (2023), whose program
lets the current of the first cell of river 2 carry the swimmer to the *end* of river 1 (an index one
too low); here it carries to the spring, as in river 1.
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.envs.river_swim import STRONG
from rhocover.layout import Layout
from rhocover.mdp import MDP

LEFT, RIGHT, SWITCH = range(3)


def forked_river_swim(*, length: int = 5) -> MDP:
    """Returns ForkedRiverSwim: a spring, state 0, and two rivers of length - 1 states each.

    River 1 is 1, ..., length - 1, river 2 the states after it. Left moves one state towards the
    spring, where it stays. Right: in the spring stay 0.7, first state of river 1 0.3; inside a river
    back 0.1, stay 0.6, on 0.3; at an end back 0.7, stay 0.3. Switch changes to the same place of the
    other river, and stays in the spring and at the ends. Starts in the spring. Communicating.
    At least length 3: a river needs an inside to be crossed to.
    """
    length = checks.size(length, "length", least=3)
    first = np.arange(length)
    second = np.concatenate([[0], np.arange(length, 2 * length - 1)])
    rivers = _swim(first) + _swim(second) + _cross(first, second)
    spring = [(0, [LEFT, SWITCH], 0, 1.0), *_right_from_spring()]
    num_states = 2 * length - 1
    return MDP(
        outcome_matrix(num_states, 3, spring + rivers),
        num_actions=3,
        start=0,
        state_labels=_labels(length),
        action_labels=("left", "right", "switch"),
        layout=Layout(_positions(length)),
        name="forked_river_swim",
    )


def _right_from_spring() -> list[Outcome]:
    return [(0, RIGHT, 0, 1 - STRONG.leave_first), (0, RIGHT, 1, STRONG.leave_first)]


def _swim(river: np.ndarray) -> list[Outcome]:
    """Returns left and right along one river, given as its states from the spring to the end."""
    inside, end = river[1:-1], river[-1]
    return [
        (river[1:], LEFT, river[:-1], 1.0),
        (inside, RIGHT, river[:-2], STRONG.lose),
        (inside, RIGHT, inside, 1 - STRONG.lose - STRONG.gain),
        (inside, RIGHT, river[2:], STRONG.gain),
        (end, RIGHT, river[-2], STRONG.leave_last),
        (end, RIGHT, end, 1 - STRONG.leave_last),
    ]


def _cross(first: np.ndarray, second: np.ndarray) -> list[Outcome]:
    ends = [first[-1], second[-1]]
    return [
        (first[1:-1], SWITCH, second[1:-1], 1.0),
        (second[1:-1], SWITCH, first[1:-1], 1.0),
        (ends, SWITCH, ends, 1.0),
    ]


def _labels(length: int) -> list[str]:
    return ["spring", *(f"{river}.{place}" for river in (1, 2) for place in range(1, length))]


def _positions(length: int) -> FloatArray:
    """Returns the spring at half height, the rivers above and below with room between them, `[S, 2]`."""
    x = np.arange(1.0, length)
    rivers = [np.stack([x, np.full_like(x, y)], axis=1) for y in (0.0, 1.5)]
    return np.vstack([[[0.0, 0.75]], *rivers])
