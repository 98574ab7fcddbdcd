"""FourRooms: the grid of Sutton, Precup and Singh (1999), four rooms joined by four doors.

The doors are the bottlenecks: whoever covers the rooms evenly passes them more often than any other
cell, and how much more is decided by rho.
"""

from __future__ import annotations

import numpy as np

from rhocover.envs.grid_world import cell_world
from rhocover.mdp import MDP

PLAN = (
    ".....#.....",
    ".....#.....",
    "...........",
    ".....#.....",
    ".....#.....",
    "#.####.....",
    ".....###.##",
    ".....#.....",
    ".....#.....",
    "...........",
    ".....#.....",
)


def four_rooms(*, success: float = 2 / 3) -> MDP:
    """Returns FourRooms: 104 free cells on an 11×11 map, doors at (2, 5), (5, 1), (6, 8), (9, 5).

    Doors are given as (row, column). Moves follow the rule of `grid_world`: `success`, the source's
    2/3 by default, and the rest in equal parts on the other free neighbours (the source gives 1/9 to
    each other direction, walls included). Starts in the top left corner. Communicating.
    """
    free = np.array([[cell == "." for cell in row] for row in PLAN])
    return cell_world(free, success, start=(0, 0), name="four_rooms")
