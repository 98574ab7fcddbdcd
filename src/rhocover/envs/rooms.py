"""Grid worlds: GridWorld, FourRooms and NRoom. Four moves, random slips, walls that cannot be passed.

All maps of free cells follow one rule. A move goes in its direction with probability `success`; the rest is
divided equally among the *other* free neighbours of the cell. A move into a wall or off the map stays (again
with probability `success`). A cell without another free neighbour cannot slip, so there the intended outcome
is certain. If the free cells are connected, the model is communicating for every `success` in [0, 1].
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.layout import Layout
from rhocover.mdp import MDP

MOVES = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}  # (x, y), y points down
DIRECTIONS = np.array(list(MOVES.values()), float)


def grid_world(*, num_rows: int = 10, num_columns: int | None = None, success: float = 0.9) -> MDP:
    """Returns a GridWorld: an open rectangle of cells with the moves up, right, down, left.

    A move works with probability `success`, the rest goes in equal parts to the other neighbours of
    the cell; into a wall = stay; a cell with no other neighbour keeps all mass on the intended
    outcome. `num_columns=None` makes a square. States are in reading order. Starts in the middle,
    row num_rows // 2 and column num_columns // 2. Communicating.
    """
    num_rows = checks.size(num_rows, "num_rows", least=1)
    num_columns = num_rows if num_columns is None else num_columns
    num_columns = checks.size(num_columns, "num_columns", least=1)
    free = np.ones((num_rows, num_columns), bool)
    return cell_world(free, success, start=(num_rows // 2, num_columns // 2), name="grid_world")


def cell_world(free: BoolArray, success: float, *, start: tuple[int, int], name: str) -> MDP:
    """Returns the world of the cells marked in `free[row, column]`, in reading order."""
    success = checks.probability(success, "success")
    rows, columns = np.nonzero(free)
    number = np.full(free.shape, -1)
    number[rows, columns] = np.arange(rows.size)
    targets = _targets(number, rows, columns)
    return MDP(
        outcome_matrix(rows.size, 4, _slippery_moves(targets, success)),
        num_actions=4,
        start=int(number[start]),
        state_labels=[f"r{r}c{c}" for r, c in zip(rows.tolist(), columns.tolist(), strict=True)],
        action_labels=tuple(MOVES),
        layout=Layout(np.stack([columns, rows], axis=1).astype(float), DIRECTIONS),
        name=name,
    )


def _targets(number: IntArray, rows: IntArray, columns: IntArray) -> IntArray:
    """Returns the target of each move, `[4, S]`; that of a blocked move is the cell itself."""
    framed = np.pad(number, 1, constant_values=-1)
    here = number[rows, columns]
    there = np.stack([framed[rows + 1 + dy, columns + 1 + dx] for dx, dy in MOVES.values()])
    return np.where(there >= 0, there, here)


def _slippery_moves(targets: IntArray, success: float) -> list[Outcome]:
    states = np.arange(targets.shape[1])
    is_open = targets != states
    outcomes: list[Outcome] = []
    for action, target in enumerate(targets):
        others = [b for b in range(4) if b != action]
        num_others = is_open[others].sum(axis=0)
        slip = (1 - success) / np.maximum(num_others, 1)
        outcomes.append((states, action, target, np.where(num_others > 0, success, 1.0)))
        outcomes += [_slip(targets[b], is_open[b], action, slip) for b in others]
    return outcomes


def _slip(target: IntArray, is_open: BoolArray, action: int, probability: FloatArray) -> Outcome:
    return np.flatnonzero(is_open), action, target[is_open], probability[is_open]


# FourRooms: the grid of Sutton, Precup and Singh (1999), four rooms connected by four doors. The doors are
# the bottlenecks: to cover the rooms evenly one must pass them more often than any other cell; rho decides
# how much more.

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


# NRoom: rooms in a row, each connected to the next by one door. A random walk finds each door late and leaves
# through the wrong one half of the time, so the outer rooms are rarely visited although every single room is
# easy. After the environment of the same name in rlberry, which puts at most five rooms in a row and folds
# longer ones; here the row is never folded.

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
