"""RiverSwim and its variants: chains of states in a river whose current runs left.

Swimming left, with the current, always works. Swimming right mostly stays, sometimes gains a state and
sometimes loses one, so the right end is reached only by swimming right again and again. Two sets of numbers
have the same name in the literature; both are here, under two names.

| right from      | `river_swim`                         | `river_swim_strong_current`         |
|-----------------|--------------------------------------|-------------------------------------|
| the first state | stay 0.4, right 0.6                  | stay 0.7, right 0.3                 |
| a middle state  | left 0.05, stay 0.6, right 0.35      | left 0.1, stay 0.6, right 0.3       |
| the last state  | left 0.4, stay 0.6                   | left 0.7, stay 0.3                  |

The strong current is that of Strehl and Littman (2008); the other is that of Osband, Russo and Van Roy
(2013). ForkedRiverSwim and NoisyRiverSwim are described in their sections below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.layout import Layout, line
from rhocover.mdp import MDP

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Current:
    """The probabilities of swimming right: to gain or lose a state in the middle, to leave either end."""

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


# ForkedRiverSwim: two rivers from one spring, with a crossing at every state but the ends. The rivers differ
# only in their far ends, which are reached only by swimming, because there is no crossing at the end itself.
# An explorer must therefore swim up both. After Russo and Proutiere (2023), in whose program the current of
# the first state of river 2 leads to the *end* of river 1 (an index one too low); here it leads to the
# spring, as in river 1.

FORK_LEFT, FORK_RIGHT, SWITCH = range(3)


def forked_river_swim(*, length: int = 5) -> MDP:
    """Returns ForkedRiverSwim: a spring, state 0, and two rivers of length - 1 states each.

    River 1 is 1, ..., length - 1, river 2 the states after it. Left moves one state towards the
    spring, where it stays. Right: in the spring stay 0.7, first state of river 1 0.3; inside a river
    back 0.1, stay 0.6, on 0.3; at an end back 0.7, stay 0.3. Switch changes to the same place of the
    other river, and stays in the spring and at the ends. Starts in the spring. Communicating.
    The length is at least 3, because a river needs a state between spring and end for crossings.
    """
    length = checks.size(length, "length", least=3)
    first = np.arange(length)
    second = np.concatenate([[0], np.arange(length, 2 * length - 1)])
    rivers = _swim(first) + _swim(second) + _cross(first, second)
    spring = [(0, [FORK_LEFT, SWITCH], 0, 1.0), *_right_from_spring()]
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
    return [(0, FORK_RIGHT, 0, 1 - STRONG.leave_first), (0, FORK_RIGHT, 1, STRONG.leave_first)]


def _swim(river: np.ndarray) -> list[Outcome]:
    """Returns left and right along one river, given as its states from the spring to the end."""
    inside, end = river[1:-1], river[-1]
    return [
        (river[1:], FORK_LEFT, river[:-1], 1.0),
        (inside, FORK_RIGHT, river[:-2], STRONG.lose),
        (inside, FORK_RIGHT, inside, 1 - STRONG.lose - STRONG.gain),
        (inside, FORK_RIGHT, river[2:], STRONG.gain),
        (end, FORK_RIGHT, river[-2], STRONG.leave_last),
        (end, FORK_RIGHT, end, 1 - STRONG.leave_last),
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


# NoisyRiverSwim: RiverSwim with a random jump in every state. Of two more actions, `odd` and `even`, the one
# that matches the parity of the state leads to a uniformly drawn state, the other one stays. The rows of the
# jumps are the noisy ones, so to estimate the model they must be visited far more often than the rest, which
# is the point of the test (Tarbouriech et al. 2020).

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
