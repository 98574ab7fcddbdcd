"""NRoom: rooms in a row, each joined to the next by one door.

A random walk finds each door late and leaves through the wrong one half of the time, so the outer rooms
are seldom seen although every single room is easy. After the environment of the same name in rlberry,
which puts at most five rooms in a row and folds longer ones; here the row is never folded.
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.envs.grid_world import cell_world
from rhocover.mdp import MDP

ROOM = 5  # cells along one side
MIDDLE = ROOM // 2


def n_room(*, num_rooms: int = 5, success: float = 0.95) -> MDP:
    """Returns NRoom: `num_rooms` rooms of 5×5 cells in a row, doors in the middle of the walls.

    25·num_rooms cells and num_rooms - 1 doors, each a cell of its own in the middle row of a wall one
    cell thick. Moves follow the rule of `grid_world`. Starts in the middle of room num_rooms // 2
    (counted from 0). Communicating.
    """
    num_rooms = checks.size(num_rooms, "num_rooms", least=1)
    free = np.ones((ROOM, num_rooms * (ROOM + 1) - 1), bool)
    free[:, ROOM :: ROOM + 1] = False
    free[MIDDLE] = True
    start = (MIDDLE, (num_rooms // 2) * (ROOM + 1) + MIDDLE)
    return cell_world(free, success, start=start, name="n_room")
