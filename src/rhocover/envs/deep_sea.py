"""DeepSea: a dive of N rows in which only one sequence of actions reaches the far corner.

Every step goes down one row; left and right choose the column. Reaching the bottom right cell takes
N - 1 times right in a row, which dithering does with probability 2^-(N-1): the classic trap for
explorers without a plan (Osband et al. 2017, and the stochastic version of bsuite).
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.envs.outcomes import outcome_matrix
from rhocover.layout import Layout
from rhocover.mdp import MDP

LEFT, RIGHT = 0, 1


def deep_sea(*, size: int = 10) -> MDP:
    """Returns DeepSea: the N(N+1)/2 reachable cells of an N×N sea, as a continuing model.

    From row r, column c <= r, each step goes to row r + 1. Left: column c - 1, or 0 at the border.
    Right: column c + 1 with probability 1 - 1/N, else column c, as in bsuite (there is no mapping of
    actions by cell: action 0 is left everywhere). From the bottom row every action leads to the start,
    the cell (0, 0), so that an episode of N steps is followed by the next. Communicating. Size >= 2.
    """
    size = checks.size(size, "size", least=2)
    row, column = np.tril_indices(size)
    state = np.arange(row.size)
    below = state + row + 1  # the cell of the same column one row down
    wet = row < size - 1
    dive, left, straight = state[wet], below[wet] - (column[wet] > 0), below[wet]
    outcomes = [
        (dive, LEFT, left, 1.0),
        (dive, RIGHT, straight + 1, 1 - 1 / size),
        (dive, RIGHT, straight, 1 / size),
        (state[~wet][:, None], [LEFT, RIGHT], 0, 1.0),
    ]
    return MDP(
        outcome_matrix(state.size, 2, outcomes),
        num_actions=2,
        start=0,
        state_labels=[f"r{r}c{c}" for r, c in zip(row.tolist(), column.tolist(), strict=True)],
        action_labels=("left", "right"),
        layout=Layout(np.stack([column, row], axis=1).astype(float), np.array([[-1.0, 0.0], [1.0, 0.0]])),
        name="deep_sea",
    )
